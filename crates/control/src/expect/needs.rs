//! The requirements of statements on the emulator. A statement is judged if its requirements are met, even if the rest of
//! the verdict is bad.

use constel_measure::verdict::Doubt;
use constel_scenario::model::{Expected, Name, Window};

use super::Evidence;

/// A property of the emulator that a statement depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// Events and the exits of programs. Late frames affect neither.
    Events,
    /// The arrival of packets, but not their time.
    Arrivals,
    /// When it arrived.
    Times,
}

impl Need {
    fn of(what: &Expected) -> Self {
        match what {
            Expected::Succeeds(_)
            | Expected::Alive(..)
            | Expected::StillRunning(_)
            | Expected::EndedEarly(_)
            | Expected::Order(..) => Self::Events,
            Expected::Delivery(_) | Expected::Agreement(_) => Self::Arrivals,
            Expected::Reachable(..)
            | Expected::Metric(_)
            | Expected::Throughput(..)
            | Expected::RoundTrip(..) => Self::Times,
        }
    }

    /// Returns whether a doubt about the run affects the statement. Doubts about flows are examined flow by flow.
    fn minds(self, doubt: Doubt) -> bool {
        match doubt {
            Doubt::Records => true,
            Doubt::Early | Doubt::Lost | Doubt::Steps => self != Self::Events,
            Doubt::Late | Doubt::Processor => self == Self::Times,
            Doubt::Flow => false,
        }
    }
}

/// The flows that a statement is about.
pub(super) fn flows(what: &Expected) -> &[Name] {
    match what {
        Expected::Succeeds(flow)
        | Expected::Reachable(flow, ..)
        | Expected::Throughput(flow, ..)
        | Expected::RoundTrip(flow, ..) => std::slice::from_ref(flow),
        Expected::EndedEarly(own) => std::slice::from_ref(&own.flow),
        Expected::Delivery(own) => std::slice::from_ref(&own.flow),
        Expected::Metric(own) => std::slice::from_ref(&own.flow),
        Expected::StillRunning(flows) => flows,
        Expected::Agreement(own) => &own.flows,
        Expected::Alive(..) | Expected::Order(..) => &[],
    }
}

fn window(what: &Expected) -> Window {
    match what {
        Expected::Reachable(_, _, window)
        | Expected::Throughput(_, _, window)
        | Expected::RoundTrip(_, _, _, window) => *window,
        _ => Window::default(),
    }
}

/// Returns why it cannot be known whether a statement holds; `None` when it can.
pub(super) fn doubt(what: &Expected, evidence: &Evidence) -> Option<String> {
    let need = Need::of(what);
    let summary = &evidence.summary;
    let mut late = None;
    for (kind, reason) in summary.fidelity.doubts(summary.bounds) {
        match kind {
            Doubt::Late => drop(late.get_or_insert(reason)),
            kind if need.minds(kind) => return Some(reason),
            _ => {}
        }
    }
    if !need.minds(Doubt::Late) {
        return None;
    }
    let flows = flows(what).iter();
    flows
        .map(|name| of_flow(name, window(what), evidence, late.as_ref()))
        .find_map(|doubt| doubt)
}

/// Returns a message if frames on one flow's path were late. It uses the narrowest known scope: the statement's window, the
/// flow's whole time, or the whole run.
fn of_flow(
    name: &Name,
    window: Window,
    evidence: &Evidence,
    late: Option<&String>,
) -> Option<String> {
    /// As for a whole flow: more than a hundredth of the samples.
    const ALLOWED: f64 = 0.01;
    let flow = evidence.flow(name).ok()?;
    let known = flow.trustworthy.filter(|_| !window.is_all());
    let marked = known.and_then(|_| evidence.marked(name, window));
    // A window with all samples is about the whole flow, whose verdict exists: of a transfer, the share of its time counts
    // there, which its samples do not have.
    let is_part = |all: usize| all > 0 && all as u64 != flow.samples;
    if let Some((marked, all)) = marked.filter(|(_, all)| is_part(*all)) {
        let too_many = marked as f64 > ALLOWED * all as f64;
        let when = window.in_words();
        return too_many
            .then(|| format!("{marked} of {all} samples of flow {name}{when} met late frames"));
    }
    match flow.trustworthy {
        Some(true) => None,
        Some(false) => flow.affected(),
        None => late.cloned(),
    }
}
