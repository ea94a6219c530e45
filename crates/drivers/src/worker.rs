//! The thread of a driver whose edges are in the kernel: it receives updates and applies them at their instants.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use constel_host::clock;
use constel_link::{
    CheckedEffects, CheckedUpdate, EdgeStats, EdgeUpdate, EffectsChange, Nanos, PlaneReport, PortId,
};

use crate::asked;
use crate::clock::mono_ns;
use crate::error::{DriverError, Result};
use crate::ledger::{Edge, Ledger};
use crate::named::NamedThread;
use crate::traits::Links;
use crate::update::{Applied, KnownEffects, PendingUpdate};
use crate::{Capabilities, DriverKind};

/// The kernel side of a driver.
pub(crate) trait Backend: Send + 'static {
    /// Checks that there is room for `wanted` further edges.
    fn room(&self, wanted: usize) -> Result<()>;
    /// Prepares a change of these edges to the ledger's state, as far as possible before its instant.
    fn prepare(&mut self, ledger: &Ledger, edges: &[Edge]) -> Result<()>;
    /// Puts the prepared change into force.
    fn commit(&mut self) -> Result<()>;
    /// Does the remaining work afterwards.
    fn settle(&mut self) -> Result<()>;
    /// Returns how long before its instant preparing a change of `edges` edges should begin.
    fn lead_ns(&self, edges: usize) -> Nanos;
    /// Returns when to call [`Backend::wake`], if at all.
    fn wakes_at(&self) -> Option<Nanos> {
        None
    }
    /// Brings up edges whose time has come.
    fn wake(&mut self) -> Result<()> {
        Ok(())
    }
    /// Restores the edges of ports whose host ends were created again, as the ledger has them.
    fn renew(&mut self, ledger: &Ledger, ports: &[PortId]) -> Result<()> {
        let _ = (ledger, ports);
        Ok(())
    }
    /// Returns the driver's counters.
    fn snapshot(&mut self, edges: usize) -> Result<PlaneReport>;
    /// Returns an edge's counters; `None` if it never existed.
    fn edge_stats(
        &mut self,
        ledger: &Ledger,
        from: PortId,
        to: PortId,
    ) -> Result<Option<EdgeStats>>;
    /// Returns the counters of all existing edges.
    fn all_edges(&mut self, ledger: &Ledger) -> Result<Vec<EdgeStats>>;
    /// Resets the lateness recorded so far.
    fn clear_lateness(&mut self) -> Result<()>;
}

enum Command {
    Apply {
        update: CheckedUpdate,
        at_ns: Nanos,
        reply: SyncSender<Result<Applied>>,
    },
    ApplyEffects(CheckedEffects, SyncSender<Result<Nanos>>),
    Effects(PortId, PortId, SyncSender<KnownEffects>),
    Renew(Vec<PortId>, SyncSender<Result<()>>),
    Snapshot(SyncSender<Result<PlaneReport>>),
    Edge(PortId, PortId, SyncSender<Result<Option<EdgeStats>>>),
    AllEdges(SyncSender<Result<Vec<EdgeStats>>>),
    ClearLateness(SyncSender<Result<()>>),
    Stop,
}

/// Handle of the thread, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct WorkerHandle {
    capabilities: Capabilities,
    ports: u32,
    commands: Mutex<Sender<Command>>,
    thread: NamedThread,
}

impl WorkerHandle {
    fn send(&self, command: Command) -> Result<()> {
        let commands = self.commands.lock().map_err(|_| DriverError::Stopped)?;
        commands.send(command).map_err(|_| DriverError::Stopped)
    }
}

impl Drop for WorkerHandle {
    fn drop(&mut self) {
        self.stop();
    }
}

impl WorkerHandle {
    /// Starts the thread.
    pub(crate) fn start(
        kind: DriverKind,
        lab: &str,
        ports: u32,
        backend: impl Backend,
    ) -> Result<WorkerHandle> {
        let (send, commands) = channel();
        let mut worker = Worker {
            backend,
            ledger: Ledger::default(),
            scheduled: Vec::new(),
        };
        let thread = NamedThread::start(lab, move || worker.run(&commands));
        let thread = thread.map_err(|source| DriverError::Os {
            what: format!("start the thread of driver {kind}"),
            source,
        })?;
        Ok(WorkerHandle {
            capabilities: kind.capabilities(),
            ports,
            commands: Mutex::new(send),
            thread,
        })
    }

    /// Restores the edges of ports whose host ends were created again.
    ///
    /// # Errors
    /// When the kernel refuses, or the driver has been stopped.
    pub(crate) fn renew(&self, ports: Vec<PortId>) -> Result<()> {
        self.ask(|reply| Command::Renew(ports, reply))?
    }

    fn ask<T>(&self, command: impl FnOnce(SyncSender<T>) -> Command) -> Result<T> {
        let (reply, answer) = sync_channel(1);
        self.send(command(reply))?;
        answer.recv().map_err(|_| DriverError::Stopped)
    }
}

impl Links for WorkerHandle {
    fn submit(&self, update: EdgeUpdate, at_mono_ns: Option<Nanos>) -> Result<PendingUpdate> {
        let update = asked::update(update, self.ports, &self.capabilities)?;
        let (reply, answer) = sync_channel(1);
        self.send(Command::Apply {
            update,
            at_ns: at_mono_ns.unwrap_or(0),
            reply,
        })?;
        Ok(PendingUpdate::new(move || {
            answer.recv().map_err(|_| DriverError::Stopped)?
        }))
    }

    fn apply_effects(&self, changes: Vec<EffectsChange>) -> Result<Nanos> {
        let changes = asked::effects(changes, self.ports, &self.capabilities)?;
        self.ask(|reply| Command::ApplyEffects(changes, reply))?
    }

