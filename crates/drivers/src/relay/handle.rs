//! Talking to the running relay from any thread.

use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use constel_link::{
    CheckedEffects, CheckedUpdate, EdgeStats, EdgeUpdate, EffectsChange, Histogram, Nanos, PortId,
    UpdateError,
};
use serde::Serialize;

use super::error::{RelayError, Result};
use super::object::Loaded;
use super::stalls::Stall;
use super::stats::{ClassLateness, RelayStats};
use super::thread::{Command, KnownEffects, PLACES_PER_TURN, Signals};
use crate::named::NamedThread;

/// An update that has taken effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// The instant it took effect: frames that arrived before went by the old table.
    pub at_ns: Nanos,
    /// How long the table was busy with it.
    pub took_ns: Nanos,
    /// What it did.
    pub changes: constel_link::Applied,
}

/// An update that was sent and may not have taken effect yet.
#[derive(Debug)]
pub struct Pending {
    reply: Receiver<(Result<Applied, UpdateError>, CheckedUpdate)>,
}

impl Pending {
    /// Wait until it has taken effect.
    ///
    /// # Errors
    /// [`RelayError::Update`] when an edge to be removed did not exist at that instant: nothing of
    /// the update was applied. [`RelayError::Stopped`] when the relay ended first.
    pub fn wait(self) -> Result<Applied> {
        let (result, _) = self.reply.recv().map_err(|_| RelayError::Stopped)?;
        Ok(result?)
    }
}

