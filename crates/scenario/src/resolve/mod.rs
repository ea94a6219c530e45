//! Stage two: raw types and files to a [`Scenario`].

mod access;
mod addresses;
mod attached;
mod cables;
mod constellations;
mod disjoint;
mod disruptions;
mod driver;
mod expect;
mod failures;
mod gateways;
mod ground;
mod information;
pub(crate) mod inputs;
mod link;
mod links;
mod middlebox;
mod networks;
mod nodes;
mod programs;
mod radio;
mod routing;
mod rules;
mod sample;
mod skyless;
mod software;
mod spacecraft;
mod table;
mod terminals;
mod track;
mod traffic;
mod transfer;
mod transport;
mod weather;

use std::sync::Arc;

use constel_units::TimeSpan;

use crate::diagnostic::Diagnostics;
use crate::files::Files;
use crate::model::Scenario;
use crate::parse::{Parsed, read, text_of};
use crate::raw::RawScenario;
use crate::schema::SCENARIO;
use crate::walk::{Path, Seg};

use inputs::Inputs;
pub use middlebox::{address, is_box, network, read_box};
pub use nodes::not_a_node_name;
pub use rules::read_rules;

/// Parses and resolves a scenario file.
///
/// # Errors
/// Those of the file's form and those of [`resolve`], together: a wrong key does not hide a satellite too many.
pub fn read_scenario(
    file_name: &str,
    bytes: &[u8],
    files: &dyn Files,
) -> Result<Scenario, Diagnostics> {
    read_scenario_with(file_name, bytes, files, |scenario, errors| {
        errors.or(scenario)
    })
}

/// Parses and resolves a scenario file, and reads more of it by `then`. `then` also gets scenarios with errors, for
/// what it can read in spite of them: parts that are wrong are missing or have any value.
///
/// # Errors
/// Those of [`read_scenario`] and those of `then`.
pub fn read_scenario_with<R>(
    file_name: &str,
    bytes: &[u8],
    files: &dyn Files,
    then: impl Fn(Scenario, Diagnostics) -> Result<R, Diagnostics>,
) -> Result<R, Diagnostics> {
    read(
        file_name,
        text_of(file_name, bytes)?,
        &SCENARIO,
        |raw, document| {
            let mut errors = Diagnostics::new();
            let parsed = Parsed::new(raw, document, &mut errors);
            let scenario = resolve_all(&parsed, files, &mut errors);
            then(scenario, errors)
        },
    )
}

/// Turns a parsed scenario into one that can be planned: reads and hashes every file it names, fills every
/// default, and checks what its form cannot express.
///
/// # Errors
/// Everything that is wrong, in the scenario and in files of places. Element files are passed on
/// unread; their errors come from the plan, through [`TextFile::error`](crate::TextFile).
pub fn resolve(parsed: &Parsed, files: &dyn Files) -> Result<Scenario, Diagnostics> {
    let mut errors = Diagnostics::new();
    let scenario = resolve_all(parsed, files, &mut errors);
    errors.or(scenario)
}

fn resolve_all(parsed: &Parsed, files: &dyn Files, errors: &mut Diagnostics) -> Scenario {
    let raw = &parsed.raw;
    let mut inputs = Inputs::new(parsed, files);

    check_times(parsed, errors);
    check_name(parsed, errors);
    skyless::check(parsed, errors);
    let found = constellations::resolve(parsed, &mut inputs, errors);
    let (constellations, beneath): (Vec<_>, Vec<_>) = found.into_iter().partition(|f| f.nodes);
    let mut stations = ground::resolve(parsed, &constellations, &mut inputs, errors);
    weather::resolve(parsed, &mut stations, &mut inputs, errors);
    radio::need_feeders(parsed, &stations, errors);
    let mut routing = routing::resolve(parsed, &mut inputs, errors);
    let nodes = nodes::Nodes::new(parsed, &constellations, &stations, errors);
    let (hosts, cables) = cables::resolve(parsed, &mut inputs, &nodes, errors);
    cables::check_systems(parsed, &nodes, errors);
    let mut choices = |group: &'static str, name: &Option<String>| {
        let path = [Seg::Key(group), Seg::Key("choices")];
        inputs.file(name.as_deref()?, &path, errors)
    };
    let link_choices = choices("links", &raw.links.choices);
    let choices = choices("ground", &raw.ground.choices);
    let traffic::Flows {
        all: traffic,
        entries,
        written,
        mut deferred,
    } = traffic::resolve(parsed, &nodes, &routing, errors);
    attached::check(parsed, &routing, (&traffic, &entries), errors);
    let expect = expect::resolve(parsed, (&traffic, &entries), errors);
    let transport = transport::resolve(parsed, &nodes, &traffic, &mut deferred, errors);
    disjoint::resolve(
        parsed,
        &stations,
        &nodes,
        &mut routing,
        &mut deferred,
        errors,
    );
    let networks = networks::resolve(parsed, &mut inputs, errors);
    let cross_shell = failures::cross_shell(parsed, &constellations, &mut inputs, errors);
    let failures = failures::failures(parsed, &constellations, &nodes, &mut deferred, errors);
    let mounts = programs::mounts(parsed, &nodes, &mut deferred, errors);
    let limits = programs::limits(parsed, &nodes, &mut deferred, errors);
    let information = information::resolve(parsed, &mut inputs, errors);
    let images = software::images(parsed, errors);
    let node_rules = software::resolve(parsed, &constellations, &nodes, errors);
    let families = routing.families;
    let addresses = addresses::resolve(parsed, (&routing.mode, families), errors);
    let sampling = sample::resolve(parsed, errors);
    let grain = driver::grain(parsed, errors);
    let threads = driver::threads(parsed, errors);
    let stack_time = driver::stack_time(parsed, errors);
    driver::check_lateness(parsed, grain, errors);

    Scenario {
        name: raw.name.clone(),
        description: raw.description.clone(),
        seed: raw.seed,
        start: raw.start,
        duration: raw.duration.unwrap_or_else(|| ahead(raw.step)),
        has_end: raw.duration.is_some(),
        step: raw.step,
        clock_hold: raw.clock.hold,
        clock_time: raw.clock.time,
        on_machine_loss: raw.on_machine_loss,
        constellations: constellations.into_iter().map(|c| c.resolved).collect(),
        beneath: beneath.into_iter().map(|c| c.resolved).collect(),
        stations: stations.stations,
        hosts,
        cables,
        choices,
        link_choices,
        networks,
        cross_shell,
        failures,
        routing,
        addresses,
        driver: raw.links.driver,
        grain,
        threads,
        stack_time,
        carrier: raw.links.carrier,
        max_lateness: raw.links.max_lateness,
        transport,
        mounts,
        limits,
        information,
        images,
        node_rules,
        traffic,
        sampling,
        expect,
        inputs: inputs.finish(),
        deferred,
        source: parsed.source().clone(),
        raw: Arc::new(RawScenario {
            traffic: written,
            ..raw.clone()
        }),
    }
}

