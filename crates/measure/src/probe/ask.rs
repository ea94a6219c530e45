//! The sender of probes.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::probe::book::Book;
use crate::probe::packet::{HEAD, Head};
use crate::probe::row::{HEADER, Row};
use crate::probe::stamped::{Stamped, mono_ns};

/// The longest time that rows wait before they are written, nanoseconds.
const WRITTEN_WITHIN_NS: u64 = 100_000_000;

/// The parameters of probing: destination, interval, size and duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeOptions {
    /// The address of the responder.
    pub to: SocketAddr,
    /// Time between two probes, nanoseconds, more than 0.
    pub interval_ns: u64,
    /// Bytes of UDP payload in each, at least [`HEAD`].
    pub size: usize,
    /// The duration, nanoseconds.
    pub length_ns: u64,
    /// The instant of `CLOCK_MONOTONIC` that rows count from: lab time zero.
    pub zero_ns: u64,
    /// Whether the responder is on another machine, with a clock of its own.
    pub is_apart: bool,
}

/// Sends probes until the time is over or `stop` is set, and writes a row for each probe once its fate is known.
///
/// Probes leave at fixed intervals from the first one. When this program did not run for several intervals, it
/// sends one probe, and the missed intervals have none.
///
/// # Errors
/// When there is no socket, or rows cannot be written. A probe that cannot be sent is a row.
pub fn ask(ask: &ProbeOptions, stop: &AtomicBool, out: impl Write) -> io::Result<()> {
    let any: IpAddr = match ask.to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let mut socket = Stamped::bind(SocketAddr::new(any, 0))?;
    let mut rows = Rows::begin(out, ask.zero_ns)?;
    let mut book = match ask.is_apart {
        true => Book::apart(),
        false => Book::default(),
    };
    let mut datagram = vec![0; ask.size.max(HEAD)];
    let mut buffer = vec![0; ask.size.max(HEAD)];
    let interval_ns = ask.interval_ns.max(1);
    let begun_ns = mono_ns();
    let end_ns = begun_ns.saturating_add(ask.length_ns);
    let mut next_ns = begun_ns;
    while !stop.load(Ordering::Acquire) {
        while let Some(came) = socket.take(&mut buffer)? {
            if came.from != ask.to {
                continue;
            }
            let head = Head::read(&buffer[..came.length]);
            let row = head.and_then(|head| {
                book.answered(head.seq, head.arrived_ns, came.at_ns, head.held_ns)
            });
            rows.put(row)?;
        }
        let now_ns = mono_ns();
        if now_ns >= end_ns {
            break;
        }
        if now_ns >= next_ns {
            let at_ns = mono_ns();
            let (seq, given_up) = book.sent(at_ns);
            rows.put(given_up)?;
            let head = Head {
                seq: seq as u32,
                held_ns: 0,
                arrived_ns: 0,
            };
            head.write(&mut datagram);
            if socket.socket().send_to(&datagram, ask.to).is_err() {
                rows.put(book.unsent())?;
            }
            let beats = (now_ns - next_ns) / interval_ns + 1;
            next_ns = next_ns.saturating_add(beats.saturating_mul(interval_ns));
        }
        let until_ns = rows.write_due(now_ns)?.min(next_ns).min(end_ns);
        socket.wait(until_ns.saturating_sub(mono_ns()))?;
    }
    for row in book.end(mono_ns()) {
        rows.put(Some(row))?;
    }
    rows.out.flush()
}

/// The output of rows, and the time by which it must be flushed.
struct Rows<W: Write> {
    out: io::BufWriter<W>,
    zero_ns: u64,
    /// The time by which waiting rows must be written; `None` when no row waits.
    due_ns: Option<u64>,
}

impl<W: Write> Rows<W> {
    fn begin(out: W, zero_ns: u64) -> io::Result<Self> {
        let mut out = io::BufWriter::new(out);
        writeln!(out, "{HEADER}")?;
        out.flush()?;
        Ok(Self {
            out,
            zero_ns,
            due_ns: None,
        })
    }

    fn put(&mut self, row: Option<Row>) -> io::Result<()> {
        let Some(row) = row else { return Ok(()) };
        let row = Row {
            sent_ns: row.sent_ns.saturating_sub(self.zero_ns),
            ..row
        };
        self.due_ns
            .get_or_insert_with(|| mono_ns() + WRITTEN_WITHIN_NS);
        writeln!(self.out, "{row}")
    }

