//! Bad input of every kind that only shows at the command: the exact message, the exit code, and that the
//! host is as before. `tests/golden/NAME.stderr` holds the message; `CONSTEL_BLESS=1` writes it again: read
//! the
//! diff before committing. Errors of the scenario file itself have their own goldens in `crates/scenario`.

use crate::support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::host::{Host, LABS};
use support::lab::Lab;
use support::{CONSTEL, finish, scenario, stderr, stdout, workspace};

/// A command line to be refused, run in `dir` so that files are named without their folder.
fn refused(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(CONSTEL);
    // Without a PATH only the system's folders are searched: the same words everywhere.
    command.args(args).current_dir(dir).env("PATH", "");
    finish(command)
}

/// Compares the message with the golden file, and the exit code.
fn assert_said(name: &str, output: &Output, code: i32, vary: &[(&str, &str)]) {
    let mut said = stderr(output).replace(&LABS.to_string(), "cli-test-");
    for (text, placeholder) in vary {
        assert!(said.contains(text), "{name}: no '{text}' in:\n{said}");
        said = said.replace(text, placeholder);
    }
    assert_eq!(output.status.code(), Some(code), "{name}: {said}");
    assert_eq!(stdout(output), "", "{name}: data of something refused");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(format!("{name}.stderr"));
    if std::env::var_os("CONSTEL_BLESS").is_some() {
        fs::write(golden, said).unwrap();
    } else {
        assert_eq!(
            said,
            fs::read_to_string(golden).unwrap_or_default(),
            "{name}"
        );
    }
}

/// A scenario whose satellites come from `elements`, a `tle` or an `omm` file.
fn from_elements(dir: &Path, kind: &str, file: &str) -> PathBuf {
    let text = format!(
        "constel: 1
name: elements
start: 2022-09-14T14:00:00Z
duration: 10 s
constellations:
  sat:
    {kind}:
      file: {file}
      strict: true
      shells:
        - {{name: s1, altitude: 780 km, inclination: 86.4 deg, altitude_tolerance: 50 km, inclination_tolerance: 1 deg, planes: 1}}
    isl: {{pattern: none}}
    gsl: {{min_elevation: 5 deg, policy: nearest, link: {{rate: 10 Mbit/s}}}}
ground:
  stations:
    west: {{latitude: 0 deg, longitude: 0 deg}}
"
    );
    scenario::write(dir, "elements.yaml", &text)
}

const TLE: &str = "IRIDIUM 7 [-]
1 24793U 97020B   22257.50747357  .00000297  00000+0  98432-4 0  9996
2 24793  86.3944 238.2679 0002181  91.8042 268.3404 14.34536528327510
IRIDIUM 5 [-]
1 24795U 97020D   22257.50747357  .00000297  00000+0  98432-4 0  9998
2 24795  86.3944 238.2679 0002181  91.8042 268.3404 14.34536528327512
";

#[test]
fn element_files_that_cannot_be_read() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    from_elements(dir, "tle", "some.tle");
    scenario::write(dir, "some.tle", TLE);
    let good = refused(dir, &["check", "elements.yaml"]);
    assert_eq!(good.status.code(), Some(0), "{}", stderr(&good));

    // Line 5: a letter in the mean motion's place. Line 2: the last digit changed.
    let letter = TLE.replace(
        "1 24795U 97020D   22257.50747357",
        "1 24795U 97020D   22257.5074x357",
    );
    let digit = TLE.replacen("98432-4 0  9996", "98432-4 0  9995", 1);
    let short = TLE.replacen("  91.8042 268.3404 14.34536528327510", "", 1);
    for (name, text) in [
        ("tle-line", letter),
        ("tle-checksum", digit),
        ("tle-short-line", short),
    ] {
        assert_ne!(text, TLE);
        scenario::write(dir, "some.tle", &text);
        assert_said(name, &refused(dir, &["check", "elements.yaml"]), 4, &[]);
        assert_said(name, &refused(dir, &["run", "elements.yaml"]), 4, &[]);
    }
    from_elements(dir, "omm", "some.json");
    for (name, text) in [
        (
            "omm-syntax",
            "[{\"OBJECT_NAME\": \"A\",\n  \"NORAD_CAT_ID\": }]",
        ),
        (
            "omm-field",
            "[{\"OBJECT_NAME\": \"A\", \"NORAD_CAT_ID\": 1, \"EPOCH\": \"today\"}]",
        ),
    ] {
        scenario::write(dir, "some.json", text);
        assert_said(
            name,
            &refused(dir, &["plan", "elements.yaml", "--json"]),
            4,
            &[],
        );
    }
    host.assert_as_before("after element files");
}

#[test]
fn what_the_host_lacks_is_said_before_anything_is_made() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let run = [
        "run",
        "small.yaml",
        "--name",
        &format!("{LABS}lacking"),
        "--results",
        "results",
    ];
    let traffic = "traffic:
  - {name: mine, at: 1 s, for: 2 s, run: {node: west, command: [no-such-command, --flag]}}
  - {name: yours, at: 1 s, for: 2 s, run: {node: east, command: [/no/such/tool]}}
