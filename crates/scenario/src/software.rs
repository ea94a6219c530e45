//! The software of each node, resolved when all nodes are known.

use std::collections::BTreeMap;

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::glob::Glob;
use crate::model::{
    Circle, ClockTime, Container, NodeRule, NodeSelection, NodeSoftware, NodesOf, Runtime,
    Scenario, StatePlace, over, software,
};
use crate::raw::{RawNode, RawShare};

/// A node, as far as rules ask.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NodeFacts<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its kind.
    pub kind: NodeKind<'a>,
    /// A satellite's shell: constellation by its place in the scenario, and shell by its place in the element set.
    pub shell: Option<(usize, u16)>,
    /// Those of [`Scenario::circles`] that the satellite is over at lab time zero.
    pub over: &'a [Circle],
}

/// A node's kind, as far as rules ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind<'a> {
    /// A satellite, of this constellation.
    Satellite(&'a str),
    /// A station.
    Station,
    /// A host.
    Host,
}

impl Scenario {
    /// The circles on the ground that satellites are chosen by.
    #[must_use]
    pub fn circles(&self) -> Vec<Circle> {
        let rules = self.node_rules.iter();
        let chosen = rules.filter_map(|rule| match &rule.of {
            NodesOf::Chosen(choice) => choice.region,
            _ => None,
        });
        chosen.collect()
    }

