//! OpenMetrics 1.0 text (<https://prometheus.io/docs/specs/om/open_metrics_spec/>): what Prometheus, Grafana's agents and Telegraf (for InfluxDB) read.

use std::fmt::{Display, Write as _};

use constel_api::answers::{Loads, Shown};
use constel_link::PortId;
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

/// The state of a lab, and what each of its edges has carried; `name` names a port.
#[must_use]
pub fn text(shown: &Shown, loads: &Loads, name: impl Fn(PortId) -> String) -> String {
    let mut out = Text {
        text: String::new(),
        lab: escaped(&shown.lab.lab),
    };
    if let Some(t_ns) = shown.lab.t_ns {
        out.family("constel_lab_time_seconds", "gauge", "seconds", "Lab time.");
        out.sample("constel_lab_time_seconds", &[], t_ns as f64 / 1e9);
    }
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
        // Counts of frames and bytes by what became of them, under the names that the summary has.
        let counters = serde_json::to_value(plane.totals.counters).unwrap_or(Value::Null);
        for (name, unit) in [("constel_edge_frames", ""), ("constel_edge_bytes", "bytes")] {
            out.family(
                name,
                "counter",
                unit,
                "Of all edges together, by what became of them.",
            );
            for (fate, count) in counters.as_object().into_iter().flatten() {
                let of_bytes = fate.ends_with("_bytes");
                if of_bytes == (unit == "bytes") {
                    let fate = fate.trim_end_matches("_bytes");
                    out.sample(&format!("{name}_total"), &[("fate", fate)], count);
                }
            }
        }
        out.family(
            "constel_emulator_lost_frames",
            "counter",
            "",
            "Lost by the emulator itself, by cause; zero in a sound run.",
        );
        for (cause, count) in plane.unintended.iter() {
            out.sample(
                "constel_emulator_lost_frames_total",
                &[("cause", cause)],
                count,
            );
        }
        if let Some(late) = plane.lateness {
            out.family(
                "constel_lateness_seconds",
                "summary",
                "seconds",
                "Actual minus due time of frames.",
            );
            for (quantile, ns) in [
                ("0.5", late.p50_ns),
                ("0.9", late.p90_ns),
                ("0.99", late.p99_ns),
                ("0.999", late.p999_ns),
            ] {
                out.sample(
                    "constel_lateness_seconds",
                    &[("quantile", quantile)],
                    ns as f64 / 1e9,
                );
            }
            out.sample("constel_lateness_seconds_count", &[], late.count);
        }
    }
    let ends: Vec<(String, String)> = loads
        .edges
        .iter()
        .map(|edge| (name(edge.from), name(edge.to)))
        .collect();
    out.family(
        "constel_link_delivered_bytes",
        "counter",
        "bytes",
        "What arrived over an edge.",
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

#[cfg(test)]
mod tests {
    use super::*;
    use constel_api::answers::{EdgeLoad, LabRow, LabState};

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
# HELP constel_link_delivered_bytes What arrived over an edge.
constel_link_delivered_bytes_total{lab=\"a \\\"b\\\"\",from=\"n0/eth0\",to=\"n1/eth0\"} 1500
# TYPE constel_link_rate_bits_per_second gauge
# HELP constel_link_rate_bits_per_second The service rate of an edge, with all effects in force.
# EOF
"
        );
    }
}
