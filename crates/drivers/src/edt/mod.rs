//! The edt driver: edges as earliest departure times, which BPF computes at tc and the kernel's fq enforces.
//!
//! All host ends are in one namespace with a few *trunks*, veth pairs whose sending end has the fq:
//!
//! ```text
//! node eth0 -- h<port> | cst_steer: which edges?          one copy for each edge, marked with its slot
//!              f<k>    | cst_depart: departure time       egress, in front of fq
//!              g<k>    | cst_arrive: into the node        ingress, behind it
//! ```
//! The model is that of `constel-link` (service, queue in front of it, delay line behind). The algorithm is that of
//! "Network Emulation in Large-Scale Virtual Edge Testbeds", Algorithm 1, with additions:
//!
//! - the server's next free instant is never before now, and remainders of a nanosecond are kept;
//! - a queue limit, and ECN marks by the time that a frame waits;
//! - loss that uses air time, and order kept when the delay shrinks;
//! - a lock for each edge, and every EtherType.
//!
//! Each edge is a flow of its own in the fq, so that no edge waits for the departure times of another.
//!
//! Parameters have two banks and an epoch that selects the active one, so an update of any number of edges takes effect
//! by one store. Differences to the relay: a change of rate takes effect behind the frames that wait already; with
//! frames of different sizes the queue's limit is kept to within one frame; frames that wait when their edge is removed
//! still arrive.

mod layout;
mod programs;
mod table;

use std::sync::{Arc, Mutex};

use constel_host::netlink::{Attributes, Batch, Socket, Tc, TcVerb, VethEnd, handle};
use constel_host::netns::NetNs;
use constel_host::time_namespace::{Clock, ahead_of_kernel_ns};
use constel_link::{EdgeCounters, EdgeStats, Histogram, Nanos, PlaneReport, PortId, Totals};

use crate::DriverKind;
use crate::clock::mono_ns;
use crate::config::PlaneConfig;
use crate::error::{DriverError, Result};
use crate::kernel_plane::{InKernel, KernelPlane};
use crate::ledger::{Edge, Ledger};
use crate::ports::host_ifindex;
use crate::quiet::{clsact, flow_by_flow, silent_ns, tx_dropped};
use crate::stats::BACKLOG;
use crate::traits::Plane;
use crate::worker::Backend;

use layout::{Counts, FIRST_TRUNK, State, lateness_of};
use programs::{Program, Programs};
use table::Table;

/// Maximum number of trunks: one for each CPU is enough.
const TRUNKS_MAX: u32 = 8;
/// Frames that an fq may hold, in total and for one edge. The fq drops and counts further frames, which are reported as
/// dropped by the emulator.
const FQ_FRAMES: u32 = 1 << 20;
/// Horizon of the fq, which drops frames that depart later. 4,000 s is nearly the largest value of its 32 bits of
/// microseconds.
const FQ_HORIZON_US: u32 = 4_000_000_000;
/// How much later than due the fq's timer may fire.
const FQ_SLACK_NS: u32 = 1_000;
/// Largest packet that passes the trunk, bytes above Ethernet.
const TRUNK_MTU: u32 = 3400;
/// Frames may carry two VLAN tags.
const _: () = assert!(DriverKind::Edt.capabilities().mtu_max_bytes + 2 * 4 == TRUNK_MTU);

/// The driver's programs and memory.
#[derive(Debug)]
struct Edt {
    trunks: u32,
    programs: Arc<Programs>,
    /// The driver's thread takes it.
    table: Mutex<Option<Table>>,
}

/// Loads the programs, and creates the namespace and the trunks.
///
/// # Errors
/// Requests that the kernel refused.
pub(crate) fn make(config: &PlaneConfig) -> Result<Box<dyn Plane>> {
    if ahead_of_kernel_ns(Clock::Monotonic)? != 0 {
        let text = "the edt driver does not work in a time namespace: frames leave by the kernel's own clock";
        return Err(DriverError::Unable(text.to_owned()));
    }
    // A power of two: the steering program selects the trunk with a mask.
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let trunks = cpus.next_power_of_two().min(TRUNKS_MAX);
    let programs = Arc::new(Programs::load(config.ports, config.edges, trunks)?);
    let table = Table::new(&programs, config.ports, config.edges, config.seed)?;
    let edt = Edt {
        trunks,
        programs,
        table: Mutex::new(Some(table)),
    };
    let ns = silent_ns()?;
    edt.make_trunks(&ns)?;
    Ok(Box::new(KernelPlane::new(config, ns, edt)))
}

