//! The netem driver: the kernel's own emulator, configured by netlink messages only. It is the baseline for
//! comparisons.
//!
//! All host ends are in one namespace. Each port has a *service pair* `q<port>`/`r<port>` there:
//!
//! ```text
//! node eth0 -- h<from>  ingress: flower by destination address, matchall for an only edge, a copy for each edge of
//!                       a group address; each marked with its edge
//!              q<from>  htb, a class for each edge with a rate; in it netem with that rate and nothing else:
//!                       service and the queue in front of it
//!              r<from>  ingress: fw by mark
//!              h<to>    htb, a class for each edge; in it netem with delay and loss: the delay line; then node eth0
//! ```
//! A single netem for both would have one limit for queue and propagation together, and a delay before its rate. The
//! delay line's netem has a rate beyond all links: with any rate netem keeps the order of frames when a delay shrinks.
//! netem's correlations change the probabilities to which they apply, and its jitter reorders frames, so the driver
//! offers neither.
//!
//! Differences to the relay, declared as capabilities: delays stay constant until the next update; updates are made
//! edge by edge; losses are not seeded; a queue's limit is a number of frames of 1,514 bytes.

mod filters;
mod qdiscs;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU64;

use constel_host::Error;
use constel_host::netlink::{
    Batch, BatchError, LinkChange, QdiscStats, Socket, Tc, TcVerb, VethEnd,
};
use constel_host::netns::NetNs;
use constel_link::{EdgeCounters, EdgeStats, Nanos, PlaneReport, PortId, Totals};

use crate::DriverKind;
use crate::clock::mono_ns;
use crate::config::PlaneConfig;
use crate::error::{DriverError, Result};
use crate::kernel_plane::{InKernel, KernelPlane};
use crate::ledger::{Edge, Ledger};
use crate::ports::host_ifindex;
use crate::quiet::{clsact, silent_ns, tx_dropped};
use crate::stats::BACKLOG;
use crate::traits::Plane;
use crate::worker::Backend;

use qdiscs::{class, delay_line, root, service};

/// Index of port 0's sending end of the service pair; the receiving ends follow from `FIRST_SERVED` on.
const FIRST_SERVICE: u32 = 100_000;
const FIRST_SERVED: u32 = 200_000;

/// The driver. All of its interfaces are in its namespace.
#[derive(Debug)]
struct Netem;

/// Creates the namespace.
///
/// # Errors
/// Requests that the kernel refused.
pub(crate) fn make(config: &PlaneConfig) -> Result<Box<dyn Plane>> {
    Ok(Box::new(KernelPlane::new(config, silent_ns()?, Netem)))
}

impl InKernel for Netem {
    const KIND: DriverKind = DriverKind::Netem;
    type Backend = NetemBackend;

    fn attach(&self, port: PortId, batch: &mut Batch) -> Result<()> {
        let (send, receive) = (FIRST_SERVICE + port.0, FIRST_SERVED + port.0);
        let names = [format!("q{}", port.0), format!("r{}", port.0)];
        let end = |name, ifindex| VethEnd {
            name,
            ifindex: Some(ifindex),
            ..VethEnd::default()
        };
        let host_end = host_ifindex(port);
        // A port whose host end was deleted and created again still has its service pair.
        batch
            .create_veth(&end(&names[0], send), &end(&names[1], receive))?
            .tolerate(libc::EEXIST);
        batch.tc(TcVerb::AddQdisc, &clsact(host_end));
        batch.tc(TcVerb::AddFilter, &filters::drop_the_rest(host_end));
        batch.tc(TcVerb::AddQdisc, &root(host_end));
        batch
            .tc(TcVerb::AddQdisc, &root(send))
            .tolerate(libc::EEXIST);
        batch
            .tc(TcVerb::AddQdisc, &clsact(receive))
            .tolerate(libc::EEXIST);
        // The end that is set up last has its carrier at once, and sends at once. The kernel activates the other one later
        // (`linkwatch`: 100 interfaces a second), and drops all frames that are sent by it before; nothing sends there.
        for ifindex in [receive, send] {
            batch.change_link(&LinkChange {
                ifindex,
                up: Some(true),
                ..LinkChange::default()
            })?;
        }
        Ok(())
    }

