//! The probes that wait for an answer. Pure: instants are arguments, all of one clock except those of a destination
//! on another machine.

use std::collections::VecDeque;

use crate::probe::row::{Fate, Row};

/// The number of probes that are remembered. A probe is given up when it has no answer and this many later ones
/// were sent.
pub const REMEMBERED: usize = 65_536;

/// The longest holding time that is subtracted. The responder holds a probe for some microseconds, on a busy host
/// for milliseconds; that time does not belong to the network and is subtracted. A responder that holds a probe
/// longer than this was stopped or starved: its answer is late, and nothing is subtracted.
pub const HELD_AT_MOST_NS: u64 = 100_000_000;

/// A probe that was sent.
#[derive(Debug, Clone, Copy)]
struct Sent {
    at_ns: u64,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Answered,
    Unsent,
}

/// Probes and their answers. It takes at most 24 bytes for each of [`REMEMBERED`].
#[derive(Debug, Default)]
pub struct Book {
    /// The remembered probes; the last one sent is the last element.
    probes: VecDeque<Sent>,
    /// The number of probes sent in all, which is the number of the last one.
    sent: u64,
    /// The highest number that was answered.
    highest: u64,
    /// The longest round trip so far, the time in the answering program included.
    longest_ns: u64,
    /// Whether the destination has another clock.
    is_apart: bool,
}

impl Book {
    /// Creates a book for a destination with another clock: of an answer only the round trip is known.
    #[must_use]
    pub fn apart() -> Self {
        Self {
            is_apart: true,
            ..Self::default()
        }
    }

    /// Records that the next probe is sent at this instant. Returns its number and, if an older probe is given up
    /// for it, that probe's row.
    pub fn sent(&mut self, at_ns: u64) -> (u64, Option<Row>) {
        let given_up = if self.probes.len() == REMEMBERED {
            self.forget()
        } else {
            None
        };
        self.sent += 1;
        self.probes.push_back(Sent {
            at_ns,
            state: State::Waiting,
        });
        (self.sent, given_up)
    }

    /// Records that the last probe could not be sent.
    pub fn unsent(&mut self) -> Option<Row> {
        let last = self.probes.back_mut()?;
        last.state = State::Unsent;
        Some(row(self.sent, *last, Fate::Unsent))
    }

    /// Records an answer to the probe with this number (its lower half): when the probe arrived at the destination,
    /// when the answer arrived here, and how long the responder held it. Returns `None` when no such probe is
    /// remembered, or when the instants contradict each other, as in a datagram that does not belong to this book.
    pub fn answered(
        &mut self,
        seq: u32,
        arrived_ns: u64,
        back_at_ns: u64,
        held_ns: u32,
    ) -> Option<Row> {
        // Fewer than 2^32 probes are remembered, so that the lower half of the number is unique among them.
        let age = (self.sent as u32).wrapping_sub(seq) as usize;
        let index = self.probes.len().checked_sub(age.checked_add(1)?)?;
        let seq = self.sent - age as u64;
        let probe = self.probes.get_mut(index)?;
        let took_ns = back_at_ns.checked_sub(probe.at_ns)?;
        let held_ns = u64::from(held_ns);
        let there_and_back_ns = took_ns.checked_sub(held_ns)?;
        let is_late = held_ns > HELD_AT_MOST_NS;
        let rtt_ns = if is_late { took_ns } else { there_and_back_ns };
        let there_ns = match self.is_apart {
            true => None,
            false => {
                let there_ns = arrived_ns.checked_sub(probe.at_ns);
                Some(there_ns.filter(|there_ns| *there_ns <= there_and_back_ns)?)
            }
        };
        let fate = match probe.state {
            State::Unsent => return None,
            State::Answered => Fate::Duplicate,
            State::Waiting if is_late => Fate::Late,
            State::Waiting if seq < self.highest => Fate::Reordered,
            State::Waiting => Fate::Ok,
        };
        probe.state = State::Answered;
        self.highest = self.highest.max(seq);
        self.longest_ns = self.longest_ns.max(took_ns);
        Some(Row {
            there_ns,
            back_ns: there_ns.map(|there_ns| rtt_ns - there_ns),
            rtt_ns: Some(rtt_ns),
            ..row(seq, *probe, fate)
        })
    }

    /// Ends probing at this instant and returns the rows of all probes without an answer.
    pub fn end(mut self, now_ns: u64) -> impl Iterator<Item = Row> {
        let known_until_ns = now_ns.saturating_sub(self.longest_ns);
        std::iter::from_fn(move || {
            while let Some(first) = self.probes.front() {
                let fresh = first.at_ns > known_until_ns;
                if let Some(row) = self.forget() {
                    let fate = if fresh { Fate::UnderWay } else { Fate::Lost };
                    return Some(Row { fate, ..row });
                }
            }
            None
        })
    }

    /// Forgets the oldest probe and returns its row if the probe is lost.
    fn forget(&mut self) -> Option<Row> {
        let seq = self.sent + 1 - self.probes.len() as u64;
        let probe = self.probes.pop_front()?;
        (probe.state == State::Waiting).then(|| row(seq, probe, Fate::Lost))
    }
}

