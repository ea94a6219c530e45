//! A transfer by `constel-transfer`, measured at both ends.

use serde_json::Value;

use super::{FlowError, Outcome, Owd, TransferInterval};

const TOOL: &str = "constel-transfer";

/// Parses what the receiver and the sender printed to the flow's row.
///
/// # Errors
/// When either printed no result, nothing arrived, or the received data was damaged.
pub fn parse(receiver: &str, sender: &str) -> Result<Outcome, FlowError> {
    let mut outcome = parse_received(receiver)?;
    learn_sent(&mut outcome, sender)?;
    Ok(outcome)
}

/// Parses the receiver's output alone, for a sender on another machine.
///
/// # Errors
/// When it printed no result, nothing arrived, or the received data was damaged.
pub fn parse_received(receiver: &str) -> Result<Outcome, FlowError> {
    let received = last_object(receiver, "receiver")?;
    let damaged = received["damaged"].as_u64().unwrap_or(0);
    if damaged > 0 {
        return Err(FlowError::new(
            TOOL,
            format!("{damaged} records arrived damaged"),
        ));
    }
    let bytes = received["bytes"].as_u64().unwrap_or(0);
    if bytes == 0 {
        return Err(FlowError::new(TOOL, "nothing arrived"));
    }
    let owd = serde_json::from_value(received["owd"].clone()).unwrap_or(None::<Owd>);
    Ok(Outcome {
        owd,
        throughput_bps: received["throughput_bps"].as_f64(),
        received_bytes: Some(bytes),
        client_cpu_s: received["cpu_s"].as_f64(),
        took_ns: received["seconds"].as_f64().map(|s| (s * 1e9) as u64),
        ..Outcome::default()
    })
}

/// Adds the values that the sender printed.
///
/// # Errors
/// When it printed no result.
pub fn learn_sent(outcome: &mut Outcome, sender: &str) -> Result<(), FlowError> {
    let sent = last_object(sender, "sender")?;
    outcome.sent_bytes = sent["sent_bytes"].as_u64();
    outcome.sent_packets = sent["sent_packets"].as_u64();
    outcome.server_cpu_s = sent["cpu_s"].as_f64();
    Ok(())
}

/// Returns the intervals of the transfer; empty if the receiver printed none.
pub fn intervals(receiver: &str) -> Vec<TransferInterval> {
    let received = last_object(receiver, "receiver").unwrap_or_default();
    let Some(length_s) = received["interval_s"].as_f64().filter(|s| *s > 0.0) else {
        return Vec::new();
    };
    let piece = |(number, interval): (usize, &Value)| {
        let from_s = number as f64 * length_s;
        Some(TransferInterval {
            from_s,
            to_s: from_s + length_s,
            throughput_bps: interval["bytes"].as_u64()? as f64 * 8.0 / length_s,
            rtt_ns: None,
            owd_ns: interval["owd_mean_ns"].as_u64().filter(|ns| *ns > 0),
        })
    };
    let intervals = received["intervals"].as_array().into_iter().flatten();
    intervals.enumerate().filter_map(piece).collect()
}

fn last_object(output: &str, end: &str) -> Result<Value, FlowError> {
    let line = output
        .lines()
        .rev()
        .find(|line| line.starts_with('{'))
        .ok_or_else(|| FlowError::new(TOOL, format!("the {end} printed no result")))?;
    serde_json::from_str(line)
        .map_err(|error| FlowError::new(TOOL, format!("unreadable result of the {end}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECEIVED: &str = r#"{"transport":"tcp","bytes":1400,"seconds":0.5,"throughput_bps":22400.0,
        "owd":{"count":1,"min_ns":5,"mean_ns":5,"p50_ns":5,"p95_ns":5,"p99_ns":5,"max_ns":5},"damaged":0,"cpu_s":0.25,
        "interval_s":0.1,"intervals":[{"bytes":1250,"owd_mean_ns":7,"owd_max_ns":9},{"bytes":0,"owd_mean_ns":0,"owd_max_ns":0}]}"#;
    const SENT: &str =
        "listening on 1.2.3.4:5\n{\"sent_bytes\":2800,\"sent_packets\":2,\"cpu_s\":0.5}\n";

    #[test]
    fn both_ends_make_a_row() {
        let row = parse(&RECEIVED.replace('\n', " "), SENT).unwrap();
        assert_eq!(
            (row.received_bytes, row.sent_bytes),
            (Some(1400), Some(2800))
        );
        assert_eq!(
            (row.client_cpu_s, row.server_cpu_s),
            (Some(0.25), Some(0.5))
        );
        let pieces = intervals(&RECEIVED.replace('\n', " "));
        assert_eq!(pieces.len(), 2);
        assert_eq!(
            (pieces[0].throughput_bps, pieces[0].owd_ns),
            (100_000.0, Some(7))
        );
        assert_eq!((pieces[1].from_s, pieces[1].owd_ns), (0.1, None));
        assert!(intervals("").is_empty());
        assert_eq!(
            (row.owd.unwrap().p95_ns, row.took_ns),
            (5, Some(500_000_000))
        );
    }

    #[test]
    fn half_a_result_is_none() {
        let received = RECEIVED.replace('\n', " ");
        assert!(parse(&received, "listening on 1.2.3.4:5").is_err());
        // With the sender on another machine, its half is added later.
        let mut alone = parse_received(&received).unwrap();
        assert_eq!((alone.received_bytes, alone.sent_bytes), (Some(1400), None));
        learn_sent(&mut alone, SENT).unwrap();
        assert_eq!(alone, parse(&received, SENT).unwrap());
        assert!(parse("", SENT).is_err());
        assert!(parse(&received.replace("\"damaged\":0", "\"damaged\":3"), SENT).is_err());
        assert!(parse(&received.replace("\"bytes\":1400", "\"bytes\":0"), SENT).is_err());
    }
}
