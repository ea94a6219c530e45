//! Convergence on all machines of a lab: each machine records the outcome of packets at its own nodes
//! (`ways.ndjson`), and after the run the records are combined.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use constel_api::summary::ChangeKind;
use constel_plan::Lab;
use constel_topology::NodeId;
use serde::{Deserialize, Serialize};

use crate::answers::view::View;
use crate::clock::LabClock;
use crate::error::EngineError;
use crate::nodes::kernels::Kernels;
use crate::routing::router::Router;
use crate::routing::ways;
use crate::watch::changes::{self, Row, SampledChanges, Watches};
use crate::watch::pace::Pace;
use crate::watch::summary::{ChangeRow, HandoverRow};

const PACE: Pace = Pace {
    every: Duration::from_millis(100),
    share: 8,
};

/// The file of a machine's samples, in its results.
pub const OUTCOMES_FILE: &str = "ways.ndjson";

/// The outcome of packets at a node, as far as its machine can determine it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PacketOutcome {
    /// Packets reach the destination station.
    Arrives,
    /// Packets leave for this node, which is on another machine.
    Leaves(NodeId),
    Lost,
}

/// The outcomes, by the node where packets begin or come in, and by the station's address, counted over the lab's
/// stations.
pub(crate) type OutcomeCounts = BTreeMap<(NodeId, u32), PacketOutcome>;

/// A sample of one machine, as the differences from the sample before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct PathSample {
    /// The lab time at which it began, nanoseconds.
    t_ns: u64,
    /// The time of the step whose links it uses.
    step_ns: u64,
    /// The differences; `None` if there are no more packets to follow.
    changed: Vec<(NodeId, u32, Option<PacketOutcome>)>,
}

/// A machine's samples, written one per line.
pub(crate) struct Notes {
    file: BufWriter<File>,
    ways: OutcomeCounts,
}

impl Notes {
    /// Creates the file before the first sample.
    pub(crate) fn begin(file: File) -> Self {
        Self {
            file: BufWriter::new(file),
            ways: OutcomeCounts::new(),
        }
    }

    /// Samples again and again until lab time is `over`.
    ///
    /// # Errors
    /// When a kernel does not answer, or the file cannot be written.
    pub(crate) fn watch(
        mut self,
        kernels: &Kernels,
        view: &View,
        clock: &LabClock,
        over: &AtomicBool,
    ) -> Result<(), EngineError> {
        PACE.repeat(over, || {
            if let (Some(snapshot), Some(t_ns)) = (view.snapshot(), clock.now_ns()) {
                let (ways, _) = ways::look(kernels, &snapshot)?;
                let noted = self.note(t_ns, snapshot.t_ns, ways);
                noted.map_err(|source| EngineError::Io {
                    what: format!("write {OUTCOMES_FILE}"),
                    source,
                })?;
            }
            Ok(())
        })
    }

    /// Writes a sample that began at lab time `t_ns`, with the links of the step at `step_ns`.
    fn note(&mut self, t_ns: u64, step_ns: u64, ways: OutcomeCounts) -> io::Result<()> {
        // Only differences are written, so that a lab with stable routes writes almost nothing.
        let is_new =
            |(key, fate): &(&(NodeId, u32), &PacketOutcome)| self.ways.get(key) != Some(fate);
        let new = ways.iter().filter(is_new);
        let new = new.map(|(&(from, goal), fate)| (from, goal, Some(*fate)));
        let gone = self.ways.keys().filter(|key| !ways.contains_key(key));
        let gone = gone.map(|&(from, goal)| (from, goal, None));
        let look = PathSample {
            t_ns,
            step_ns,
            changed: new.chain(gone).collect(),
        };
        self.ways = ways;
        let text = serde_json::to_string(&look).map_err(io::Error::other)?;
        writeln!(self.file, "{text}")?;
        // The line is flushed, so that all lines are complete even if the machine crashes.
        self.file.flush()
    }
}

/// The samples of a machine, and the time from which the lab went on without it.
pub struct MachineSamples<'a> {
    /// The contents of its `ways.ndjson`.
    pub text: &'a [u8],
    /// The lab time, nanoseconds; `None` if it was there to the end.
    pub lost_from_ns: Option<u64>,
}

