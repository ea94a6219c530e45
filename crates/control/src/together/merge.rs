//! The merged results of a lab's machines: one summary, and one verdict, which names the machine at fault.

use std::collections::BTreeMap;

use constel_api::manifest::{Manifest, UsedImage};
use constel_api::summary::{
    ChangeRow, ChannelRow, Convergence, DaemonsRow, FlowRow, FlowStatus, HandoverRow, LostRow,
    MachineRow, Size, Summary,
};
use constel_cluster::agent::labs::{Ended, LabOutcome};
use constel_lab::{MachineSamples, OUTCOMES_FILE, record_convergence};
use constel_measure::flows::learn_sent;
use constel_measure::verdict::{Fidelity, Machine, Software, Verdict};
use constel_plan::Lab;

/// The data that is read from the results of the machines.
#[derive(Debug, Default)]
pub(super) struct Left {
    summaries: BTreeMap<String, Summary>,
    /// The paths over its nodes that each machine recorded.
    ways: BTreeMap<String, Vec<u8>>,
    /// The output of flow servers, by flow.
    servers: BTreeMap<String, String>,
    /// The manifest of one machine. Manifests differ only in the host and in the images of the nodes. This one has all
    /// images.
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
                let manifest: Option<Manifest> = serde_json::from_slice(bytes).ok();
                self.manifest = match (self.manifest.take(), manifest) {
                    (Some(known), Some(other)) => Some(with_images(known, other.images)),
                    (known, other) => known.or(other),
                };
            }
            OUTCOMES_FILE => drop(self.ways.insert(machine.to_owned(), bytes.to_vec())),
            path => {
                let flow = path.strip_prefix("flows/");
                let flow = flow.and_then(|name| name.strip_suffix(".server.log"));
                let said = String::from_utf8_lossy(bytes);
                self.servers
                    .extend(flow.map(|flow| (flow.to_owned(), said.into_owned())));
            }
        }
    }
}

/// The manifest, where nodes of another machine are made of these images.
fn with_images(mut manifest: Manifest, images: Vec<UsedImage>) -> Manifest {
    for image in images {
        let mut known = manifest.images.iter_mut();
        match known.find(|known| (&known.name, &known.id) == (&image.name, &image.id)) {
            Some(known) => known.nodes += image.nodes,
            None => manifest.images.push(image),
        }
    }
    manifest
}

/// Returns the channel rows of all machines. A machine reports only the channel members that it runs.
fn channels_of<'a>(all: impl Iterator<Item = &'a Summary>) -> Vec<ChannelRow> {
    let mut rows: Vec<ChannelRow> = Vec::new();
    let mut places: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for row in all.flat_map(|summary| &summary.channels) {
        let place = *places
            .entry((&row.network, &row.node))
            .or_insert(rows.len());
        let Some(known) = rows.get_mut(place) else {
            rows.push(row.clone());
            continue;
        };
        known.sent += row.sent;
        known.airtime_ns += row.airtime_ns;
        known.received += row.received;
        known.collisions += row.collisions;
        known.missed_while_sending += row.missed_while_sending;
        known.noise += row.noise;
        known.refused_full += row.refused_full;
        known.refused_long += row.refused_long;
    }
    rows
}

