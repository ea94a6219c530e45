//! The sending end: packets at the controlled rate, loss detection, retransmission, and results per monitor
//! interval.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

use super::packet::{Confirmation, Data};
use super::rate::{Interval, LEAST_PACKETS, Monitored, PACKET_BYTES, RateControl};
use crate::transfer::record::RECORD_BYTES;

/// The packet threshold of RFC 9002: a packet counts as lost when a packet with a number this much higher has been
/// confirmed.
const REORDER: u64 = 3;
/// The round-trip time that is assumed before the first measurement, ns.
const FIRST_RTT_NS: u64 = 100_000_000;
/// The largest number of stream bytes in flight: the receiver must keep whatever arrives out of order.
const MAX_AHEAD: u64 = 64 << 20;

/// The counters of a sender.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SenderStats {
    /// Packets handed to the network, with retransmissions.
    pub packets: u64,
    /// Payload bytes, with retransmissions.
    pub bytes: u64,
    /// Payload bytes retransmitted.
    pub again_bytes: u64,
    /// Packets that were detected as lost.
    pub lost: u64,
    /// The smoothed round-trip time, ns.
    pub srtt_ns: u64,
    /// The present rate, kbit/s.
    pub rate_kbps: u64,
}

struct Flying {
    offset: u64,
    len: usize,
    sent_ns: u64,
    interval: u64,
}

struct Running {
    what: Interval,
    began_ns: u64,
    ends_ns: Option<u64>,
    packets: u64,
    open: u64,
    seen: Monitored,
}

/// The sender of a stream to one receiver.
pub struct Sender {
    control: RateControl,
    flying: BTreeMap<u64, Flying>,
    again: VecDeque<(u64, usize)>,
    next_number: u64,
    next_offset: u64,
    confirmed_offset: u64,
    end: u64,
    intervals: VecDeque<Running>,
    first_interval: u64,
    next_send_ns: u64,
    srtt_ns: u64,
    rttvar_ns: u64,
    backoff: u32,
    last_heard_ns: u64,
    stats: SenderStats,
}

impl Sender {
    /// Creates a sender of a stream of `bytes` that begins now.
    pub fn new(now_ns: u64, bytes: u64, seed: u64) -> Self {
        Self {
            control: RateControl::new(seed),
            flying: BTreeMap::new(),
            again: VecDeque::new(),
            next_number: 0,
            next_offset: 0,
            confirmed_offset: 0,
            end: bytes,
            intervals: VecDeque::new(),
            first_interval: 0,
            next_send_ns: now_ns,
            srtt_ns: 0,
            rttvar_ns: 0,
            backoff: 0,
            last_heard_ns: now_ns,
            stats: SenderStats::default(),
        }
    }

    /// Returns whether the receiver has everything.
    pub fn is_done(&self) -> bool {
        self.confirmed_offset >= self.end
    }

    /// Returns the counters.
    pub fn stats(&self) -> SenderStats {
        SenderStats {
            srtt_ns: self.srtt_ns,
            rate_kbps: (self.control.rate_mbps() * 1e3) as u64,
            ..self.stats
        }
    }

    fn rtt_ns(&self) -> u64 {
        if self.srtt_ns == 0 {
            FIRST_RTT_NS
        } else {
            self.srtt_ns
        }
    }

    /// Returns the time without confirmations after which everything in flight counts as lost (RFC 6298's timeout).
    fn timeout_ns(&self) -> u64 {
        (self.rtt_ns() + (4 * self.rttvar_ns).max(50_000_000)) << self.backoff.min(6)
    }

    /// Returns the next packet that is due: writes its header and returns which bytes of the stream must follow.
    pub fn poll_transmit(&mut self, now_ns: u64, out: &mut Vec<u8>) -> Option<(u64, usize)> {
        if now_ns < self.next_send_ns || self.is_done() {
            return None;
        }
        let (offset, len, again) = self.next_piece()?;
        let interval = self.interval_at(now_ns);
        let number = self.next_number;
        self.next_number += 1;
        Data::write_head(number, offset, out);
        let flying = Flying {
            offset,
            len,
            sent_ns: now_ns,
            interval,
        };
        if self.flying.is_empty() {
            self.last_heard_ns = now_ns;
        }
        self.flying.insert(number, flying);
        let running = &mut self.intervals[(interval - self.first_interval) as usize];
        running.packets += 1;
        running.open += 1;
        let gap = (PACKET_BYTES / running.what.bytes_per_s() * 1e9) as u64;
        // A late wake-up is compensated with a burst, but of a few packets only.
        let from = self.next_send_ns.max(
            now_ns
                .saturating_sub(8 * gap)
                .max(now_ns.saturating_sub(2_000_000)),
        );
        self.next_send_ns = from + gap;
        self.stats.packets += 1;
        self.stats.bytes += len as u64;
        self.stats.again_bytes += if again { len as u64 } else { 0 };
        Some((offset, len))
    }

