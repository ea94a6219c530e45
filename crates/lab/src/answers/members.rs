//! Members of networks, brought in and taken out by hand. One that is out keeps its port and has no edges there.

use std::collections::{BTreeMap, BTreeSet};

use constel_api::answers::{MemberShown, NetworkShown};
use constel_drivers::{DriverError, Links};
use constel_link::{Effects, EffectsChange, PortId};
use constel_plan::Blueprint;
use constel_topology::Snapshot;

use crate::failed::EdgeEnds;

/// Who is out: their ports, and which of their edges had been failed by hand before they left, and stay so.
#[derive(Debug, Default)]
pub(crate) struct Away(BTreeMap<PortId, BTreeSet<EdgeEnds>>);

/// What must happen for a member to come or go.
pub(crate) struct Move {
    /// For the link plane.
    pub(crate) effects: Vec<EffectsChange>,
    /// Of each edge whether it is failed then.
    pub(crate) failed: Vec<(EdgeEnds, bool)>,
    port: PortId,
    joined: bool,
    by_hand: BTreeSet<EdgeEnds>,
}

impl Away {
    /// Whether a member is in its network.
    pub(crate) fn is_in(&self, port: PortId) -> bool {
        !self.0.contains_key(&port)
    }

    /// What brings the member with this port in, or takes it out; `None` where that is so already. Nothing is changed yet.
    ///
    /// # Errors
    /// When the link plane has stopped.
    pub(crate) fn plan(
        &self,
        blueprint: &Blueprint,
        links: &dyn Links,
        port: PortId,
        joined: bool,
    ) -> Result<Option<Move>, DriverError> {
        if self.is_in(port) == joined {
            return Ok(None);
        }
        let mut planned = Move {
            effects: Vec::new(),
            failed: Vec::new(),
            port,
            joined,
            by_hand: BTreeSet::new(),
        };
        let kept = self.0.get(&port);
        for peer in blueprint.lab.layout.network_peers(port) {
            for (from, to) in [(port, peer), (peer, port)] {
                let own = links.effects(from, to)?.own;
                let was_down = own.down == Some(true);
                let down = if joined {
                    !self.is_in(peer) || kept.is_some_and(|kept| kept.contains(&(from, to)))
                } else {
                    if was_down && self.is_in(peer) {
                        planned.by_hand.insert((from, to));
                    }
                    true
                };
                if was_down == down {
                    continue;
                }
                let mut effects = own.merged(&Effects::failed(down));
                // A healed link is one that nobody failed.
                effects.down = effects.down.filter(|down| *down);
                let effects = (!effects.is_empty()).then_some(effects);
                planned
                    .effects
                    .push(EffectsChange::Edge { from, to, effects });
                planned.failed.push(((from, to), down));
            }
        }
        Ok(Some(planned))
    }

    /// It has happened.
    pub(crate) fn moved(&mut self, done: Move) {
        if done.joined {
            self.0.remove(&done.port);
        } else {
            self.0.insert(done.port, done.by_hand);
        }
    }

    /// All networks and who is in them.
    pub(crate) fn shown(&self, blueprint: &Blueprint, now: &Snapshot) -> Vec<NetworkShown> {
        let layout = &blueprint.lab.layout;
        let networks = layout.spec().networks.iter().enumerate();
        let network = |(place, network): (usize, &constel_topology::Network)| {
            let ports = layout.network_ports(place).iter();
            let member = |port: &PortId| {
                let edges = now.edges_from(*port).iter();
                let joined = self.is_in(*port);
                MemberShown {
                    node: layout.node(layout.port(*port).node).name.clone(),
                    port: layout.port(*port).name().to_owned(),
                    joined,
                    edges: edges.filter(|e| joined && self.is_in(e.to)).count(),
                }
            };
            NetworkShown {
                network: network.name.clone(),
                members: ports.map(member).collect(),
            }
        };
        networks.map(network).collect()
    }
}
