//! What the machines of a lab left, made one: one summary, one verdict, which names the machine at fault.

use std::collections::BTreeMap;

use constel_agent::labs::{Ended, Led};
use constel_api::manifest::Manifest;
use constel_api::summary::{LostRow, MachineRow, Summary};
use constel_observe::verdict::{Fidelity, Machine, Verdict};

/// What is read of that which the machines left.
#[derive(Debug, Default)]
pub(super) struct Left {
    summaries: BTreeMap<String, Summary>,
    /// Of one of them: they differ in nothing but the host.
    pub(super) manifest: Option<Manifest>,
}

impl Left {
    /// A machine left this file.
    pub(super) fn learn(&mut self, machine: &str, path: &str, bytes: &[u8]) {
        match path {
            "summary.json" => {
                let summary = serde_json::from_slice(bytes).ok();
                self.summaries
                    .extend(summary.map(|summary| (machine.to_owned(), summary)));
            }
            "manifest.json" => {
                let manifest = serde_json::from_slice(bytes).ok();
                self.manifest = self.manifest.take().or(manifest);
            }
            _ => {}
        }
    }
}

/// The summary of all; `None` when no machine left one.
///
/// `gone` has, for each machine, what the lab went on without: such a machine's own figures are no longer the lab's where there are
/// others, but for its flows.
pub(super) fn merge(
    lab: &str,
    (led, gone): (&Led, &[Option<LostRow>]),
    left: Left,
    interrupted: bool,
) -> Option<Summary> {
    let Left { mut summaries, .. } = left;
    let rows: Vec<MachineRow> = led
        .machines
        .iter()
        .zip(gone)
        .map(|(ended, gone)| row(ended, gone.clone(), summaries.get(&ended.machine)))
        .collect();
    let reasons = reasons(led, gone, &summaries);
    let mut flows_of_lost = Vec::new();
    for row in rows.iter().filter(|row| row.lost.is_some()) {
        if summaries.len() > 1 {
            let own = summaries.remove(&row.machine);
            flows_of_lost.extend(own.into_iter().flat_map(|summary| summary.flows));
        }
    }
    let latest = summaries
        .iter()
        .max_by_key(|(_, summary)| summary.fidelity.lateness_p99_ns);
    let latest = latest.map(|(machine, _)| machine.clone())?;
    let base = summaries.remove(&latest)?;
    let others: Vec<Summary> = summaries.into_values().collect();
    let all = || std::iter::once(&base).chain(&others);
    let mut fidelity = fidelity_of(all());
    let trusted = all().all(|summary| summary.verdict.trustworthy);
    fidelity.failures = reasons.clone();
    let handovers = (0..base.handovers.len()).map(|place| {
        let mut row = base.handovers[place].clone();
        let seen = || all().filter_map(|summary| summary.handovers.get(place));
        row.routes_stood_after_ns = seen().filter_map(|row| row.routes_stood_after_ns).max();
        row.lost_probes = seen()
            .filter_map(|row| row.lost_probes)
            .reduce(|a, b| a + b);
        row
    });
    let handovers = handovers.collect();
    let mut flows: Vec<_> = all().flat_map(|summary| summary.flows.clone()).collect();
    flows.extend(flows_of_lost);
    flows.sort_by(|a, b| (a.at_ns, &a.name).cmp(&(b.at_ns, &b.name)));
    let mut times = base.times;
    for other in &others {
        times.nodes_s = times.nodes_s.max(other.times.nodes_s);
        times.edges_s = times.edges_s.max(other.times.edges_s);
        times.bring_up_s = times.bring_up_s.max(other.times.bring_up_s);
        times.take_down_s = times.take_down_s.max(other.times.take_down_s);
    }
    let lab_time_ns = all().map(|summary| summary.lab_time_ns).min();
    let trustworthy = trusted && reasons.is_empty();
    Some(Summary {
        lab: lab.to_owned(),
        interrupted: interrupted || led.ended.is_some(),
        lab_time_ns: lab_time_ns.unwrap_or(0),
        times,
        handovers,
        flows,
        fidelity,
        machines: rows,
        verdict: Verdict {
            trustworthy,
            reasons,
        },
        ..base
    })
}

