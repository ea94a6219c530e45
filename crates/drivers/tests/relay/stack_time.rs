//! The time that nodes' stacks take to pass a frame on: deducted from the links, or added to them.

use super::overload::{HOPS, Row, address};
use super::*;
use constel_drivers::Links;

/// Frames sent one at a time.
const FRAMES: usize = 60;

/// How much longer than its links say a frame takes through the row, as a rule; nothing takes less.
fn excess_ns(row: &Row, delay_ns: u64) -> u64 {
    let (from, to) = (address(0, 1), address(HOPS - 1, 2));
    let far = row.nodes[HOPS as usize].run(|| udp(to, 7020));
    stamp(&far);
    let near = row.nodes[0].run(|| udp(from, 7020));
    near.connect((to, 7020)).unwrap();
    row.handle.clear_lateness().unwrap();
    let mut excess: Vec<u64> = (0..FRAMES)
        .map(|_| {
            let sent = real_ns();
            near.send(&sent.to_be_bytes()).unwrap();
            let (len, at) = receive(&far, &mut [0; 64]).expect("the frame arrives");
            assert_eq!(len, 8);
            let links_ns = u64::from(HOPS) * delay_ns;
            (at - sent)
                .checked_sub(links_ns)
                .expect("no earlier than its links say")
        })
        .collect();
    excess.sort_unstable();
    excess[FRAMES / 2]
}

#[test]
fn a_row_of_stacks_takes_what_its_links_take() {
    let _stamped = stamps_begin();
    let [added, deducted] = [false, true].map(|deduct| Row::new(MS, deduct));
    let passed = FRAMES as u64 * u64::from(HOPS - 1);
    // A machine that stands still now and then does so in one of them.
    eventually("what stacks take is deducted", || {
        let (long, short) = (excess_ns(&added, MS), excess_ns(&deducted, MS));
        let stats = deducted.handle.relay_stats().unwrap();
        println!(
            "{long} ns beyond the links, {short} ns where it is deducted: {:?}",
            stats.deducted
        );
        (2 * short < long && stats.deducted.count > passed / 2).then_some(())
    });
    for row in [&added, &deducted] {
        let stats = row.handle.relay_stats().unwrap();
        assert_eq!(
            (stats.early, stats.emulator_drops.total()),
            (0, 0),
            "{stats:?}"
        );
    }
    let stats = added.handle.relay_stats().unwrap();
    assert_eq!(stats.deducted.count, 0);
}

/// Time that cannot be deducted, because the links take less than the stacks, makes frames late, and is counted.
#[test]
fn stacks_that_take_longer_than_links_make_frames_late() {
    let _stamped = stamps_begin();
    let row = Row::new(0, true);
    let excess_ns = excess_ns(&row, 0);
    let late = row.handle.lateness().unwrap().quantiles();
    assert!(late.max_ns > excess_ns / 2, "{excess_ns} {late:?}");
    let stats = row.handle.relay_stats().unwrap();
    assert_eq!(
        (stats.early, stats.emulator_drops.total()),
        (0, 0),
        "{stats:?}"
    );
}
