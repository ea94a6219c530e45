//! `expect`: checks that the flows exist and measure what the expectations need.

use std::collections::BTreeMap;

use constel_units::TimeSpan;

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::glob::Glob;
use crate::model::{
    Action, Agreement, Bounds, Delivery, EndedEarly, EventNamed, EventSubject, Expectation,
    Expected, Flow, Measured, Name, NodesNamed, SourcePosition, Transport, Window,
};
use crate::parse::Parsed;
use crate::raw::{
    RawAgreement, RawAlive, RawDelivery, RawEndedEarly, RawEventNamed, RawExpected, RawThroughput,
};
use crate::walk::Seg::{self, Index, Key};

pub(super) fn resolve(
    parsed: &Parsed,
    (flows, written): (&[Flow], &BTreeMap<Name, usize>),
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
            written,
            index,
            errors,
        };
        all.extend(reader.expected(&raw.what).map(|what| Expectation {
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
    /// The names of all flows, also of those with errors.
    written: &'a BTreeMap<Name, usize>,
    index: usize,
    errors: &'a mut Diagnostics,
}

impl<'a> Reader<'a> {
    fn expected(&mut self, raw: &RawExpected) -> Option<Expected> {
        match raw {
            RawExpected::Succeeds(flow) => {
                self.flow(&[Key("succeeds")], flow)?;
                Some(Expected::Succeeds(flow.clone()))
            }
            RawExpected::Alive(own) => self.alive(own),
            RawExpected::StillRunning(patterns) => {
                let flows = self.programs(&[Key("still_running")], patterns)?;
                Some(Expected::StillRunning(flows))
            }
            RawExpected::EndedEarly(own) => self.ended_early(own),
            RawExpected::Reachable(own) => {
                self.ping(&[Key("reachable"), Key("flow")], &own.flow)?;
                let window = self.window_of("reachable", &own.flow, own.window)?;
                Some(Expected::Reachable(own.flow.clone(), own.within, window))
            }
            RawExpected::Delivery(own) => self.delivery(own),
            RawExpected::Agreement(own) => self.agreement(own),
            RawExpected::Metric(own) => {
                self.program(&[Key("metric"), Key("flow")], &own.flow)?;
                let window = self.window_of("metric", &own.flow, own.window)?;
                self.timed("metric", own.time.is_some(), window)?;
                Some(Expected::Metric(Measured {
                    flow: own.flow.clone(),
                    column: own.column.clone(),
                    quantile: own.quantile,
                    bounds: self.bounds("metric", own.at_least, own.at_most),
                    time: own.time.clone(),
                    window,
                }))
            }
            RawExpected::Throughput(own) => self.throughput(own),
            RawExpected::RoundTrip(own) => {
                self.ping(&[Key("round_trip"), Key("flow")], &own.flow)?;
                let window = self.window_of("round_trip", &own.flow, own.window)?;
                let bounds = self.bounds("round_trip", own.at_least, own.at_most);
                let flow = own.flow.clone();
                Some(Expected::RoundTrip(flow, own.quantile, bounds, window))
            }
            RawExpected::Order(own) => {
                let window = self.window("order", own.window)?;
                let first = self.event("first", &own.first);
                let then = self.event("then", &own.then);
                Some(Expected::Order(first?, then?, own.within, window))
            }
        }
    }

    fn agreement(&mut self, own: &RawAgreement) -> Option<Expected> {
        let path = [Key("agreement"), Key("flows")];
        let flows = self.programs(&path, &own.flows)?;
        if flows.len() < 2 {
            let message = "one flow alone agrees with itself".to_owned();
            self.wrong(&path, "no-effect", message);
            return None;
        }
        let window = self.window("agreement", own.window)?;
        for flow in &flows {
            self.overlaps("agreement", flow, window)?;
        }
        self.timed("agreement", own.time.is_some(), window)?;
        Some(Expected::Agreement(Agreement {
            flows,
            key: own.key.clone(),
            value: own.value.clone(),
            bounds: self.bounds("agreement", own.at_least, own.at_most),
            time: own.time.clone(),
            window,
        }))
    }

    fn alive(&mut self, own: &RawAlive) -> Option<Expected> {
        let (nodes, tail, window) = match own {
            RawAlive::Nodes(nodes) => (nodes, &[Key("alive")][..], Window::default()),
            RawAlive::During { nodes, window } => {
                let window = self.window("alive", *window)?;
                (nodes, &[Key("alive"), Key("nodes")][..], window)
            }
        };
        let pattern = |(n, text): (usize, &String)| {
            let mut path = vec![Key("expect"), Index(self.index)];
            path.extend_from_slice(tail);
            path.push(Index(n));
            NodesNamed::written(self.parsed, &path, text)
        };
        let nodes = nodes.iter().enumerate().map(pattern).collect();
        Some(Expected::Alive(nodes, window))
    }

    fn ended_early(&mut self, own: &RawEndedEarly) -> Option<Expected> {
        self.program(&[Key("ended_early"), Key("flow")], &own.flow)?;
        let window = self.window_of("ended_early", &own.flow, own.window)?;
        let exit = match (own.code, own.signal) {
            (Some(_), Some(_)) => {
                let message = "a program ends with a code or by a signal, not both".to_owned();
                self.plainly_wrong(&[Key("ended_early"), Key("signal")], "choose-one", message);
                return None;
            }
            (Some(code), None) => Some(i32::from(code)),
            (None, Some(signal)) => Some(128 + i32::from(signal)),
            (None, None) => None,
        };
        Some(Expected::EndedEarly(EndedEarly {
            flow: own.flow.clone(),
            exit,
            window,
        }))
    }

    fn delivery(&mut self, own: &RawDelivery) -> Option<Expected> {
        let path = [Key("delivery"), Key("flow")];
        let counts = |action: &Action| match action {
            Action::Ping(_) | Action::Transfer(_) => true,
            Action::Iperf3(own) => matches!(own.transport, Transport::Udp { .. }),
            Action::Http(_) | Action::Run(_) => false,
        };
        self.measures(&path, &own.flow, counts, "does not count what it loses")?;
        let window = self.window_of("delivery", &own.flow, own.window)?;
        let is = |action: &Action| matches!(action, Action::Ping(_));
        self.windowed(
            "delivery",
            &own.flow,
            window,
            is,
            "is no ping: it has no times",
        )?;
        Some(Expected::Delivery(Delivery {
            flow: own.flow.clone(),
            bounds: self.bounds("delivery", own.at_least, own.at_most),
            window,
        }))
    }

    fn throughput(&mut self, own: &RawThroughput) -> Option<Expected> {
        let path = [Key("throughput"), Key("flow")];
        let carries = |action: &Action| !matches!(action, Action::Ping(_) | Action::Run(_));
        let not = "carries no payload that is measured";
        self.measures(&path, &own.flow, carries, not)?;
        let window = self.window_of("throughput", &own.flow, own.window)?;
        let is = |action: &Action| matches!(action, Action::Iperf3(_) | Action::Transfer(_));
        let not = "measures its throughput as a whole: it has no times";
        self.windowed("throughput", &own.flow, window, is, not)?;
        let bounds = self.bounds("throughput", own.at_least, own.at_most);
        Some(Expected::Throughput(own.flow.clone(), bounds, window))
    }

    /// Checks two bounds; at least one must be given.
    fn bounds<T: PartialOrd + std::fmt::Display>(
        &mut self,
        key: &'static str,
        at_least: Option<T>,
        at_most: Option<T>,
    ) -> Bounds<T> {
        let path = [Key("expect"), Index(self.index), Key(key)];
        let error = match (&at_least, &at_most) {
            (None, None) => {
                let message = format!("`{key}` needs `at_least`, `at_most`, or both");
                Some(self.parsed.error_at_key(&path, "missing-key", message))
            }
            (Some(least), Some(most)) if least > most => {
                let path = [path[0], path[1], path[2], Key("at_most")];
                let message = format!("nothing is at least {least} and at most {most}");
                Some(self.parsed.error_at(&path, "order", message))
            }
            _ => None,
        };
        error.into_iter().for_each(|error| self.errors.push(error));
        Bounds { at_least, at_most }
    }

    /// The part of lab time that a statement is about; `None` when it is empty.
    fn window(&mut self, key: &'static str, window: Window) -> Option<Window> {
        let Window { from, until } = window;
        let begin = from.unwrap_or(TimeSpan::from_ns(0));
        let end = until
            .or(self.parsed.raw.duration)
            .unwrap_or(TimeSpan::from_ns(i64::MAX));
        if window.is_all() || begin < end {
            return Some(window);
        }
        let bad = if from.is_some() { "from" } else { "until" };
        let message = format!("nothing is from {begin} on and before {end}");
        self.plainly_wrong(&[Key(key), Key(bad)], "order", message);
        None
    }

    /// Returns the part of the time that a statement about one flow is about. The flow must run in that part.
    fn window_of(&mut self, key: &'static str, flow: &Name, window: Window) -> Option<Window> {
        let window = self.window(key, window)?;
        self.overlaps(key, flow, window)?;
        Some(window)
    }

    /// Checks that a flow runs in a part of the time.
    fn overlaps(&mut self, key: &'static str, flow: &Name, window: Window) -> Option<()> {
        let flow = self.flows.iter().find(|own| own.name == *flow)?;
        let (begin, end) = (flow.at, flow.end());
        if window.meets(begin, end) {
            return Some(());
        }
        let late = window.from.is_some_and(|from| from >= end);
        let bad = if late { "from" } else { "until" };
        let when = window.in_words();
        let message = format!("flow `{}` does not run{when}", flow.name);
        let error = self.error(&[Key(key), Key(bad)], "order", message);
        let error = error.with_reason(format!("it runs from {begin} until {end}"));
        self.errors.push(error.with_allowed([match late {
            true => format!("less than {end}"),
            false => format!("more than {begin}"),
        }]));
        None
    }

    /// Checks that an event can have the subject that is given.
    fn event(&mut self, key: &'static str, raw: &RawEventNamed) -> Option<EventNamed> {
        let path = [Key("order"), Key(key), Key("about")];
        let kind = raw.kind;
        match (&raw.about, kind.subject()) {
            (Some(_), EventSubject::Nothing) => {
                let message = format!("an event `{}` is about no single object", kind.as_str());
                let error = self.error(&path, "no-effect", message);
                self.errors.push(error.with_next("leave `about` out"));
                return None;
            }
            (Some(about), EventSubject::Flow) if !self.written.contains_key(about.as_str()) => {
                self.wrong(
                    &path,
                    "unknown-flow",
                    format!("no flow is called `{about}`"),
                );
                return None;
            }
            _ => {}
        }
        let about = raw.about.is_some();
        let own = [Key("expect"), Index(self.index), path[0], path[1], path[2]];
        Some(EventNamed {
            kind,
            about: raw.about.clone(),
            at: SourcePosition::at(self.parsed, if about { &own } else { &own[..4] }),
        })
    }

    /// A flow's figures have times, if a statement is about a part of the time.
    fn windowed(
        &mut self,
        key: &'static str,
        flow: &Name,
        window: Window,
        is: impl Fn(&Action) -> bool,
        not: &str,
    ) -> Option<()> {
        if window.is_all() {
            return Some(());
        }
        let bad = if window.from.is_some() {
            "from"
        } else {
            "until"
        };
        self.measures(&[Key(key), Key(bad)], flow, is, not)
    }

    /// Checks that a window of time is used only for a program that prints times.
    fn timed(&mut self, key: &'static str, has_time: bool, window: Window) -> Option<()> {
        let path = [Key("expect"), Index(self.index), Key(key)];
        let error = match (has_time, window.is_all()) {
            (false, false) => {
                let message = format!(
                    "`{key}` needs `time`, the column with the time of each line, for `from` and `until`"
                );
                self.parsed.error_at_key(&path, "missing-key", message)
            }
            (true, true) => {
                let path = [path[0], path[1], path[2], Key("time")];
                let message = "`time` is for `from` and `until`, of which none is given";
                self.parsed.error_at(&path, "no-effect", message)
            }
            _ => return Some(()),
        };
        self.errors.push(error);
        None
    }

    fn program(&mut self, tail: &[Seg<'_>], name: &Name) -> Option<()> {
        let is = |action: &Action| matches!(action, Action::Run(_));
        self.measures(tail, name, is, "is no `run`")
    }

    /// The flows of these names or patterns, which run programs.
    fn programs(&mut self, tail: &[Seg<'_>], patterns: &[String]) -> Option<Vec<Name>> {
        let mut names: Vec<Name> = Vec::new();
        let mut good = true;
        for (n, text) in patterns.iter().enumerate() {
            let path = [tail, &[Index(n)]].concat();
            let glob = Glob::new(text);
            let named = self.flows.iter().filter(|f| glob.matches(f.name.as_str()));
            let named: Vec<&Flow> = named.collect();
            if named.is_empty() {
                // A flow with errors of its own is not among them.
                if !self.written.keys().any(|name| glob.matches(name.as_str())) {
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
        good.then_some(names)
    }

    /// Reports a wrong name of a flow, with the names of all flows.
    fn wrong(&mut self, tail: &[Seg<'_>], code: &'static str, message: String) {
        let known = self.flows.iter().map(|flow| flow.name.as_str());
        let error = self.error(tail, code, message);
        self.errors.push(error.with_allowed(known));
    }

    fn plainly_wrong(&mut self, tail: &[Seg<'_>], code: &'static str, message: String) {
        let error = self.error(tail, code, message);
        self.errors.push(error);
    }

    fn error(&self, tail: &[Seg<'_>], code: &'static str, message: String) -> Diagnostic {
        let path = [&[Key("expect"), Index(self.index)], tail].concat();
        self.parsed.error_at(&path, code, message)
    }

    fn flow(&mut self, tail: &[Seg<'_>], name: &Name) -> Option<&'a Flow> {
        let found = self.flows.iter().find(|flow| flow.name == *name);
        // A flow with errors of its own is not among them.
        if found.is_none() && !self.written.contains_key(name) {
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
