//! An HTTP download by curl with `--write-out '%{json}'`.

use serde_json::Value;

use super::{FlowError, Outcome, Rtt};

/// Parses the output of `--write-out '%{json}'` to the flow's row. The RTT is a single sample, from the TCP
/// handshake.
///
/// # Errors
/// When curl failed, or the server's answer was not 200.
pub fn parse(output: &str) -> Result<Outcome, FlowError> {
    let line = output
        .lines()
        .rev()
        .find(|line| line.starts_with('{'))
        .ok_or_else(|| FlowError::new("curl", "it printed no result"))?;
    let document: Value = serde_json::from_str(line)
        .map_err(|error| FlowError::new("curl", format!("unreadable result: {error}")))?;
    if let Some(message) = document["errormsg"]
        .as_str()
        .filter(|_| document["exitcode"] != 0)
    {
        return Err(FlowError::new("curl", message));
    }
    if document["response_code"] != 200 {
        return Err(FlowError::new(
            "curl",
            format!("the server answered {}", document["response_code"]),
        ));
    }
    let seconds = document["time_total"].as_f64();
    let handshake = document["time_connect"].as_f64().map(|s| (s * 1e9) as u64);
    let bytes = document["size_download"].as_f64();
    let throughput_bps = match (bytes, seconds) {
        (Some(bytes), Some(seconds)) if seconds > 0.0 => Some(bytes * 8.0 / seconds),
        _ => None,
    };
    Ok(Outcome {
        rtt: handshake.map(|ns| Rtt {
            min_ns: ns,
            p50_ns: ns,
            p99_ns: ns,
            max_ns: ns,
        }),
        throughput_bps,
        received_bytes: bytes.map(|b| b as u64),
        took_ns: seconds.map(|s| (s * 1e9) as u64),
        ..Outcome::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_download() {
        let line = r#"{"errormsg":null,"exitcode":0,"response_code":200,"size_download":1000000,"time_connect":0.05,"time_total":2.0}"#;
        let outcome = parse(line).unwrap();
        assert_eq!(outcome.throughput_bps, Some(4e6));
        assert_eq!(outcome.rtt.unwrap().min_ns, 50_000_000);
    }

    #[test]
    fn failures_are_errors() {
        assert!(
            parse(r#"{"errormsg":"Connection refused","exitcode":7,"response_code":0}"#).is_err()
        );
        assert!(parse(r#"{"errormsg":null,"exitcode":0,"response_code":404}"#).is_err());
        assert!(parse("").is_err());
    }
}