    fn backend(&self, ns: NetNs) -> Result<NetemBackend> {
        Ok(NetemBackend {
            socket: Socket::open_in(&ns)?,
            ns,
            batch: Batch::new(),
            edges: HashMap::new(),
            live: HashMap::new(),
            classes: HashMap::new(),
            waking: BTreeSet::new(),
        })
    }
}

/// Kernel objects of an edge. Classes stay when the edge is removed: frames in flight still arrive, and the edge may be
/// added again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EdgeObjects {
    pub(crate) edge: Edge,
    /// Mark of its frames, and its number among all edges created so far.
    pub(crate) mark: u32,
    /// Minor number of its class at the service pair, if it ever had a rate.
    pub(crate) service: Option<u16>,
    /// Minor number of its class at the far port.
    pub(crate) line: u16,
    /// Whether filters direct frames to the edge.
    live: bool,
    /// The present rate of the edge, bit/s, and the bytes of its queue.
    pub(crate) served: Option<(NonZeroU64, u64)>,
    /// Whether its filter for group addresses exists.
    group: bool,
    /// Whether its filter for all frames exists, because it is the port's only edge.
    only: bool,
}

struct NetemBackend {
    socket: Socket,
    ns: NetNs,
    batch: Batch,
    edges: HashMap<Edge, EdgeObjects>,
    /// Edges of each port that filters direct frames to.
    live: HashMap<u32, Vec<Edge>>,
    /// Number of classes created on each interface.
    classes: HashMap<u32, u16>,
    /// Edges that exist but are up only from an instant on.
    waking: BTreeSet<(Nanos, Edge)>,
}

impl NetemBackend {
    fn new_class(&mut self, ifindex: u32) -> Result<u16> {
        // Minor 0 is the discipline itself, and major 1 the root. A leaf's major number is its class's minor number.
        let last = self.classes.entry(ifindex).or_insert(1);
        *last = last
            .checked_add(1)
            .filter(|n| *n < 0xffff)
            .ok_or(DriverError::Full {
                wanted: 1,
                room: 65_533,
            })?;
        let minor = *last;
        self.batch.tc(TcVerb::AddClass, &class(ifindex, minor));
        Ok(minor)
    }

    fn set(
        &mut self,
        edge: Edge,
        base: &constel_link::Impairment,
        effects: &constel_link::Effects,
    ) -> Result<()> {
        let wanted = effects.over(base);
        let (from, to) = (PortId(edge.0), PortId(edge.1));
        let mut way = match self.edges.get(&edge) {
            Some(way) => *way,
            None => EdgeObjects {
                edge,
                // The map only grows, so the number is unique. Frames without an edge have mark 0.
                mark: self.edges.len() as u32 + 1,
                service: None,
                line: self.new_class(host_ifindex(to))?,
                live: false,
                served: None,
                group: false,
                only: false,
            },
        };
        // netem cannot follow a slope, so the delay of this instant holds until the next update.
        let delay_ns = wanted.delay.at(mono_ns());
        self.batch.tc(
            TcVerb::ReplaceQdisc,
            &delay_line(host_ifindex(to), way.line, delay_ns, wanted.loss),
        );
        // A step changes the delays of most edges and the rates of few. Each request costs the kernel some microseconds.
        let served = wanted.rate_bps.map(|rate| (rate, wanted.queue.bytes));
        let before = std::mem::replace(&mut way.served, served);
        if let Some((rate_bps, queue_bytes)) = served.filter(|_| served != before) {
            let ifindex = FIRST_SERVICE + from.0;
            let minor = match way.service {
                Some(minor) => minor,
                None => {
                    let minor = self.new_class(ifindex)?;
                    way.service = Some(minor);
                    self.batch.tc(TcVerb::AddFilter, &filters::served(&way));
                    minor
                }
            };
            self.batch.tc(
                TcVerb::ReplaceQdisc,
                &service(ifindex, minor, rate_bps, queue_bytes),
            );
        }
        // Frames take another path with a rate than without: the filters must be created again.
        let reroute = way.live && before.is_some() != served.is_some();
        self.waking.retain(|(_, waiting)| *waiting != edge);
        let later = wanted.up_from_ns > mono_ns();
        let up = effects.down != Some(true) && !later;
        if later && effects.down != Some(true) {
            self.waking.insert((wanted.up_from_ns, edge));
        }
        // The filters contain the path, so a change of path removes and adds them.
        if way.live && (!up || reroute) {
            self.hide(&mut way);
        }
        self.edges.insert(edge, way);
        if up && !way.live {
            self.show(edge);
        }
        self.arrange(edge.0);
        Ok(())
    }