/// Adds the convergence time on all machines to the rows of a lab on several machines, in order of time. Routes
/// have converged at the first moment at which the latest samples of all machines, with the links of one step, let
/// every station's packets arrive. A time that the samples do not show stays unknown.
pub fn record_convergence(
    lab: &Lab,
    noted: &[MachineSamples<'_>],
    handovers: &mut [HandoverRow],
    changes: &mut [ChangeRow],
) {
    let steady_ns = |change: &ChangeRow| match change.kind {
        ChangeKind::DaemonDied => Router::of(&lab.scenario).steady_ns(),
        _ => 0,
    };
    let of_handovers = handovers.iter().enumerate();
    let of_handovers = of_handovers.map(|(at, row)| (row.t_ns, 0, Row::Handover(at)));
    let of_changes = changes.iter().enumerate();
    let of_changes = of_changes.map(|(at, row)| (row.t_ns, steady_ns(row), Row::Change(at)));
    let mut rows: Vec<(u64, u64, Row)> = of_handovers.chain(of_changes).collect();
    // Watches must be added in order of time.
    rows.sort_by_key(|(t_ns, ..)| *t_ns);
    let mut rows = rows.into_iter().peekable();
    let mut watches = Watches::default();
    let stations = lab.layout.endpoints().map(|node| node.id).collect();
    for (now_ns, stand) in moments(noted, &stations, lab.step_ns()) {
        while let Some((t_ns, steady_ns, row)) = rows.next_if(|(t_ns, ..)| *t_ns < now_ns) {
            watches.add(row, t_ns, steady_ns, None);
        }
        let SampledChanges { over, .. } = watches.look(now_ns, stand);
        for (row, after_ns, _) in over {
            changes::close(handovers, changes, (row, after_ns), None);
        }
    }
}

/// A machine's state as its samples show it so far.
#[derive(Default)]
struct Seen {
    ways: OutcomeCounts,
    step_ns: Option<u64>,
}

/// Returns the moments at which the state of all machines is known, and whether every station's packets arrived
/// then.
fn moments(
    noted: &[MachineSamples<'_>],
    stations: &BTreeSet<NodeId>,
    every_ns: u64,
) -> Vec<(u64, bool)> {
    let mut looks: Vec<(usize, PathSample)> = Vec::new();
    for (machine, noted) in noted.iter().enumerate() {
        let lines = noted.text.split(|byte| *byte == b'\n');
        // A line that was cut off can only be the last one.
        let own = lines.map_while(|line| serde_json::from_slice::<PathSample>(line).ok());
        looks.extend(own.map(|look| (machine, look)));
    }
    looks.sort_by_key(|(_, look)| look.t_ns);
    let mut seen: Vec<Seen> = noted.iter().map(|_| Seen::default()).collect();
    let mut moments = Vec::new();
    let mut stand = None;
    for (machine, look) in looks {
        let PathSample { t_ns, step_ns, .. } = look;
        let own = &mut seen[machine];
        own.step_ns = Some(step_ns);
        // The result is kept as long as no outcome changes, because the check over all machines is expensive.
        if !look.changed.is_empty() {
            stand = None;
        }
        for (from, goal, fate) in look.changed {
            match fate {
                Some(fate) => drop(own.ways.insert((from, goal), fate)),
                None => drop(own.ways.remove(&(from, goal))),
            }
        }
        // The nodes of a lost machine forward nothing from the step of the loss on.
        for (own, noted) in seen.iter_mut().zip(noted) {
            if noted.lost_from_ns.is_some_and(|from_ns| from_ns <= step_ns) && !own.ways.is_empty()
            {
                own.ways.clear();
                stand = None;
            }
        }
        let there = seen.iter().zip(noted);
        let mut there =
            there.filter(|(_, noted)| noted.lost_from_ns.is_none_or(|from_ns| from_ns > step_ns));
        // A sample with the links of the step before, begun when the next step's links already existed, describes
        // neither step.
        let is_of_step = t_ns < step_ns + every_ns;
        if is_of_step && there.all(|(own, _)| own.step_ns == Some(step_ns)) {
            let ways = seen.iter().map(|own| &own.ways);
            let stand =
                *stand.get_or_insert_with(|| all_arrive(&ways.collect::<Vec<_>>(), stations));
            moments.push((t_ns, stand));
        }
    }
    moments
}

/// Returns whether packets of every station arrive wherever the topology lets them, by the outcomes of all
/// machines.
pub(crate) fn all_arrive(ways: &[&OutcomeCounts], stations: &BTreeSet<NodeId>) -> bool {
    // A packet that passes more nodes than there are entries is in a loop.
    let most = ways.iter().map(|own| own.len()).sum::<usize>();
    let arrives = |&(from, goal): &(NodeId, u32)| {
        let mut at = from;
        for _ in 0..=most {
            match ways.iter().find_map(|own| own.get(&(at, goal))) {
                Some(PacketOutcome::Arrives) => return true,
                Some(PacketOutcome::Leaves(to)) => at = *to,
                Some(PacketOutcome::Lost) | None => return false,
            }
        }
        false
    };
    let keys = ways.iter().flat_map(|own| own.keys());
    let mut of_stations = keys.filter(|(from, _)| stations.contains(from));
    of_stations.all(arrives)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::iridium;

    /// The origin, the destination, and the outcome.
    type Seen = (u32, u32, Option<PacketOutcome>);

    /// The lines of a machine's samples: lab time and step in ms, and the differences.
    fn notes(looks: &[(u64, u64, &[Seen])]) -> Vec<u8> {
        let mut text = Vec::new();
        for (t_ms, step_ms, changed) in looks {
            let changed = changed.iter();
            let look = PathSample {
                t_ns: t_ms * 1_000_000,
                step_ns: step_ms * 1_000_000,
                changed: changed
                    .map(|(n, goal, f)| (NodeId(*n), *goal, *f))
                    .collect(),
            };
            text.extend(serde_json::to_vec(&look).unwrap());
            text.push(b'\n');
        }
        text
    }

    fn moments_ms(machines: &[(&[u8], Option<u64>)]) -> Vec<(u64, bool)> {
        let noted = machines.iter().map(|(text, lost_ms)| MachineSamples {
            text,
            lost_from_ns: lost_ms.map(|ms| ms * 1_000_000),
        });
        let noted: Vec<_> = noted.collect();
        let moments = moments(&noted, &[NodeId(0), NodeId(9)].into(), 1_000_000_000).into_iter();
        moments
            .map(|(t_ns, stand)| (t_ns / 1_000_000, stand))
            .collect()
    }

    const ARRIVES: Option<PacketOutcome> = Some(PacketOutcome::Arrives);

    fn leaves(to: u32) -> Option<PacketOutcome> {
        Some(PacketOutcome::Leaves(NodeId(to)))
    }

    #[test]
    fn routes_stand_when_no_machine_loses_packets_and_none_sends_them_back() {
        // Station 0 is on the first machine, station 9 on the second; packets enter these machines at nodes 5 and
        // 6.
        let first = notes(&[
            (100, 0, &[(0, 1, leaves(5)), (1, 1, leaves(6))]),
            (1_100, 1_000, &[(0, 1, Some(PacketOutcome::Lost))]),
            (1_200, 1_000, &[(0, 1, leaves(6))]),
            (1_300, 1_000, &[]),
            (1_500, 1_000, &[]),
            // The sample uses links that no longer exist.
            (2_001, 1_000, &[]),
        ]);
        let second = notes(&[
            (110, 0, &[(5, 1, ARRIVES), (6, 1, ARRIVES)]),
            // Neither machine loses a packet, and yet the packets are in a loop.
            (1_150, 1_000, &[(6, 1, leaves(1))]),
            (1_400, 1_000, &[(6, 1, ARRIVES)]),
        ]);
        let seen = moments_ms(&[(&first, None), (&second, None)]);
        let expected = [
            (110, true),
            // The state at 1.1 s is unknown: the second machine has no sample with that step's links.
            (1_150, false),
            (1_200, false),
            (1_300, false),
            (1_400, true),
            (1_500, true),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn what_is_cut_off_or_was_never_seen_is_no_moment() {
        let whole = notes(&[(100, 0, &[(0, 1, ARRIVES)]), (200, 0, &[])]);
        let cut = &whole[..whole.len() - 5];
        assert_eq!(moments_ms(&[(cut, None)]), [(100, true)]);
        assert_eq!(moments_ms(&[(&whole, None), (b"", None)]), []);
    }

    #[test]
    fn a_lost_machine_is_waited_for_until_the_lab_goes_on_without_it() {
        let first = notes(&[
            (100, 0, &[(0, 1, leaves(5))]),
            (1_100, 1_000, &[]),
            (2_100, 2_000, &[(0, 1, None)]),
        ]);
        let second = notes(&[(
            120,
            0,
            &[(5, 1, ARRIVES), (9, 0, Some(PacketOutcome::Lost))],
        )]);
        let seen = moments_ms(&[(&first, None), (&second, Some(2_000))]);
        assert_eq!(seen, [(120, false), (2_100, true)]);
    }

    #[test]
    fn rows_learn_when_routes_stood_after_them() {
        let lab = iridium().lab;
        let station = lab.layout.endpoints().next().unwrap().id.0;
        let machine = notes(&[
            (900, 0, &[(station, 3, ARRIVES)]),
            (1_100, 1_000, &[(station, 3, Some(PacketOutcome::Lost))]),
            (1_300, 1_000, &[(station, 3, ARRIVES)]),
            (2_100, 2_000, &[(station, 3, Some(PacketOutcome::Lost))]),
        ]);
        let noted = MachineSamples {
            text: &machine,
            lost_from_ns: None,
        };
        let handover = |t_s: u64| HandoverRow {
            t_ns: t_s * 1_000_000_000,
            station: "tokyo".to_owned(),
            from: None,
            to: None,
            port: None,
            converged_after_ns: None,
            lost_probes: None,
            control: None,
        };
        let change = |kind| ChangeRow {
            t_ns: 1_000_000_000,
            kind,
            cause: String::new(),
            objects: Vec::new(),
            converged_after_ns: None,
            lost_probes: None,
            control: None,
        };
        let mut handovers = [handover(1), handover(2)];
        let mut changes = [change(ChangeKind::Failure), change(ChangeKind::DaemonDied)];
        record_convergence(&lab, &[noted], &mut handovers, &mut changes);
        let after_ms = |ns: Option<u64>| ns.map(|ns| ns / 1_000_000);
        let stood = handovers.map(|row| after_ms(row.converged_after_ns));
        assert_eq!(stood, [Some(300), None]);
        // A daemon's end counts as handled when routes were correct for its dead time, which is not the case here.
        let stood = changes.map(|row| after_ms(row.converged_after_ns));
        assert_eq!(stood, [Some(300), None]);
    }
}
