//! The socket buffers of flows with datagrams. Packets must be lost on the path, and not because a program waited
//! for a processor.

use constel_host::sysctl;
use constel_scenario::model::{Action, Transport};
use constel_units::DataRate;

/// The time for which a receiver may lack its processor without losing datagrams, milliseconds.
const KEPT_MS: u64 = 100;

/// The buffer size that every kernel grants, bytes.
const LEAST_BYTES: u64 = 212_992;

/// Returns the client's flags for the buffers of both ends, if both kernels grant up to `most`; empty for flows
/// that send no datagrams with iperf3.
pub(super) fn flags(action: &Action, most: Option<u64>) -> Vec<String> {
    let (Action::Iperf3(iperf3), Some(most)) = (action, most) else {
        return Vec::new();
    };
    let Transport::Udp { rate } = iperf3.transport else {
        return Vec::new();
    };
    vec!["-w".to_owned(), wanted_bytes(rate, most).to_string()]
}

/// Returns the buffer size for this payload rate, bytes.
fn wanted_bytes(rate: DataRate, most: u64) -> u64 {
    // bit/s / 8 / 1000 is bytes per millisecond.
    let kept = rate.bps() / 8 / 1000 * KEPT_MS;
    kept.max(LEAST_BYTES).min(most)
}

/// Returns the largest buffer that this machine's kernel grants for both sending and receiving, bytes.
pub(super) fn most_bytes() -> Option<u64> {
    let most = ["net.core.rmem_max", "net.core.wmem_max"].map(sysctl::read_as::<u64>);
    let [receiving, sending] = most.map(Result::ok);
    Some(receiving?.min(sending?))
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
