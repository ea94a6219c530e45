//! The relay: one thread that moves the frames of all edges, or several that divide them.
//!
//! Every port is a veth pair: one end in the node, the *host end* in a namespace of the relay. A BPF program on the
//! host end copies the node's frames into shared memory. They pass an [`constel_link::EdgeTable`] in a thread of the
//! relay, and are sent by AF_XDP over a trunk, from which two BPF programs pass them into the node at the other end of
//! their edge. There is no system call per frame on the way in, and one per batch on the way out.
//!
//! The creator of ports makes a veth pair for each. Its host end has the name `h<port>` and the index
//! [`Plane::host_ifindex`], is in the namespace [`Plane::shard_ns`], and is up. The node's end must have the address
//! [`constel_link::mac_of`] and send no super-frames other than TCP's (others are dropped and counted):
//! [`send_tcp_gso`] or [`send_single_frames`] configures that. Then [`Plane::attach`] is called.
//!
//! Attaching a program costs tens of milliseconds unless RCU is expedited: hold
//! `constel_host::rcu::Expedited` around [`Relay::new`] and [`Plane::attach`].

mod across;
mod air;
mod answers;
mod arbitrary;
mod awake;
mod bell;
mod command;
mod control;
mod data_path;
mod enter;
mod external;
mod far;
mod gro;
mod gso;
mod gso_in;
mod gso_out;
mod guest;
mod handle;
mod homes;
mod instant;
mod intake;
mod late;
mod layout;
mod object;
mod offload;
mod owners;
mod passed;
mod plumbing;
mod pool;
mod rings;
mod sched;
mod send;
mod shifts;
mod speed;
mod spsc;
mod stalls;
mod state;
mod stats;
mod switches;
mod taps;
mod this_thread;
mod thread;
mod times;
mod transit;
mod tx_batch;
mod waits;
mod warm_up;
mod warm_up_node;
mod ways;
mod wire;
mod xsk;

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use constel_host::netns::NetNs;
use constel_link::medium::Shared;
use constel_link::transit::Table;
use constel_link::{EdgeTable, LatenessLimits, MAX_PORT, Nanos, PortId};

pub use arbitrary::reads_super_frame;
pub use external::{Captured, External, ExternalCounts, Steer, Steered};
pub use far::{Arrival, Carry, FarPorts};
pub use gso::GSO_MAX_SEGS;
pub use handle::RelayHandle;
pub use offload::{complete_checksums, send_single_frames, send_tcp_gso};
pub use sched::Priority;
pub use stats::{EmulatorDrops, RelayStats};
pub use switches::learns_addresses;
pub use times::EdgeTimes;
pub use transit::TransitCounts;

use across::Across;
use air::Air;
use bell::Signals;
use command::Command;
use control::Control;
use data_path::DataPath;
use external::Externals;
use far::{Far, FarSet};
use gso_out::GsoSender;
use handle::{Common, Running};
use homes::Homes;
use instant::Instants;
use object::{Loaded, Sizes};
use owners::Owners;
use passed::Passed;
use plumbing::{Plumbing, trunk_send};
use pool::Pool;
use sched::{Apart, Scheduler, Waiting};
use shifts::Shifts;
use state::State;
use switches::Switches;
use thread::Thread;
use transit::Transit;
use wire::Wires;
use xsk::Xsk;

use crate::DriverKind;
use crate::bpf::BpfError;
use crate::error::{DriverError, Result, check_port};
use crate::named::NamedThread;
use crate::ports::host_ifindex;
use crate::quiet::lost_before_capture;
use crate::traits::{Links, Plane};

