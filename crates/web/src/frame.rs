//! A step as one binary message: positions, and what became of the links since the message before.
//!
//! All numbers are little-endian. The head has 56 bytes:
//!
//! | at | what |
//! |---|---|
//! | 0 | u32: [`MAGIC`] |
//! | 4 | u32: bit 0: there is no message before, `set` has all links; bit 1: positions of the step are those that the message before had for later, and are left out |
//! | 8 | f64: step |
//! | 16 | f64: its lab time, nanoseconds |
//! | 24 | f64: lab time of the later positions, nanoseconds |
//! | 32 | 3 f32: direction of the sun, ITRF |
//! | 44 | u32: nodes |
//! | 48 | u32: links that are gone |
//! | 52 | u32: links that came or changed |
//!
//! Then, of each node, ITRF position in kilometres (3 f32, NaN where there is none) at the step, and the same later; then of
//! each link that is gone its two ports (2 u32); then of each that came or changed: 2 u32 ports, 2 u32 nodes, u32 kind (its place
//! among the world's kinds; bit 8: antennas still turn, no frame passes), f32 delay in milliseconds, f32 rate in Mbit/s (infinite:
//! no limit), f32 share of frames lost. A link's delay glides; it is told anew when it differs by a twentieth.

use std::collections::BTreeMap;

use constel_link::Loss;
use constel_orbit::DVec3;
use constel_topology::{Edge, Layout, Snapshot};

/// `CST1`.
pub const MAGIC: u32 = u32::from_le_bytes(*b"CST1");

/// Set in a link's kind while no frame passes.
pub const TURNING: u32 = 1 << 8;

/// A delay is told anew when it is off by more than this share.
const DELAY_SHARE: f32 = 0.05;

/// A link as it was told.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Told {
    nodes: (u32, u32),
    kind: u32,
    delay_ms: f32,
    rate_mbps: f32,
    loss: f32,
}

impl Told {
    fn of(layout: &Layout, edge: &Edge, t_ns: u64) -> Self {
        let classes = layout.edge_classes();
        let kind = classes.iter().position(|class| *class == edge.class);
        let kind = kind
            .and_then(|kind| u32::try_from(kind).ok())
            .unwrap_or(0xff);
        let turning = if edge.usable_at(t_ns) { 0 } else { TURNING };
        let impairment = &edge.impairment;
        Self {
            nodes: (layout.port(edge.from).node.0, layout.port(edge.to).node.0),
            kind: kind | turning,
            delay_ms: (impairment.delay.at(t_ns) as f64 / 1e6) as f32,
            rate_mbps: impairment
                .rate_bps
                .map_or(f32::INFINITY, |bps| (u64::from(bps) as f64 / 1e6) as f32),
            loss: match impairment.loss {
                Loss::None => 0.0,
                Loss::Bernoulli { loss_ratio } => loss_ratio as f32,
            },
        }
    }

    /// Whether one who was told `self` knows enough of `now`.
    fn does_for(&self, now: &Self) -> bool {
        let near = (self.delay_ms - now.delay_ms).abs() <= DELAY_SHARE * self.delay_ms;
        let told = Self {
            delay_ms: now.delay_ms,
            ..*self
        };
        near && told == *now
    }
}

/// A step and where everything is later.
#[derive(Debug)]
pub struct Step<'a> {
    /// The topology.
    pub snapshot: &'a Snapshot,
    /// Positions at `then_ns`, all nodes, ITRF metres.
    pub then: &'a [DVec3],
    /// Lab time of those.
    pub then_ns: u64,
    /// Where the sun is.
    pub sun: DVec3,
}

/// What one client was told so far.
#[derive(Debug, Default)]
pub struct Teller {
    links: BTreeMap<(u32, u32), Told>,
    /// Lab time of the positions that it was told for later.
    then_ns: Option<u64>,
}

