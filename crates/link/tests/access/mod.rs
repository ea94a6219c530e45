//! The access model in virtual time: order, bounds, determinism, and the distributions of its parts.

mod edge;
mod laws;
mod parts;
mod within;

use constel_link::access::{Access, Step};

const MS: u64 = 1_000_000;
const SLOT: u64 = 15_000 * MS;

/// Slots with steps of up to 10 ms or, one of five, 50 to 80 ms, of which this share changes within the slot.
fn stepped(change_ratio: f64) -> Access {
    Access {
        step: Some(Step {
            spread_ns: 10 * MS,
            long_ratio: 0.2,
            long_least_ns: 50 * MS,
            long_most_ns: 80 * MS,
            change_ratio,
        }),
        ..Access::default()
    }
}