/// Largest frame that the relay carries, with its Ethernet header: more than MTU 1500 needs.
pub const FRAME_MAX_BYTES: usize = layout::FRAME_MAX;
/// Free slots passed to each CPU at most: enough for about 10 ms of a saturated core, so that short stalls of the
/// relay's thread lose no frames.
const FREE_PER_CPU: u32 = 8192;
/// Lateness from which new frames are dropped: such a frame is useless to every run, because no bound on lateness may
/// be longer. Frames are dropped only if their edge has been behind for [`OVERLOAD_NS`], because a machine that stalled
/// for a moment catches up.
const NEW_LATE_NS: Nanos = 10_000_000;
/// Lateness from which frames are dropped that have crossed another edge before, and that a node has processed. They
/// are served first, so only traffic that exceeds the capacity becomes so late.
const IN_FLIGHT_LATE_NS: Nanos = 50_000_000;
const OVERLOAD_NS: Nanos = 50_000_000;

/// Configuration of the relay.
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// The lab, for the name of the thread.
    pub lab: String,
    /// Number of ports, numbered from 0. At most 65,536 ports may belong to nodes with a stack.
    pub ports: u32,
    /// Number of these ports that can be in nodes, from 0 on; the others are only ends of edges. At least 1.
    pub node_ports: u32,
    /// Number of frames of the nodes of each thread that can be inside at a time, 2 KiB each. A power of two from 1,024
    /// on.
    pub slots: u32,
    /// Seed of all random draws of all edges.
    pub seed: u64,
    /// Scheduling of the threads.
    pub priority: Priority,
    /// The thread wakes this long before a frame is due and spins for the rest. The lead then adapts to the observed
    /// lateness of wake-ups (40 to 200 us). In virtual time the lead is 10 us: sleeps end at their instant.
    pub lead_ns: Nanos,
    /// Frames leave at whole multiples of this interval, all due ones together; 0: each at its own time.
    pub grain_ns: Nanos,
    /// Whether frames of a TCP stream that are due at the same moment are delivered as one super-frame, as a network
    /// card does.
    pub gro: bool,
    /// Channels that ports share.
    pub channels: Vec<Shared>,
    /// Ports of each learning switch.
    pub switches: Vec<Vec<PortId>>,
    /// Nodes without a stack, for which the relay forwards.
    pub transit: Option<Arc<Table>>,
    /// Number of threads that divide the nodes among them: 1 to [`Relay::threads_max`].
    pub threads: usize,
    /// By port, the number of its node, so that all ports of a node belong to one thread; a port beyond the end is a
    /// node of its own.
    pub nodes: Vec<u32>,
    /// Whether a frame that a node's stack forwards enters its next edge at the instant at which it was due at the
    /// node: the time of the stack is deducted.
    pub deduct_stacks: bool,
}

impl RelayConfig {
    /// Returns the default settings.
    #[must_use]
    pub fn new(lab: impl Into<String>, ports: u32, seed: u64) -> RelayConfig {
        RelayConfig {
            lab: lab.into(),
            ports,
            node_ports: ports,
            slots: 65_536,
            seed,
            priority: Priority::RealTime,
            lead_ns: 80_000,
            grain_ns: 0,
            gro: true,
            channels: Vec::new(),
            switches: Vec::new(),
            transit: None,
            threads: 1,
            nodes: Vec::new(),
            deduct_stacks: true,
        }
    }

    fn check(&self) -> Result<()> {
        if self.ports == 0 || self.ports > MAX_PORT.0 + 1 {
            let text = format!("{} ports: must be 1 to {}", self.ports, MAX_PORT.0 + 1);
            return Err(DriverError::Config(text));
        }
        if self.slots < 1024 || !self.slots.is_power_of_two() || self.slots > 1 << 22 {
            let text = format!(
                "{} slots: must be a power of two, 1024 to {}",
                self.slots,
                1 << 22
            );
            return Err(DriverError::Config(text));
        }
        let most = Relay::threads_max();
        if self.threads == 0 || self.threads > most {
            let text = format!("{} threads: must be 1 to {most}", self.threads);
            return Err(DriverError::Config(text));
        }
        Ok(())
    }

    fn wires(&self) -> Wires {
        match &self.transit {
            Some(table) => Wires::new(self.ports, |port| table.member_of(port).is_some()),
            None => Wires::default(),
        }
    }
}

