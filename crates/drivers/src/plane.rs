//! One interface to all drivers: where ports stand, updates of the edge table, effects, counters.
//!
//! A choice made once for each call, never for each frame.

use std::os::fd::BorrowedFd;
use std::sync::mpsc::Receiver;

use constel_host::netns::NetNs;
use constel_link::{EdgeStats, EdgeUpdate, EffectsChange, Nanos, PortId, Quantiles, Totals};
use serde::Serialize;

use crate::edt::Edt;
use crate::error::{DriverError, Result};
use crate::netem::Netem;
use crate::quiet::lost_before_capture;
use crate::relay::{self, Applied, KnownEffects, Relay, RelayConfig, RelayHandle};
use crate::worker::WorkerHandle;
use crate::{Capabilities, DriverKind};

/// What a link plane is made for.
#[derive(Clone, Debug)]
pub struct PlaneConfig {
    /// The lab, for the name of the driver's thread.
    pub lab: String,
    /// Ports there can be: 1 to 65,536, numbered from 0.
    pub ports: u32,
    /// Edges there can be at a time, for drivers that keep them in memory of a fixed size.
    pub edges: u32,
    /// Decides all random draws of all edges.
    pub seed: u64,
    /// Frames leave at whole multiples of this; 0: each at its own time. Only [`Relay`] knows it.
    pub grain_ns: Nanos,
}

impl PlaneConfig {
    /// For so many ports, with room for 32 edges a port, 65,536 at least.
    #[must_use]
    pub fn new(lab: impl Into<String>, ports: u32, seed: u64) -> PlaneConfig {
        PlaneConfig {
            lab: lab.into(),
            ports,
            edges: ports.saturating_mul(32).clamp(65_536, 1 << 22),
            seed,
            grain_ns: 0,
        }
    }

    /// # Errors
    /// When there is no such port.
    pub(crate) fn check_port(&self, port: PortId) -> Result<()> {
        let ports = self.ports;
        if port.0 < ports {
            Ok(())
        } else {
            Err(DriverError::NoSuchPort { port, ports })
        }
    }
}

/// The namespaces, programs and memory of a driver.
///
/// Whoever makes the ports creates, for each, a veth pair whose host end is called `h<port>`, has the index
/// [`LinkPlane::host_ifindex`], stands in the namespace [`LinkPlane::shard_ns`] and is up; the node's end must have
/// the address [`constel_link::mac_of`] and send no super-frames ([`relay::send_single_frames`]). Then
/// [`LinkPlane::attach`].
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one in a lab, and it is not moved about"
)]
pub enum LinkPlane {
    /// See [`Relay`].
    Relay(Relay),
    /// See [`Edt`].
    Edt(Edt),
    /// See [`Netem`].
    Netem(Netem),
}

impl LinkPlane {
    /// Make the driver's own namespaces and load its programs. Nothing runs yet.
    ///
    /// # Errors
    /// What the kernel refused; [`crate::probe`] explains what is missing.
    pub fn new(kind: DriverKind, config: &PlaneConfig) -> Result<LinkPlane> {
        Ok(match kind {
            DriverKind::Relay => LinkPlane::Relay(Relay::new(RelayConfig {
                grain_ns: config.grain_ns,
                ..RelayConfig::new(config.lab.as_str(), config.ports, config.seed)
            })?),
            DriverKind::Edt => LinkPlane::Edt(Edt::new(config)?),
            DriverKind::Netem => LinkPlane::Netem(Netem::new(config)?),
        })
    }

    /// Which driver it is.
    #[must_use]
    pub fn kind(&self) -> DriverKind {
        match self {
            LinkPlane::Relay(_) => DriverKind::Relay,
            LinkPlane::Edt(_) => DriverKind::Edt,
            LinkPlane::Netem(_) => DriverKind::Netem,
        }
    }

