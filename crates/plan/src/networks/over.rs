//! Edges along the shortest paths over a constellation that is not part of the lab. Such an edge combines the links
//! of its path, without hops.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, PoisonError};

use constel_link::{Impairment, Loss, PortId};
use constel_routing::{Graph, GroundTransit, Scratch};
use constel_topology::{
    Law, Layout, LinkClass, Moment, NetworkEdge, NodeId, Sky, Snapshot, Stepper,
};

use crate::lab::Lab;

/// Paths over a constellation.
pub(crate) struct Over {
    layout: Arc<Layout>,
    sky: Arc<dyn Sky>,
    /// The members as stations of that constellation, in order.
    members: Vec<NodeId>,
    /// The further properties of the edges.
    class: LinkClass,
    /// The state after the last query. Steps are queried in order, and some policies of choosing satellites depend
    /// on the past.
    last: Mutex<Option<(Stepper, Snapshot)>>,
}

impl Over {
    /// Creates the law. `beneath` has the constellation and all members as its stations.
    pub(crate) fn new(beneath: &Lab, members: &[String], class: LinkClass) -> Self {
        let find = |name: &String| beneath.layout.find(name).map(|node| node.id);
        Self {
            layout: Arc::clone(&beneath.layout),
            sky: Arc::clone(&beneath.sky),
            members: members.iter().filter_map(find).collect(),
            class,
            last: Mutex::new(None),
        }
    }

    /// Calls `look` with the topology of the step that begins at `t_ns`.
    fn at<T>(&self, t_ns: u64, look: impl FnOnce(&Snapshot) -> T) -> T {
        // The state that a panic left is discarded below if it does not fit.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut stepper, mut snapshot) = match last.take() {
            Some((stepper, snapshot)) if snapshot.t_ns <= t_ns => (stepper, snapshot),
            _ => {
                let mut stepper = Stepper::new(Arc::clone(&self.layout), Arc::clone(&self.sky));
                let snapshot = stepper.advance();
                (stepper, snapshot)
            }
        };
        while snapshot.t_ns < t_ns {
            stepper.advance_into(&mut snapshot);
        }
        let seen = look(&snapshot);
        *last = Some((stepper, snapshot));
        seen
    }
}

impl fmt::Debug for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut over = f.debug_struct("Over");
        over.field("members", &self.members).finish_non_exhaustive()
    }
}

impl Law for Over {
    fn edges(&self, moment: &Moment<'_>, edges: &mut Vec<NetworkEdge>) {
        self.at(moment.t_ns, |snapshot| {
            let graph = Graph::new(&self.layout, snapshot, GroundTransit::Never);
            let links: BTreeMap<(PortId, PortId), &Impairment> = snapshot
                .edges
                .iter()
                .map(|edge| ((edge.from, edge.to), &edge.impairment))
                .collect();
            let mut scratch = Scratch::default();
            for (to, goal) in self.members.iter().enumerate() {
                let tree = graph.tree(*goal, &mut scratch);
                for (from, start) in self.members.iter().enumerate().filter(|(n, _)| *n != to) {
                    let Some(hops) = graph.path(&tree, *start) else {
                        continue;
                    };
                    let mut edge = NetworkEdge {
                        from,
                        to,
                        delay_ns: 0,
                        later_delay_ns: 0,
                        class: self.class,
                    };
                    let mut arrives = 1.0 - self.class.loss_ratio;
                    for hop in hops {
                        let Some(link) = links.get(&(hop.port, hop.far_port)) else {
                            continue;
                        };
                        edge.delay_ns += link.delay.at(moment.t_ns);
                        edge.later_delay_ns += link.delay.at(moment.t_ns + moment.step_ns);
                        edge.class.rate_bps = least(edge.class.rate_bps, link.rate_bps);
                        if let Loss::Bernoulli { loss_ratio } = link.loss {
                            arrives *= 1.0 - loss_ratio;
                        }
                    }
                    edge.class.loss_ratio = 1.0 - arrives;
                    edges.push(edge);
                }
            }
        });
    }
}

/// Returns the lower of two rates, of which each may be unlimited.
fn least(a: Option<NonZeroU64>, b: Option<NonZeroU64>) -> Option<NonZeroU64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
