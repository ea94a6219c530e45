//! Agents as services: a unit of systemd, manifests of Kubernetes. Neither is started here.

use crate::support;

use std::fs;
use std::process::Command;

use support::{CONSTEL, finish, skip, stderr, workspace};

/// systemd understands every line of the unit, and finds the program that it is to start.
#[test]
fn systemd_takes_the_unit() {
    let verify = |text: &str| {
        let place = tempfile::tempdir().unwrap();
        let unit = place.path().join("constel-agent.service");
        // The package's path is empty during the test, so the unit names the built program.
        fs::write(&unit, text.replace("/usr/bin/constel", CONSTEL)).unwrap();
        let mut command = Command::new("systemd-analyze");
        command.args(["verify", "--man=no"]).arg(&unit);
        let output = finish(command);
        (output.status.success(), stderr(&output))
    };
    if Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_err()
    {
        skip("there is no systemd-analyze here");
        return;
    }
    let unit = workspace().join("tools/systemd/constel-agent.service");
    let text = fs::read_to_string(unit).unwrap();
    let (well, said) = verify(&text);
    assert!(well && !said.contains("constel-agent.service"), "{said}");
    let (_, said) = verify(&text.replace("Restart=on-failure", "Restart=whenever"));
    assert!(
        said.contains("whenever"),
        "what is wrong is noticed: {said}"
    );
}

/// Kubernetes' own schema takes the manifests, and they fit together.
#[test]
fn kubernetes_takes_the_manifests() {
    let mut command = Command::new(workspace().join("tools/kubernetes/check"));
    command.env("CONSTEL", CONSTEL);
    let output = finish(command);
    match output.status.code() {
        Some(77) => skip(&stderr(&output)),
        code => {
            let faults = String::from_utf8_lossy(&output.stdout);
            assert_eq!(code, Some(0), "{faults}{}", stderr(&output));
        }
    }
}
