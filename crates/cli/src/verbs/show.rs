//! `constel show`: shows a running lab.

use constel_api::answers::{NodeShown, Shown};
use constel_control::Observer;

use crate::args::Lab;
use crate::exit::{Exit, Outcome};
use crate::output;

/// Prints the nodes and the state of the link plane.
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
            plane.emulator_drops.total(),
        ));
    }
    let nodes = shown.node_list.iter().flatten();
    let catalogued = nodes
        .clone()
        .any(|node| node.norad_id.is_some() || node.catalogue_name.is_some());
    let changed = nodes.clone().any(|node| node.state.is_some());
    let forwards = nodes.clone().any(|node| node.forwarding.is_some());
    let counted = nodes.clone().any(|node| node.usage.is_some());
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
        if changed {
            cells.push(output::or_dash(node.state.as_deref()));
        }
        if forwards {
            let own = node.forwarding.as_ref();
            cells.push(output::or_dash(own.map(|own| own.forwarded)));
            cells.push(output::or_dash(own.map(|own| own.answered)));
            cells.push(output::or_dash(own.map(output::dropped)));
        }
        if counted {
            let own = node.usage.unwrap_or_default();
            let cpu_s = own.cpu_ns.map(|ns| format!("{:.1} s", ns as f64 / 1e9));
            let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
            cells.push(output::or_dash(cpu_s));
            cells.push(output::or_dash(own.memory_bytes.map(mib)));
            cells.push(output::or_dash(own.processes));
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
    if changed {
        head.push("STATE");
    }
    if forwards {
        head.extend(["FORWARDED", "ANSWERED", "DROPPED"]);
    }
    if counted {
        head.extend(["CPU TIME", "MEMORY", "PROCESSES"]);
    }
    text.push_str(&output::table(&head, &rows));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_api::answers::{Forwarding, LabRow, LabState};

    fn node(name: &str, forwarding: Option<Forwarding>) -> NodeShown {
        NodeShown {
            name: name.to_owned(),
            kind: "satellite".to_owned(),
            catalogue_name: None,
            norad_id: None,
            ipv4: [10, 0, 0, 1].into(),
            ipv6: std::net::Ipv6Addr::LOCALHOST,
            links: 4,
            management: None,
            forwarding,
            state: None,
            usage: None,
        }
    }

    fn shown(node_list: Vec<NodeShown>) -> Shown {
        Shown {
            lab: LabRow {
                lab: "x".to_owned(),
                state: LabState::Running,
                scenario: "x.yaml".to_owned(),
                pid: 1,
                nodes: node_list.len(),
                edges: 4,
                t_ns: Some(0),
            },
            node_list: Some(node_list),
            management: None,
            relay: None,
        }
    }

    #[test]
    fn satellites_without_a_stack_say_what_they_did() {
        let dropped = [("expired", 3), ("no_route", 1)];
        let one = Forwarding {
            forwarded: 17,
            answered: 2,
            dropped: dropped.map(|(word, n)| (word.to_owned(), n)).into(),
        };
        let rows = |shown: &Shown| -> Vec<Vec<String>> {
            let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
            text(shown).lines().skip(1).map(words).collect()
        };
        let mixed = rows(&shown(vec![
            node("a", Some(one)),
            node("b", None),
            node("c", Some(Forwarding::default())),
        ]));
        assert_eq!(mixed[0][5..], ["FORWARDED", "ANSWERED", "DROPPED"]);
        assert_eq!(mixed[1][5..], ["17", "2", "3", "expired,", "1", "no_route"]);
        assert_eq!(mixed[2][5..], ["-", "-", "-"]);
        assert_eq!(mixed[3][5..], ["0", "0", "0"]);
        let all_with_stacks = rows(&shown(vec![node("b", None)]));
        assert_eq!(all_with_stacks[0].len(), 5);
    }
}