    fn next_piece(&mut self) -> Option<(u64, usize, bool)> {
        while let Some((offset, len)) = self.again.pop_front() {
            if offset + len as u64 > self.confirmed_offset {
                return Some((offset, len, true));
            }
        }
        let left = self.end - self.next_offset;
        if left == 0 || self.next_offset - self.confirmed_offset >= MAX_AHEAD {
            return None;
        }
        let len = left.min(RECORD_BYTES as u64) as usize;
        let offset = self.next_offset;
        self.next_offset += len as u64;
        Some((offset, len, false))
    }

    /// Returns the interval of a packet that is sent now.
    fn interval_at(&mut self, now_ns: u64) -> u64 {
        let length = self.rtt_ns();
        let current = self.intervals.back_mut().filter(|r| {
            r.ends_ns.is_none() && (now_ns < r.began_ns + length || r.packets < LEAST_PACKETS)
        });
        if current.is_none() {
            if let Some(last) = self.intervals.back_mut() {
                last.ends_ns.get_or_insert(now_ns);
            }
            self.settle();
            self.intervals.push_back(Running {
                what: self.control.next_interval(),
                began_ns: now_ns,
                ends_ns: None,
                packets: 0,
                open: 0,
                seen: Monitored::default(),
            });
        }
        self.first_interval + self.intervals.len() as u64 - 1
    }

    /// Passes the results of complete intervals to the rate control.
    fn settle(&mut self) {
        while let Some(first) = self.intervals.front()
            && first.ends_ns.is_some()
            && first.open == 0
            && let Some(over) = self.intervals.pop_front()
        {
            self.first_interval += 1;
            self.control.result(over.what, &over.seen);
        }
    }

    fn landed(&mut self, flying: &Flying, rtt_ns: Option<u64>) {
        // The interval exists as long as one of its packets has no outcome.
        let at = (flying.interval - self.first_interval) as usize;
        let Some(running) = self.intervals.get_mut(at) else {
            return;
        };
        running.open -= 1;
        match rtt_ns {
            Some(rtt_ns) => {
                running.seen.confirmed += 1;
                let at = (flying.sent_ns - running.began_ns) as f64 / 1e9;
                running.seen.rtts.push((at, rtt_ns as f64 / 1e9));
            }
            None => running.seen.lost += 1,
        }
    }

    /// Takes a received confirmation.
    pub fn handle(&mut self, now_ns: u64, confirmation: &Confirmation) {
        // Bytes that were never sent cannot be confirmed.
        let offset = confirmation.offset.min(self.next_offset);
        self.confirmed_offset = self.confirmed_offset.max(offset);
        self.last_heard_ns = now_ns;
        self.backoff = 0;
        for &(first, last) in &confirmation.ranges {
            let numbers: Vec<u64> = self.flying.range(first..=last).map(|(n, _)| *n).collect();
            for number in numbers {
                let Some(flying) = self.flying.remove(&number) else {
                    continue;
                };
                let rtt_ns = now_ns.saturating_sub(flying.sent_ns);
                if number == confirmation.number {
                    self.measured(rtt_ns);
                }
                self.landed(&flying, Some(rtt_ns));
            }
        }
        let highest = confirmation.ranges.first().map_or(0, |r| r.1);
        let gone: Vec<u64> = self
            .flying
            .range(..highest.saturating_sub(REORDER - 1))
            .map(|(n, _)| *n)
            .collect();
        self.lose(&gone);
        self.settle();
    }

    fn measured(&mut self, rtt_ns: u64) {
        if self.srtt_ns == 0 {
            (self.srtt_ns, self.rttvar_ns) = (rtt_ns, rtt_ns / 2);
            return;
        }
        self.rttvar_ns = (3 * self.rttvar_ns + self.srtt_ns.abs_diff(rtt_ns)) / 4;
        self.srtt_ns = (7 * self.srtt_ns + rtt_ns) / 8;
    }

    fn lose(&mut self, numbers: &[u64]) {
        for number in numbers {
            if let Some(flying) = self.flying.remove(number) {
                self.stats.lost += 1;
                self.again.push_back((flying.offset, flying.len));
                self.landed(&flying, None);
            }
        }
    }

    /// Returns the instant at which the sender must be polled again.
    pub fn poll_timeout(&self) -> Option<u64> {
        if self.is_done() {
            return None;
        }
        let silence = self.last_heard_ns + self.timeout_ns();
        let ahead = self.next_offset - self.confirmed_offset >= MAX_AHEAD;
        let more = !self.again.is_empty() || (self.next_offset < self.end && !ahead);
        match (more, self.flying.is_empty()) {
            (true, true) => Some(self.next_send_ns),
            (true, false) => Some(self.next_send_ns.min(silence)),
            (false, _) => Some(silence),
        }
    }

    /// Handles the passage of time: after a long silence everything in flight counts as lost.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        if self.flying.is_empty() || now_ns < self.last_heard_ns + self.timeout_ns() {
            return;
        }
        self.backoff += 1;
        self.last_heard_ns = now_ns;
        let all: Vec<u64> = self.flying.keys().copied().collect();
        self.lose(&all);
        self.settle();
    }
}
