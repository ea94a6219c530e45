//! Routing: the source of the routes, and only the settings that have an effect on it.

mod daemons;
mod timers;

use super::inputs::Inputs;
use crate::diagnostic::Diagnostics;
use crate::model::{ComputedRouting, Families, Mode, Routing};
use crate::parse::Parsed;
use crate::raw::{Family, Forwarding, Metric, RoutingMode, Software};
use crate::walk::Seg::{Index, Key};
use constel_units::TimeSpan;

pub(super) fn resolve(
    parsed: &Parsed,
    inputs: &mut Inputs<'_>,
    errors: &mut Diagnostics,
) -> Routing {
    let raw = &parsed.raw.routing;
    for (index, family) in raw.families.iter().enumerate() {
        if raw.families[..index].contains(family) {
            let path = [Key("routing"), Key("families"), Index(index)];
            errors.push(parsed.error_at(&path, "duplicate-name", "this family is listed twice"));
        }
    }
    if let (Some(_), Some(_)) = (raw.mode, raw.daemon) {
        let error = parsed
            .error_at_key(
                &[Key("routing"), Key("mode")],
                "choose-one",
                "`mode` and `daemon` both select the source of the routes",
            )
            .with_suggestion("remove `mode`");
        errors.push(error);
    }
    let software = match (raw.daemon, raw.mode) {
        (Some(software), _) => Some(software),
        (None, Some(RoutingMode::Bird)) => Some(Software::Bird),
        (None, _) => None,
    };
    let computed = software.is_none() && raw.mode.unwrap_or_default() == RoutingMode::Computed;
    let only_computed = [
        ("destinations", raw.destinations.is_some()),
        ("metric", raw.metric.is_some()),
        ("paths", raw.paths.is_some()),
        ("choices", raw.choices.is_some()),
        ("forwarding", raw.forwarding.is_some()),
        ("reaction", raw.reaction.is_some()),
        ("disjoint", !raw.disjoint.is_empty()),
    ];
    for (key, given) in only_computed {
        if given && !computed {
            no_effect(parsed, errors, key, "mode: computed");
        }
    }
    let metric = raw.metric.unwrap_or_default();
    let paths = raw.paths.unwrap_or(1);
    if computed && paths > 1 && metric == Metric::Delay {
        no_effect(parsed, errors, "paths", "metric: hops");
    }
    let forwarding = raw.forwarding.unwrap_or_default();
    if computed && paths > 1 && forwarding == Forwarding::Map {
        no_effect(parsed, errors, "paths", "forwarding: tables");
    }
    if computed && raw.choices.is_some() {
        let shortest = [
            ("metric", raw.metric.is_some()),
            ("paths", raw.paths.is_some()),
            ("reaction", raw.reaction.is_some()),
        ];
        for (key, _) in shortest.iter().filter(|(_, given)| *given) {
            let message =
                format!("`{key}` applies to shortest paths, and `choices` gives the paths");
            let error = parsed
                .error_at_key(&[Key("routing"), Key(key)], "choose-one", message)
                .with_suggestion(format!("remove `{key}`, or `choices`"));
            errors.push(error);
        }
    }
    let choices = raw.choices.as_deref().filter(|_| computed);
    let choices = choices
        .and_then(|name| inputs.file(name, &[Key("routing"), Key("choices")], errors))
        .map(Box::new);
    let mode = match software {
        Some(software) => {
            Mode::Daemons(Box::new(daemons::resolve(parsed, inputs, software, errors)))
        }
        None => {
            let only_daemons = [
                ("protocol", raw.protocol.is_some()),
                ("systems", raw.systems.is_some()),
                ("ospf", raw.ospf.is_some()),
                ("timers", raw.timers.is_some()),
                ("bfd", raw.bfd.is_some()),
                ("restart", raw.restart.is_some()),
                ("start", raw.start.is_some()),
                ("kernel_events", raw.kernel_events.is_some()),
                ("within", raw.within.is_some()),
                ("template", raw.template.is_some()),
            ];
            for (key, _) in only_daemons.into_iter().filter(|(_, given)| *given) {
                no_effect(parsed, errors, key, "daemon: bird");
            }
            match raw.mode {
                Some(RoutingMode::None) => Mode::None,
                _ => Mode::Computed(ComputedRouting {
                    destinations: raw.destinations.unwrap_or_default(),
                    metric,
                    paths,
                    choices,
                    forwarding,
                    reaction: raw.reaction,
                    // Filled in when nodes are known.
                    disjoint: Vec::new(),
                }),
            }
        }
    };
    let drain = drain(parsed, computed, errors);
    let families = Families {
        ipv4: raw.families.contains(&Family::Ipv4),
        ipv6: raw.families.contains(&Family::Ipv6),
    };
    Routing {
        families,
        mode,
        drain,
    }
}

/// How long links outlive the routes over them, less than a step.
fn drain(parsed: &Parsed, computed: bool, errors: &mut Diagnostics) -> TimeSpan {
    let raw = &parsed.raw.routing;
    let Some(drain) = raw.drain else {
        return TimeSpan::from_ns(0);
    };
    if !computed {
        no_effect(parsed, errors, "drain", "mode: computed");
    }
    if drain >= parsed.raw.step {
        let error = parsed
            .error_at(
                &[Key("routing"), Key("drain")],
                "order",
                format!(
                    "`drain` is {drain}, but must be less than `step`, {}",
                    parsed.raw.step
                ),
            )
            .with_reason("a link must be gone before the next step may bring it back");
        errors.push(error);
    }
    drain
}

fn no_effect(parsed: &Parsed, errors: &mut Diagnostics, key: &'static str, needs: &str) {
    super::no_effect(parsed, errors, &[Key("routing"), Key(key)], needs);
}
