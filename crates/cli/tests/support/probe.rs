//! Probes of our own: nanosecond stamps, sent and received inside the nodes' namespaces.
//!
//! The receive stamp is the kernel's (`SO_TIMESTAMPNS`), so that it does not depend on when this process wakes
//! up; the send stamp is taken right before the frame is handed to the kernel, by a real-time thread.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use constel_host::NetNs;

use super::lab::mono_ns;
use super::until;

/// One probe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// When it was sent, `CLOCK_MONOTONIC`.
    pub(crate) sent_ns: i64,
    /// Until it (or its echo) arrived, nanoseconds; `None` when it never did.
    pub(crate) took_ns: Option<i64>,
}

/// How many probes at which distance in time, and how long to wait for the last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) count: usize,
    pub(crate) every: Duration,
    pub(crate) patience: Duration,
}

/// While no socket wants stamps the kernel takes none, and begins with it some time after the first one does; until then a packet is
/// stamped when it is read. To be held for as long as stamps are to be right.
fn stamping() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    stamp_arrivals(socket.as_raw_fd());
    let own = socket.local_addr().unwrap();
    until("the kernel stamps what arrives", || {
        socket.send_to(&[0], own).unwrap();
        std::thread::sleep(Duration::from_millis(2));
        let read_ns = mono_ns();
        let (_, at_ns) = receive(socket.as_raw_fd(), &mut [0; 8])?;
        (at_ns + 1_000_000 < read_ns).then_some(())
    });
    socket
}

/// ICMP echo from inside `ns`: round-trip times.
pub(crate) fn echo(ns: &NetNs, to: Ipv4Addr, pace: Pace) -> Vec<Sample> {
    let _stamping = stamping();
    ns.run(|| {
        let socket = icmp_socket().unwrap();
        stamp_arrivals(socket.as_raw_fd());
        let ident = (std::process::id() & 0xffff) as u16;
        real_time();
        let mut samples = Vec::with_capacity(pace.count);
        let start = mono_ns() + 1_000_000;
        let mut buffer = [0u8; 256];
        let mut arrived = |samples: &mut Vec<Sample>| {
            while let Some((len, at_ns)) = receive(socket.as_raw_fd(), &mut buffer) {
                // An IPv4 header of 20 bytes (no options are sent), then ICMP.
                let icmp = &buffer[20..len.max(20)];
                let ours = icmp.len() >= 8
                    && icmp[0] == 0
                    && u16::from_be_bytes([icmp[4], icmp[5]]) == ident;
                if ours {
                    note(
                        samples,
                        u16::from_be_bytes([icmp[6], icmp[7]]).into(),
                        at_ns,
                    );
                }
            }
        };
        for number in 0..pace.count {
            let due = start + number as i64 * pace.every.as_nanos() as i64;
            while mono_ns() < due {
                wait_readable(socket.as_raw_fd(), due);
                arrived(&mut samples);
            }
            let packet = echo_request(ident, number as u16);
            let sent_ns = mono_ns();
            send_to(socket.as_raw_fd(), &packet, to).unwrap();
            samples.push(Sample {
                sent_ns,
                took_ns: None,
            });
        }
        let end = mono_ns() + pace.patience.as_nanos() as i64;
        while mono_ns() < end && samples.iter().any(|s| s.took_ns.is_none()) {
            wait_readable(socket.as_raw_fd(), end);
            arrived(&mut samples);
        }
        samples
    })
    .unwrap()
}

/// UDP one way from `from` (bound to its own address) to `to`: one-way times, by the one clock both ends have.
pub(crate) fn one_way(
    from: (&NetNs, Ipv4Addr),
    to: (&NetNs, Ipv4Addr),
    port: u16,
    pace: Pace,
) -> Vec<Sample> {
    let _stamping = stamping();
    let goal = SocketAddrV4::new(to.1, port);
    let receiver = to.0.run(|| UdpSocket::bind(goal).unwrap()).unwrap();
    receiver.set_nonblocking(true).unwrap();
    stamp_arrivals(receiver.as_raw_fd());
    let sender = from
        .0
        .run(|| UdpSocket::bind((from.1, 0)).unwrap())
        .unwrap();
    // Both run in one thread each; sockets keep the namespace they were made in.
    // The receiver's patience begins when all is sent, however long that took.
    let end = AtomicI64::new(i64::MAX);
    std::thread::scope(|scope| {
        let arrivals = scope.spawn(|| {
            let mut arrivals = Vec::new();
            let mut buffer = [0u8; 64];
            while mono_ns() < end.load(Ordering::Acquire) && arrivals.len() < pace.count {
                wait_readable(receiver.as_raw_fd(), mono_ns() + 20_000_000);
                while let Some((len, at_ns)) = receive(receiver.as_raw_fd(), &mut buffer) {
                    if let Ok(number) = buffer[..len].try_into() {
                        arrivals.push((u64::from_be_bytes(number) as usize, at_ns));
                    }
                }
            }
            arrivals
        });
        let sent = scope.spawn(|| {
            real_time();
            let start = mono_ns() + 1_000_000;
            (0..pace.count as u64)
                .map(|number| {
                    sleep_until(start + number as i64 * pace.every.as_nanos() as i64);
                    let sent_ns = mono_ns();
                    sender.send_to(&number.to_be_bytes(), goal).unwrap();
                    Sample {
                        sent_ns,
                        took_ns: None,
                    }
                })
                .collect::<Vec<_>>()
        });
        let sent = sent.join();
        let patience_ns = pace.patience.as_nanos() as i64;
        end.store(mono_ns() + patience_ns, Ordering::Release);
        let mut samples = sent.unwrap();
        for (number, at_ns) in arrivals.join().unwrap() {
            note(&mut samples, number, at_ns);
        }
        samples
    })
}

