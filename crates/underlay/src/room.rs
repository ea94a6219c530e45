//! What of an edge's delay is left when the way between the machines is taken from it.
//!
//! A frame leaves its machine when it has passed the edge's stages, and waits over there until the edge's own delay is over. It waits
//! as long as the edge is longer than the way. Half of the way there and back is taken for one way: where the ways differ, that is
//! wrong by half of the difference. What really comes late is counted by [`Receiver`](crate::Receiver).

use crate::clock::Ways;

/// Whether an edge is long enough for the way between its machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// Whatever was measured is hidden in the edge.
    Hidden {
        /// The frame with the longest way waits so long, nanoseconds.
        wait_ns: u64,
    },
    /// The shortest way is hidden and the longest is not: some frames come late.
    Tight {
        /// By so much at most, nanoseconds.
        late_ns: u64,
    },
    /// The edge is shorter than the shortest way: all frames come late.
    Short {
        /// By so much at least, nanoseconds.
        by_ns: u64,
    },
}

impl Room {
    /// Of an edge with this delay at its shortest. `error_ns`: by so much the clocks may be wrong, so that an instant comes too early.
    #[must_use]
    pub fn of(edge_ns: u64, ways: Ways, error_ns: u64) -> Self {
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
        let ways = Ways {
            least_ns: 100,
            longest_ns: 400,
        };
        for (edge_ns, room) in [
            (0, Room::Short { by_ns: 100 }),
            (99, Room::Short { by_ns: 1 }),
            (100, Room::Tight { late_ns: 350 }),
            (449, Room::Tight { late_ns: 1 }),
            (450, Room::Hidden { wait_ns: 0 }),
            (1_000, Room::Hidden { wait_ns: 550 }),
        ] {
            assert_eq!(Room::of(edge_ns, ways, 50), room, "{edge_ns}");
        }
    }
}
