//! Handle of the running relay, for use from any thread.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use constel_link::medium::Counters;
use constel_link::{
    CheckedEffects, CheckedUpdate, EdgeStats, EdgeUpdate, EffectsChange, Histogram, Nanos,
    PlaneReport, PortId, UpdateError,
};

use super::bell::Signals;
use super::command::{Command, PLACES_PER_TURN, Query};
use super::external::{ExternalCounts, Steer};
use super::far::{Arrival, FarSet};
use super::instant::{Change, ChangeNumbers, LEAD_NS};
use super::object::Loaded;
use super::owners::Owners;
use super::stats::RelayStats;
use super::times::EdgeTimes;
use super::transit::TransitCounts;
use super::ways;
use super::wire::Wires;
use crate::asked;
use crate::clock::mono_ns;
use crate::error::{DriverError, Result, check_port};
use crate::named::NamedThread;
use crate::stats::{ClassLateness, LateSpells, Stall};
use crate::tap::{Tap, TapFilter, Tapping};
use crate::traits::Links;
use crate::update::{Applied, KnownEffects, PendingUpdate};

/// The running relay. Clones share it; its threads end when the last one is dropped.
#[derive(Clone, Debug)]
pub struct RelayHandle {
    inner: Arc<Inner>,
}

/// Data shared by all threads.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) ports: u32,
    pub(crate) far: FarSet,
    pub(crate) wires: Arc<Wires>,
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) owners: Arc<Owners>,
    /// The thread of each channel.
    pub(crate) channels: Vec<usize>,
    pub(crate) order: Arc<ChangeNumbers>,
}

/// A running thread of the relay.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) signals: Arc<Signals>,
    pub(crate) commands: Sender<Command>,
    /// Threads of the host that run it: one, or two that alternate.
    pub(crate) threads: Vec<NamedThread>,
}

#[derive(Debug)]
struct Inner {
    common: Common,
    signals: Vec<Arc<Signals>>,
    /// By thread. A caller that sends to all of them holds the lock, so that all receive commands in one
    /// order.
    commands: Mutex<Vec<Sender<Command>>>,
    threads: Vec<NamedThread>,
}

impl Inner {
    fn stop(&self) {
        for signals in &self.signals {
            signals.stop.store(true, Ordering::SeqCst);
            signals.ring();
        }
        self.threads.iter().for_each(NamedThread::join);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop();
    }
}

impl RelayHandle {
    pub(crate) fn new(common: Common, threads: Vec<Running>) -> RelayHandle {
        let mut inner = Inner {
            common,
            signals: Vec::new(),
            commands: Mutex::default(),
            threads: Vec::new(),
        };
        let mut commands = Vec::new();
        for running in threads {
            inner.signals.push(running.signals);
            inner.threads.extend(running.threads);
            commands.push(running.commands);
        }
        inner.commands = Mutex::new(commands);
        RelayHandle {
            inner: Arc::new(inner),
        }
    }

    fn count(&self) -> usize {
        self.inner.signals.len()
    }

    /// Returns the thread that serves the edges to this port.
    fn owner(&self, to: PortId) -> usize {
        self.inner.common.owners.of(to)
    }

    /// Sends a command to the first thread, and returns its reply.
    fn ask<T>(&self, command: impl FnOnce(SyncSender<T>) -> Command) -> Result<T> {
        self.ask_one(0, command)
    }

    fn ask_one<T>(
        &self,
        thread: usize,
        command: impl FnOnce(SyncSender<T>) -> Command,
    ) -> Result<T> {
        let (reply, answer) = sync_channel(1);
        self.send(thread, command(reply))?;
        answer.recv().map_err(|_| DriverError::Stopped)
    }

    /// Sends a query to a thread, and returns its reply.
    fn query<T>(&self, thread: usize, query: impl FnOnce(SyncSender<T>) -> Query) -> Result<T> {
        self.ask_one(thread, |reply| Command::Query(query(reply)))
    }

    /// Sends a query to all threads at the same time, and returns their replies.
    fn query_all<T>(&self, query: impl Fn(SyncSender<T>) -> Query) -> Result<Vec<T>> {
        self.ask_all(|reply| Command::Query(query(reply)))
    }

    /// Sends a command to all threads at the same time, and returns their replies.
    fn ask_all<T>(&self, command: impl Fn(SyncSender<T>) -> Command) -> Result<Vec<T>> {
        let asked = (0..self.count()).map(|thread| {
            let (reply, answer) = sync_channel(1);
            self.send(thread, command(reply))?;
            Ok(answer)
        });
        // All threads have the request before the first answer is awaited, so they work in parallel.
        let asked: Vec<_> = asked.collect::<Result<_>>()?;
        let answers = asked.into_iter().map(|answer| answer.recv());
        let answers: std::result::Result<_, _> = answers.collect();
        answers.map_err(|_| DriverError::Stopped)
    }

