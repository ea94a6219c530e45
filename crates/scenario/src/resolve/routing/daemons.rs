//! Routing daemons: the protocols of each software, and how daemons are run.

use super::no_effect;
use super::timers::{NANOS, bgp_timers, ospf_extra, timers};
use crate::diagnostic::Diagnostics;
use crate::model::{Bfd, DaemonRouting, Igp, Restart, System};
use crate::parse::Parsed;
use crate::raw::{Family, Name, RawSystem, RoutingProtocol, Software};
use crate::resolve::inputs::Inputs;
use crate::text_file::TextFile;
use crate::walk::Seg::Key;
use constel_units::TimeSpan;

const MILLIS: i64 = 1_000_000;

pub(super) fn resolve(
    parsed: &Parsed,
    inputs: &mut Inputs<'_>,
    software: Software,
    errors: &mut Diagnostics,
) -> DaemonRouting {
    let raw = &parsed.raw.routing;
    let protocol = raw.protocol.unwrap_or_default();
    check_protocol(parsed, software, protocol, errors);
    let timers = timers(parsed, protocol, errors);
    let start = raw.start.unwrap_or_default();
    if software == Software::Frr && raw.kernel_events.is_some() {
        // zebra learns of interfaces only by kernel events.
        no_effect(parsed, errors, "kernel_events", "daemon: bird");
    }
    DaemonRouting {
        software,
        protocol: igp(protocol),
        timers,
        bgp_timers: bgp_timers(parsed, errors),
        systems: raw.systems.iter().flatten().map(system).collect(),
        ospf: ospf_extra(parsed, (software, protocol), timers, errors),
        start,
        kernel_events: raw.kernel_events.unwrap_or(true),
        within: raw.within.unwrap_or(TimeSpan::from_ns(120 * NANOS)),
        bfd: bfd(parsed, protocol, errors),
        restart: restart(parsed, errors),
        template: template(parsed, inputs, errors),
    }
}

/// Returns the protocol, after the check that the software has it.
fn igp(protocol: RoutingProtocol) -> Igp {
    match protocol {
        RoutingProtocol::Ospf => Igp::Ospf,
        // OpenFabric has been refused.
        RoutingProtocol::Isis | RoutingProtocol::Openfabric => Igp::Isis,
        RoutingProtocol::Babel => Igp::Babel,
    }
}

/// Checks that the software supports the protocol, and the ground links as they are.
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
            // No software has OpenFabric.
            RoutingProtocol::Openfabric => {
                error.with_suggestion("set `daemon: frr` and `protocol: isis`")
            }
            _ => error.with_suggestion(format!("set `daemon: {other}`")),
        };
        errors.push(error);
        return;
    }
    if software == Software::Frr
        && parsed.raw.routing.systems.is_some()
        && !parsed.raw.routing.families.contains(&Family::Ipv4)
    {
        let error = parsed
            .error_at_key(
                &[Key("routing"), Key("systems")],
                "no-such-protocol",
                "FRR routes IPv6 between systems only beside IPv4",
            )
            .with_reason(
                "FRR 8.4.4's sessions of BGP over link-local addresses do not come up, so IPv4's carry both",
            )
            .with_suggestion("set `families: [ipv4, ipv6]`, or `daemon: bird`");
        errors.push(error);
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

fn system((name, raw): (&Name, &RawSystem)) -> System {
    System {
        name: name.clone(),
        asn: raw.asn,
        nodes: raw.nodes.clone().unwrap_or_default(),
        reflectors: raw.reflectors.clone(),
    }
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
    Some(*raw)
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
    Some(*raw)
}

fn template(
    parsed: &Parsed,
    inputs: &mut Inputs<'_>,
    errors: &mut Diagnostics,
) -> Option<TextFile> {
    let name = parsed.raw.routing.template.as_ref()?;
    let path = [Key("routing"), Key("template")];
    inputs.file(name, &path, errors)
}