/// The relay's namespaces, programs and memory.
#[derive(Debug)]
pub struct Relay {
    config: RelayConfig,
    wires: Arc<Wires>,
    switches: Arc<Switches>,
    sizes: Sizes,
    loaded: Arc<Loaded>,
    plumbing: Plumbing,
    /// Sockets of interfaces of the host, until the thread takes them.
    sockets: Mutex<Vec<(PortId, Xsk)>>,
    /// Far ports, until the thread takes them.
    far: Mutex<Option<FarPorts>>,
    started: Mutex<bool>,
}

impl Relay {
    /// Loads the programs, and creates the namespaces and the trunk. No thread runs yet.
    ///
    /// # Errors
    /// [`DriverError::Config`] for an invalid configuration; otherwise the kernel's refusal (`constel_drivers::probe`
    /// explains what is missing).
    pub fn new(config: RelayConfig) -> Result<Relay> {
        config.check()?;
        let wires = Arc::new(config.wires());
        let switches = Arc::new(Switches::new(&config.switches));
        let wired = wires.count(config.ports)?;
        let cpus =
            libbpf_rs::num_possible_cpus().map_err(BpfError::refused("count the CPUs"))? as u32;
        let per_cpu = per_cpu_slots(config.slots, cpus);
        if per_cpu == 0 {
            let text = format!("{} slots are too few for {cpus} CPUs", config.slots);
            return Err(DriverError::Config(text));
        }
        let sizes = Sizes {
            // One more, for warm-up packets.
            slots: config.slots * config.threads as u32 + 1,
            cpus,
            threads: config.threads as u32,
            ports: wires.accounts(config.ports)?,
            ring: per_cpu,
        };
        let loaded = Arc::new(Loaded::new(sizes)?);
        let node_ports = config.node_ports.clamp(1, wired);
        let plumbing = Plumbing::new(node_ports, config.threads, &loaded)?;
        Ok(Relay {
            config,
            wires,
            switches,
            sizes,
            loaded,
            plumbing,
            sockets: Mutex::default(),
            far: Mutex::default(),
            started: Mutex::new(false),
        })
    }

    /// Takes interfaces of the host *of the calling thread's namespace*, before the start. They send frames that edges
    /// lead to their ports, or that are steered to them. Incoming frames are not captured until [`Relay::capture`].
    ///
    /// # Errors
    /// The kernel's refusal; [`DriverError::Config`] for more than 16.
    pub fn take(&self, externals: &[External]) -> Result<()> {
        let sockets = external::sockets(&self.loaded, externals)?;
        *self.sockets.lock().map_err(|_| DriverError::Stopped)? = sockets;
        Ok(())
    }

    /// Captures frames that come in at the interfaces taken, until the returned value is dropped. Call it once the
    /// relay runs and has either edges of these ports or a steering ([`RelayHandle::steer`]).
    ///
    /// # Errors
    /// The kernel's refusal; then no frame is captured.
    pub fn capture(&self, externals: &[External]) -> Result<Captured> {
        external::capture(&self.loaded, externals)
    }

