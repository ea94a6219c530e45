//! Room for datagrams in the sockets of flows: what is lost is to be lost on the way, not because a program waited for a processor.

use std::fs;

use constel_units::DataRate;

/// For how long a receiver may be kept from its processor and lose none, milliseconds.
const KEPT_MS: u64 = 100;

/// What every kernel gives who asks, bytes.
const LEAST_BYTES: u64 = 212_992;

/// What to ask for at this rate of payload, bytes, where the kernel gives so much at `most`.
pub(super) fn wanted_bytes(rate: DataRate, most: u64) -> u64 {
    let kept = rate.bps() / 8 / 1000 * KEPT_MS;
    kept.max(LEAST_BYTES).min(most)
}

/// What this machine's kernel gives at most, for sending and for receiving, bytes.
pub(super) fn most_bytes() -> Option<u64> {
    let of = |name: &str| -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/sys/net/core/{name}")).ok()?;
        text.trim().parse().ok()
    };
    Some(of("rmem_max")?.min(of("wmem_max")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_as_a_tenth_of_a_second_brings_within_what_the_kernel_gives() {
        let at = |bps, most| wanted_bytes(DataRate::from_bps(bps), most);
        assert_eq!(at(300_000_000, 4 << 20), 3_750_000);
        assert_eq!(at(1_000_000_000, 4 << 20), 4 << 20);
        assert_eq!(at(64_000, 4 << 20), LEAST_BYTES);
        assert_eq!(at(300_000_000, LEAST_BYTES), LEAST_BYTES);
    }

    #[test]
    fn this_kernel_says_what_it_gives() {
        assert!(most_bytes().is_some_and(|most| most > 4096));
    }
}
