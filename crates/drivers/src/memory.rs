//! A driver without a kernel: for tests of the code above drivers, without root and in virtual time.
//!
//! [`Memory`] is a [`Plane`] and, once started, its [`Links`]. Edges and effects are kept by the table that the relay
//! moves frames through ([`constel_link::EdgeTable`]), so updates are checked, refused and applied by the same rules.
//! There are no frames, and all counters stay zero.
//!
//! * Time is that of the clock passed to [`Memory::new`]. An update that is due later waits. Every call first applies
//!   the updates that have become due, and waiting for an update advances time to its instant, so no call ever blocks.
//! * [`Memory::events`] returns everything that took effect, in order and with its time.
//! * [`Memory::fail_at`] makes the nth call of a kind fail; that call has no effect.
//! * Clones share one plane, so a test keeps one and passes on another.
//! * [`Plane::shard_ns`] is refused: there are no namespaces to create ports in.
//!
//! ```
//! use constel_drivers::memory::{Event, Memory};
//! use constel_drivers::{DriverKind, Links, Plane};
//! use constel_link::{EdgeChange, EdgeUpdate, Impairment, PortId};
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU64, Ordering};
//!
//! let time_ns = Arc::new(AtomicU64::new(0));
//! let clock = time_ns.clone();
//! let memory = Memory::new(DriverKind::Relay, 2, 7, move || clock.load(Ordering::Acquire));
//! let links = memory.start()?;
//! let (from, to) = (PortId(0), PortId(1));
//! let set = EdgeChange::Set { from, to, impairment: Impairment::delay_only(1_000) };
//! let pending = links.submit(EdgeUpdate { changes: vec![set] }, Some(500))?;
//! assert!(links.all_edges()?.is_empty());
//! time_ns.store(500, Ordering::Release);
//! assert_eq!(links.all_edges()?.len(), 1);
//! assert_eq!(pending.wait()?.at_ns, 500);
//! let edges = vec![Event::Updated { at_ns: 500, changes: vec![set] }];
//! assert_eq!(memory.events()[1..], edges);
//! # Ok::<(), constel_drivers::DriverError>(())
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard};

use constel_host::netns::NetNs;
use constel_link::{
    Causes, CheckedUpdate, DropCause, EdgeChange, EdgeStats, EdgeTable, EdgeUpdate, EffectsChange,
    Frames, Nanos, PlaneReport, PortId,
};

use crate::DriverKind;
use crate::asked;
use crate::error::{DriverError, Result, check_port};
use crate::traits::{Links, Plane};
use crate::update::{Applied, KnownEffects, PendingUpdate};

/// Calls that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// [`Plane::attach`].
    Attach,
    /// [`Plane::start`].
    Start,
    /// [`Links::submit`], and [`Links::apply`], which uses it.
    Submit,
    /// [`Links::apply_effects`].
    ApplyEffects,
    /// [`Links::snapshot`].
    Snapshot,
    /// [`Links::all_edges`].
    AllEdges,
}

/// A change that took effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Ports were taken into the plane.
    Attached(Vec<PortId>),
    /// The driver was started.
    Started,
    /// Edges changed, all at one instant.
    Updated {
        /// The instant.
        at_ns: Nanos,
        /// The changes.
        changes: Vec<EdgeChange>,
    },
    /// Effects changed.
    Effects {
        /// The instant.
        at_ns: Nanos,
        /// The changes.
        changes: Vec<EffectsChange>,
    },
    /// The driver was stopped; waiting updates were discarded.
    Stopped,
}

/// A driver that keeps everything in this process. Clones share it.
#[derive(Clone, Debug)]
pub struct Memory {
    shared: Arc<Shared>,
}

struct Shared {
    kind: DriverKind,
    ports: u32,
    clock: Box<dyn Fn() -> Nanos + Send + Sync>,
    state: Mutex<State>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Memory");
        shown.field("kind", &self.kind).field("ports", &self.ports);
        shown.finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Made,
    Running,
    Stopped,
}

