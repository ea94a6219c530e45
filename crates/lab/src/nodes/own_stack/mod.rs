//! What programs in a node do to the node's own network stack: seen, reported and, where it is Constel's, restored.
//!
//! A node may do anything to its own stack. So a refusal of its kernel is an error of the lab only where no program was ever
//! in the node and its stack is as Constel made it. Nodes that programs enter are watched from before the first of them: one
//! socket hears of all of them ([`StackWatch`]). An announcement only says that a node's stack is to be looked at. The look
//! compares it with what the node was told, asks again for what is missing, and reports the difference.

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

/// From one look at a node to the next, however often it is touched. It doubles while each look finds something new: a
/// program that undoes at once what is restored, again and again, costs others nothing.
const SHORTEST_GAP: Duration = Duration::from_millis(100);
/// The longest such gap; and so often a node is looked at that is not as it was made, though nothing touched it.
const LONGEST_GAP: Duration = Duration::from_secs(5);

/// What is restored may be what something else needs: an address and its routes, a subnet and what leads over it.
const PASSES: usize = 3;

/// Nodes that programs have entered, and what these did to their stacks.
#[derive(Default)]
pub(crate) struct OwnStacks {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Opened for the first node that is entered.
    watch: Option<StackWatch>,
    nodes: BTreeMap<NodeId, Entered>,
    /// Changes that no event has reported yet.
    news: Vec<Changed>,
    /// Ports that are gone and wait for [`Kernels::make_ports_again`], with their nodes.
    gone: BTreeMap<PortId, NodeId>,
    /// Nodes whose ports of management are gone, the same.
    unmanaged: BTreeSet<NodeId>,
    /// The addresses of management, where the lab has some.
    management: Option<Management>,
    /// The longest look so far.
    slowest: Duration,
}

/// A node that programs have entered.
#[derive(Default)]
struct Entered {
    /// Since when something is known to have changed, if it did since the last look.
    touched: Option<Instant>,
    /// Whether something may have changed: there were more announcements than fit.
    suspected: bool,
    looked_at: Option<Instant>,
    gap: Duration,
    /// What its kernel refused since the last look.
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

