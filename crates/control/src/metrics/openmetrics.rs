//! OpenMetrics 1.0 text (<https://prometheus.io/docs/specs/om/open_metrics_spec/>), which Prometheus, Grafana's agents and
//! Telegraf (for InfluxDB) read.

use std::fmt::{Display, Write as _};

use constel_api::answers::{
    BoxShown, DirectionCounters, LabRow, Loads, NodeShown, NodeUsage, Shown,
};
use constel_link::{EdgeCounters, PlaneReport, PortId, Quantiles};
use serde_json::Value;

/// The media type of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// One family of samples after the other; a String takes whatever comes.
struct Text {
    text: String,
    lab: String,
}

impl Text {
    fn family(&mut self, name: &str, kind: &str, unit: &str, help: &str) {
        let _ = writeln!(self.text, "# TYPE {name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(self.text, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.text, "# HELP {name} {help}");
    }

    fn of(lab: &LabRow) -> Self {
        let mut out = Self {
            text: String::new(),
            lab: escaped(&lab.lab),
        };
        if let Some(t_ns) = lab.t_ns {
            out.family("constel_lab_time_seconds", "gauge", "seconds", "Lab time.");
            out.sample("constel_lab_time_seconds", &[], t_ns as f64 / 1e9);
        }
        out
    }

    /// Adds counts of frames and bytes by their outcome, under the names in the summary.
    fn counters(&mut self, name: &str, labels: &[(&str, &str)], of: &EdgeCounters, bytes: bool) {
        let counters = serde_json::to_value(of).unwrap_or(Value::Null);
        for (fate, count) in counters.as_object().into_iter().flatten() {
            if fate.ends_with("_bytes") == bytes {
                let fate = fate.trim_end_matches("_bytes");
                let labels: Vec<(&str, &str)> =
                    labels.iter().copied().chain([("fate", fate)]).collect();
                self.sample(&format!("{name}_total"), &labels, count);
            }
        }
    }

    fn quantiles(&mut self, name: &str, labels: &[(&str, &str)], of: &Quantiles) {
        for (quantile, ns) in [
            ("0.5", of.p50_ns),
            ("0.9", of.p90_ns),
            ("0.99", of.p99_ns),
            ("0.999", of.p999_ns),
        ] {
            let labels: Vec<(&str, &str)> = labels
                .iter()
                .copied()
                .chain([("quantile", quantile)])
                .collect();
            self.sample(name, &labels, ns as f64 / 1e9);
        }
        self.sample(&format!("{name}_count"), labels, of.count);
    }

    /// Adds the link plane's own counters.
    fn plane(&mut self, plane: &PlaneReport) {
        self.family(
            "constel_emulator_lost_frames",
            "counter",
            "",
            "Lost by the emulator itself, by cause; zero in a sound run.",
        );
        for (cause, count) in plane.emulator_drops.iter() {
            self.sample(
                "constel_emulator_lost_frames_total",
                &[("cause", cause)],
                count,
            );
        }
        if let Some(late) = &plane.lateness {
            self.family(
                "constel_lateness_seconds",
                "summary",
                "seconds",
                "Actual minus due time of frames.",
            );
            self.quantiles("constel_lateness_seconds", &[], late);
        }
        if let (Some(late), Some(counted)) = (&plane.lateness, &plane.late_frames) {
            let name = "constel_frame_lateness_seconds";
            let help = "Actual minus due time of frames, counted.";
            self.family(name, "histogram", "seconds", help);
            let buckets = counted.up_to_ns.iter().zip(&counted.frames);
            for (up_to_ns, frames) in buckets {
                let bound = format!("{}", *up_to_ns as f64 / 1e9);
                self.sample(&format!("{name}_bucket"), &[("le", &bound)], frames);
            }
            self.sample(&format!("{name}_bucket"), &[("le", "+Inf")], late.count);
            self.sample(&format!("{name}_count"), &[], late.count);
        }
    }

    /// Adds the resources that the programs of nodes use.
    fn usage(&mut self, nodes: &[NodeShown]) {
        let of = |read: fn(&NodeUsage) -> Option<u64>| -> Vec<(&str, u64)> {
            let nodes = nodes.iter();
            nodes
                .filter_map(|node| Some((node.name.as_str(), read(node.usage.as_ref()?)?)))
                .collect()
        };
        let cpu = of(|used| used.cpu_ns);
        if !cpu.is_empty() {
            let help = "Processor time of a node's programs.";
            self.family("constel_node_cpu_seconds", "counter", "seconds", help);
            for (node, ns) in cpu {
                let name = "constel_node_cpu_seconds_total";
                self.sample(name, &[("node", node)], ns as f64 / 1e9);
            }
        }
        for (name, unit, help, values) in [
            (
                "constel_node_memory_bytes",
                "bytes",
                "Memory of a node's programs, their files in memory and their page cache.",
                of(|used| used.memory_bytes),
            ),
            (
                "constel_node_processes",
                "",
                "Processes and threads of a node.",
                of(|used| used.processes),
            ),
        ] {
            if !values.is_empty() {
                self.family(name, "gauge", unit, help);
            }
            for (node, value) in values {
                self.sample(name, &[("node", node)], value);
            }
        }
        let ways = [
            ("read", of(|used| used.read_bytes)),
            ("written", of(|used| used.written_bytes)),
        ];
        if ways.iter().any(|(_, values)| !values.is_empty()) {
            let help = "Bytes that a node's programs read from and wrote to block devices.";
            self.family("constel_node_io_bytes", "counter", "bytes", help);
        }
        for (way, values) in ways {
            for (node, bytes) in values {
                let name = "constel_node_io_bytes_total";
                self.sample(name, &[("node", node), ("way", way)], bytes);
            }
        }
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.text, "{name}{{lab=\"{}\"", self.lab);
        for (label, value) in labels {
            let _ = write!(self.text, ",{label}=\"{}\"", escaped(value));
        }
        let _ = writeln!(self.text, "}} {value}");
    }
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// Returns the state of a lab, and the traffic of each of its edges. `name` returns the name of a port.
#[must_use]
pub(crate) fn text(shown: &Shown, loads: &Loads, name: impl Fn(PortId) -> String) -> String {
    let mut out = Text::of(&shown.lab);
    out.family("constel_nodes", "gauge", "", "Nodes of the lab.");
    out.sample("constel_nodes", &[], shown.lab.nodes);
    out.family(
        "constel_edges",
        "gauge",
        "",
        "Directed edges that carry frames now.",
    );
    out.sample("constel_edges", &[], shown.lab.edges);
    if let Some(plane) = &shown.relay {
        for (name, unit) in [("constel_edge_frames", ""), ("constel_edge_bytes", "bytes")] {
            out.family(
                name,
                "counter",
                unit,
                "Frames and bytes of all edges, by their outcome.",
            );
            out.counters(name, &[], &plane.totals.counters, unit == "bytes");
        }
        out.plane(plane);
    }
    out.usage(shown.node_list.as_deref().unwrap_or_default());
    let ends: Vec<(String, String)> = loads
        .edges
        .iter()
        .map(|edge| (name(edge.from), name(edge.to)))
        .collect();
    out.family(
        "constel_link_delivered_bytes",
        "counter",
        "bytes",
        "Bytes that arrived over an edge.",
    );
    for ((from, to), edge) in ends.iter().zip(&loads.edges) {
        out.sample(
            "constel_link_delivered_bytes_total",
            &[("from", from), ("to", to)],
            edge.delivered_bytes,
        );
    }
    out.family(
        "constel_link_rate_bits_per_second",
        "gauge",
        "",
        "The service rate of an edge, with all effects in force.",
    );
    for ((from, to), edge) in ends.iter().zip(&loads.edges) {
        if let Some(bps) = edge.rate_bps {
            out.sample(
                "constel_link_rate_bits_per_second",
                &[("from", from), ("to", to)],
                bps,
            );
        }
    }
    out.text.push_str("# EOF\n");
    out.text
}

/// Returns the state of a box, and the counters of each of its rules, per direction. Frames that match no rule count for the
/// rule ``.
#[must_use]
pub(crate) fn box_text(shown: &BoxShown) -> String {
    let mut out = Text::of(&shown.lab);
    let rules = shown
        .rules
        .iter()
        .map(|rule| (rule.name.as_str(), &rule.directions));
    let ways: Vec<([(&str, &str); 2], &DirectionCounters)> = rules
        .chain([("", &shown.unmatched)])
        .flat_map(|(rule, ways)| {
            let labels = move |way| [("rule", rule), ("way", way)];
            ways.iter()
                .map(move |(way, did)| (labels(way.as_str()), did))
        })
        .collect();
    for (name, unit) in [("constel_rule_frames", ""), ("constel_rule_bytes", "bytes")] {
        let help = "Frames and bytes of a rule and direction, by their outcome.";
        out.family(name, "counter", unit, help);
        for (labels, did) in &ways {
            out.counters(name, labels, &did.counters, unit == "bytes");
        }
    }
    let name = "constel_rule_queue_frames";
    out.family(
        name,
        "gauge",
        "",
        "Frames inside now: waiting or in flight.",
    );
    for (labels, did) in &ways {
        out.sample(name, labels, did.queue_frames);
    }
    for (name, help, of) in [
        (
            "constel_rule_inside_seconds",
            "Time from arrival until a frame was sent on.",
            (|did| did.inside.as_ref()) as fn(&DirectionCounters) -> Option<&Quantiles>,
        ),
        (
            "constel_rule_lateness_seconds",
            "The part of that time by which a frame was late.",
            |did| did.lateness.as_ref(),
        ),
    ] {
        out.family(name, "summary", "seconds", help);
        for (labels, did) in &ways {
            if let Some(quantiles) = of(did) {
                out.quantiles(name, labels, quantiles);
            }
        }
    }
    if let Some(plane) = &shown.relay {
        out.plane(plane);
    }
    out.text.push_str("# EOF\n");
    out.text
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_api::answers::{EdgeLoad, LabState, RuleShown};

    /// Each metric of the dashboard is one that this file writes.
    #[test]
    fn the_dashboard_shows_metrics_that_exist() {
        let dashboard = include_str!("../../../../docs/grafana/constel.json");
        let dashboard: Value = serde_json::from_str(dashboard).unwrap();
        let panels = dashboard["panels"].as_array().unwrap().iter();
        let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
        let expressions = targets.map(|target| target["expr"].as_str().unwrap().to_owned());
        let variables = dashboard["templating"]["list"].as_array().unwrap().iter();
        let queries = variables.filter_map(|own| own["definition"].as_str().map(str::to_owned));
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut names: Vec<String> = expressions
            .chain(queries)
            .flat_map(|text| {
                let words = text.split(|c| !is_name(c));
                let own = words.filter(|word| word.starts_with("constel_"));
                own.map(str::to_owned).collect::<Vec<_>>()
            })
            .collect();
        names.sort();
        names.dedup();
        assert!(names.len() >= 8, "{names:?}");
        let source = include_str!("openmetrics.rs");
        for name in names {
            let base = name.trim_end_matches("_total").trim_end_matches("_bucket");
            let written = [name.as_str(), base].map(|name| format!("\"{name}\""));
            assert!(written.iter().any(|name| source.contains(name)), "{name}");
        }
    }

    #[test]
    fn the_text_is_openmetrics() {
        let shown = Shown {
            lab: LabRow {
                lab: "a \"b\"".to_owned(),
                state: LabState::Running,
                scenario: String::new(),
                pid: 1,
                nodes: 3,
                edges: 4,
                t_ns: Some(2_500_000_000),
            },
            node_list: None,
            relay: None,
            management: None,
        };
        let loads = Loads {
            t_ns: None,
            at_mono_ns: 0,
            edges: vec![EdgeLoad {
                from: PortId(0),
                to: PortId(1),
                delivered_bytes: 1_500,
                rate_bps: None,
            }],
        };
        let text = text(&shown, &loads, |port| format!("n{}/eth0", port.0));
        assert_eq!(
            text,
            "# TYPE constel_lab_time_seconds gauge
# UNIT constel_lab_time_seconds seconds
# HELP constel_lab_time_seconds Lab time.
constel_lab_time_seconds{lab=\"a \\\"b\\\"\"} 2.5
# TYPE constel_nodes gauge
# HELP constel_nodes Nodes of the lab.
constel_nodes{lab=\"a \\\"b\\\"\"} 3
# TYPE constel_edges gauge
# HELP constel_edges Directed edges that carry frames now.
constel_edges{lab=\"a \\\"b\\\"\"} 4
# TYPE constel_link_delivered_bytes counter
# UNIT constel_link_delivered_bytes bytes
# HELP constel_link_delivered_bytes Bytes that arrived over an edge.
constel_link_delivered_bytes_total{lab=\"a \\\"b\\\"\",from=\"n0/eth0\",to=\"n1/eth0\"} 1500
# TYPE constel_link_rate_bits_per_second gauge
# HELP constel_link_rate_bits_per_second The service rate of an edge, with all effects in force.
# EOF
"
        );
    }

    #[test]
    fn a_node_has_only_the_values_that_its_host_counts() {
        let node = |name: &str, usage| NodeShown {
            name: name.to_owned(),
            kind: "host".to_owned(),
            catalogue_name: None,
            norad_id: None,
            ipv4: [10, 0, 0, 1].into(),
            ipv6: std::net::Ipv6Addr::LOCALHOST,
            links: 1,
            management: None,
            forwarding: None,
            state: None,
            usage,
        };
        let used = NodeUsage {
            cpu_ns: Some(1_500_000_000),
            memory_bytes: Some(4_096),
            processes: Some(2),
            ..NodeUsage::default()
        };
        let mut out = Text {
            text: String::new(),
            lab: "l".to_owned(),
        };
        out.usage(&[node("a", Some(used)), node("b", None)]);
        let samples = out.text.lines().filter(|line| !line.starts_with('#'));
        assert_eq!(
            samples.collect::<Vec<_>>(),
            [
                "constel_node_cpu_seconds_total{lab=\"l\",node=\"a\"} 1.5",
                "constel_node_memory_bytes{lab=\"l\",node=\"a\"} 4096",
                "constel_node_processes{lab=\"l\",node=\"a\"} 2",
            ]
        );
        assert!(!out.text.contains("io_bytes"), "{}", out.text);
    }

    #[test]
    fn a_boxs_rules_are_told_apart_by_name_and_way() {
        let did = DirectionCounters {
            queue_frames: 3,
            counters: EdgeCounters {
                offered: 7,
                offered_bytes: 700,
                ..EdgeCounters::default()
            },
            ..DirectionCounters::default()
        };
        let ways = |way: &str| [(way.to_owned(), did.clone())].into();
        let shown = BoxShown {
            lab: LabRow {
                lab: "b".to_owned(),
                state: LabState::Running,
                scenario: String::new(),
                pid: 1,
                nodes: 0,
                edges: 2,
                t_ns: None,
            },
            mode: "shared".to_owned(),
            seed: 1,
            interfaces: Vec::new(),
            rules: vec![RuleShown {
                name: "slow".to_owned(),
                rule: Value::Null,
                directions: ways("forward"),
            }],
            unmatched: ways("reverse"),
            removed: EdgeCounters::default(),
            confirm_within_s: None,
            relay: None,
        };
        let text = box_text(&shown);
        for line in [
            "constel_rule_frames_total{lab=\"b\",rule=\"slow\",way=\"forward\",fate=\"offered\"} 7",
            "constel_rule_bytes_total{lab=\"b\",rule=\"\",way=\"reverse\",fate=\"offered\"} 700",
            "constel_rule_queue_frames{lab=\"b\",rule=\"slow\",way=\"forward\"} 3",
        ] {
            assert!(text.lines().any(|own| own == line), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