    /// What it can do.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.kind().capabilities()
    }

    /// Index that the host end of a port must have.
    #[must_use]
    pub const fn host_ifindex(port: PortId) -> u32 {
        relay::host_ifindex(port)
    }

    /// The namespace in which the host end of this port must stand.
    ///
    /// # Errors
    /// When the driver was made for fewer ports.
    pub fn shard_ns(&self, port: PortId) -> Result<&NetNs> {
        match self {
            LinkPlane::Relay(relay) => Ok(relay.shard_ns(port)?),
            LinkPlane::Edt(edt) => edt.shard_ns(port),
            LinkPlane::Netem(netem) => netem.shard_ns(port),
        }
    }

    /// Take these ports into the link plane; their host ends exist. May be called by several threads.
    ///
    /// # Errors
    /// The first interface that does not exist, or what else the kernel refused.
    pub fn attach(&self, ports: &[PortId]) -> Result<()> {
        match self {
            LinkPlane::Relay(relay) => Ok(relay.attach(ports)?),
            LinkPlane::Edt(edt) => edt.attach(ports),
            LinkPlane::Netem(netem) => netem.attach(ports),
        }
    }

    /// Start moving frames.
    ///
    /// # Errors
    /// The second time; else what the kernel refused.
    pub fn start(&self) -> Result<LinkHandle> {
        Ok(match self {
            LinkPlane::Relay(relay) => LinkHandle::Relay(relay.start()?),
            LinkPlane::Edt(edt) => LinkHandle::Worker(edt.start()?),
            LinkPlane::Netem(netem) => LinkHandle::Worker(netem.start()?),
        })
    }

    /// Frames that nodes have sent so far and that did not reach the driver.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn lost_before_capture(&self) -> Result<u64> {
        let here = std::slice::from_ref;
        let namespaces: &[NetNs] = match self {
            LinkPlane::Relay(relay) => relay.shards(),
            LinkPlane::Edt(edt) => here(edt.namespace()),
            LinkPlane::Netem(netem) => here(netem.namespace()),
        };
        namespaces
            .iter()
            .map(|ns| ns.run(lost_before_capture)?)
            .sum()
    }

    /// The driver's own namespaces, for tools that look inside.
    #[must_use]
    pub fn namespaces(&self) -> Vec<BorrowedFd<'_>> {
        match self {
            LinkPlane::Relay(relay) => relay.namespaces(),
            LinkPlane::Edt(edt) => vec![edt.namespace().fd()],
            LinkPlane::Netem(netem) => vec![netem.namespace().fd()],
        }
    }
}

/// A driver at an instant.
#[derive(Clone, Debug, Serialize)]
pub struct PlaneStats {
    /// Which driver.
    pub driver: DriverKind,
    /// Sums over all edges; drops the scenario asked for are in here.
    pub totals: Totals,
    /// Frames lost by the emulator itself, by cause. All zero in a sound run. Frames counted under `backlog` may
    /// be on their way at the moment of the snapshot, so only a value that stays says something.
    pub unintended: Vec<(&'static str, u64)>,
    /// Actual minus due time of the frames released so far; without values for a driver that cannot know.
    pub lateness: Quantiles,
    /// Of that, what the machine is not to blame for; for drivers that cannot tell, the same.
    pub own_lateness: Quantiles,
    /// When the machine kept the driver from running, for drivers that can tell.
    pub stalls: relay::StallStats,
    /// Frames released before their time.
    pub early: u64,
    /// Everything the driver counts, in its own words.
    pub detail: serde_json::Value,
}

impl PlaneStats {
    /// The count of one cause of unintended drops.
    #[must_use]
    pub fn lost_to(&self, cause: &str) -> u64 {
        self.unintended
            .iter()
            .find(|(name, _)| *name == cause)
            .map_or(0, |(_, count)| *count)
    }

    /// All unintended drops, without `backlog`.
    #[must_use]
    pub fn unintended_total(&self) -> u64 {
        let counts = self.unintended.iter().filter(|(name, _)| *name != BACKLOG);
        counts.map(|(_, count)| count).sum()
    }

    /// Frames that were on their way at this snapshot and have arrived by `later` were not lost.
    pub fn settle_backlog(&mut self, later: &PlaneStats) {
        let now = later.lost_to(BACKLOG);
        for (_, count) in self
            .unintended
            .iter_mut()
            .filter(|(name, _)| *name == BACKLOG)
        {
            if now < *count {
                *count = now;
                self.detail["unintended"][BACKLOG] = now.into();
            }
        }
    }

    /// Adds what was [lost before capture](LinkPlane::lost_before_capture).
    pub fn add_lost_before_capture(&mut self, frames: u64) {
        self.unintended.push((CAPTURE, frames));
        self.detail["unintended"][CAPTURE] = frames.into();
    }

