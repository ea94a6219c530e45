//! What is broken at an instant: a pure function of the spec, its seed and the time.
//!
//! Every failing object has a generator of its own, seeded by the lab's seed, the failure's name and the
//! object's name, so that neither their order nor other objects change what happens to it.

use crate::circle::Circle;
use crate::class::Access;
use crate::effort::{Cut, Effort};
use crate::error::SpecError;
use crate::layout::Layout;
use crate::node::NodeId;
use crate::pairing::IslKind;
use crate::spec::{Failure, FailureTarget, FailureTime};
use constel_link::PortId;
use constel_orbit::DVec3;
use constel_orbit::sun::{Shadow, shadow};

/// What is broken at a step's start. Each list is sorted and names the failure by its place in the spec.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Broken {
    /// Nodes without any link.
    pub nodes: Vec<(NodeId, u16)>,
    /// Numbers of laser links that are broken by themselves.
    pub links: Vec<(u32, u16)>,
    /// Failures that trouble edges of networks, by their place in the spec.
    pub networks: Vec<u16>,
}

impl Broken {
    /// The failure that takes a node out.
    #[must_use]
    pub fn node(&self, node: NodeId) -> Option<u16> {
        let at = self.nodes.binary_search_by_key(&node, |n| n.0).ok()?;
        Some(self.nodes[at].1)
    }

    /// The failure that takes a laser link out.
    #[must_use]
    pub fn link(&self, number: u32) -> Option<u16> {
        let at = self.links.binary_search_by_key(&number, |l| l.0).ok()?;
        Some(self.links[at].1)
    }

    /// Whether an edge between these ports is gone because a node or laser broke, not because the sky turned.
    #[must_use]
    pub fn cuts(&self, layout: &Layout, from: PortId, to: PortId) -> bool {
        let mut nodes = [from, to].into_iter().map(|port| layout.port(port).node);
        let laser = layout.isl_of_port(from);
        nodes.any(|node| self.node(node).is_some())
            || laser.is_some_and(|link| self.link(link.number).is_some())
    }

    fn sort(&mut self) {
        // Of several failures the first in the spec is blamed.
        self.nodes.sort_unstable();
        self.nodes.dedup_by_key(|n| n.0);
        self.links.sort_unstable();
        self.links.dedup_by_key(|l| l.0);
        self.networks.sort_unstable();
    }
}

/// What breaks together.
#[derive(Debug, Clone)]
struct Group {
    failure: u16,
    hits: Hits,
    clock: Clock,
}

#[derive(Debug, Clone)]
enum Hits {
    Nodes(Vec<NodeId>),
    Links(Vec<u32>),
    /// Edges of a network; which is found with its edges.
    Network,
    /// And what is hit there.
    Region {
        circle: Circle,
        satellites: bool,
        stations: bool,
    },
    /// Satellites in the Earth's shadow, and when each works there all the same.
    Eclipse {
        /// Place in the node table, and where in the period its turn begins, 0..1.
        satellites: Vec<(usize, f64)>,
        duty: f64,
        period_ns: u64,
    },
    /// Lasers of satellites of a constellation beyond a latitude; squared sine of it.
    Polar {
        constellation: usize,
        sine_squared: f64,
    },
}

#[derive(Debug, Clone)]
enum Clock {
    Scheduled { from_ns: u64, until_ns: u64 },
    Random(Process),
}

/// Times of failure and repair, exponentially distributed; working at the start of the lab.
#[derive(Debug, Clone)]
struct Process {
    key: u64,
    mtbf_ns: f64,
    mttr_ns: f64,
    random: SplitMix,
    broken: bool,
    /// When the state changes next, and the last time asked for.
    next_ns: f64,
    asked_ns: u64,
}

impl Process {
    fn new(key: u64, mtbf_ns: u64, mttr_ns: u64) -> Process {
        let mut process = Process {
            key,
            mtbf_ns: mtbf_ns as f64,
            mttr_ns: mttr_ns as f64,
            random: SplitMix(key),
            broken: false,
            next_ns: 0.0,
            asked_ns: 0,
        };
        process.restart();
        process
    }

    fn restart(&mut self) {
        self.random = SplitMix(self.key);
        self.broken = false;
        self.next_ns = self.random.exponential(self.mtbf_ns);
        self.asked_ns = 0;
    }

    fn broken_at(&mut self, t_ns: u64) -> bool {
        if t_ns < self.asked_ns {
            self.restart();
        }
        self.asked_ns = t_ns;
        while self.next_ns <= t_ns as f64 {
            self.broken = !self.broken;
            let mean = if self.broken {
                self.mttr_ns
            } else {
                self.mtbf_ns
            };
            // At least a nanosecond, so that time goes on.
            self.next_ns += self.random.exponential(mean).max(1.0);
        }
        self.broken
    }
}

/// Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
#[derive(Debug, Clone, Copy)]
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 53 random bits in (0, 1].
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 1.0) / (1u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.unit().ln()
    }
}

/// A number for the seed, a purpose (such as a failure's name) and an object: FNV-1a of the three, stirred.
pub fn key(seed: u64, failure: &str, object: &str) -> u64 {
    let bytes = seed.to_le_bytes();
    let parts = [&bytes[..], failure.as_bytes(), &[0], object.as_bytes()];
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in parts.into_iter().flatten() {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    SplitMix(hash).next()
}

/// All failures of a spec, walked through time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Failures {
    groups: Vec<Group>,
}

impl Failures {
    pub(crate) fn new(layout: &Layout) -> Failures {
        let mut groups = Vec::new();
        for (number, failure) in layout.spec().failures.iter().enumerate() {
            for (name, hits) in objects(layout, failure) {
                let clock = match failure.when {
                    FailureTime::Scheduled { from_ns, until_ns } => Clock::Scheduled {
                        from_ns,
                        until_ns: until_ns.unwrap_or(u64::MAX),
                    },
                    FailureTime::Told => Clock::Scheduled {
                        from_ns: u64::MAX,
                        until_ns: u64::MAX,
                    },
                    FailureTime::Random { mtbf_ns, mttr_ns } => {
                        let key = key(layout.spec().seed, &failure.name, &name);
                        Clock::Random(Process::new(key, mtbf_ns, mttr_ns))
                    }
                };
                groups.push(Group {
                    failure: number as u16,
                    hits,
                    clock,
                });
            }
        }
        Failures { groups }
    }

    /// A failure that waits for it begins at `from_ns`, or keeps an earlier beginning. False when it waits for nothing.
    pub(crate) fn begin(&mut self, layout: &Layout, failure: usize, from_ns: u64) -> bool {
        if !is_told(layout, failure) {
            return false;
        }
        for group in &mut self.groups {
            if usize::from(group.failure) == failure
                && let Clock::Scheduled {
                    from_ns: begins, ..
                } = &mut group.clock
            {
                *begins = from_ns.min(*begins);
            }
        }
        true
    }

    /// Further nodes go with a failure that waits to be told, from `from_ns` on. False when it waits for nothing.
    pub(crate) fn begin_also(
        &mut self,
        layout: &Layout,
        failure: usize,
        nodes: &[NodeId],
        from_ns: u64,
    ) -> bool {
        if !is_told(layout, failure) {
            return false;
        }
        let more = nodes.iter().map(|node| Group {
            failure: failure as u16,
            hits: Hits::Nodes(vec![*node]),
            clock: Clock::Scheduled {
                from_ns,
                until_ns: u64::MAX,
            },
        });
        self.groups.extend(more);
        true
    }

    /// These nodes of a failure that was told are whole again from `until_ns` on. False when it waits for nothing.
    pub(crate) fn end(
        &mut self,
        layout: &Layout,
        failure: usize,
        nodes: &[NodeId],
        until_ns: u64,
    ) -> bool {
        if !is_told(layout, failure) {
            return false;
        }
        for group in &mut self.groups {
            // Nodes of such a failure are each a group of their own.
            let Hits::Nodes(own) = &group.hits else {
                continue;
            };
            if usize::from(group.failure) == failure
                && own.iter().all(|node| nodes.contains(node))
                && let Clock::Scheduled { until_ns: ends, .. } = &mut group.clock
            {
                *ends = until_ns.min(*ends);
            }
        }
        true
    }

    /// Nothing ever fails.
    pub(crate) fn none() -> Failures {
        Failures { groups: Vec::new() }
    }

    /// Whether it matters where the Sun is.
    pub(crate) fn need_the_sun(&self) -> bool {
        let eclipse = |g: &Group| matches!(g.hits, Hits::Eclipse { .. });
        self.groups.iter().any(eclipse)
    }

    /// Lets random failures and repairs pass until `t_ns`, which [`Failures::at`] would do without a pause.
    ///
    /// # Errors
    /// When that is too much, or nobody wants it any more.
    pub(crate) fn pass_until(&mut self, t_ns: u64, effort: &mut Effort<'_>) -> Result<(), Cut> {
        for group in &mut self.groups {
            let Clock::Random(process) = &mut group.clock else {
                continue;
            };
            // Some tens of microseconds.
            let stretch_ns = (1_000.0 * (process.mtbf_ns + process.mttr_ns)) as u64;
            let mut at_ns = process.asked_ns.min(t_ns);
            if t_ns < process.asked_ns {
                at_ns = 0;
            }
            while at_ns < t_ns {
                effort.spend(50)?;
                at_ns = at_ns.saturating_add(stretch_ns.max(1)).min(t_ns);
                process.broken_at(at_ns);
            }
        }
        Ok(())
    }