    /// Deletes the filters of the edge, so that no frame takes it.
    fn hide(&mut self, way: &mut EdgeObjects) {
        delete(&mut self.batch, &filters::unicast(way, false));
        if std::mem::take(&mut way.group) {
            delete(&mut self.batch, &filters::group(way, false));
        }
        if std::mem::take(&mut way.only) {
            delete(&mut self.batch, &filters::only(way, false));
        }
        self.forget(way);
    }

    /// Records that no filter directs frames to the edge.
    fn forget(&mut self, way: &mut EdgeObjects) {
        way.live = false;
        if let Some(list) = self.live.get_mut(&way.edge.0) {
            list.retain(|edge| *edge != way.edge);
        }
    }

    /// Prepares an edge for being set again after the host end of one of its ports was created again.
    fn lift(&mut self, edge: Edge, port: u32) -> Result<()> {
        let Some(mut way) = self.edges.get(&edge).copied() else {
            return Ok(());
        };
        if edge.0 == port {
            // The filters were on that interface.
            (way.group, way.only) = (false, false);
            self.forget(&mut way);
        } else if way.live {
            // Filters of other ports lead to the deleted interface: the kernel does not look up its number again.
            self.hide(&mut way);
        }
        if edge.1 == port {
            way.line = self.new_class(host_ifindex(PortId(port)))?;
            if way.service.is_some() {
                let filter = filters::served(&way);
                delete(&mut self.batch, &filter);
                self.batch.tc(TcVerb::AddFilter, &filter);
            }
        }
        self.edges.insert(edge, way);
        Ok(())
    }

    fn show(&mut self, edge: Edge) {
        if let Some(way) = self.edges.get_mut(&edge) {
            self.batch
                .tc(TcVerb::AddFilter, &filters::unicast(way, true));
            way.live = true;
            self.live.entry(edge.0).or_default().push(edge);
        }
    }

    /// Sets the filters of a port's edges: an only edge takes all frames; of several, each takes a copy of frames for
    /// groups.
    fn arrange(&mut self, port: u32) {
        let list = self.live.get(&port).map_or(&[][..], Vec::as_slice);
        let alone = list.len() == 1;
        // Filters are deleted before others are added: for a moment a frame may find no edge, but never two.
        for edge in list {
            let Some(way) = self.edges.get_mut(edge) else {
                continue;
            };
            if alone && std::mem::take(&mut way.group) {
                delete(&mut self.batch, &filters::group(way, false));
            }
            if !alone && std::mem::take(&mut way.only) {
                delete(&mut self.batch, &filters::only(way, false));
            }
            if alone && !std::mem::replace(&mut way.only, true) {
                self.batch.tc(TcVerb::AddFilter, &filters::only(way, true));
            }
            if !alone {
                way.only = false;
                if !std::mem::replace(&mut way.group, true) {
                    self.batch.tc(TcVerb::AddFilter, &filters::group(way, true));
                }
            }
        }
    }

