//! The ties between the nodes of a lab: its links, each weighted by the time of the run during which it exists.

use std::collections::BTreeMap;

use constel_plan::Lab;
use constel_topology::{Attachment, Effort};

/// Number of sampled instants of the run.
pub(crate) const INSTANTS: u64 = 8;

/// Returns the node pairs of edges, sorted, with the number of sampled instants at which they existed, and the number of
/// samples. Instants that depend on more of the past than can be computed in some seconds are left out. Lab time zero is
/// always included.
pub(crate) fn ties(lab: &Lab) -> (BTreeMap<(u32, u32), u64>, u64) {
    let (mut ties, mut looked) = (BTreeMap::new(), 0);
    let mut stepper = lab.stepper();
    let length_ns = lab.scenario.duration.ns().unsigned_abs();
    let mut effort = Effort::new(Effort::QUESTION, &|| true);
    let mut last = None;
    for instant in 0..INSTANTS {
        let step = stepper.step_at(length_ns / INSTANTS * instant);
        if last.replace(step) == Some(step) {
            continue;
        }
        let Ok(snapshot) = stepper.try_step(step, &mut effort) else {
            break;
        };
        looked += 1;
        for edge in &snapshot.edges {
            let [from, to] = [edge.from, edge.to].map(|port| lab.layout.port(port).node.0);
            if from < to {
                *ties.entry((from, to)).or_default() += 1;
            }
        }
    }
    (ties, looked)
}

/// Returns the nodes that share a medium. A radio channel has one state, so it must be on one machine.
pub(crate) fn together(lab: &Lab) -> Vec<Vec<u32>> {
    let of = |ports: &[constel_link::PortId]| {
        ports
            .iter()
            .map(|port| lab.layout.port(*port).node.0)
            .collect()
    };
    lab.channels()
        .iter()
        .map(|(_, shared)| of(&shared.ports))
        .collect()
}

/// Returns the nodes that are attached to an interface of a machine, with its name.
pub(crate) fn attached(lab: &Lab) -> impl Iterator<Item = (u32, &str)> {
    lab.layout
        .ports()
        .iter()
        .filter_map(|port| match &port.attachment {
            Attachment::HostInterface(name) => Some((port.node.0, name.as_str())),
            Attachment::Veth => None,
        })
}
