//! Transfers over LEOTP.

use std::net::SocketAddr;
use std::time::Duration;

use leotp::core::{Available, Params, Source};
use leotp::rt::{Fetch, FetchOptions, Publisher, cpu_seconds, peak_rss_bytes, stop_requested};

use crate::transfer::record::Stamped;
use crate::transfer::report::{Measure, Received, Receiver, Sent};
use crate::transfer::{FetchLimits, TransferError, mono_ns};

const NAME: &str = "leotp";

/// The flow of every transfer. One number suffices because each transfer has a server and a port of its own.
const FLOW: u64 = 0x7261_6e73_6665_7221;

/// The stream as a LEOTP flow. It never ends, so that no receiver waits for a digest; no data is available beyond
/// `bytes`.
struct Stream {
    stamped: Stamped,
    bytes: u64,
}

impl Source for Stream {
    fn available(&self) -> Available {
        Available {
            end: self.bytes,
            finished: false,
        }
    }
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> bool {
        self.stamped.read_at(mono_ns(), offset, buf)
    }
    fn meta(&self) -> Option<Vec<u8>> {
        None
    }
}

/// Serves the stream until a signal asks for the end.
///
/// # Errors
/// When the port is in use, or the kernel refuses an operation.
pub fn serve(
    listen: SocketAddr,
    bytes: Option<u64>,
    params: Params,
    ready: impl FnOnce(),
) -> Result<Sent, TransferError> {
    let mut publisher = Publisher::bind(&[listen], params)?;
    let stream = Stream {
        stamped: Stamped::default(),
        bytes: bytes.unwrap_or(leotp::wire::META_BASE >> 1),
    };
    publisher.publish(FLOW, Box::new(stream));
    ready();
    while !stop_requested() {
        publisher.poll(Duration::from_millis(200))?;
    }
    let stats = publisher.stats();
    Ok(Sent {
        transport: NAME.to_owned(),
        sent_bytes: stats.data_bytes,
        sent_packets: stats.data_packets,
        again_bytes: stats.rtx_bytes,
        detail: serde_json::json!({
            "producer": stats, "datagrams": publisher.io_stats(),
            "cpu_s": cpu_seconds(), "peak_rss_bytes": peak_rss_bytes(),
        }),
    })
}

/// Fetches `goal` from `remote` over LEOTP, and measures each record.
///
/// # Errors
/// When the kernel refuses an operation, or the records cannot be written.
pub fn fetch(
    remote: SocketAddr,
    goal: FetchLimits,
    params: Params,
    measure: Measure<'_>,
) -> Result<Received, TransferError> {
    let mut receiver = Receiver::start(NAME, goal, measure);
    let options = FetchOptions {
        params,
        patience: None,
        ..FetchOptions::new(remote, FLOW)
    };
    let mut fetch = Fetch::open(options)?;
    while !receiver.is_over() && !stop_requested() {
        let wait = Duration::from_nanos(receiver.left_ns()).min(Duration::from_millis(100));
        if let Some(bytes) = fetch.poll(wait)? {
            receiver.take(&bytes);
        }
    }
    let cc = fetch.consumer().cc();
    let detail = serde_json::json!({
        "consumer": fetch.stats(), "datagrams": fetch.io_stats(),
        "hop_rtt_ms": cc.hop_rtt_ns().map(|ns| ns / 1e6),
        "rtt_ms": fetch.consumer().srtt_ns().map(|ns| ns / 1e6),
        "cpu_s": cpu_seconds(), "peak_rss_bytes": peak_rss_bytes(),
    });
    receiver.finish(detail)
}