    /// What is broken at the moment.
    pub(crate) fn at(&mut self, layout: &Layout, moment: &Moment<'_>, out: &mut Broken) {
        let t_ns = moment.t_ns;
        out.nodes.clear();
        out.links.clear();
        out.networks.clear();
        for group in &mut self.groups {
            let active = match &mut group.clock {
                Clock::Scheduled { from_ns, until_ns } => (*from_ns..*until_ns).contains(&t_ns),
                Clock::Random(process) => process.broken_at(t_ns),
            };
            if active {
                hit(&group.hits, group.failure, layout, moment, out);
            }
        }
        out.sort();
    }
}

/// Where things are at a moment.
pub(crate) struct Moment<'a> {
    pub(crate) t_ns: u64,
    /// Of all nodes.
    pub(crate) positions: &'a [DVec3],
    /// The Sun, if it matters.
    pub(crate) sun: Option<DVec3>,
}

/// Whether a failure of the spec waits to be told when it begins.
fn is_told(layout: &Layout, failure: usize) -> bool {
    let own = layout.spec().failures.get(failure);
    own.is_some_and(|own| own.when == FailureTime::Told)
}

fn hit(hits: &Hits, failure: u16, layout: &Layout, moment: &Moment<'_>, out: &mut Broken) {
    let positions = moment.positions;
    match hits {
        Hits::Eclipse {
            satellites,
            duty,
            period_ns,
        } => {
            let Some(sun) = moment.sun else { return };
            let turn = (moment.t_ns % period_ns) as f64 / *period_ns as f64;
            for &(index, begins) in satellites {
                let rests = (turn - begins).rem_euclid(1.0) >= *duty;
                if rests && shadow(positions[index], sun) == Shadow::Umbra {
                    out.nodes.push((NodeId(index as u32), failure));
                }
            }
        }
        Hits::Nodes(nodes) => out.nodes.extend(nodes.iter().map(|n| (*n, failure))),
        Hits::Links(links) => out.links.extend(links.iter().map(|l| (*l, failure))),
        Hits::Network => out.networks.push(failure),
        Hits::Region {
            circle,
            satellites,
            stations,
        } => {
            let first = if *satellites {
                0
            } else {
                layout.satellite_count()
            };
            let end = if *stations {
                positions.len()
            } else {
                layout.satellite_count()
            };
            for (i, p) in positions.iter().enumerate().take(end).skip(first) {
                if circle.is_below(*p) {
                    out.nodes.push((NodeId(i as u32), failure));
                }
            }
        }
        Hits::Polar {
            constellation,
            sine_squared,
        } => {
            let beyond = |port| {
                let p = positions[layout.port(port).node.index()];
                p.z * p.z > sine_squared * p.length_squared()
            };
            for link in layout.isl_links() {
                if usize::from(link.constellation) == *constellation
                    && (beyond(link.a) || beyond(link.b))
                {
                    out.links.push((link.number, failure));
                }
            }
        }
    }
}

/// Failures that hit nothing in this layout: a plane without satellites, a link that is no pair.
pub(crate) fn that_hit_nothing(layout: &Layout) -> Vec<SpecError> {
    let empty = |failure: &&Failure| {
        objects(layout, failure).iter().all(|(_, hits)| match hits {
            Hits::Nodes(nodes) => nodes.is_empty(),
            Hits::Links(links) => links.is_empty(),
            Hits::Region { .. } | Hits::Polar { .. } | Hits::Eclipse { .. } | Hits::Network => {
                false
            }
        })
    };
    let failures = layout.spec().failures.iter().filter(empty);
    let error = |f: &Failure| SpecError::BadFailure {
        name: f.name.clone(),
        reason: "it hits nothing".to_owned(),
    };
    failures.map(error).collect()
}

