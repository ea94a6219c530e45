//! A netlink socket of one namespace, which sends batches and reads dumps.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST};
use netlink_sys::{Socket as Raw, SocketAddr, protocols::NETLINK_ROUTE};

use super::batch::{Batch, NLMSG_HDRLEN};
use super::describe::describe;
use super::failures::{BatchError, RequestError};
use super::wire::{attributes, text};
use crate::error::{Context, Error, Result};
use crate::netns::NetNs;

/// At most this many bytes of requests go into one system call.
const CHUNK_BYTES: usize = 256 * 1024;
/// Maximum number of requests per system call: if every one of them fails, its answer (some 1.3 KB with overhead) must
/// still fit into the receive buffer. Otherwise the failed requests could not be identified.
const CHUNK_REQUESTS: usize = 2048;
const RECEIVE_BUFFER_BYTES: i32 = 8 << 20;
const SEND_BUFFER_BYTES: i32 = 1 << 20;
/// The kernel answers within the `send` call, so a missing answer is an error.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_CAPPED: u16 = 0x100;
const NLM_F_ACK_TLVS: u16 = 0x200;
const NLMSGERR_ATTR_MSG: u16 = 1;

/// An rtnetlink socket. It keeps its namespace alive, as a [`NetNs`] does.
#[derive(Debug)]
pub struct Socket {
    raw: Raw,
    seq: u32,
    buf: Vec<u8>,
}

impl Socket {
    /// Opens a socket of the given namespace (on a helper thread; the caller's namespace does not change).
    ///
    /// A thread that is inside the namespace already uses the cheaper [`Socket::open`].
    ///
    /// # Errors
    /// [`Error::Os`] when the namespace cannot be entered or no socket is available.
    pub fn open_in(ns: &NetNs) -> Result<Socket> {
        ns.run(Socket::open)?
    }

    /// Opens a socket of the calling thread's namespace.
    ///
    /// # Errors
    /// [`Error::Os`] when no socket is available.
    pub fn open() -> Result<Socket> {
        Self::open_at(NETLINK_ROUTE, None)
    }

    /// Opens a socket of the calling thread's namespace to another part of the kernel, of which dumps can be read.
    ///
    /// # Errors
    /// As [`Socket::open`]; `EPROTONOSUPPORT` if this kernel does not have it.
    pub(super) fn open_to(protocol: i32) -> Result<Socket> {
        Self::open_at(protocol as isize, None)
    }

    /// Opens a socket as [`Socket::open`] does, with the port number by which a [`StackWatch`](super::StackWatch)
    /// distinguishes our own changes from others. If the number is taken, the result is an ordinary socket, whose
    /// changes the watch reports.
    ///
    /// # Errors
    /// As [`Socket::open`].
    pub fn open_known() -> Result<Socket> {
        Self::open_at(NETLINK_ROUTE, Some(super::watch::OWN_PORT))
    }

    fn open_at(protocol: isize, port: Option<u32>) -> Result<Socket> {
        let what = || "open a netlink socket".to_string();
        let mut raw = Raw::new(protocol).context(what)?;
        let taken = |port| raw.bind(&SocketAddr::new(port, 0)).is_err();
        if port.is_none_or(taken) {
            raw.bind_auto().context(what)?;
        }
        raw.connect(&SocketAddr::new(0, 0)).context(what)?;
        raw.set_ext_ack(true).context(what)?;
        // Errors need not contain our own request.
        raw.set_cap_ack(true).context(what)?;
        force_buffer(
            &raw,
            libc::SO_RCVBUFFORCE,
            libc::SO_RCVBUF,
            RECEIVE_BUFFER_BYTES,
        )?;
        force_buffer(
            &raw,
            libc::SO_SNDBUFFORCE,
            libc::SO_SNDBUF,
            SEND_BUFFER_BYTES,
        )?;
        set_receive_timeout(&raw, ANSWER_TIMEOUT)?;
        Ok(Socket {
            raw,
            seq: 1,
            buf: Vec::new(),
        })
    }

    /// Carries out all requests of the batch, in order, and empties it.
    ///
    /// Successful requests are not acknowledged one by one: the kernel reports every failure in any case. Only the last
    /// request of a chunk requests an answer, which proves that all before it were handled.
    ///
    /// # Errors
    /// [`Error::Batch`] names each refused request; the others were carried out. [`Error::Os`] when the socket itself
    /// failed: then the result of the last chunk is unknown.
    pub fn send(&mut self, batch: &mut Batch) -> Result<()> {
        let total = batch.len();
        let mut failures = Vec::new();
        let result = self.send_chunks(batch, &mut failures);
        batch.clear();
        result?;
        if failures.is_empty() {
            return Ok(());
        }
        failures.sort_by_key(|f| f.index);
        Err(BatchError { failures, total }.into())
    }

