//! Deduction of the time that a node's stack takes to forward a frame: the frame enters its next edge at the instant at
//! which it was due at the node, as if the node had no stack.
//!
//! The time is deducted only if it is known: the same packet that was delivered to a node leaves it again during the
//! delivery. Then all of the kernel's work on it lies within that system call. A packet that leaves later waited for
//! something in the node (a queue discipline, a program), and a different packet is the node's own; both enter when
//! they were sent.
//!
//! No frame becomes early by this, because the sum of its edges' delays counts from its due time. If the stack took
//! longer than the edge's delay, the frame is late there and counted as late. A thread that is far behind keeps part of
//! its lateness ([`OWN_LATE_NS`]): a flood that falls behind hop by hop must not overtake frames that are on time.

use constel_link::{Histogram, Nanos, PortId};

/// Lateness up to this limit is compensated on the next edge; the excess delays the packet.
const OWN_LATE_NS: Nanos = 200_000;
/// Number of packets remembered: more than a thread sends before it takes in the frames that result.
const PLACES: usize = 1024;
/// Number of bytes behind the network header that distinguish packets.
const TRANSPORT: usize = 24;

/// Identifies a packet at a node, equally before and after it was forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(u64);

/// Time in which a packet was delivered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) from_ns: Nanos,
    pub(crate) until_ns: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Given {
    mark: Mark,
    due_ns: Nanos,
    window: Window,
}

/// The thread's state.
#[derive(Debug)]
pub(crate) struct Passed {
    /// By port, its node.
    nodes: Vec<u32>,
    given: Vec<Option<Given>>,
    /// Instant at which the last frame of each port entered: the frames of a port stay in order.
    last_ns: Vec<Nanos>,
    /// Deducted times, frame by frame.
    off: Histogram,
    /// Limit of the compensated lateness of a delivery.
    own_late_ns: Nanos,
}

impl Passed {
    /// Creates the state. `nodes` has, by port, the number of its node. With a grain, frames are usually up to one
    /// grain late.
    pub(crate) fn new(nodes: Vec<u32>, grain_ns: Nanos) -> Passed {
        Passed {
            given: vec![None; PLACES],
            last_ns: vec![0; nodes.len()],
            nodes,
            off: Histogram::new(),
            own_late_ns: OWN_LATE_NS + grain_ns,
        }
    }

    /// Returns the mark of a packet from or to a port of a node; `bytes` begin at the EtherType. `None`: a node would
    /// not forward the packet unchanged.
    pub(crate) fn mark(&self, port: PortId, bytes: &[u8]) -> Option<Mark> {
        let node = self.nodes.get(port.0 as usize)?;
        let mut mix = Mix(u64::from(*node));
        match bytes {
            [0x08, 0x00, ip @ ..] => {
                let header: &[u8; 20] = ip.first_chunk()?;
                // Without type of service, TTL and checksum, which routers change.
                mix.word(u64::from(header[0]) << 32 | u64::from(be32(header, 4)));
                mix.word(u64::from(be32(header, 12)) << 32 | u64::from(be32(header, 16)));
                let len = u16::from_be_bytes([header[2], header[3]]);
                mix.word(u64::from(header[9]) << 16 | u64::from(len));
                mix.bytes(&ip[20..ip.len().min(20 + TRANSPORT)]);
            }
            [0x86, 0xdd, ip @ ..] => {
                let header: &[u8; 40] = ip.first_chunk()?;
                // Length and next header, without the hop limit; the flow label.
                mix.word(
                    u64::from(be32(header, 4) >> 8) << 32 | u64::from(be32(header, 0) & 0xf_ffff),
                );
                mix.bytes(&header[8..]);
                mix.bytes(&ip[40..ip.len().min(40 + TRANSPORT)]);
            }
            _ => return None,
        }
        Some(Mark(mix.0))
    }

    /// Records that a packet, due at `due_ns`, was delivered within this time.
    pub(crate) fn gave(&mut self, mark: Mark, due_ns: Nanos, window: Window) {
        let place = &mut self.given[mark.0 as usize % PLACES];
        let due_ns = match place {
            // Equal packets in the same delivery cannot be told apart when they leave, so the later due time is used
            // for both.
            Some(same) if same.mark == mark && same.window.from_ns == window.from_ns => {
                same.due_ns.max(due_ns)
            }
            _ => due_ns,
        };
        // A packet that was in this place before is not recognised any more.
        *place = Some(Given {
            mark,
            due_ns,
            window,
        });
    }

    /// Returns when a frame that a port sent at `ts_ns` enters its edges. `mark` identifies the frame if the node sent
    /// it during a delivery.
    pub(crate) fn enters(&mut self, port: PortId, ts_ns: Nanos, mark: Option<Mark>) -> Nanos {
        let given = mark.and_then(|mark| {
            let given = self.given[mark.0 as usize % PLACES].as_ref()?;
            let Window { from_ns, until_ns } = given.window;
            let it = given.mark == mark && (from_ns..=until_ns).contains(&ts_ns);
            it.then(|| given.due_ns.max(from_ns.saturating_sub(self.own_late_ns)))
        });
        let last_ns = self.last_ns.get_mut(port.0 as usize);
        let last = last_ns.as_ref().map_or(0, |last| **last);
        // Not before the port's previous frame, and not later than it was sent.
        let at_ns = given.map_or(ts_ns, |due_ns| due_ns.max(last).min(ts_ns));
        if given.is_some() {
            self.off.record(ts_ns - at_ns);
        }
        if let Some(last_ns) = last_ns {
            *last_ns = at_ns.max(last);
        }
        at_ns
    }

    /// Resets the record of deducted times.
    pub(crate) fn clear(&mut self) {
        self.off.clear();
    }