";
    scenario::small(dir, "small.yaml", "{mode: computed}", traffic);
    let own = Path::new(CONSTEL).parent().unwrap().to_str().unwrap();
    assert_said(
        "no-such-command",
        &refused(dir, &run),
        5,
        &[(own, "<BESIDE CONSTEL>")],
    );

    let traffic = "traffic:
  - {name: bulk, at: 1 s, for: 2 s, iperf3: {from: west, to: east, congestion: no-such-cc}}
";
    scenario::small(dir, "small.yaml", "{mode: computed}", traffic);
    let has = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    assert_said(
        "no-such-congestion",
        &refused(dir, &run),
        5,
        &[(has.trim(), "<WHAT IT HAS>")],
    );

    // A host without BIRD: in a mount namespace of its own, where something else lies over it.
    scenario::small(dir, "small.yaml", "{mode: bird}", "");
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c"])
        .arg("mount --bind /dev/null /usr/sbin/bird && PATH= && exec \"$0\" \"$@\"")
        .arg(CONSTEL)
        .args(run)
        .current_dir(dir);
    assert_said("no-bird", &finish(command), 5, &[]);
    assert!(
        !dir.join("results").exists(),
        "no results of what was refused"
    );
    host.assert_as_before("after what the host lacks");
}

#[test]
fn without_root_nothing_is_made_and_plans_can_still_be_read() {
    let host = Host::take();
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
    scenario::small(dir, "small.yaml", "{mode: computed}", "");
    // The folder of the binary may be closed to others.
    let binary = dir.join("constel");
    fs::copy(CONSTEL, &binary).unwrap();
    let nobody = |args: &[&str]| {
        let mut command = Command::new(&binary);
        command.args(args).current_dir(dir).uid(65534).gid(65534);
        finish(command)
    };
    assert_said(
        "no-root",
        &nobody(&["run", "small.yaml", "--results", "/tmp/never"]),
        5,
        &[],
    );
    assert_said("no-root", &nobody(&["clean"]), 5, &[]);
    assert_said(
        "no-root",
        &nobody(&["exec", "lab", "node", "--", "true"]),
        5,
        &[],
    );
    assert_said("no-root", &nobody(&["shell", "lab", "node"]), 5, &[]);
    for args in [
        &["check", "small.yaml"][..],
        &["plan", "small.yaml", "--json"],
    ] {
        let output = nobody(args);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
    host.assert_as_before("after nobody");
}

#[test]
fn command_lines_that_make_no_sense() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    scenario::small(dir, "small.yaml", "{mode: computed}", "");
    let cases: &[(&str, &[&str])] = &[
        ("unknown-verb", &["rnu", "small.yaml"]),
        ("unknown-flag", &["run", "small.yaml", "--resluts", "x"]),
        ("no-file", &["run"]),
        ("for-nothing", &["run", "small.yaml", "--for", "0s"]),
        ("for-without-unit", &["run", "small.yaml", "--for", "5"]),
        ("bad-lab-name", &["run", "small.yaml", "--name", "My Lab"]),
        ("plan-before-start", &["plan", "small.yaml", "--at=-1s"]),
    ];
    for (name, args) in cases {
        assert_said(name, &refused(dir, args), 2, &[]);
    }
    // Bad input of a scenario, at the command: the whole way from file to exit code.
    let bad = workspace().join("crates/scenario/tests/errors");
    let output = refused(
        &bad,
        &["run", "unknown-key.yaml", "--results", "/tmp/never"],
    );
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(
        stderr(&output),
        fs::read_to_string(bad.join("unknown-key.stderr")).unwrap()
    );
    assert!(!Path::new("/tmp/never").exists());
    host.assert_as_before("after bad command lines");
}

#[test]
fn a_name_that_is_taken() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::small(dir.path(), "small.yaml", "{mode: computed}", "");
    let mut lab = Lab::up("taken", &file, dir.path(), &[]);
    let pid = lab.child.id().to_string();
    let run = [
        "run",
        "small.yaml",
        "--name",
        &format!("{LABS}taken"),
        "--results",
        "other",
    ];
    let output = refused(dir.path(), &run);
    assert_said("name-taken", &output, 2, &[(&pid, "<PID>")]);
    let output = refused(dir.path(), &["clean", &lab.name]);
    assert_said("clean-of-the-living", &output, 2, &[(&pid, "<PID>")]);
    // The lab did not notice.
    assert_eq!(lab.child.try_wait().unwrap(), None);
    lab.kill9();
    let output = refused(dir.path(), &run);
    assert_said("name-of-the-dead", &output, 2, &[]);
    let output = refused(dir.path(), &["exec", &lab.name, "west", "--", "true"]);
    assert_said("exec-in-the-dead", &output, 1, &[]);
    drop(lab);
    host.assert_as_before("after the name was free again");
}
