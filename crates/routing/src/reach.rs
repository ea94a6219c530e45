//! Reachability of a destination from all nodes at once, given everyone's next hop. Each node is visited once.

/// Returns whether each node reaches the goal when every packet follows `next`: node `n` forwards to `next[n]`, or drops the
/// packet if that is `None`. A packet in a loop does not arrive. Entries beyond the list drop.
#[must_use]
pub fn arrive(next: &[Option<usize>], goal: usize) -> Vec<bool> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        Unknown,
        /// On the path being followed: met again, it is a loop.
        Open,
        Settled(bool),
    }
    let mut states = vec![State::Unknown; next.len()];
    if let Some(state) = states.get_mut(goal) {
        *state = State::Settled(true);
    }
    let mut path = Vec::new();
    for start in 0..next.len() {
        let mut at = Some(start);
        let arrives = loop {
            match at.map(|n| (n, states.get(n))) {
                Some((n, Some(State::Unknown))) => {
                    states[n] = State::Open;
                    path.push(n);
                    at = next[n];
                }
                Some((_, Some(State::Settled(arrives)))) => break *arrives,
                Some((_, Some(State::Open) | None)) | None => break false,
            }
        };
        for n in path.drain(..) {
            states[n] = State::Settled(arrives);
        }
    }
    states.iter().map(|s| *s == State::Settled(true)).collect()
}

#[cfg(test)]
mod tests {
    use super::arrive;
    use proptest::prelude::*;

    #[test]
    fn loops_and_dead_ends_do_not_arrive() {
        // 1 and 2 lead to 0; 3 and 4 hand it to each other; 5 drops it; 6 to 5; 7 outside.
        let next = [
            None,
            Some(0),
            Some(1),
            Some(4),
            Some(3),
            None,
            Some(5),
            Some(99),
        ];
        let expected = [true, true, true, false, false, false, false, false];
        assert_eq!(arrive(&next, 0), expected);
        assert_eq!(arrive(&next, 99), [false; 8]);
    }

    proptest! {
        #[test]
        fn as_if_every_packet_were_followed(
            next in prop::collection::vec(prop::option::of(0_usize..40), 1..40),
            goal in 0_usize..40,
        ) {
            let follow = |start: usize| {
                let mut at = start;
                for _ in 0..=next.len() {
                    if at == goal {
                        return goal < next.len();
                    }
                    match next.get(at).copied().flatten() {
                        Some(n) => at = n,
                        None => return false,
                    }
                }
                false
            };
            let expected: Vec<bool> = (0..next.len()).map(follow).collect();
            prop_assert_eq!(arrive(&next, goal), expected);
        }
    }
}
