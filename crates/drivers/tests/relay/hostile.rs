//! A node that is on no other node's path sends every kind of frame: that costs others neither frames nor time.

use super::*;
use crate::relay::hostile_node::{
    Attack, DELAY_NS, HOSTILE, Hostile, NEIGHBOURS, Stop, attacks, edges,
};
use crate::relay::victim::{Seen, Victim, percentile};
use constel_drivers::Links;

/// The least of this number of rounds is judged. Once the least is not too much, further rounds cannot change that and are left out.
const ROUNDS: usize = 15;
const FEWEST_ROUNDS: usize = 2;
const ROUND: Duration = Duration::from_millis(200);

const BACKLOG: &str = "/proc/sys/net/core/netdev_max_backlog";

/// A processor's queue of received frames is as long as a lab makes it, until this goes: all interfaces of the host
/// share it, so that a short one costs a victim frames without any relay.
struct AsInLab(String);

impl AsInLab {
    fn new() -> AsInLab {
        let before = std::fs::read_to_string(BACKLOG).unwrap();
        let frames = before.trim().parse::<u32>().unwrap().max(16_384);
        std::fs::write(BACKLOG, frames.to_string()).unwrap();
        AsInLab(before)
    }
}

impl Drop for AsInLab {
    fn drop(&mut self) {
        let _ = std::fs::write(BACKLOG, &self.0);
    }
}

/// The victim measures, while a thread of normal priority does `work` until the measurement ends.
fn beside(victim: &Victim, work: impl FnOnce(&AtomicBool) + Send) -> Seen {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stopping = Stop(&stop);
        let hog = scope.spawn(|| work(&stop));
        // Not the victim's own thread is to be measured.
        let seen = scope.spawn(|| {
            go_before_normal_threads();
            victim.measure(ROUND)
        });
        let seen = seen.join().unwrap();
        drop(stopping);
        hog.join().unwrap();
        seen
    })
}

/// The least of several rounds, microseconds and frames: without and with the attack. A machine that stands still adds to a round;
/// an attack that costs something costs it in each.
#[derive(Debug)]
struct Cost {
    stream_p99: [u64; 2],
    ping_p99: [u64; 2],
    lost: [u64; 2],
    /// Attacks, and frames that the relay had no slot for.
    sent: u64,
    pool: u64,
}

impl Cost {
    fn is_too_much(&self) -> bool {
        let slower = |[alone, attacked]: [u64; 2]| attacked * 10 > alone * 11;
        let lost = self.lost[1] > 0 || self.pool > 0;
        slower(self.stream_p99) || slower(self.ping_p99) || lost
    }
}

/// One thread does the same work in both: it sends into a bare veth pair without a relay, and into its port. The
/// effects of the processor, its caches and its kernel on the victim are in both.
fn cost(lab: &Lab, victim: &Victim, [decoy, hostile]: [&Hostile; 2], attack: &Attack) -> Cost {
    lab.apply(edges(attack.by_frames));
    let pool = || lab.handle.relay_stats().unwrap().emulator_drops.pool;
    let before = pool();
    let mut least = Cost {
        stream_p99: [u64::MAX; 2],
        ping_p99: [u64::MAX; 2],
        lost: [u64::MAX; 2],
        sent: 0,
        pool: 0,
    };
    for round in 0..ROUNDS {
        if round >= FEWEST_ROUNDS && !least.is_too_much() {
            break;
        }
        for (n, attacker) in [decoy, hostile].into_iter().enumerate() {
            let mut done = 0;
            let seen = beside(victim, |stop| done = attacker.attack(&attack.what, stop));
            least.sent += n as u64 * done;
            let keep = |of: &mut [u64; 2], value: u64| of[n] = of[n].min(value);
            keep(&mut least.lost, seen.lost() as u64);
            keep(&mut least.stream_p99, percentile(&seen.stream, 99) / 1000);
            keep(&mut least.ping_p99, percentile(&seen.ping, 99) / 1000);
        }
        // Remaining frames do not count against the next round's baseline.
        eventually("the attack's frames are gone", || {
            (lab.handle.relay_stats().unwrap().totals.held == 0).then_some(())
        });
        least.pool = pool() - before;
    }
    least
}

