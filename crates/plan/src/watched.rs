//! The software that Constel starts in nodes and watches, so that its end is an event.

use std::collections::BTreeSet;

use constel_scenario::model::{Action, EventSubject, Expected, Flow, Window};
use constel_scenario::{Diagnostic, Diagnostics};
use constel_topology::{NodeId, pairs_named};

use crate::lab::Lab;

/// Software that starts with the lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resident {
    /// The program of a container.
    Container,
    /// A routing daemon.
    Daemon,
    /// A Midnode or proxy.
    Helper,
}

/// The software that Constel starts in the nodes of a lab.
pub struct Watched<'a> {
    lab: &'a Lab,
    helpers: BTreeSet<NodeId>,
}

impl<'a> Watched<'a> {
    /// Finds the software of a lab.
    #[must_use]
    pub fn of(lab: &'a Lab) -> Self {
        let transport = &lab.scenario.transport;
        let mut helpers = BTreeSet::new();
        if let Some(leotp) = &transport.leotp {
            helpers.extend(lab.midnodes(leotp));
            let gateways = leotp.gateways.iter().flatten();
            helpers.extend(
                gateways.filter_map(|gateway| Some(lab.layout.find(gateway.node.as_str())?.id)),
            );
        }
        if let Some(split) = &transport.split_tcp {
            helpers.extend(lab.proxies(split));
        }
        Self { lab, helpers }
    }

    /// Returns the software that starts in a node with the lab.
    pub fn residents(&self, node: NodeId) -> impl Iterator<Item = Resident> {
        let software = self.lab.software.get(node.index());
        let container = software.is_some_and(|software| software.container.is_some());
        let stack = software.is_none_or(|software| !software.forwards);
        let daemon = stack && self.lab.scenario.routing.mode.daemons().is_some();
        let helper = self.helpers.contains(&node);
        let all = [
            (container, Resident::Container),
            (daemon, Resident::Daemon),
            (helper, Resident::Helper),
        ];
        all.into_iter()
            .filter_map(|(there, what)| there.then_some(what))
    }

    /// Returns the programs of `run` flows in a node that run in a part of the time.
    pub fn programs(&self, node: &str, window: Window) -> impl Iterator<Item = &'a Flow> {
        let of = move |flow: &&Flow| match &flow.action {
            Action::Run(run) => run.node.as_str() == node && window.meets(flow.at, flow.end()),
            _ => false,
        };
        self.lab.scenario.traffic.iter().filter(of)
    }
}

/// Checks that software runs in the nodes of `alive`, and that the objects of events in `order` exist.
///
/// # Errors
/// All names that are wrong, each at its place.
pub(crate) fn check_expectations(lab: &Lab) -> Result<(), Diagnostics> {
    let mut errors = Diagnostics::new();
    let mut watched = None;
    for expectation in &lab.scenario.expect {
        match &expectation.what {
            Expected::Alive(named, window) => {
                let watched = watched.get_or_insert_with(|| Watched::of(lab));
                for pattern in named {
                    let nodes = lab.layout.nodes().iter();
                    let mut nodes = nodes
                        .filter(|node| pattern.glob.matches(&node.name))
                        .peekable();
                    // A pattern without nodes has its own error.
                    let runs = |node: &constel_topology::Node| {
                        watched.residents(node.id).next().is_some()
                            || watched.programs(&node.name, *window).next().is_some()
                    };
                    if nodes.peek().is_some() && !nodes.any(runs) {
                        let when = window.in_words();
                        let message = format!("no program runs in `{}`{when}", pattern.glob);
                        let error = pattern.error("no-effect", message);
                        errors.push(
                            error
                                .with_reason(
                                    "Constel watches programs of `run`, containers, routing daemons, Midnodes and proxies",
                                )
                                .with_next("name nodes that have one, or add a `run` to `traffic`"),
                        );
                    }
                }
            }
            Expected::Order(first, then, ..) => {
                for event in [first, then] {
                    let about = event.about.as_deref();
                    let own = event.kind.subject() == EventSubject::Failure;
                    if let Some(about) = about.filter(|about| own && !is_object(lab, about)) {
                        errors.push(no_object(lab, about, |message| {
                            event.error("unknown-failure", message)
                        }));
                    }
                }
            }
            _ => {}
        }
    }
    errors.or(())
}

/// Whether a text in the event of a failure can be equal to this one: the failure's name, a node, or a link.
fn is_object(lab: &Lab, about: &str) -> bool {
    let node = |name: &str| lab.layout.find(name.trim()).map(|node| node.id);
    lab.scenario
        .failures
        .iter()
        .any(|f| f.name.as_str() == about)
        || node(about).is_some()
        || pairs_named(about, node).next().is_some()
}

fn no_object(lab: &Lab, about: &str, error: impl Fn(String) -> Diagnostic) -> Diagnostic {
    let known = lab.scenario.failures.iter().map(|f| f.name.as_str());
    error(format!(
        "`{about}` is neither a failure, nor a node, nor a link `A - B`"
    ))
    .with_nearest(about, known.clone())
    .with_allowed(known)
}
