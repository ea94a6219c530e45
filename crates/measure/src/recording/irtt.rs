//! irtt's JSON: `round_trips` with times in nanoseconds.

use constel_link::trace::TraceError;
use serde::Deserialize;

use super::errors;
use crate::compare::{Probe, Series};

#[derive(Deserialize)]
struct Document {
    round_trips: Vec<RoundTrip>,
}

#[derive(Deserialize)]
struct RoundTrip {
    lost: String,
    timestamps: Timestamps,
    #[serde(default)]
    delay: Delay,
}

#[derive(Deserialize)]
struct Timestamps {
    client: Client,
}

#[derive(Deserialize)]
struct Client {
    send: Stamp,
}

#[derive(Deserialize)]
struct Stamp {
    wall: i64,
}

/// Delays in nanoseconds. One-way delays are absent unless the server sends time stamps, and negative if its clock is
/// behind.
#[derive(Default, Deserialize)]
struct Delay {
    rtt: Option<i64>,
    send: Option<i64>,
    receive: Option<i64>,
}

/// Reads the round trips in the order of the file.
///
/// # Errors
/// A text that is not such a document, at the line at which it differs.
pub(super) fn read(text: &str) -> Result<Series, Vec<TraceError>> {
    let document: Document = serde_json::from_str(text)
        .map_err(|error| errors::one(error.line().max(1), format!("no result of irtt: {error}")))?;
    let mut series = Series::default();
    for trip in document.round_trips {
        let t_s = trip.timestamps.client.send.wall as f64 / 1e9;
        let ms = |ns: Option<i64>| ns.filter(|ns| *ns >= 0).map(|ns| ns as f64 / 1e6);
        let answered = trip.lost == "false";
        series.probes.push(Probe {
            t_s,
            rtt_ms: ms(trip.delay.rtt).filter(|_| answered),
        });
        if answered {
            series.up_ms.extend(ms(trip.delay.send).map(|ms| (t_s, ms)));
            series
                .down_ms
                .extend(ms(trip.delay.receive).map(|ms| (t_s, ms)));
        }
    }
    if series.probes.is_empty() {
        return Err(errors::one(text.lines().count(), "no round trip"));
    }
    Ok(series)
}

#[cfg(test)]
mod tests {
    use super::super::read;

    #[test]
    fn round_trips_in_both_directions() {
        let trip = |wall: u64, lost: &str, delay: &str| {
            format!(
                "{{\"seqno\":0,\"lost\":\"{lost}\",\"timestamps\":{{\"client\":{{\"send\":{{\"wall\":{wall},\"monotonic\":5}}}}}},\
                 \"delay\":{delay}}}"
            )
        };
        let text = format!(
            "{{\"version\":{{}},\n\"round_trips\":[{},\n{}]}}",
            trip(
                1_700_000_000_000_000_000,
                "false",
                "{\"rtt\":31200000,\"send\":20100000,\"receive\":11100000}"
            ),
            trip(1_700_000_000_010_000_000, "true_down", "{}")
        );
        let series = read(&text).unwrap();
        assert_eq!(series.probes.len(), 2);
        assert_eq!(series.probes[0].rtt_ms, Some(31.2));
        assert_eq!(series.probes[1].rtt_ms, None);
        assert_eq!(series.up_ms, [(1.7e9, 20.1)]);
        assert_eq!(series.down_ms, [(1.7e9, 11.1)]);
    }

    #[test]
    fn other_documents_are_refused_at_their_line() {
        let errors = read("{\n\"round_trips\": 5}").unwrap_err();
        assert_eq!(errors[0].line, 2);
        assert!(read("{\"round_trips\":[]}").is_err());
    }
}
