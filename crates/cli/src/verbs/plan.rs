//! `constel plan`: the links at an instant; for an interval, see [`super::over`].

use std::collections::BTreeMap;

use constel_plan::{DisjointRow, Lab};

use super::{export, on_machines, over, scenario};
use crate::args::Plan;
use crate::exit::{Exit, Outcome};
use crate::output;

/// Prints the plan; creates nothing and needs no root.
pub(crate) fn run(args: &Plan) -> Outcome {
    let loaded = scenario::load(&args.file, &args.changes)?;
    if let Some(format) = args.over.export {
        return export::run(&loaded.lab, format, args);
    }
    if let Some(machines) = &args.on.machines {
        return on_machines::run(&loaded, machines, &args.on, args.json);
    }
    if let Some(product) = over::asked(&args.over) {
        return over::run(&loaded.lab, product, &args.over, args.json);
    }
    let document = loaded.plan(args.at)?;
    if args.json {
        output::json(&document)?;
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> = document
        .edges
        .iter()
        .filter(|edge| (&edge.from_node, edge.from_port) < (&edge.to_node, edge.to_port))
        .map(|edge| {
            vec![
                format!("{}/{}", edge.from_node, edge.from_port),
                format!("{}/{}", edge.to_node, edge.to_port),
                edge.kind.to_owned(),
                output::ms(edge.delay_ns as f64),
                edge.rate_bps
                    .map_or_else(|| "-".to_owned(), |bps| output::rate(bps as f64)),
                format!("{} %", edge.loss_ratio * 100.0),
            ]
        })
        .collect();
    let table = output::table(&["A", "B", "KIND", "DELAY", "RATE", "LOSS"], &rows);
    output::text(&format!(
        "{}: {} nodes, {} links at {}\n{table}",
        loaded.file,
        document.nodes.len(),
        rows.len(),
        document.time
    ))?;
    if let Some(own) = &document.management {
        output::text(&format!(
            "\nmanagement: this machine is {} on {}\n",
            own.host, own.interface
        ))?;
    }
    output::text(&images(&loaded.lab))?;
    for pair in &document.disjoint {
        output::text(&disjoint(pair))?;
    }
    Ok(Exit::Done)
}

/// Maximum number of an image's nodes that are shown; the JSON document has all.
const NAMES_SHOWN: usize = 4;

/// Formats the nodes of each image; empty without images.
fn images(lab: &Lab) -> String {
    let mut of_images: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (node, container) in lab.containers() {
        let name = lab.layout.node(node).name.as_str();
        of_images.entry(&container.image).or_default().push(name);
    }
    if of_images.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = of_images
        .into_iter()
        .map(|(image, nodes)| {
            let (first, more) = nodes.split_at(nodes.len().min(NAMES_SHOWN));
            let names = match more.len() {
                0 => first.join(" "),
                more => format!("{} and {more} more", first.join(" ")),
            };
            vec![image.to_owned(), nodes.len().to_string(), names]
        })
        .collect();
    format!("\n{}", output::table(&["IMAGE", "NODES", "NAMES"], &rows))
}

/// Formats a pair's disjoint paths, each with the names of its ends.
fn disjoint(pair: &DisjointRow) -> String {
    let [a, b] = &pair.between;
    let found = pair.paths.iter().filter(|p| p.delay_ns.is_some()).count();
    let mut text = format!(
        "\n{}: {found} of {} disjoint paths between {a} and {b}\n",
        pair.name,
        pair.paths.len()
    );
    let rows: Vec<Vec<String>> = pair
        .paths
        .iter()
        .map(|path| {
            let address = |end: usize| {
                let v4 = path.ipv4.map(|own| own[end].to_string());
                let v6 = path.ipv6.map(|own| own[end].to_string());
                v4.into_iter().chain(v6).collect::<Vec<_>>().join(" ")
            };
            let [from, to] = &path.names;
            vec![
                format!("{from} {}", address(0)),
                format!("{to} {}", address(1)),
                path.delay_ns
                    .map_or_else(|| "no path".to_owned(), |ns| output::ms(ns as f64)),
                match &path.nodes[..] {
                    [] => "-".to_owned(),
                    nodes => nodes.join(" "),
                },
            ]
        })
        .collect();
    text.push_str(&output::table(&["FROM", "TO", "DELAY", "NODES"], &rows));
    text
}

#[cfg(test)]
mod tests {
    use constel_plan::{DisjointPath, DisjointRow};

    #[test]
    fn a_pair_shows_addresses_delays_and_nodes() {
        let path = |number: u8, delay_ns, nodes: &[&str]| DisjointPath {
            names: [format!("a.p.{number}"), format!("b.p.{number}")],
            ipv4: Some([
                [10, 80, 0, 2 * number - 1].into(),
                [10, 80, 0, 2 * number].into(),
            ]),
            ipv6: None,
            delay_ns,
            nodes: nodes.iter().map(ToString::to_string).collect(),
        };
        let pair = DisjointRow {
            name: "p".to_owned(),
            between: ["a".to_owned(), "b".to_owned()],
            paths: vec![
                path(1, Some(1_500_000), &["a", "s", "b"]),
                path(2, None, &[]),
            ],
        };
        assert_eq!(
            super::disjoint(&pair),
            "\np: 1 of 2 disjoint paths between a and b\n\
             FROM             TO               DELAY     NODES\n\
             a.p.1 10.80.0.1  b.p.1 10.80.0.2  1.500 ms  a s b\n\
             a.p.2 10.80.0.3  b.p.2 10.80.0.4  no path   -\n"
        );
    }
}
