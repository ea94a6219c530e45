//! A scenario that is a box: its ends, its commands, and [its rules](super::rules).

use std::net::IpAddr;

use constel_units::TimeSpan;

use super::inputs::Inputs;
use super::not_a_node_name;
use super::rules::Place;
use crate::diagnostic::Diagnostics;
use crate::files::Files;
use crate::model::{BoxEnds, BoxForm, BoxRouter, BoxScenario, Machine, MachineCommand, RuleFile};
use crate::parse::{Document, read, text_of};
use crate::raw::{RawBoxScenario, RawCommand, RawMachine, RawRouter};
use crate::schema::{BOX, as_written};
use crate::source::Source;
use crate::tree;
use crate::walk::Seg::{Index, Key};

/// Longest name of an interface.
const INTERFACE_BYTES: usize = 15;
const RULES: Place = Place(&["box", "rules"]);

/// Whether a file is a scenario that is a box. A file that is not YAML is not: reading it as a scenario reports
/// the error.
#[must_use]
pub fn is_box(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    let root = tree::read(&Source::new("", text));
    root.is_ok_and(|root| root.get("box").is_some())
}

/// Reads a scenario that is a box: form, values, and the files it names.
///
/// # Errors
/// Everything that is wrong with its form and its values.
pub fn read_box(
    file_name: &str,
    bytes: &[u8],
    files: &dyn Files,
) -> Result<BoxScenario, Diagnostics> {
    let text = text_of(file_name, bytes)?;
    read(file_name, text, &BOX, |raw, document| {
        box_of(raw, &document, files)
    })
}

fn box_of(
    mut raw: RawBoxScenario,
    document: &Document,
    files: &dyn Files,
) -> Result<BoxScenario, Diagnostics> {
    let mut errors = Diagnostics::new();
    let mut inputs = Inputs::new(document, files);
    let written = &mut raw.middlebox.rules;
    let rules = RULES.rules(document, written, &mut inputs, &mut errors);
    let asked = &raw.middlebox;
    let machines = asked.machines.as_deref().unwrap_or_default();
    let made = self::machines(document, machines, &mut errors);
    if asked.machines.is_some() && asked.exclusive {
        let path = [Key("box"), Key("exclusive")];
        let message = "`exclusive` has no effect with `machines`";
        let error = document.error_at_key(&path, "no-effect", message);
        errors.push(error.with_reason("nothing of the host's comes in at what the lab makes"));
    }
    let commands = commands(document, &raw, machines, &mut errors);
    let form = form(document, &raw, &mut errors);
    // The form has one of both.
    let ends = match raw.middlebox.interfaces.take() {
        Some(names) => BoxEnds::Interfaces(names),
        None => BoxEnds::Machines(made),
    };
    let inputs = inputs.finish();
    errors.or(())?;
    let mut errors = Diagnostics::new();
    let routes = matches!(form, BoxForm::Router(_));
    RULES.interfaces(document, (&rules, &ends.names(), routes), &mut errors);
    for message in form.refusals(&ends.names()) {
        errors.push(document.error_at_key(&[Key("box")], "box-form", message));
    }
    errors.or(())?;
    let warnings = RULES.warnings(document, &rules);
    Ok(BoxScenario {
        name: raw.name,
        description: raw.description,
        duration: raw.duration,
        ends,
        form,
        exclusive: raw.middlebox.exclusive,
        rules: RuleFile {
            seed: raw.seed,
            rules,
            written: raw.middlebox.rules.iter().map(as_written).collect(),
            inputs,
            warnings,
            source: document.source().clone(),
        },
        commands,
    })
}

/// Returns the form in which a box joins its ends.
fn form(document: &Document, raw: &RawBoxScenario, errors: &mut Diagnostics) -> BoxForm {
    let path = [Key("box"), Key("router")];
    match (&raw.middlebox.router, raw.middlebox.hub) {
        (None, false) => BoxForm::Pairs,
        (None, true) => BoxForm::Hub,
        (Some(router), hub) => {
            if hub {
                let message = "a box is a hub or a router";
                errors.push(document.error_at_key(&path, "choose-one", message));
            }
            BoxForm::Router(self::router(document, router, errors))
        }
    }
}

