//! The part of an edge's delay that remains after the delay between the machines.
//!
//! A frame leaves its machine when it has passed the edge's stages, and waits on the other machine until the edge's own
//! delay is over. It waits as long as the edge's delay exceeds the delay between the machines. Half of the round-trip time
//! is taken as the one-way delay. If the directions differ, this is wrong by half of the difference.
//! [`Receiver`](crate::underlay::Receiver) counts the frames that really arrive late.

use crate::underlay::clock::OneWayDelays;

/// Whether an edge's delay is longer than the delay between its machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DelayCheck {
    /// All measured delays are shorter than the edge's.
    Hidden {
        /// Waiting time of the frame with the longest delay, nanoseconds.
        wait_ns: u64,
    },
    /// The shortest measured delay is shorter than the edge's, and the longest is not, so some frames arrive late.
    Tight {
        /// Maximum lateness, nanoseconds.
        late_ns: u64,
    },
    /// The edge is shorter than the shortest measured delay, so all frames arrive late.
    Short {
        /// Minimum lateness, nanoseconds.
        by_ns: u64,
    },
}

impl DelayCheck {
    /// Returns the room of an edge with this shortest delay. `error_ns` is the error of the clocks, by which an instant may
    /// come too early.
    #[must_use]
    pub fn of(edge_ns: u64, ways: OneWayDelays, error_ns: u64) -> Self {
        let longest_ns = ways.longest_ns.saturating_add(error_ns);
        if edge_ns < ways.least_ns {
            Self::Short {
                by_ns: ways.least_ns - edge_ns,
            }
        } else if edge_ns < longest_ns {
            Self::Tight {
                late_ns: longest_ns - edge_ns,
            }
        } else {
            Self::Hidden {
                wait_ns: edge_ns - longest_ns,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_long_enough_or_not() {
        let ways = OneWayDelays {
            least_ns: 100,
            longest_ns: 400,
        };
        for (edge_ns, room) in [
            (0, DelayCheck::Short { by_ns: 100 }),
            (99, DelayCheck::Short { by_ns: 1 }),
            (100, DelayCheck::Tight { late_ns: 350 }),
            (449, DelayCheck::Tight { late_ns: 1 }),
            (450, DelayCheck::Hidden { wait_ns: 0 }),
            (1_000, DelayCheck::Hidden { wait_ns: 550 }),
        ] {
            assert_eq!(DelayCheck::of(edge_ns, ways, 50), room, "{edge_ns}");
        }
    }
}