    fn of_relay(stats: relay::RelayStats) -> PlaneStats {
        let lost = &stats.unintended;
        PlaneStats {
            driver: DriverKind::Relay,
            totals: stats.totals,
            unintended: vec![
                ("pool", lost.pool),
                ("share", lost.share),
                ("ring", lost.ring),
                ("gso", lost.gso),
                ("size", lost.size),
                ("error", lost.error),
                ("no_buffer", lost.no_buffer),
                ("trunk", lost.trunk),
                (BACKLOG, lost.backlog),
            ],
            lateness: stats.lateness,
            own_lateness: stats.own_lateness,
            stalls: stats.stalls,
            early: stats.early,
            detail: serde_json::to_value(stats).unwrap_or_default(),
        }
    }
}

/// The cause that frames under way are counted under.
pub const BACKLOG: &str = "backlog";

/// The cause of [`LinkPlane::lost_before_capture`].
pub const CAPTURE: &str = "capture";

/// An update that was sent and may not have taken effect yet.
#[derive(Debug)]
pub enum PendingUpdate {
    /// To the relay.
    Relay(relay::Pending),
    /// To another driver's thread.
    Worker(Receiver<Result<Applied>>),
}

impl PendingUpdate {
    /// Wait until it has taken effect.
    ///
    /// # Errors
    /// [`DriverError::Update`] when an edge to be removed did not exist at that instant: nothing of the update was
    /// applied. [`DriverError::Stopped`] when the driver ended first.
    pub fn wait(self) -> Result<Applied> {
        match self {
            PendingUpdate::Relay(pending) => Ok(pending.wait().map_err(lift)?),
            PendingUpdate::Worker(reply) => reply.recv().map_err(|_| DriverError::Stopped)?,
        }
    }
}

/// Refusals are the same whichever driver refuses.
fn lift(error: relay::RelayError) -> DriverError {
    match error {
        relay::RelayError::Update(error) => DriverError::Update(error),
        relay::RelayError::Effects(error) => DriverError::Effects(error),
        relay::RelayError::Stopped => DriverError::Stopped,
        error => DriverError::Relay(error),
    }
}

/// The running driver. Clones share it; it ends when the last one is dropped.
#[derive(Clone, Debug)]
pub enum LinkHandle {
    /// The relay.
    Relay(RelayHandle),
    /// Another driver's thread.
    Worker(WorkerHandle),
}

impl LinkHandle {
    /// Change edges in one instant (for drivers that declare `atomic_updates`): at `at_mono_ns` (`CLOCK_MONOTONIC`),
    /// or at once when that is `None` or past. Waits until it has taken effect.
    ///
    /// # Errors
    /// [`DriverError::Update`] or [`DriverError::Unsupported`] with everything wrong with it; nothing was applied.
    pub fn apply(&self, update: EdgeUpdate, at_mono_ns: Option<Nanos>) -> Result<Applied> {
        self.submit(update, at_mono_ns)?.wait()
    }

    /// As [`LinkHandle::apply`], without waiting. Values are checked before this returns.
    ///
    /// # Errors
    /// Everything wrong with the values.
    pub fn submit(&self, update: EdgeUpdate, at_mono_ns: Option<Nanos>) -> Result<PendingUpdate> {
        Ok(match self {
            LinkHandle::Relay(relay) => {
                PendingUpdate::Relay(relay.submit(update, at_mono_ns).map_err(lift)?)
            }
            LinkHandle::Worker(worker) => PendingUpdate::Worker(worker.submit(update, at_mono_ns)?),
        })
    }

    /// Change effects of ports and edges, at once. They stay whatever updates do to the edges. Returns when
    /// (`CLOCK_MONOTONIC`).
    ///
    /// # Errors
    /// [`DriverError::Effects`] or [`DriverError::Unsupported`] with everything wrong with them; nothing was changed.
    pub fn apply_effects(&self, changes: Vec<EffectsChange>) -> Result<Nanos> {
        match self {
            LinkHandle::Relay(relay) => relay.apply_effects(changes).map_err(lift),
            LinkHandle::Worker(worker) => worker.apply_effects(changes),
        }
    }

