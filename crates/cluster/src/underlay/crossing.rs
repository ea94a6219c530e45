//! Both ends of the path between two machines, without sockets: the sender labels frames, and the receiver checks them.
//!
//! An edge is served once, on the machine of its sender. Service, queue, loss and delay are complete in virtual time when a
//! frame is handed to [`Sender::send`], together with the instant at which it is due in the far node. The frame leaves at
//! once, earlier than due by the time that the delay line would have kept it, and waits on the other machine until it is
//! due. The delay between the machines is thus hidden in the delay of the edge. A frame that arrives after its instant is
//! delivered at once and counted: the edge is shorter than the delay between the machines.

use constel_link::PortId;
use serde::Serialize;

use crate::underlay::arrivals::{ArrivalOrder, Arrivals};
use crate::underlay::frame::{FrameError, Label, pack, unpack};
use crate::underlay::seal::Cipher;

/// The end that sends to one other machine.
#[derive(Debug, Clone)]
pub struct Sender {
    lab: u32,
    session: u32,
    sequence: u32,
    cipher: Option<Cipher>,
}

impl Sender {
    /// Sends frames of the lab with this number, of which 24 bits are used. `session` identifies the run of the lab, and is
    /// the same on all its machines.
    #[must_use]
    pub fn new(lab: u32, session: u32) -> Self {
        Self {
            lab: lab & 0x00ff_ffff,
            session,
            sequence: 0,
            cipher: None,
        }
    }

    /// Encrypts all frames, if there is a cipher.
    #[must_use]
    pub fn sealed(self, cipher: Option<Cipher>) -> Self {
        Self { cipher, ..self }
    }

    /// Writes the datagram of a frame that has passed its edge into `out`. `token` gives this machine the right to send for
    /// the node.
    pub fn send(
        &mut self,
        edge: (PortId, PortId),
        due_ns: u64,
        token: u32,
        frame: &[u8],
        out: &mut Vec<u8>,
    ) {
        let label = Label {
            lab: self.lab,
            from: edge.0,
            to: edge.1,
            sequence: self.sequence,
            token,
            session: self.session,
            due_ns,
        };
        self.sequence = self.sequence.wrapping_add(1);
        pack(&label, frame, out);
        if let Some(cipher) = &self.cipher {
            cipher.seal(out);
        }
    }
}

/// The owner of a port, as the receiver knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortOwner {
    /// The node is on this machine.
    Ours,
    /// The node is on another machine, which sends for it with this token.
    Machine(usize, u32),
    /// There is no such port, or no machine has its node.
    Nobody,
}

/// A frame to deliver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due<'f> {
    /// The instant at which it is due, nanoseconds of the lab's clock. In the past for late frames.
    pub at_ns: u64,
    /// Source port.
    pub from: PortId,
    /// Destination port.
    pub port: PortId,
    /// The frame.
    pub frame: &'f [u8],
}

/// The reason why a datagram was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is not a frame of Constel.
    #[error(transparent)]
    NotOurs(#[from] FrameError),
    /// It is not encrypted with the other machine's key.
    #[error("it is not sealed by the other machine")]
    NotSealed,
    /// It belongs to another lab.
    #[error("a frame of lab {0}")]
    OtherLab(u32),
    /// The destination port is not on this machine.
    #[error("port {0} is not here")]
    NotHere(u32),
    /// The sender does not have, or no longer has, the node of the source port.
    #[error("port {0} is not the sender's")]
    NotTheirs(u32),
    /// It belongs to another run of the lab.
    #[error("a frame of session {0}")]
    OtherSession(u32),
    /// The number is far ahead of all others, and the next number has not followed yet.
    #[error("its number is far ahead")]
    Astray,
    /// It arrived before.
    #[error("it came before")]
    Copy,
    /// It is so late that a copy cannot be recognised any more.
    #[error("it came far too late")]
    Forgotten,
}