fn router(document: &Document, raw: &RawRouter, errors: &mut Diagnostics) -> BoxRouter {
    let mut router = BoxRouter::default();
    for (place, port) in raw.ports.iter().enumerate() {
        for (n, text) in port.addresses.iter().enumerate() {
            let path = [
                Key("box"),
                Key("router"),
                Key("ports"),
                Index(place),
                Key("addresses"),
                Index(n),
            ];
            match address(text) {
                Ok((address, length)) => router.addresses.push((port.at.clone(), address, length)),
                Err(reason) => {
                    let message = format!("`{text}` is no address of a router");
                    let error = document.error_at(&path, "bad-value", message);
                    errors.push(error.with_reason(reason));
                }
            }
        }
    }
    for (place, route) in raw.routes.iter().enumerate() {
        let path = |key| {
            [
                Key("box"),
                Key("router"),
                Key("routes"),
                Index(place),
                Key(key),
            ]
        };
        match (network(&route.to), route.via.parse()) {
            (Ok((to, length)), Ok(via)) => router.routes.push((to, length, via)),
            (to, via) => {
                if let Err(reason) = to {
                    let message = format!("`{}` is no network", route.to);
                    let error = document.error_at(&path("to"), "bad-value", message);
                    errors.push(error.with_reason(reason));
                }
                if via.is_err() {
                    let message = format!("`{}` is no address", route.via);
                    errors.push(document.error_at(&path("via"), "bad-value", message));
                }
            }
        }
    }
    router
}

/// Parses a network such as `10.30.0.0/16`.
///
/// # Errors
/// The reason why the text is not a network.
pub fn network(text: &str) -> Result<(IpAddr, u8), &'static str> {
    let (address, length) = parts(text)?;
    let below = match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    };
    if below.checked_shl(u32::from(length)).unwrap_or(0) != 0 {
        return Err("the bits of a network behind its length are zero");
    }
    Ok((address, length))
}

fn machines(document: &Document, raw: &[RawMachine], errors: &mut Diagnostics) -> Vec<Machine> {
    let mut machines = Vec::new();
    for (place, machine) in raw.iter().enumerate() {
        let at = [Key("box"), Key("machines"), Index(place)];
        let name = [&at[..], &[Key("name")]].concat();
        if machine.name.as_str().len() > INTERFACE_BYTES {
            let message = format!("the machine's name `{}` is too long", machine.name);
            let error = document.error_at(&name, "bad-name", message);
            errors.push(error.with_reason(format!(
                "what it is plugged in with is called so: at most {INTERFACE_BYTES} characters"
            )));
        }
        // `/etc/hosts` of the machines has their names, and the box has an interface of each name.
        let in_kernel = ["lo", "all", "default"].contains(&machine.name.as_str());
        let why = not_a_node_name(machine.name.as_str())
            .or(in_kernel.then_some("the kernel has this word for interfaces of its own"));
        if let Some(why) = why {
            let message = format!("no machine can be called `{}`", machine.name);
            let error = document.error_at(&name, "bad-name", message);
            let next = "begin it with a word, for example `machine-1`";
            errors.push(error.with_reason(why).with_suggestion(next));
        }
        if raw[..place].iter().any(|other| other.name == machine.name) {
            let message = format!("two machines are called `{}`", machine.name);
            errors.push(document.error_at(&name, "duplicate-name", message));
        }
        let mut addresses: Vec<(IpAddr, u8)> = Vec::new();
        for (n, text) in machine.addresses.iter().enumerate() {
            let path = [&at[..], &[Key("addresses"), Index(n)]].concat();
            let (code, message, reason) = match address(text) {
                Ok(address) if addresses.iter().any(|(known, _)| *known == address.0) => {
                    let message = format!("`{}` is there already", address.0);
                    ("duplicate-name", message, "an interface has it once")
                }
                Ok(address) => {
                    addresses.push(address);
                    continue;
                }
                Err(reason) => (
                    "bad-value",
                    format!("`{text}` is no address of a machine"),
                    reason,
                ),
            };
            let error = document.error_at(&path, code, message);
            errors.push(error.with_reason(reason));
        }
        let gateways = machine.gateways.iter().enumerate().filter_map(|(n, text)| {
            let gateway = text.parse::<IpAddr>().ok();
            if gateway.is_none() {
                let path = [&at[..], &[Key("gateways"), Index(n)]].concat();
                let message = format!("`{text}` is no address");
                errors.push(document.error_at(&path, "bad-value", message));
            }
            gateway
        });
        let gateways: Vec<IpAddr> = gateways.collect();
        machines.push(Machine {
            name: machine.name.clone(),
            addresses,
            gateways,
            settings: machine.settings.0.clone().into_iter().collect(),
        });
    }
    machines
}

