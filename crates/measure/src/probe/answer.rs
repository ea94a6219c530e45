//! The responder of probes.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::probe::packet::Head;
use crate::probe::stamped::{Stamped, mono_ns};

/// The beginning of the line that the responder prints once it listens. A program that starts it can wait for this
/// line.
pub const LISTENING: &str = "listening on";

/// How often the responder checks whether to stop, nanoseconds.
const LOOK_NS: u64 = 500_000_000;

/// Answers every probe that arrives at this address until `stop` is set. `ready` is called once it listens.
///
/// # Errors
/// When the address cannot be bound, or the socket fails.
pub fn answer(
    at: SocketAddr,
    stop: &AtomicBool,
    ready: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let mut socket = Stamped::bind(at)?;
    ready()?;
    let mut buffer = vec![0; usize::from(u16::MAX)];
    while !stop.load(Ordering::Acquire) {
        socket.wait(LOOK_NS)?;
        while let Some(came) = socket.take(&mut buffer)? {
            let datagram = &mut buffer[..came.length];
            let Some(head) = Head::read(datagram) else {
                continue;
            };
            let held_ns = mono_ns().saturating_sub(came.at_ns);
            let answer = Head {
                // The largest value of the field. A longer holding time is reported as late, and not as lost.
                held_ns: u32::try_from(held_ns).unwrap_or(u32::MAX),
                arrived_ns: came.at_ns,
                ..head
            };
            answer.write(datagram);
            // Without a return route the answer is lost, as it would be further along the path.
            drop(socket.socket().send_to(datagram, came.from));
        }
    }
    Ok(())
}