/// Counters of the frames from one other machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct CrossingCounts {
    /// Frames that arrived, without copies.
    pub arrived: u64,
    /// Frames that were sent and did not arrive, or were refused: lost between the machines.
    pub lost: u64,
    /// Frames that overtook others between the machines. They are delivered when due, so nodes see the right order.
    pub reordered: u64,
    /// Datagrams that arrived again. They are dropped.
    pub copies: u64,
    /// Datagrams refused for another reason: a port or right that the machine does not have, another session, a number too
    /// old to recognise copies, a number far ahead of all others, or an unencrypted frame where frames are encrypted.
    pub refused: u64,
    /// Frames that arrived after they were due, because their edge is shorter than the delay between the machines.
    pub late: u64,
    /// Maximum lateness, nanoseconds.
    pub latest_ns: u64,
    /// Shortest time that a frame waited until due, nanoseconds. The delay between the machines may grow by this much.
    /// `None` if no frame arrived in time.
    pub least_wait_ns: Option<u64>,
}

/// The end that receives from one other machine.
#[derive(Debug, Clone)]
pub struct Receiver {
    lab: u32,
    machine: usize,
    session: u32,
    arrivals: Arrivals,
    /// The counters that do not follow from sequence numbers.
    counts: CrossingCounts,
    cipher: Option<Cipher>,
}

impl Receiver {
    /// Receives frames of the lab with this number and session from `machine`.
    #[must_use]
    pub fn new(lab: u32, session: u32, machine: usize) -> Self {
        Self {
            lab: lab & 0x00ff_ffff,
            machine,
            session,
            arrivals: Arrivals::new(),
            counts: CrossingCounts::default(),
            cipher: None,
        }
    }

    /// Accepts only frames encrypted for it, if there is a cipher.
    #[must_use]
    pub fn sealed(self, cipher: Option<Cipher>) -> Self {
        Self { cipher, ..self }
    }

