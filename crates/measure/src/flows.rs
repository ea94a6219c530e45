//! Results of the scenario's own traffic, parsed from the tools' raw output.
//!
//! The raw output stays in the results folder; the summary shows these rows. Unexpected output of a tool gives an
//! error, never a row of zeros.

mod http;
mod iperf3;
mod ping;
mod probe;
mod transfer;

use std::io::{self, BufRead, Read};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use http::parse as parse_http;
pub use iperf3::{intervals as iperf3_intervals, parse as parse_iperf3};
pub use ping::{
    Reply, parse as parse_ping, parse_until_ended as parse_ended_ping, replies as ping_replies,
};
pub use probe::{Probed, read as read_probe, rows as probe_rows};
pub use transfer::{
    intervals as transfer_intervals, learn_sent, parse as parse_transfer, parse_received,
};

/// The longest line of a program's output that is read, bytes.
const LONGEST_LINE_BYTES: u64 = 64 << 10;

/// Appends the next line of a program's output to `line`, with its line end. Returns the number of bytes read, 0 at
/// the end of the output. The length is limited because programs in nodes may write anything.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] for a line of more than 64 KiB; those of the reader.
pub fn line_of(from: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    let read = from.take(LONGEST_LINE_BYTES + 1).read_until(b'\n', line)?;
    if read as u64 > LONGEST_LINE_BYTES {
        let why = format!("a line of more than {LONGEST_LINE_BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(read)
}

/// Round-trip times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rtt {
    /// Smallest.
    pub min_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile (nearest rank).
    pub p99_ns: u64,
    /// Largest.
    pub max_ns: u64,
}

/// One-way delays in nanoseconds: of a transfer's records from the first sending to reading, of probes from sending
/// to arrival.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Owd {
    /// Smallest.
    pub min_ns: u64,
    /// Arithmetic mean.
    pub mean_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 95th percentile (nearest rank).
    pub p95_ns: u64,
    /// 99th percentile (nearest rank).
    pub p99_ns: u64,
    /// Largest.
    pub max_ns: u64,
}

/// The results of a flow. Absent fields were not measured by that kind of tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Round-trip times as the tool measured them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt: Option<Rtt>,
    /// The resolution in which the tool prints its longest round-trip times, nanoseconds; absent for nanosecond
    /// resolution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_resolution_ns: Option<u64>,
    /// One-way delays: of probes from the client to the server, of transfers those of their payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owd: Option<Owd>,
    /// One-way delays of answers to probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owd_back: Option<Owd>,
    /// Payload that arrived, bits per second, over the flow's lifetime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput_bps: Option<f64>,
    /// Payload that arrived, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received_bytes: Option<u64>,
    /// Payload that the sender sent, bytes; retransmitted bytes count each time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_bytes: Option<u64>,
    /// Packets sent by a probing flow or with a transfer's payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_packets: Option<u64>,
    /// The last packets without an answer that may have been in flight when the flow ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight_packets: Option<u64>,
    /// Packets that did not arrive divided by packets sent, without those in flight at the end, 0..=1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_ratio: Option<f64>,
    /// Answers to probes after the first answer to each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate_packets: Option<u64>,
    /// Probes whose answer arrived after the answer to a later probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reordered_packets: Option<u64>,
    /// Probes whose answer was late: the responder held it for more than 100 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_packets: Option<u64>,
    /// TCP segments retransmitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// Processor time that the client used, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cpu_s: Option<f64>,
    /// Processor time that the server used, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_cpu_s: Option<f64>,
    /// The time for which the flow ran, nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_ns: Option<u64>,
}

/// One interval of a transfer; times are seconds since its client was started.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TransferInterval {
    /// The beginning.
    pub from_s: f64,
    /// The end, after the beginning.
    pub to_s: f64,
    /// Payload that arrived in the interval, bits per second. For iperf3 the client's count.
    pub throughput_bps: f64,
    /// TCP's round-trip time at the end of the interval, nanoseconds.
    pub rtt_ns: Option<u64>,
    /// The mean one-way delay of data that arrived in the interval, nanoseconds.
    pub owd_ns: Option<u64>,
}

/// The error for a tool's output that is not what it prints on success.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{tool}: {reason}")]
pub struct FlowError {
    /// The tool.
    pub tool: &'static str,
    /// The problem, with the tool's own message if there was one.
    pub reason: String,
}

impl FlowError {
    pub(crate) fn new(tool: &'static str, reason: impl Into<String>) -> Self {
        Self {
            tool,
            reason: reason.into(),
        }
    }
}