    fn send_all(&self, command: impl Fn() -> Command) -> Result<()> {
        (0..self.count()).try_for_each(|thread| self.send(thread, command()))
    }

    fn send(&self, thread: usize, command: Command) -> Result<()> {
        let commands = self
            .inner
            .commands
            .lock()
            .map_err(|_| DriverError::Stopped)?;
        commands[thread]
            .send(command)
            .map_err(|_| DriverError::Stopped)?;
        // The thread may wake on this processor and interrupt this one, so the lock is released first.
        drop(commands);
        self.inner.signals[thread].ring();
        Ok(())
    }

    /// Sends every thread its part of a change, all for the same instant: `at_ns`, or later if that is too near for all
    /// of them to be notified before.
    fn send_together(
        &self,
        at_ns: Option<Nanos>,
        changes: impl IntoIterator<Item = Change>,
    ) -> Result<()> {
        let commands = self
            .inner
            .commands
            .lock()
            .map_err(|_| DriverError::Stopped)?;
        let order = &self.inner.common.order;
        // Counted before and after the sending: while the two differ, no thread passes an instant at which the change may be due.
        order.begun.fetch_add(1, Ordering::SeqCst);
        // Every thread must have received the change when its instant comes.
        let soon = mono_ns() + LEAD_NS;
        let at_ns = at_ns.map_or(soon, |at_ns| at_ns.max(soon));
        let mut sent = Ok(());
        for (commands, change) in commands.iter().zip(changes) {
            sent = sent.and(commands.send(Command::Change(at_ns, change)));
        }
        order.told.fetch_add(1, Ordering::SeqCst);
        drop(commands);
        // All threads have the change before any is woken: a thread that wakes on our processor interrupts this one.
        let signals = &self.inner.signals;
        signals.iter().for_each(|signals| signals.attract());
        signals.iter().for_each(|signals| signals.ring());
        sent.map_err(|_| DriverError::Stopped)
    }

    /// Does the same as [`Links::submit`] for an update that was checked before.
    ///
    /// # Errors
    /// [`DriverError::Stopped`].
    pub fn submit_checked(
        &self,
        update: CheckedUpdate,
        at_mono_ns: Option<Nanos>,
    ) -> Result<PendingUpdate> {
        if self.count() > 1 {
            // Several threads must change at one instant, or a frame could meet the old edge on one and the new on
            // another.
            return self.submit_together(update, at_mono_ns);
        }
        let (reply, answer) = sync_channel(1);
        let command = Command::Apply {
            update,
            at_ns: at_mono_ns,
            reply,
        };
        self.send(0, command)?;
        Ok(PendingUpdate::new(move || {
            let (result, _) = answer.recv().map_err(|_| DriverError::Stopped)?;
            Ok(result?)
        }))
    }

    fn submit_together(
        &self,
        update: CheckedUpdate,
        at_mono_ns: Option<Nanos>,
    ) -> Result<PendingUpdate> {
        let threads = self.count();
        // A thread also needs the edges that leave its ports for ports of other threads, to know where their frames go.
        let ways = ways::changes(&update, threads, |port| self.owner(port));
        let parts = update.divided(threads, |port| self.owner(port));
        let (mut changes, mut answers) = (Vec::new(), Vec::new());
        for (update, ways) in parts.into_iter().zip(ways) {
            let (reply, answer) = sync_channel(1);
            answers.push(answer);
            changes.push(Change::Edges {
                update,
                ways,
                reply,
            });
        }
        self.send_together(at_mono_ns, changes)?;
        Ok(PendingUpdate::new(move || {
            let mut results = Vec::new();
            for answer in answers {
                let (result, _) = answer.recv().map_err(|_| DriverError::Stopped)?;
                results.push(result);
            }
            Ok(together(results)?)
        }))
    }

    /// Returns the relay's own counters. The cost does not depend on the number of edges.
    ///
    /// # Errors
    /// [`DriverError::Stopped`].
    pub fn relay_stats(&self) -> Result<RelayStats> {
        let threads = self.query_all(Query::Stats)?;
        RelayStats::of(threads).ok_or(DriverError::Stopped)
    }

    /// Replaces the steering of frames that come in at interfaces of the host. Frames that came before are steered by
    /// the old one, and none is lost.
    ///
    /// # Errors
    /// [`DriverError::Stopped`].
    pub fn steer(&self, steer: Box<dyn Steer>) -> Result<()> {
        // The old steering is freed here and not by the relay's thread.
        self.ask(|reply| Command::Steer(steer, reply))?;
        Ok(())
    }

    /// Returns the counters of the interfaces of the host, in their order.
    ///
    /// # Errors
    /// [`DriverError::Stopped`].
    pub fn externals(&self) -> Result<Vec<ExternalCounts>> {
        self.query(0, Query::Externals)
    }

