//! Nodes that only a later stage can know.

use std::collections::{BTreeMap, BTreeSet};

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::model::{Action, Centre, Disruption, FailureTarget, Mode, Name, Scenario};
use crate::source::Span;

/// A name in `traffic`, `failures`, `transport`, `mounts`, `limits` or `routing.disjoint` that may be a
/// satellite of an element file, or a satellite's name in that file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeferredNode {
    /// The name.
    pub name: Name,
    pub(crate) span: Span,
    pub(crate) path: String,
}

/// The satellites that have a name in a catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Called {
    /// No satellite of the plan.
    Nothing,
    /// This node, by its name.
    One(String),
    /// These satellites, in words.
    Several(Vec<String>),
}

impl Scenario {
    /// Settles the names that [`resolve`](crate::resolve) could not: `nodes` are the names of all nodes of the
    /// plan, and `called` returns the satellite that has a name in a catalogue. From here on all nodes have
    /// their own names.
    ///
    /// # Errors
    /// Each name that is no node, with the nearest one; that is the name of several satellites; or that is a
    /// second name of a node in the same file.
    pub fn settle_nodes(
        &mut self,
        nodes: &BTreeSet<String>,
        called: impl Fn(&str) -> Called,
    ) -> Result<(), Diagnostics> {
        let mut errors = Diagnostics::new();
        let mut settled: BTreeMap<Name, Name> = BTreeMap::new();
        // How the file calls each node.
        let mut words: BTreeMap<String, &Name> = BTreeMap::new();
        for deferred in &self.deferred {
            let name = deferred.name.as_str();
            let found = match nodes.contains(name) {
                true => Called::One(name.to_owned()),
                false => called(name),
            };
            match found {
                Called::One(node) => {
                    let word = *words.entry(node.clone()).or_insert(&deferred.name);
                    if *word != deferred.name {
                        errors.push(self.two_words(deferred, &node, word));
                    }
                    settled.insert(deferred.name.clone(), Name::settled(node));
                }
                Called::Nothing => errors.push(self.no_node(deferred, nodes)),
                Called::Several(candidates) => {
                    let message = format!(
                        "`{name}` is what {} satellites are called",
                        candidates.len()
                    );
                    let error = self.error_of(deferred, "ambiguous-node", message);
                    errors.push(error.with_allowed(candidates));
                }
            }
        }
        errors.or(())?;
        self.each_node(&mut |name| {
            if let Some(node) = settled.get(name) {
                *name = node.clone();
            }
        });
        Ok(())
    }

    /// Every place that names a node which may be a satellite.
    fn each_node(&mut self, visit: &mut dyn FnMut(&mut Name)) {
        for flow in &mut self.traffic {
            let (from, to) = match &mut flow.action {
                Action::Ping(flow) => (&mut flow.from, &mut flow.to),
                Action::Iperf3(flow) => (&mut flow.from, &mut flow.to),
                Action::Http(flow) => (&mut flow.from, &mut flow.to),
                Action::Transfer(flow) => (&mut flow.from, &mut flow.to),
                Action::Run(run) => {
                    visit(&mut run.node);
                    continue;
                }
            };
            visit(from);
            visit(&mut to.node);
        }
        for failure in &mut self.failures {
            match &mut failure.what {
                FailureTarget::Nodes(nodes) => nodes.iter_mut().for_each(&mut *visit),
                FailureTarget::Link(a, b) => [a, b].into_iter().for_each(&mut *visit),
                FailureTarget::Network(
                    _,
                    Disruption::Jamming {
                        centre: Centre::Node(node),
                        ..
                    },
                ) => visit(node),
                _ => {}
            }
        }
        let leotp = self.transport.leotp.iter_mut().map(|own| &mut own.place);
        let split_tcp = self
            .transport
            .split_tcp
            .iter_mut()
            .map(|own| &mut own.place);
        let places = leotp.chain(split_tcp);
        places
            .flat_map(|place| &mut place.nodes)
            .for_each(&mut *visit);
        let mounts = self.mounts.iter_mut().flat_map(|mount| &mut mount.nodes);
        mounts.flatten().for_each(&mut *visit);
        let limited = self.limits.nodes.iter_mut().map(|(name, _)| name);
        limited.for_each(&mut *visit);
        if let Mode::Computed(computed) = &mut self.routing.mode {
            let pairs = computed.disjoint.iter_mut();
            pairs.flat_map(|pair| &mut pair.between).for_each(visit);
        }
    }

    fn error_of(&self, deferred: &DeferredNode, code: &'static str, message: String) -> Diagnostic {
        let error = Diagnostic::new(&self.source, deferred.span, code, message);
        error.with_path(deferred.path.clone())
    }

    fn no_node(&self, deferred: &DeferredNode, nodes: &BTreeSet<String>) -> Diagnostic {
        let message = format!("no node is called `{}`", deferred.name);
        self.error_of(deferred, "unknown-node", message)
            .with_nearest(deferred.name.as_str(), nodes.iter().map(String::as_str))
            .with_next(format!(
                "`constel plan --json {}` lists all nodes, with what catalogues call them",
                self.source.file()
            ))
    }

    /// Checks of ends and ports would take one node for two.
    fn two_words(&self, deferred: &DeferredNode, node: &str, word: &Name) -> Diagnostic {
        let message = format!("`{}` and `{word}` are one node, `{node}`", deferred.name);
        self.error_of(deferred, "disagreement", message)
            .with_reason("in one file a node is called by one name")
            .with_suggestion(format!("write `{word}` here too"))
    }
}