    /// Starts the relay as [`Plane::start`] does, and returns a handle with the relay's own queries.
    ///
    /// # Errors
    /// [`DriverError::Started`] the second time; otherwise the kernel's refusal.
    pub fn start_relay(&self) -> Result<RelayHandle> {
        let mut started = self.started.lock().map_err(|_| DriverError::Started)?;
        if *started {
            return Err(DriverError::Started);
        }
        let threads = self.config.threads;
        let mut far = self.far.lock().map_err(|_| DriverError::Stopped)?.take();
        let mut sockets = self.sockets.lock().map_err(|_| DriverError::Stopped)?;
        let mut sockets = std::mem::take(&mut *sockets);
        let far_ports = far.as_ref().map_or(&[][..], |far| far.ports.as_slice());
        let owners = Arc::new(self.owners(&sockets, far_ports));
        let far_set = FarSet::new(far_ports);
        for port in (0..self.config.ports).map(PortId) {
            if let Some(wire) = self.wires.of(port) {
                let thread = &self.loaded.back(wire).thread;
                thread.store(owners.of(port) as u64, Ordering::Relaxed);
            }
        }
        let common = Common {
            ports: self.config.ports,
            far: far_set.clone(),
            wires: self.wires.clone(),
            loaded: self.loaded.clone(),
            channels: self.channel_threads(&owners),
            owners: owners.clone(),
            order: Arc::default(),
        };
        let signals = (0..threads).map(|_| Ok(Arc::new(Signals::new()?)));
        let signals: Vec<Arc<Signals>> = signals.collect::<Result<_>>()?;
        let instants = || Instants::new(common.order.clone(), threads);
        let ports = self.config.ports;
        let mut across = if threads > 1 {
            Across::all(&self.loaded, &owners, ports, &signals, instants)
        } else {
            Vec::new()
        };
        warm_up::prepare(&self.loaded.slots);
        let homes = Homes::all(threads, self.sizes.slots);
        let mut made = Vec::new();
        // The last one first, because `across.pop` takes from the end of the list.
        for (homes, signals) in homes.into_iter().zip(signals).rev() {
            let first = homes.thread() == 0;
            let (send, commands) = channel::<Command>();
            let outside = Outside {
                sockets: if first {
                    std::mem::take(&mut sockets)
                } else {
                    Vec::new()
                },
                far: far.take_if(|_| first).map(|far| (far, far_set.clone())),
                transit: self.config.transit.clone().filter(|_| first),
            };
            let across = across.pop().map(Box::new);
            let thread = self.thread(homes, (signals.clone(), commands), across, outside)?;
            made.push((signals, send, thread));
        }
        let (mut running, mut work) = (Vec::new(), Vec::new());
        for (signals, commands, thread) in made.into_iter().rev() {
            work.push(Box::new(thread));
            running.push(Running {
                signals,
                commands,
                threads: Vec::new(),
            });
        }
        if self.has_guest() {
            let [first, last] = Apart::both();
            let guest = work.pop().map(|mut guest| {
                guest.sched.apart = Some(last);
                guest.control.first = Some(running[0].signals.clone());
                guest
            });
            work[0].sched.apart = Some(first);
            work[0].guest = guest;
        }
        for (number, thread) in work.into_iter().enumerate() {
            let begun = self.begin(thread, number, &mut running[number].threads);
            // Without a handle nothing else would stop the threads that run already.
            begun.inspect_err(|_| stop(&running))?;
        }
        *started = true;
        Ok(RelayHandle::new(common, running))
    }

    /// Starts one of the relay's threads: one thread of the host, or two that alternate.
    fn begin(
        &self,
        thread: Box<Thread>,
        number: usize,
        threads: &mut Vec<NamedThread>,
    ) -> Result<()> {
        let priority = self.config.priority;
        let refused = |source| DriverError::Os {
            what: "start the relay's thread".into(),
            source,
        };
        let shifts = thread.sched.waiting.may_be_relieved().then(Shifts::new);
        let shifts = shifts.transpose().map_err(refused)?.map(Arc::new);
        let places = if shifts.is_some() { 2 } else { 1 };
        let mut work = Some(thread);
        for me in 0..places {
            let (work, shifts) = (work.take(), shifts.clone());
            let run = move || thread::serve(me, shifts.as_deref(), priority, work);
            let started = NamedThread::start_nth(&self.config.lab, number, run);
            threads.push(started.map_err(refused)?);
        }
        Ok(())
    }

    /// Returns whether there is a processor that a relay thread can move to when it must leave its own to other tasks.
    fn relieved(&self, number: usize) -> bool {
        let processors = Relay::processors().len();
        self.config.priority == Priority::RealTime
            && (processors > self.config.threads || (number == 0 && self.has_guest()))
    }

    /// Returns whether the first thread also runs the last one, while one processor is enough for both.
    fn has_guest(&self) -> bool {
        let threads = self.config.threads;
        self.config.priority == Priority::RealTime
            && threads > 1
            && Relay::processors().len() == threads
    }