    /// Something new was found at a look, or nothing.
    fn looked(&mut self, news: bool) {
        let now = Instant::now();
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

    /// Nodes of this lab have ports of management.
    pub(crate) fn manage(&self, own: Management) {
        self.lock().management = Some(own);
    }

    /// Watches nothing any more: what follows is Constel's own taking down.
    pub(crate) fn close(&self) {
        self.lock().watch = None;
    }

    /// What was found since this was last asked.
    pub(crate) fn take_news(&self) -> Vec<Changed> {
        std::mem::take(&mut self.lock().news)
    }

    /// Whether some node's stack is not as Constel made it, as far as was seen.
    pub(crate) fn is_changed(&self) -> bool {
        let inner = self.lock();
        inner.nodes.values().any(|node| node.record.is_open())
    }

    /// All nodes that changed their stacks so far, each with when and what.
    pub(crate) fn spans(&self, now_ns: u64) -> BTreeMap<NodeId, Spans> {
        let inner = self.lock();
        let changed = inner.nodes.iter();
        changed
            .filter_map(|(node, own)| Some((*node, own.record.spans(now_ns)?)))
            .collect()
    }

    /// Nodes to look at in a moment that lasts so long; none twice within its gap.
    fn due(&self, left: Duration) -> Result<Vec<NodeId>, EngineError> {
        let mut inner = self.lock();
        let Inner {
            watch,
            nodes,
            slowest,
            ..
        } = &mut *inner;
        if let Some(watch) = watch {
            let touched = watch.drain()?;
            if touched.lost {
                // One node that changes all the time must not make every other one worth a look each time.
                nodes.values_mut().for_each(|node| node.suspected = true);
            }
            for id in touched.ids {
                nodes.get_mut(&NodeId(id)).map(Entered::touch);
            }
        }
        let now = Instant::now();
        let due = nodes.iter().filter(|(_, node)| node.is_due(now));
        let mut due: Vec<NodeId> = due.map(|(node, _)| *node).collect();
        if left < *slowest * 2 {
            // Where steps are short, no moment is ever long enough: who has waited for long is looked at all the same.
            let waits =
                |node: &NodeId| nodes[node].touched.is_some_and(|at| now > at + LONGEST_GAP);
            due.retain(waits);
            due.truncate(1);
        }
        Ok(due)
    }
}

impl Kernels {
    /// A program is about to enter a node: from here on its stack is watched. Where the kernel does not let us watch, refusals
    /// and looks still show what changed.
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
            // What cannot be watched is looked at when its kernel refuses something.
            drop(self.node(node).watch(watch, node.0));
        }
    }

    fn computes_routes(&self) -> bool {
        matches!(self.blueprint.lab.scenario.routing.mode, Mode::Computed(_))
    }

    /// Whether what a node's programs change is restored.
    pub(crate) fn restores(&self, node: NodeId) -> bool {
        let software = self.blueprint.lab.software.get(node.index());
        software.is_none_or(|software| !software.keeps_changes)
    }

    /// A node's kernel refused requests; all others of the batch were carried out.
    ///
    /// # Errors
    /// The refusal, where no program was ever in the node and its stack is as it was made: then it is Constel that asked for
    /// something impossible.
    pub(super) fn refused(&self, node: NodeId, refusal: BatchError) -> Result<(), EngineError> {
        let known = self.own_stacks.lock().nodes.contains_key(&node);
        if !known
            && self
                .look(node, &self.fresh(node))?
                .is_none_or(|found| found.is_empty())
        {
            return Err(Error::Batch(refusal).into());
        }
        // Another process of the machine may have entered it unseen.
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

    /// All that a node should hold now.
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

    /// In what a node's stack differs; `None`: it changes too fast to be read, or there is none.
    ///
    /// # Errors
    /// When its kernel does not answer.
    fn look(&self, node: NodeId, wanted: &Wanted) -> Result<Option<Vec<Finding>>, EngineError> {
        let live = self.node(node);
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

    /// Looks at nodes whose stacks may have changed, as far as a moment suffices that lasts so long, and restores what is
    /// Constel's.
    ///
    /// # Errors
    /// When a kernel does not answer.
    pub(crate) fn look_after(&self, planner: &Planner, left: Duration) -> Result<(), EngineError> {
        let begun = Instant::now();
        for node in self.own_stacks.due(left)? {
            let look = Instant::now();
            self.look_at(node, planner)?;
            let mut inner = self.own_stacks.lock();
            inner.slowest = inner.slowest.max(look.elapsed());
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
        let Some(before) = self.look(node, &wanted)? else {
            self.note(node, |own| own.looked(true));
            return Ok(());
        };
        let restores = self.restores(node);
        let mut left = before.clone();
        let mut problem = refused;
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

    /// Makes ports again that programs in nodes deleted or moved away. The next look at their nodes restores what was on them;
    /// what is in the way is reported by it.
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
        // Of an interface that was moved away the other end is left.
        ports.remove(port.id)?;
        let inside = NetNs::open(self.node(node).netns_path())?;
        let mut hand = ports.hand();
        hand.add(&self.blueprint, port, inside.fd())?;
        hand.make()?;
        inside.run(|| ports.prepare(std::slice::from_ref(port)))??;
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

    /// Asks for what is missing again; what the kernel says against it, if anything.
    fn restore(&self, node: NodeId, found: &[Finding]) -> Result<Option<String>, EngineError> {
        let mut batch = Batch::new();
        for finding in found {
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

/// The first refusal of a batch, and how many there are.
fn first_of(refusal: &BatchError) -> String {
    let first = refusal.failures.first();
    let first = first.map_or_else(String::new, ToString::to_string);
    match refusal.failures.len().saturating_sub(1) {
        0 => first,
        more => format!("{first}; and {more} more"),
    }
}

/// What was read; `None`: all of it changed during each of many tries.
pub(super) fn steady<T>(read: constel_host::Result<T>) -> Result<Option<T>, EngineError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(Error::Protocol { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