    /// The effects that hold for an edge, existing or not.
    ///
    /// # Errors
    /// [`DriverError::Stopped`].
    pub fn effects(&self, from: PortId, to: PortId) -> Result<KnownEffects> {
        match self {
            LinkHandle::Relay(relay) => relay.effects(from, to).map_err(lift),
            LinkHandle::Worker(worker) => worker.effects(from, to),
        }
    }

    /// The driver's counters.
    ///
    /// # Errors
    /// [`DriverError::Stopped`], or when the kernel does not tell.
    pub fn snapshot(&self) -> Result<PlaneStats> {
        match self {
            LinkHandle::Relay(relay) => Ok(PlaneStats::of_relay(relay.snapshot().map_err(lift)?)),
            LinkHandle::Worker(worker) => worker.snapshot(),
        }
    }

    /// Frames that this port lost because it flooded and held its share of the driver's memory; `None` for drivers
    /// that leave that to the kernel's queues.
    ///
    /// # Errors
    /// [`DriverError::NoSuchPort`] within the relay's own error.
    pub fn dropped_share(&self, port: PortId) -> Result<Option<u64>> {
        match self {
            LinkHandle::Relay(relay) => relay.dropped_share(port).map(Some).map_err(lift),
            LinkHandle::Worker(_) => Ok(None),
        }
    }

    /// One edge, alive or past; `None` when there never was one. Only the relay knows what is inside an edge; the
    /// other drivers count a frame as delivered when it has its departure time.
    ///
    /// # Errors
    /// [`DriverError::Stopped`], or when the kernel does not tell.
    pub fn edge_stats(&self, from: PortId, to: PortId) -> Result<Option<EdgeStats>> {
        match self {
            LinkHandle::Relay(relay) => relay.edge_stats(from, to).map_err(lift),
            LinkHandle::Worker(worker) => worker.edge_stats(from, to),
        }
    }

    /// All existing edges, sorted. Not all at one instant.
    ///
    /// # Errors
    /// [`DriverError::Stopped`], or when the kernel does not tell.
    pub fn all_edges(&self) -> Result<Vec<EdgeStats>> {
        match self {
            LinkHandle::Relay(relay) => relay.all_edges().map_err(lift),
            LinkHandle::Worker(worker) => worker.all_edges(),
        }
    }

    /// Forget the lateness recorded so far.
    ///
    /// # Errors
    /// [`DriverError::Stopped`], or when the kernel does not tell.
    pub fn clear_lateness(&self) -> Result<()> {
        match self {
            LinkHandle::Relay(relay) => relay.clear_lateness().map_err(lift),
            LinkHandle::Worker(worker) => worker.clear_lateness(),
        }
    }

    /// Keep the lateness of edges apart by class, for drivers that can: `class_of` gives the place in `names` for
    /// every port, and with it for the edges that leave it.
    ///
    /// # Errors
    /// When a port is of a class without a name; [`DriverError::Stopped`].
    pub fn classify(&self, names: Vec<String>, class_of: Vec<u8>) -> Result<()> {
        match self {
            LinkHandle::Relay(relay) => relay.classify(names, class_of).map_err(lift),
            LinkHandle::Worker(_) => Ok(()),
        }
    }

    /// The lateness by class; empty for drivers that do not keep it apart.
    ///
    /// # Errors
    /// [`DriverError::Stopped`].
    pub fn lateness_by_class(&self) -> Result<Vec<relay::ClassLateness>> {
        match self {
            LinkHandle::Relay(relay) => relay.lateness_by_class().map_err(lift),
            LinkHandle::Worker(_) => Ok(Vec::new()),
        }
    }

    /// When the machine kept the driver from running; empty for drivers that cannot tell.
    ///
    /// # Errors
    /// [`DriverError::Stopped`].
    pub fn stalls(&self) -> Result<Vec<relay::Stall>> {
        match self {
            LinkHandle::Relay(relay) => relay.stalls().map_err(lift),
            LinkHandle::Worker(_) => Ok(Vec::new()),
        }
    }

    /// End the driver's thread and wait for it.
    pub fn stop(&self) {
        match self {
            LinkHandle::Relay(relay) => relay.stop(),
            LinkHandle::Worker(worker) => worker.stop(),
        }
    }
}