/// The summary of all; `None` when no machine left one.
///
/// `gone` contains the loss of each lost machine. If there are other machines, such a machine's own measurements do not
/// count for the lab, except for those of its flows.
pub(super) fn merge(
    (name, lab): (&str, &Lab),
    (led, gone): (&LabOutcome, &[Option<LostRow>]),
    left: Left,
    interrupted: bool,
) -> Option<Summary> {
    let Left {
        mut summaries,
        ways,
        servers,
        ..
    } = left;
    let rows: Vec<MachineRow> = led
        .machines
        .iter()
        .zip(gone)
        .map(|(ended, gone)| row(ended, gone.clone(), summaries.get(&ended.machine)))
        .collect();
    let mut reasons = reasons(led, gone, &summaries, |summary| &summary.verdict.reasons);
    let failures = self::reasons(led, gone, &summaries, |summary| &summary.fidelity.failures);
    let mut software = Software::default();
    let failed = summaries.values().flat_map(|own| &own.software.failures);
    failed.for_each(|failure| software.fail(failure.clone()));
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
    let mut daemons = daemons_of(&latest, &base);
    for (machine, summary) in &summaries {
        daemons.extend(daemons_of(machine, summary));
    }
    // The name of the first phase is the last one in the alphabet, so `when` sorts in descending order.
    daemons.sort_by(|a, b| {
        let by = (&b.when, &a.program, &a.machine);
        by.cmp(&(&a.when, &b.program, &b.machine))
    });
    let others: Vec<Summary> = summaries.into_values().collect();
    let all = || std::iter::once(&base).chain(&others);
    let convergence: Vec<_> = all().map(|summary| &summary.convergence).collect();
    let convergence = convergence_of(&convergence);
    let mut fidelity = fidelity_of(all());
    let trusted = all().all(|summary| summary.verdict.trustworthy);
    fidelity.failures = failures;
    let (mut handovers, mut changes) = happened(&base, &others);
    if !ways.is_empty() {
        let noted = rows.iter().map(|row| MachineSamples {
            text: ways.get(&row.machine).map_or(&[], Vec::as_slice),
            lost_from_ns: row.lost.as_ref().map(|lost| lost.from_ns),
        });
        let noted: Vec<MachineSamples<'_>> = noted.collect();
        record_convergence(lab, &noted, &mut handovers, &mut changes);
    }
    let mut flows: Vec<_> = all().flat_map(|summary| summary.flows.clone()).collect();
    // One that its machine had not begun may have run where its node came to be.
    flows_of_lost.retain(|lost| flows.iter().all(|row| row.name != lost.name));
    flows.extend(flows_of_lost);
    for row in &mut flows {
        if learn_server(row, &servers) {
            let affected = row.affected();
            reasons.extend(affected.clone());
            fidelity.affected_flows.extend(affected);
        }
    }
    flows.sort_by(|a, b| (a.at_ns, &a.name).cmp(&(b.at_ns, &b.name)));
    let mut times = base.times;
    for other in &others {
        times.nodes_s = times.nodes_s.max(other.times.nodes_s);
        times.edges_s = times.edges_s.max(other.times.edges_s);
        times.daemons_s = times.daemons_s.max(other.times.daemons_s);
        let held_back_s = other.times.daemons_held_back_s;
        times.daemons_held_back_s = times.daemons_held_back_s.max(held_back_s);
        times.bring_up_s = times.bring_up_s.max(other.times.bring_up_s);
        times.take_down_s = times.take_down_s.max(other.times.take_down_s);
    }
    let lab_time_ns = all().map(|summary| summary.lab_time_ns).min();
    let size = Size {
        containers: all().map(|summary| summary.size.containers).sum(),
        ..base.size
    };
    let trustworthy = trusted && reasons.is_empty();
    Some(Summary {
        lab: name.to_owned(),
        interrupted: interrupted || led.ended.is_some(),
        lab_time_ns: lab_time_ns.unwrap_or(0),
        size,
        times,
        channels: channels_of(all()),
        // Each machine watches its own nodes.
        stacks: all().flat_map(|summary| summary.stacks.clone()).collect(),
        transport: all()
            .flat_map(|summary| summary.transport.clone())
            .collect(),
        convergence,
        daemons,
        handovers,
        changes,
        flows,
        fidelity,
        crossed: Vec::new(),
        machines: rows,
        verdict: Verdict {
            trustworthy,
            reasons,
        },
        software,
        ..base
    })
}

