//! Changes that programs in a node make to the node's own network stack. They are detected, reported and, as far as
//! Constel's own settings are concerned, restored.
//!
//! A node may change its own stack in any way. A refusal of its kernel is therefore an error of the lab only if no
//! program was ever in the node and its stack is as Constel set it up. Nodes are watched from before the first
//! program enters them: one socket receives the kernel's announcements for all of them ([`StackWatch`]). An
//! announcement only means that a node's stack must be compared. The comparison reads the stack, repeats missing
//! requests, and reports the differences.

mod record;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use constel_host::netlink::{Batch, BatchError, StackWatch};
use constel_host::{Error, NetNs};
use constel_link::PortId;
use constel_plan::{Management, Planner, node_ifindex};
use constel_scenario::model::Mode;
use constel_topology::NodeId;

use crate::clock::mono_ns;
use crate::error::EngineError;
use crate::nodes::kernels::{Kernels, spec};
use crate::nodes::management::ManagementNet;
use crate::nodes::ports::PortMaker;

use record::Record;
pub(crate) use record::{Changed, Spans};
use wanted::{Cure, Finding, Wanted};

/// The shortest time between two comparisons of a node, however often it changes. The time doubles while each
/// comparison finds something new: a program that undoes each restoration at once does not slow other nodes.
const SHORTEST_GAP: Duration = Duration::from_millis(100);
/// The longest such time. It is also the interval of comparisons for a node that differs although no change was
/// announced.
const LONGEST_GAP: Duration = Duration::from_secs(5);

/// The shortest time between comparisons for changes that the kernel does not announce: BPF programs, the older
/// iptables, routes in front of ours. One node is compared after the other, so that the effort does not grow with their
/// number.
const SWEEP_GAP: Duration = Duration::from_secs(1);
/// Such comparisons take at most this share of the time: one part in a hundred...
const SWEEP_SHARE: u32 = 100;
/// ...but one of them is made in this time, however slow an earlier one was on a busy host.
const LONGEST_SWEEP_GAP: Duration = Duration::from_secs(10);

/// The largest number of rounds of restoration: a restored object may be needed for another, as an address for its
/// routes.
const PASSES: usize = 3;

/// The nodes that programs have entered, and their changes to the stacks.
#[derive(Default)]
pub(crate) struct OwnStacks {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// The watch, which is opened for the first node that is entered.
    watch: Option<StackWatch>,
    nodes: BTreeMap<NodeId, Entered>,
    /// Changes that no event has reported yet.
    news: Vec<Changed>,
    /// Missing ports that wait for [`Kernels::make_ports_again`], with their nodes.
    gone: BTreeMap<PortId, NodeId>,
    /// Nodes whose management ports are missing, in the same way.
    unmanaged: BTreeSet<NodeId>,
    /// The management addresses, if the lab has any.
    management: Option<Management>,
    /// The duration of the longest comparison of late: half of it is forgotten with each further one.
    slowest: Duration,
    /// The time of the last comparison that no announcement caused.
    swept_at: Option<Instant>,
}

/// A node that programs have entered.
#[derive(Default)]
struct Entered {
    /// The time of the first announced change since the last comparison.
    touched: Option<Instant>,
    /// Whether there may be a change: announcements were lost because the buffer was full.
    suspected: bool,
    looked_at: Option<Instant>,
    gap: Duration,
    /// The kernel's refusal since the last comparison.
    refused: Option<String>,
    record: Record,
}

impl Entered {
    fn is_due(&self, now: Instant) -> bool {
        let since = self.looked_at.map(|at| now.saturating_duration_since(at));
        let passed = |gap: Duration| since.is_none_or(|since| since >= gap);
        match self.touched {
            Some(_) => passed(self.gap),
            None => (self.suspected || self.record.is_open()) && passed(LONGEST_GAP),
        }
    }

    /// Records a comparison, and whether it found something new.
    fn looked(&mut self, news: bool) {
        let now = Instant::now();
        // Only changes that follow at once lengthen the interval; occasional ones are found quickly.
        let at_once = self.looked_at.is_some_and(|at| now < at + 2 * self.gap);
        self.gap = match news && at_once {
            true => (self.gap * 2).min(LONGEST_GAP),
            false => SHORTEST_GAP,
        };
        self.looked_at = Some(now);
        self.touched = None;
        self.suspected = false;
    }

    fn touch(&mut self) {
        self.touched.get_or_insert_with(Instant::now);
    }
}