    fn send_chunks(&mut self, batch: &mut Batch, failures: &mut Vec<RequestError>) -> Result<()> {
        let (bytes, requests) = batch.parts();
        let end_of = |i: usize, len: usize| requests.get(i + 1).map_or(len, |r| r.start);
        let mut first = 0;
        while first < requests.len() {
            let start = requests[first].start;
            let mut last = first;
            while last + 1 < requests.len()
                && last + 1 - first < CHUNK_REQUESTS
                && end_of(last + 1, bytes.len()) - start <= CHUNK_BYTES
            {
                last += 1;
            }
            let end = end_of(last, bytes.len());
            let first_seq = self.seq;
            for (i, r) in requests[first..=last].iter().enumerate() {
                let seq = first_seq.wrapping_add(i as u32);
                bytes[r.start + 8..r.start + 12].copy_from_slice(&seq.to_ne_bytes());
            }
            let f = requests[last].start + 6;
            let flags = u16::from_ne_bytes([bytes[f], bytes[f + 1]]) | NLM_F_ACK;
            bytes[f..f + 2].copy_from_slice(&flags.to_ne_bytes());

            let count = (last - first + 1) as u32;
            self.seq = first_seq.wrapping_add(count);
            self.raw
                .send(&bytes[start..end], 0)
                .context(|| "send netlink requests".into())?;
            self.collect_answers(first_seq, count, |offset, errno, explanation| {
                let r = requests[first + offset];
                if errno != 0 && errno != r.tolerated {
                    failures.push(RequestError {
                        index: first + offset,
                        what: describe(&bytes[r.start..end_of(first + offset, bytes.len())]),
                        errno,
                        explanation,
                    });
                }
            })?;
            first = last + 1;
        }
        Ok(())
    }

    /// Reads until the last request of the chunk has been answered.
    fn collect_answers(
        &mut self,
        first_seq: u32,
        count: u32,
        mut answer: impl FnMut(usize, i32, Option<String>),
    ) -> Result<()> {
        loop {
            let mut done = false;
            self.receive(|msg| {
                let offset = msg.seq.wrapping_sub(first_seq);
                // Any other message is a late answer to a call that failed half-way.
                if msg.kind != NLMSG_ERROR || offset >= count {
                    return Ok(());
                }
                let (errno, explanation) = msg.error()?;
                answer(offset as usize, errno, explanation);
                done |= offset == count - 1;
                Ok(())
            })?;
            if done {
                return Ok(());
            }
        }
    }

    /// Sends one dump request (`kind`, then `body` behind the netlink header) and passes every answer's payload to
    /// `each`. If the kernel reports that a change interrupted the dump, the dump is repeated and only the results of
    /// the last try are returned.
    pub(super) fn dump<T>(
        &mut self,
        what: &str,
        kind: u16,
        body: &[u8],
        mut each: impl FnMut(u16, &[u8]) -> Result<Option<T>>,
    ) -> Result<Vec<T>> {
        const TRIES: usize = 20;
        for _ in 0..TRIES {
            let seq = self.seq;
            self.seq = seq.wrapping_add(1);
            let mut req = Vec::with_capacity(NLMSG_HDRLEN + body.len());
            req.extend(((NLMSG_HDRLEN + body.len()) as u32).to_ne_bytes());
            req.extend(kind.to_ne_bytes());
            req.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
            req.extend(seq.to_ne_bytes());
            req.extend([0; 4]);
            req.extend(body);
            self.raw.send(&req, 0).context(|| what.to_string())?;
            let (mut out, mut done, mut torn) = (Vec::new(), false, false);
            while !done {
                self.receive(|msg| {
                    if msg.seq != seq {
                        return Ok(());
                    }
                    torn |= msg.flags & NLM_F_DUMP_INTR != 0;
                    match msg.kind {
                        NLMSG_ERROR | NLMSG_DONE => {
                            done = true;
                            let errno = msg.error()?.0;
                            if errno != 0 {
                                return Err(io::Error::from_raw_os_error(errno))
                                    .context(|| what.to_string());
                            }
                        }
                        _ => out.extend(each(msg.kind, msg.payload)?),
                    }
                    Ok(())
                })?;
            }
            if !torn {
                return Ok(out);
            }
        }
        Err(Error::Protocol {
            what: what.into(),
            detail: format!("the state changed during each of {TRIES} tries"),
        })
    }

    /// Reserves `count` sequence numbers; returns the first.
    pub(super) fn take_numbers(&mut self, count: u32) -> u32 {
        let first = self.seq;
        self.seq = first.wrapping_add(count);
        first
    }