    fn effects(&self, from: PortId, to: PortId) -> Result<KnownEffects> {
        self.ask(|reply| Command::Effects(from, to, reply))
    }

    fn snapshot(&self) -> Result<PlaneReport> {
        self.ask(Command::Snapshot)?
    }

    fn edge_stats(&self, from: PortId, to: PortId) -> Result<Option<EdgeStats>> {
        self.ask(|reply| Command::Edge(from, to, reply))?
    }

    fn all_edges(&self) -> Result<Vec<EdgeStats>> {
        self.ask(Command::AllEdges)?
    }

    fn clear_lateness(&self) -> Result<()> {
        self.ask(Command::ClearLateness)?
    }

    fn stop(&self) {
        // The thread may have ended already; then there is no receiver.
        let _ = self.send(Command::Stop);
        self.thread.join();
    }
}

struct Scheduled {
    update: CheckedUpdate,
    at_ns: Nanos,
    reply: SyncSender<Result<Applied>>,
}

struct Worker<B> {
    backend: B,
    ledger: Ledger,
    /// In the order of their instants.
    scheduled: Vec<Scheduled>,
}

impl<B: Backend> Worker<B> {
    fn run(&mut self, commands: &Receiver<Command>) {
        clock::sleep_exactly();
        loop {
            let begin = self.scheduled.first().map(|next| {
                let edges = next.update.changes().len();
                // Preparing takes time in proportion to the edges, and the commit must be on time.
                next.at_ns.saturating_sub(self.backend.lead_ns(edges))
            });
            let wakes_at = self.backend.wakes_at();
            let next = begin.into_iter().chain(wakes_at).min();
            // Without scheduled work the thread only waits for commands; an hour is arbitrary.
            let wait = next.map_or(Duration::from_secs(3600), |at| {
                Duration::from_nanos(at.saturating_sub(mono_ns()))
            });
            // A requester may have given up, so failed replies are ignored.
            match commands.recv_timeout(wait) {
                Err(RecvTimeoutError::Timeout) if begin.is_some() && begin == next => {
                    let due = self.scheduled.remove(0);
                    let _ = due.reply.try_send(self.apply(&due));
                    self.settle();
                }
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(error) = self.backend.wake() {
                        eprintln!("constel: link driver: {error}");
                    }
                }
                Err(RecvTimeoutError::Disconnected) | Ok(Command::Stop) => return,
                Ok(Command::Apply {
                    update,
                    at_ns,
                    reply,
                }) => {
                    // Updates for the same instant stay in the order in which they were submitted.
                    let place = self.scheduled.partition_point(|s| s.at_ns <= at_ns);
                    self.scheduled.insert(
                        place,
                        Scheduled {
                            update,
                            at_ns,
                            reply,
                        },
                    );
                }
                Ok(Command::ApplyEffects(changes, reply)) => {
                    // Commands by hand have no instant: they take effect at once.
                    let edges = self.ledger.apply_effects(&changes);
                    let _ = reply.try_send(self.change(&edges, 0).map(|(at_ns, _)| at_ns));
                    self.settle();
                }
                Ok(Command::Effects(from, to, reply)) => {
                    let _ = reply.try_send(self.ledger.effects(from, to));
                }
                Ok(Command::Renew(ports, reply)) => {
                    let _ = reply.try_send(self.backend.renew(&self.ledger, &ports));
                }
                Ok(Command::Snapshot(reply)) => {
                    let _ = reply.try_send(self.backend.snapshot(self.ledger.len()));
                }
                Ok(Command::AllEdges(reply)) => {
                    let _ = reply.try_send(self.backend.all_edges(&self.ledger));
                }
                Ok(Command::ClearLateness(reply)) => {
                    let _ = reply.try_send(self.backend.clear_lateness());
                }
                Ok(Command::Edge(from, to, reply)) => {
                    let _ = reply.try_send(self.backend.edge_stats(&self.ledger, from, to));
                }
            }
        }
    }

    fn apply(&mut self, due: &Scheduled) -> Result<Applied> {
        let adds = due.update.changes().iter().filter(|change| {
            let (from, to) = change.edge();
            self.ledger.edge((from.0, to.0)).is_none()
        });
        // Before the ledger changes: an update that does not fit must change nothing.
        self.backend.room(adds.count())?;
        let changes = self.ledger.apply(&due.update)?;
        let ends = due.update.changes().iter().map(|change| change.edge());
        let edges: Vec<Edge> = ends.map(|(from, to)| (from.0, to.0)).collect();
        let (at_ns, took_ns) = self.change(&edges, due.at_ns)?;
        Ok(Applied {
            at_ns,
            took_ns,
            changes,
        })
    }

    /// Makes a change. Returns when it took effect, and how long that took.
    fn change(&mut self, edges: &[Edge], at_ns: Nanos) -> Result<(Nanos, Nanos)> {
        // Everything slow happens here, so that the commit at the instant is short.
        self.backend.prepare(&self.ledger, edges)?;
        while let Some(left) = at_ns.checked_sub(mono_ns()).filter(|left| *left > 0) {
            // Sleep until shortly before the instant, then spin: a wake-up may be 100 us late. In virtual time none is.
            if clock::waits() {
                std::thread::sleep(Duration::from_nanos(left));
            } else if left > 200_000 {
                std::thread::sleep(Duration::from_nanos(left - 100_000));
            } else {
                std::hint::spin_loop();
            }
        }
        let start = mono_ns();
        self.backend.commit()?;
        Ok((start, mono_ns() - start))
    }

    fn settle(&mut self) {
        // The update itself is in force. An error here would make the next update fail, which tries again.
        if let Err(error) = self.backend.settle() {
            eprintln!("constel: link driver: {error}");
        }
    }
}
