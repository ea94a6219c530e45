//! `iperf3 -J`: one JSON document at the end.

use serde_json::Value;

use super::{FlowError, Outcome, Rtt, TransferInterval};

/// Parses the client's document to the flow's row. The throughput is the one that the receiver counted.
///
/// # Errors
/// When the document is missing or has an `error`.
pub fn parse(output: &str) -> Result<Outcome, FlowError> {
    let document: Value = serde_json::from_str(output)
        .map_err(|error| FlowError::new("iperf3", format!("no JSON document: {error}")))?;
    if let Some(error) = document.get("error").and_then(Value::as_str) {
        return Err(FlowError::new("iperf3", error));
    }
    let end = &document["end"];
    // TCP has sum_received. For UDP the receiver's counts are in sum_received (3.12+) or in sum.
    let received = [&end["sum_received"], &end["sum"]]
        .into_iter()
        .find(|sum| sum["bits_per_second"].is_f64() || sum["bits_per_second"].is_u64())
        .ok_or_else(|| FlowError::new("iperf3", "the document has no end.sum_received"))?;
    let seconds = received["seconds"].as_f64();
    let udp = end["sum"]["lost_packets"]
        .as_u64()
        .zip(end["sum"]["packets"].as_u64());
    let sender = &end["streams"][0]["sender"];
    let rtt = match (
        sender["min_rtt"].as_u64(),
        sender["mean_rtt"].as_u64(),
        sender["max_rtt"].as_u64(),
    ) {
        // The kernel's smoothed RTT in microseconds; iperf3 gives a mean instead of a median.
        (Some(min), Some(mean), Some(max)) if mean > 0 => Some(Rtt {
            min_ns: min * 1000,
            p50_ns: mean * 1000,
            p99_ns: max * 1000,
            max_ns: max * 1000,
        }),
        _ => None,
    };
    Ok(Outcome {
        rtt,
        throughput_bps: received["bits_per_second"].as_f64(),
        received_bytes: received["bytes"].as_u64(),
        sent_packets: udp.map(|(_, packets)| packets),
        loss_ratio: udp
            .filter(|(_, packets)| *packets > 0)
            .map(|(lost, packets)| lost as f64 / packets as f64),
        retransmits: end["sum_sent"]["retransmits"].as_u64(),
        took_ns: seconds.map(|s| (s * 1e9) as u64),
        ..Outcome::default()
    })
}

/// Returns the intervals that the client counted; empty if the document has none.
pub fn intervals(output: &str) -> Vec<TransferInterval> {
    let document: Value = serde_json::from_str(output).unwrap_or_default();
    let piece = |interval: &Value| {
        let (sum, stream) = (&interval["sum"], &interval["streams"][0]);
        let (from_s, to_s) = (sum["start"].as_f64()?, sum["end"].as_f64()?);
        (to_s > from_s).then_some(TransferInterval {
            from_s,
            to_s,
            throughput_bps: sum["bits_per_second"].as_f64()?,
            rtt_ns: stream["rtt"]
                .as_u64()
                .filter(|us| *us > 0)
                .map(|us| us * 1_000),
            owd_ns: None,
        })
    };
    let intervals = document["intervals"].as_array().into_iter().flatten();
    intervals.filter_map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_tcp_and_udp() {
        let tcp = r#"{"end":{"streams":[{"sender":{"max_rtt":60000,"min_rtt":50000,"mean_rtt":52000}}],
            "sum_sent":{"retransmits":3},"sum_received":{"seconds":10.0,"bytes":1250000,"bits_per_second":1000000.0}}}"#;
        let outcome = parse(tcp).unwrap();
        assert_eq!(outcome.throughput_bps, Some(1e6));
        assert_eq!(outcome.retransmits, Some(3));
        assert_eq!(outcome.rtt.unwrap().p50_ns, 52_000_000);
        assert_eq!(outcome.loss_ratio, None);
        let udp = r#"{"end":{"streams":[{}],"sum":{"bits_per_second":2e6,"lost_packets":5,"packets":100,"bytes":10,"seconds":1}}}"#;
        assert_eq!(parse(udp).unwrap().loss_ratio, Some(0.05));
    }

    #[test]
    fn pieces_of_time() {
        let document = r#"{"intervals":[{"streams":[{"rtt":52000}],"sum":{"start":0,"end":1.0,"bits_per_second":5e6}},
            {"streams":[{}],"sum":{"start":1.0,"end":1.0,"bits_per_second":5e6}}]}"#;
        let pieces = intervals(document);
        assert_eq!(pieces.len(), 1);
        assert_eq!(
            (pieces[0].rtt_ns, pieces[0].throughput_bps),
            (Some(52_000_000), 5e6)
        );
        assert!(intervals("").is_empty() && intervals("{}").is_empty());
    }

    #[test]
    fn an_error_is_an_error() {
        assert_eq!(
            parse(r#"{"error":"unable to connect to server"}"#)
                .unwrap_err()
                .reason,
            "unable to connect to server"
        );
        assert!(parse("{}").is_err());
        assert!(parse("").is_err());
    }
}