struct State {
    phase: Phase,
    attached: BTreeSet<PortId>,
    table: EdgeTable<()>,
    /// Updates to come: by time, and those of one time in the order of submission.
    scheduled: BTreeMap<(Nanos, u64), CheckedUpdate>,
    /// Results of updates whose time has come, until they are waited for.
    ended: BTreeMap<u64, Result<Applied>>,
    submitted: u64,
    calls: BTreeMap<Call, usize>,
    fails_at: BTreeSet<(Call, usize)>,
    events: Vec<Event>,
}

impl State {
    /// Counts a call. Returns an error if the call was chosen to fail.
    fn call(&mut self, call: Call) -> Result<()> {
        let count = self.calls.entry(call).or_default();
        *count += 1;
        if self.fails_at.contains(&(call, *count)) {
            let text = format!("{call:?}, call {count}: refused, as the test requested");
            return Err(DriverError::Unable(text));
        }
        Ok(())
    }

    /// Applies the updates due by `now_ns`.
    fn catch_up(&mut self, now_ns: Nanos) {
        while let Some(entry) = self.scheduled.first_entry() {
            let (at_ns, number) = *entry.key();
            if at_ns > now_ns {
                return;
            }
            let update = entry.remove();
            let applied = self.table.apply(at_ns, &update, &mut NoFrames);
            // A refused update has changed nothing, so it is no event.
            if applied.is_ok() {
                self.events.push(Event::Updated {
                    at_ns,
                    changes: update.changes().to_vec(),
                });
            }
            let applied = applied.map_err(DriverError::from).map(|changes| Applied {
                at_ns,
                took_ns: 0,
                changes,
            });
            self.ended.insert(number, applied);
        }
    }
}

/// The owner of the table's frames; a plane in memory has no frames.
pub(crate) struct NoFrames;

impl Frames<()> for NoFrames {
    fn duplicate(&mut self, (): &()) -> Option<()> {
        None
    }

    fn discard(&mut self, (): (), _: DropCause) {}

    fn flip_bit(&mut self, (): &mut (), _: u64) {}
}

impl Memory {
    /// Creates a plane for `ports` ports that behaves as a driver of this kind: it has that driver's capabilities, and
    /// refuses requests that the driver does not support. `clock` returns `CLOCK_MONOTONIC` or a replacement.
    #[must_use]
    pub fn new(
        kind: DriverKind,
        ports: u32,
        seed: u64,
        clock: impl Fn() -> Nanos + Send + Sync + 'static,
    ) -> Memory {
        Memory {
            shared: Arc::new(Shared {
                kind,
                ports,
                clock: Box::new(clock),
                state: Mutex::new(State {
                    phase: Phase::Made,
                    attached: BTreeSet::new(),
                    table: EdgeTable::new(ports, seed),
                    scheduled: BTreeMap::new(),
                    ended: BTreeMap::new(),
                    submitted: 0,
                    calls: BTreeMap::new(),
                    fails_at: BTreeSet::new(),
                    events: Vec::new(),
                }),
            }),
        }
    }

    /// Makes the `n`th call of this kind, counted from 1 since the plane was created, fail with
    /// [`DriverError::Unable`].
    pub fn fail_at(&self, call: Call, n: usize) {
        self.state().fails_at.insert((call, n));
    }

    /// Returns the attached ports.
    #[must_use]
    pub fn attached(&self) -> BTreeSet<PortId> {
        self.state().attached.clone()
    }

    /// Returns everything that took effect so far, in order.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        let mut state = self.state();
        state.catch_up((self.shared.clock)());
        state.events.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The lock is poisoned if a test failed on another thread; every method leaves the state consistent.
        self.shared
            .state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns the state of the running driver, with all due updates applied.
    fn running(&self) -> Result<(MutexGuard<'_, State>, Nanos)> {
        let now_ns = (self.shared.clock)();
        let mut state = self.state();
        if state.phase != Phase::Running {
            return Err(DriverError::Stopped);
        }
        state.catch_up(now_ns);
        Ok((state, now_ns))
    }

    fn finish(&self, at_ns: Nanos, number: u64) -> Result<Applied> {
        let mut state = self.state();
        if state.phase == Phase::Running {
            state.catch_up(at_ns);
        }
        // After the stop only results of updates that took effect before it are left.
        state.ended.remove(&number).ok_or(DriverError::Stopped)?
    }
}

impl Plane for Memory {
    fn kind(&self) -> DriverKind {
        self.shared.kind
    }

