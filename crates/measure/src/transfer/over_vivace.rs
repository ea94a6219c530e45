//! Transfers over UDP with PCC Vivace.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use leotp::rt::{cpu_seconds, peak_rss_bytes, stop_requested};

use crate::transfer::record::Stamped;
use crate::transfer::report::{Measure, Received, Receiver, Sent};
use crate::transfer::sys::{enlarge_buffers, wait_readable};
use crate::transfer::vivace::{Confirmation, Data, MAX_DATAGRAM, Receiver as Stream, Sender};
use crate::transfer::{FetchLimits, TransferError, mono_ns};

const NAME: &str = "vivace";
/// The datagrams with which a receiver begins and ends a transfer. The last is sent a few times because it may be
/// lost.
const HELLO: &[u8] = b"VIVH";
const GOODBYE: &[u8] = b"VIVB";
const GOODBYES: usize = 5;
/// How often signals are checked.
const LOOK: Duration = Duration::from_millis(100);
/// A receiver that confirms nothing for this long counts as gone.
const GONE_NS: u64 = 10_000_000_000;
const BUFFER_BYTES: u32 = 8 << 20;

/// Serves one receiver after the other until a signal asks for the end. Returns the sum of all.
///
/// # Errors
/// When the port is in use or the kernel refuses an operation.
pub fn serve(
    listen: SocketAddr,
    bytes: Option<u64>,
    seed: u64,
    ready: impl FnOnce(),
) -> Result<Sent, TransferError> {
    let socket =
        UdpSocket::bind(listen).map_err(TransferError::io(format!("listen on {listen}")))?;
    prepare(&socket)?;
    ready();
    let mut sent = Sent::nothing(NAME);
    let mut transfers = Vec::new();
    let mut buf = [0; MAX_DATAGRAM + 1];
    while !stop_requested() {
        if !wait_readable(socket.as_fd(), LOOK) {
            continue;
        }
        let Some((n, peer)) = receive(&socket, &mut buf)? else {
            continue;
        };
        if &buf[..n] != HELLO {
            continue;
        }
        let stats = send(&socket, peer, bytes.unwrap_or(u64::MAX >> 1), seed)?;
        sent.sent_bytes += stats.bytes;
        sent.sent_packets += stats.packets;
        sent.again_bytes += stats.again_bytes;
        transfers.push(stats);
    }
    sent.detail = serde_json::json!({
        "transfers": transfers, "cpu_s": cpu_seconds(), "peak_rss_bytes": peak_rss_bytes(),
    });
    Ok(sent)
}

fn prepare(socket: &UdpSocket) -> Result<(), TransferError> {
    socket
        .set_nonblocking(true)
        .map_err(TransferError::io("prepare a socket"))?;
    enlarge_buffers(socket, BUFFER_BYTES).map_err(TransferError::io("prepare a socket"))
}

fn receive(
    socket: &UdpSocket,
    buf: &mut [u8],
) -> Result<Option<(usize, SocketAddr)>, TransferError> {
    match socket.recv_from(buf) {
        Ok(got) => Ok(Some(got)),
        // A refused connection is the other end's answer to an earlier datagram.
        Err(e)
            if matches!(
                e.kind(),
                ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionRefused
            ) =>
        {
            Ok(None)
        }
        Err(e) => Err(TransferError::io("receive")(e)),
    }
}

/// Sends to one receiver until it has everything, is gone, or a signal asks for the end.
fn send(
    socket: &UdpSocket,
    peer: SocketAddr,
    bytes: u64,
    seed: u64,
) -> Result<crate::transfer::vivace::SenderStats, TransferError> {
    let mut stamped = Stamped::default();
    let mut sender = Sender::new(mono_ns(), bytes, seed);
    let mut heard_ns = mono_ns();
    let mut buf = [0; MAX_DATAGRAM + 1];
    let mut out = Vec::with_capacity(MAX_DATAGRAM);
    while !stop_requested() && !sender.is_done() && mono_ns() - heard_ns < GONE_NS {
        out.clear();
        while let Some((offset, len)) = sender.poll_transmit(mono_ns(), &mut out) {
            let head = out.len();
            out.resize(head + len, 0);
            // Times are kept longer than the sender runs ahead. A datagram that the kernel refuses is detected as
            // lost and sent again.
            if stamped.read_at(mono_ns(), offset, &mut out[head..]) {
                let _ = socket.send_to(&out, peer);
            }
            out.clear();
        }
        let due = sender.poll_timeout().unwrap_or(u64::MAX);
        let wait = Duration::from_nanos(due.saturating_sub(mono_ns())).min(LOOK);
        if wait_readable(socket.as_fd(), wait) {
            while let Some((n, from)) = receive(socket, &mut buf)? {
                if from == peer && &buf[..n] == GOODBYE {
                    return Ok(sender.stats());
                }
                if from == peer
                    && let Some(confirmation) = Confirmation::read(&buf[..n])
                {
                    heard_ns = mono_ns();
                    sender.handle(heard_ns, &confirmation);
                }
            }
        }
        sender.handle_timeout(mono_ns());
    }
    Ok(sender.stats())
}

/// Fetches `goal` from `remote` over Vivace, and measures each record.
///
/// # Errors
/// When the kernel refuses an operation, or the records cannot be written.
pub fn fetch(
    remote: SocketAddr,
    goal: FetchLimits,
    measure: Measure<'_>,
) -> Result<Received, TransferError> {
    let any: SocketAddr = if remote.is_ipv4() {
        ([0; 4], 0).into()
    } else {
        ([0u16; 8], 0).into()
    };
    let socket = UdpSocket::bind(any).map_err(TransferError::io("open a socket"))?;
    socket
        .connect(remote)
        .map_err(TransferError::io(format!("find a way to {remote}")))?;
    prepare(&socket)?;
    let mut receiver = Receiver::start(NAME, goal, measure);
    let mut stream = Stream::default();
    let mut buf = [0; MAX_DATAGRAM + 1];
    let mut out = Vec::with_capacity(MAX_DATAGRAM);
    while !receiver.is_over() && !stop_requested() {
        if stream.offset() == 0 {
            // Repeated until data arrives: the request or its answer may be lost.
            let _ = socket.send(HELLO);
        }
        let wait = Duration::from_nanos(receiver.left_ns()).min(LOOK);
        if !wait_readable(socket.as_fd(), wait) {
            continue;
        }
        while let Some((n, _)) = receive(&socket, &mut buf)? {
            let Some(data) = Data::read(&buf[..n]) else {
                continue;
            };
            if let Some(confirmation) = stream.handle(&data, |bytes| receiver.take(bytes)) {
                out.clear();
                confirmation.write(&mut out);
                let _ = socket.send(&out);
            }
        }
    }
    for _ in 0..GOODBYES {
        let _ = socket.send(GOODBYE);
    }
    let detail = serde_json::json!({
        "cpu_s": cpu_seconds(), "peak_rss_bytes": peak_rss_bytes(),
    });
    receiver.finish(detail)
}