/// Handovers, which all machines planned, and changes.
fn happened(base: &Summary, others: &[Summary]) -> (Vec<HandoverRow>, Vec<ChangeRow>) {
    let all = || std::iter::once(base).chain(others);
    let handovers = (0..base.handovers.len()).map(|place| {
        let mut row = base.handovers[place].clone();
        let seen = || all().filter_map(|summary| summary.handovers.get(place));
        row.converged_after_ns = latest_of(seen().map(|row| row.converged_after_ns));
        row.lost_probes = sum_of(seen().map(|row| row.lost_probes));
        row
    });
    let changes: Vec<_> = all().map(|summary| summary.changes.as_slice()).collect();
    (handovers.collect(), changes_of(&changes))
}

/// The latest; `None` when one is not known.
fn latest_of(all: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    all.collect::<Option<Vec<u64>>>()?.into_iter().max()
}

/// The sum of those that are known; `None` without any.
fn sum_of(all: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    all.flatten().reduce(u64::saturating_add)
}

/// Returns the convergence of the whole lab: the time at which routes have first converged on all machines, and the number
/// of checked pairs. Each machine checks the pairs of its own stations, and counts the control traffic until its own routes
/// have converged.
fn convergence_of(rows: &[&Convergence]) -> Convergence {
    let first_s = rows.iter().map(|row| row.first_s);
    let first_s = first_s.collect::<Option<Vec<f64>>>();
    Convergence {
        first_s: first_s.and_then(|all| all.into_iter().reduce(f64::max)),
        pairs: rows.iter().map(|row| row.pairs).sum(),
        control: None,
    }
}

/// Returns the cost of a machine's daemons, with the machine's name.
fn daemons_of<'a>(machine: &str, summary: &'a Summary) -> Vec<DaemonsRow> {
    let named = |row: &'a DaemonsRow| DaemonsRow {
        machine: Some(machine.to_owned()),
        ..row.clone()
    };
    summary.daemons.iter().map(named).collect()
}

/// Rows of a machine that are merged: no machine writes more, and each is compared with those before it.
const MOST_CHANGES: usize = 10_000;

/// Returns the changes of all machines, sorted by time and without duplicates. If not all machines have seen a change, such
/// as the death of a daemon, its duration for the whole lab is unknown.
fn changes_of(all: &[&[ChangeRow]]) -> Vec<ChangeRow> {
    let mut seen: Vec<(ChangeRow, usize)> = Vec::new();
    let rows = all.iter().flat_map(|rows| rows.iter().take(MOST_CHANGES));
    for row in rows {
        let same = |(known, _): &&mut (ChangeRow, usize)| {
            (known.t_ns, known.kind) == (row.t_ns, row.kind)
                && (&known.cause, &known.objects) == (&row.cause, &row.objects)
        };
        let Some((known, times)) = seen.iter_mut().find(same) else {
            seen.push((row.clone(), 1));
            continue;
        };
        let stood = [known.converged_after_ns, row.converged_after_ns];
        known.converged_after_ns = latest_of(stood.into_iter());
        known.lost_probes = sum_of([known.lost_probes, row.lost_probes].into_iter());
        *times += 1;
    }
    seen.sort_by_key(|(row, _)| row.t_ns);
    let whole = seen.into_iter().map(|(mut row, times)| {
        row.converged_after_ns = row.converged_after_ns.filter(|_| times == all.len());
        row
    });
    whole.collect()
}

/// Adds the sender's results from another machine to a transfer. Returns whether the flow is affected because these cannot
/// be read.
fn learn_server(row: &mut FlowRow, servers: &BTreeMap<String, String>) -> bool {
    let is_transfer = ["leotp", "tcp", "vivace"].contains(&row.kind.as_str());
    let is_half = row.status == FlowStatus::Ok && row.outcome.sent_bytes.is_none();
    if let Some(said) = servers.get(&row.name).filter(|_| is_transfer && is_half)
        && let Err(error) = learn_sent(&mut row.outcome, said)
    {
        row.trustworthy = Some(false);
        row.doubt.get_or_insert_with(|| error.to_string());
        return true;
    }
    false
}

