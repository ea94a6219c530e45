//! Patterns in `traffic`: an entry whose nodes are patterns becomes a flow for each node or pair of nodes.

use std::borrow::Cow;

use super::Traffic;
use crate::diagnostic::Diagnostic;
use crate::glob::Glob;
use crate::model::Name;
use crate::raw::{Destination, NodeName, RawFlow, RawKind};
use crate::resolve::nodes::Matched;
use crate::walk::Seg::Key;

/// The destination that stands for all nodes which the pattern in `from` matches.
const EACH: &str = "each";

/// The largest number of flows of a scenario, with those of patterns. Each server of a node needs a port.
const MOST_FLOWS: usize = 10_000;

/// The reason why an entry with patterns has no flows; `None`: it was reported elsewhere.
type NoFlows = Option<Box<Diagnostic>>;

impl<'a> Traffic<'a> {
    /// Returns the flows of an entry: the entry itself without patterns, otherwise one flow for each node or ordered
    /// pair of different nodes, by their names. `before` is the number of flows of the entries before it. An entry
    /// with an error in its patterns has none.
    pub(super) fn flows_of(&mut self, entry: &'a RawFlow, before: usize) -> Vec<Cow<'a, RawFlow>> {
        let mut copy = entry.clone();
        let (kind, from, to) = ends(&mut copy);
        let from = from.to_string();
        let to = to.map(|to| to.node.to_string());
        let is_open = |text: &str| Glob::new(text).is_open();
        if !is_open(&from) && !to.as_deref().is_some_and(is_open) {
            return vec![Cow::Borrowed(entry)];
        }
        match self.pairs(kind, (&from, to.as_deref()), before) {
            Ok(pairs) => pairs
                .into_iter()
                .map(|(from, to)| Cow::Owned(flow(entry, from, to)))
                .collect(),
            Err(error) => {
                error.into_iter().for_each(|error| self.errors.push(*error));
                Vec::new()
            }
        }
    }

    /// Returns the pairs of nodes that the ends stand for, ordered by their names; the second is `None` if the kind
    /// has one node only.
    fn pairs(
        &self,
        kind: &'static str,
        (from, to): (&str, Option<&str>),
        before: usize,
    ) -> Result<Vec<(Name, Option<Name>)>, NoFlows> {
        let from_key = if to.is_some() { "from" } else { "node" };
        let sources = self.matching(kind, from_key, from)?;
        let goals: Vec<Option<Name>> = match to {
            None => vec![None],
            Some(EACH) => sources.iter().cloned().map(Some).collect(),
            Some(to) => {
                let nodes = self.matching(kind, "to", to)?;
                nodes.into_iter().map(Some).collect()
            }
        };
        let pairs = || {
            let all = sources
                .iter()
                .flat_map(|from| goals.iter().map(move |to| (from, to)));
            all.filter(|(from, to)| to.as_ref() != Some(*from))
        };
        let count = pairs().take(MOST_FLOWS + 1).count();
        if before + count > MOST_FLOWS {
            let total = sources.len() * goals.len();
            return Err(Some(Box::new(self.too_many(kind, before, total))));
        }
        if count == 0 {
            let message = format!("`{}` is both ends of the flow", sources[0]);
            let error = self.error(&[Key(kind), Key("to")], "same-node", message);
            let error = error
                .with_reason("nothing would cross the network")
                .with_suggestion("write a pattern that matches another node too");
            return Err(Some(Box::new(error)));
        }
        Ok(pairs()
            .map(|(from, to)| (from.clone(), to.clone()))
            .collect())
    }

    /// Returns the nodes that a pattern matches, at least one, or the node of this name.
    fn matching(
        &self,
        kind: &'static str,
        key: &'static str,
        text: &str,
    ) -> Result<Vec<Name>, NoFlows> {
        let glob = Glob::new(text);
        if !glob.is_open() {
            // The name is checked with its flow.
            return Ok(vec![Name::settled(text.to_owned())]);
        }
        let error = |code, message| self.error(&[Key(kind), Key(key)], code, message);
        let found = match self.nodes.matching(self.parsed, &glob) {
            Matched::Nodes(names) => return Ok(names),
            Matched::Unclear => return Err(None),
            Matched::Nothing => {
                let (_, allowed) = self.nodes.help(text);
                error("unknown-node", format!("no node matches `{text}`"))
                    .with_allowed(allowed)
                    .with_next("`*` stands for any characters and `?` for one")
            }
            Matched::Later(constellation) => error(
                "late-names",
                format!("`{text}` may match satellites of `{constellation}`"),
            )
            .with_reason("their names follow from element files, which are read after the flows")
            .with_suggestion("write a pattern that matches only other nodes"),
        };
        Err(Some(Box::new(found)))
    }

    fn too_many(&self, kind: &'static str, before: usize, count: usize) -> Diagnostic {
        let besides = match before {
            0 => String::new(),
            _ => format!(", and {before} come before it"),
        };
        let message = format!("this stands for up to {count} flows{besides}");
        self.error(&[Key(kind)], "out-of-range", message)
            .with_reason(format!("a scenario has at most {MOST_FLOWS} flows"))
            .with_suggestion("write patterns that match fewer nodes")
    }
}

/// Returns the flow of an entry between two nodes, named `ENTRY-FROM-TO`, or `ENTRY-NODE` for a command.
fn flow(entry: &RawFlow, from: Name, to: Option<Name>) -> RawFlow {
    let mut flow = entry.clone();
    let name = match &to {
        Some(to) => format!("{}-{from}-{to}", entry.name),
        None => format!("{}-{from}", entry.name),
    };
    // It may be longer than a name in the file.
    flow.name = Name::settled(name);
    let (_, own_from, own_to) = ends(&mut flow);
    *own_from = NodeName::settled(from);
    if let (Some(own), Some(to)) = (own_to, to) {
        own.node = to;
    }
    flow
}

/// Returns the kind of a flow, the node that sends, and the destination. A command has one node only.
fn ends(flow: &mut RawFlow) -> (&'static str, &mut NodeName, Option<&mut Destination>) {
    match &mut flow.kind {
        RawKind::Ping(own) => ("ping", &mut own.from, Some(&mut own.to)),
        RawKind::Iperf3(own) => ("iperf3", &mut own.from, Some(&mut own.to)),
        RawKind::Http(own) => ("http", &mut own.from, Some(&mut own.to)),
        RawKind::Leotp(own) => ("leotp", &mut own.from, Some(&mut own.to)),
        RawKind::Tcp(own) => ("tcp", &mut own.from, Some(&mut own.to)),
        RawKind::Vivace(own) => ("vivace", &mut own.from, Some(&mut own.to)),
        RawKind::Run(own) => ("run", &mut own.node, None),
    }
}