#[test]
fn a_hostile_node_costs_others_neither_frames_nor_time() {
    let _backlog = AsInLab::new();
    let lab = Lab::new(&(0..NEIGHBOURS.end).collect::<Vec<_>>());
    let (decoy, beyond) = (Node::new(), Node::new());
    decoy.wire(0, &beyond, 0, true);
    decoy.addresses(ETH0, HOSTILE as u8 + 1);
    beyond.addresses(ETH0, NEIGHBOURS.start as u8 + 1);
    let nodes = [&decoy, &lab.nodes[HOSTILE as usize]];
    let [decoy, hostile] = nodes.map(|node| Hostile::new(node, HOSTILE as u8 + 1));
    let victim = Victim::new(&lab.nodes);
    let _stamped = stamps_begin();
    let mut bad = Vec::new();
    for attack in attacks() {
        let found = cost(&lab, &victim, [&decoy, &hostile], &attack);
        println!("{:>28}: {found:?}", attack.name);
        let (stream, ping) = (found.stream_p99[0], found.ping_p99[0]);
        assert!(stream * 1000 >= DELAY_NS && ping * 1000 >= 2 * DELAY_NS);
        assert!(found.sent > 0, "{}: nothing was sent", attack.name);
        if found.is_too_much() {
            bad.push((attack.name, found));
        }
    }
    assert!(bad.is_empty(), "us, without and with: {bad:?}");
    for port in [0, 1] {
        assert_eq!(lab.handle.dropped_share(PortId(port)).unwrap(), Some(0));
    }
    let stats = lab.handle.relay_stats().unwrap();
    assert_eq!(
        (stats.early, stats.emulator_drops.trunk),
        (0, 0),
        "{stats:?}"
    );
    every_slot_comes_back(&lab, 16_384);
}

/// The tiny pieces of one super-frame would take every slot there is: it is refused, and the cause is named.
#[test]
fn a_super_frame_of_tiny_pieces_is_refused_and_counted() {
    let lab = Lab::new(&(0..NEIGHBOURS.end).collect::<Vec<_>>());
    lab.apply(edges(true));
    let hostile = Hostile::new(&lab.nodes[HOSTILE as usize], HOSTILE as u8 + 1);
    let first = attacks().remove(0);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stopping = Stop(&stop);
        scope.spawn(|| hostile.attack(&first.what, &stop));
        eventually("it is counted", || {
            let stats = lab.handle.relay_stats().unwrap();
            let free = stats.free_slots;
            assert!(free > 16_000, "{free} slots are left");
            (stats.emulator_drops.gso > 1000).then_some(())
        });
    });
    let lost = lab.handle.relay_stats().unwrap().emulator_drops;
    assert_eq!((lost.pool, lost.no_buffer), (0, 0), "{lost:?}");
}

/// A super-frame to be cut up takes a slot for each frame, or is lost as a whole when its port has fewer.
#[test]
fn a_cut_up_super_frame_is_charged_by_the_frame() {
    let config = RelayConfig {
        slots: 4096,
        ..RelayConfig::new("test", NEIGHBOURS.end, 1)
    };
    let lab = Lab::with(config, &(0..NEIGHBOURS.end).collect::<Vec<_>>());
    // Frames stay inside for a second.
    let long = Impairment {
        loss: Loss::Bernoulli { loss_ratio: 1e-12 },
        ..Impairment::delay_only(1000 * MS)
    };
    lab.apply(vec![set(HOSTILE, NEIGHBOURS.start, long)]);
    let hostile = Hostile::new(&lab.nodes[HOSTILE as usize], HOSTILE as u8 + 1);
    let most = attacks().remove(3);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| hostile.attack(&most.what, &stop));
        thread::sleep(Duration::from_millis(500));
        stop.store(true, Ordering::Relaxed);
    });
    let stats = lab.handle.relay_stats().unwrap();
    let lost = stats.emulator_drops;
    assert!(lost.share > 0, "{lost:?}");
    assert_eq!((lost.pool, lost.no_buffer), (0, 0), "{lost:?}");
    let held = stats.totals.held;
    assert!((500..4096 - 64).contains(&held), "{held}");
    let at_port = lab.handle.dropped_share(PortId(HOSTILE)).unwrap();
    assert_eq!(at_port, Some(lost.share), "counted at the port");
    every_slot_comes_back(&lab, 4096);
}