    /// Sends complete messages.
    pub(super) fn send_raw(&self, messages: &[u8]) -> io::Result<()> {
        self.raw.send(messages, 0).map(|_| ())
    }

    /// Receives one datagram and calls `each` for its messages.
    pub(super) fn receive(
        &mut self,
        mut each: impl FnMut(Message<'_>) -> Result<()>,
    ) -> Result<()> {
        self.buf.clear();
        // Dump datagrams are at most 32 KiB.
        self.buf.reserve(64 * 1024);
        let n = self
            .raw
            .recv(&mut self.buf, 0)
            .context(|| "receive the kernel's netlink answer".into())?;
        if n > self.buf.len() {
            return Err(protocol("a datagram larger than 64 KiB"));
        }
        walk(&self.buf[..n], &mut each)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor lives as long as `self.raw`, which the borrow keeps.
        unsafe { BorrowedFd::borrow_raw(self.raw.as_raw_fd()) }
    }
}

/// One netlink message of a received datagram.
pub(super) struct Message<'a> {
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) seq: u32,
    pub(super) payload: &'a [u8],
}

impl Message<'_> {
    /// Returns the error number (positive, 0 for success) and the explanation of an ERROR or DONE message.
    pub(super) fn error(&self) -> Result<(i32, Option<String>)> {
        let Some(code) = self.payload.first_chunk::<4>() else {
            // Old kernels end a dump without a code.
            return Ok((0, None));
        };
        let errno = i32::from_ne_bytes(*code).saturating_neg();
        let mut explanation = None;
        if self.flags & NLM_F_ACK_TLVS != 0 {
            let mut skip = 4;
            if self.kind == NLMSG_ERROR {
                // Behind the code: our request's header, and the whole request unless capped.
                let header = self
                    .payload
                    .get(4..8)
                    .ok_or_else(|| protocol("a short error"))?;
                let len = u32::from_ne_bytes(header.try_into().expect("4 bytes")) as usize;
                skip += if self.flags & NLM_F_CAPPED != 0 {
                    NLMSG_HDRLEN
                } else {
                    len.next_multiple_of(4)
                };
            }
            for (kind, value) in attributes(self.payload.get(skip..).unwrap_or_default()) {
                if kind == NLMSGERR_ATTR_MSG {
                    explanation = Some(text(value));
                }
            }
        }
        Ok((errno, explanation))
    }
}

/// Calls `each` for the messages of a datagram.
pub(super) fn walk(
    mut rest: &[u8],
    each: &mut impl FnMut(Message<'_>) -> Result<()>,
) -> Result<()> {
    while let Some(h) = rest.first_chunk::<NLMSG_HDRLEN>() {
        let len = u32::from_ne_bytes([h[0], h[1], h[2], h[3]]) as usize;
        if len < NLMSG_HDRLEN || len > rest.len() {
            return Err(protocol("a message length outside the datagram"));
        }
        each(Message {
            kind: u16::from_ne_bytes([h[4], h[5]]),
            flags: u16::from_ne_bytes([h[6], h[7]]),
            seq: u32::from_ne_bytes([h[8], h[9], h[10], h[11]]),
            payload: &rest[NLMSG_HDRLEN..len],
        })?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(())
}

fn protocol(detail: &str) -> Error {
    Error::Protocol {
        what: "read netlink".into(),
        detail: detail.into(),
    }
}

/// Sets a buffer size beyond `net.core.[rw]mem_max` if we may, otherwise as large as permitted.
pub(super) fn force_buffer(raw: &Raw, force: i32, plain: i32, bytes: i32) -> Result<()> {
    let set = |option: i32| {
        // SAFETY: the option value is a live i32 of the stated length.
        unsafe {
            libc::setsockopt(
                raw.as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                (&raw const bytes).cast(),
                size_of::<i32>() as libc::socklen_t,
            )
        }
    };
    if set(force) != 0 && set(plain) != 0 {
        return Err(Error::last_os("set a netlink buffer size"));
    }
    Ok(())
}

pub(super) fn set_receive_timeout(raw: &Raw, timeout: Duration) -> Result<()> {
    let tv = libc::timeval {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_usec: libc::suseconds_t::from(timeout.subsec_micros()),
    };
    // SAFETY: the option value is a live timeval of the stated length.
    let r = unsafe {
        libc::setsockopt(
            raw.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVTIMEO,
            (&raw const tv).cast(),
            size_of::<libc::timeval>() as libc::socklen_t,
        )
    };
    if r != 0 {
        return Err(Error::last_os("set a netlink receive timeout"));
    }
    Ok(())
}