fn note(samples: &mut [Sample], number: usize, at_ns: i64) {
    let sample = &mut samples[number];
    assert!(sample.took_ns.is_none(), "probe {number} arrived twice");
    sample.took_ns = Some(at_ns - sample.sent_ns);
}

fn echo_request(ident: u16, number: u16) -> [u8; 64] {
    let mut packet = [0u8; 64];
    packet[0] = 8;
    packet[4..6].copy_from_slice(&ident.to_be_bytes());
    packet[6..8].copy_from_slice(&number.to_be_bytes());
    // RFC 1071.
    let mut sum: u32 = packet
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    packet[2..4].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    packet
}

/// The calling thread goes before all that is not real-time. Without the right to, it stays as it is.
pub(crate) fn real_time() {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the structure is whole and lives through the call; thread 0 is the calling one.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &priority) };
}

pub(crate) fn sleep_until(mono: i64) {
    let at = libc::timespec {
        tv_sec: mono / 1_000_000_000,
        tv_nsec: mono % 1_000_000_000,
    };
    // SAFETY: the request is whole and lives through the call; no remainder is requested.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &at,
            std::ptr::null_mut(),
        )
    };
}

fn wait_readable(fd: RawFd, until_mono_ns: i64) {
    let left = (until_mono_ns - mono_ns()).max(0);
    let limit = libc::timespec {
        tv_sec: left / 1_000_000_000,
        tv_nsec: left % 1_000_000_000,
    };
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one descriptor, as the count states, and a whole limit; no signal mask.
    unsafe { libc::ppoll(&mut poll, 1, &limit, std::ptr::null()) };
}

fn icmp_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(libc::AF_INET, kind, libc::IPPROTO_ICMP) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn stamp_arrivals(fd: RawFd) {
    set_option(fd, libc::SO_TIMESTAMPNS, 1);
    keep_all(fd);
}

/// Makes room for all packets that arrive while this process does not run: a full socket drops the next ones.
pub(crate) fn keep_all(fd: RawFd) {
    set_option(fd, libc::SO_RCVBUFFORCE, 64 << 20);
}

fn set_option(fd: RawFd, option: libc::c_int, value: libc::c_int) {
    // SAFETY: the value lives through the call and has the length given.
    let done = unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            option,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    assert_eq!(done, 0, "{}", io::Error::last_os_error());
}

fn send_to(fd: RawFd, packet: &[u8], to: Ipv4Addr) -> io::Result<()> {
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: 0,
        sin_addr: libc::in_addr {
            s_addr: u32::from(to).to_be(),
        },
        sin_zero: [0; 8],
    };
    // SAFETY: packet and address live through the call and have the lengths given.
    let sent = unsafe {
        libc::sendto(
            fd,
            packet.as_ptr().cast(),
            packet.len(),
            0,
            (&raw const address).cast(),
            size_of_val(&address) as libc::socklen_t,
        )
    };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// One packet and when the kernel received it, on `CLOCK_MONOTONIC`; `None` without a packet.
fn receive(fd: RawFd, buffer: &mut [u8]) -> Option<(usize, i64)> {
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let mut control = [0u64; 16];
    // SAFETY: all zeros is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: buffer and control live through the call and have the lengths given.
    let len = unsafe { libc::recvmsg(fd, &mut message, libc::MSG_DONTWAIT) };
    if len < 0 {
        let error = io::Error::last_os_error();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
        return None;
    }
    // SAFETY: the kernel filled in `message`; the header it points to, if any, lies in `control`.
    let header = unsafe { libc::CMSG_FIRSTHDR(&message).as_ref() }.expect("a receive stamp");
    assert_eq!(header.cmsg_type, libc::SCM_TIMESTAMPNS);
    // SAFETY: a message of this type holds one timespec, maybe unaligned.
    let at = unsafe {
        libc::CMSG_DATA(header)
            .cast::<libc::timespec>()
            .read_unaligned()
    };
    let real_ns = at.tv_sec * 1_000_000_000 + at.tv_nsec;
    Some((len as usize, real_ns - real_minus_mono_ns()))
}

/// The two clocks' distance now; the two readings are as close as three tries make them.
fn real_minus_mono_ns() -> i64 {
    let read = || {
        let before = mono_ns();
        let real = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        let after = mono_ns();
        let real = real.tv_sec * 1_000_000_000 + real.tv_nsec;
        (after - before, real - (before + after) / 2)
    };
    [read(), read(), read()]
        .into_iter()
        .min()
        .map_or(0, |(_, distance)| distance)
}
