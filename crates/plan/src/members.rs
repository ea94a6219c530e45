//! Members that join and leave networks by command. An absent member keeps its port, but its edges are down.

use std::collections::{BTreeMap, BTreeSet};

use constel_link::{Effects, EffectsChange, PortId};
use constel_topology::Layout;

/// An edge, by its two ports.
pub type EdgeEnds = (PortId, PortId);

/// The absent members: their ports, and those of their edges that were failed by command before. These stay failed
/// when the member returns.
#[derive(Debug, Clone, Default)]
pub struct AbsentMembers(BTreeMap<PortId, BTreeSet<EdgeEnds>>);

/// The planned changes for a member that joins or leaves.
pub struct Move {
    /// The changes for the link plane.
    pub effects: Vec<EffectsChange>,
    /// Whether each edge is failed after the change.
    pub failed: Vec<(EdgeEnds, bool)>,
    port: PortId,
    joined: bool,
    by_hand: BTreeSet<EdgeEnds>,
}

impl AbsentMembers {
    /// Returns whether a member is in its network.
    pub fn is_in(&self, port: PortId) -> bool {
        !self.0.contains_key(&port)
    }

    /// Plans the move of the member with this port into or out of its network; `None` if it is already there. `own`
    /// returns the effects that were set on an edge itself. Nothing is changed yet.
    ///
    /// # Errors
    /// Those of `own`.
    pub fn plan<E>(
        &self,
        layout: &Layout,
        port: PortId,
        joined: bool,
        own: impl Fn(EdgeEnds) -> Result<Effects, E>,
    ) -> Result<Option<Move>, E> {
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
        for peer in layout.network_peers(port) {
            // Both directions of each edge to a peer change together.
            for edge in [(port, peer), (peer, port)] {
                let own = own(edge)?;
                let was_down = own.down == Some(true);
                // An edge comes up only if both ends are in, and stays down if a user failed it before the member
                // left.
                let down = if joined {
                    !self.is_in(peer) || kept.is_some_and(|kept| kept.contains(&edge))
                } else {
                    if was_down && self.is_in(peer) {
                        planned.by_hand.insert(edge);
                    }
                    true
                };
                if was_down == down {
                    continue;
                }
                let effects = own.merged(&Effects::failed(down));
                planned.effects.push(EffectsChange::of_edge(edge, effects));
                planned.failed.push((edge, down));
            }
        }
        Ok(Some(planned))
    }

    /// Records a move that was made.
    pub fn moved(&mut self, done: Move) {
        if done.joined {
            self.0.remove(&done.port);
        } else {
            self.0.insert(done.port, done.by_hand);
        }
    }
}