/// Longest name of a lab, characters: it is part of the names of files and control groups.
const LAB_NAME_MAX: usize = 31;

/// A name that no lab can have.
const LAB_NAME_TAKEN: &str = "host";

/// Checks the name: it is the lab's name by default, so it must be a valid one.
fn check_name(parsed: &Parsed, errors: &mut Diagnostics) {
    let name = parsed.raw.name.as_str();
    let error = |message: String| parsed.error_at(&[Seg::Key("name")], "lab-name", message);
    if name.len() > LAB_NAME_MAX {
        let length = name.len();
        errors.push(
            error(format!("`{name}` has {length} characters, and names a lab"))
                .with_reason(format!("labs' names have at most {LAB_NAME_MAX}")),
        );
    } else if name == LAB_NAME_TAKEN {
        errors.push(
            error(format!("no lab can be called `{name}`"))
                .with_reason("Constel keeps what concerns the whole host by that name"),
        );
    }
}

/// Reports that the key at `path` has no effect because the file lacks `needs`.
fn no_effect(parsed: &Parsed, errors: &mut Diagnostics, path: &[Seg<'_>], needs: &str) {
    let shown = Path(path).to_string();
    let key = shown.rsplit('.').next().unwrap_or_default().to_owned();
    let message = format!("`{shown}` has an effect only with `{needs}`");
    let error = parsed
        .error_at_key(path, "no-effect", message)
        .with_reason("what would be ignored is an error, so that no result misleads")
        .with_suggestion(format!("remove `{key}`, or set `{needs}`"));
    errors.push(error);
}

/// The time of a lab without an end that is computed ahead of time, nanoseconds, before it is rounded up to whole steps.
const AHEAD_NS: i64 = 3_600_000_000_000;

/// Returns the time of a lab without an end that is computed ahead of time, in whole steps.
fn ahead(step: TimeSpan) -> TimeSpan {
    let step_ns = step.ns().max(1);
    TimeSpan::from_ns((AHEAD_NS + step_ns - 1) / step_ns * step_ns)
}

fn check_times(parsed: &Parsed, errors: &mut Diagnostics) {
    let step = parsed.raw.step;
    let duration = parsed.raw.duration.unwrap_or_else(|| ahead(step));
    if parsed.raw.duration.is_none() && !parsed.raw.spacecraft.is_empty() {
        let error = parsed
            .error_at_key(
                &[Seg::Key("spacecraft")],
                "missing-key",
                "a formation needs an end of the lab, because its positions are computed up to it",
            )
            .with_suggestion("give `duration`, for example `duration: 24 h`");
        errors.push(error);
    }
    if duration.ns() % step.ns() != 0 {
        let whole = (duration.ns() / step.ns()).max(1);
        let nearer = TimeSpan::from_ns(whole * step.ns());
        let error = parsed
            .error_at(&[Seg::Key("duration")], "uneven-steps", {
                format!("`duration` is {duration}, which is no whole number of steps of {step}")
            })
            .with_suggestion(format!("`{nearer}` would do"));
        errors.push(error);
    }
    let end = parsed.raw.start.checked_add(duration);
    if end.is_none() {
        errors.push(parsed.error_at(
            &[Seg::Key("start")],
            "out-of-range",
            "`start` plus `duration` is beyond the year 2262, the end of time here",
        ));
    }
}