/// The running relay. Clones share it; the thread ends when the last one is dropped.
#[derive(Clone, Debug)]
pub struct RelayHandle {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    ports: u32,
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
        ports: u32,
        loaded: Arc<Loaded>,
        signals: Arc<Signals>,
        commands: Sender<Command>,
        thread: NamedThread,
    ) -> RelayHandle {
        RelayHandle {
            inner: Arc::new(Inner {
                ports,
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
        answer.recv().map_err(|_| RelayError::Stopped)
    }

    fn send(&self, command: Command) -> Result<()> {
        let commands = self
            .inner
            .commands
            .lock()
            .map_err(|_| RelayError::Stopped)?;
        commands.send(command).map_err(|_| RelayError::Stopped)?;
        drop(commands);
        self.inner.ring();
        Ok(())
    }

    /// Change edges in one instant: at `at_mono_ns` (`CLOCK_MONOTONIC`), or at once when that is
    /// `None` or past. Waits until it has taken effect.
    ///
    /// # Errors
    /// [`RelayError::Update`] with everything wrong with it; nothing of it was applied.
    pub fn apply(&self, update: EdgeUpdate, at_mono_ns: Option<Nanos>) -> Result<Applied> {
        self.submit(update, at_mono_ns)?.wait()
    }

    /// As [`RelayHandle::apply`], without waiting. Values are checked before this returns, on the
    /// calling thread.
    ///
    /// # Errors
    /// [`RelayError::Update`] with every value that cannot be.
    pub fn submit(&self, update: EdgeUpdate, at_mono_ns: Option<Nanos>) -> Result<Pending> {
        self.submit_checked(update.check(self.inner.ports)?, at_mono_ns)
    }

    /// As [`RelayHandle::submit`], for an update that was checked before.
    ///
    /// # Errors
    /// [`RelayError::Stopped`].
    pub fn submit_checked(
        &self,
        update: CheckedUpdate,
        at_mono_ns: Option<Nanos>,
    ) -> Result<Pending> {
        let (reply, answer) = sync_channel(1);
        self.send(Command::Apply {
            update,
            at_ns: at_mono_ns,
            reply,
        })?;
        Ok(Pending { reply: answer })
    }

    /// Change effects of ports and edges in one instant, at once. They stay whatever updates do
    /// to the edges. Returns when (`CLOCK_MONOTONIC`): frames that arrived before went by the old
    /// ones.
    ///
    /// # Errors
    /// [`RelayError::Effects`] with everything wrong with them; nothing was changed.
    pub fn apply_effects(&self, changes: Vec<EffectsChange>) -> Result<Nanos> {
        let checked = CheckedEffects::new(changes, self.inner.ports)?;
        Ok(self.ask(|reply| Command::ApplyEffects(checked, reply))??)
    }

    /// The effects that hold for an edge, existing or not.
    ///
    /// # Errors
    /// [`RelayError::Stopped`].
    pub fn effects(&self, from: PortId, to: PortId) -> Result<KnownEffects> {
        self.ask(|reply| Command::Effects(from, to, reply))
    }

    /// The relay's counters. Cheap, whatever the number of edges.
    ///
    /// # Errors
    /// [`RelayError::Stopped`].
    pub fn snapshot(&self) -> Result<RelayStats> {
        self.ask(Command::Stats)
    }

    /// One edge, alive or past; `None` when there never was one.
    ///
    /// # Errors
    /// [`RelayError::Stopped`].
    pub fn edge_stats(&self, from: PortId, to: PortId) -> Result<Option<EdgeStats>> {
        self.ask(|reply| Command::Edge(from, to, reply))
    }

    /// Frames that this port lost because it held its share of the relay's memory: it flooded. Does
    /// not disturb the relay.
    ///
    /// # Errors
    /// [`RelayError::NoSuchPort`].
    pub fn dropped_share(&self, port: PortId) -> Result<u64> {
        let ports = self.inner.ports;
        if port.0 >= ports {
            return Err(RelayError::NoSuchPort { port, ports });
        }
        let counts = self.inner.loaded.port(port.0);
        Ok(counts.dropped_share.load(Ordering::Relaxed))
    }

    /// All existing edges, sorted. Read bit by bit between frames, so not all at one instant.
    ///
    /// # Errors
    /// [`RelayError::Stopped`].
    pub fn all_edges(&self) -> Result<Vec<EdgeStats>> {
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

    /// The lateness of all frames released since the start or the last
    /// [`RelayHandle::clear_lateness`].
    ///
    /// # Errors
    /// [`RelayError::Stopped`].
    pub fn lateness(&self) -> Result<Histogram> {
        self.ask(Command::Lateness)
    }

    /// Keep the lateness of edges apart by class: `class_of` gives the place in `names` for every
    /// port, and with it for the edges that leave it.
    ///
    /// # Errors
    /// [`RelayError::Config`] when a port is of a class without a name; [`RelayError::Stopped`].
    pub fn classify(&self, names: Vec<String>, class_of: Vec<u8>) -> Result<()> {
        if names.is_empty() || class_of.iter().any(|&c| usize::from(c) >= names.len()) {
            let text = format!("a port is of none of the {} classes", names.len());
            return Err(RelayError::Config(text));
        }
        self.send(Command::Classify(names, class_of))
    }

    /// The lateness by class, since the start or the last [`RelayHandle::clear_lateness`].
    ///
    /// # Errors
    /// [`RelayError::Stopped`].
    pub fn lateness_by_class(&self) -> Result<Vec<ClassLateness>> {
        self.ask(Command::Classes)
    }

    /// When the machine kept the relay's thread from running, since the start or the last
    /// [`RelayHandle::clear_lateness`]; the latest 8,192 times.
    ///
    /// # Errors
    /// [`RelayError::Stopped`].
    pub fn stalls(&self) -> Result<Vec<Stall>> {
        self.ask(Command::Stalls)
    }

    /// Forget the lateness and the stalls recorded so far.
    ///
    /// # Errors
    /// [`RelayError::Stopped`].
    pub fn clear_lateness(&self) -> Result<()> {
        self.send(Command::ClearLateness)
    }

    /// End the relay's thread and wait for it. Frames inside are gone.
    pub fn stop(&self) {
        self.inner.stop();
    }
}
