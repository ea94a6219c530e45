//! The shipped `scenarios/containers.yaml`: every node of an image that `scenarios/images/make` makes of this host's packages,
//! satellites that route from the information in their nodes, and a video that plays. Needs root, busybox-static, bird2, nginx-light
//! and ffmpeg.

use crate::support;

use std::fs;
use std::process::Command;

use serde_json::Value;
use support::host::{Host, LABS};
use support::{CONSTEL, finish, long, stderr, workspace};

#[test]
fn a_video_plays_from_image_to_image_over_satellites_that_configure_themselves() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().join("results");
    let mut make = Command::new(workspace().join("scenarios/images/make"));
    make.args(["bird", "nginx-video", "ffmpeg-client"]);
    make.env("CONSTEL", CONSTEL)
        .env("XDG_CACHE_HOME", dir.path());
    let made = finish(make);
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    let mut command = Command::new(CONSTEL);
    command
        .args(["run", "--json", "--name", &format!("{LABS}video")])
        .args(["--for", if long() { "90s" } else { "45s" }, "--results"])
        .arg(&results)
        .arg(workspace().join("scenarios/containers.yaml"))
        .env("XDG_CACHE_HOME", dir.path());
    let output = finish(command);
    let told = stderr(&output);
    // How well this machine kept up is for other tests.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{told}");

    let summary = fs::read(results.join("summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&summary).unwrap();
    let flows = summary["flows"].as_array().unwrap();
    assert_eq!(flows.len(), 2);
    let handovers = summary["handovers"].as_array().unwrap();
    let player = fs::read_to_string(results.join("flows/video.err")).unwrap();
    let last = player.rsplit("frame=").next().unwrap();
    let frames: u32 = last.split_whitespace().next().unwrap().parse().unwrap();
    if long() {
        for flow in flows {
            assert_eq!(flow["status"], "ok", "{flow}");
        }
        assert!(handovers.len() >= 2, "{handovers:?}");
        // All 60 s at 25 frames a second.
        assert_eq!(frames, 1500, "{player}");
    } else {
        // The lab ends 25 s after the player began. It stops at the first frame that it cannot decode.
        for flow in flows {
            assert_eq!(flow["status"], "cut-short", "{flow}");
        }
        assert!(!handovers.is_empty(), "{handovers:?}");
        assert!((250..=700).contains(&frames), "{player}");
    }
    host.assert_as_before("a lab of images");
}