    fn remove(&mut self, edge: Edge) {
        self.waking.retain(|(_, waiting)| *waiting != edge);
        let Some(mut way) = self.edges.get(&edge).copied() else {
            return;
        };
        if way.live {
            self.hide(&mut way);
            self.edges.insert(edge, way);
            self.arrange(edge.0);
        }
    }

    /// Returns whether requests were refused because a port's host end is missing, or is just being created again: a
    /// program in a node deleted the port's interface, and the host end with it.
    fn is_of_a_missing_port(&mut self, refusal: &BatchError) -> Result<bool> {
        let missing = [libc::ENODEV, libc::ENOENT, libc::EINVAL];
        if !refusal.failures.iter().all(|f| missing.contains(&f.errno)) {
            return Ok(false);
        }
        let roots = self.socket.qdiscs()?;
        let roots = roots
            .iter()
            .filter(|qdisc| qdisc.parent == Tc::ROOT && qdisc.kind == "htb");
        let whole: BTreeSet<u32> = roots.map(|qdisc| qdisc.ifindex).collect();
        let mut ports = self.edges.keys().flat_map(|edge| [edge.0, edge.1]);
        Ok(ports.any(|port| !whole.contains(&host_ifindex(PortId(port)))))
    }

    /// Returns the counters of the two disciplines of an edge, and the number of frames held.
    fn counters(
        way: &EdgeObjects,
        stats: &HashMap<(u32, u32), QdiscStats>,
    ) -> (EdgeCounters, usize) {
        let none = QdiscStats::default();
        let of = |ifindex: u32, minor: u16| {
            // The upper half of a handle is its major number, and a leaf's major number is its class's minor number.
            stats
                .get(&(ifindex, u32::from(minor) << 16))
                .unwrap_or(&none)
        };
        let line = of(host_ifindex(PortId(way.edge.1)), way.line);
        let service = way
            .service
            .map_or(&none, |minor| of(FIRST_SERVICE + way.edge.0, minor));
        let counters = EdgeCounters {
            // Served frames went on to the delay line and are counted there.
            offered: line.packets + line.drops + line.queued + service.drops + service.queued,
            delivered: line.packets,
            delivered_bytes: line.bytes,
            dropped_queue: service.drops,
            dropped_loss: line.drops,
            ..EdgeCounters::default()
        };
        (counters, (line.queued + service.queued) as usize)
    }

    fn stats_of(
        way: &EdgeObjects,
        stats: &HashMap<(u32, u32), QdiscStats>,
        ledger: &Ledger,
    ) -> EdgeStats {
        let (counters, held) = Self::counters(way, stats);
        let impairment = ledger.edge(way.edge);
        EdgeStats {
            from: PortId(way.edge.0),
            to: PortId(way.edge.1),
            impairment: impairment.map(|(base, effects)| effects.over(base)),
            counters,
            held,
            queue_bytes: 0,
        }
    }

    fn all_stats(&mut self) -> Result<HashMap<(u32, u32), QdiscStats>> {
        let stats = self.socket.qdisc_stats()?;
        let netems = stats.into_iter().filter(|q| q.kind == "netem");
        Ok(netems.map(|q| ((q.ifindex, q.handle), q)).collect())
    }
}

/// Adds the request that deletes a filter. The filter may be missing: without its port it could not be added.
fn delete(batch: &mut Batch, filter: &Tc<'_>) {
    batch
        .tc(TcVerb::DeleteFilter, filter)
        .tolerate(libc::ENOENT);
}

impl Backend for NetemBackend {
    fn room(&self, _wanted: usize) -> Result<()> {
        // Class numbers of an interface may run out; `new_class` checks that per interface.
        Ok(())
    }