    /// Returns the software of each of these nodes, which are all nodes of the lab, in their order.
    ///
    /// # Errors
    /// Each rule that matches no node, that requires a container without an image, or that has no effect; each
    /// node whose limits are set twice.
    pub fn software(&self, nodes: &[NodeFacts<'_>]) -> Result<Vec<NodeSoftware>, Diagnostics> {
        let mut errors = Diagnostics::new();
        let mut uses: Vec<Use> = self.node_rules.iter().map(|_| Use::default()).collect();
        let mut all = Vec::with_capacity(nodes.len());
        for node in nodes {
            let mut said = RawNode::default();
            let mut asked: Option<usize> = None;
            let rules = self.node_rules.iter().enumerate();
            let mine: Vec<(usize, &NodeRule)> =
                rules.filter(|(_, rule)| rule.of.has(node)).collect();
            for (index, rule) in &mine {
                over(&mut said, &rule.set);
                if matches!(rule.set.runtime, Some(Runtime::Oci | Runtime::Docker)) {
                    asked = Some(*index);
                }
            }
            let contained = matches!(said.runtime, Some(Runtime::Oci | Runtime::Docker));
            let bare = said.image.is_none() && contained;
            let made = software(said);
            for (index, _) in &mine {
                uses[*index].matched = true;
                uses[*index].contained |= made.container.is_some();
            }
            if let Some(index) = asked.filter(|_| bare) {
                uses[index].without_image.get_or_insert(node.name);
            }
            let engines = made.container.as_ref().filter(|own| own.by_engine);
            for (place, key) in ENGINES_LACK.iter().enumerate() {
                if engines.is_some_and(key.asked)
                    && let Some((index, _)) = mine.iter().rfind(|(_, rule)| (key.said)(&rule.set))
                {
                    uses[*index].not_by_engine[place].get_or_insert(node.name);
                }
            }
            all.push(made);
        }
        for (rule, used) in self.node_rules.iter().zip(&uses) {
            self.judge(rule, used, nodes, &mut errors);
        }
        self.check_limits(nodes, &mut errors);
        self.check_images(&all, &mut errors);
        self.check_forwarders(nodes, &all, &mut errors);
        errors.or(all)
    }

    pub(crate) fn error_of_rule(
        &self,
        rule: &NodeRule,
        code: &'static str,
        message: String,
    ) -> Diagnostic {
        let (span, path) = &rule.place;
        Diagnostic::new(&self.source, *span, code, message).with_path(path.clone())
    }

    fn judge(
        &self,
        rule: &NodeRule,
        used: &Use<'_>,
        nodes: &[NodeFacts<'_>],
        errors: &mut Diagnostics,
    ) {
        let chosen = match &rule.of {
            NodesOf::Chosen(choice) => Some(choice),
            _ => None,
        };
        let mut strange = false;
        if let Some(choice) = chosen {
            let names = || nodes.iter().map(|node| node.name);
            for pattern in &choice.names {
                let glob = Glob::new(pattern);
                if !names().any(|name| glob.matches(name)) {
                    strange = true;
                    let message = format!("no node is called `{pattern}`");
                    let error = self.error_of_rule(rule, "unknown-node", message);
                    let error = error.with_nearest(pattern, names());
                    errors.push(error.with_next(format!(
                        "`constel plan --json {}` lists all nodes",
                        self.source.file()
                    )));
                }
            }
        }
        if !used.matched && !strange {
            let message = "no node of the lab matches this".to_owned();
            let error = self.error_of_rule(rule, "no-effect", message);
            errors.push(match chosen.and_then(|choice| choice.region) {
                Some(_) => error.with_reason(
                    "only satellites are over a region, and what counts is where they are at lab time zero",
                ),
                None => error,
            });
        }
        if used.matched
            && rule.set.runtime == Some(Runtime::Docker)
            && self.clock_time == ClockTime::Virtual
        {
            let message = "`runtime: docker`, and `clock.time` is `virtual`".to_owned();
            let error = self.error_of_rule(rule, "virtual-time", message);
            errors.push(
                error
                    .with_reason("the engine runs on the host, and keeps the host's time")
                    .with_suggestion("use `runtime: oci`, or remove `clock.time`"),
            );
        }
        if let Some(node) = used.without_image {
            let runtime = match rule.set.runtime {
                Some(Runtime::Docker) => "docker",
                _ => "oci",
            };
            let message =
                format!("`runtime: {runtime}` needs an image, and nothing gives `{node}` one");
            let error = self.error_of_rule(rule, "missing-key", message);
            errors.push(
                error.with_suggestion("give `image`; `constel image list` names those there are"),
            );
        } else if used.not_by_engine.iter().any(Option::is_some) {
            for (key, node) in ENGINES_LACK.iter().zip(used.not_by_engine) {
                let Some(node) = node else { continue };
                let message = format!(
                    "`{}` is not for `{node}`, whose `runtime` is `docker`",
                    key.written
                );
                let error = self.error_of_rule(rule, "disagreement", message);
                errors.push(error.with_reason(key.why).with_suggestion(key.instead));
            }
        } else if used.matched && !used.contained && needs_container(&rule.set) {
            let message = "these keys have an effect only on nodes with an image".to_owned();
            let error = self.error_of_rule(rule, "no-effect", message);
            errors.push(
                error
                    .with_reason(
                        "none of the matching nodes has one; only `limits` would have an effect",
                    )
                    .with_suggestion("give `image`"),
            );
        }
    }

    /// Reports images that no node uses: they are mistakes.
    fn check_images(&self, all: &[NodeSoftware], errors: &mut Diagnostics) {
        for image in &self.images {
            let mut used = all.iter().filter_map(|node| node.container.as_ref());
            if !used.any(|container| container.image == image.name.as_str()) {
                let (span, path) = &image.place;
                let message = format!("no node is made of the image `{}`", image.name);
                let error = Diagnostic::new(&self.source, *span, "no-effect", message);
                errors.push(error.with_path(path.clone()).with_suggestion(format!(
                    "set `image: {}` for a node, or remove it",
                    image.name
                )));
            }
        }
    }

    /// Checks that the limits of a node are set in one place only.
    fn check_limits(&self, nodes: &[NodeFacts<'_>], errors: &mut Diagnostics) {
        let twice: BTreeMap<&str, &NodeFacts<'_>> = nodes
            .iter()
            .filter(|node| {
                self.limits
                    .nodes
                    .iter()
                    .any(|(name, _)| name.as_str() == node.name)
            })
            .map(|node| (node.name, node))
            .collect();
        for node in twice.values() {
            let mut rules = self.node_rules.iter().filter(|rule| rule.of.has(node));
            if let Some(rule) = rules.find(|rule| rule.set.limits.is_some()) {
                let message = format!("`{}` has limits here and in `limits.nodes`", node.name);
                let error = self.error_of_rule(rule, "disagreement", message);
                errors.push(error.with_suggestion("set them in one place"));
            }
        }
    }
}

/// The effects of a rule, collected over all nodes.
#[derive(Default)]
struct Use<'a> {
    matched: bool,
    contained: bool,
    without_image: Option<&'a str>,
    /// By the row of [`ENGINES_LACK`]: a node of an engine that does not support the row's key.
    not_by_engine: [Option<&'a str>; ENGINES_LACK.len()],
}

/// A key that containers of an engine do not have.
struct EnginesLack {
    written: &'static str,
    why: &'static str,
    instead: &'static str,
    /// Whether a rule has the key.
    said: fn(&RawNode) -> bool,
    /// Whether all rules together ask a container for more than it has without the key.
    asked: fn(&Container) -> bool,
}

const ENGINES_LACK: [EnginesLack; 3] = [
    EnginesLack {
        written: "state: disk",
        why: "where its files are is the engine's affair, and they go with the lab",
        instead: "mount a folder to keep something, or take `runtime: oci`",
        said: |rule| rule.state.is_some(),
        asked: |own| own.state == StatePlace::Disk,
    },
    EnginesLack {
        written: "limits.files",
        why: "where its files are is the engine's affair",
        instead: "take `runtime: oci`",
        said: |rule| {
            rule.limits
                .as_ref()
                .is_some_and(|share| share.files.is_some())
        },
        asked: |own| own.files_bytes.is_some(),
    },
    EnginesLack {
        written: "kernel_events: false",
        why: "which system calls its programs may make is the engine's affair",
        instead: "take `runtime: oci`",
        said: |rule| rule.kernel_events.is_some(),
        asked: |own| !own.kernel_events,
    },
];

/// Whether a rule sets more than nodes without an image support.
fn needs_container(set: &RawNode) -> bool {
    let plain = RawNode {
        runtime: set.runtime,
        restore: set.restore,
        checksums: set.checksums,
        // A limit of files applies only to a node with an image.
        limits: set.limits.clone().map(|share| RawShare {
            files: None,
            ..share
        }),
        ..RawNode::default()
    };
    *set != plain
}

impl NodesOf {
    pub(crate) fn has(&self, node: &NodeFacts<'_>) -> bool {
        match (self, node.kind) {
            (Self::Satellites, NodeKind::Satellite(_))
            | (Self::Stations, NodeKind::Station)
            | (Self::Hosts, NodeKind::Host) => true,
            (Self::Constellation(name), NodeKind::Satellite(of)) => name.as_str() == of,
            (Self::Node(name), NodeKind::Station | NodeKind::Host) => name.as_str() == node.name,
            (Self::Chosen(choice), _) => choice.has(node),
            _ => false,
        }
    }
}

impl NodeSelection {
    fn has(&self, node: &NodeFacts<'_>) -> bool {
        let names = &self.names;
        let named = names.is_empty() || names.iter().any(|p| Glob::new(p).matches(node.name));
        let shell = |shells: &[(usize, u16)]| node.shell.is_some_and(|own| shells.contains(&own));
        let of_shell = self.shells.is_empty() || shell(&self.shells);
        let over = self.region.is_none_or(|circle| node.over.contains(&circle));
        named && of_shell && over
    }
}
