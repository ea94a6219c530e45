//! Interfaces of the machine behind which there are hosts of a lab.

use std::net::IpAddr;

use constel_drivers::relay::{Captured, External};
use constel_host::wire::Promiscuous;
use constel_plan::{Blueprint, Lab};
use constel_topology::{Attachment, Port};

use crate::error::EngineError;
use crate::wires::{Use, Wire, WireError, look, no_loop};

const USE: Use = Use {
    who: "a lab",
    exclusive: false,
    may_lose_host: false,
};

/// Interfaces that a lab uses. They are released when this is dropped.
#[derive(Default)]
pub(crate) struct Attached {
    pub(crate) externals: Vec<External>,
    /// The captured interfaces, once frames are let in.
    pub(crate) captured: Captured,
    _promiscuous: Vec<Promiscuous>,
}

/// Returns the ports that are interfaces of the machine, with their names.
fn attached(lab: &Lab) -> impl Iterator<Item = (&Port, &String)> {
    lab.layout
        .ports()
        .iter()
        .filter_map(|port| match &port.attachment {
            Attachment::Veth => None,
            Attachment::HostInterface(name) => Some((port, name)),
        })
}

impl Attached {
    /// Takes the interfaces that a lab needs.
    ///
    /// # Errors
    /// As [`usable`].
    pub(crate) fn take(lab: &Lab) -> Result<Attached, EngineError> {
        let wires = usable(lab)?;
        let ports = attached(lab).map(|(port, _)| port.id);
        let externals = wires.iter().zip(ports);
        // Without promiscuous mode the interface would filter frames for the lab's own MAC addresses.
        let held = wires.iter().map(|wire| Promiscuous::hold(wire.ifindex));
        Ok(Attached {
            externals: externals
                .map(|(wire, port)| wire.external(port, true))
                .collect(),
            captured: Captured::default(),
            _promiscuous: held.collect::<Result<_, _>>()?,
        })
    }
}

/// Returns the interfaces of this machine that a lab needs, in the order of its ports.
///
/// # Errors
/// [`EngineError::Unable`] with all reasons against them.
pub(crate) fn usable(lab: &Lab) -> Result<Vec<Wire>, EngineError> {
    let names: Vec<String> = attached(lab).map(|(_, name)| name.clone()).collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let wires = look(&names, USE).and_then(|wires| {
        // A packet longer than the interface's MTU would be lost on the wire.
        let lacks = attached(lab).zip(&wires).filter(|((port, _), wire)| wire.mtu < port.mtu_bytes);
        let words = lacks.map(|((port, name), wire)| {
            format!(
                "{name} has an MTU of {} bytes, and packets of up to {} come over its link; `ip link set {name} mtu {}` would do",
                wire.mtu, port.mtu_bytes, port.mtu_bytes
            )
        });
        // Frames that arrive there would not wait for the channel.
        let channels = lab.channels();
        let shared = attached(lab).flat_map(|(port, name)| {
            let on = channels.iter().filter(|(_, shared)| shared.ports.contains(&port.id));
            on.map(move |(network, _)| format!("{name} is a member of network `{network}`, whose members share a channel"))
        });
        let words: Vec<String> = words.chain(shared).collect();
        if !words.is_empty() {
            return Err(WireError::Refused(words));
        }
        // A loop outside this machine would multiply every broadcast.
        no_loop(&wires)?;
        Ok(wires)
    });
    wires.map_err(|error| match error {
        WireError::Refused(reasons) => EngineError::Unable {
            what: reasons.join("\n  "),
            remedy: "`attach` in the scenario names what is plugged into this machine".to_owned(),
        },
        WireError::Host(error) => error.into(),
    })
}

/// Returns the settings for the devices behind the interfaces, one line for each.
pub(crate) fn instructions(blueprint: &Blueprint) -> Vec<String> {
    let lab = &blueprint.lab;
    let line = |(port, interface): (&Port, &String)| {
        let name = &lab.layout.node(port.node).name;
        let own = blueprint.loopbacks(port.node);
        let own: Vec<String> = own.iter().map(IpAddr::to_string).collect();
        let addresses = blueprint.addresses.port(port.id);
        let on_the_link = addresses.v4.filter(|_| blueprint.families.ipv4);
        let on_the_link = on_the_link.map(|(address, length)| format!("{address}/{length}"));
        let on_the_link = on_the_link.into_iter().chain(
            blueprint
                .families
                .ipv6
                .then(|| format!("{}/64", addresses.v6_link_local)),
        );
        let on_the_link: Vec<String> = on_the_link.collect();
        let far = lab.layout.far_port(port.id);
        let gateway = far.map(|far| {
            let far = blueprint.addresses.port(far);
            let v4 = far.v4.filter(|_| blueprint.families.ipv4);
            let v4 = v4.map(|(address, _)| address.to_string());
            let v6 = blueprint
                .families
                .ipv6
                .then(|| far.v6_link_local.to_string());
            let both: Vec<String> = v4.into_iter().chain(v6).collect();
            format!(", gateway {}", both.join(" and "))
        });
        format!(
            "{name} is what is plugged into {interface}: it answers at {}, and has {} on its link{}",
            own.join(" and "),
            on_the_link.join(" and "),
            gateway.unwrap_or_default()
        )
    };
    attached(lab).map(line).collect()
}
