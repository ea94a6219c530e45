//! The clock of the kernel that this process runs on.

use std::num::NonZeroU64;
use std::sync::OnceLock;
use std::time::Duration;

/// The ratio of polling intervals in virtual time to those in real time.
const SELDOM: u32 = 5;

/// Returns whether the clock stands still while programs compute, as that of a guest of virtual time does. There each reading of
/// the clock advances it, and costs as much as any system call.
pub fn waits() -> bool {
    static WAITS: OnceLock<bool> = OnceLock::new();
    *WAITS.get_or_init(|| {
        std::fs::read_to_string("/proc/cmdline").is_ok_and(|words| is_guests(&words))
    })
}

/// Returns whether a kernel with this command line is that of a guest.
fn is_guests(words: &str) -> bool {
    words
        .split_whitespace()
        .any(|word| word.starts_with("time-travel"))
}

/// Returns the interval at which a request to stop is polled. Idle time costs nothing in virtual time, and each wake-up does.
pub fn polling(in_real_time: Duration) -> Duration {
    match waits() {
        true => in_real_time * SELDOM,
        false => in_real_time,
    }
}

/// Makes sleeps of the calling thread end on time; by default the kernel may end them 50 us later.
pub fn sleep_exactly() {
    // The kernel refuses it only where it lacks the call, and then sleeps as before.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_known_by_its_command_line() {
        assert!(is_guests("mem=900M time-travel=inf-cpu quiet"));
        assert!(!is_guests("root=/dev/vda ro quiet"));
        assert!(!is_guests("init=/time-travel"));
    }
}
