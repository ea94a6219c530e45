//! Captures that the page starts: frames of a node, a port or a link for some seconds, as a pcapng file.

use std::io::Read as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Mutex, TryLockError};
use std::time::Duration;

use constel_api::CaptureOrder;
use constel_control::Lab;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::http::Answer;

/// Longest capture, seconds.
const LONGEST_S: u32 = 60;

/// A capture ends early at this size, bytes: it is sent from memory.
const BYTES: usize = 64 << 20;

/// The media type of captures.
pub(crate) const KIND: &str = "application/vnd.tcpdump.pcap";

/// A capture that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CaptureFor {
    /// A node, for all of its ports, or a port as `NODE/PORT`.
    pub(crate) of: String,
    /// A filter for frames, such as `protocol: udp, dport: 53`.
    #[serde(default)]
    pub(crate) filter: Option<String>,
    /// How long it takes, seconds.
    #[schemars(range(min = 1, max = LONGEST_S))]
    pub(crate) for_s: u32,
}

/// Captures of a server, one at a time.
#[derive(Debug, Default)]
pub(crate) struct Captures(Mutex<()>);

impl Captures {
    /// Captures, and returns the file when its time is over.
    ///
    /// # Errors
    /// For a time out of bounds, while another capture runs, and if the lab refuses.
    pub(crate) fn take(&self, lab: &Lab, order: &CaptureFor) -> Result<Answer, String> {
        if !(1..=LONGEST_S).contains(&order.for_s) {
            return Err(format!("a capture takes from 1 to {LONGEST_S} s"));
        }
        let _one = match self.0.try_lock() {
            Ok(one) => one,
            Err(TryLockError::Poisoned(broken)) => broken.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err("another capture runs; wait for its end".to_owned());
            }
        };
        let within = Duration::from_secs(u64::from(order.for_s));
        let order = CaptureOrder {
            of: order.of.clone(),
            filter: order.filter.clone(),
        };
        let stop = AtomicBool::new(false);
        let (_capturing, mut frames) =
            (lab.capture(order, &stop)).map_err(|error| error.to_string())?;
        let mut body = Vec::new();
        std::thread::scope(|scope| {
            let (ended, end) = mpsc::channel::<()>();
            let stop = &stop;
            scope.spawn(move || {
                // The channel closes if the lab ends first.
                let _ = end.recv_timeout(within);
                stop.store(true, Ordering::Release);
            });
            let mut piece = [0; 16 << 10];
            let read = loop {
                match frames.read(&mut piece) {
                    Ok(0) => break Ok(()),
                    Ok(got) => body.extend_from_slice(&piece[..got]),
                    Err(error) => break Err(error.to_string()),
                }
                if body.len() > BYTES {
                    // The rest of the stream ends with the number of lost frames.
                    stop.store(true, Ordering::Release);
                }
            };
            drop(ended);
            read
        })?;
        Ok(Answer {
            status: 200,
            kind: KIND,
            body,
            ..Answer::default()
        })
    }
}
