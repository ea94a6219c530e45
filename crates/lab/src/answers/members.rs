//! Members that join and leave networks by command. An absent member keeps its port, but its edges are down.

use std::collections::{BTreeMap, BTreeSet};

use constel_api::answers::{MemberShown, NetworkShown};
use constel_drivers::{DriverError, Links};
use constel_link::{Effects, EffectsChange, PortId};
use constel_plan::Blueprint;
use constel_topology::Snapshot;

use crate::failed::EdgeEnds;

/// The absent members: their ports, and those of their edges that were failed by command before. These stay failed
/// when the member returns.
#[derive(Debug, Default)]
pub(crate) struct Away(BTreeMap<PortId, BTreeSet<EdgeEnds>>);

/// The planned changes for a member that joins or leaves.
pub(crate) struct Move {
    /// The changes for the link plane.
    pub(crate) effects: Vec<EffectsChange>,
    /// Whether each edge is failed after the change.
    pub(crate) failed: Vec<(EdgeEnds, bool)>,
    port: PortId,
    joined: bool,
    by_hand: BTreeSet<EdgeEnds>,
}

impl Away {
    /// Returns whether a member is in its network.
    pub(crate) fn is_in(&self, port: PortId) -> bool {
        !self.0.contains_key(&port)
    }

    /// Plans the move of the member with this port into or out of its network; `None` if it is already there.
    /// The lab is not changed yet.
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
            // Both directions of each edge to a peer change together.
            for (from, to) in [(port, peer), (peer, port)] {
                let own = links.effects(from, to)?.own;
                let was_down = own.down == Some(true);
                // An edge comes up only if both ends are in, and stays down if a user failed it before the member
                // left.
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
                // `down: false` is stored as no value, so that a repaired link equals one that never failed.
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

    /// Records a move that was made.
    pub(crate) fn moved(&mut self, done: Move) {
        if done.joined {
            self.0.remove(&done.port);
        } else {
            self.0.insert(done.port, done.by_hand);
        }
    }

    /// Returns all networks with their members.
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
