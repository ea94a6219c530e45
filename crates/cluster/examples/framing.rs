//! Measures the cost of carrying frames from one machine to another, without links and nodes around it.
//!
//!     cargo run --release -p constel-cluster --example framing -- udp|ethernet|vxlan FRAME_BYTES SECONDS
//!
//! The test uses two namespaces with a veth pair between them. `udp` and `ethernet` are Constel's carriages, from
//! the relay's call that hands a frame over to its call that gets one. `vxlan` is a plain VXLAN device of the
//! kernel on each side, on which the same calls send and receive frames. The sender sends as many frames as the
//! other side accepts, with at most 512 in flight. Prints one JSON object.

#[path = "../../drivers/tests/support/mod.rs"]
mod support;

use std::io;
use std::net::UdpSocket;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use constel_cluster::crossing::{Crossing, Interface, LabTime, Layout, Listening, Machine, Wire};
use constel_drivers::memory::Memory;
use constel_drivers::relay::Arrival;
use constel_drivers::{
    DriverError, DriverKind, KnownEffects, Links, PendingUpdate, Plane, mono_ns,
};
use constel_host::datagrams::{Incoming, MOST_AT_ONCE, Outgoing, send_all};
use constel_host::ethernet::{EthernetSocket, Filter};
use constel_host::netlink::LinkChange;
use constel_link::{EdgeStats, EdgeUpdate, EffectsChange, Nanos, PlaneReport, PortId, mac_of};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use support::*;

/// The largest number of frames in flight: fewer than the kernel queues between the two ends of a veth pair.
const UNDER_WAY: u64 = 512;
/// The time after which a frame counts as lost.
const LOST_AFTER: Duration = Duration::from_millis(50);
/// The pause of a sender that waits for the other side.
const PAUSE: Duration = Duration::from_micros(20);
const MTU_BYTES: u32 = 1_600;
const ETHER_TYPE: u16 = 0x88b5;
const BEGINS: [u8; 4] = *b"BNCH";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [by, frame_bytes, seconds] = &args[..] else {
        panic!("framing udp|ethernet|vxlan FRAME_BYTES SECONDS");
    };
    let (frame_bytes, seconds) = (frame_bytes.parse().unwrap(), seconds.parse().unwrap());
    let spaces = [Node::new(), Node::new()];
    spaces[0].wire(0, &spaces[1], 0, true);
    for (number, space) in (1..).zip(&spaces) {
        space.addresses(ETH0, number);
        space.netlink(|batch| {
            let change = LinkChange {
                ifindex: ETH0,
                mtu: Some(MTU_BYTES),
                ..LinkChange::default()
            };
            batch.change_link(&change).unwrap();
        });
    }
    let told = Common {
        arrived: Arc::new(AtomicU64::new(0)),
        length: Duration::from_secs(seconds),
    };
    let got = match by.as_str() {
        "vxlan" => by_devices(&spaces, frame_bytes, &told),
        "udp" => ours(&spaces, frame_bytes, &told, |number, space| {
            Wire::Udp(space.run(|| UdpSocket::bind((v4(number), 0)).unwrap()))
        }),
        "ethernet" => ours(&spaces, frame_bytes, &told, |_, space| {
            Wire::Ethernet(space.run(|| Interface::named("eth0").unwrap()))
        }),
        other => panic!("{other}?"),
    };
    let (frames, wall_s) = (got.arrived as f64, got.wall.as_secs_f64());
    println!(
        "{{\"by\": \"{by}\", \"frame_bytes\": {frame_bytes}, \"frames_per_s\": {:.0}, \"gbit_per_s\": {:.4}, \
         \"processor_us_per_frame\": {:.4}, \"lost\": {}}}",
        frames / wall_s,
        frames * frame_bytes as f64 * 8.0 / wall_s / 1e9,
        got.processor.as_secs_f64() * 1e6 / frames,
        got.lost
    );
}

/// The state that both ends share.
struct Common {
    arrived: Arc<AtomicU64>,
    length: Duration,
}

struct Got {
    arrived: u64,
    lost: u64,
    wall: Duration,
    processor: Duration,
}

/// Returns the processor time that this process has used, with its time in the kernel.
fn processor() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(used.tv_sec.unsigned_abs(), used.tv_nsec as u32)
}

impl Common {
    /// Has batches sent for as long as it takes.
    fn send(&self, mut batch: impl FnMut()) -> Got {
        // Interfaces carry something when their kernel sees fit, and hosts resolve addresses first.
        eventually("frames arrive", || {
            batch();
            (self.arrived.load(Ordering::Relaxed) > 0).then_some(())
        });
        thread::sleep(LOST_AFTER);
        let before = self.arrived.load(Ordering::Relaxed);
        let arrived = || self.arrived.load(Ordering::Relaxed) - before;
        let (began, used) = (Instant::now(), processor());
        let (mut sent, mut lost) = (0_u64, 0_u64);
        let mut moved = (0, Instant::now());
        while began.elapsed() < self.length {
            let arrived = arrived();
            if arrived != moved.0 {
                moved = (arrived, Instant::now());
            }
            // Frames that were counted as lost may still arrive.
            if sent.saturating_sub(lost + arrived) + MOST_AT_ONCE as u64 <= UNDER_WAY {
                batch();
                sent += MOST_AT_ONCE as u64;
            } else if moved.1.elapsed() > LOST_AFTER {
                lost = sent - arrived;
                moved.1 = Instant::now();
            } else {
                thread::sleep(PAUSE);
            }
        }
        Got {
            arrived: arrived(),
            lost,
            wall: began.elapsed(),
            processor: processor() - used,
        }
    }
}

