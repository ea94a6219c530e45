//! The source of a lab's routes, and its consequences for other parts.

use std::fmt::Write as _;
use std::time::Duration;

use constel_host::template::{BY_FLOW, Setting};
use constel_plan::{Lab, LocalNodes, daemon_spec};
use constel_routing::daemons::Program;
use constel_scenario::model::{
    AreaSize, ComputedRouting, DaemonRouting, Igp, Mode, Scenario, Software,
};

/// The time within which computed routes must be installed for the first time.
const COMPUTED_WITHIN: Duration = Duration::from_secs(120);

/// The margin after the dead time for which routes must be stable before a daemon's end counts as handled.
const STEADY_MARGIN_NS: u64 = 5_000_000_000;

/// The source of routes. All code that depends on it is here.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Router<'a> {
    /// Constel: shortest paths, written to the kernels at every step.
    Computed(&'a ComputedRouting),
    /// Routing daemons in the nodes.
    Daemons(&'a DaemonRouting),
    /// No source known to Constel; programs of the scenario may set routes.
    Nobody,
}

impl<'a> Router<'a> {
    /// Returns the source of routes in a scenario.
    pub(crate) fn of(scenario: &'a Scenario) -> Self {
        match &scenario.routing.mode {
            Mode::Computed(computed) => Self::Computed(computed),
            Mode::Daemons(daemons) => Self::Daemons(daemons),
            Mode::None => Self::Nobody,
        }
    }

    /// Returns the daemons, if they are the source.
    pub(crate) fn daemons(self) -> Option<&'a DaemonRouting> {
        match self {
            Self::Daemons(daemons) => Some(daemons),
            Self::Computed(_) | Self::Nobody => None,
        }
    }

    /// Returns the programs that this host must have, as (program, Debian package).
    pub(crate) fn programs(self, lab: &Lab) -> Vec<(&'static str, &'static str)> {
        let programs = self.daemons().map_or_else(Vec::new, |routing| {
            constel_routing::daemons::programs(&daemon_spec(lab, routing))
        });
        programs.iter().map(|p| (p.name, p.package)).collect()
    }

    /// Returns the number of processes in nodes of this machine.
    pub(crate) fn processes(self, lab: &Lab, ours: &LocalNodes) -> usize {
        let Some(routing) = self.daemons() else {
            return 0;
        };
        let spec = daemon_spec(lab, routing);
        let nodes = lab.layout.nodes().iter().filter(|node| ours.has(node.id));
        let nodes = nodes.count();
        // The satellites that foreign stations will use are not known yet, so that every node counts.
        let speakers = match spec.has_foreign_stations(&lab.layout) {
            true => nodes,
            false => {
                let speakers = spec.speakers(&lab.layout);
                speakers.iter().filter(|node| ours.has(**node)).count()
            }
        };
        // Some programs run only in nodes that use BGP.
        let of = |p: &Program| if p.only_bgp { speakers } else { nodes };
        constel_routing::daemons::programs(&spec)
            .iter()
            .map(of)
            .sum()
    }

    /// Returns the settings that nodes need in addition to those of every router.
    pub(crate) fn settings(self) -> &'static [Setting] {
        // With several next hops, all packets of a flow must use the same one.
        match self {
            Self::Computed(computed) if computed.paths > 1 => &BY_FLOW,
            Self::Computed(_) | Self::Daemons(_) | Self::Nobody => &[],
        }
    }

    /// Returns the time limit until routes have converged for the first time; `None` without a source.
    pub(crate) fn routes_within(self) -> Option<Duration> {
        match self {
            Self::Computed(_) => Some(COMPUTED_WITHIN),
            Self::Daemons(routing) => {
                Some(Duration::from_nanos(routing.within.ns().unsigned_abs()))
            }
            Self::Nobody => None,
        }
    }

    /// Returns how long routes must be stable after a daemon's end before it counts as handled, nanoseconds: the
    /// kernel keeps the routes of an ended daemon for a while.
    pub(crate) fn steady_ns(self) -> u64 {
        let dead_s = self.daemons().map_or(0, |d| u64::from(d.timers.dead_s));
        dead_s * 1_000_000_000 + STEADY_MARGIN_NS
    }

    /// Describes software, protocol and timers for users; `None` without daemons.
    pub(crate) fn words(self) -> Option<String> {
        let routing = self.daemons()?;
        let software = match routing.software {
            Software::Bird => "BIRD",
            Software::Frr => "FRR",
        };
        let protocol = match routing.protocol {
            Igp::Ospf => "OSPF",
            Igp::Isis => "IS-IS",
            Igp::Babel => "Babel",
        };
        let mut words = format!("{software}, {protocol}");
        if !routing.kernel_events {
            words.push_str(", without kernel events");
        }
        if routing.protocol == Igp::Ospf {
            let (lasers, ospf) = (routing.timers, routing.ospf);
            let _ = write!(
                words,
                "; hello {} s, dead {} s (ground {} s, {} s), retransmit {} s, tick {} s",
                lasers.hello_s,
                lasers.dead_s,
                ospf.ground.hello_s,
                ospf.ground.dead_s,
                ospf.retransmit_s,
                ospf.tick_s
            );
            match ospf.areas {
                Some(AreaSize::Planes(planes)) => {
                    let _ = write!(words, "; areas of {planes} planes");
                }
                Some(AreaSize::Satellites(satellites)) => {
                    let _ = write!(words, "; areas of {satellites} satellites");
                }
                None => {}
            }
        }
        Some(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{computed_iridium, lab, shipped};

    #[test]
    fn what_a_router_asks_of_a_lab() {
        let with = |text: &str| lab(text);
        let bird = with(&shipped("iridium"));
        let router = Router::of(&bird.scenario);
        assert_eq!(router.programs(&bird), [("bird", "bird2")]);
        assert_eq!(
            router.processes(&bird, &LocalNodes::all()),
            bird.layout.nodes().len()
        );
        let one = LocalNodes::these(vec![false, true, false]);
        assert_eq!(router.processes(&bird, &one), 1);
        // The dead time of 4 s, and the margin.
        assert_eq!(router.steady_ns(), 9_000_000_000);
        assert!(router.words().unwrap().starts_with("BIRD, OSPF; hello 1 s"));
        let computed = with(&computed_iridium());
        let router = Router::of(&computed.scenario);
        assert!(router.programs(&computed).is_empty());
        assert_eq!(router.processes(&computed, &LocalNodes::all()), 0);
        assert_eq!(router.routes_within(), Some(COMPUTED_WITHIN));
        assert_eq!(router.words(), None);
        let nobody = with(&computed_iridium().replace("mode: computed", "mode: none"));
        assert_eq!(Router::of(&nobody.scenario).routes_within(), None);
    }
}