    fn shard_ns(&self, port: PortId) -> Result<&NetNs> {
        check_port(port, self.shared.ports)?;
        let text = "ports in memory stand in no namespace";
        Err(DriverError::Unable(text.into()))
    }

    fn attach(&self, ports: &[PortId]) -> Result<()> {
        let mut state = self.state();
        state.call(Call::Attach)?;
        ports
            .iter()
            .try_for_each(|&port| check_port(port, self.shared.ports))?;
        state.attached.extend(ports);
        state.events.push(Event::Attached(ports.to_vec()));
        Ok(())
    }

    fn start(&self) -> Result<Arc<dyn Links>> {
        let mut state = self.state();
        state.call(Call::Start)?;
        if state.phase != Phase::Made {
            return Err(DriverError::Started);
        }
        state.phase = Phase::Running;
        state.events.push(Event::Started);
        Ok(Arc::new(self.clone()))
    }

    fn lost_before_capture(&self) -> Result<u64> {
        Ok(0)
    }

    fn namespaces(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }
}

impl Links for Memory {
    fn submit(&self, update: EdgeUpdate, at_mono_ns: Option<Nanos>) -> Result<PendingUpdate> {
        let (mut state, now_ns) = self.running()?;
        state.call(Call::Submit)?;
        let update = asked::update(update, self.shared.ports, &self.capabilities())?;
        // An instant that is past counts as now, so that events stay in the order of time.
        let at_ns = at_mono_ns.unwrap_or(now_ns).max(now_ns);
        state.submitted += 1;
        let number = state.submitted;
        state.scheduled.insert((at_ns, number), update);
        state.catch_up(now_ns);
        // Waiting for the result locks the state again.
        drop(state);
        let memory = self.clone();
        Ok(PendingUpdate::new(move || memory.finish(at_ns, number)))
    }

    fn apply_effects(&self, changes: Vec<EffectsChange>) -> Result<Nanos> {
        let (mut state, now_ns) = self.running()?;
        state.call(Call::ApplyEffects)?;
        let checked = asked::effects(changes, self.shared.ports, &self.capabilities())?;
        state.table.apply_effects(now_ns, &checked, &mut NoFrames)?;
        state.events.push(Event::Effects {
            at_ns: now_ns,
            changes: checked.changes().to_vec(),
        });
        Ok(now_ns)
    }

    fn effects(&self, from: PortId, to: PortId) -> Result<KnownEffects> {
        let (state, _) = self.running()?;
        let in_force = state.table.effects(from, to);
        Ok(KnownEffects {
            in_force: in_force.as_deref().cloned().unwrap_or_default(),
            own: state
                .table
                .own_effects(from, to)
                .cloned()
                .unwrap_or_default(),
        })
    }

    fn snapshot(&self) -> Result<PlaneReport> {
        let (mut state, now_ns) = self.running()?;
        state.call(Call::Snapshot)?;
        let (driver, totals) = (self.shared.kind, state.table.totals());
        Ok(PlaneReport {
            driver,
            at_ns: now_ns,
            totals,
            emulator_drops: Causes::default(),
            lateness: None,
            own_lateness: None,
            late_frames: None,
            stalls: None,
            early: None,
            counters: BTreeMap::new(),
        })
    }

    fn edge_stats(&self, from: PortId, to: PortId) -> Result<Option<EdgeStats>> {
        Ok(self.running()?.0.table.edge_stats(from, to))
    }

    fn all_edges(&self) -> Result<Vec<EdgeStats>> {
        let (mut state, _) = self.running()?;
        state.call(Call::AllEdges)?;
        let mut all = state.table.all_stats();
        // The real drivers list only edges that exist.
        all.retain(|edge| edge.impairment.is_some());
        Ok(all)
    }

    fn clear_lateness(&self) -> Result<()> {
        self.running().map(|_| ())
    }

    fn classify(&self, names: Vec<String>, class_of: Vec<u8>) -> Result<()> {
        let (_running, _) = self.running()?;
        asked::classes(&names, &class_of)
    }

    fn stop(&self) {
        let mut state = self.state();
        if state.phase == Phase::Running {
            state.catch_up((self.shared.clock)());
            state.phase = Phase::Stopped;
            state.scheduled.clear();
            state.events.push(Event::Stopped);
        }
    }
}
