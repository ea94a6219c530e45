//! Members that join and leave networks by command. An absent member keeps its port, but its edges are down.

use std::collections::BTreeSet;
use std::convert::Infallible;

use constel_link::{Effects, EffectsChange, PortId};
use constel_topology::{Layout, Snapshot};

use crate::{Lab, ManualEffects};

/// An edge, by its two ports.
pub type EdgeEnds = (PortId, PortId);

/// The absent members, by their ports.
#[derive(Debug, Clone, Default)]
pub struct AbsentMembers {
    absent: BTreeSet<PortId>,
    /// Edges with an absent end that are also failed by hand: these stay failed when the member returns.
    by_hand: BTreeSet<EdgeEnds>,
}

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
        !self.absent.contains(&port)
    }

    /// Returns whether an edge with an absent end is failed by hand as well; `None` if both ends are in their network.
    #[must_use]
    pub fn failed_by_hand(&self, edge: EdgeEnds) -> Option<bool> {
        let is_in = self.is_in(edge.0) && self.is_in(edge.1);
        (!is_in).then(|| self.by_hand.contains(&edge))
    }

    /// Records that an edge was failed or healed by hand. It matters if an end is absent: the edge stays down until that
    /// member returns.
    pub fn set_failed(&mut self, edge: EdgeEnds, failed: bool) {
        if failed && self.failed_by_hand(edge).is_some() {
            self.by_hand.insert(edge);
        } else {
            self.by_hand.remove(&edge);
        }
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
        for peer in layout.network_peers(port) {
            // Both directions of each edge to a peer change together.
            for edge in [(port, peer), (peer, port)] {
                let own = own(edge)?;
                let was_down = own.down == Some(true);
                // An edge comes up only if both ends are in, and stays down if a user failed it, before the member left
                // or while it was absent.
                let down = if joined {
                    !self.is_in(peer) || self.by_hand.contains(&edge)
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

    /// Moves a member into or out of its network in recorded effects. Returns the edges that this takes down (`true`) or
    /// brings back; none if the member is already there.
    pub fn move_recorded(
        &mut self,
        layout: &Layout,
        (port, joined): (PortId, bool),
        effects: &mut ManualEffects,
    ) -> Vec<(EdgeEnds, bool)> {
        let own = |edge| Ok::<_, Infallible>(effects.edge(edge));
        let Ok(Some(mut planned)) = self.plan(layout, port, joined, own) else {
            return Vec::new();
        };
        for change in planned.effects.drain(..) {
            effects.record(change);
        }
        let failed = std::mem::take(&mut planned.failed);
        self.moved(planned);
        failed
    }

    /// Returns why a link is down if an absent member is an end of each of its failed edges, in the words of
    /// `constel link`.
    #[must_use]
    pub fn why_down(&self, layout: &Layout, edges: &[EdgeEnds]) -> Option<String> {
        let absent =
            |(from, to): &EdgeEnds| [*from, *to].into_iter().find(|port| !self.is_in(*port));
        let absent: Option<Vec<PortId>> = edges.iter().map(absent).collect();
        let port = absent?.first().copied().map(|port| layout.port(port))?;
        let node = &layout.node(port.node).name;
        Some(format!(
            "down: `{node}` is not in its network now ({node}/{})",
            port.name()
        ))
    }

    /// Records a move that was made.
    pub fn moved(&mut self, done: Move) {
        if done.joined {
            self.absent.remove(&done.port);
            let absent = &self.absent;
            let has_absent = |(a, b): &EdgeEnds| absent.contains(a) || absent.contains(b);
            self.by_hand.retain(has_absent);
        } else {
            self.absent.insert(done.port);
            self.by_hand.extend(done.by_hand);
        }
    }
}

impl Lab {
    /// Returns the members that are absent when the lab starts (`away`), and the effects of their absence.
    #[must_use]
    pub fn absent_at_start(&self) -> (AbsentMembers, ManualEffects) {
        let (mut away, mut effects) = <(AbsentMembers, ManualEffects)>::default();
        for (_, port) in self.away() {
            away.move_recorded(&self.layout, (port, false), &mut effects);
        }
        (away, effects)
    }

    /// Returns a function that removes the edges of members that start absent from a step's topology; it returns `None`
    /// if there are no such members. The result is the topology that a lab has before changes by hand.
    pub fn at_start(&self) -> impl Fn(&Snapshot) -> Option<Snapshot> + Sync + '_ {
        let (_, effects) = self.absent_at_start();
        move |snapshot| effects.applied(&self.profiles, snapshot)
    }
}