impl Edt {
    fn make_trunks(&self, ns: &NetNs) -> Result<()> {
        let mut batch = Batch::new();
        for k in 0..self.trunks {
            let (send, receive) = (FIRST_TRUNK + 2 * k, FIRST_TRUNK + 2 * k + 1);
            let names = [format!("f{k}"), format!("g{k}")];
            let end = |name, ifindex| VethEnd {
                name,
                ifindex: Some(ifindex),
                mtu: Some(TRUNK_MTU),
                ..VethEnd::default()
            };
            batch.create_veth(&end(&names[0], send), &end(&names[1], receive))?;
            // `fq` holds each frame until the departure time that the program has written into it (EDT).
            batch.tc(TcVerb::AddQdisc, &fq(send));
            for (ifindex, parent, program) in [
                (send, Tc::EGRESS, Program::Depart),
                (receive, Tc::INGRESS, Program::Arrive),
            ] {
                batch.tc(TcVerb::AddQdisc, &clsact(ifindex));
                batch.tc(
                    TcVerb::AddFilter,
                    &self.programs.filter(program, ifindex, parent)?,
                );
            }
            // The filters exist before the link is up, so no frame passes without a program.
            batch.link_up(send).link_up(receive);
        }
        Socket::open_in(ns)?.send(&mut batch)?;
        let receivers: Vec<String> = (0..self.trunks).map(|k| format!("g{k}")).collect();
        ns.run(|| flow_by_flow(&receivers))?
    }
}

impl InKernel for Edt {
    const KIND: DriverKind = DriverKind::Edt;
    type Backend = EdtBackend;

    fn attach(&self, port: PortId, batch: &mut Batch) -> Result<()> {
        let ifindex = host_ifindex(port);
        let filter = self.programs.filter(Program::Steer, ifindex, Tc::INGRESS)?;
        batch.tc(TcVerb::AddQdisc, &clsact(ifindex));
        batch.tc(TcVerb::AddFilter, &filter);
        Ok(())
    }

    fn backend(&self, ns: NetNs) -> Result<EdtBackend> {
        let table = self.table.lock().ok().and_then(|mut t| t.take());
        Ok(EdtBackend {
            table: table.ok_or(DriverError::Started)?,
            programs: self.programs.clone(),
            ns,
            trunks: self.trunks,
            forgotten: Vec::new(),
        })
    }
}

/// Returns an fq that enforces departure times and does not shape otherwise.
fn fq(ifindex: u32) -> Tc<'static> {
    // Attributes of the kernel's pkt_sched.h.
    const PLIMIT: u16 = 1;
    const FLOW_PLIMIT: u16 = 2;
    const RATE_ENABLE: u16 = 5;
    const BUCKETS_LOG: u16 = 8;
    const ORPHAN_MASK: u16 = 10;
    const TIMER_SLACK: u16 = 13;
    const HORIZON: u16 = 14;
    const HORIZON_DROP: u16 = 15;
    let options = Attributes::default()
        .u32(PLIMIT, FQ_FRAMES)
        .u32(FLOW_PLIMIT, FQ_FRAMES)
        // The rate of each edge is part of its departure times, and `fq` must not add its own.
        .u32(RATE_ENABLE, 0)
        .u32(BUCKETS_LOG, 14)
        // Use all bits of the hash, so that an edge never shares its flow with another.
        .u32(ORPHAN_MASK, u32::MAX)
        .u32(TIMER_SLACK, FQ_SLACK_NS)
        .u32(HORIZON, FQ_HORIZON_US)
        .put(HORIZON_DROP, &[1]);
    Tc {
        ifindex,
        handle: handle(1, 0),
        parent: Tc::ROOT,
        kind: "fq",
        options: Some(options),
        ..Tc::default()
    }
}

struct EdtBackend {
    table: Table,
    programs: Arc<Programs>,
    ns: NetNs,
    trunks: u32,
    /// Lateness counts at the last reset, which are subtracted from reports.
    forgotten: Vec<u64>,
}

impl EdtBackend {
    /// Returns the number of frames in each bucket of lateness, since the start.
    fn lateness(&self) -> Result<Vec<u64>> {
        let counts = self.programs.counts()?;
        let buckets = counts.first().map_or(0, |c| c.lateness.len());
        let sum = |bucket: usize| counts.iter().map(|c| c.lateness[bucket]).sum();
        Ok((0..buckets).map(sum).collect())
    }

    /// Returns the number of frames in all fqs, and of frames that they dropped.
    fn fq(&self) -> Result<(u64, u64)> {
        let stats = Socket::open_in(&self.ns)?.qdisc_stats()?;
        let ours = stats
            .iter()
            .filter(|q| q.kind == "fq" && q.parent == Tc::ROOT);
        Ok(ours.fold((0, 0), |sum, q| (sum.0 + q.queued, sum.1 + q.drops)))
    }
}

impl Backend for EdtBackend {
    fn room(&self, wanted: usize) -> Result<()> {
        self.table.room(wanted)
    }

