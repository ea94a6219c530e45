//! Transfers over TCP, with any congestion control of the kernel.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use leotp::rt::{cpu_seconds, peak_rss_bytes, stop_requested};
use rustix::net::sockopt;

use crate::transfer::record::{RECORD_BYTES, write};
use crate::transfer::report::{Measure, Received, Receiver, Sent};
use crate::transfer::sys::{TcpInfo, keep_unsent_below, wait_writable};
use crate::transfer::{FetchLimits, TransferError, mono_ns};

const NAME: &str = "tcp";

/// The bytes that may wait in the socket before they are sent for the first time.
///
/// The kernel reports the socket as writable when half of it is free: a record is stamped when fewer than eight
/// others wait before it. With less than a segment waiting, the kernel marks the flow as limited by its
/// application, and bbr then ignores every measurement that is lower than those before: it would keep the highest
/// rate it ever saw.
const UNSENT_BYTES: u32 = 8 * RECORD_BYTES as u32;

/// The longest wait for the other end between two checks for signals.
const LOOK: Duration = Duration::from_millis(100);

/// Serves one receiver after the other until a signal asks for the end. Returns the sum of all.
///
/// # Errors
/// When the port is in use, the kernel has no such congestion control, or it refuses an operation.
pub fn serve(
    listen: SocketAddr,
    bytes: Option<u64>,
    congestion: &str,
    ready: impl FnOnce(),
) -> Result<Sent, TransferError> {
    let listener =
        TcpListener::bind(listen).map_err(TransferError::io(format!("listen on {listen}")))?;
    sockopt::set_tcp_congestion(&listener, congestion).map_err(|error| {
        TransferError::io(format!("use congestion control {congestion}"))(error.into())
    })?;
    listener
        .set_nonblocking(true)
        .map_err(TransferError::io("listen"))?;
    ready();
    let mut sent = Sent::nothing(NAME);
    let mut connections = Vec::new();
    while !stop_requested() {
        match listener.accept() {
            Ok((stream, peer)) => {
                let info =
                    send(stream, bytes).map_err(TransferError::io(format!("send to {peer}")))?;
                sent.sent_bytes += info.bytes_sent;
                sent.sent_packets += u64::from(info.data_segs_out);
                sent.again_bytes += info.bytes_retrans;
                connections.push(info);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                crate::transfer::sys::wait_readable(listener.as_fd(), LOOK);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(TransferError::io("accept")(error)),
        }
    }
    sent.detail = serde_json::json!({
        "congestion": congestion, "connections": connections,
        "cpu_s": cpu_seconds(), "peak_rss_bytes": peak_rss_bytes(),
    });
    Ok(sent)
}

/// Sends records until `bytes` are acknowledged, the receiver closes the connection, or a signal asks for the end.
fn send(mut stream: TcpStream, bytes: Option<u64>) -> std::io::Result<TcpInfo> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    keep_unsent_below(&stream, UNSENT_BYTES)?;
    let mut record = [0; RECORD_BYTES];
    let (mut number, mut at) = (0, RECORD_BYTES);
    let mut left = bytes.unwrap_or(u64::MAX);
    while left > 0 && !stop_requested() {
        if !wait_writable(stream.as_fd(), LOOK) {
            continue;
        }
        if at == RECORD_BYTES {
            write(number, mono_ns(), &mut record);
            (number, at) = (number + 1, 0);
        }
        let end = RECORD_BYTES.min(
            at + usize::try_from(left)
                .unwrap_or(usize::MAX)
                .min(RECORD_BYTES),
        );
        match stream.write(&record[at..end]) {
            Ok(n) => {
                at += n;
                left -= n as u64;
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(e) if is_gone(&e) => return TcpInfo::of(&stream),
            Err(e) => return Err(e),
        }
    }
    // The receiver closes the connection when it has everything.
    let mut nothing = [0; 16];
    while !stop_requested() {
        match stream.read(&mut nothing) {
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                crate::transfer::sys::wait_readable(stream.as_fd(), LOOK);
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            _ => break,
        }
    }
    TcpInfo::of(&stream)
}

fn is_gone(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::TimedOut
    )
}

/// Fetches `goal` from `remote` over TCP, and measures each record.
///
/// # Errors
/// When the server does not answer, the connection breaks, or the records cannot be written.
pub fn fetch(
    remote: SocketAddr,
    goal: FetchLimits,
    measure: Measure<'_>,
) -> Result<Received, TransferError> {
    let io = |what: &str| TransferError::io(format!("{what} {remote}"));
    let mut receiver = Receiver::start(NAME, goal, measure);
    let mut stream = TcpStream::connect_timeout(&remote, goal.time).map_err(io("connect to"))?;
    stream
        .set_read_timeout(Some(LOOK))
        .map_err(io("read from"))?;
    let mut buf = vec![0; 1 << 18];
    while !receiver.is_over() && !stop_requested() {
        match stream.read(&mut buf) {
            Ok(0) => break,
            Ok(n) => receiver.take(&buf[..n]),
            Err(e)
                if matches!(
                    e.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) => {}
            Err(e) => return Err(io("read from")(e)),
        }
    }
    let detail = serde_json::json!({
        "cpu_s": cpu_seconds(), "peak_rss_bytes": peak_rss_bytes(),
    });
    receiver.finish(detail)
}
