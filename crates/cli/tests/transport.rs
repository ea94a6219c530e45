//! Transfers over every transport through a real lab: their results, what helps them on the way, and that nothing of
//! it is left.

use crate::support;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use support::container::events;
use support::host::Host;
use support::lab::Lab;
use support::{judged, skip_figures, until};

/// Four stations, two pairs far from each other; ground links of 20 Mbit/s with queues of 200 ms. `end` is the
/// scenario's end: what stands on the way, and the flows.
fn scenario(dir: &Path, name: &str, seconds: u32, end: &str) -> PathBuf {
    let file = dir.join(format!("{name}.yaml"));
    let text = format!(
        "constel: 1\nname: {name}\nseed: 3\nstart: 2026-11-21T05:14:00Z\nduration: {seconds} s\n\
         constellations:\n  iridium:\n    preset: iridium\n\
         \x20   isl: {{pattern: plus-grid, seam: false, polar_cutoff: 60 deg, max_range: 6000 km, link: {{rate: 100 Mbit/s, queue: 1 MiB}}}}\n\
         \x20   gsl: {{min_elevation: 8.2 deg, policy: nearest, link: {{rate: 20 Mbit/s, queue: 512 KiB}}}}\n\
         ground:\n  stations:\n    tokyo: {{latitude: 35.7 deg, longitude: 139.7 deg}}\n\
         \x20   delhi: {{latitude: 28.6 deg, longitude: 77.2 deg}}\n    lima: {{latitude: -12 deg, longitude: -77 deg}}\n\
         \x20   new-york: {{latitude: 40.7 deg, longitude: -74 deg}}\n{end}"
    );
    fs::write(&file, text).unwrap();
    file
}

/// Runs it until all flows have ended and gives the summary. Busy hosts may make its figures untrustworthy, which says nothing about
/// what is tested here.
fn run(name: &str, file: &Path, dir: &Path) -> Value {
    let flows = fs::read_to_string(file)
        .unwrap()
        .matches("- {name: ")
        .count();
    let mut lab = Lab::up(name, file, dir, &[]);
    until("the end of all flows", || {
        (events(&lab, "flow-ended").len() == flows).then_some(())
    });
    let status = lab.interrupt();
    assert!(
        matches!(status.code(), Some(0 | 3 | 130)),
        "{status}: {}",
        lab.stderr()
    );
    lab.summary()
}

fn flow<'a>(summary: &'a Value, name: &str) -> &'a Value {
    let mut flows = summary["flows"].as_array().unwrap().iter();
    let flow = flows.find(|flow| flow["name"] == name).unwrap();
    assert_eq!(flow["status"], "ok", "{flow}");
    assert!(
        flow["owd"]["min_ns"].as_u64() > Some(5_000_000),
        "farther than that: {flow}"
    );
    assert!(
        flow["sent_bytes"].as_u64() >= flow["received_bytes"].as_u64(),
        "{flow}"
    );
    flow
}

/// Whether the queue that a congestion control keeps may be judged: it remembers for seconds what one late frame made it lose, so
/// that no sample may be marked.
fn is_undisturbed(flow: &Value) -> bool {
    if flow["marked_samples"] != 0 {
        skip_figures(&flow["late_worst_ns"]);
        return false;
    }
    judged(flow)
}

fn owd_ms(flow: &Value) -> f64 {
    flow["owd"]["p50_ns"].as_f64().unwrap() / 1e6
}

fn mbps(flow: &Value) -> f64 {
    flow["throughput_bps"].as_f64().unwrap() / 1e6
}

/// Names in the kernel's list of congestion controls.
fn congestion_controls() -> String {
    fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap()
}

