//! Routing: who makes routes, and only the settings that matter to it.

use super::inputs::Inputs;
use crate::diagnostic::Diagnostics;
use crate::model::{
    AreaSize, Bfd, ComputedRouting, DaemonRouting, Families, Igp, Mode, OspfExtra, Reaction,
    Restart, Routing, Start, System, Timers,
};
use crate::parse::Parsed;
use crate::raw::{
    Family, Forwarding, Metric, Name, RawSystem, RoutingMode, RoutingProtocol, Software,
};
use crate::text_file::TextFile;
use crate::walk::Seg::{Index, Key};
use constel_units::TimeSpan;

const NANOS: i64 = 1_000_000_000;
const MILLIS: i64 = 1_000_000;

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
                "`mode` and `daemon` both say who makes the routes",
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
    let mode = match software {
        Some(software) => Mode::Daemons(Box::new(daemons(parsed, inputs, software, errors))),
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
                    forwarding,
                    reaction: raw.reaction.as_ref().map(|r| Reaction {
                        detect: r.detect,
                        processing: r.processing,
                        reach: r.reach,
                    }),
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

fn daemons(
    parsed: &Parsed,
    inputs: &mut Inputs<'_>,
    software: Software,
    errors: &mut Diagnostics,
) -> DaemonRouting {
    let raw = &parsed.raw.routing;
    let protocol = raw.protocol.unwrap_or_default();
    check_protocol(parsed, software, protocol, errors);
    let timers = timers(parsed, protocol, errors);
    let start = raw.start.clone().unwrap_or_default();
    if software == Software::Frr && raw.kernel_events.is_some() {
        // zebra learns of interfaces by nothing else.
        no_effect(parsed, errors, "kernel_events", "daemon: bird");
    }
    DaemonRouting {
        software,
        protocol: igp(protocol),
        timers,
        bgp_timers: bgp_timers(parsed, errors),
        systems: raw.systems.iter().flatten().map(system).collect(),
        ospf: ospf_extra(parsed, (software, protocol), timers, errors),
        start: Start {
            load: start.load,
            pace: start.pace,
            memory: start.memory,
        },
        kernel_events: raw.kernel_events.unwrap_or(true),
        within: raw.within.unwrap_or(TimeSpan::from_ns(120 * NANOS)),
        bfd: bfd(parsed, protocol, errors),
        restart: restart(parsed, errors),
        template: template(parsed, inputs, errors),
    }
}

/// What was checked to be spoken.
fn igp(protocol: RoutingProtocol) -> Igp {
    match protocol {
        RoutingProtocol::Ospf => Igp::Ospf,
        // OpenFabric has been refused.
        RoutingProtocol::Isis | RoutingProtocol::Openfabric => Igp::Isis,
        RoutingProtocol::Babel => Igp::Babel,
    }
}

/// Whether the software speaks the protocol, and over ground links as they are.
fn check_protocol(
    parsed: &Parsed,
    software: Software,
    protocol: RoutingProtocol,
    errors: &mut Diagnostics,
) {
    let path = [Key("routing"), Key("protocol")];
    let (allowed, other): (&[&str], _) = match software {
        Software::Bird => (&["ospf", "babel"], "frr"),
        Software::Frr => (&["ospf", "isis"], "bird"),
    };
    let error = match (software, protocol) {
        (Software::Bird, RoutingProtocol::Isis | RoutingProtocol::Openfabric) => {
            Some(parsed.error_at(
                &path,
                "no-such-protocol",
                "BIRD does not speak this protocol",
            ))
        }
        (Software::Frr, RoutingProtocol::Babel) => Some(
            parsed
                .error_at(
                    &path,
                    "no-such-protocol",
                    "FRR does not speak Babel in a lab",
                )
                .with_reason("FRR 8.4.4's babeld never sends a hello, so it finds no neighbours"),
        ),
        (Software::Frr, RoutingProtocol::Openfabric) => Some(
            parsed
                .error_at(
                    &path,
                    "no-such-protocol",
                    "FRR does not speak OpenFabric in a lab",
                )
                .with_reason("FRR 8.4.4's fabricd brings routes of one family at most"),
        ),
        _ => None,
    };
    if let Some(error) = error {
        let error = error.with_allowed(allowed.iter().copied());
        let error = match protocol {
            // Nobody speaks it.
            RoutingProtocol::Openfabric => {
                error.with_suggestion("set `daemon: frr` and `protocol: isis`")
            }
            _ => error.with_suggestion(format!("set `daemon: {other}`")),
        };
        errors.push(error);
        return;
    }
    // FRR's IS-IS has no point-to-multipoint, and its OSPFv3 none before version 10.
    let ipv6 = parsed.raw.routing.families.contains(&Family::Ipv6);
    if software == Software::Bird || (protocol == RoutingProtocol::Ospf && !ipv6) {
        return;
    }
    for (name, constellation) in &parsed.raw.constellations {
        let many = |gsl: &crate::raw::RawGsl| gsl.beams != Some(1);
        if constellation.gsl.as_ref().is_some_and(many) {
            let path = [Key("constellations"), Key(name.as_str()), Key("gsl")];
            let error = parsed
                .error_at_key(
                    &path,
                    "one-station",
                    "a satellite that serves several stations at a time",
                )
                .with_reason(
                    "FRR's IS-IS and OSPFv3 hold one neighbour on a satellite's ground port",
                )
                .with_suggestion("add `beams: 1`, or use OSPF with `families: [ipv4]`, or BIRD");
            errors.push(error);
        }
    }
}

/// The protocol's timers, from the one key that is for it.
fn timers(parsed: &Parsed, protocol: RoutingProtocol, errors: &mut Diagnostics) -> Timers {
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

/// What OSPF has besides the timers of its lasers.
fn ospf_extra(
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
                .error_at_key(&path, "no-effect", "only BIRD's OSPF is told about areas")
                .with_reason("what would be ignored is an error, so that no result misleads")
                .with_suggestion("remove `areas`, or set `daemon: bird` and `protocol: ospf`");
            errors.push(error);
        }
        if !parsed.raw.ground.cables.is_empty() {
            let path = [Key("routing"), Key("ospf"), Key("areas")];
            let error = parsed
                .error_at_key(&path, "no-effect", "areas have no place for cables")
                .with_reason("a cable would be in no area, and OSPF would not use it")
                .with_suggestion("remove `areas`, or `ground.cables`");
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
                        "how large areas are must be said in one way",
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

fn place(under: &[&'static str], key: &'static str) -> Vec<crate::walk::Seg<'static>> {
    let mut path = vec![Key("routing")];
    path.extend(under.iter().map(|&part| Key(part)));
    path.push(Key(key));
    path
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

/// BGP's timers are those of the protocols other than OSPF.
fn bgp_timers(parsed: &Parsed, errors: &mut Diagnostics) -> Timers {
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

fn system((name, raw): (&Name, &RawSystem)) -> System {
    System {
        name: name.clone(),
        asn: raw.asn,
        nodes: raw.nodes.clone().unwrap_or_default(),
        reflectors: raw.reflectors.clone(),
    }
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

fn bfd(parsed: &Parsed, protocol: RoutingProtocol, errors: &mut Diagnostics) -> Option<Bfd> {
    let raw = parsed.raw.routing.bfd.as_ref()?;
    if protocol == RoutingProtocol::Babel {
        no_effect(parsed, errors, "bfd", "protocol: ospf");
    }
    if raw.interval.ns() % MILLIS != 0 {
        let path = [Key("routing"), Key("bfd"), Key("interval")];
        let error = parsed
            .error_at(
                &path,
                "whole-milliseconds",
                format!("`interval` is {}", raw.interval),
            )
            .with_reason("the daemons count whole milliseconds");
        errors.push(error);
    }
    Some(Bfd {
        interval: raw.interval,
        multiplier: raw.multiplier,
    })
}

fn restart(parsed: &Parsed, errors: &mut Diagnostics) -> Option<Restart> {
    let raw = parsed.raw.routing.restart.as_ref()?;
    if raw.at_most < raw.after {
        let error = parsed.error_at(
            &[Key("routing"), Key("restart"), Key("at_most")],
            "order",
            format!(
                "`at_most` is {}, but must not be less than `after`, {}",
                raw.at_most, raw.after
            ),
        );
        errors.push(error);
    }
    Some(Restart {
        after: raw.after,
        at_most: raw.at_most,
    })
}

fn template(
    parsed: &Parsed,
    inputs: &mut Inputs<'_>,
    errors: &mut Diagnostics,
) -> Option<TextFile> {
    let name = parsed.raw.routing.template.as_ref()?;
    let path = [Key("routing"), Key("template")];
    let input = inputs.text(name, &path, errors)?;
    Some(TextFile::new(
        name,
        &input.shown,
        input.sha256.clone(),
        &input.text,
        parsed.source().clone(),
        parsed.place(&path, false),
        crate::walk::Path(&path).to_string(),
    ))
}