fn row(ended: &Ended, lost: Option<LostRow>, summary: Option<&Summary>) -> MachineRow {
    MachineRow {
        machine: ended.machine.clone(),
        nodes: ended.nodes,
        trustworthy: summary.map(|summary| summary.verdict.trustworthy),
        failure: ended.failure.clone(),
        results: (!ended.files.is_empty()).then(|| format!("machines/{}", ended.machine)),
        crossed: summary.map_or_else(Vec::new, |summary| summary.crossed.clone()),
        lost,
    }
}

/// Everything that makes the figures untrustworthy, each with the machine at fault. `of` has a machine's own reasons, or some of
/// them.
fn reasons(
    led: &LabOutcome,
    gone: &[Option<LostRow>],
    summaries: &BTreeMap<String, Summary>,
    of: fn(&Summary) -> &[String],
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
        let own = summary.map_or(&[][..], of);
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

/// Maximum number of a lost machine's nodes that the verdict names. The machine's row names all of them.
const NAMED: usize = 4;

fn lost_in_words(machine: &str, gone: &LostRow) -> String {
    let named: Vec<&str> = gone.nodes.iter().take(NAMED).map(String::as_str).collect();
    let more = gone.nodes.len() - named.len();
    let and_more = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let then: Vec<String> = gone
        .moved
        .iter()
        .map(|moved| {
            let (count, to) = (moved.nodes.len(), &moved.to);
            format!(
                "{count} restarted on machine {to}, and were back at {} s",
                moved.from_ns as f64 / 1e9
            )
        })
        .collect();
    let then = match then.is_empty() {
        true => String::new(),
        false => format!("; {}", then.join("; ")),
    };
    format!(
        "machine {machine}: it was lost, and the lab continued without its {} nodes from lab time {} s on: {}{and_more}{then}",
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
            for (cause, count) in own.emulator_drops {
                match sum
                    .emulator_drops
                    .iter_mut()
                    .find(|(known, _)| *known == cause)
                {
                    Some((_, known)) => *known += count,
                    None => sum.emulator_drops.push((cause, count)),
                }
            }
            sum.steps_late += own.steps_late;
            sum.steps += own.steps;
            sum.affected_flows.extend(own.affected_flows);
            sum.step_lateness_max_ns = sum.step_lateness_max_ns.max(own.step_lateness_max_ns);
            sum
        })
        .unwrap_or_default()
}