    /// Writes the rows that have waited long enough. Returns when it must be called again, nanoseconds.
    fn write_due(&mut self, now_ns: u64) -> io::Result<u64> {
        if self.due_ns.is_some_and(|due| due <= now_ns) {
            self.out.flush()?;
            self.due_ns = None;
        }
        Ok(self.due_ns.unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::answer::answer;
    use crate::probe::row::Fate;
    use std::net::UdpSocket;
    use std::sync::mpsc;

    fn rows(text: &[u8]) -> Vec<Row> {
        let text = std::str::from_utf8(text).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some(HEADER));
        lines.map(|line| line.parse().unwrap()).collect()
    }

    /// Both ends on the loopback interface, in either family: every probe is answered, on the beat.
    #[test]
    fn both_ends_over_loopback() {
        for at in ["127.0.0.1:0", "[::1]:0"] {
            // A free port.
            let at = UdpSocket::bind(at).unwrap().local_addr().unwrap();
            let stop = AtomicBool::new(false);
            let (ready, is_ready) = mpsc::channel();
            let asked = ProbeOptions {
                to: at,
                interval_ns: 5_000_000,
                size: 56,
                length_ns: 200_000_000,
                zero_ns: mono_ns(),
                is_apart: false,
            };
            let mut out = Vec::new();
            std::thread::scope(|scope| {
                let answering = scope.spawn(|| {
                    answer(at, &stop, || {
                        ready.send(()).unwrap();
                        Ok(())
                    })
                });
                is_ready.recv().unwrap();
                ask(&asked, &AtomicBool::new(false), &mut out).unwrap();
                stop.store(true, Ordering::Release);
                answering.join().unwrap().unwrap();
            });
            let rows = rows(&out);
            let answered = rows.iter().filter(|row| row.fate == Fate::Ok);
            assert!(
                answered.count() + 1 >= rows.len() && rows.len() > 3,
                "{rows:?}"
            );
            // One a beat at most, whenever a busy host lets it go.
            assert!(rows.len() <= 41, "{}", rows.len());
            for pair in rows.windows(2) {
                assert!(pair[1].sent_ns > pair[0].sent_ns, "{pair:?}");
            }
            let fastest = rows.iter().filter_map(|row| row.rtt_ns).min().unwrap();
            assert!((1..50_000_000).contains(&fastest), "{fastest}");
        }
    }

    /// The answering program pauses while its socket receives probes. Their answers are late by the pause, in either family,
    /// and also where the other end has a clock of its own. No probe is lost, and none is ahead of the answer.
    #[test]
    fn answers_of_a_program_that_was_held_are_late_and_not_lost() {
        let _stamping = crate::probe::stamped::stamping("127.0.0.1:0".parse().unwrap());
        for (at, is_apart) in [
            ("127.0.0.1:0", false),
            ("127.0.0.1:0", true),
            ("[::1]:0", false),
            ("[::1]:0", true),
        ] {
            let at = UdpSocket::bind(at).unwrap().local_addr().unwrap();
            let stop = AtomicBool::new(false);
            let (ready, is_ready) = mpsc::channel();
            let asked = ProbeOptions {
                to: at,
                interval_ns: 10_000_000,
                size: 56,
                length_ns: 800_000_000,
                zero_ns: 0,
                is_apart,
            };
            let (mut out, mut free_ns) = (Vec::new(), 0);
            std::thread::scope(|scope| {
                let answering = scope.spawn(|| {
                    let mut free_ns = 0;
                    let held = answer(at, &stop, || {
                        ready.send(()).unwrap();
                        std::thread::sleep(std::time::Duration::from_millis(400));
                        free_ns = mono_ns();
                        Ok(())
                    });
                    held.map(|()| free_ns)
                });
                is_ready.recv().unwrap();
                ask(&asked, &AtomicBool::new(false), &mut out).unwrap();
                stop.store(true, Ordering::Release);
                free_ns = answering.join().unwrap().unwrap();
            });
            let rows = rows(&out);
            assert!(
                rows.iter().all(|row| row.fate != Fate::Lost),
                "{at} {is_apart}: {rows:?}"
            );
            let limit_ns = crate::probe::book::HELD_AT_MOST_NS;
            let held = rows
                .iter()
                .filter(|row| row.sent_ns + limit_ns + 20_000_000 < free_ns);
            let held: Vec<&Row> = held.collect();
            assert!(held.len() >= 5, "{at} {is_apart}: {rows:?}");
            for row in held {
                assert_eq!(row.fate, Fate::Late, "{at} {is_apart}: {row:?}");
                let came_ns = row.sent_ns + row.rtt_ns.unwrap();
                assert!(came_ns >= free_ns, "before the program went on: {row:?}");
                assert_eq!(row.there_ns.is_none(), is_apart, "{row:?}");
            }
        }
    }

    #[test]
    fn nobody_answers_and_strangers_do_not_count() {
        let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        nobody
            .set_read_timeout(Some(std::time::Duration::from_secs(240)))
            .unwrap();
        let asked = ProbeOptions {
            to: nobody.local_addr().unwrap(),
            interval_ns: 10_000_000,
            size: 16,
            length_ns: 60_000_000,
            zero_ns: 0,
            is_apart: false,
        };
        let mut out = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut buffer = [0; 64];
                let (length, from) = nobody.recv_from(&mut buffer).unwrap();
                assert_eq!(length, HEAD);
                let head = Head {
                    arrived_ns: mono_ns(),
                    ..Head::read(&buffer).unwrap()
                };
                head.write(&mut buffer);
                stranger.send_to(&buffer[..length], from).unwrap();
            });
            ask(&asked, &AtomicBool::new(false), &mut out).unwrap();
        });
        let rows = rows(&out);
        assert!(!rows.is_empty());
        assert!(rows.iter().all(|row| row.fate == Fate::Lost), "{rows:?}");
    }

    #[test]
    fn whoever_cannot_send_says_so_and_stop_is_soon() {
        // A socket must request broadcast explicitly, so that this send fails.
        let asked = ProbeOptions {
            to: "255.255.255.255:9".parse().unwrap(),
            interval_ns: 1_000_000,
            size: 16,
            length_ns: 20_000_000,
            zero_ns: 0,
            is_apart: false,
        };
        let mut out = Vec::new();
        ask(&asked, &AtomicBool::new(false), &mut out).unwrap();
        let all = rows(&out);
        assert!(!all.is_empty());
        assert!(all.iter().all(|row| row.fate == Fate::Unsent), "{all:?}");
        let mut out = Vec::new();
        ask(&asked, &AtomicBool::new(true), &mut out).unwrap();
        assert!(rows(&out).is_empty());
    }
}
