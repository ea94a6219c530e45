//! `constel show`: one running lab.

use constel_api::answers::{NodeShown, Shown};
use constel_control::Observer;

use crate::args::Lab;
use crate::exit::{Exit, Outcome};
use crate::output;

/// Nodes and the link plane's health.
pub(crate) fn run(args: &Lab) -> Outcome {
    let shown = Observer::attach(&args.lab)?.show()?;
    if args.json {
        output::json(&shown)?;
    } else {
        output::text(&text(&shown))?;
    }
    Ok(Exit::Done)
}

fn text(shown: &Shown) -> String {
    let lab = &shown.lab;
    let seconds = output::lab_time(lab.t_ns);
    let mut text = format!(
        "{}: {} ({}), lab time {seconds}, {} edges\n",
        lab.lab,
        lab.state.as_str(),
        lab.scenario,
        lab.edges,
    );
    let measured = shown.relay.as_ref();
    if let Some((plane, lateness)) = measured.and_then(|plane| Some((plane, plane.lateness?))) {
        text.push_str(&format!(
            "link plane: {} frames delivered, lateness p99 {}, {} lost by the emulator\n",
            output::or_dash(plane.counters.get("delivered")),
            output::ms(lateness.p99_ns as f64),
            plane.unintended.total(),
        ));
    }
    let nodes = shown.node_list.iter().flatten();
    let catalogued = nodes
        .clone()
        .any(|node| node.norad_id.is_some() || node.catalogue_name.is_some());
    if let Some(own) = &shown.management {
        text.push_str(&format!(
            "management: this machine is {} on {}\n",
            own.host, own.interface
        ));
    }
    let cells = |node: &NodeShown| {
        let mut cells = vec![
            node.name.clone(),
            node.kind.clone(),
            node.ipv4.to_string(),
            node.ipv6.to_string(),
            node.links.to_string(),
        ];
        if shown.management.is_some() {
            cells.push(output::or_dash(node.management));
        }
        if catalogued {
            cells.push(output::or_dash(node.norad_id));
            cells.push(output::or_dash(node.catalogue_name.as_deref()));
        }
        cells
    };
    let rows: Vec<Vec<String>> = nodes.map(cells).collect();
    let mut head = vec!["NODE", "KIND", "IPV4", "IPV6", "LINKS"];
    if shown.management.is_some() {
        head.push("MANAGEMENT");
    }
    if catalogued {
        head.extend(["NORAD", "CATALOGUE NAME"]);
    }
    text.push_str(&output::table(&head, &rows));
    text
}