fn row(ended: &Ended, lost: Option<LostRow>, summary: Option<&Summary>) -> MachineRow {
    MachineRow {
        machine: ended.machine.clone(),
        nodes: ended.nodes,
        trustworthy: summary.map(|summary| summary.verdict.trustworthy),
        failure: ended.failure.clone(),
        results: (!ended.files.is_empty()).then(|| format!("machines/{}", ended.machine)),
        lost,
    }
}

/// Everything that makes the figures untrustworthy, each with the machine at fault.
fn reasons(
    led: &Led,
    gone: &[Option<LostRow>],
    summaries: &BTreeMap<String, Summary>,
) -> Vec<String> {
    let mut reasons = Vec::new();
    let all = led.machines.iter().zip(gone);
    for (
        Ended {
            machine, failure, ..
        },
        gone,
    ) in all
    {
        reasons.extend(gone.iter().map(|gone| lost_in_words(machine, gone)));
        let summary = summaries.get(machine);
        let own = summary.map_or(&[][..], |summary| &summary.verdict.reasons);
        let told = |failure: &&String| !own.iter().any(|reason| reason.contains(failure.as_str()));
        let failure = failure.as_ref().filter(told);
        let all = own.iter().chain(failure);
        reasons.extend(all.map(|reason| format!("machine {machine}: {reason}")));
        if summary.is_none() && failure.is_none() {
            reasons.push(format!("machine {machine}: it left no summary"));
        }
    }
    let plans = summaries
        .iter()
        .filter_map(|(machine, summary)| Some((machine, summary.plans.as_ref()?)));
    let plans: Vec<_> = plans.collect();
    if let Some((first, one)) = plans.first() {
        let differs = plans
            .iter()
            .find(|(_, plan)| plan.steps == one.steps && plan.hash != one.hash);
        if let Some((second, _)) = differs {
            reasons.push(format!(
                "machines {first} and {second} planned different steps"
            ));
        }
    }
    reasons
}

/// So many nodes of a lost machine are named in the verdict; all of them are in the machine's row.
const NAMED: usize = 4;

fn lost_in_words(machine: &str, gone: &LostRow) -> String {
    let named: Vec<&str> = gone.nodes.iter().take(NAMED).map(String::as_str).collect();
    let more = gone.nodes.len() - named.len();
    let and_more = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "machine {machine}: it was lost, and the lab went on without its {} nodes from lab time {} s on: {}{and_more}",
        gone.nodes.len(),
        gone.from_ns as f64 / 1e9,
        named.join(", ")
    )
}

fn fidelity_of<'a>(all: impl Iterator<Item = &'a Summary>) -> Fidelity {
    all.map(|summary| summary.fidelity.clone())
        .reduce(|mut sum, own| {
            sum.frames_released += own.frames_released;
            sum.lateness_p99_ns = sum.lateness_p99_ns.max(own.lateness_p99_ns);
            sum.lateness_max_ns = sum.lateness_max_ns.max(own.lateness_max_ns);
            sum.own_lateness_p99_ns = sum.own_lateness_p99_ns.max(own.own_lateness_p99_ns);
            sum.machine = both(sum.machine, own.machine);
            sum.frames_early += own.frames_early;
            for (cause, count) in own.unintended_drops {
                match sum
                    .unintended_drops
                    .iter_mut()
                    .find(|(known, _)| *known == cause)
                {
                    Some((_, known)) => *known += count,
                    None => sum.unintended_drops.push((cause, count)),
                }
            }
            sum.steps_late += own.steps_late;
            sum.steps += own.steps;
            sum.step_lateness_max_ns = sum.step_lateness_max_ns.max(own.step_lateness_max_ns);
            sum
        })
        .unwrap_or_default()
}

fn both(a: Machine, b: Machine) -> Machine {
    let ratio = [a.processor_wait_ratio, b.processor_wait_ratio];
    Machine {
        stalls: a.stalls + b.stalls,
        stalled_ns: a.stalled_ns + b.stalled_ns,
        longest_stall_ns: a.longest_stall_ns.max(b.longest_stall_ns),
        in_run_queue_ns: a.in_run_queue_ns + b.in_run_queue_ns,
        steal_ns: a.steal_ns + b.steal_ns,
        processor_wait_ratio: ratio.into_iter().flatten().reduce(f64::max),
    }
}