impl Teller {
    /// The message of a step; what it says counts as told.
    pub fn tell(&mut self, layout: &Layout, step: &Step<'_>) -> Vec<u8> {
        let snapshot = step.snapshot;
        let now = links(layout, snapshot);
        let fresh = self.then_ns.is_none();
        let continues = self.then_ns == Some(snapshot.t_ns);
        let gone: Vec<(u32, u32)> = self
            .links
            .keys()
            .filter(|key| !now.contains_key(key))
            .copied()
            .collect();
        let mut set = Vec::new();
        for (key, link) in &now {
            if !self.links.get(key).is_some_and(|told| told.does_for(link)) {
                set.push((*key, *link));
                self.links.insert(*key, *link);
            }
        }
        for key in &gone {
            self.links.remove(key);
        }
        self.then_ns = Some(step.then_ns);
        let mut out =
            Vec::with_capacity(56 + 24 * step.then.len() + 8 * gone.len() + 32 * set.len());
        let word = |out: &mut Vec<u8>, number: u32| out.extend_from_slice(&number.to_le_bytes());
        let single = |out: &mut Vec<u8>, number: f32| out.extend_from_slice(&number.to_le_bytes());
        word(&mut out, MAGIC);
        word(&mut out, u32::from(fresh) | u32::from(continues) << 1);
        for number in [snapshot.step, snapshot.t_ns, step.then_ns] {
            out.extend_from_slice(&(number as f64).to_le_bytes());
        }
        let sun = step.sun.normalize_or_zero();
        for axis in sun.to_array() {
            single(&mut out, axis as f32);
        }
        for count in [step.then.len(), gone.len(), set.len()] {
            word(&mut out, u32::try_from(count).unwrap_or(u32::MAX));
        }
        let positions = if continues {
            &[][..]
        } else {
            &snapshot.positions_itrf_m
        };
        for position in positions.iter().chain(step.then) {
            for axis in position.to_array() {
                single(&mut out, (axis / 1e3) as f32);
            }
        }
        for (a, b) in gone {
            word(&mut out, a);
            word(&mut out, b);
        }
        for ((a, b), link) in set {
            for number in [a, b, link.nodes.0, link.nodes.1, link.kind] {
                word(&mut out, number);
            }
            for number in [link.delay_ms, link.rate_mbps, link.loss] {
                single(&mut out, number);
            }
        }
        out
    }
}

/// All links by their ports, the lower first. Of two directions that of the lower port is told, unless it alone is missing.
fn links(layout: &Layout, snapshot: &Snapshot) -> BTreeMap<(u32, u32), Told> {
    let mut links = BTreeMap::new();
    for edge in &snapshot.edges {
        let (from, to) = (edge.from.0, edge.to.0);
        let told = || Told::of(layout, edge, snapshot.t_ns);
        if from < to {
            links.insert((from, to), told());
        } else {
            links.entry((to, from)).or_insert_with(|| Told {
                nodes: (layout.port(edge.to).node.0, layout.port(edge.from).node.0),
                ..told()
            });
        }
    }
    links
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sky::tests::iridium;

    fn u32_at(bytes: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    /// Applies a message to what a client knows; its links by ports.
    fn heard(known: &mut BTreeMap<(u32, u32), u32>, bytes: &[u8]) {
        assert_eq!(u32_at(bytes, 0), MAGIC);
        let flags = u32_at(bytes, 4);
        let (nodes, gone, set) = (u32_at(bytes, 44), u32_at(bytes, 48), u32_at(bytes, 52));
        if flags & 1 != 0 {
            known.clear();
        }
        let positions = if flags & 2 != 0 { 12 } else { 24 };
        let mut at = 56 + positions * nodes as usize;
        for _ in 0..gone {
            assert!(
                known
                    .remove(&(u32_at(bytes, at), u32_at(bytes, at + 4)))
                    .is_some()
            );
            at += 8;
        }
        for _ in 0..set {
            known.insert(
                (u32_at(bytes, at), u32_at(bytes, at + 4)),
                u32_at(bytes, at + 16),
            );
            at += 32;
        }
        assert_eq!(at, bytes.len());
    }

    #[test]
    fn who_hears_all_messages_knows_the_links_of_the_last() {
        let lab = iridium();
        let mut stepper = lab.stepper();
        let mut teller = Teller::default();
        let mut known = BTreeMap::new();
        let mut sizes = Vec::new();
        for step in 0..60 {
            let snapshot = stepper.advance();
            let later = snapshot.positions_itrf_m.clone();
            let bytes = teller.tell(
                &lab.layout,
                &Step {
                    snapshot: &snapshot,
                    then: &later,
                    then_ns: snapshot.t_ns + lab.step_ns(),
                    sun: DVec3::X,
                },
            );
            sizes.push(bytes.len());
            heard(&mut known, &bytes);
            let own: Vec<(u32, u32)> = snapshot
                .edges
                .iter()
                .filter(|edge| edge.from < edge.to)
                .map(|edge| (edge.from.0, edge.to.0))
                .collect();
            assert_eq!(
                known.keys().copied().collect::<Vec<_>>(),
                own,
                "step {step}"
            );
        }
        assert!(
            sizes[1..].iter().all(|size| 3 * size < sizes[0]),
            "{sizes:?}"
        );
    }
}