    /// Returns the thread of each port; `externals` are ports of interfaces of the host.
    fn owners(&self, externals: &[(PortId, Xsk)], far: &[PortId]) -> Owners {
        let config = &self.config;
        let channels: Vec<Vec<PortId>> = config
            .channels
            .iter()
            .map(|channel| channel.ports.clone())
            .collect();
        // Ports on other machines belong to the first thread too: a single thread sends there.
        let first = externals.iter().map(|(port, _)| *port);
        let first: Vec<PortId> = first.chain(far.iter().copied()).collect();
        let together = owners::Together {
            nodes: &config.nodes,
            channels: &channels,
            first: &first,
        };
        let forwards = |port| {
            let table = config.transit.as_ref();
            table.is_some_and(|table| table.member_of(port).is_some())
        };
        Owners::new(config.ports, config.threads, together, forwards)
    }

    fn channel_threads(&self, owners: &Owners) -> Vec<usize> {
        let channels = self.config.channels.iter();
        let first = channels.map(|channel| channel.ports.first());
        first
            .map(|port| port.map_or(0, |port| owners.of(*port)))
            .collect()
    }

    /// Creates one of the relay's threads, which does not run yet.
    fn thread(
        &self,
        homes: Homes,
        (signals, commands): (Arc<Signals>, Receiver<Command>),
        across: Option<Box<Across>>,
        outside: Outside,
    ) -> Result<Thread> {
        let config = &self.config;
        let number = homes.thread();
        let send = trunk_send(number);
        // The sockets are created inside the trunk's namespace, where their interface is.
        let xsk = || Xsk::new(&self.loaded.slots, send);
        let xsk = self.plumbing.trunk.run(xsk)??;
        let gso_out = self.plumbing.trunk.run(|| GsoSender::new(send))??;
        let per_cpu = per_cpu_slots(config.slots, self.sizes.cpus);
        let pool = Pool::new(&self.loaded, self.sizes, per_cpu, &self.wires, homes);
        let (rings, mut pool) = rings::set_up(&self.loaded, self.sizes, per_cpu, pool, number);
        // Only a relay with interfaces of the host reports the times of its edges.
        if !outside.sockets.is_empty() {
            pool.keep_times();
        }
        let mut table = EdgeTable::new(config.ports, config.seed);
        // With a grain, frames leave up to one grain late, which must not count as overload.
        table.set_patience(Some(LatenessLimits {
            new_ns: NEW_LATE_NS + config.grain_ns,
            in_flight_ns: IN_FLIGHT_LATE_NS + config.grain_ns,
            lasting_ns: OVERLOAD_NS,
        }));
        if let Some((far, _)) = &outside.far {
            table.come_out_ahead(&far.ports, far.ahead_ns);
        }
        let (far, far_set) = outside.far.unzip();
        let far = Far::new(far, far_set.unwrap_or_default());
        let data = DataPath {
            loaded: self.loaded.clone(),
            across,
            rings,
            wake_fd: self.loaded.wake_fd(number)?,
            pool,
            table,
            xsk,
            externals: Externals::new(outside.sockets),
            air: Air::new(&config.channels)?,
            far,
            transit: Transit::new(outside.transit),
            wires: self.wires.clone(),
            switches: Arc::clone(&self.switches),
            gso_out,
            gro: config.gro,
            passed: config.deduct_stacks.then(|| self.passed()),
            state: State::new(),
        };
        Ok(Thread {
            number,
            data,
            sched: Scheduler::new(
                Waiting::new(
                    config.priority,
                    config.lead_ns,
                    config.grain_ns,
                    self.relieved(number),
                )
                .on_clock(constel_host::clock::waits()),
            ),
            control: Control {
                signals,
                commands,
                first: None,
            },
            guest: None,
        })
    }

    fn passed(&self) -> Passed {
        let config = &self.config;
        // Ports that are nodes of their own get numbers from the top, which no node has.
        let nodes = (0..config.ports).map(|port| match config.nodes.get(port as usize) {
            Some(node) => *node,
            None => u32::MAX - port,
        });
        Passed::new(nodes.collect(), config.grain_ns)
    }

