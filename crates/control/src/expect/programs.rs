//! Statements about how programs end.

use constel_api::summary::ClientEnd;
use constel_api::{Event, EventData};
use constel_plan::{Lab, Resident, Watched};
use constel_scenario::model::{Action, EndedEarly, Flow, Name, NodesNamed, Window};
use constel_units::TimeSpan;

use super::Evidence;

/// The node in which something ended before its time by this event; `None`: nothing did.
fn ended_in<'a>(event: &'a Event, flows: &'a [Flow]) -> Option<(&'a str, &'a str)> {
    use EventData::{ContainerEnded, DaemonDied, FlowEnded, HelperDied};
    match &event.what {
        DaemonDied { node, program, .. } => Some((node, program)),
        HelperDied { node, .. } => Some((node, "the helper")),
        ContainerEnded { node, .. } => Some((node, "the container")),
        FlowEnded { flow, .. } => {
            let own = flows.iter().find(|own| own.name.as_str() == flow)?;
            let Action::Run(run) = &own.action else {
                return None;
            };
            let early = event.t_ns.is_none_or(|t_ns| t_ns < own.end().ns());
            early.then_some((run.node.as_str(), flow.as_str()))
        }
        _ => None,
    }
}

/// Returns the first premature end of a program in nodes of these names, with the observation.
pub(super) fn ended(
    nodes: &[NodesNamed],
    window: Window,
    flows: &[Flow],
    events: &[Event],
) -> Option<String> {
    let counts = |event: &&Event| match event.t_ns {
        Some(t_ns) => window.has(t_ns),
        None => window.from.is_none(),
    };
    events.iter().filter(counts).find_map(|event| {
        let (node, what) = ended_in(event, flows)?;
        let named = nodes.iter().any(|named| named.glob.matches(node));
        let at = |t_ns: i64| format!(" at {:.3} s", t_ns as f64 / 1e9);
        let at = event.t_ns.map_or(String::new(), at);
        named.then(|| format!("`{what}` ended in `{node}`{at}"))
    })
}

/// Returns whether programs ran in nodes of each of these names, and none ended prematurely, with the observation.
///
/// # Errors
/// A message if no program ran in nodes of one of the names, so that there is no observation.
pub(super) fn alive(
    nodes: &[NodesNamed],
    window: Window,
    lab: &Lab,
    events: &[Event],
) -> Result<(bool, String), String> {
    if let Some(seen) = ended(nodes, window, &lab.scenario.traffic, events) {
        return Ok((false, seen));
    }
    let when = window.in_words();
    let watched = Watched::of(lab);
    let mut programs = 0;
    for named in nodes {
        let all = lab.layout.nodes().iter();
        let own = all.filter(|node| named.glob.matches(&node.name));
        let here = own.map(|node| {
            let residents = watched.residents(node.id);
            let residents = residents.filter(|what| resided(*what, &node.name, window, events));
            let flows = watched.programs(&node.name, window);
            residents.count() + flows.filter(|flow| ran(flow, window, events)).count()
        });
        match here.sum::<usize>() {
            0 => return Err(format!("no program ran in `{}`{when}", named.glob)),
            here => programs += here,
        }
    }
    let seen = match programs {
        1 => format!("the program that ran{when} did not end before its time"),
        n => format!("none of the {n} programs that ran{when} ended before its time"),
    };
    Ok((true, seen))
}

/// Whether a flow's program was started, and had not ended before the window.
fn ran(flow: &Flow, window: Window, events: &[Event]) -> bool {
    let of_flow = |event: &&Event| match &event.what {
        EventData::FlowStarted { flow: name } | EventData::FlowEnded { flow: name, .. } => {
            name == flow.name.as_str()
        }
        _ => false,
    };
    let (mut began, mut end_ns) = (false, flow.end().ns());
    for event in events.iter().filter(of_flow) {
        match (&event.what, event.t_ns) {
            (EventData::FlowEnded { .. }, Some(t_ns)) => end_ns = end_ns.min(t_ns),
            _ => began = true,
        }
    }
    began && window.meets(flow.at, TimeSpan::from_ns(end_ns))
}

