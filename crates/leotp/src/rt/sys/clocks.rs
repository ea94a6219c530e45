//! Two clocks read at one moment: the kernel stamps datagrams with the wall clock, nodes use a
//! monotonic one.

use crate::Nanos;
use std::time::{SystemTime, UNIX_EPOCH};

/// Time within which both have been read is short enough, ns.
const AT_ONCE_NS: Nanos = 2_000;
/// How often reading them is tried again on a host that keeps interrupting it.
const TRIES: u32 = 8;

/// The wall clock, ns since 1970.
pub(super) fn wall_clock() -> Nanos {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| d.as_nanos() as Nanos)
}

/// Returns (`mono`, `wall`) of one moment. A process that loses its processor between the two for
/// a millisecond would misjudge the age of a whole batch by a millisecond: hopRTT would fall
/// below the light time, and stay there for as long as hopRTTmin remembers. So `wall` is read
/// between two readings of `mono`, repeatedly until they are close; the closest pair counts.
pub(super) fn at_once(mono: impl Fn() -> Nanos, wall: impl Fn() -> Nanos) -> (Nanos, Nanos) {
    let mut best = (Nanos::MAX, 0, 0);
    let mut before = mono();
    for _ in 0..TRIES {
        let w = wall();
        let after = mono();
        let took = after.saturating_sub(before);
        if took < best.0 {
            best = (took, before + took / 2, w);
        }
        if took <= AT_ONCE_NS {
            break;
        }
        before = after;
    }
    (best.1, best.2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// Clocks of a host that loses its processor for `pauses[i]` ns before reading i of any.
    fn offset_with(pauses: &[Nanos]) -> Nanos {
        let world = RefCell::new((1_000_000, pauses.iter().copied()));
        let pass = || {
            let mut w = world.borrow_mut();
            let pause = w.1.next().unwrap_or(0);
            w.0 += 100 + pause;
            w.0
        };
        let (mono, wall) = at_once(pass, || pass() + 7_000_000_000);
        wall.abs_diff(mono + 7_000_000_000)
    }

    #[test]
    fn an_interruption_between_the_clocks_is_no_time() {
        let ms = 1_000_000;
        assert!(offset_with(&[]) <= 100);
        // Before, between and after the readings of the first try, then of the first three.
        for at in 0..3 {
            let mut pauses = vec![0; at];
            pauses.push(2 * ms);
            assert!(offset_with(&pauses) <= 100, "{at}");
        }
        assert!(offset_with(&[0, ms, ms, ms]) <= 100);
        // Always interrupted: the shortest interruption is what it is off by.
        let mut always = vec![3 * ms; 64];
        always[5] = 10_000;
        always[6] = 10_000;
        assert!(offset_with(&always) <= 20_000);
    }

    /// The whole way: a datagram that has waited in the socket came when it was sent, although
    /// the process is kept from running between its clocks.
    #[test]
    fn a_datagram_came_when_it_was_sent() {
        use crate::rt::sys::{RxBuffers, Socket, SocketOptions};
        use std::cell::Cell;
        use std::net::UdpSocket;
        use std::thread::sleep;
        use std::time::{Duration, Instant};

        let local = "127.0.0.1:0".parse().expect("an address");
        let s = Socket::bind(local, SocketOptions::default()).expect("a socket");
        let start = Instant::now();
        let mono = || start.elapsed().as_nanos() as Nanos + 1_000_000_000;
        // The kernel begins to stamp a moment after the first socket has requested it; a busy
        // host may delay the test itself. A datagram cannot arrive before it is sent.
        let mut spent = vec![];
        for _ in 0..20 {
            let before = mono();
            let from = UdpSocket::bind(local).expect("a sender");
            from.send_to(b"x", s.local()).expect("sent");
            let after = mono();
            sleep(Duration::from_millis(5));
            let readings = Cell::new(0);
            let interrupted = || {
                let now = mono();
                if readings.replace(readings.get() + 1) == 0 {
                    sleep(Duration::from_millis(3));
                }
                now
            };
            let mut came = None;
            let got = s.recv(&mut RxBuffers::new(), interrupted, |_, at, _, _| {
                came = Some(at)
            });
            assert_eq!(got.expect("received"), 1);
            let came = came.expect("a datagram");
            assert!(came + 100_000 >= before, "{} ns early", before - came);
            spent.push(came.saturating_sub(after));
        }
        assert!(spent.iter().any(|&ns| ns < 100_000), "{spent:?}");
    }
}
