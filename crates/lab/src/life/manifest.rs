//! `manifest.json`: everything one needs to know to repeat a run, or to doubt it.

use std::collections::BTreeMap;
use std::fs;

use constel_drivers::Chosen;
use constel_observe::verdict::Bounds;
use constel_plan::{Lab, ospf_areas};
use constel_scenario::model::{Igp, Scenario};
use serde_json::{Value, json};

use crate::life::bring_up::node_settings;
use crate::life::limits;

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
        "node_settings": node_settings(scenario).into_iter().collect::<BTreeMap<_, _>>(),
        "ospf": ospf(lab),
        "traffic": traffic,
        "inputs": scenario.inputs,
        "left_out": lab.left_out.len(),
        "data_ages": *lab.ages,
        "driver": {
            "name": driver.kind,
            "why": driver.why,
            "capabilities": driver.kind.capabilities(),
            "grain_ns": scenario.grain.ns(),
        },
        "bounds": bounds(scenario),
        "runtime": "netns",
        "host": host(),
        "host_settings": limits::raised(lab.layout.ports().len()),
        "command_line": std::env::args().collect::<Vec<_>>(),
    })
}

/// What the run will be measured against.
#[must_use]
pub fn bounds(scenario: &Scenario) -> Bounds {
    Bounds::with_lateness(scenario.max_lateness.ns().unsigned_abs())
}

/// What slows OSPF down, next to what RFC 2328 (appendix C.3) gives as samples; and how it is cut. Null without OSPF.
fn ospf(lab: &Lab) -> Value {
    let routing = lab.scenario.routing.mode.daemons();
    let Some(routing) = routing.filter(|r| r.protocol == Igp::Ospf) else {
        return Value::Null;
    };
    // Checked when the lab was laid out.
    let areas = ospf_areas(lab).unwrap_or_default();
    json!({
        "timers": {
            "hello_s": routing.timers.hello_s,
            "dead_s": routing.timers.dead_s,
            "ground": routing.ospf.ground,
            "retransmit_s": routing.ospf.retransmit_s,
            "tick_s": routing.ospf.tick_s,
        },
        "rfc2328_samples": {"hello_s": 10, "dead_s": 40, "retransmit_s": 5},
        "areas": areas.as_ref().map(|areas| areas.rows(&lab.layout)),
        "lasers_in_no_area": areas.as_ref().map(constel_routing::Areas::unused),
        "start": routing.start,
        "kernel_events": routing.kernel_events,
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

/// Since boot, the time in which some program waited for a processor, nanoseconds in steps of 1 us. `None` where the
/// kernel does not count it.
pub(crate) fn processor_wait_ns() -> Option<u64> {
    let text = fs::read_to_string("/proc/pressure/cpu").ok()?;
    let some = text.lines().find(|line| line.starts_with("some "))?;
    let total_us: u64 = some.rsplit_once("total=")?.1.parse().ok()?;
    Some(total_us * 1000)
}

/// A field of `/proc/meminfo`, bytes.
pub(crate) fn memory_bytes(field: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with(field))?;
    Some(line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}
