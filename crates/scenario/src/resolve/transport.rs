//! `transport`: nodes, shares and parameters.

use super::gateways;
use super::nodes::Nodes;
use super::traffic::is_congestion_control;
use super::transfer::{setting_error, wrong_settings};
use crate::deferred::DeferredNode;
use crate::diagnostic::Diagnostics;
use crate::model::{
    Action, Flow, LeotpSettings, Midnodes, Name, PathFunctions, Placement, SplitTcp,
    TransferProtocol,
};
use crate::parse::Parsed;
use crate::raw::{NodeName, RawMidnodes, RawSplitTcp};
use crate::walk::Seg::{self, Index, Key};
use constel_units::Ratio;

pub(super) fn resolve(
    parsed: &Parsed,
    nodes: &Nodes<'_>,
    traffic: &[Flow],
    deferred: &mut Vec<DeferredNode>,
    errors: &mut Diagnostics,
) -> PathFunctions {
    let mut way = Way {
        parsed,
        nodes,
        traffic,
        deferred,
        errors,
    };
    for (index, name) in parsed.raw.transport.congestion.iter().enumerate() {
        if !is_congestion_control(name) {
            let path = [Key("transport"), Key("congestion"), Index(index)];
            let message = format!("`{name}` is no name of a congestion control");
            let error = parsed.error_at(&path, "bad-name", message);
            way.errors.push(error);
        }
    }
    PathFunctions {
        congestion: parsed.raw.transport.congestion.clone(),
        split_tcp: parsed
            .raw
            .transport
            .split_tcp
            .as_ref()
            .map(|raw| way.split_tcp(raw)),
        leotp: parsed
            .raw
            .transport
            .leotp
            .as_ref()
            .map(|raw| way.leotp(raw)),
    }
}

struct Way<'a> {
    parsed: &'a Parsed,
    nodes: &'a Nodes<'a>,
    traffic: &'a [Flow],
    deferred: &'a mut Vec<DeferredNode>,
    errors: &'a mut Diagnostics,
}

impl Way<'_> {
    fn leotp(&mut self, raw: &RawMidnodes) -> Midnodes {
        let here = [Key("transport"), Key("leotp")];
        let end = |flow: &&Flow, name: &Name| {
            let over = matches!(&flow.action, Action::Transfer(t) if matches!(t.over, TransferProtocol::Leotp(_)));
            over && flow
                .action
                .ends()
                .is_some_and(|(a, b)| a == name || b == name)
        };
        let raw_gateways = raw.gateways.as_deref().unwrap_or_default();
        let gateways = gateways::resolve(
            self.parsed,
            self.nodes,
            self.traffic,
            raw_gateways,
            self.errors,
        );
        let alone = raw.gateways.is_none();
        let place = self.place(&here, (raw.satellites, &raw.nodes), alone, end);
        for (index, reason) in wrong_settings(raw.variant, &raw.set) {
            let path = [here[0], here[1], Key("set"), Index(index)];
            let error = self.parsed.error_at(&path, "bad-setting", reason);
            self.errors.push(setting_error(error));
        }
        Midnodes {
            place,
            gateways,
            settings: LeotpSettings {
                variant: raw.variant,
                set: raw.set.clone(),
            },
        }
    }

    fn split_tcp(&mut self, raw: &RawSplitTcp) -> SplitTcp {
        let here = [Key("transport"), Key("split_tcp")];
        let end = |flow: &&Flow, name: &Name| {
            flow.tcp_port().is_some()
                && flow
                    .action
                    .ends()
                    .is_some_and(|(a, b)| a == name || b == name)
        };
        let place = self.place(&here, (raw.satellites, &raw.nodes), true, end);
        if !is_congestion_control(&raw.congestion) {
            let path = [here[0], here[1], Key("congestion")];
            let message = format!("`{}` is no name of a congestion control", raw.congestion);
            let error = self.parsed.error_at(&path, "bad-name", message);
            self.errors.push(error);
        }
        SplitTcp {
            place,
            congestion: raw.congestion.clone(),
        }
    }

    /// Checks a choice of nodes, which must not be empty if `alone`; `is_end` returns whether a flow would
    /// begin or end at a node of that name.
    fn place(
        &mut self,
        here: &[Seg<'_>; 2],
        (satellites, names): (Ratio, &[NodeName]),
        alone: bool,
        is_end: impl Fn(&&Flow, &Name) -> bool,
    ) -> Placement {
        if alone && satellites.get() == 0.0 && names.is_empty() {
            let error = self
                .parsed
                .error_at(here, "no-effect", "no node is chosen")
                .with_suggestion("add `satellites: 25 %`, or `nodes` with their names");
            self.errors.push(error);
        }
        for (index, name) in names.iter().enumerate() {
            let path = [here[0], here[1], Key("nodes"), Index(index)];
            self.nodes
                .must_be(self.parsed, &path, name, self.deferred, self.errors);
            if names[..index].contains(name) {
                let error = self.parsed.error_at(
                    &path,
                    "duplicate-name",
                    format!("`{name}` is listed twice"),
                );
                self.errors.push(error);
            }
            let leotp = self.parsed.raw.transport.leotp.as_ref();
            let mut gateways = leotp
                .iter()
                .flat_map(|leotp| leotp.gateways.iter().flatten());
            if gateways.any(|gateway| gateway == name.name()) {
                let message = format!("`{name}` is a gateway");
                let error = self.parsed.error_at(&path, "disagreement", message);
                self.errors
                    .push(error.with_reason("flows between gateways end there, and only nodes that flows pass can help them"));
            }
            if let Some(flow) = self.traffic.iter().find(|flow| is_end(flow, name)) {
                let error = self
                    .parsed
                    .error_at(
                        &path,
                        "end-of-flow",
                        format!("`{name}` is an end of the flow `{}`", flow.name),
                    )
                    .with_reason("only nodes that flows pass can help them");
                self.errors.push(error);
            }
        }
        Placement {
            satellites,
            nodes: names.iter().map(|node| node.name().clone()).collect(),
        }
    }
}
