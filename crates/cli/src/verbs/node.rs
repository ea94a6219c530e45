//! `constel node`: fails, stops, pauses and removes nodes of a running lab.

use constel_api::NodeChange;
use constel_api::answers::NodesSet;
use constel_control::Lab;

use crate::args::{Node, NodeVerb};
use crate::exit::{Exit, Outcome};
use crate::output;

/// Makes the change.
pub(crate) fn run(args: &Node) -> Outcome {
    let (change, of) = match &args.verb {
        NodeVerb::Stop(of) => (NodeChange::Stop, of),
        NodeVerb::Start(of) => (NodeChange::Start, of),
        NodeVerb::Restart(of) => (NodeChange::Restart, of),
        NodeVerb::Pause(of) => (NodeChange::Pause, of),
        NodeVerb::Resume(of) => (NodeChange::Resume, of),
        NodeVerb::Fail(of) => (NodeChange::Fail, of),
        NodeVerb::Heal(of) => (NodeChange::Heal, of),
        NodeVerb::Remove(of) => (NodeChange::Remove, of),
        NodeVerb::Add(of) => (NodeChange::Add, of),
    };
    let lab = Lab::attach(&of.lab)?;
    let mut nodes = Vec::new();
    for text in &of.nodes {
        nodes.extend(lab.select(text, None)?);
    }
    let answer = lab.set_nodes(nodes, change, !of.no_wait)?;
    match args.json {
        true => output::json(&answer)?,
        false => output::text(&text(&answer))?,
    }
    Ok(Exit::Done)
}

fn text(answer: &NodesSet) -> String {
    let done = match answer.change {
        NodeChange::Fail => "failed",
        NodeChange::Heal => "healed",
        NodeChange::Stop => "stopped",
        NodeChange::Start => "started",
        NodeChange::Restart => "restarted",
        NodeChange::Pause => "paused",
        NodeChange::Resume => "resumed",
        NodeChange::Remove => "removed",
        NodeChange::Add => "added",
    };
    let mut text = String::new();
    for node in &answer.nodes {
        text.push_str(&format!("{node} {done}\n"));
    }
    for node in &answer.unchanged {
        text.push_str(&format!("{node} unchanged\n"));
    }
    if answer.processes > 0 {
        text.push_str(&format!("signalled {} processes\n", answer.processes));
    }
    if let Some(from_ns) = answer.links_from_ns {
        let s = from_ns as f64 / 1e9;
        text.push_str(&format!("links work again from lab time {s:.1} s\n"));
    }
    text + &output::routes_after(answer.routes)
}

#[cfg(test)]
mod tests {
    use constel_api::answers::RoutesAfter;

    use super::*;

    #[test]
    fn an_answer_says_what_changed_and_when() {
        let answer = NodesSet {
            change: NodeChange::Heal,
            nodes: vec!["a".to_owned()],
            unchanged: vec!["b".to_owned()],
            at_mono_ns: 1,
            links_from_ns: Some(12_000_000_000),
            processes: 0,
            routes: RoutesAfter::Untouched,
        };
        assert_eq!(
            text(&answer),
            "a healed\nb unchanged\nlinks work again from lab time 12.0 s\n"
        );
        let stopped = NodesSet {
            change: NodeChange::Stop,
            processes: 3,
            links_from_ns: None,
            routes: RoutesAfter::Converged {
                after_ns: 4_200_000,
            },
            ..answer
        };
        let text = text(&stopped);
        assert!(text.starts_with("a stopped\n"), "{text}");
        assert!(
            text.contains("signalled 3 processes\n") && text.contains("4.2 ms"),
            "{text}"
        );
    }
}
