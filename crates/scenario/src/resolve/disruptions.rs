//! `failures` of networks: the network exists, the centre of jamming is one.

use super::nodes::Nodes;
use crate::deferred::DeferredNode;
use crate::diagnostic::Diagnostics;
use crate::model::{Centre, Disruption, FailureTarget, Name, NodesNamed};
use crate::parse::Parsed;
use crate::raw::{RawDisturbance, RawJamming, RawPartition};
use crate::walk::Seg::{self, Index, Key};

/// The context of reading one failure.
pub(super) struct Reader<'a> {
    pub(super) parsed: &'a Parsed,
    pub(super) nodes: &'a Nodes<'a>,
    pub(super) deferred: &'a mut Vec<DeferredNode>,
    pub(super) errors: &'a mut Diagnostics,
    /// The failure's index in `failures`.
    pub(super) index: usize,
}

impl Reader<'_> {
    pub(super) fn partition(&mut self, raw: &RawPartition) -> Option<FailureTarget> {
        let groups = raw.groups.iter().enumerate().map(|(n, group)| {
            let path = [Key("partition"), Key("groups"), Index(n)];
            self.members(&path, group)
        });
        let groups = groups.collect();
        self.of("partition", &raw.network, Disruption::Partition(groups))
    }

    pub(super) fn jamming(&mut self, raw: &RawJamming) -> Option<FailureTarget> {
        if raw.node.is_some() && (raw.longitude.is_some() || raw.altitude.is_some()) {
            let path = self.path(&[Key("jamming")]);
            let message = "the centre is a `node` or a place, not both";
            let error = self.parsed.error_at_key(&path, "choose-one", message);
            self.errors.push(error);
        }
        let centre = match (&raw.node, raw.latitude, raw.longitude, raw.altitude) {
            (Some(node), ..) => {
                let path = self.path(&[Key("jamming"), Key("node")]);
                let name = node.name();
                self.nodes
                    .must_be(self.parsed, &path, name, self.deferred, self.errors);
                Centre::Node(name.clone())
            }
            (None, Some(latitude), Some(longitude), Some(altitude)) => Centre::Place {
                latitude,
                longitude,
                altitude,
            },
            _ => {
                let path = self.path(&[Key("jamming")]);
                let message = "a place needs `latitude`, `longitude` and `altitude`";
                let error = self.parsed.error_at_key(&path, "missing-key", message);
                self.errors.push(error);
                return None;
            }
        };
        let trouble = Disruption::Jamming {
            centre,
            radius: raw.radius,
            loss: raw.loss,
        };
        self.of("jamming", &raw.network, trouble)
    }

    pub(super) fn disturbance(&mut self, raw: &RawDisturbance) -> Option<FailureTarget> {
        if raw.loss.get() == 0.0 && raw.extra_delay.ns() == 0 {
            let path = self.path(&[Key("disturbance")]);
            let error = self
                .parsed
                .error_at(&path, "no-effect", "this disturbs nothing");
            self.errors
                .push(error.with_suggestion("add `loss` or `extra_delay`"));
        }
        let trouble = Disruption::Disturbance {
            from: self.members(&[Key("disturbance"), Key("from")], &raw.from),
            to: self.members(&[Key("disturbance"), Key("to")], &raw.to),
            loss: raw.loss,
            extra_delay: raw.extra_delay,
        };
        self.of("disturbance", &raw.network, trouble)
    }

    fn of(
        &mut self,
        key: &'static str,
        network: &Name,
        trouble: Disruption,
    ) -> Option<FailureTarget> {
        let all = &self.parsed.raw.networks;
        if all.contains_key(network) {
            return Some(FailureTarget::Network(network.clone(), trouble));
        }
        let path = self.path(&[Key(key), Key("network")]);
        let message = format!("no network is called `{network}`");
        let known = || all.keys().map(Name::as_str);
        let error = self.parsed.error_at(&path, "unknown-network", message);
        let error = error.with_nearest(network.as_str(), known());
        self.errors.push(error.with_allowed(known()));
        None
    }

    fn members(&self, tail: &[Seg<'_>], patterns: &[String]) -> Vec<NodesNamed> {
        let named = patterns.iter().enumerate().map(|(n, text)| {
            let mut path = self.path(tail);
            path.push(Index(n));
            NodesNamed::written(self.parsed, &path, text)
        });
        named.collect()
    }

    fn path<'p>(&self, tail: &[Seg<'p>]) -> Vec<Seg<'p>> {
        let mut path = vec![Key("failures"), Index(self.index)];
        path.extend_from_slice(tail);
        path
    }
}
