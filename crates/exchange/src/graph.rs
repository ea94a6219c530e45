//! A network as a graph, for tools that draw or analyse graphs: Graphviz (DOT), draw.io (diagrams.net) and GraphML.

use std::fmt::Write as _;

use crate::xml::escaped;

/// A graph of nodes and undirected links.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Graph {
    /// Title of the graph.
    pub name: String,
    /// All nodes.
    pub nodes: Vec<GraphNode>,
    /// All links; ends are indices of [`nodes`](Self::nodes).
    pub links: Vec<GraphLink>,
}

/// A node of a graph.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphNode {
    /// Unique name.
    pub name: String,
    /// Kind of the node, for example `satellite` or `ground`.
    pub kind: String,
    /// Whether it flies. Nodes on the ground are boxes, others are ellipses.
    pub flies: bool,
    /// Place in a drawing: columns to the right, rows downwards.
    pub place: (u32, u32),
}

/// A link between two nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphLink {
    /// One end, an index of the nodes.
    pub a: usize,
    /// The other end.
    pub b: usize,
    /// Kind of the link, for example `isl` or `gsl`.
    pub kind: String,
    /// One-way delay, milliseconds.
    pub delay_ms: f64,
    /// Bits per second; `None`: no limit.
    pub rate_bps: Option<u64>,
}

/// Distance of two columns and of two rows in draw.io, pixels.
const GAP: (u32, u32) = (150, 70);

/// Size of a node in draw.io, pixels.
const SIZE: (u32, u32) = (120, 34);

impl Graph {
    /// Returns the graph in Graphviz' DOT, with places for `neato -n`.
    #[must_use]
    pub fn dot(&self) -> String {
        let quoted =
            |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        let mut out = format!(
            "graph {} {{\n  node [fontname=\"sans-serif\", fontsize=10];\n  edge [fontname=\"sans-serif\", fontsize=8];\n",
            quoted(&self.name)
        );
        for node in &self.nodes {
            let shape = if node.flies { "ellipse" } else { "box" };
            // DOT counts y upwards, in points.
            let (x, y) = (node.place.0 * GAP.0, i64::from(node.place.1 * GAP.1));
            let _ = writeln!(
                out,
                "  {} [shape={shape}, class={}, pos=\"{x},{}\"];",
                quoted(&node.name),
                quoted(&node.kind),
                -y
            );
        }
        for link in &self.links {
            let rate = link
                .rate_bps
                .map_or_else(String::new, |bps| format!(", rate_bps={bps}"));
            let _ = writeln!(
                out,
                "  {} -- {} [class={}, delay_ms={:.6}{rate}];",
                quoted(&self.nodes[link.a].name),
                quoted(&self.nodes[link.b].name),
                quoted(&link.kind),
                link.delay_ms
            );
        }
        out + "}\n"
    }

    /// Returns the graph as an uncompressed diagram of draw.io.
    #[must_use]
    pub fn drawio(&self) -> String {
        let mut out = format!(
            "<mxfile host=\"constel\">\n<diagram id=\"0\" name=\"{}\">\n<mxGraphModel>\n<root>\n<mxCell id=\"0\"/>\n<mxCell id=\"1\" parent=\"0\"/>\n",
            escaped(&self.name)
        );
        for (i, node) in self.nodes.iter().enumerate() {
            let style = if node.flies {
                "ellipse;html=0"
            } else {
                "rounded=1;html=0"
            };
            let (x, y) = (node.place.0 * GAP.0, node.place.1 * GAP.1);
            let _ = writeln!(
                out,
                "<mxCell id=\"n{i}\" value=\"{}\" style=\"{style}\" vertex=\"1\" parent=\"1\"><mxGeometry x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" as=\"geometry\"/></mxCell>",
                escaped(&node.name),
                SIZE.0,
                SIZE.1
            );
        }
        for (i, link) in self.links.iter().enumerate() {
            let _ = writeln!(
                out,
                "<mxCell id=\"l{i}\" value=\"{:.3} ms\" style=\"endArrow=none;html=0;fontSize=8\" edge=\"1\" parent=\"1\" source=\"n{}\" target=\"n{}\"><mxGeometry relative=\"1\" as=\"geometry\"/></mxCell>",
                link.delay_ms, link.a, link.b
            );
        }
        out + "</root>\n</mxGraphModel>\n</diagram>\n</mxfile>\n"
    }

