//! Hosts that are a device at an interface of the machine: Constel creates no node for them.

use std::collections::BTreeMap;

use crate::diagnostic::Diagnostics;
use crate::glob::Glob;
use crate::model::{Action, ClockTime, Flow, Name, PingTool, Routing};
use crate::parse::Parsed;
use crate::raw::RawHost;
use crate::walk::Seg::{self, Index, Key};

/// Checks that each has a valid interface, which no other has, and one port, and that no program of the lab
/// runs in it.
pub(super) fn check(
    parsed: &Parsed,
    routing: &Routing,
    (traffic, entries): (&[Flow], &BTreeMap<Name, usize>),
    errors: &mut Diagnostics,
) {
    let hosts = &parsed.raw.ground.hosts;
    let mut taken: BTreeMap<&str, &Name> = BTreeMap::new();
    for (name, host) in hosts {
        let Some(interface) = &host.attach else {
            continue;
        };
        let path = [
            Key("ground"),
            Key("hosts"),
            Key(name.as_str()),
            Key("attach"),
        ];
        if !can_be_called(interface) {
            let message = format!("no interface can be called `{interface}`");
            let error = parsed.error_at(&path, "bad-value", message);
            errors.push(
                error
                    .with_reason(
                        "names of interfaces have no space, `/` and `:`, and `lo` is no wire",
                    )
                    .with_suggestion("`ip -br link` lists those of this machine"),
            );
        } else if let Some(other) = taken.insert(interface, name) {
            let message = format!("`{interface}` is attached as `{other}` already");
            errors.push(parsed.error_at(&path, "duplicate-name", message));
        }
        one_port(parsed, name, &path, errors);
        if parsed.raw.clock.time == ClockTime::Virtual {
            let message = format!("`{name}` is attached, and `clock.time` is `virtual`");
            let error = parsed.error_at_key(&path, "virtual-time", message);
            errors.push(
                error
                    .with_reason("the device at the interface keeps the time of the host")
                    .with_suggestion("remove `attach`, or `clock.time`"),
            );
        }
        if host.node.is_some() {
            let message = format!(
                "`{name}` is what is plugged into `{interface}`, and made of nothing of ours"
            );
            let node = [path[0], path[1], path[2], Key("node")];
            errors.push(parsed.error_at_key(&node, "no-effect", message));
        }
        if routing.mode.daemons().is_some() {
            let error = parsed
                .error_at_key(&path, "attach-daemons", {
                    format!("`{name}` is attached, and routing daemons make the routes")
                })
                .with_reason(
                    "Constel starts no daemon in an attached device, so no route would lead to it",
                )
                .with_suggestion("set `mode: computed`, or `mode: none` for a lab without routes");
            errors.push(error);
        }
    }
    for flow in traffic {
        let entry = entries.get(&flow.name).copied().unwrap_or_default();
        nothing_runs_in_it(parsed, hosts, (flow, entry), errors);
    }
}

fn can_be_called(interface: &str) -> bool {
    let bad = |c: char| c.is_whitespace() || c.is_control() || c == '/' || c == ':';
    !matches!(interface, "." | ".." | "lo") && !interface.contains(bad)
}

fn one_port(parsed: &Parsed, name: &Name, path: &[Seg<'_>], errors: &mut Diagnostics) {
    let cables = &parsed.raw.ground.cables;
    let cables = cables
        .iter()
        .filter(|cable| cable.from == *name || cable.to == *name);
    let networks = parsed.raw.networks.iter().filter(|(_, network)| {
        let mut members = network.members.iter().map(|member| Glob::new(member));
        members.any(|glob| glob.matches(name.as_str()))
    });
    let networks: Vec<_> = networks.collect();
    if let Some((network, _)) = networks.iter().find(|(_, network)| network.management) {
        let message = format!("`{name}` is attached, and network `{network}` has `management`");
        let error = parsed.error_at(path, "no-effect", message);
        errors.push(error.with_reason("what is plugged into an interface takes no port of ours"));
    }
    let cables = cables.map(|cable| {
        let far = if cable.from == *name {
            &cable.to
        } else {
            &cable.from
        };
        format!("the cable to `{far}`")
    });
    let networks = networks.iter().map(|(name, _)| format!("network `{name}`"));
    let ports: Vec<String> = cables.chain(networks).collect();
    // A host without a port is reported with all hosts.
    if ports.len() > 1 {
        let count = ports.len();
        let message = format!("`{name}` has {count} cables and networks, and is one interface");
        let error = parsed.error_at(path, "out-of-range", message);
        errors.push(error.with_reason(format!(
            "an attached host has one cable, or is in one network; it was given {}",
            ports.join(", ")
        )));
    }
}

fn nothing_runs_in_it(
    parsed: &Parsed,
    hosts: &BTreeMap<Name, RawHost>,
    (flow, entry): (&Flow, usize),
    errors: &mut Diagnostics,
) {
    let attached = |name: &Name| hosts.get(name).is_some_and(|host| host.attach.is_some());
    let answers_by_itself =
        matches!(&flow.action, Action::Ping(ping) if ping.tool == PingTool::Ping);
    let within = match &flow.action {
        Action::Run(run) => [Some(&run.node), None],
        other => match other.ends() {
            Some((from, to)) => [Some(from), (!answers_by_itself).then_some(to)],
            None => [None, None],
        },
    };
    for node in within.into_iter().flatten().filter(|node| attached(node)) {
        let message = format!(
            "`{}` needs a program in `{node}`, which is attached",
            flow.name
        );
        let error = parsed
            .error_at(&[Key("traffic"), Index(entry)], "attached-node", message)
            .with_reason("Constel starts nothing in what is plugged into an interface")
            .with_suggestion("start it there, or `ping` it by `tool: ping`");
        errors.push(error);
    }
}
