//! Frames of every kind through the relay, between real namespaces.

mod effects;
mod far;
mod frames;
mod gso;
mod hostile;
use crate::hostile_node;
mod load;
mod overload;
mod stack_time;
use crate::support;
mod tables;
mod threads;
mod transit;
use crate::victim;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use constel_drivers::relay::{Relay, RelayConfig};
use constel_drivers::{DriverError, mono_ns};
use constel_host::netlink::{Batch, Socket};
use constel_link::{
    ChangeError, EdgeUpdate, Effects, EffectsChange, Impairment, Loss, LossLaw, PortId, QueueLimit,
    mac_of,
};
use support::*;

const SECOND: Duration = Duration::from_secs(1);
const BROADCAST: [u8; 6] = [0xff; 6];
/// An EtherType without a protocol: experimental (IEEE 802).
const ODD: u16 = 0x88b5;

/// Sends a frame every two milliseconds for a time; returns how many.
fn send_now_and_then(sender: &Raw, bytes: &[u8], lasting: Duration) -> usize {
    let start = Instant::now();
    let mut sent = 0;
    while start.elapsed() < lasting {
        sender.send(bytes);
        sent += 1;
        thread::sleep(Duration::from_millis(2));
    }
    sent
}

/// No slot gets lost. The nodes' kernels have frames of their own at any time: one that is in the rings still is
/// neither held nor free.
fn every_slot_comes_back(lab: &Lab, slots: usize) {
    eventually("every slot is free", || {
        let stats = lab.handle.relay_stats().unwrap();
        (stats.totals.held == 0 && stats.free_slots == slots).then_some(())
    });
}

fn udp(ip: impl Into<IpAddr>, port: u16) -> UdpSocket {
    let socket = UdpSocket::bind((ip.into(), port)).unwrap();
    socket.set_read_timeout(Some(2 * SECOND)).unwrap();
    socket
}

/// A datagram; gives its one-way time, by the kernel's receive stamp. One that a kernel let go, as it had no way or no neighbour yet, is
/// sent again: what the relay loses is in its counts.
fn one_way(lab: &Lab, from: usize, to: usize, ip: fn(u8) -> IpAddr, size: usize) -> u64 {
    let far = lab.nodes[to].run(|| udp(ip(to as u8 + 1), 7000));
    stamp(&far);
    let near = lab.nodes[from].run(|| udp(ip(from as u8 + 1), 7000));
    let payload: Vec<u8> = (0..size).map(|i| i as u8).collect();
    let mut buffer = [0; 2048];
    for _ in 0..5 {
        let sent = real_ns();
        let went = near.send_to(&payload, (ip(to as u8 + 1), 7000));
        // After a failed sending this waits, too.
        if let Some((len, at)) = receive(&far, &mut buffer) {
            assert_eq!(buffer[..len], payload);
            return at - sent;
        }
        println!("from {from} to {to}: {went:?}, and nothing arrived");
    }
    panic!("no datagram arrives");
}

/// The kernel shows a tag apart from the frame.
fn show_tags(receiver: &Raw) {
    set_option(receiver, libc::SOL_PACKET, libc::PACKET_AUXDATA, 1i32);
}

/// A frame without its tag, and the tag.
fn receive_with_tag(raw: &Raw) -> (Vec<u8>, Option<u16>) {
    let mut buffer = vec![0u8; 2048];
    let mut control = [0u64; 16];
    let mut iov = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: 2048,
    };
    // SAFETY: pointers to locals; walks what the kernel wrote.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut iov;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        let len = libc::recvmsg(raw.as_raw_fd(), &raw mut message, 0);
        assert!(len > 0, "nothing arrived");
        buffer.truncate(len as usize);
        let mut tag = None;
        let mut c = libc::CMSG_FIRSTHDR(&raw const message);
        while !c.is_null() {
            if (*c).cmsg_level == libc::SOL_PACKET && (*c).cmsg_type == libc::PACKET_AUXDATA {
                let aux = libc::CMSG_DATA(c)
                    .cast::<libc::tpacket_auxdata>()
                    .read_unaligned();
                if aux.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
                    tag = Some(aux.tp_vlan_tci);
                }
            }
            c = libc::CMSG_NXTHDR(&raw const message, c);
        }
        (buffer, tag)
    }
}
