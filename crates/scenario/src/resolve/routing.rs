//! Routing: who makes routes, and only the settings that matter to it.

use crate::diagnostic::Diagnostics;
use crate::model::{Families, Mode, Ospf, Routing};
use crate::parse::Parsed;
use crate::raw::{Family, RoutingMode};
use crate::walk::Seg::{Index, Key};
use constel_units::TimeSpan;

const NANOS: i64 = 1_000_000_000;

pub(super) fn resolve(parsed: &Parsed, errors: &mut Diagnostics) -> Routing {
    let raw = &parsed.raw.routing;
    for (index, family) in raw.families.iter().enumerate() {
        if raw.families[..index].contains(family) {
            let path = [Key("routing"), Key("families"), Index(index)];
            errors.push(parsed.error_at(&path, "duplicate-name", "this family is listed twice"));
        }
    }
    if raw.destinations.is_some() && raw.mode != RoutingMode::Computed {
        no_effect(parsed, errors, "destinations", "mode: computed");
    }
    if raw.ospf.is_some() && raw.mode != RoutingMode::Bird {
        no_effect(parsed, errors, "ospf", "mode: bird");
    }
    let mode = match raw.mode {
        RoutingMode::Computed => Mode::Computed(raw.destinations.unwrap_or_default()),
        RoutingMode::Bird => Mode::Bird(ospf(parsed, errors)),
        RoutingMode::None => Mode::None,
    };
    let drain = drain(parsed, errors);
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
fn drain(parsed: &Parsed, errors: &mut Diagnostics) -> TimeSpan {
    let raw = &parsed.raw.routing;
    let Some(drain) = raw.drain else {
        return TimeSpan::from_ns(0);
    };
    if raw.mode != RoutingMode::Computed {
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
    let error = parsed
        .error_at_key(
            &[Key("routing"), Key(key)],
            "no-effect",
            format!("`routing.{key}` has an effect only with `{needs}`"),
        )
        .with_reason("what would be ignored is an error, so that no result misleads")
        .with_suggestion(format!("remove `{key}`, or set `{needs}`"));
    errors.push(error);
}

fn ospf(parsed: &Parsed, errors: &mut Diagnostics) -> Ospf {
    let raw = parsed.raw.routing.ospf.clone().unwrap_or_default();
    let mut seconds = |key: &'static str, span: constel_units::TimeSpan| {
        if span.ns() % NANOS != 0 {
            let path = [Key("routing"), Key("ospf"), Key(key)];
            let error = parsed
                .error_at(&path, "whole-seconds", format!("`{key}` is {span}"))
                .with_reason("OSPF counts whole seconds (RFC 2328, appendix A.3.2)");
            errors.push(error);
        }
        // Bounds in the schema keep it within 1 s to 65535 s.
        u16::try_from(span.ns() / NANOS).unwrap_or(u16::MAX)
    };
    let hello_s = seconds("hello", raw.hello);
    let dead_s = seconds("dead", raw.dead);
    if dead_s <= hello_s {
        let error = parsed
            .error_at(
                &[Key("routing"), Key("ospf"), Key("dead")],
                "order",
                format!(
                    "`dead` is {}, but must be more than `hello`, {}",
                    raw.dead, raw.hello
                ),
            )
            .with_reason("otherwise every neighbour dies between two hello packets");
        errors.push(error);
    }
    Ospf { hello_s, dead_s }
}
