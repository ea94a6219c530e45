//! `manifest.json`: the data that is needed to repeat a run or to check it.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use constel_api::manifest::{
    Area, DataAge, Driver, DriverThreads, HelloTimers, Host, Input, Manifest, Ospf, OspfSamples,
    OspfTimers, Section, command_line,
};
use constel_api::summary::DOCUMENTS;
use constel_drivers::relay::Relay;
use constel_drivers::{Chosen, DriverKind};
use constel_measure::verdict::Bounds;
use constel_plan::{Lab, ospf_areas};
use constel_scenario::model::{ClockHold, Igp, NodeSoftware, Scenario, StackTime};

use crate::answers::catalogued;
use crate::life::limits;
use crate::life::threads::RelayThreads;
use crate::nodes::settings::node_settings;

/// Returns the manifest, which is written before the lab comes up.
///
/// # Errors
/// When a part of the scenario cannot be written as JSON.
pub(crate) fn manifest(
    lab: &Lab,
    driver: &Chosen,
    name: &str,
    duration_ns: Option<u64>,
    traffic: bool,
    several: bool,
) -> io::Result<Manifest> {
    let scenario = &lab.scenario;
    // Only the relay has threads of its own.
    let relay = driver.kind == DriverKind::Relay;
    let threads = relay.then(|| RelayThreads::of(lab, several));
    let inputs = scenario.inputs.iter().map(|input| Input {
        path: input.path.clone(),
        bytes: input.bytes,
        sha256: input.sha256.clone(),
    });
    let settings = node_settings(scenario).into_iter();
    Ok(Manifest {
        version: DOCUMENTS,
        constel: env!("CARGO_PKG_VERSION").to_owned(),
        lab: name.to_owned(),
        scenario: scenario.name.to_string(),
        seed: scenario.seed,
        start: scenario.start,
        duration_ns,
        step_ns: lab.step_ns(),
        clock_hold: match scenario.clock_hold {
            ClockHold::UntilRoutesConverge => "until-routes-converge",
            ClockHold::None => "none",
        }
        .to_owned(),
        routing: Section::of(&scenario.routing)?,
        node_settings: settings
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
        ospf: ospf(lab)?,
        traffic,
        inputs: inputs.collect(),
        left_out: lab.left_out.len(),
        data_ages: data_ages(lab),
        catalogued: catalogued(lab, lab.catalogue.all()),
        // Known only once the images are held.
        images: Vec::new(),
        driver: Driver {
            name: driver.kind,
            why: driver.why.clone(),
            capabilities: driver.kind.capabilities().into(),
            grain_ns: scenario.grain.ns(),
            threads: threads.map(|threads| DriverThreads {
                count: threads.count,
                why: threads.why,
                processors: Relay::processors(),
            }),
            deducts_stack_time: relay.then(|| scenario.stack_time == StackTime::Deducted),
        },
        bounds: bounds(scenario),
        runtime: runtimes(lab),
        host: host(),
        between: None,
        host_settings: limits::raised(lab.wired_ports().count()),
        command_line: command_line(),
    })
}

/// Returns the names of the runtimes of the lab's nodes.
fn runtimes(lab: &Lab) -> String {
    let word = |software: &NodeSoftware| match &software.container {
        None if software.forwards => "forward",
        None => "netns",
        Some(container) if container.by_engine => "docker",
        Some(_) => "oci",
    };
    let found: BTreeSet<&str> = lab.software.iter().map(word).collect();
    let known = ["netns", "oci", "docker", "forward"];
    let used: Vec<&str> = known.into_iter().filter(|w| found.contains(w)).collect();
    used.join(", ")
}

/// Returns the age of the data in the scenario's files.
#[must_use]
pub fn data_ages(lab: &Lab) -> Vec<DataAge> {
    let ages = lab.ages.iter().map(|age| DataAge {
        constellation: age.constellation.clone(),
        file: age.file.clone(),
        median_days: age.median_days,
        farthest_days: age.farthest_days,
        warning: age.warning.clone(),
    });
    ages.collect()
}

/// Returns the bounds for the verdict of the run.
#[must_use]
pub fn bounds(scenario: &Scenario) -> Bounds {
    Bounds::with_lateness(scenario.max_lateness.ns().unsigned_abs())
}

/// Returns the timers that slow OSPF down, next to the sample values of RFC 2328 (appendix C.3), and its areas.
/// `None` without OSPF.
///
/// # Errors
/// When a part of the scenario cannot be written as JSON.
fn ospf(lab: &Lab) -> io::Result<Option<Ospf>> {
    let routing = lab.scenario.routing.mode.daemons();
    let Some(routing) = routing.filter(|r| r.protocol == Igp::Ospf) else {
        return Ok(None);
    };
    // The areas were checked when the lab was laid out.
    let areas = ospf_areas(lab).unwrap_or_default();
    let rows = areas.as_ref().map(|areas| {
        let rows = areas.rows(&lab.layout).into_iter().map(|row| Area {
            shell: row.shell,
            area: row.area,
            satellites: row.satellites,
            border_routers: row.border_routers,
        });
        rows.collect()
    });
    Ok(Some(Ospf {
        timers: OspfTimers {
            hello_s: routing.timers.hello_s,
            dead_s: routing.timers.dead_s,
            ground: HelloTimers {
                hello_s: routing.ospf.ground.hello_s,
                dead_s: routing.ospf.ground.dead_s,
            },
            retransmit_s: routing.ospf.retransmit_s,
            tick_s: routing.ospf.tick_s,
        },
        rfc2328_samples: OspfSamples {
            hello_s: 10,
            dead_s: 40,
            retransmit_s: 5,
        },
        areas: rows,
        lasers_in_no_area: areas.as_ref().map(constel_routing::Areas::unused),
        start: Section::of(&routing.start)?,
        kernel_events: routing.kernel_events,
    }))
}

fn host() -> Host {
    let read = |path: &str| {
        fs::read_to_string(path)
            .map(|text| text.trim().to_owned())
            .ok()
    };
    // Some architectures have no model name in /proc/cpuinfo.
    let cpu_model = read("/proc/cpuinfo").and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    Host {
        kernel: read("/proc/sys/kernel/osrelease"),
        cpus: std::thread::available_parallelism().map_or(1, |n| n.get()),
        cpu_model,
        memory_bytes: constel_host::limits::memory_bytes("MemTotal:"),
        load_average: read("/proc/loadavg"),
    }
}

/// Returns the time that the hypervisor reports to have taken from all processors since boot, nanoseconds in steps
/// of 10 ms; 0 on bare metal.
pub(crate) fn stolen_ns() -> u64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    // The first line of /proc/stat sums all processors; field 8 is `steal`, in ticks of 10 ms.
    let ticks = text
        .lines()
        .next()
        .and_then(|line| line.split_ascii_whitespace().nth(8));
    ticks.and_then(|t| t.parse::<u64>().ok()).unwrap_or(0) * 10_000_000
}