impl OwnStacks {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Records that nodes of this lab have management ports.
    pub(crate) fn manage(&self, own: Management) {
        self.lock().management = Some(own);
    }

    /// Stops watching: further changes are part of Constel's own take-down.
    pub(crate) fn close(&self) {
        self.lock().watch = None;
    }

    /// Returns the changes since the last call.
    pub(crate) fn take_news(&self) -> Vec<Changed> {
        std::mem::take(&mut self.lock().news)
    }

    /// Returns whether some node's stack is known to differ from Constel's settings.
    pub(crate) fn is_changed(&self) -> bool {
        let inner = self.lock();
        inner.nodes.values().any(|node| node.record.is_open())
    }

    /// Returns the nodes whose stacks changed so far, each with the times and the differences.
    pub(crate) fn spans(&self, now_ns: u64) -> BTreeMap<NodeId, Spans> {
        let inner = self.lock();
        let changed = inner.nodes.iter();
        changed
            .filter_map(|(node, own)| Some((*node, own.record.spans(now_ns)?)))
            .collect()
    }

    /// Returns the nodes to compare in the time that is left, none twice within its interval.
    fn due(&self, left: Duration) -> Result<Vec<NodeId>, EngineError> {
        let mut inner = self.lock();
        let Inner {
            watch,
            nodes,
            slowest,
            swept_at,
            ..
        } = &mut *inner;
        if let Some(watch) = watch {
            let touched = watch.drain()?;
            if touched.lost {
                // One node that changes all the time must not cause a comparison of every other node each time.
                nodes.values_mut().for_each(|node| node.suspected = true);
            }
            for id in touched.ids {
                nodes.get_mut(&NodeId(id)).map(Entered::touch);
            }
        }
        let now = Instant::now();
        let due = nodes.iter().filter(|(_, node)| node.is_due(now));
        let mut due: Vec<NodeId> = due.map(|(node, _)| *node).collect();
        let fits = left >= *slowest * 2;
        if !fits {
            // With short steps the time never suffices: a node that has waited long is compared nevertheless.
            let waits =
                |node: &NodeId| nodes[node].touched.is_some_and(|at| now > at + LONGEST_GAP);
            due.retain(waits);
            due.truncate(1);
        }
        let gap = match fits {
            true => SWEEP_GAP.max(*slowest * SWEEP_SHARE).min(LONGEST_SWEEP_GAP),
            false => LONGEST_SWEEP_GAP,
        };
        if due.is_empty()
            && swept_at.is_none_or(|at| now > at + gap)
            // An open difference has comparisons of its own.
            && let Some((node, _)) = nodes
                .iter()
                .filter(|(_, node)| !node.record.is_open())
                .min_by_key(|(_, node)| node.looked_at)
        {
            *swept_at = Some(now);
            due.push(*node);
        }
        Ok(due)
    }
}

impl Kernels {
    /// Records that a program is about to enter a node: from here on its stack is watched. If the kernel does not
    /// allow watching, refusals and comparisons still find changes.
    pub(crate) fn entered(&self, node: NodeId) {
        if !self.ours().has(node) || self.member(node).is_some() {
            return;
        }
        let mut inner = self.own_stacks.lock();
        if inner.nodes.contains_key(&node) {
            return;
        }
        inner.nodes.insert(node, Entered::default());
        if inner.watch.is_none() {
            inner.watch = StackWatch::open(self.computes_routes()).ok();
        }
        if let Some(watch) = &inner.watch {
            // A node that cannot be watched is compared when its kernel refuses a request.
            drop(self.node(node).watch(watch, node.0));
        }
    }

    fn computes_routes(&self) -> bool {
        matches!(self.blueprint.lab.scenario.routing.mode, Mode::Computed(_))
    }

    /// Returns whether changes by a node's programs are restored.
    pub(crate) fn restores(&self, node: NodeId) -> bool {
        let software = self.blueprint.lab.software.get(node.index());
        software.is_none_or(|software| !software.keeps_changes)
    }

    /// Handles the requests of a batch that a node's kernel refused. The kernel applied all others.
    ///
    /// # Errors
    /// The refusal, if no program was ever in the node and its stack is unchanged. Then Constel's request itself was
    /// not possible.
    pub(super) fn refused(&self, node: NodeId, refusal: BatchError) -> Result<(), EngineError> {
        let known = self.own_stacks.lock().nodes.contains_key(&node);
        if !known
            && self
                .look(node, &self.fresh(node))?
                .is_none_or(|found| found.is_empty())
        {
            return Err(Error::Batch(refusal).into());
        }
        // Another process of the machine may have entered the node unnoticed.
        self.entered(node);
        let mut inner = self.own_stacks.lock();
        if let Some(own) = inner.nodes.get_mut(&node) {
            own.touch();
            own.refused = Some(first_of(&refusal));
        }
        Ok(())
    }