/// What a failure hits, in pieces that fail each by itself, with their names.
fn objects(layout: &Layout, failure: &Failure) -> Vec<(String, Hits)> {
    let one = |id: NodeId| (layout.node(id).name.clone(), Hits::Nodes(vec![id]));
    let satellites = |constellation: usize| {
        layout
            .satellites_of(constellation)
            .map(|i| layout.nodes()[i].id)
    };
    let link_name = |number: u32| {
        let link = &layout.isl_links()[number as usize];
        let name = |port| layout.node(layout.port(port).node).name.as_str();
        format!("{} {}", name(link.a), name(link.b))
    };
    match &failure.what {
        FailureTarget::Nodes(names) => names
            .iter()
            .filter_map(|n| layout.find(n))
            .map(|n| one(n.id))
            .collect(),
        FailureTarget::Link { a, b } => {
            let ends = layout.find(a).zip(layout.find(b));
            let link = ends.and_then(|(a, b)| layout.isl_between(a.id, b.id));
            link.map(|l| (link_name(l.number), Hits::Links(vec![l.number])))
                .into_iter()
                .collect()
        }
        FailureTarget::Satellites { constellation } => {
            satellites(*constellation).map(one).collect()
        }
        FailureTarget::Plane {
            constellation,
            shell,
            plane,
        } => {
            let in_plane = |id: &NodeId| {
                layout
                    .node(*id)
                    .seat
                    .is_some_and(|s| (s.shell, s.plane) == (*shell, *plane))
            };
            let members = satellites(*constellation).filter(in_plane).collect();
            let name = &layout.spec().constellations[*constellation].name;
            vec![(format!("{name} {shell} {plane}"), Hits::Nodes(members))]
        }
        FailureTarget::Lasers { constellation } => layout
            .isl_links()
            .iter()
            .filter(|l| usize::from(l.constellation) == *constellation)
            .map(|l| (link_name(l.number), Hits::Links(vec![l.number])))
            .collect(),
        FailureTarget::Stations => layout
            .nodes()
            .iter()
            .filter(|n| n.class.access == Access::Chooses)
            .map(|n| one(n.id))
            .collect(),
        FailureTarget::Seam { constellation } => {
            let links = layout.isl_links().iter().filter(|l| {
                usize::from(l.constellation) == *constellation && l.kind == IslKind::Seam
            });
            vec![(
                "seam".to_owned(),
                Hits::Links(links.map(|l| l.number).collect()),
            )]
        }
        FailureTarget::Network { network, .. } => {
            let name = layout.spec().networks[*network].name.clone();
            vec![(name, Hits::Network)]
        }
        FailureTarget::Region { .. }
        | FailureTarget::Polar { .. }
        | FailureTarget::Eclipse { .. } => moving(layout, failure).into_iter().collect(),
    }
}

/// What hits whatever satellites are somewhere, or in the shadow, at the time.
fn moving(layout: &Layout, failure: &Failure) -> Option<(String, Hits)> {
    let (name, hits) = match &failure.what {
        FailureTarget::Region {
            latitude_deg,
            longitude_deg,
            radius_m,
            satellites,
            stations,
        } => {
            let hits = Hits::Region {
                circle: Circle::new(*latitude_deg, *longitude_deg, *radius_m),
                satellites: *satellites,
                stations: *stations,
            };
            ("region", hits)
        }
        FailureTarget::Polar {
            constellation,
            beyond_deg,
        } => {
            let hits = Hits::Polar {
                constellation: *constellation,
                sine_squared: beyond_deg.to_radians().sin().powi(2),
            };
            ("polar", hits)
        }
        FailureTarget::Eclipse {
            constellation,
            duty,
            period_ns,
        } => {
            let begins = |i: usize| {
                let name = &layout.nodes()[i].name;
                let key = key(layout.spec().seed, &failure.name, name);
                (i, SplitMix(key).unit())
            };
            let hits = Hits::Eclipse {
                satellites: layout.satellites_of(*constellation).map(begins).collect(),
                duty: *duty,
                period_ns: *period_ns,
            };
            ("eclipse", hits)
        }
        _ => return None,
    };
    Some((name.to_owned(), hits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_time_broken_is_that_of_repair() {
        let (mtbf, mttr) = (100_000_000_000, 25_000_000_000);
        let mut broken = 0;
        let total = 400_000;
        let mut process = Process::new(key(7, "f", "sat"), mtbf, mttr);
        for t in 0..total {
            broken += u32::from(process.broken_at(t * 1_000_000_000));
        }
        let share = f64::from(broken) / total as f64;
        assert!((share - 0.2).abs() < 0.01, "{share}");
        // Going back gives what was there before.
        let mut again = Process::new(key(7, "f", "sat"), mtbf, mttr);
        let states: Vec<bool> = (0..2000)
            .map(|t| again.broken_at(t * 1_000_000_000))
            .collect();
        for t in [1999_u64, 3, 700, 699, 0] {
            assert_eq!(process.broken_at(t * 1_000_000_000), states[t as usize]);
        }
    }

    #[test]
    fn keys_differ() {
        let all = [
            key(1, "a", "b"),
            key(2, "a", "b"),
            key(1, "ab", ""),
            key(1, "a", "c"),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(!all[i + 1..].contains(a));
        }
    }
}
