//! Pairs with disjoint paths: their ends, and whether that number of disjoint paths can exist.

use super::ground::Ground;
use super::nodes::{Kind, Nodes};
use crate::deferred::DeferredNode;
use crate::diagnostic::Diagnostics;
use crate::model::{Disjoint, Mode, Name, Routing};
use crate::parse::Parsed;
use crate::raw::{Destinations, RawDisjoint};
use crate::walk::Seg::{self, Index, Key};

/// Most pairs of a lab: the paths of each are searched again at every step.
const MOST_PAIRS: usize = 1000;

/// Fills them into computed routing; that no other mode has some was checked with the other keys.
pub(super) fn resolve(
    parsed: &Parsed,
    ground: &Ground,
    nodes: &Nodes<'_>,
    routing: &mut Routing,
    deferred: &mut Vec<DeferredNode>,
    errors: &mut Diagnostics,
) {
    let raw = &parsed.raw.routing.disjoint;
    let Mode::Computed(computed) = &mut routing.mode else {
        return;
    };
    if computed.reaction.is_some() && !raw.is_empty() {
        let error = parsed
            .error_at_key(
                &[Key("routing"), Key("disjoint")],
                "choose-one",
                "`disjoint` and `reaction` cannot be given together",
            )
            .with_reason("nodes that see different topologies would cut a pair's paths to pieces")
            .with_suggestion("remove one of them");
        errors.push(error);
    }
    if raw.len() > MOST_PAIRS {
        let message = format!("{} pairs, but at most {MOST_PAIRS} can be", raw.len());
        let path = [Key("routing"), Key("disjoint")];
        errors.push(parsed.error_at_key(&path, "out-of-range", message));
        return;
    }
    let mut checker = PairChecker {
        parsed,
        ground,
        nodes,
        destinations: computed.destinations,
        deferred,
        errors,
    };
    computed.disjoint = raw
        .iter()
        .filter_map(|(name, raw)| checker.pair(name, raw))
        .collect();
}

/// The context of checking one pair.
struct PairChecker<'a> {
    parsed: &'a Parsed,
    ground: &'a Ground,
    nodes: &'a Nodes<'a>,
    destinations: Destinations,
    deferred: &'a mut Vec<DeferredNode>,
    errors: &'a mut Diagnostics,
}

impl PairChecker<'_> {
    fn pair(&mut self, name: &Name, raw: &RawDisjoint) -> Option<Disjoint> {
        let path = |key| {
            [
                Key("routing"),
                Key("disjoint"),
                Key(name.as_str()),
                Key(key),
            ]
        };
        let [a, b] = &raw.between[..] else {
            // The schema requires two.
            return None;
        };
        for (index, node) in raw.between.iter().enumerate() {
            let mut path = path("between").to_vec();
            path.push(Index(index));
            self.end(&path, node);
        }
        if a == b {
            let mut path = path("between").to_vec();
            path.push(Index(1));
            let message = format!("`{a}` is both ends of the pair");
            self.errors
                .push(self.parsed.error_at(&path, "same-node", message));
            return None;
        }
        for node in &raw.between {
            self.ways(&path("paths"), node, raw.paths);
        }
        Some(Disjoint {
            name: name.clone(),
            between: [a.name().clone(), b.name().clone()],
            paths: raw.paths,
        })
    }

    /// An end is a node that routes lead to.
    fn end(&mut self, path: &[Seg<'_>], node: &Name) {
        let error = |code, message| self.parsed.error_at(path, code, message);
        match self.nodes.out_of_reach(node, self.destinations, error) {
            Some(error) => self.errors.push(error),
            None => self
                .nodes
                .must_be(self.parsed, path, node, self.deferred, self.errors),
        }
    }

    /// Each path leaves a node by a neighbour of its own.
    fn ways(&mut self, path: &[Seg<'_>], node: &Name, paths: u8) {
        let stations = &self.ground.stations;
        let station = stations.iter().find(|station| station.name == *node);
        let host = self.nodes.kind(node) == Kind::Host;
        // How many satellites a gateway or a satellite is linked with, the sky decides.
        if station.is_some_and(|station| station.gateway) || (station.is_none() && !host) {
            return;
        }
        let antennas = station.map_or(0, |station| {
            let each = station.terminals.iter();
            each.map(|terminal| usize::from(terminal.antennas)).sum()
        });
        let cables = self.parsed.raw.ground.cables.iter();
        let cables = cables
            .filter(|cable| cable.from == *node || cable.to == *node)
            .count();
        let ways = antennas + cables;
        if ways >= usize::from(paths) {
            return;
        }
        let has = |count: usize, what: &str| {
            let plural = if count == 1 { "" } else { "s" };
            format!("{count} {what}{plural}")
        };
        let (message, suggestion) = if station.is_some() {
            let cables = if cables > 0 {
                format!(" and {}", has(cables, "cable"))
            } else {
                String::new()
            };
            (
                format!(
                    "`{node}` has {}{cables} for {paths} paths",
                    has(antennas, "antenna")
                ),
                format!(
                    "give it `antennas: {}`",
                    antennas + usize::from(paths) - ways
                ),
            )
        } else {
            (
                format!("`{node}` has {} for {paths} paths", has(cables, "cable")),
                "give it more cables, or ask for fewer paths".to_owned(),
            )
        };
        let error = self
            .parsed
            .error_at(path, "out-of-range", message)
            .with_reason("paths that share no node leave by different neighbours")
            .with_suggestion(suggestion);
        self.errors.push(error);
    }
}
