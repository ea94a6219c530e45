//! `expect`: the flows that statements are about exist and measure what is asked.

use std::collections::BTreeMap;

use constel_units::TimeSpan;

use crate::diagnostic::Diagnostics;
use crate::glob::Glob;
use crate::model::{
    Action, Agreement, Delivery, Expectation, Expected, Flow, Measured, Name, NodesNamed, Transport,
};
use crate::parse::Parsed;
use crate::raw::{RawDelivery, RawExpectation};
use crate::walk::Seg::{self, Index, Key};

pub(super) fn resolve(
    parsed: &Parsed,
    flows: &[Flow],
    errors: &mut Diagnostics,
) -> Vec<Expectation> {
    let mut names: BTreeMap<&Name, usize> = BTreeMap::new();
    let mut all = Vec::new();
    for (index, raw) in parsed.raw.expect.iter().enumerate() {
        let path = [Key("expect"), Index(index)];
        if let Some(first) = names.insert(&raw.name, index) {
            let message = format!("two expectations are called `{}`", raw.name);
            let error =
                parsed.error_at(&[path[0], path[1], Key("name")], "duplicate-name", message);
            errors.push(error.with_reason(format!("expect[{first}] has this name already")));
        }
        let mut reader = Reader {
            parsed,
            flows,
            index,
            errors,
        };
        all.extend(reader.expected(raw).map(|what| Expectation {
            name: raw.name.clone(),
            requirement: raw.requirement.clone(),
            what,
            line: parsed.place(&path, false).line,
        }));
    }
    all
}

struct Reader<'a> {
    parsed: &'a Parsed,
    flows: &'a [Flow],
    index: usize,
    errors: &'a mut Diagnostics,
}

impl<'a> Reader<'a> {
    fn expected(&mut self, raw: &RawExpectation) -> Option<Expected> {
        if let Some(flow) = &raw.succeeds {
            self.flow(&[Key("succeeds")], flow)?;
            return Some(Expected::Succeeds(flow.clone()));
        }
        if let Some(nodes) = &raw.alive {
            let pattern = |(n, text): (usize, &String)| {
                let path = [Key("expect"), Index(self.index), Key("alive"), Index(n)];
                NodesNamed::written(self.parsed, &path, text)
            };
            return Some(Expected::Alive(
                nodes.iter().enumerate().map(pattern).collect(),
            ));
        }
        if let Some(own) = &raw.reachable {
            self.ping(&[Key("reachable"), Key("flow")], &own.flow)?;
            return Some(Expected::Reachable(own.flow.clone(), own.within));
        }
        if let Some(own) = &raw.delivery {
            let path = [Key("delivery"), Key("flow")];
            let counts = |action: &Action| match action {
                Action::Ping(_) | Action::Transfer(_) => true,
                Action::Iperf3(own) => matches!(own.transport, Transport::Udp { .. }),
                Action::Http(_) | Action::Run(_) => false,
            };
            self.measures(&path, &own.flow, counts, "does not count what it loses")?;
            self.bounded("delivery", own.at_least.is_some() || own.at_most.is_some());
            return Some(Expected::Delivery(Delivery {
                flow: own.flow.clone(),
                at_least: own.at_least,
                at_most: own.at_most,
                during: self.during(own)?,
            }));
        }
        if let Some(own) = &raw.agreement {
            let flows = self.programs(&own.flows)?;
            return Some(Expected::Agreement(Agreement {
                flows,
                key: own.key.clone(),
                value: own.value.clone(),
                at_least: own.at_least,
            }));
        }
        if let Some(own) = &raw.metric {
            let is = |action: &Action| matches!(action, Action::Run(_));
            let path = [Key("metric"), Key("flow")];
            self.measures(&path, &own.flow, is, "is no `run`")?;
            self.bounded("metric", own.at_least.is_some() || own.at_most.is_some());
            return Some(Expected::Metric(Measured {
                flow: own.flow.clone(),
                column: own.column.clone(),
                quantile: own.quantile,
                at_least: own.at_least,
                at_most: own.at_most,
            }));
        }
        if let Some(own) = &raw.throughput {
            let path = [Key("throughput"), Key("flow")];
            let carries = |action: &Action| !matches!(action, Action::Ping(_) | Action::Run(_));
            self.measures(
                &path,
                &own.flow,
                carries,
                "carries no payload that is measured",
            )?;
            return Some(Expected::Throughput(own.flow.clone(), own.at_least));
        }
        if let Some(own) = &raw.round_trip {
            self.ping(&[Key("round_trip"), Key("flow")], &own.flow)?;
            return Some(Expected::RoundTrip(
                own.flow.clone(),
                own.quantile,
                own.at_most,
            ));
        }
        // The schema asks for exactly one of them.
        let own = raw.order.as_ref()?;
        Some(Expected::Order(
            own.first.clone(),
            own.then.clone(),
            own.within,
        ))
    }

