//! The failures at an instant: a pure function of the spec, its seed and the time.
//!
//! Every failing object has a generator of its own, seeded by the lab's seed, the failure's name and the
//! object's name. Neither the order of objects nor other objects therefore change an object's failures.

mod hits;
mod random;

use crate::effort::{CutReason, Effort};
use crate::layout::Layout;
use crate::node::NodeId;
use crate::spec::FailureTime;
use constel_link::PortId;
use constel_orbit::DVec3;
pub(crate) use hits::that_hit_nothing;
use hits::{Hits, hit, objects};
use random::Process;
pub use random::key;

/// The failed nodes, links and edges at a step's start. Each list is sorted and names the failure by its index
/// in the spec.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Broken {
    /// Nodes without any link.
    pub nodes: Vec<(NodeId, u16)>,
    /// Numbers of laser links that are broken by themselves.
    pub links: Vec<(u32, u16)>,
    /// Numbers of cables that are broken by themselves.
    pub cables: Vec<(u32, u16)>,
    /// Failures that trouble edges of networks, by their place in the spec.
    pub networks: Vec<u16>,
}

impl Broken {
    /// Returns the failure that took a node down.
    #[must_use]
    pub fn node(&self, node: NodeId) -> Option<u16> {
        let at = self.nodes.binary_search_by_key(&node, |n| n.0).ok()?;
        Some(self.nodes[at].1)
    }

    /// Returns the failure that took a laser link down.
    #[must_use]
    pub fn link(&self, number: u32) -> Option<u16> {
        let at = self.links.binary_search_by_key(&number, |l| l.0).ok()?;
        Some(self.links[at].1)
    }

    /// Returns the failure that took a cable down.
    #[must_use]
    pub fn cable(&self, number: u32) -> Option<u16> {
        let at = self.cables.binary_search_by_key(&number, |c| c.0).ok()?;
        Some(self.cables[at].1)
    }

    /// Whether an edge between these ports is down because a node, laser or cable failed, not because
    /// satellites moved.
    #[must_use]
    pub fn cuts(&self, layout: &Layout, from: PortId, to: PortId) -> bool {
        let mut nodes = [from, to].into_iter().map(|port| layout.port(port).node);
        let laser = layout.isl_of_port(from);
        nodes.any(|node| self.node(node).is_some())
            || laser.is_some_and(|link| self.link(link.number).is_some())
            || (layout.cable_of_port(from)).is_some_and(|cable| self.cable(cable.number).is_some())
    }

    fn sort(&mut self) {
        // If several failures hit one object, the first in the spec is reported.
        self.nodes.sort_unstable();
        self.nodes.dedup_by_key(|n| n.0);
        self.links.sort_unstable();
        self.links.dedup_by_key(|l| l.0);
        self.cables.sort_unstable();
        self.cables.dedup_by_key(|c| c.0);
        self.networks.sort_unstable();
    }
}

/// Objects that fail together.
#[derive(Debug, Clone)]
struct Group {
    failure: u16,
    hits: Hits,
    clock: Clock,
}

#[derive(Debug, Clone)]
enum Clock {
    Scheduled {
        from_ns: u64,
        until_ns: u64,
    },
    Regular {
        from_ns: u64,
        for_ns: u64,
        every_ns: u64,
    },
    Random(Process),
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
                    FailureTime::Regular {
                        from_ns,
                        for_ns,
                        every_ns,
                    } => Clock::Regular {
                        from_ns,
                        for_ns,
                        every_ns: every_ns.max(1),
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

    /// Begins a failure whose time is given at run time, at `from_ns`; an earlier beginning stays. Returns
    /// false if the failure is of another kind.
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

    /// Adds nodes to a failure whose time is given at run time, from `from_ns` on. Returns false if the failure
    /// is of another kind.
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

    /// Ends a failure whose time is given at run time, for these nodes, at `until_ns`. Returns false if the
    /// failure is of another kind.
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

    /// Returns a state without failures.
    pub(crate) fn none() -> Failures {
        Failures { groups: Vec::new() }
    }

    /// Returns the failures of `layout`, with the times that were given at run time to these, which are those of `own`.
    pub(crate) fn over(&self, own: &Layout, layout: &Layout) -> Failures {
        let mut next = Failures::new(layout);
        let told = |layout: &Layout, group: &Group| is_told(layout, usize::from(group.failure));
        next.groups.retain(|group| !told(layout, group));
        for group in self.groups.iter().filter(|group| told(own, group)) {
            let name = &own.spec().failures[usize::from(group.failure)].name;
            let place = layout.spec().failures.iter().position(|f| f.name == *name);
            next.groups.extend(place.map(|place| Group {
                failure: place as u16,
                ..group.clone()
            }));
        }
        next
    }

    /// Whether it matters where the Sun is.
    pub(crate) fn need_the_sun(&self) -> bool {
        let eclipse = |g: &Group| matches!(g.hits, Hits::Eclipse { .. });
        self.groups.iter().any(eclipse)
    }

    /// Advances random failures and repairs to `t_ns`, which [`Failures::at`] would do without a pause.
    ///
    /// # Errors
    /// When the work exceeds the budget, or the caller cancelled it.
    pub(crate) fn pass_until(
        &mut self,
        t_ns: u64,
        effort: &mut Effort<'_>,
    ) -> Result<(), CutReason> {
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

    /// Fills `out` with the failures at the moment.
    pub(crate) fn at(&mut self, layout: &Layout, moment: &Moment<'_>, out: &mut Broken) {
        let t_ns = moment.t_ns;
        out.nodes.clear();
        out.links.clear();
        out.cables.clear();
        out.networks.clear();
        for group in &mut self.groups {
            let active = match &mut group.clock {
                Clock::Scheduled { from_ns, until_ns } => (*from_ns..*until_ns).contains(&t_ns),
                Clock::Regular {
                    from_ns,
                    for_ns,
                    every_ns,
                } => t_ns
                    .checked_sub(*from_ns)
                    .is_some_and(|since_ns| since_ns % *every_ns < *for_ns),
                Clock::Random(process) => process.broken_at(t_ns),
            };
            if active {
                hit(&group.hits, group.failure, layout, moment, out);
            }
        }
        out.sort();
    }
}

/// The positions of all nodes at a moment.
pub(crate) struct Moment<'a> {
    pub(crate) t_ns: u64,
    /// Positions of all nodes.
    pub(crate) positions: &'a [DVec3],
    /// The Sun, if it matters.
    pub(crate) sun: Option<DVec3>,
}

/// Whether the time of a failure of the spec is given at run time.
fn is_told(layout: &Layout, failure: usize) -> bool {
    let own = layout.spec().failures.get(failure);
    own.is_some_and(|own| own.when == FailureTime::Told)
}