fn filled(frame_bytes: usize) -> Vec<u8> {
    let mut payload = BEGINS.to_vec();
    payload.resize(frame_bytes - 14, 7);
    frame(mac_of(PortId(1)), mac_of(PortId(0)), ETHER_TYPE, &payload)
}

fn ours(
    spaces: &[Node; 2],
    frame_bytes: usize,
    told: &Common,
    wire: impl Fn(u8, &Node) -> Wire,
) -> Got {
    let wires = [wire(1, &spaces[0]), wire(2, &spaces[1])];
    let machines: Vec<Machine> = wires
        .iter()
        .map(|wire| Machine {
            name: wire.endpoint().unwrap().to_string(),
            address: wire.endpoint().unwrap(),
            token: 1,
        })
        .collect();
    let mut ends = (0..).zip(wires).map(|(here, wire)| {
        let layout = Layout {
            lab: 1,
            session: 1,
            here,
            machines: machines.clone(),
            owners: vec![0, 1],
            ahead_ns: 0,
            key: None,
        };
        spaces[here].run(|| Crossing::open(wire, layout, LabTime::new(0)).unwrap())
    });
    let ((_near, far_ports), (far, _)) = (ends.next().unwrap(), ends.next().unwrap());
    let memory = Memory::new(DriverKind::Relay, 2, 1, mono_ns);
    let links = Counting {
        rest: memory.start().unwrap(),
        arrived: Arc::clone(&told.arrived),
    };
    let listening: Listening = far.listen(Arc::new(links)).unwrap();
    let (mut carry, frame) = (far_ports.carry, filled(frame_bytes));
    let got = told.send(|| {
        let due_ns = mono_ns() + 1_000_000;
        for _ in 0..MOST_AT_ONCE {
            carry.carry((PortId(0), PortId(1)), due_ns, &frame);
        }
        carry.flush();
    });
    drop(listening);
    got
}

fn by_devices(spaces: &[Node; 2], frame_bytes: usize, told: &Common) -> Got {
    let sockets = [1_u8, 2].map(|number| {
        let (own, other) = (v4(number).to_string(), v4(3 - number).to_string());
        spaces[usize::from(number) - 1].run(|| {
            for line in [
                format!(
                    "link add vx type vxlan id 7 local {own} remote {other} dstport 4789 dev eth0"
                ),
                "link set vx mtu 1500 up".to_owned(),
            ] {
                let done = Command::new("ip").args(line.split(' ')).status().unwrap();
                assert!(done.success(), "ip {line}");
            }
            let interface = Interface::named("vx").unwrap();
            let filter = Filter::Begins(BEGINS);
            let socket = EthernetSocket::open(interface.ifindex, ETHER_TYPE, filter).unwrap();
            rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 4 << 20).unwrap();
            (socket, interface.address.0)
        })
    });
    let [(from, own), (to, other)] = sockets;
    let end = Arc::new(AtomicBool::new(false));
    let (arrived, ends) = (Arc::clone(&told.arrived), Arc::clone(&end));
    let receiving = thread::spawn(move || {
        let mut incoming = Incoming::new(4_096);
        let patience = Timespec {
            tv_sec: 0,
            tv_nsec: 50_000_000,
        };
        while !ends.load(Ordering::Relaxed) {
            let _ = poll(&mut [PollFd::new(&to, PollFlags::IN)], Some(&patience));
            let came: io::Result<usize> = incoming.receive(&to);
            arrived.fetch_add(came.unwrap_or(0) as u64, Ordering::Relaxed);
        }
    });
    let mut frame = filled(frame_bytes);
    frame[..6].copy_from_slice(&other);
    frame[6..12].copy_from_slice(&own);
    let batch: Vec<Outgoing> = vec![(None, frame); MOST_AT_ONCE];
    let got = told.send(|| {
        send_all(&from, &[], &batch);
    });
    end.store(true, Ordering::Relaxed);
    receiving.join().unwrap();
    got
}

/// Counts what arrives; the rest is the memory driver's.
#[derive(Debug)]
struct Counting {
    rest: Arc<dyn Links>,
    arrived: Arc<AtomicU64>,
}

impl Links for Counting {
    fn arrive(&self, arrivals: Vec<Arrival>) -> Result<(), DriverError> {
        self.arrived
            .fetch_add(arrivals.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn submit(&self, update: EdgeUpdate, at: Option<Nanos>) -> Result<PendingUpdate, DriverError> {
        self.rest.submit(update, at)
    }

    fn apply_effects(&self, changes: Vec<EffectsChange>) -> Result<Nanos, DriverError> {
        self.rest.apply_effects(changes)
    }

    fn effects(&self, from: PortId, to: PortId) -> Result<KnownEffects, DriverError> {
        self.rest.effects(from, to)
    }

    fn snapshot(&self) -> Result<PlaneReport, DriverError> {
        self.rest.snapshot()
    }

    fn edge_stats(&self, from: PortId, to: PortId) -> Result<Option<EdgeStats>, DriverError> {
        self.rest.edge_stats(from, to)
    }

    fn all_edges(&self) -> Result<Vec<EdgeStats>, DriverError> {
        self.rest.all_edges()
    }

    fn clear_lateness(&self) -> Result<(), DriverError> {
        self.rest.clear_lateness()
    }

    fn stop(&self) {
        self.rest.stop();
    }
}
