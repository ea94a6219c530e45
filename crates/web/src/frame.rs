//! A step as one binary message: positions, and the changes of links since the previous message.
//!
//! All numbers are little-endian. The head has 56 bytes:
//!
//! | at | content |
//! |---|---|
//! | 0 | u32: [`MAGIC`] |
//! | 4 | u32: bit 0: no previous message, `set` has all links; bit 1: the previous message had the positions of this step as later positions, so they are left out |
//! | 8 | f64: step |
//! | 16 | f64: its lab time, nanoseconds |
//! | 24 | f64: lab time of the later positions, nanoseconds |
//! | 32 | 3 f32: direction of the sun, ITRF |
//! | 44 | u32: nodes |
//! | 48 | u32: removed links |
//! | 52 | u32: new or changed links |
//!
//! The head is followed by the ITRF position of each node in kilometres (3 f32, NaN if it has none) at the step, and again
//! at the later time. Then come the two ports (2 u32) of each removed link. Each new or changed link has: 2 u32 ports, 2 u32
//! nodes, u32 kind (its index among the world's kinds; bit 8: antennas still turn, no frame passes), f32 delay in
//! milliseconds, f32 rate in Mbit/s (infinite: no limit), f32 ratio of frames lost. A link's delay changes continuously. It
//! is sent again when it enters another class. Classes are a twentieth wide, so the content of a step depends on the step
//! alone, not on earlier messages.

use constel_link::Loss;
use constel_orbit::DVec3;
use constel_topology::{Edge, Layout, Snapshot};

/// `CST1`.
pub const MAGIC: u32 = u32::from_le_bytes(*b"CST1");

/// Set in a link's kind while no frame passes.
pub const TURNING: u32 = 1 << 8;

/// Delays of a class differ by less than this share.
const DELAY_SHARE: f32 = 0.05;

/// A link as it is sent.
#[derive(Debug, Clone, Copy, PartialEq)]
struct SentLink {
    nodes: (u32, u32),
    kind: u32,
    delay_ms: f32,
    delay_class: i32,
    rate_mbps: f32,
    loss: f32,
}

impl SentLink {
    fn of(layout: &Layout, edge: &Edge, t_ns: u64) -> Self {
        let classes = layout.edge_classes();
        let kind = classes.iter().position(|class| *class == edge.class);
        let kind = kind
            .and_then(|kind| u32::try_from(kind).ok())
            .unwrap_or(0xff);
        let turning = if edge.usable_at(t_ns) { 0 } else { TURNING };
        let impairment = &edge.impairment;
        let delay_ms = (impairment.delay.at(t_ns) as f64 / 1e6) as f32;
        Self {
            nodes: (layout.port(edge.from).node.0, layout.port(edge.to).node.0),
            kind: kind | turning,
            delay_ms,
            delay_class: (delay_ms.ln() / (1.0 + DELAY_SHARE).ln()).floor() as i32,
            rate_mbps: impairment
                .rate_bps
                .map_or(f32::INFINITY, |bps| (u64::from(bps) as f64 / 1e6) as f32),
            loss: match impairment.loss {
                Loss::None => 0.0,
                Loss::Bernoulli { loss_ratio } => loss_ratio as f32,
            },
        }
    }

    /// Returns whether a browser that received `self` needs no update to `now`.
    fn does_for(&self, now: &Self) -> bool {
        let told = Self {
            delay_ms: now.delay_ms,
            ..*self
        };
        told == *now
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
    /// Direction of the sun.
    pub sun: DVec3,
}

/// A link's ports, the lower first.
type Ports = (u32, u32);

/// All links at a step in the order of their ports. Of the two directions, the one from the lower port is sent, unless only
/// the other exists.
#[derive(Debug, Default)]
pub struct Links(Vec<(Ports, SentLink)>);

impl Links {
    /// Those of a step.
    #[must_use]
    pub fn new(layout: &Layout, snapshot: &Snapshot) -> Self {
        let told = |edge: &Edge| {
            let (from, to) = (edge.from.0, edge.to.0);
            let told = SentLink::of(layout, edge, snapshot.t_ns);
            if from < to {
                return ((from, to), told);
            }
            let nodes = (told.nodes.1, told.nodes.0);
            ((to, from), SentLink { nodes, ..told })
        };
        let there = snapshot.edges.iter().filter(|edge| edge.from < edge.to);
        let back = snapshot.edges.iter().filter(|edge| edge.from > edge.to);
        let mut links: Vec<(Ports, SentLink)> = there.chain(back).map(told).collect();
        links.sort_by_key(|(ports, _)| *ports);
        links.dedup_by_key(|(ports, _)| *ports);
        Self(links)
    }

    /// Returns the difference from `before`: removed links, and new or changed ones.
    fn since(&self, before: &Self) -> (Vec<Ports>, Vec<(Ports, SentLink)>) {
        let (mut gone, mut set) = (Vec::new(), Vec::new());
        let mut old = before.0.iter().peekable();
        for link in &self.0 {
            while let Some((ports, _)) = old.next_if(|(ports, _)| *ports < link.0) {
                gone.push(*ports);
            }
            let known = old.next_if(|(ports, _)| *ports == link.0);
            if !known.is_some_and(|(_, told)| told.does_for(&link.1)) {
                set.push(*link);
            }
        }
        gone.extend(old.map(|(ports, _)| *ports));
        (gone, set)
    }
}

/// The content of the previous message.
#[derive(Debug, Clone, Copy)]
pub struct Before<'a> {
    /// All links that are known by it.
    pub links: &'a Links,
    /// It had the step's positions, for later.
    pub continues: bool,
}

impl Step<'_> {
    /// Returns the message for a browser that received `before`.
    #[must_use]
    pub fn message(&self, links: &Links, before: Option<Before<'_>>) -> Vec<u8> {
        let (step, snapshot) = (self, self.snapshot);
        let none = Links::default();
        let (gone, set) = links.since(before.map_or(&none, |before| before.links));
        let fresh = before.is_none();
        let continues = before.is_some_and(|before| before.continues);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sky::tests::iridium;
    use std::collections::BTreeMap;

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
        let mut told: Option<Links> = None;
        let mut known = BTreeMap::new();
        let mut sizes = Vec::new();
        for step in 0..60 {
            let snapshot = stepper.advance();
            let later = snapshot.positions_itrf_m.clone();
            let links = Links::new(&lab.layout, &snapshot);
            let before = told.as_ref().map(|links| Before {
                links,
                // Now and then the message before was for another time.
                continues: step % 20 != 0,
            });
            let message = Step {
                snapshot: &snapshot,
                then: &later,
                then_ns: snapshot.t_ns + lab.step_ns(),
                sun: DVec3::X,
            };
            let bytes = message.message(&links, before);
            told = Some(links);
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
        let going_on = sizes[1..].iter().enumerate();
        let mut going_on = going_on.filter(|(before, _)| (before + 1) % 20 != 0);
        assert!(going_on.all(|(_, size)| 3 * size < sizes[0]), "{sizes:?}");
    }
}
