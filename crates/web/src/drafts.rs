//! Drafts of scenarios: the page's builder sends a text, and receives its errors or its plan. The server keeps no draft, and reads no
//! file that one names.

use std::fmt::Write as _;
use std::sync::{Mutex, TryLockError};

use constel_control::{Error, Scenario};
use constel_scenario::Diagnostic;

use crate::changes::Changes;
use crate::sky::Moment;
use crate::source::Source;
use crate::tell::Teller;
use crate::views::{DraftError, DraftFlow, DraftPlan, DraftStation, DraftView};

/// The name of a draft in messages.
const FILE: &str = "scenario.yaml";

/// Most nodes of a draft that are planned here: the plan of more takes longer than a reader waits.
const NODES: usize = 12_000;

/// Checks and plans drafts, one at a time.
#[derive(Debug, Default)]
pub(crate) struct Drafts(Mutex<()>);

impl Drafts {
    /// Returns the errors of a text, or its plan.
    ///
    /// # Errors
    /// If another draft is being planned: the page sends the text again.
    pub(crate) fn view(&self, text: &[u8]) -> Result<DraftView, String> {
        let _one = match self.0.try_lock() {
            Ok(one) => one,
            Err(TryLockError::Poisoned(broken)) => broken.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err("another draft is being planned; send it again".to_owned());
            }
        };
        Ok(view(text))
    }
}

fn view(text: &[u8]) -> DraftView {
    let planned = Scenario::given(FILE, text, Vec::new()).map_err(errors);
    match planned.and_then(plan) {
        Ok(plan) => DraftView {
            errors: Vec::new(),
            plan: Some(Box::new(plan)),
        },
        Err(errors) => DraftView { errors, plan: None },
    }
}

fn errors(error: Error) -> Vec<DraftError> {
    match error {
        Error::Scenario(all) => all.iter().map(at_its_line).collect(),
        other => vec![general(other.to_string())],
    }
}

/// An error that no line causes alone.
fn general(message: String) -> DraftError {
    DraftError {
        line: 0,
        message: message.trim_end().to_owned(),
        help: Vec::new(),
    }
}

fn at_its_line(error: &Diagnostic) -> DraftError {
    let help = [&error.reason, &error.suggestion, &error.next];
    let mut help: Vec<String> = help.into_iter().flatten().cloned().collect();
    if !error.allowed.is_empty() {
        help.push(format!("allowed: {}", error.allowed.join(", ")));
    }
    DraftError {
        line: error.line,
        message: error.message.clone(),
        help,
    }
}

fn plan(scenario: Scenario) -> Result<DraftPlan, Vec<DraftError>> {
    let nodes = scenario.lab.layout.nodes().len();
    if nodes > NODES {
        return Err(vec![general(format!(
            "{nodes} nodes are more than the {NODES} that are planned here: save the file, and run `constel web --plan FILE`"
        ))]);
    }
    let check = scenario.check().map_err(errors)?;
    let refused = |error| vec![general(error)];
    let source = Source::plan(scenario);
    let skies = (source.skies.as_ref()).ok_or_else(|| refused("a box has no plan".to_owned()))?;
    let step = skies.tell(&mut Teller::default(), 0, 1).map_err(refused)?;
    let now = Moment {
        step: 0,
        changes: Changes::none(&skies.lab),
    };
    let world = source.world(false, false);
    let mut flows = Vec::new();
    for cover in &check.sky.flows {
        let paths = skies.path(&cover.from, &cover.to, &now).map_err(refused)?;
        let hops = paths.optimum.as_ref().map_or(&[][..], |best| &best.hops);
        let first = hops.first().map(|hop| hop.from.clone());
        let others = hops.iter().map(|hop| hop.to.clone());
        flows.push(DraftFlow {
            flow: cover.flow.clone(),
            from: cover.from.clone(),
            to: cover.to.clone(),
            path_ratio: cover.path_ratio,
            delay_ns: paths.optimum.as_ref().map(|best| best.delay_ns),
            nodes: first.into_iter().chain(others).collect(),
        });
    }
    let stations = check.sky.stations.iter().map(|cover| DraftStation {
        station: cover.station.clone(),
        dark_s: cover.dark_s,
        handovers: cover.handovers,
    });
    Ok(DraftPlan {
        world,
        step_hex: hex(&step),
        edges: check.edges_at_0s,
        sampled_s: check.sky.to_s - check.sky.from_s,
        stations: stations.collect(),
        flows,
        warnings: check.warnings,
    })
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "constel: 1\nname: first\nstart: 2026-11-21T00:00:00Z\nduration: 60 s\nstep: 1 s\n\
        constellations:\n  sats:\n    walker: {pattern: star, inclination: 86.4 deg, satellites: 66, planes: 6, phasing: 2, altitude: 780 km}\n\
        \x20   isl: {pattern: plus-grid, link: {rate: 100 Mbit/s, queue: 256 KiB}}\n\
        \x20   gsl: {min_elevation: 8.2 deg, policy: nearest, link: {rate: 50 Mbit/s, queue: 128 KiB}}\n\
        ground:\n  stations:\n    tokyo: {latitude: 35.7 deg, longitude: 139.7 deg}\n    london: {latitude: 51.5 deg, longitude: 0 deg}\n\
        routing: {mode: computed}\n\
        traffic:\n  - {name: ping, at: 2 s, for: 50 s, ping: {from: tokyo, to: london}}\n";

    #[test]
    fn a_draft_has_its_plan_or_its_errors_with_their_lines() {
        let drafts = Drafts::default();
        let good = drafts.view(GOOD.as_bytes()).unwrap();
        assert_eq!(good.errors, []);
        let plan = good.plan.unwrap();
        assert_eq!(plan.world.nodes.len(), 68);
        assert_eq!(plan.stations.len(), 2);
        let nodes = &plan.flows[0].nodes;
        assert_eq!(
            (nodes.first(), nodes.last()),
            (Some(&"tokyo".to_owned()), Some(&"london".to_owned()))
        );
        assert!(plan.flows[0].delay_ns > Some(30_000_000));
        assert!(
            plan.step_hex.starts_with("43535431"),
            "the message of a step"
        );
        let bad = GOOD
            .replace("780 km", "780")
            .replace("to: london", "to: londn");
        let bad = drafts.view(bad.as_bytes()).unwrap();
        assert_eq!(bad.plan, None);
        let lines: Vec<u32> = bad.errors.iter().map(|error| error.line).collect();
        assert_eq!(lines, [8, 17], "{:?}", bad.errors);
        assert!(
            bad.errors[1]
                .help
                .iter()
                .any(|words| words.contains("london")),
            "{:?}",
            bad.errors
        );
    }

    #[test]
    fn a_draft_names_no_file_of_this_machine() {
        let read = GOOD.replace(
            "  stations:\n",
            "  from: [{file: /etc/passwd}]\n  stations:\n",
        );
        let view = Drafts::default().view(read.as_bytes()).unwrap();
        assert!(view.errors[0].message.contains("/etc/passwd") || !view.errors[0].help.is_empty());
        assert_eq!(view.plan, None);
    }

    #[test]
    fn a_draft_of_very_many_nodes_is_refused_before_it_is_planned() {
        let many = GOOD.replace("satellites: 66, planes: 6", "satellites: 12600, planes: 60");
        let view = Drafts::default().view(many.as_bytes()).unwrap();
        assert!(
            view.errors[0].message.contains("12602 nodes"),
            "{:?}",
            view.errors
        );
    }
}
