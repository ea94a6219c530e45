//! Nodes that reboot: failures of the scenario with `reboot`, and the times at which their nodes are down.

use std::collections::BTreeMap;

use constel_scenario::model::{Failure, FailureTarget, FailureTime};
use constel_topology::NodeId;

/// The times at which nodes are down, lab time, nanoseconds: beginning and end, the end excluded.
#[derive(Debug, Default)]
pub(crate) struct Reboots(BTreeMap<NodeId, Vec<(u64, u64)>>);

impl Reboots {
    /// Returns the times of a scenario's failures. `find` returns the node with a name.
    pub(crate) fn of(failures: &[Failure], find: impl Fn(&str) -> Option<NodeId>) -> Self {
        let mut windows: BTreeMap<NodeId, Vec<(u64, u64)>> = BTreeMap::new();
        for failure in failures.iter().filter(|failure| failure.reboot) {
            let FailureTarget::Nodes(names) = &failure.what else {
                continue;
            };
            let FailureTime::Scheduled {
                from_ns,
                until_ns: Some(until_ns),
            } = failure.when
            else {
                // The parser of scenarios refuses other targets and times with `reboot`.
                continue;
            };
            for node in names.iter().filter_map(|name| find(name.as_str())) {
                windows.entry(node).or_default().push((from_ns, until_ns));
            }
        }
        Self(windows)
    }

    /// Returns whether a node is down.
    pub(crate) fn down(&self, node: NodeId, now_ns: u64) -> bool {
        let windows = self.0.get(&node).into_iter().flatten();
        windows
            .into_iter()
            .any(|(from, until)| (*from..*until).contains(&now_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_down_from_the_failure_to_its_end() {
        let failure = |name: &str, reboot, at: u64, length: u64| Failure {
            name: name.parse().unwrap(),
            what: FailureTarget::Nodes(vec!["craft-1".parse().unwrap()]),
            when: FailureTime::Scheduled {
                from_ns: at * 1_000_000_000,
                until_ns: Some((at + length) * 1_000_000_000),
            },
            reboot,
            written: None,
        };
        let failures = [
            failure("one", true, 5, 3),
            failure("two", false, 20, 3),
            failure("three", true, 7, 3),
        ];
        let reboots = Reboots::of(&failures, |name| (name == "craft-1").then_some(NodeId(4)));
        let down = |s: u64| reboots.down(NodeId(4), s * 1_000_000_000);
        let seen: Vec<u64> = (0..30).filter(|s| down(*s)).collect();
        assert_eq!(seen, [5, 6, 7, 8, 9]);
        assert!(!reboots.down(NodeId(3), 6_000_000_000));
    }
}