    fn prepare(&mut self, ledger: &Ledger, edges: &[Edge]) -> Result<()> {
        self.batch.clear();
        for &edge in edges {
            match ledger.edge(edge) {
                Some((base, effects)) => self.set(edge, base, &effects)?,
                None => self.remove(edge),
            }
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        match self.socket.send(&mut self.batch) {
            // The refused requests are repeated when the port exists again.
            Err(Error::Batch(refusal)) if self.is_of_a_missing_port(&refusal)? => Ok(()),
            sent => Ok(sent?),
        }
    }

    fn renew(&mut self, ledger: &Ledger, ports: &[PortId]) -> Result<()> {
        self.batch.clear();
        for &PortId(port) in ports {
            // The classes went with the interface.
            self.classes.remove(&host_ifindex(PortId(port)));
            let all = self.edges.keys().copied();
            let mut own: Vec<Edge> = all
                .filter(|edge| edge.0 == port || edge.1 == port)
                .collect();
            own.sort_unstable();
            for &edge in &own {
                self.lift(edge, port)?;
            }
            for edge in own {
                match ledger.edge(edge) {
                    Some((base, effects)) => self.set(edge, base, &effects)?,
                    None => self.arrange(edge.0),
                }
            }
        }
        self.commit()
    }

    fn settle(&mut self) -> Result<()> {
        Ok(())
    }

    fn lead_ns(&self, _edges: usize) -> Nanos {
        1_000_000
    }

    fn wakes_at(&self) -> Option<Nanos> {
        self.waking.first().map(|(at, _)| *at)
    }

    fn wake(&mut self) -> Result<()> {
        let now = mono_ns();
        while let Some((_, edge)) = self.waking.first().copied().filter(|(at, _)| *at <= now) {
            self.waking.pop_first();
            self.show(edge);
            self.arrange(edge.0);
        }
        self.commit()
    }

    fn snapshot(&mut self, edges: usize) -> Result<PlaneReport> {
        let stats = self.all_stats()?;
        let mut totals = Totals {
            edges,
            ..Totals::default()
        };
        for way in self.edges.values() {
            let (counters, held) = Self::counters(way, &stats);
            totals.counters.add(&counters);
            totals.held += held;
        }
        let mut ports: Vec<u32> = self
            .edges
            .keys()
            .flat_map(|(from, to)| [*from, *to])
            .collect();
        ports.sort_unstable();
        ports.dedup();
        let names = ports
            .iter()
            .flat_map(|port| [format!("q{port}"), format!("h{port}")]);
        let backlog = self.ns.run(|| tx_dropped(names))??;
        // The interface counts drops of netem and htb, which the scenario requested, together with its own; `backlog`
        // is the rest.
        let drawn = totals.counters.dropped();
        let emulator_drops = [(BACKLOG, backlog.saturating_sub(drawn))];
        Ok(PlaneReport {
            driver: DriverKind::Netem,
            at_ns: mono_ns(),
            totals,
            emulator_drops: emulator_drops.into_iter().collect(),
            lateness: None,
            own_lateness: None,
            late_frames: None,
            stalls: None,
            early: None,
            counters: BTreeMap::new(),
        })
    }

    fn edge_stats(
        &mut self,
        ledger: &Ledger,
        from: PortId,
        to: PortId,
    ) -> Result<Option<EdgeStats>> {
        let Some(way) = self.edges.get(&(from.0, to.0)).copied() else {
            return Ok(None);
        };
        let stats = self.all_stats()?;
        Ok(Some(Self::stats_of(&way, &stats, ledger)))
    }

    fn all_edges(&mut self, ledger: &Ledger) -> Result<Vec<EdgeStats>> {
        let stats = self.all_stats()?;
        let edges = ledger.edges();
        let ways = edges.iter().filter_map(|edge| self.edges.get(edge));
        Ok(ways
            .map(|way| Self::stats_of(way, &stats, ledger))
            .collect())
    }

    fn clear_lateness(&mut self) -> Result<()> {
        // The driver does not measure lateness.
        Ok(())
    }
}