    /// Returns the times deducted from forwarded frames.
    pub(crate) fn off(&self) -> &Histogram {
        &self.off
    }
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(std::array::from_fn(|n| bytes[at + n]))
}

/// A hash without protection against chosen packets: a sender of colliding packets delays only its own.
struct Mix(u64);

impl Mix {
    fn word(&mut self, word: u64) {
        let wide = u128::from(self.0 ^ word ^ 0x243f_6a88_85a3_08d3)
            * u128::from(0x9e37_79b9_7f4a_7c15_u64);
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Nanos = 1_000;
    const IN: PortId = PortId(1);
    const OUT: PortId = PortId(2);

    /// Ports 1 and 2 are of one node.
    fn passed(grain_ns: Nanos) -> Passed {
        Passed::new(vec![0, 1, 1, 2], grain_ns)
    }

    fn v4(hops: u8, id: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![
            8,
            0,
            0x45,
            0,
            0,
            20 + payload.len() as u8,
            0,
            id,
            0x40,
            0,
            hops,
            17,
        ];
        packet.extend([hops, 9, 10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend(payload);
        packet
    }

    fn v6(hops: u8, class: u8, last: u8) -> Vec<u8> {
        let mut packet = vec![0x86, 0xdd, 0x60 | class, 0, 0, 7, 0, 8, 17, hops];
        packet.extend([0xfd; 31]);
        packet.extend([last, 1, 2, 3, 4, 5, 6, 7, 8]);
        packet
    }

    #[test]
    fn a_mark_is_the_packets_and_the_nodes() {
        let passed = passed(0);
        let of = |port, bytes: &[u8]| passed.mark(port, bytes).unwrap().0;
        let one = of(IN, &v4(64, 1, b"payload"));
        assert_eq!(of(OUT, &v4(63, 1, b"payload")), one, "a hop further");
        let other = [
            of(PortId(3), &v4(63, 1, b"payload")),
            of(PortId(0), &v4(63, 1, b"payload")),
            of(OUT, &v4(63, 2, b"payload")),
            of(OUT, &v4(63, 1, b"Payload")),
            of(OUT, &v4(63, 1, b"payload.")),
        ];
        assert!(!other.contains(&one));
        let one = of(IN, &v6(64, 0, 9));
        assert_eq!(of(OUT, &v6(63, 2, 9)), one, "marked on its way");
        assert_ne!(of(OUT, &v6(63, 0, 8)), one);
        for nothing in [
            &b"\x08\x06arp"[..],
            &v4(1, 1, b"")[..21],
            &v6(1, 0, 1)[..41],
            b"",
            b"\x08",
        ] {
            assert_eq!(passed.mark(IN, nothing), None);
        }
    }

    /// One that was due at 100 us, handed over from 103 to 110.
    fn given(passed: &mut Passed, packet: &[u8], due_us: u64) -> Option<Mark> {
        let mark = passed.mark(IN, packet);
        let window = Window {
            from_ns: 103 * US,
            until_ns: 110 * US,
        };
        passed.gave(mark.unwrap(), due_us * US, window);
        mark
    }

    #[test]
    fn what_comes_out_while_it_is_handed_over_enters_when_it_was_due() {
        let mut passed = passed(0);
        let mark = given(&mut passed, &v4(64, 1, b"one"), 100);
        assert_eq!(passed.enters(OUT, 108 * US, mark), 100 * US);
        let other = passed.mark(OUT, &v4(63, 1, b"two"));
        assert_eq!(
            passed.enters(OUT, 108 * US, other),
            108 * US,
            "another packet"
        );
        assert_eq!(passed.enters(OUT, 109 * US, mark), 108 * US, "in order");
        assert_eq!(
            passed.enters(OUT, 109 * US, None),
            109 * US,
            "the node's own"
        );
        let mark = given(&mut passed, &v4(64, 3, b"one"), 100);
        assert_eq!(passed.enters(IN, 111 * US, mark), 111 * US, "it waited");
        assert_eq!(
            passed.enters(IN, 102 * US, mark),
            102 * US,
            "not yet handed over"
        );
        let off = passed.off().quantiles();
        assert_eq!((off.count, off.max_ns), (2, 8 * US));
    }

    #[test]
    fn of_packets_alike_in_one_call_the_last_counts() {
        let mut passed = passed(0);
        let packet = v4(64, 0, b"the same");
        given(&mut passed, &packet, 100);
        let mark = given(&mut passed, &packet, 102);
        given(&mut passed, &packet, 101);
        assert_eq!(passed.enters(OUT, 104 * US, mark), 102 * US);
        assert_eq!(passed.enters(OUT, 105 * US, mark), 102 * US);
        // In a later call only that one.
        let window = Window {
            from_ns: 203 * US,
            until_ns: 210 * US,
        };
        passed.gave(mark.unwrap(), 200 * US, window);
        assert_eq!(passed.enters(OUT, 205 * US, mark), 200 * US);
    }

    #[test]
    fn what_a_thread_is_far_behind_by_stays() {
        let mut late = passed(0);
        let mark = late.mark(IN, &v4(64, 0, b"late"));
        let window = Window {
            from_ns: 10_000 * US,
            until_ns: 10_010 * US,
        };
        late.gave(mark.unwrap(), 5_000 * US, window);
        assert_eq!(late.enters(OUT, 10_004 * US, mark), 9_800 * US);
        let mut grained = passed(500 * US);
        let mark = grained.mark(IN, &v4(64, 0, b"late"));
        grained.gave(mark.unwrap(), 5_000 * US, window);
        assert_eq!(grained.enters(OUT, 10_004 * US, mark), 9_300 * US);
    }
}