    /// Returns how long frames were inside and how late they were, by edge, for edges that frames took since the last
    /// reset ([`forget_times`](RelayHandle::forget_times)). Only a relay with interfaces of the host measures this.
    ///
    /// # Errors
    /// [`DriverError::Stopped`].
    pub fn times(&self) -> Result<Vec<EdgeTimes>> {
        let (mut all, mut start) = (Vec::new(), Some(0));
        // In parts: the times of all edges at once would keep the thread from its frames for too long.
        while let Some(place) = start {
            let (some, next) = self.query(0, |reply| Query::Times(place, reply))?;
            all.extend(some);
            start = next;
        }
        Ok(all)
    }

    /// Resets the times of edges from these ports.
    ///
    /// # Errors
    /// [`DriverError::Stopped`].
    pub fn forget_times(&self, ports: Vec<PortId>) -> Result<()> {
        self.send(0, Command::ForgetTimes(ports))
    }

    /// Adds ports to the tap with this [number](Tapping::number). The call has no effect when the tap has ended.
    ///
    /// # Errors
    /// [`DriverError::Stopped`].
    pub fn tap_also(&self, number: u64, more: TapFilter) -> Result<()> {
        self.ask_all(|reply| Command::TapAlso(number, more.clone(), reply))?;
        Ok(())
    }

    /// Returns the lateness of all frames released since the start or the last [`Links::clear_lateness`].
    ///
    /// # Errors
    /// [`DriverError::Stopped`].
    pub fn lateness(&self) -> Result<Histogram> {
        let threads = self.query_all(Query::Lateness)?;
        Ok(merged(threads.iter()))
    }
}

impl Links for RelayHandle {
    fn submit(&self, update: EdgeUpdate, at_mono_ns: Option<Nanos>) -> Result<PendingUpdate> {
        self.submit_checked(update.check(self.inner.common.ports)?, at_mono_ns)
    }

    fn apply_effects(&self, changes: Vec<EffectsChange>) -> Result<Nanos> {
        let checked = CheckedEffects::new(changes, self.inner.common.ports)?;
        if self.count() == 1 {
            return Ok(self.ask(|reply| Command::ApplyEffects(checked, reply))??);
        }
        // Each thread keeps the effects of all edges, because any of them may come to its ports later.
        let (mut changes, mut answers) = (Vec::new(), Vec::new());
        for _ in 0..self.count() {
            let (reply, answer) = sync_channel(1);
            answers.push(answer);
            changes.push(Change::Effects(checked.clone(), reply));
        }
        self.send_together(None, changes)?;
        let mut at_ns = 0;
        for answer in answers {
            at_ns = answer.recv().map_err(|_| DriverError::Stopped)??;
        }
        Ok(at_ns)
    }

    fn effects(&self, from: PortId, to: PortId) -> Result<KnownEffects> {
        self.query(self.owner(to), |reply| Query::Effects(from, to, reply))
    }

    fn snapshot(&self) -> Result<PlaneReport> {
        Ok(self.relay_stats()?.into())
    }

    fn dropped_share(&self, port: PortId) -> Result<Option<u64>> {
        check_port(port, self.inner.common.ports)?;
        // Nodes without a stack send no frames of their own.
        let wire = self.inner.common.wires.of(port);
        Ok(wire.map(|wire| {
            let counts = self.inner.common.loaded.port(wire);
            counts.dropped_share.load(Ordering::Relaxed)
        }))
    }

    fn transit(&self, member: u32) -> Result<Option<TransitCounts>> {
        // Only the first thread forwards for nodes without a stack, so it has all counts.
        let counts = self.query(0, |reply| Query::Transit(member, 1, reply))?;
        Ok(counts.first().copied())
    }

    fn all_transit(&self) -> Result<Vec<TransitCounts>> {
        let mut all = Vec::new();
        loop {
            let first = all.len() as u32;
            let more = self.query(0, |reply| Query::Transit(first, PLACES_PER_TURN, reply))?;
            let last = more.len() < PLACES_PER_TURN;
            all.extend(more);
            if last {
                return Ok(all);
            }
        }
    }

    fn edge_stats(&self, from: PortId, to: PortId) -> Result<Option<EdgeStats>> {
        self.query(self.owner(to), |reply| Query::Edge(from, to, reply))
    }

    fn all_edges(&self) -> Result<Vec<EdgeStats>> {
        let mut all = Vec::new();
        for thread in 0..self.count() {
            let mut start = 0;
            loop {
                let (edges, more) = self.query(thread, |reply| Query::Edges(start, reply))?;
                all.extend(edges);
                if !more {
                    break;
                }
                start += PLACES_PER_TURN;
            }
        }
        // An edge that moved to another place between two commands may be in the list twice.
        all.sort_by_key(|e| (e.from, e.to));
        all.dedup_by_key(|e| (e.from, e.to));
        Ok(all)
    }