/// Parses an address with the length of its network, such as `10.20.0.1/24`.
///
/// # Errors
/// The reason why the text is not such an address.
pub fn address(text: &str) -> Result<(IpAddr, u8), &'static str> {
    let (address, length) = parts(text)?;
    if address.is_unspecified() || address.is_multicast() || address.is_loopback() {
        return Err("an address that one machine can have is expected");
    }
    Ok((address, length))
}

fn parts(text: &str) -> Result<(IpAddr, u8), &'static str> {
    let form = "an address with the length of its network is expected, such as `10.20.0.1/24`";
    let (address, length) = text.split_once('/').ok_or(form)?;
    let address: IpAddr = address.parse().map_err(|_| form)?;
    let length: u8 = length.parse().map_err(|_| form)?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    if length > most {
        return Err("a network's length is at most 32 (IPv4) or 128 (IPv6)");
    }
    Ok((address, length))
}

fn commands(
    document: &Document,
    raw: &RawBoxScenario,
    machines: &[RawMachine],
    errors: &mut Diagnostics,
) -> Vec<MachineCommand> {
    let mut commands = Vec::new();
    for (place, command) in raw.traffic.iter().enumerate() {
        let at = [Key("traffic"), Index(place)];
        let under = |keys: &[&'static str]| {
            let keys = keys.iter().map(|key| Key(key));
            at.iter().copied().chain(keys).collect::<Vec<_>>()
        };
        let earlier = &raw.traffic[..place];
        if earlier.iter().any(|other| other.name == command.name) {
            let message = format!("two commands are called `{}`", command.name);
            errors.push(document.error_at(&under(&["name"]), "duplicate-name", message));
        }
        check_end(document, command, raw.duration, &under(&["for"]), errors);
        let node = &command.run.node;
        let Some(machine) = machines.iter().position(|machine| machine.name == *node) else {
            let message = match machines {
                [] => "commands run in machines, and this box has none".to_owned(),
                _ => format!("no machine is called `{node}`"),
            };
            let names = machines.iter().map(|machine| machine.name.to_string());
            let error = document
                .error_at(&under(&["run", "node"]), "unknown-node", message)
                .with_allowed(names);
            errors.push(error);
            continue;
        };
        commands.push(MachineCommand {
            name: command.name.clone(),
            at: command.at,
            length: command.length,
            machine,
            command: command.run.command.clone(),
        });
    }
    // A stable sort: equal starts stay in the order of the file.
    commands.sort_by_key(|command| command.at);
    commands
}

fn check_end(
    document: &Document,
    command: &RawCommand,
    duration: Option<TimeSpan>,
    at: &[crate::walk::Seg<'_>],
    errors: &mut Diagnostics,
) {
    let end = command.at.ns().saturating_add(command.length.ns());
    if let Some(duration) = duration.filter(|duration| end > duration.ns()) {
        let message = format!(
            "`{}` ends after the box, which runs for {duration}",
            command.name
        );
        errors.push(document.error_at(at, "end-of-flow", message));
    }
}