    fn fresh(&self, node: NodeId) -> Wanted {
        let mut wanted = Wanted::fresh(&self.blueprint, node, self.forwarding.is_some());
        if let Some(own) = &self.own_stacks.lock().management {
            wanted.manage(own, node);
        }
        wanted
    }

    /// Returns the settings that a node should have now.
    fn wanted(&self, node: NodeId, planner: &Planner) -> Result<Wanted, EngineError> {
        let layout = &self.blueprint.lab.layout;
        let mut wanted = self.fresh(node);
        for end in planner.adjacencies_of(node) {
            let known = self
                .blueprint
                .neighbours(layout.port(end.port), end.far_port);
            wanted.neighbours.extend(known.iter().map(spec));
        }
        for row in planner.routes_of(node) {
            wanted.routes.extend(self.kernel_routes(&row));
        }
        Ok(wanted)
    }

    /// Returns the differences of a node's stack; `None` if it changes too fast to be read, or does not exist.
    ///
    /// # Errors
    /// When its kernel does not answer.
    fn look(&self, node: NodeId, wanted: &Wanted) -> Result<Option<Vec<Finding>>, EngineError> {
        let live = self.node(node);
        // Tables can be large, so that they are read only if some routes are Constel's.
        let routes = match wanted.routes.is_empty() && wanted.own_routes.is_empty() {
            true => None,
            false => match steady(live.routes())? {
                Some(routes) => Some(routes),
                None => return Ok(None),
            },
        };
        let stack = steady(live.stack())?.flatten();
        Ok(stack.map(|stack| wanted.differences(&stack, routes.as_deref())))
    }

    /// Compares the nodes whose stacks may have changed, as far as the given time suffices, and restores Constel's
    /// settings.
    ///
    /// # Errors
    /// When a kernel does not answer.
    pub(crate) fn look_after(&self, planner: &Planner, left: Duration) -> Result<(), EngineError> {
        let begun = Instant::now();
        for node in self.own_stacks.due(left)? {
            let look = Instant::now();
            self.look_at(node, planner)?;
            let mut inner = self.own_stacks.lock();
            inner.slowest = look.elapsed().max(inner.slowest / 2);
            // The longest comparison of late is the estimate for the next one.
            if begun.elapsed() + inner.slowest > left {
                break;
            }
        }
        Ok(())
    }

    fn look_at(&self, node: NodeId, planner: &Planner) -> Result<(), EngineError> {
        let wanted = self.wanted(node, planner)?;
        let refused = {
            let mut inner = self.own_stacks.lock();
            let own = inner.nodes.get_mut(&node);
            own.and_then(|own| own.refused.take())
        };
        // A stack that changes too fast to be read counts as news, so that the interval grows.
        let Some(before) = self.look(node, &wanted)? else {
            self.note(node, |own| own.looked(true));
            return Ok(());
        };
        let restores = self.restores(node);
        let mut left = before.clone();
        let mut problem = refused;
        // Each round may make further requests possible: an address must exist before the routes that use it.
        for _ in 0..PASSES {
            if !restores || !left.iter().any(|found| found.cure != Cure::Node) {
                break;
            }
            problem = self.restore(node, &left)?;
            left = self.look(node, &wanted)?.unwrap_or(left);
        }
        let now_ns = mono_ns();
        let mut inner = self.own_stacks.lock();
        let Inner { nodes, news, .. } = &mut *inner;
        if let Some(own) = nodes.get_mut(&node) {
            let changed = own.record.look(node, now_ns, &before, &left, problem);
            own.looked(changed.is_some());
            news.extend(changed);
        }
        Ok(())
    }