#[test]
fn every_transport_gives_a_row() {
    let _host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let before = congestion_controls();
    let end = "\
routing: {families: [ipv4, ipv6]}
transport:
  leotp: {satellites: 50 %, set: [cache_bytes=4194304]}
traffic:
  - {name: leotp, at: 1 s, for: 110 s, leotp: {from: delhi, to: tokyo, size: 2 MB, variant: beyond, records: true}}
  - {name: leotp6, at: 1 s, for: 110 s, leotp: {from: new-york, to: lima, size: 1 MB, family: ipv6}}
  - {name: cubic, at: 8 s, for: 5 s, tcp: {from: delhi, to: tokyo, congestion: cubic}}
  - {name: vegas, at: 8 s, for: 5 s, tcp: {from: new-york, to: lima, congestion: vegas}}
  - {name: hybla, at: 14 s, for: 3 s, tcp: {from: delhi, to: tokyo, congestion: hybla, family: ipv6}}
  - {name: westwood, at: 14 s, for: 3 s, tcp: {from: new-york, to: lima, congestion: westwood}}
  - {name: vivace, at: 18 s, for: 6 s, vivace: {from: delhi, to: tokyo}}
";
    let file = scenario(dir.path(), "transports", 120, end);
    let summary = run("transports", &file, dir.path());
    for name in [
        "leotp", "leotp6", "cubic", "vegas", "hybla", "westwood", "vivace",
    ] {
        let flow = flow(&summary, name);
        println!(
            "{name}: {:.2} Mbit/s, {:.1} ms one way",
            mbps(flow),
            owd_ms(flow)
        );
        assert!(!judged(flow) || mbps(flow) > 0.5, "{flow}");
    }
    assert_eq!(flow(&summary, "leotp")["received_bytes"], 2_000_000);
    assert_eq!(flow(&summary, "leotp6")["received_bytes"], 1_000_000);
    // One fills the queue, the other keeps it short.
    let (cubic, vegas) = (flow(&summary, "cubic"), flow(&summary, "vegas"));
    let queue = |flow: &Value| owd_ms(flow) - flow["owd"]["min_ns"].as_f64().unwrap() / 1e6;
    if is_undisturbed(cubic) && is_undisturbed(vegas) {
        assert!(queue(vegas) < queue(cubic) / 2.0, "{vegas} {cubic}");
    }

    let helpers = &summary["transport"][0];
    assert_eq!(helpers["kind"], "leotp-midnode");
    assert_eq!(helpers["nodes"].as_array().unwrap().len(), 33);
    assert_eq!(helpers["cpu_s"]["count"], 33, "each gave its last words");
    let results = dir.path().join(summary["lab"].as_str().unwrap());
    let records = fs::read_to_string(results.join("flows/leotp.records.csv")).unwrap();
    assert_eq!(records.lines().count(), 1 + 2_000_000 / 1400);
    assert_eq!(congestion_controls(), before, "the kernel has what it had");
}

/// Windows must grow again after a loss, which a link without random loss does not show: its queue fills before they have to.
#[test]
fn our_congestion_controls_recover_from_losses() {
    let _host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let end = "\
routing: {families: [ipv4]}
traffic:
  - {name: hybla, at: 1 s, for: 10 s, tcp: {from: delhi, to: tokyo, congestion: hybla}}
  - {name: vegas, at: 1 s, for: 10 s, tcp: {from: new-york, to: lima, congestion: vegas}}
";
    let file = scenario(dir.path(), "recover", 12, end);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("512 KiB}", "512 KiB, loss: 0.3 %}")).unwrap();
    let summary = run("recover", &file, dir.path());
    for name in ["hybla", "vegas"] {
        let flow = flow(&summary, name);
        println!("{name}: {:.2} Mbit/s", mbps(flow));
        // Windows that stay at two segments carry 0.5 Mbit/s over round trips of 50 ms.
        assert!(!judged(flow) || mbps(flow) > 1.2, "{flow}");
    }
}

#[test]
fn split_tcp_passes_every_byte_in_the_clients_name() {
    let _host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let end = "\
routing: {families: [ipv4, ipv6]}
transport:
  split_tcp: {satellites: 100 %, congestion: reno}
traffic:
  - {name: v4, at: 1 s, for: 110 s, tcp: {from: delhi, to: tokyo, size: 3 MB}}
  - {name: v6, at: 1 s, for: 110 s, tcp: {from: new-york, to: lima, size: 3 MB, family: ipv6}}
";
    let file = scenario(dir.path(), "split", 120, end);
    let summary = run("split", &file, dir.path());
    for name in ["v4", "v6"] {
        assert_eq!(flow(&summary, name)["received_bytes"], 3_000_000);
    }
    assert_eq!(summary["transport"][0]["kind"], "split-tcp");
    let results = dir.path().join(summary["lab"].as_str().unwrap());
    let mut taken = 0;
    for entry in fs::read_dir(results.join("transport")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        taken += last["taken"].as_u64().unwrap();
    }
    // A satellite or more on each way; paths do not change within seconds.
    assert!(taken >= 4, "{taken} connections were split");
}