    /// Checks a datagram that arrived at `now_ns` of the lab's clock, and decrypts it in place. Drops frames of nodes that
    /// the other machine does not have (any more) and frames for ports that are not on this machine.
    ///
    /// # Errors
    /// The reason for a drop, which is also counted.
    pub fn receive<'f>(
        &mut self,
        datagram: &'f mut [u8],
        now_ns: u64,
        whose: impl Fn(PortId) -> PortOwner,
    ) -> Result<Due<'f>, Refused> {
        let judged = self.judged(datagram, whose);
        let counts = &mut self.counts;
        match &judged {
            // Copies are counted by their sequence numbers.
            Err(Refused::Copy) => {}
            Err(_) => counts.refused += 1,
            Ok(due) if due.at_ns < now_ns => {
                counts.late += 1;
                counts.latest_ns = counts.latest_ns.max(now_ns - due.at_ns);
            }
            Ok(due) => {
                let wait_ns = due.at_ns - now_ns;
                let least_ns = counts.least_wait_ns.unwrap_or(wait_ns);
                counts.least_wait_ns = Some(wait_ns.min(least_ns));
            }
        }
        judged
    }

    fn judged<'f>(
        &mut self,
        datagram: &'f mut [u8],
        whose: impl Fn(PortId) -> PortOwner,
    ) -> Result<Due<'f>, Refused> {
        let length = match &self.cipher {
            Some(cipher) => cipher.open(datagram).ok_or(Refused::NotSealed)?,
            None => datagram.len(),
        };
        let (label, frame) = unpack(&datagram[..length])?;
        // These checks are cheap and keep frames of another run from changing any state.
        if label.lab != self.lab {
            return Err(Refused::OtherLab(label.lab));
        }
        if label.session != self.session {
            return Err(Refused::OtherSession(label.session));
        }
        // Machines move nodes after a loss, so both ends are compared with the present owners.
        if whose(label.to) != PortOwner::Ours {
            return Err(Refused::NotHere(label.to.0));
        }
        // The token fences a machine that was declared lost and still sends: its nodes now have another owner and
        // token.
        if whose(label.from) != PortOwner::Machine(self.machine, label.token) {
            return Err(Refused::NotTheirs(label.from.0));
        }
        // A datagram changes the remembered numbers only after all other checks. Without encryption any host on the underlay
        // can write numbers, and one taken from a forged frame would make true frames count as copies.
        match self.arrivals.came(label.sequence) {
            ArrivalOrder::InOrder | ArrivalOrder::Overtaken => {}
            ArrivalOrder::Again => return Err(Refused::Copy),
            ArrivalOrder::Forgotten => return Err(Refused::Forgotten),
            ArrivalOrder::Astray => return Err(Refused::Astray),
        }
        Ok(Due {
            at_ns: label.due_ns,
            from: label.from,
            port: label.to,
            frame,
        })
    }

    /// Returns the counters so far.
    #[must_use]
    pub fn counts(&self) -> CrossingCounts {
        CrossingCounts {
            arrived: self.arrivals.arrived,
            lost: self.arrivals.missing,
            reordered: self.arrivals.reordered,
            copies: self.arrivals.copies,
            ..self.counts
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FRAME: [u8; 60] = [7; 60];

    /// Ports below 100 are on this machine, and those below 200 on the other machine with token 5.
    fn whose(port: PortId) -> PortOwner {
        match port.0 {
            0..100 => PortOwner::Ours,
            100..200 => PortOwner::Machine(1, 5),
            200..300 => PortOwner::Machine(2, 5),
            _ => PortOwner::Nobody,
        }
    }

    fn datagram(sender: &mut Sender, edge: (u32, u32), due_ns: u64, token: u32) -> Vec<u8> {
        let mut out = Vec::new();
        sender.send(
            (PortId(edge.0), PortId(edge.1)),
            due_ns,
            token,
            &FRAME,
            &mut out,
        );
        out
    }

    #[test]
    fn no_frame_reaches_a_port_by_somebody_who_may_not() {
        let (mut sender, mut receiver) = (Sender::new(9, 1), Receiver::new(9, 1, 1));
        let mut told = |edge, token| {
            let mut bytes = datagram(&mut sender, edge, 10, token);
            receiver
                .receive(&mut bytes, 0, whose)
                .map(|due| (due.port, due.at_ns, due.frame.to_vec()))
        };
        assert_eq!(told((150, 50), 5), Ok((PortId(50), 10, FRAME.to_vec())));
        assert_eq!(
            told((150, 150), 5),
            Err(Refused::NotHere(150)),
            "a port of another machine"
        );
        assert_eq!(
            told((150, 999), 5),
            Err(Refused::NotHere(999)),
            "a port of nobody"
        );
        assert_eq!(
            told((250, 50), 5),
            Err(Refused::NotTheirs(250)),
            "a node of a third machine"
        );
        assert_eq!(
            told((50, 50), 5),
            Err(Refused::NotTheirs(50)),
            "a node of ours"
        );
        assert_eq!(
            told((150, 50), 4),
            Err(Refused::NotTheirs(150)),
            "a right that is over"
        );
        let mut stranger = datagram(&mut Sender::new(8, 1), (150, 50), 10, 5);
        assert_eq!(
            receiver.receive(&mut stranger, 0, whose),
            Err(Refused::OtherLab(8))
        );
        assert_eq!(
            receiver.receive(&mut [8; 20], 0, whose),
            Err(Refused::NotOurs(FrameError::Short))
        );
        let counts = receiver.counts();
        assert_eq!((counts.arrived, counts.refused, counts.lost), (1, 7, 0));
    }

    /// An attacker on the segment can send datagrams from the other machine's address, and has seen its frames.
    #[test]
    fn a_forged_datagram_costs_no_true_frame() {
        let forged = |session, sequence, edge: (u32, u32), token| {
            let mut bytes = Vec::new();
            let label = Label {
                lab: 9,
                from: PortId(edge.0),
                to: PortId(edge.1),
                sequence,
                token,
                session,
                due_ns: 10,
            };
            pack(&label, &FRAME, &mut bytes);
            bytes
        };
        // The next accepted number is 10.
        for (what, mut forged) in [
            ("later session, no port", forged(2, 10, (150, 9_999), 5)),
            ("later session, right ports", forged(2, 10, (150, 50), 5)),
            ("former session", forged(0, 10, (150, 50), 5)),
            ("next number, no port", forged(1, 10, (150, 9_999), 5)),
            ("next number, no right", forged(1, 10, (150, 50), 4)),
            ("number far ahead", forged(1, 1 << 30, (150, 50), 5)),
            ("number half round", forged(1, 1 << 31, (150, 50), 5)),
            ("number behind", forged(1, u32::MAX - 9_000, (150, 50), 5)),
        ] {
            let (mut sender, mut receiver) = (Sender::new(9, 1), Receiver::new(9, 1, 1));
            for number in 0..10_000 {
                if number == 10 {
                    let answer = receiver.receive(&mut forged, 0, whose);
                    assert!(answer.is_err(), "{what}: {answer:?}");
                }
                let mut bytes = datagram(&mut sender, (150, 50), 10, 5);
                let due = receiver.receive(&mut bytes, 0, whose).map(|due| due.port);
                assert_eq!(due, Ok(PortId(50)), "{what}: frame {number}");
            }
            let counts = receiver.counts();
            assert_eq!(
                (counts.arrived, counts.lost, counts.refused, counts.copies),
                (10_000, 0, 1, 0),
                "{what}"
            );
        }
    }

    #[test]
    fn frames_after_a_long_silence_are_taken_once_a_second_one_follows() {
        let (mut sender, mut receiver) = (Sender::new(9, 1), Receiver::new(9, 1, 1));
        let mut heard = |is_lost: bool| {
            let mut bytes = datagram(&mut sender, (150, 50), 10, 5);
            let due =
                (!is_lost).then(|| receiver.receive(&mut bytes, 0, whose).map(|due| due.port));
            (due, receiver.counts())
        };
        assert_eq!(heard(false).0, Some(Ok(PortId(50))));
        for _ in 0..10_000 {
            heard(true);
        }
        assert_eq!(heard(false).0, Some(Err(Refused::Astray)));
        let (due, counts) = heard(false);
        assert_eq!(due, Some(Ok(PortId(50))));
        assert_eq!(
            (counts.arrived, counts.lost, counts.refused),
            (2, 10_001, 1)
        );
    }

    #[test]
    fn copies_are_not_delivered() {
        let (mut sender, mut receiver) = (Sender::new(9, 1), Receiver::new(9, 1, 1));
        let mut bytes = datagram(&mut sender, (150, 50), 10, 5);
        assert!(receiver.receive(&mut bytes, 4, whose).is_ok());
        assert_eq!(receiver.receive(&mut bytes, 4, whose), Err(Refused::Copy));
        let counts = receiver.counts();
        assert_eq!((counts.arrived, counts.copies, counts.refused), (1, 1, 0));
        assert_eq!(counts.least_wait_ns, Some(6));
    }

    proptest! {
        /// The total delay is the edge's own for any smaller delay between the machines. A larger one is counted with its
        /// amount. Losses and reordering between the machines are detected.
        #[test]
        fn the_way_is_hidden_in_the_edge(
            ways in prop::collection::vec((0_u64..6_000, prop::bool::weighted(0.05)), 1..300),
        ) {
            const EDGE_NS: u64 = 5_000;
            const SPACING_NS: u64 = 100;
            let (mut sender, mut receiver) = (Sender::new(1, 1), Receiver::new(1, 1, 1));
            let mut under_way = Vec::new();
            for (number, (one_way_ns, is_lost)) in (0..).zip(&ways) {
                let sent_ns = number * SPACING_NS;
                let bytes = datagram(&mut sender, (150, 50), sent_ns + EDGE_NS, 5);
                if !is_lost {
                    under_way.push((sent_ns + one_way_ns, number, bytes));
                }
            }
            under_way.sort();
            let (mut late, mut latest_ns, mut seen) = (0, 0, 0);
            for (at_ns, number, bytes) in &mut under_way {
                let (at_ns, number) = (*at_ns, *number);
                let due = receiver.receive(bytes, at_ns, whose);
                // The frame precedes the first one that arrived.
                let Ok(due) = due else {
                    prop_assert_eq!(due, Err(Refused::Forgotten));
                    continue;
                };
                seen += 1;
                prop_assert_eq!(due.at_ns, number * SPACING_NS + EDGE_NS);
                let by_ns = at_ns.saturating_sub(due.at_ns);
                late += u64::from(by_ns > 0);
                latest_ns = latest_ns.max(by_ns);
            }
            let counts = receiver.counts();
            prop_assert_eq!((counts.arrived, counts.late, counts.latest_ns), (seen, late, latest_ns));
            prop_assert!(counts.lost <= ways.len() as u64 - seen);
        }
    }
}
