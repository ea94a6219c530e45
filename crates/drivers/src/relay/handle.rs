//! Talking to the running relay from any thread.

use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use constel_link::{
    CheckedEffects, CheckedUpdate, EdgeStats, EdgeUpdate, EffectsChange, Histogram, Nanos, PortId,
};
use constel_medium::Counters;

use super::external::{ExternalCounts, Steer};
use super::far::{Arrival, FarSet};
use super::object::Loaded;
use super::stats::RelayStats;
use super::thread::{Command, PLACES_PER_TURN, Signals};
use super::times::EdgeTimes;
use super::transit::TransitCounts;
use super::wire::Wires;
use crate::asked;
use crate::error::{DriverError, Result, check_port};
use crate::named::NamedThread;
use crate::stats::{ClassLateness, LateSpells, PlaneStats, Stall};
use crate::tap::{Tap, Tapping, Wanted};
use crate::traits::Links;
use crate::update::{KnownEffects, PendingUpdate};

/// The running relay. Clones share it; the thread ends when the last one is dropped.
#[derive(Clone, Debug)]
pub struct RelayHandle {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    ports: u32,
    far: FarSet,
    wires: Arc<Wires>,
    loaded: Arc<Loaded>,
    signals: Arc<Signals>,
    commands: Mutex<Sender<Command>>,
    thread: NamedThread,
}

impl Inner {
    fn ring(&self) {
        self.signals.attention.store(true, Ordering::SeqCst);
        let one = 1u64;
        // SAFETY: eight bytes from a local; an eventfd takes them or is full, and full rings too.
        unsafe {
            libc::write(
                self.signals.bell.as_raw_fd(),
                (&raw const one).cast(),
                size_of::<u64>(),
            )
        };
    }

    fn stop(&self) {
        self.signals.stop.store(true, Ordering::SeqCst);
        self.ring();
        self.thread.join();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop();
    }
}

impl RelayHandle {
    pub(crate) fn new(
        (ports, far, wires): (u32, FarSet, Arc<Wires>),
        loaded: Arc<Loaded>,
        signals: Arc<Signals>,
        commands: Sender<Command>,
        thread: NamedThread,
    ) -> RelayHandle {
        RelayHandle {
            inner: Arc::new(Inner {
                ports,
                far,
                wires,
                loaded,
                signals,
                commands: Mutex::new(commands),
                thread,
            }),
        }
    }

    fn ask<T>(&self, command: impl FnOnce(SyncSender<T>) -> Command) -> Result<T> {
        let (reply, answer) = sync_channel(1);
        self.send(command(reply))?;
        answer.recv().map_err(|_| DriverError::Stopped)
    }

    fn send(&self, command: Command) -> Result<()> {
        let commands = self
            .inner
            .commands
            .lock()
            .map_err(|_| DriverError::Stopped)?;
        commands.send(command).map_err(|_| DriverError::Stopped)?;
        drop(commands);
        self.inner.ring();
        Ok(())
    }

    /// As [`Links::submit`], for an update that was checked before.
    ///
    /// # Errors
    /// [`DriverError::Stopped`].
    pub fn submit_checked(
        &self,
        update: CheckedUpdate,
        at_mono_ns: Option<Nanos>,
    ) -> Result<PendingUpdate> {
        let (reply, answer) = sync_channel(1);
        self.send(Command::Apply {
            update,
            at_ns: at_mono_ns,
            reply,
        })?;
        Ok(PendingUpdate::new(move || {
            let (result, _) = answer.recv().map_err(|_| DriverError::Stopped)?;
            Ok(result?)
        }))
    }

    /// The relay's own counters. Cheap, whatever the number of edges.
    ///
    /// # Errors
    /// [`DriverError::Stopped`].
    pub fn relay_stats(&self) -> Result<RelayStats> {
        self.ask(Command::Stats)
    }

    /// Have what comes in at interfaces of the host steered by this from here on: frames that came before go by what was
    /// before, and none is lost.
    ///
    /// # Errors
    /// [`DriverError::Stopped`].
    pub fn steer(&self, steer: Box<dyn Steer>) -> Result<()> {
        // What was before is freed here and not by the relay's thread.
        self.ask(|reply| Command::Steer(steer, reply))?;
        Ok(())
    }

    /// What went out on the interfaces of the host, in their order.
    ///
    /// # Errors
    /// [`DriverError::Stopped`].
    pub fn externals(&self) -> Result<Vec<ExternalCounts>> {
        self.ask(Command::Externals)
    }

    /// How long frames were inside, and how late, by the edge that they took; of edges that frames took since they began anew
    /// ([`forget_times`](RelayHandle::forget_times)). Only what interfaces of the host are for has them.
    ///
    /// # Errors
    /// [`DriverError::Stopped`].
    pub fn times(&self) -> Result<Vec<EdgeTimes>> {
        let (mut all, mut start) = (Vec::new(), Some(0));
        while let Some(place) = start {
            let (some, next) = self.ask(|reply| Command::Times(place, reply))?;
            all.extend(some);
            start = next;
        }
        Ok(all)
    }