    /// Returns the graph as GraphML, which NetworkX, igraph and Gephi read.
    #[must_use]
    pub fn graphml(&self) -> String {
        let mut out = String::from(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n",
        );
        for (of, name, kind) in [
            ("node", "kind", "string"),
            ("edge", "link", "string"),
            ("edge", "delay_ms", "double"),
            ("edge", "rate_bps", "long"),
        ] {
            let _ = writeln!(
                out,
                "<key id=\"{name}\" for=\"{of}\" attr.name=\"{name}\" attr.type=\"{kind}\"/>"
            );
        }
        let _ = writeln!(
            out,
            "<graph id=\"{}\" edgedefault=\"undirected\">",
            escaped(&self.name)
        );
        for node in &self.nodes {
            let _ = writeln!(
                out,
                "<node id=\"{}\"><data key=\"kind\">{}</data></node>",
                escaped(&node.name),
                escaped(&node.kind)
            );
        }
        for link in &self.links {
            let rate = link.rate_bps.map_or_else(String::new, |bps| {
                format!("<data key=\"rate_bps\">{bps}</data>")
            });
            let _ = writeln!(
                out,
                "<edge source=\"{}\" target=\"{}\"><data key=\"link\">{}</data><data key=\"delay_ms\">{:.6}</data>{rate}</edge>",
                escaped(&self.nodes[link.a].name),
                escaped(&self.nodes[link.b].name),
                escaped(&link.kind),
                link.delay_ms
            );
        }
        out + "</graph>\n</graphml>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph() -> Graph {
        let node = |name: &str, flies, place| GraphNode {
            name: name.to_owned(),
            kind: if flies { "satellite" } else { "ground" }.to_owned(),
            flies,
            place,
        };
        let link = |a, b, rate_bps| GraphLink {
            a,
            b,
            kind: "isl".to_owned(),
            delay_ms: 12.5,
            rate_bps,
        };
        Graph {
            name: "a \"b\" & <c>".to_owned(),
            nodes: vec![
                node("s-0", true, (0, 1)),
                node("s-1", true, (1, 1)),
                node("tokyo", false, (0, 4)),
            ],
            links: vec![link(0, 1, Some(100_000_000)), link(2, 0, None)],
        }
    }

    #[test]
    fn dot_has_each_node_and_each_link_once() {
        let text = graph().dot();
        assert!(
            text.starts_with("graph \"a \\\"b\\\" & <c>\" {\n"),
            "{text}"
        );
        assert!(
            text.contains("  \"tokyo\" [shape=box, class=\"ground\", pos=\"0,-280\"];\n"),
            "{text}"
        );
        assert!(
            text.contains(
                "  \"s-0\" -- \"s-1\" [class=\"isl\", delay_ms=12.500000, rate_bps=100000000];\n"
            ),
            "{text}"
        );
        assert!(
            text.contains("  \"tokyo\" -- \"s-0\" [class=\"isl\", delay_ms=12.500000];\n"),
            "{text}"
        );
        assert!(text.ends_with("}\n"));
    }

    #[test]
    fn the_others_are_xml_whose_links_lead_to_their_nodes() {
        let text = graph().drawio();
        let document = roxmltree::Document::parse(&text).unwrap();
        let cells: Vec<_> = document
            .descendants()
            .filter(|n| n.has_tag_name("mxCell"))
            .collect();
        let ids: Vec<_> = cells.iter().filter_map(|n| n.attribute("id")).collect();
        assert_eq!(ids, ["0", "1", "n0", "n1", "n2", "l0", "l1"]);
        for end in cells
            .iter()
            .flat_map(|n| [n.attribute("source"), n.attribute("target")])
            .flatten()
        {
            assert!(ids.contains(&end), "{end}");
        }
        let text = graph().graphml();
        let document = roxmltree::Document::parse(&text).unwrap();
        let of = |tag: &'static str, name: &'static str| -> Vec<_> {
            let all = document.descendants().filter(move |n| n.has_tag_name(tag));
            all.filter_map(|n| n.attribute(name).map(str::to_owned))
                .collect()
        };
        assert_eq!(of("node", "id"), ["s-0", "s-1", "tokyo"]);
        assert_eq!(
            (of("edge", "source"), of("edge", "target")),
            (
                vec!["s-0".to_owned(), "tokyo".to_owned()],
                vec!["s-1".to_owned(), "s-0".to_owned()]
            )
        );
        assert_eq!(of("graph", "id"), ["a \"b\" & <c>"]);
        let keys = of("key", "id");
        assert!(of("data", "key").iter().all(|key| keys.contains(key)));
    }
}