    fn clear_lateness(&self) -> Result<()> {
        self.send_all(|| Command::ClearLateness)
    }

    fn classify(&self, names: Vec<String>, class_of: Vec<u8>) -> Result<()> {
        asked::classes(&names, &class_of)?;
        self.send_all(|| Command::Classify(names.clone(), class_of.clone()))
    }

    fn lateness_by_class(&self) -> Result<Vec<ClassLateness>> {
        let threads = self.query_all(Query::Classes)?;
        let classes = threads.first().map_or(0, Vec::len);
        let of = |class: usize| {
            let parts = threads.iter().filter_map(|thread| thread.get(class));
            ClassLateness {
                class: threads[0][class].name.clone(),
                lateness: merged(parts.clone().map(|part| &part.lateness)).quantiles(),
                own_lateness: merged(parts.map(|part| &part.own_lateness)).quantiles(),
            }
        };
        Ok((0..classes).map(of).collect())
    }

    fn late_beyond(&self, bound_ns: Nanos) -> Result<()> {
        self.send_all(|| Command::LateBeyond(bound_ns))
    }

    fn late_spells(&self) -> Result<Option<LateSpells>> {
        let mut all = LateSpells::default();
        for part in self.query_all(Query::LateSpells)? {
            all.spells.extend(part.spells);
            all.forgotten += part.forgotten;
        }
        Ok(Some(all))
    }

    fn stalls(&self) -> Result<Vec<Stall>> {
        let mut all = self.query_all(Query::Stalls)?.concat();
        all.sort_by_key(|stall| stall.from_ns);
        Ok(all)
    }

    fn channels(&self) -> Result<Vec<Vec<Counters>>> {
        let threads = self.query_all(Query::Air)?;
        let channels = self.inner.common.channels.iter().enumerate();
        let of = |(channel, thread): (usize, &usize)| {
            let counted = threads[*thread].get(channel);
            counted.cloned().unwrap_or_default()
        };
        Ok(channels.map(of).collect())
    }

    fn arrive(&self, arrivals: Vec<Arrival>) -> Result<()> {
        let Common {
            ports, far, owners, ..
        } = &self.inner.common;
        let mut of_threads: Vec<Vec<Arrival>> = Vec::new();
        for arrival in arrivals {
            let Arrival { from, to, .. } = arrival;
            check_port(from, *ports)?;
            check_port(to, *ports)?;
            if !far.has(from) || far.has(to) {
                let error = format!("a frame from {from} to {to}: it does not come from afar");
                return Err(DriverError::Unsupported(vec![error]));
            }
            // Each frame waits in the thread that delivers to its node.
            let thread = owners.of(to);
            let most = of_threads.len().max(thread + 1);
            of_threads.resize_with(most, Vec::new);
            of_threads[thread].push(arrival);
        }
        let own = of_threads.into_iter().enumerate();
        own.filter(|(_, arrivals)| !arrivals.is_empty())
            .try_for_each(|(thread, arrivals)| self.send(thread, Command::Arrive(arrivals)))
    }

    fn come_home(&self, ports: &[PortId]) -> Result<()> {
        let all = self.inner.common.ports;
        ports.iter().try_for_each(|&port| check_port(port, all))?;
        // All far ports belong to the first thread, and stay there.
        self.ask(|reply| Command::ComeHome(ports.to_vec(), reply))
    }

    fn tap(&self, wanted: TapFilter) -> Result<Tapping> {
        let (tap, tapping) = Tap::new(wanted);
        self.ask_all(|reply| Command::Tap(tap.clone(), reply))?;
        Ok(tapping)
    }

    fn stop(&self) {
        self.inner.stop();
    }
}

/// Merges the histograms.
fn merged<'h>(parts: impl Iterator<Item = &'h Histogram>) -> Histogram {
    let mut all = Histogram::new();
    parts.for_each(|part| all.merge(part));
    all
}

/// Merges the results of an update. All threads made it or none did, so an error of one part is an error of all.
fn together(results: Vec<Result<Applied, UpdateError>>) -> Result<Applied, UpdateError> {
    let (mut errors, mut all) = (Vec::new(), None::<Applied>);
    for result in results {
        match (result, &mut all) {
            (Ok(part), Some(all)) => {
                all.took_ns = all.took_ns.max(part.took_ns);
                all.changes.added += part.changes.added;
                all.changes.changed += part.changes.changed;
                all.changes.removed += part.changes.removed;
            }
            (Ok(part), all) => *all = Some(part),
            (Err(error), _) => errors.extend(error.errors),
        }
    }
    all.filter(|_| errors.is_empty())
        .ok_or(UpdateError { errors })
}