/// Whether software that starts with the lab was started, and had not ended for good before the window.
fn resided(what: Resident, name: &str, window: Window, events: &[Event]) -> bool {
    use EventData::{
        ContainerEnded, ContainersStarted, DaemonDied, DaemonsStarted, HelperDied, HelpersStarted,
    };
    let started = events.iter().any(|event| match &event.what {
        ContainersStarted { .. } => what == Resident::Container,
        DaemonsStarted { count } => what == Resident::Daemon && *count > 0,
        HelpersStarted { .. } => what == Resident::Helper,
        _ => false,
    });
    let over = |event: &Event| match &event.what {
        ContainerEnded {
            node,
            again_in_s: None,
            ..
        } => what == Resident::Container && node == name,
        DaemonDied {
            node,
            again_in_s: None,
            ..
        } => what == Resident::Daemon && node == name,
        HelperDied { node, .. } => what == Resident::Helper && node == name,
        _ => false,
    };
    let before = |event: &Event| match (event.t_ns, window.from) {
        (Some(t_ns), Some(from)) => t_ns < from.ns(),
        (None, Some(_)) => true,
        (_, None) => false,
    };
    started && !events.iter().any(|event| over(event) && before(event))
}

/// Returns how a flow's client ended, as text.
fn in_words(name: &Name, end: ClientEnd) -> String {
    match end {
        ClientEnd::ByItself { t_ns, exit, early } => {
            let how = match exit {
                129.. => format!("signal {}", exit - 128),
                code => format!("exit code {code}"),
            };
            let at_s = t_ns as f64 / 1e9;
            let early = if early { ", before its time" } else { "" };
            format!("flow `{name}` ended at {at_s:.3} s{early}: {how}")
        }
        ClientEnd::AtItsTime => format!("flow `{name}` was running when its time was over"),
        ClientEnd::NodeDown => {
            format!("the node of flow `{name}` was down when its time was over")
        }
        ClientEnd::Removed => format!("flow `{name}` was removed from the scenario"),
        ClientEnd::CutShort => format!("flow `{name}` was running when the run ended"),
        ClientEnd::NotStarted => format!("flow `{name}` could not be started"),
    }
}

fn end(name: &Name, evidence: &Evidence) -> Result<ClientEnd, String> {
    let end = evidence.flow(name)?.end;
    end.ok_or_else(|| format!("the summary does not contain the end of flow `{name}`"))
}

/// Returns whether these programs were still running when their time was over, with the observation.
///
/// # Errors
/// A message if that is unknown.
pub(super) fn still_running(names: &[Name], evidence: &Evidence) -> Result<(bool, String), String> {
    for name in names {
        let end = end(name, evidence)?;
        if !matches!(end, ClientEnd::AtItsTime | ClientEnd::CutShort) {
            return Ok((false, in_words(name, end)));
        }
    }
    let seen = match names {
        [one] => format!("flow `{one}` was running when its time was over"),
        all => format!("{} flows were running when their time was over", all.len()),
    };
    Ok((true, seen))
}

/// Returns whether a program ended before its time was over, with the observation.
///
/// # Errors
/// A message if that is unknown.
pub(super) fn ended_early(own: &EndedEarly, evidence: &Evidence) -> Result<(bool, String), String> {
    let end = end(&own.flow, evidence)?;
    let holds = match end {
        ClientEnd::ByItself { t_ns, exit, early } => {
            let t_ns = i64::try_from(t_ns).unwrap_or(i64::MAX);
            early && own.window.has(t_ns) && own.exit.is_none_or(|wanted| wanted == exit)
        }
        _ => false,
    };
    let mut seen = in_words(&own.flow, end);
    if let Some(exit) = own.exit {
        let wanted = match exit {
            129.. => format!("signal {}", exit - 128),
            code => format!("exit code {code}"),
        };
        seen += &format!("; expected {wanted}");
    }
    if !own.window.is_all() {
        seen += &format!("; expected{}", own.window.in_words());
    }
    Ok((holds, seen))
}
