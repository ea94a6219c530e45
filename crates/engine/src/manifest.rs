//! `manifest.json`: everything one needs to know to repeat a run, or to doubt it.

use std::fs;

use constel_drivers::Chosen;
use constel_plan::Lab;
use serde_json::{Value, json};

/// Written before the lab comes up.
pub(crate) fn manifest(
    lab: &Lab,
    driver: &Chosen,
    name: &str,
    duration_ns: u64,
    traffic: bool,
) -> Value {
    let scenario = &lab.scenario;
    json!({
        "constel": env!("CARGO_PKG_VERSION"),
        "lab": name,
        "scenario": scenario.name,
        "seed": scenario.seed,
        "start": scenario.start,
        "duration_ns": duration_ns,
        "step_ns": lab.step_ns(),
        "clock_hold": scenario.clock_hold,
        "routing": scenario.routing,
        "traffic": traffic,
        "inputs": scenario.inputs,
        "left_out": lab.left_out.len(),
        "driver": {
            "name": driver.kind,
            "why": driver.why,
            "capabilities": driver.kind.capabilities(),
        },
        "runtime": "netns",
        "host": host(),
        "command_line": std::env::args().collect::<Vec<_>>(),
    })
}

fn host() -> Value {
    let read = |path: &str| {
        fs::read_to_string(path)
            .map(|text| text.trim().to_owned())
            .ok()
    };
    let cpu_model = read("/proc/cpuinfo").and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    json!({
        "kernel": read("/proc/sys/kernel/osrelease"),
        "cpus": std::thread::available_parallelism().map_or(1, |n| n.get()),
        "cpu_model": cpu_model,
        "memory_bytes": memory_bytes("MemTotal:"),
        "load_average": read("/proc/loadavg"),
    })
}

/// What the hypervisor says it took of all processors since boot, nanoseconds in steps of 10 ms; 0 on bare metal.
pub(crate) fn stolen_ns() -> u64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = text
        .lines()
        .next()
        .and_then(|line| line.split_ascii_whitespace().nth(8));
    ticks.and_then(|t| t.parse::<u64>().ok()).unwrap_or(0) * 10_000_000
}

/// A field of `/proc/meminfo`, bytes.
pub(crate) fn memory_bytes(field: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with(field))?;
    Some(line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}
