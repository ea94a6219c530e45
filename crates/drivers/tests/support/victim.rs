//! A victim that measures what a hostile node elsewhere costs it.
#![allow(
    unreachable_pub,
    missing_docs,
    reason = "a module of a test and of a bench"
)]

use std::thread;
use std::time::{Duration, Instant};

use constel_host::netlink::{Mac, NeighbourSpec};
use constel_link::packet::{fold, words_sum};
use constel_link::{PortId, mac_of};

use crate::hostile_node::ODD;
use crate::support::*;

/// The victim: a stream and a ping over a link that the hostile node has nothing to do with.
pub struct Victim {
    sender: Raw,
    receiver: Raw,
    answers: Raw,
}

/// The victim's measurements, in nanoseconds.
pub struct Seen {
    /// From before the system call that sends a frame to the kernel's stamp at the far end.
    pub stream: Vec<u64>,
    /// From before the system call that sends an echo request to the stamp of the answer.
    pub ping: Vec<u64>,
    pub sent: usize,
}

impl Seen {
    /// Lost frames, with those that the kernel refused at once.
    pub fn lost(&self) -> usize {
        self.sent - self.stream.len() - self.ping.len()
    }
}

/// The percentile of the values: this share is not greater.
pub fn percentile(values: &[u64], hundredths: usize) -> u64 {
    let mut values = values.to_vec();
    values.sort_unstable();
    values[(values.len() * hundredths / 100).min(values.len() - 1)]
}

/// One echo request for this number of frames of the stream.
const PER_PING: u64 = 5;

impl Victim {
    /// Between nodes 0 and 1 of a lab, with permanent neighbour entries as in every lab.
    pub fn new(nodes: &[Node]) -> Victim {
        for (n, node) in nodes.iter().take(2).enumerate() {
            let far = 1 - n as u32;
            node.netlink(|batch| {
                batch.replace_neighbour(&NeighbourSpec {
                    ifindex: ETH0,
                    addr: v4(far as u8 + 1).into(),
                    mac: Mac(mac_of(PortId(far))),
                });
            });
        }
        let victim = Victim {
            sender: nodes[0].run(|| Raw::new(ODD)),
            receiver: nodes[1].run(|| Raw::new(ODD)),
            answers: nodes[0].run(|| Raw::new(libc::ETH_P_IP as u16)),
        };
        stamp(&victim.receiver);
        stamp(&victim.answers);
        for raw in [&victim.receiver, &victim.answers] {
            raw.timeout(Duration::from_millis(100));
        }
        victim
    }

    /// 1,000 frames a second, and a ping now and then.
    pub fn measure(&self, for_: Duration) -> Seen {
        let mut sent: Vec<u64> = Vec::new();
        let mut pings: Vec<u64> = Vec::new();
        let start = Instant::now();
        let mut next = start;
        while start.elapsed() < for_ {
            let n = sent.len() as u64;
            let number = n.to_be_bytes();
            let payload = [&number[..], &[0; 38]].concat();
            let bytes = frame(mac_of(PortId(1)), mac_of(PortId(0)), ODD, &payload);
            sent.push(real_ns());
            let _ = self.sender.try_send(&bytes);
            if n.is_multiple_of(PER_PING) {
                let bytes = echo_request(pings.len() as u16);
                pings.push(real_ns());
                let _ = self.sender.try_send(&bytes);
            }
            next += Duration::from_millis(1);
            thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        let mut seen = Seen {
            stream: Vec::new(),
            ping: Vec::new(),
            sent: sent.len() + pings.len(),
        };
        while let Some((bytes, at)) = self.receiver.next() {
            let number = u64::from_be_bytes(bytes[14..22].try_into().unwrap());
            seen.stream.push(at.saturating_sub(sent[number as usize]));
        }
        while let Some((bytes, at)) = self.answers.next() {
            // An echo reply.
            if bytes.len() >= 42 && bytes[23] == 1 && bytes[34] == 0 {
                let number = u16::from_be_bytes([bytes[40], bytes[41]]);
                seen.ping
                    .push(at.saturating_sub(pings[usize::from(number)]));
            }
        }
        seen
    }
}

fn echo_request(number: u16) -> Vec<u8> {
    let mut ip = vec![
        0x45, 0, 0, 84, 0, 0, 0x40, 0, 64, 1, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ];
    let check = !fold(words_sum(&ip));
    ip[10..12].copy_from_slice(&check.to_be_bytes());
    let mut icmp = vec![8, 0, 0, 0, 0x12, 0x34];
    icmp.extend(number.to_be_bytes());
    icmp.resize(64, 0);
    let check = !fold(words_sum(&icmp));
    icmp[2..4].copy_from_slice(&check.to_be_bytes());
    frame(
        mac_of(PortId(1)),
        mac_of(PortId(0)),
        0x0800,
        &[ip, icmp].concat(),
    )
}
