//! Two clocks read at one moment: the kernel stamps datagrams with the wall clock, nodes go by
//! a monotonic one.

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

/// (`mono`, `wall`) of one moment. A process that loses its processor between the two for a
/// millisecond would take all of a batch for a millisecond older or younger than it is: hopRTT
/// would fall below the time that light takes, and stay there for as long as hopRTTmin
/// remembers. So `wall` is read between two readings of `mono`, again and again until they are
/// close; the closest pair counts.
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
}
