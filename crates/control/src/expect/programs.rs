//! Statements about how programs end.

use constel_api::summary::ClientEnd;
use constel_api::{Event, Happening};
use constel_scenario::model::{Action, EndedEarly, Flow, Name, NodesNamed, Window};

use super::Evidence;

/// The node in which something ended before its time by this event; `None`: nothing did.
fn ended_in<'a>(event: &'a Event, flows: &'a [Flow]) -> Option<(&'a str, &'a str)> {
    use Happening::{ContainerEnded, DaemonDied, FlowEnded, HelperDied};
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

/// Returns whether no program ended prematurely in nodes of these names, with the observation.
pub(super) fn alive(
    nodes: &[NodesNamed],
    window: Window,
    flows: &[Flow],
    events: &[Event],
) -> (bool, String) {
    let counts = |event: &&Event| match event.t_ns {
        Some(t_ns) => window.has(t_ns),
        None => window.from.is_none(),
    };
    let ended = events.iter().filter(counts).find_map(|event| {
        let (node, what) = ended_in(event, flows)?;
        let named = nodes.iter().any(|named| named.glob.matches(node));
        named.then_some((node, what, event.t_ns))
    });
    match ended {
        None => {
            let when = window.in_words();
            (true, format!("nothing ended before its time{when}"))
        }
        Some((node, what, t_ns)) => {
            let at = t_ns.map_or(String::new(), |t| format!(" at {:.3} s", t as f64 / 1e9));
            (false, format!("`{what}` ended in `{node}`{at}"))
        }
    }
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
