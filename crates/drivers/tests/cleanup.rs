//! A relay leaves no objects behind. The only test of its process: it counts descriptors.

use crate::support;

use std::os::fd::AsRawFd;

use constel_drivers::Plane;
use constel_drivers::relay::RelayConfig;
use constel_link::PortId;
use libbpf_rs::query::MapInfoIter;
use support::*;

/// Our relay's slot maps, which differ from those of other relays on this machine by their unusual size.
const SLOTS: u32 = 2048;

/// Memory of relays with a number of slots, and one for warm-up packets.
fn slot_maps() -> usize {
    MapInfoIter::default()
        .filter(|m| m.name.to_string_lossy() == "cst_slots" && m.max_entries == SLOTS + 1)
        .count()
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn everything_goes_with_the_relay() {
    let before = descriptors();
    assert_eq!(slot_maps(), 0);
    {
        let config = RelayConfig {
            slots: SLOTS,
            ..RelayConfig::new("cleanup", 401, 1)
        };
        let lab = Lab::with(config, &[0, 400]);
        lab.apply(link(0, 400, MS));
        assert_eq!(slot_maps(), 1);
        // Frames inside when it ends.
        let sender = lab.nodes[0].run(|| Raw::new(3));
        for _ in 0..100 {
            sender.send(&frame([0xff; 6], [2; 6], 0x88b5, &[0; 50]));
        }
        assert_ne!(lab.relay.shard_ns(PortId(0)).unwrap().fd().as_raw_fd(), 0);
    }
    assert_eq!(descriptors(), before);
    // Namespaces are torn down by the kernel's own thread; their interfaces hold the programs,
    // and the programs hold the maps, so the maps go last of all.
    eventually("the relay's maps go", || (slot_maps() == 0).then_some(()));
}