    /// Creates ports again that programs in nodes deleted or moved away. The next comparison of their nodes
    /// restores the settings on them, and reports obstacles.
    pub(crate) fn make_ports_again(
        &self,
        ports: &dyn PortMaker,
        management: Option<&ManagementNet>,
    ) {
        let (gone, unmanaged) = {
            let mut inner = self.own_stacks.lock();
            let Inner {
                gone, unmanaged, ..
            } = &mut *inner;
            (std::mem::take(gone), std::mem::take(unmanaged))
        };
        for node in unmanaged {
            let made = management.map_or(Ok(()), |own| self.manage_again(own, node));
            self.note(node, |own| {
                own.touch();
                own.refused = made.err().map(|error| error.to_string());
            });
        }
        for (port, node) in gone {
            let made = self.make_port_again(ports, node, port);
            self.note(node, |own| {
                own.touch();
                own.refused = made.err().map(|error| error.to_string());
            });
        }
    }

    fn manage_again(&self, management: &ManagementNet, node: NodeId) -> Result<(), EngineError> {
        let name = &self.blueprint.lab.layout.node(node).name;
        let inside = NetNs::open(self.node(node).netns_path())?;
        management.add_port_again(node, name, inside.fd())?;
        let mut batch = Batch::new();
        management.set_up_port(node, &mut batch)?;
        Ok(self.node(node).tell(&mut batch)?)
    }

    fn make_port_again(
        &self,
        ports: &dyn PortMaker,
        node: NodeId,
        port: PortId,
    ) -> Result<(), EngineError> {
        let port = self.blueprint.lab.layout.port(port);
        // If the interface was moved away, its other end still exists.
        ports.remove(port.id)?;
        let inside = NetNs::open(self.node(node).netns_path())?;
        let mut hand = ports.hand();
        hand.add(&self.blueprint, port, inside.fd())?;
        hand.make()?;
        let full_checksums = self.blueprint.lab.has_full_checksums(node);
        inside.run(|| ports.prepare(std::slice::from_ref(port), full_checksums))??;
        ports.attach(&[port.id])?;
        let mut batch = Batch::new();
        batch.link_up(node_ifindex(port));
        Ok(self.node(node).tell(&mut batch)?)
    }

    fn note(&self, node: NodeId, change: impl FnOnce(&mut Entered)) {
        if let Some(own) = self.own_stacks.lock().nodes.get_mut(&node) {
            change(own);
        }
    }

    /// Repeats the missing requests. Returns the kernel's refusal, if any.
    fn restore(&self, node: NodeId, found: &[Finding]) -> Result<Option<String>, EngineError> {
        let mut batch = Batch::new();
        for finding in found {
            // A port cannot be created in this batch: the step loop does it in a later call.
            match &finding.cure {
                Cure::Node => {}
                Cure::Requests(requests) => {
                    for request in requests {
                        request.put(&mut batch)?;
                    }
                }
                Cure::Port(port) => {
                    self.own_stacks.lock().gone.insert(*port, node);
                }
                Cure::Management => {
                    self.own_stacks.lock().unmanaged.insert(node);
                }
            }
        }
        match self.node(node).tell(&mut batch) {
            Ok(()) => Ok(None),
            Err(Error::Batch(refusal)) => Ok(Some(first_of(&refusal))),
            Err(error) => Err(error.into()),
        }
    }
}

/// Describes the first refusal of a batch, and the number of others.
fn first_of(refusal: &BatchError) -> String {
    let first = refusal.failures.first();
    let first = first.map_or_else(String::new, ToString::to_string);
    match refusal.failures.len().saturating_sub(1) {
        0 => first,
        more => format!("{first}; and {more} more"),
    }
}

/// Returns what was read; `None` if it changed during each of several attempts.
pub(super) fn steady<T>(read: constel_host::Result<T>) -> Result<Option<T>, EngineError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(Error::Protocol { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One comparison that took long on a busy host once made the next ones wait for minutes, or for ever.
    #[test]
    fn after_a_slow_comparison_the_next_one_is_made_within_ten_seconds() {
        let stacks = OwnStacks::default();
        let (node, step) = (NodeId(0), Duration::from_secs(1));
        let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds));
        {
            let mut inner = stacks.lock();
            inner.nodes.insert(node, Entered::default());
            inner.slowest = 2 * step;
            inner.swept_at = ago(9);
        }
        assert_eq!(stacks.due(step).unwrap(), []);
        stacks.lock().swept_at = ago(11);
        assert_eq!(stacks.due(step).unwrap(), [node]);
        assert_eq!(stacks.due(step).unwrap(), []);
        // The time suffices, and a hundredth of it would be more.
        stacks.lock().swept_at = ago(9);
        assert_eq!(stacks.due(4 * step).unwrap(), []);
        stacks.lock().swept_at = ago(11);
        assert_eq!(stacks.due(4 * step).unwrap(), [node]);
    }
}