fn row(seq: u64, probe: Sent, fate: Fate) -> Row {
    Row {
        seq,
        sent_ns: probe.at_ns,
        there_ns: None,
        back_ns: None,
        rtt_ns: None,
        fate,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Ten probes, one each 10 ms from 10 ms on; numbers answered are answered 4 ms + 5 ms after they were sent.
    fn book(answered: &[u64]) -> (Book, Vec<Row>) {
        let mut book = Book::default();
        for k in 1..=10 {
            assert_eq!(book.sent(k * 10 * MS), (k, None));
        }
        let rows = answered.iter().map(|&k| {
            let at = k * 10 * MS;
            book.answered(k as u32, at + 4 * MS, at + 9 * MS, 0)
                .unwrap()
        });
        let rows = rows.collect();
        (book, rows)
    }

    #[test]
    fn each_probe_has_one_fate() {
        let (mut book, rows) = book(&[1, 2, 4, 3, 4, 8]);
        let fates: Vec<_> = rows.iter().map(|row| (row.seq, row.fate)).collect();
        let expected = [
            (1, Fate::Ok),
            (2, Fate::Ok),
            (4, Fate::Ok),
            (3, Fate::Reordered),
            (4, Fate::Duplicate),
            (8, Fate::Ok),
        ];
        assert_eq!(fates, expected);
        assert_eq!(rows[0].rtt_ns, Some(9 * MS));
        assert_eq!(book.sent(110 * MS).0, 11);
        assert_eq!(book.unsent().unwrap().fate, Fate::Unsent);
        // The tenth was sent 5 ms before the end: less than the round trip of 9 ms.
        let rest: Vec<_> = book.end(105 * MS).map(|row| (row.seq, row.fate)).collect();
        let expected = [5, 6, 7, 9].map(|seq| (seq, Fate::Lost));
        assert_eq!(rest[..4], expected);
        assert_eq!(rest[4..], [(10, Fate::UnderWay)]);
    }

    #[test]
    fn strangers_and_contradictions_are_nobodys_answers() {
        let (mut book, _) = book(&[]);
        assert_eq!(book.answered(0, 14 * MS, 19 * MS, 0), None);
        assert_eq!(book.answered(11, 114 * MS, 119 * MS, 0), None);
        assert_eq!(book.answered(u32::MAX, 14 * MS, 19 * MS, 0), None);
        // Before it was sent; back before it was there; answered before it left.
        assert_eq!(book.answered(1, 9 * MS, 19 * MS, 0), None);
        assert_eq!(book.answered(1, 14 * MS, 13 * MS, 0), None);
        assert_eq!(book.answered(1, 14 * MS, 19 * MS, u32::MAX), None);
        let row = book.answered(1, 14 * MS, 19 * MS, 1_000).unwrap();
        assert_eq!(row.back_ns, Some(5 * MS - 1_000));
    }

    /// The program that answers was stopped for a second, and for longer than an answer can say.
    #[test]
    fn an_answer_that_was_held_for_long_is_late() {
        let (mut book, _) = book(&[]);
        let (sent_ns, there_ns) = (10 * MS, 4 * MS);
        let second = 1_000 * MS;
        let row = |book: &mut Book, seq, back_ns, held_ns| {
            book.answered(seq, sent_ns * u64::from(seq) + there_ns, back_ns, held_ns)
        };
        let late = row(&mut book, 1, second, 900_000_000).unwrap();
        assert_eq!(
            (late.fate, late.rtt_ns, late.there_ns, late.back_ns),
            (
                Fate::Late,
                Some(second - sent_ns),
                Some(there_ns),
                Some(second - sent_ns - there_ns)
            )
        );
        let longer = row(&mut book, 2, 9 * second, u32::MAX).unwrap();
        assert_eq!(longer.rtt_ns, Some(9 * second - 2 * sent_ns));
        assert_eq!(longer.fate, Fate::Late);
        // No longer than a busy host holds it.
        let held_ns = HELD_AT_MOST_NS as u32;
        let busy = row(&mut book, 3, second, held_ns).unwrap();
        assert_eq!(busy.rtt_ns, Some(second - 3 * sent_ns - HELD_AT_MOST_NS));
        assert_eq!(busy.fate, Fate::Ok);
    }

    /// Machines that were not started at one time: the goal's clock is hours ahead, or behind.
    #[test]
    fn a_goal_with_another_clock_is_as_far_as_there_and_back() {
        for arrived_ns in [3_600_000 * MS, 1] {
            let mut book = Book::apart();
            book.sent(10 * MS);
            let row = book.answered(1, arrived_ns, 19 * MS, 2_000_000).unwrap();
            assert_eq!((row.fate, row.rtt_ns), (Fate::Ok, Some(7 * MS)));
            assert_eq!((row.there_ns, row.back_ns), (None, None));
            // It was held for longer than it was away.
            assert_eq!(book.answered(1, arrived_ns, 11 * MS, 2_000_000), None);
        }
    }

    #[test]
    fn memory_is_bounded_and_numbers_go_on_beyond_32_bits() {
        let mut book = Book {
            sent: u64::from(u32::MAX) - 10,
            ..Book::default()
        };
        let first = book.sent + 1;
        let mut given_up = Vec::new();
        for k in 0..REMEMBERED as u64 + 100 {
            let (seq, row) = book.sent(k);
            assert_eq!(seq, first + k);
            given_up.extend(row);
            if k == 5 {
                book.answered(seq as u32, k + 1, k + 2, 0).unwrap();
            }
        }
        assert_eq!(book.probes.len(), REMEMBERED);
        // All of the first hundred but the one that was answered.
        assert_eq!(given_up.len(), 99);
        assert!(given_up.iter().all(|row| row.fate == Fate::Lost));
        assert_eq!(given_up[0].seq, first);
        let last = first + REMEMBERED as u64 + 99;
        let row = book.answered(last as u32, 1 << 40, 1 << 41, 0).unwrap();
        assert_eq!((row.seq, row.fate), (last, Fate::Ok));
        assert_eq!(book.answered(first as u32, 1 << 40, 1 << 41, 0), None);
    }
}