    /// Returns the maximum number of threads on this machine: the number of processors available to this process, at
    /// most 8.
    #[must_use]
    pub fn threads_max() -> usize {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        processors.min(layout::THREADS_MAX)
    }

    /// Returns the processors that this process may run on, by the kernel's numbers.
    #[must_use]
    pub fn processors() -> Vec<usize> {
        // SAFETY: plain old data.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::cpu_set_t>();
        // SAFETY: about the calling thread, with a local of the size given.
        if unsafe { libc::sched_getaffinity(0, size, &raw mut set) } != 0 {
            return Vec::new();
        }
        // SAFETY: within the set.
        let has = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
        (0..libc::CPU_SETSIZE as usize).filter(has).collect()
    }
}

/// Parts that only the first thread has.
struct Outside {
    sockets: Vec<(PortId, Xsk)>,
    far: Option<(FarPorts, FarSet)>,
    transit: Option<Arc<Table>>,
}

/// Stops the threads that were started before another one could not be.
fn stop(running: &[Running]) {
    for Running {
        signals, threads, ..
    } in running
    {
        signals.stop.store(true, Ordering::SeqCst);
        signals.ring();
        threads.iter().for_each(NamedThread::join);
    }
}

impl Plane for Relay {
    fn kind(&self) -> DriverKind {
        DriverKind::Relay
    }

    fn shard_ns(&self, port: PortId) -> Result<&NetNs> {
        let ports = self.config.ports;
        check_port(port, ports)?;
        let wire = self.wires.of(port);
        let shard = wire.and_then(|wire| self.plumbing.shard_of(wire));
        shard.ok_or(DriverError::NoSuchPort { port, ports })
    }

    fn host_ifindex(&self, port: PortId) -> Result<u32> {
        let ports = self.config.ports;
        let wire = self.wires.of(port);
        let wire = wire.ok_or(DriverError::NoSuchPort { port, ports })?;
        Ok(host_ifindex(PortId(wire)))
    }

    fn attach(&self, ports: &[PortId]) -> Result<()> {
        let all = self.config.ports;
        let wire = |&port: &PortId| {
            check_port(port, all)?;
            let none = DriverError::NoSuchPort { port, ports: all };
            self.wires.of(port).ok_or(none)
        };
        let wires: Vec<u32> = ports.iter().map(wire).collect::<Result<_>>()?;
        self.plumbing.attach(&self.loaded, wires)
    }

    fn take_interfaces(&self, interfaces: &[External]) -> Result<()> {
        self.take(interfaces)
    }

    fn let_in(&self, interfaces: &[External]) -> Result<Captured> {
        self.capture(interfaces)
    }

    fn far(&self, far: FarPorts) -> Result<()> {
        let mut ports = far.ports.iter();
        ports.try_for_each(|&port| check_port(port, self.config.ports))?;
        *self.far.lock().map_err(|_| DriverError::Stopped)? = Some(far);
        Ok(())
    }

    fn start(&self) -> Result<Arc<dyn Links>> {
        Ok(Arc::new(self.start_relay()?))
    }

    fn lost_before_capture(&self) -> Result<u64> {
        let shards = self.plumbing.shards.iter();
        shards.map(|ns| ns.run(lost_before_capture)?).sum()
    }

    /// The trunk first.
    fn namespaces(&self) -> Vec<BorrowedFd<'_>> {
        std::iter::once(&self.plumbing.trunk)
            .chain(&self.plumbing.shards)
            .map(AsFd::as_fd)
            .collect()
    }
}

/// Returns the number of free slots per CPU: a power of two, because it is also the ring's size. All CPUs together get
/// at most half of a thread's slots.
fn per_cpu_slots(slots: u32, cpus: u32) -> u32 {
    let share = slots / 2 / cpus.max(1);
    if share == 0 {
        0
    } else {
        FREE_PER_CPU.min(1 << share.ilog2())
    }
}