    /// Have the times of edges from these ports begin anew.
    ///
    /// # Errors
    /// [`DriverError::Stopped`].
    pub fn forget_times(&self, ports: Vec<PortId>) -> Result<()> {
        self.send(Command::ForgetTimes(ports))
    }

    /// Have the look with this [number](Tapping::number) see frames of more ports from here on. Nothing happens when it
    /// has ended.
    ///
    /// # Errors
    /// [`DriverError::Stopped`].
    pub fn tap_also(&self, number: u64, more: Wanted) -> Result<()> {
        self.ask(|reply| Command::TapAlso(number, more, reply))
    }

    /// The lateness of all frames released since the start or the last [`Links::clear_lateness`].
    ///
    /// # Errors
    /// [`DriverError::Stopped`].
    pub fn lateness(&self) -> Result<Histogram> {
        self.ask(Command::Lateness)
    }
}

impl Links for RelayHandle {
    fn submit(&self, update: EdgeUpdate, at_mono_ns: Option<Nanos>) -> Result<PendingUpdate> {
        self.submit_checked(update.check(self.inner.ports)?, at_mono_ns)
    }

    fn apply_effects(&self, changes: Vec<EffectsChange>) -> Result<Nanos> {
        let checked = CheckedEffects::new(changes, self.inner.ports)?;
        Ok(self.ask(|reply| Command::ApplyEffects(checked, reply))??)
    }

    fn effects(&self, from: PortId, to: PortId) -> Result<KnownEffects> {
        self.ask(|reply| Command::Effects(from, to, reply))
    }

    fn snapshot(&self) -> Result<PlaneStats> {
        Ok(self.relay_stats()?.into())
    }

    fn dropped_share(&self, port: PortId) -> Result<Option<u64>> {
        check_port(port, self.inner.ports)?;
        // Nodes without a stack send nothing of their own.
        let wire = self.inner.wires.of(port);
        Ok(wire.map(|wire| {
            let counts = self.inner.loaded.port(wire);
            counts.dropped_share.load(Ordering::Relaxed)
        }))
    }

    fn transit(&self, member: u32) -> Result<Option<TransitCounts>> {
        self.ask(|reply| Command::Transit(member, reply))
    }

    fn edge_stats(&self, from: PortId, to: PortId) -> Result<Option<EdgeStats>> {
        self.ask(|reply| Command::Edge(from, to, reply))
    }

    fn all_edges(&self) -> Result<Vec<EdgeStats>> {
        let mut all = Vec::new();
        let mut start = 0;
        loop {
            let (edges, more) = self.ask(|reply| Command::Edges(start, reply))?;
            all.extend(edges);
            if !more {
                break;
            }
            start += PLACES_PER_TURN;
        }
        // An edge that moved to another place meanwhile may be there twice.
        all.sort_by_key(|e| (e.from, e.to));
        all.dedup_by_key(|e| (e.from, e.to));
        Ok(all)
    }

    fn clear_lateness(&self) -> Result<()> {
        self.send(Command::ClearLateness)
    }

    fn classify(&self, names: Vec<String>, class_of: Vec<u8>) -> Result<()> {
        asked::classes(&names, &class_of)?;
        self.send(Command::Classify(names, class_of))
    }

    fn lateness_by_class(&self) -> Result<Vec<ClassLateness>> {
        self.ask(Command::Classes)
    }

    fn late_beyond(&self, bound_ns: Nanos) -> Result<()> {
        self.send(Command::LateBeyond(bound_ns))
    }

    fn late_spells(&self) -> Result<Option<LateSpells>> {
        self.ask(Command::LateSpells).map(Some)
    }

    fn stalls(&self) -> Result<Vec<Stall>> {
        self.ask(Command::Stalls)
    }

    fn channels(&self) -> Result<Vec<Vec<Counters>>> {
        self.ask(Command::Air)
    }

    fn arrive(&self, arrivals: Vec<Arrival>) -> Result<()> {
        let Inner { ports, far, .. } = &*self.inner;
        for Arrival { from, to, .. } in &arrivals {
            check_port(*from, *ports)?;
            check_port(*to, *ports)?;
            if !far.has(*from) || far.has(*to) {
                let error = format!("a frame from {from} to {to}: it does not come from afar");
                return Err(DriverError::Unsupported(vec![error]));
            }
        }
        self.send(Command::Arrive(arrivals))
    }

    fn tap(&self, wanted: Wanted) -> Result<Tapping> {
        let (tap, tapping) = Tap::new(wanted);
        self.ask(|reply| Command::Tap(tap, reply))?;
        Ok(tapping)
    }

    fn stop(&self) {
        self.inner.stop();
    }
}