fn both(a: Machine, b: Machine) -> Machine {
    let ratio = [a.processor_wait_ratio, b.processor_wait_ratio];
    let speeds = [a.least_speed_ratio, b.least_speed_ratio];
    Machine {
        stalls: a.stalls + b.stalls,
        stalled_ns: a.stalled_ns + b.stalled_ns,
        longest_stall_ns: a.longest_stall_ns.max(b.longest_stall_ns),
        in_run_queue_ns: a.in_run_queue_ns + b.in_run_queue_ns,
        steal_ns: a.steal_ns + b.steal_ns,
        slow_ns: a.slow_ns.max(b.slow_ns),
        least_speed_ratio: speeds.into_iter().flatten().reduce(f64::min),
        processor_wait_ratio: ratio.into_iter().flatten().reduce(f64::max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_api::summary::ChangeKind;
    use constel_api::summary::MovedRow;
    use constel_measure::flows::{Outcome, parse_received};

    fn change(kind: ChangeKind, object: &str, stood_ms: Option<u64>) -> ChangeRow {
        ChangeRow {
            t_ns: 5,
            kind,
            cause: "storm".to_owned(),
            objects: vec![object.to_owned()],
            converged_after_ns: stood_ms.map(|ms| ms * 1_000_000),
            lost_probes: stood_ms,
            control: None,
        }
    }

    #[test]
    fn who_has_what_a_lost_machine_had_is_in_the_verdict() {
        let gone = LostRow {
            from_ns: 8_000_000_000,
            nodes: vec!["a".to_owned(), "b".to_owned()],
            moved: vec![MovedRow {
                to: "m2".to_owned(),
                from_ns: 11_000_000_000,
                nodes: vec!["b".to_owned()],
            }],
        };
        assert_eq!(
            lost_in_words("m1", &gone),
            "machine m1: it was lost, and the lab continued without its 2 nodes from lab time 8 s on: a, b; 1 restarted on machine m2, \
             and were back at 11 s"
        );
    }

    #[test]
    fn a_change_is_there_once_and_as_slow_as_on_the_slowest_machine() {
        let failure = |stood_ms| change(ChangeKind::Failure, "a-b", stood_ms);
        let merged = |all: &[&[ChangeRow]]| {
            let rows = changes_of(all).into_iter();
            let ms = |ns: Option<u64>| ns.map(|ns| ns / 1_000_000);
            rows.map(|row| (ms(row.converged_after_ns), row.lost_probes))
                .collect::<Vec<_>>()
        };
        let slow = merged(&[&[failure(Some(3))], &[failure(Some(8))]]);
        assert_eq!(slow, [(Some(8), Some(11))]);
        let unknown = merged(&[&[failure(Some(3))], &[failure(None)]]);
        assert_eq!(unknown, [(None, Some(3))]);
        // If only one machine has seen an event, the event's end on the other machines is unknown.
        let death = change(ChangeKind::DaemonDied, "bird in a", Some(3));
        let other = change(ChangeKind::DaemonDied, "bird in b", Some(3));
        let died = merged(&[std::slice::from_ref(&death), &[]]);
        assert_eq!(died, [(None, Some(3))]);
        assert_eq!(merged(&[&[death], &[other]]).len(), 2);
    }

    #[test]
    fn routes_stand_when_those_of_all_machines_do() {
        let row = |first_s, pairs| Convergence {
            first_s,
            pairs,
            control: None,
        };
        let merged = |a: &Convergence, b: &Convergence| convergence_of(&[a, b]);
        let both = merged(&row(Some(2.0), 90), &row(Some(7.0), 92));
        assert_eq!(both, row(Some(7.0), 182));
        let one = merged(&row(Some(2.0), 90), &row(None, 92));
        assert_eq!(one.first_s, None);
    }

    #[test]
    fn a_transfer_learns_from_the_other_machine_what_its_sender_sent() {
        let received = r#"{"bytes": 1400, "seconds": 0.5, "cpu_s": 0.25}"#;
        let row = |status| FlowRow {
            name: "t".to_owned(),
            kind: "tcp".to_owned(),
            from: "a".to_owned(),
            to: None,
            at_ns: 0,
            status,
            reason: None,
            end: None,
            outcome: match status {
                FlowStatus::Ok => parse_received(received).unwrap(),
                _ => Outcome::default(),
            },
            samples: 0,
            marked_samples: 0,
            late_worst_ns: None,
            trustworthy: None,
            doubt: None,
            changed_stacks: Vec::new(),
            handovers: 0,
            paths: Vec::new(),
            unlisted_path_steps: 0,
            path_rtt: None,
            bound_rtt: None,
        };
        let said = |text: &str| BTreeMap::from([("t".to_owned(), text.to_owned())]);
        let learned = |status, text: &str| {
            let mut row = row(status);
            learn_server(&mut row, &said(text));
            (row.outcome.sent_bytes, row.doubt.is_some())
        };
        let sent =
            "listening on 1.2.3.4:5\n{\"sent_bytes\":2800,\"sent_packets\":2,\"cpu_s\":0.5}\n";
        assert_eq!(learned(FlowStatus::Ok, sent), (Some(2800), false));
        assert_eq!(learned(FlowStatus::Ok, "listening"), (None, true));
        assert_eq!(learned(FlowStatus::CutShort, sent), (None, false));
    }
}
