//! Timers of routing protocols, in the whole seconds that they count.

use super::no_effect;
use crate::diagnostic::Diagnostics;
use crate::model::{AreaSize, OspfExtra, Timers};
use crate::parse::Parsed;
use crate::raw::{RoutingProtocol, Software};
use crate::walk::Seg::{self, Key};
use constel_units::TimeSpan;

pub(super) const NANOS: i64 = 1_000_000_000;

/// The protocol's timers, from the one key that is for it.
pub(super) fn timers(
    parsed: &Parsed,
    protocol: RoutingProtocol,
    errors: &mut Diagnostics,
) -> Timers {
    let raw = &parsed.raw.routing;
    if protocol == RoutingProtocol::Ospf {
        if raw.timers.is_some() && raw.systems.is_none() {
            no_effect(parsed, errors, "timers", "protocol: isis");
        }
        let ospf = raw.ospf.clone().unwrap_or_default();
        let why = "OSPF counts whole seconds (RFC 2328, appendix A.3.2)";
        return whole_seconds(parsed, &["ospf"], (ospf.hello, ospf.dead), why, errors);
    }
    if raw.ospf.is_some() {
        no_effect(parsed, errors, "ospf", "protocol: ospf");
    }
    let given = raw.timers.clone().unwrap_or_default();
    let why = "the daemons count whole seconds";
    let timers = whole_seconds(parsed, &["timers"], (given.hello, given.dead), why, errors);
    if timers.dead_s > timers.hello_s && !timers.dead_s.is_multiple_of(timers.hello_s) {
        let error = parsed
            .error_at(
                &[Key("routing"), Key("timers"), Key("dead")],
                "order",
                format!(
                    "`dead` is {}, no whole multiple of `hello`, {}",
                    given.dead, given.hello
                ),
            )
            .with_reason("IS-IS counts missing hellos (ISO 10589, 8.2.3)");
        errors.push(error);
    }
    timers
}

/// FRR's `timers throttle lsa all`, a tenth of the tick, ends at 5,000 ms.
const FRR_TICK_MAX_S: i64 = 50;

/// Returns OSPF's settings besides the timers of its lasers.
pub(super) fn ospf_extra(
    parsed: &Parsed,
    (software, protocol): (Software, RoutingProtocol),
    lasers: Timers,
    errors: &mut Diagnostics,
) -> OspfExtra {
    let raw = parsed.raw.routing.ospf.clone().unwrap_or_default();
    let why = "OSPF counts whole seconds (RFC 2328, appendix A.3.2)";
    let ground = match &raw.ground {
        Some(g) => whole_seconds(parsed, &["ospf", "ground"], (g.hello, g.dead), why, errors),
        None => lasers,
    };
    let areas = raw.areas.as_ref().and_then(|areas| {
        if (software, protocol) != (Software::Bird, RoutingProtocol::Ospf) {
            let path = [Key("routing"), Key("ospf"), Key("areas")];
            let error = parsed
                .error_at_key(
                    &path,
                    "no-effect",
                    "areas are only supported with BIRD's OSPF",
                )
                .with_reason("what would be ignored is an error, so that no result misleads")
                .with_suggestion("remove `areas`, or set `daemon: bird` and `protocol: ospf`");
            errors.push(error);
        }
        match (areas.planes, areas.satellites) {
            (Some(planes), None) => Some(AreaSize::Planes(planes)),
            (None, Some(satellites)) => Some(AreaSize::Satellites(satellites)),
            _ => {
                let path = [Key("routing"), Key("ospf"), Key("areas")];
                let error = parsed
                    .error_at(
                        &path,
                        "choose-one",
                        "the size of areas must be given in one way",
                    )
                    .with_allowed(["planes", "satellites"]);
                errors.push(error);
                None
            }
        }
    });
    if software == Software::Frr && raw.tick.ns() > FRR_TICK_MAX_S * NANOS {
        let error = parsed
            .error_at(
                &place(&["ospf"], "tick"),
                "out-of-range",
                format!(
                    "`tick` is {}, at most {FRR_TICK_MAX_S} s with FRR",
                    raw.tick
                ),
            )
            .with_reason("FRR holds back an LSA by a tenth of it, and that by 5 s at most");
        errors.push(error);
    }
    OspfExtra {
        retransmit_s: one_whole(
            parsed,
            &["ospf"],
            ("retransmit", raw.retransmit),
            why,
            errors,
        ),
        tick_s: one_whole(
            parsed,
            &["ospf"],
            ("tick", raw.tick),
            "BIRD counts whole seconds",
            errors,
        ),
        ground,
        ground_retransmit_s: raw.ground.as_ref().map_or_else(
            || u16::try_from(raw.retransmit.ns() / NANOS).unwrap_or(u16::MAX),
            |g| {
                one_whole(
                    parsed,
                    &["ospf", "ground"],
                    ("retransmit", g.retransmit),
                    why,
                    errors,
                )
            },
        ),
        areas,
    }
}

/// BGP's timers are those of the protocols other than OSPF.
pub(super) fn bgp_timers(parsed: &Parsed, errors: &mut Diagnostics) -> Timers {
    /// The least hold time there is (RFC 4271, 4.2).
    const LEAST_S: u16 = 3;
    let raw = &parsed.raw.routing;
    let given = raw.timers.clone().unwrap_or_default();
    let seconds = |span: TimeSpan| u16::try_from(span.ns() / NANOS).unwrap_or(u16::MAX);
    let (hello_s, dead_s) = (seconds(given.hello), seconds(given.dead));
    if raw.systems.is_some() && dead_s < LEAST_S {
        let error = parsed
            .error_at(
                &[Key("routing"), Key("timers"), Key("dead")],
                "out-of-range",
                format!("`dead` is {}", given.dead),
            )
            .with_reason("BGP holds a neighbour for 3 s at least (RFC 4271, 4.2)");
        errors.push(error);
    }
    Timers { hello_s, dead_s }
}

fn whole_seconds(
    parsed: &Parsed,
    under: &[&'static str],
    (hello, dead): (TimeSpan, TimeSpan),
    why: &'static str,
    errors: &mut Diagnostics,
) -> Timers {
    let hello_s = one_whole(parsed, under, ("hello", hello), why, errors);
    let dead_s = one_whole(parsed, under, ("dead", dead), why, errors);
    if dead_s <= hello_s {
        let error = parsed
            .error_at(
                &place(under, "dead"),
                "order",
                format!("`dead` is {dead}, but must be more than `hello`, {hello}"),
            )
            .with_reason("otherwise every neighbour dies between two hello packets");
        errors.push(error);
    }
    Timers { hello_s, dead_s }
}

/// A time in whole seconds; bounds in the schema keep it within 1 s to 65535 s.
fn one_whole(
    parsed: &Parsed,
    under: &[&'static str],
    (key, span): (&'static str, TimeSpan),
    why: &'static str,
    errors: &mut Diagnostics,
) -> u16 {
    if span.ns() % NANOS != 0 {
        let error = parsed
            .error_at(
                &place(under, key),
                "whole-seconds",
                format!("`{key}` is {span}"),
            )
            .with_reason(why);
        errors.push(error);
    }
    u16::try_from(span.ns() / NANOS).unwrap_or(u16::MAX)
}

fn place(under: &[&'static str], key: &'static str) -> Vec<Seg<'static>> {
    let mut path = vec![Key("routing")];
    path.extend(under.iter().map(|&part| Key(part)));
    path.push(Key(key));
    path
}