    /// A number without a bound says nothing.
    fn bounded(&mut self, key: &'static str, is: bool) {
        if !is {
            let path = [Key("expect"), Index(self.index), Key(key)];
            let message = format!("`{key}` needs `at_least`, `at_most`, or both");
            let error = self.parsed.error_at_key(&path, "missing-key", message);
            self.errors.push(error);
        }
    }

    /// The time that a delivery is about; `None` when that is wrong.
    #[expect(clippy::option_option, reason = "wrong, or the whole time")]
    fn during(&mut self, own: &RawDelivery) -> Option<Option<(TimeSpan, TimeSpan)>> {
        let key = match (own.from, own.until) {
            (None, None) => return Some(None),
            (Some(_), _) => "from",
            (None, Some(_)) => "until",
        };
        let path = [Key("delivery"), Key(key)];
        let is = |action: &Action| matches!(action, Action::Ping(_));
        self.measures(&path, &own.flow, is, "is no ping: it has no times")?;
        let from = own.from.unwrap_or(TimeSpan::from_ns(0));
        let until = own.until.unwrap_or(self.parsed.raw.duration);
        if from >= until {
            let message = format!("nothing is sent from {from} on and before {until}");
            self.wrong(&path, "order", message);
            return None;
        }
        Some(Some((from, until)))
    }

    /// The flows of these names or patterns, which run programs; at least two.
    fn programs(&mut self, patterns: &[String]) -> Option<Vec<Name>> {
        let mut names: Vec<Name> = Vec::new();
        let mut good = true;
        for (n, text) in patterns.iter().enumerate() {
            let path = [Key("agreement"), Key("flows"), Index(n)];
            let glob = Glob::new(text);
            let named = self.flows.iter().filter(|f| glob.matches(f.name.as_str()));
            let named: Vec<&Flow> = named.collect();
            if named.is_empty() {
                // A flow with errors of its own is not among them.
                let mut written = self.parsed.raw.traffic.iter();
                if !written.any(|flow| glob.matches(flow.name.as_str())) {
                    self.wrong(&path, "unknown-flow", format!("no flow is called `{text}`"));
                }
                good = false;
            }
            for flow in named {
                if !matches!(flow.action, Action::Run(_)) {
                    let message = format!("`{}` is no `run`", flow.name);
                    self.wrong(&path, "unknown-flow", message);
                    good = false;
                } else if !names.contains(&flow.name) {
                    names.push(flow.name.clone());
                }
            }
        }
        if good && names.len() < 2 {
            let path = [Key("agreement"), Key("flows")];
            let message = "one flow alone agrees with itself".to_owned();
            self.wrong(&path, "no-effect", message);
            good = false;
        }
        good.then_some(names)
    }

    fn wrong(&mut self, tail: &[Seg<'_>], code: &'static str, message: String) {
        let mut path = vec![Key("expect"), Index(self.index)];
        path.extend_from_slice(tail);
        let known = self.flows.iter().map(|flow| flow.name.as_str());
        let error = self.parsed.error_at(&path, code, message);
        self.errors.push(error.with_allowed(known));
    }

    fn flow(&mut self, tail: &[Seg<'_>], name: &Name) -> Option<&'a Flow> {
        let found = self.flows.iter().find(|flow| flow.name == *name);
        // A flow with errors of its own is not among them.
        let written = self
            .parsed
            .raw
            .traffic
            .iter()
            .any(|flow| flow.name == *name);
        if found.is_none() && !written {
            self.wrong(tail, "unknown-flow", format!("no flow is called `{name}`"));
        }
        found
    }

    fn ping(&mut self, tail: &[Seg<'_>], name: &Name) -> Option<()> {
        let is = |action: &Action| matches!(action, Action::Ping(_));
        self.measures(tail, name, is, "is no ping")
    }

    fn measures(
        &mut self,
        tail: &[Seg<'_>],
        name: &Name,
        is: impl Fn(&Action) -> bool,
        not: &str,
    ) -> Option<()> {
        let flow = self.flow(tail, name)?;
        if !is(&flow.action) {
            self.wrong(tail, "unknown-flow", format!("`{name}` {not}"));
            return None;
        }
        Some(())
    }
}