    fn prepare(&mut self, ledger: &Ledger, edges: &[Edge]) -> Result<()> {
        self.table.prepare(ledger, edges)
    }

    fn commit(&mut self) -> Result<()> {
        self.table.commit();
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        self.table.settle()
    }

    fn lead_ns(&self, edges: usize) -> Nanos {
        2_000_000 + 2_000 * edges as u64
    }

    // The programs count frames in the kernel, so the same frame may be counted in one place and not yet in the next
    // while traffic flows. `saturating_sub` below allows for that.
    fn snapshot(&mut self, edges: usize) -> Result<PlaneReport> {
        self.table.write_clocks();
        let mut sum = EdgeCounters::default();
        self.table.add_all(&mut sum)?;
        let (queued, fq_drops) = self.fq()?;
        let names = (0..self.trunks).map(|k| format!("f{k}"));
        let backlog = self.ns.run(|| tx_dropped(names))??;
        let counts = self.programs.counts()?;
        let total = |field: fn(&Counts) -> u64| counts.iter().map(field).sum::<u64>();
        let mut lateness = Histogram::new();
        for (bucket, n) in self.lateness()?.into_iter().enumerate() {
            let forgotten = self.forgotten.get(bucket).copied().unwrap_or(0);
            // The programs only count upwards. The counts at the last reset are subtracted here.
            if n > forgotten {
                lateness.record_n(lateness_of(bucket), n - forgotten);
            }
        }
        // The edge's own counter says "accepted": in the kernel a frame counts as delivered only when it has left the
        // trunk.
        let released = total(|c| c.released);
        let accepted = sum.delivered;
        sum.delivered = released;
        sum.delivered_bytes = total(|c| c.released_bytes);
        let emulator_drops = [
            ("gso", total(|c| c.dropped_gso)),
            ("size", total(|c| c.dropped_size)),
            ("no_buffer", total(|c| c.dropped_copy)),
            ("fq", fq_drops),
            (BACKLOG, backlog),
        ];
        let totals = Totals {
            edges,
            counters: sum,
            dropped_no_edge: total(|c| c.no_edge) + total(|c| c.gone),
            // The kernel has no count of waiting frames, so it is the difference of the others.
            held: accepted.saturating_sub(released + fq_drops + backlog) as usize,
        };
        let (lateness, early) = (lateness.quantiles(), total(|c| c.early));
        let own = [
            ("captured", total(|c| c.steered)),
            ("delivered", released),
            ("foreign", total(|c| c.foreign)),
            ("in_fq", queued),
            ("updates", self.table.updates()),
        ];
        Ok(PlaneReport {
            driver: DriverKind::Edt,
            at_ns: mono_ns(),
            totals,
            emulator_drops: emulator_drops.into_iter().collect(),
            lateness: Some(lateness),
            own_lateness: None,
            late_frames: None,
            stalls: None,
            early: Some(early),
            counters: own.map(|(name, count)| (name.to_owned(), count)).into(),
        })
    }

    fn edge_stats(
        &mut self,
        ledger: &Ledger,
        from: PortId,
        to: PortId,
    ) -> Result<Option<EdgeStats>> {
        let edge = (from.0, to.0);
        let Some((counters, state)) = self.table.edge(edge)? else {
            return Ok(None);
        };
        let now = mono_ns();
        let impairment = ledger.edge(edge).map(|(base, effects)| effects.over(base));
        let rate = impairment.and_then(|i| i.rate_bps).map_or(0, u64::from);
        // The program keeps no queue length. The time until the server is free, times the rate, gives the bytes that
        // wait.
        let waits_ns = u128::from(state.free_ns.saturating_sub(now));
        Ok(Some(EdgeStats {
            from,
            to,
            impairment,
            counters,
            held: 0,
            queue_bytes: (waits_ns * u128::from(rate) / 8_000_000_000) as u64,
        }))
    }

    fn all_edges(&mut self, ledger: &Ledger) -> Result<Vec<EdgeStats>> {
        let mut all = Vec::new();
        for (from, to) in ledger.edges() {
            all.extend(self.edge_stats(ledger, PortId(from), PortId(to))?);
        }
        Ok(all)
    }

    fn clear_lateness(&mut self) -> Result<()> {
        self.forgotten = self.lateness()?;
        Ok(())
    }
}

impl State {
    fn add_to(&self, sum: &mut EdgeCounters) {
        sum.add(&EdgeCounters {
            offered: self.offered,
            offered_bytes: self.offered_bytes,
            delivered: self.accepted,
            delivered_bytes: self.accepted_bytes,
            dropped_queue: self.dropped_queue,
            dropped_loss: self.dropped_loss,
            dropped_outage: self.dropped_outage,
            marked: self.marked,
            ..EdgeCounters::default()
        });
    }
}
