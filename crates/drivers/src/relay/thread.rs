//! A thread of the relay: frames in by shared memory, through the edge table, out by AF_XDP. There is one, or several that
//! divide the nodes among them ([`super::across`]).

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};

use constel_link::{
    CheckedEffects, CheckedUpdate, EdgeStats, EdgeTable, Histogram, Nanos, PortId, UpdateError,
};
use constel_medium::Counters;

use super::across::Across;
use super::air::Air;
use super::apart::Apart;
use super::awake::Awake;
use super::bell::{self, Bell};
use super::external::{ExternalCounts, Externals, Steer};
use super::far::{Arrival, Far};
use super::gso_out::GsoSender;
use super::instant::Change;
use super::late::LateFrames;
use super::layout::SlotRef;
use super::object::Loaded;
use super::passed::Passed;
use super::pool::Pool;
use super::rings::Rings;
use super::sched::{self, Overdue, Plan, Priority, Waiting};
use super::shifts::{Ended, News, Shifts};
use super::stalls::{self, Stalls};
use super::stats::ThreadStats;
use super::times::EdgeTimes;
use super::transit::{Transit, TransitCounts};
use super::tx_batch::TxBatch;
use super::warm_up::{self, WarmUp};
use super::wire::Wires;
use super::xsk::Xsk;
use crate::clock::{mono_ns, thread_cpu_ns};
use crate::error::{DriverError, Result};
use crate::stats::{LateSpells, Stall};
use crate::tap::{Tap, Wanted};
use crate::update::{Applied, KnownEffects};

/// Frames taken in before looking whether others are due; those that one is cut up into, or copied to, count.
pub(super) const INTAKE: usize = 64;
/// With more frames than this in the rings, or older ones, they are emptied before it is the turn of edges that are
/// behind...
const RINGS_LONG: u32 = 512;
const RINGS_OLD_NS: Nanos = 200_000;
/// ...for so many times [`INTAKE`] at most.
pub(super) const INTAKES_PER_TURN: u32 = 16;
/// A frame is stamped a moment before it can be seen; younger ones wait for the next look, so that
/// two CPUs' frames are merged in the right order.
const SETTLE_NS: Nanos = 300;
/// A GSO frame passes whole where the time its bytes take is no longer than this.
const GSO_NS: Nanos = 20_000;
/// Frames that are so late wait for a rest of the thread as well.
const FAR_BEHIND_NS: Nanos = 1_000_000;
/// What sending takes before it was measured.
const SENDING_NS: Nanos = 2_000;
/// While so many slots are with other threads that it must be looked after them.
const SCARCE_NS: Nanos = 500_000;
/// Where each processor has a thread of the relay, one to which frames come sleeps for so long, whatever comes...
const NAP_NS: Nanos = 50_000;
/// ...and for so long after the last.
const NAPS_NS: Nanos = 200_000;
/// Places of the table read per command, so that statistics do not make frames late.
pub(crate) const PLACES_PER_TURN: usize = 256;

/// What became of an update, and the update itself: freeing one of tens of thousands of changes takes a while, and is for
/// the asker to do.
pub(crate) type UpdateReply = SyncSender<(Result<Applied, UpdateError>, CheckedUpdate)>;

/// What other threads ask of the relay's thread.
pub(crate) enum Command {
    Apply {
        update: CheckedUpdate,
        at_ns: Option<Nanos>,
        reply: UpdateReply,
    },
    /// Where there are several threads: to be made by all of them at this instant.
    Change(Nanos, Change),
    Stats(SyncSender<ThreadStats>),
    Edge(PortId, PortId, SyncSender<Option<EdgeStats>>),
    /// Existing edges from a place on; the flag says whether there are more.
    Edges(usize, SyncSender<(Vec<EdgeStats>, bool)>),
    ApplyEffects(CheckedEffects, SyncSender<Result<Nanos, UpdateError>>),
    Effects(PortId, PortId, SyncSender<KnownEffects>),
    Lateness(SyncSender<Histogram>),
    Stalls(SyncSender<Vec<Stall>>),
    LateBeyond(Nanos),
    LateSpells(SyncSender<LateSpells>),
    Classify(Vec<String>, Vec<u8>),
    Classes(SyncSender<Vec<Class>>),
    ClearLateness,
    /// What steers from here on; it is given back what steered before.
    Steer(Box<dyn Steer>, SyncSender<Option<Box<dyn Steer>>>),
    Externals(SyncSender<Vec<ExternalCounts>>),
    /// Times of edges from a place on, and the place to go on from.
    Times(usize, SyncSender<(Vec<EdgeTimes>, Option<usize>)>),
    /// Times of edges from these ports begin anew.
    ForgetTimes(Vec<PortId>),
    /// What the ports of each channel have counted.
    Air(SyncSender<Vec<Vec<Counters>>>),
    /// What a node without a stack has done.
    Transit(u32, usize, SyncSender<Vec<TransitCounts>>),
    Tap(Tap, SyncSender<()>),
    /// The look with this number is at more ports.
    TapAlso(u64, Wanted, SyncSender<()>),
    /// Frames that came from far ports.
    Arrive(Vec<Arrival>),
    /// The nodes of these ports are here from now on.
    ComeHome(Vec<PortId>, SyncSender<()>),
}

pub(super) struct Scheduled {
    pub(super) at_ns: Nanos,
    pub(super) change: Change,
}

/// Shared with the handles.
#[derive(Debug)]
pub(crate) struct Signals {
    /// There are commands, or it is time to stop.
    pub(crate) attention: AtomicBool,
    pub(crate) stop: AtomicBool,
    /// Wakes the thread from its sleep.
    pub(crate) bell: Bell,
}

impl Signals {
    pub(crate) fn new() -> Result<Signals> {
        let bell = Bell::new().map_err(|source| DriverError::Os {
            what: "make an eventfd".into(),
            source,
        })?;
        Ok(Signals {
            attention: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            bell,
        })
    }

    /// Have the thread look up, unless it sleeps.
    pub(crate) fn attract(&self) {
        self.attention.store(true, Ordering::SeqCst);
    }

    /// Have the thread look up, whatever it does.
    pub(crate) fn ring(&self) {
        self.attract();
        self.bell.ring();
    }
}

pub(crate) struct Thread {
    /// Its number among the relay's threads.
    pub(crate) number: usize,
    pub(crate) loaded: Arc<Loaded>,
    /// The others, if there are any.
    pub(crate) across: Option<Box<Across>>,
    pub(crate) rings: Rings,
    pub(crate) pool: Pool,
    pub(crate) table: EdgeTable<SlotRef>,
    pub(crate) xsk: Xsk,
    pub(crate) externals: Externals,
    pub(crate) air: Air,
    pub(crate) far: Far,
    pub(crate) transit: Transit,
    pub(crate) wires: Arc<Wires>,
    pub(crate) gso_out: GsoSender,
    pub(crate) signals: Arc<Signals>,
    pub(crate) commands: Receiver<Command>,
    pub(crate) wake_fd: RawFd,
    pub(crate) waiting: Waiting,
    /// Frames of TCP streams that are due together go as one.
    pub(crate) gro: bool,
    /// Where what nodes' stacks take is taken off.
    pub(crate) passed: Option<Passed>,
    /// Another of the relay's threads that the same one of the host's serves.
    pub(crate) guest: Option<Box<Thread>>,
    /// Of one that can be a guest, or have one.
    pub(crate) apart: Option<Apart>,
    pub(crate) state: State,
}

/// Edges of a kind, by the port they leave.
#[derive(Clone)]
pub(crate) struct Class {
    pub(super) name: String,
    pub(super) lateness: Histogram,
    pub(super) own_lateness: Histogram,
}

impl Class {
    pub(super) fn new(name: String) -> Class {
        Class {
            name,
            lateness: Histogram::new(),
            own_lateness: Histogram::new(),
        }
    }
}

/// Bookkeeping of the thread.
pub(crate) struct State {
    pub(super) scheduled: VecDeque<Scheduled>,
    /// What is being sent; kept for its memory.
    pub(super) batch: TxBatch,
    pub(super) lateness: Histogram,
    pub(super) own_lateness: Histogram,
    /// Classes of ports; those beyond the end are of class 0.
    pub(super) class_of: Vec<u8>,
    pub(super) classes: Vec<Class>,
    pub(super) stalls: Box<Stalls>,
    pub(super) late: LateFrames,
    pub(super) early: u64,
    /// Descriptors the kernel took, those of warm-up packets among them, and super-frames.
    pub(super) taken: u64,
    /// Frames that went as parts of super-frames made here.
    pub(super) joined: u64,
    pub(super) warm_up: WarmUp,
    pub(super) awake: Awake,
    /// Frames came or went since somebody asked.
    pub(super) worked: bool,
    /// When nodes' frames came last.
    pub(super) took_in_ns: Nanos,
    pub(super) trunk_stalls: u64,
    /// What it takes to send one thing of a batch, of late.
    pub(super) sending_ns: Nanos,
    /// How late the last frame was.
    pub(super) last_late_ns: Nanos,
    /// Frames of GSO frames for which there was no slot, or more than their port's share; GSO frames the kernel did not take.
    pub(super) no_slot: u64,
    pub(super) over_share: u64,
    pub(super) gso_refused: u64,
    /// A GSO frame cut up; kept for its memory.
    pub(super) cut: Vec<SlotRef>,
    pub(super) sleeps: u64,
    pub(super) asleep: Option<Asleep>,
    /// Which of the host's threads does its work.
    pub(super) at_work: Option<usize>,
    pub(super) updates: u64,
    pub(super) longest_update_ns: Nanos,
    pub(super) started_ns: Nanos,
}

impl State {
    pub(crate) fn new() -> State {
        State {
            scheduled: VecDeque::new(),
            batch: TxBatch::default(),
            lateness: Histogram::new(),
            own_lateness: Histogram::new(),
            class_of: Vec::new(),
            classes: vec![Class::new("edge".into())],
            stalls: Box::new(Stalls::new()),
            late: LateFrames::new(),
            early: 0,
            taken: 0,
            joined: 0,
            warm_up: WarmUp::default(),
            awake: Awake::new(),
            worked: false,
            took_in_ns: 0,
            trunk_stalls: 0,
            sending_ns: SENDING_NS,
            last_late_ns: 0,
            no_slot: 0,
            over_share: 0,
            gso_refused: 0,
            cut: Vec::new(),
            sleeps: 0,
            asleep: None,
            at_work: None,
            updates: 0,
            longest_update_ns: 0,
            started_ns: mono_ns(),
        }
    }

    /// Frames come or go.
    pub(super) fn frames(&mut self, now: Nanos) {
        self.awake.frames(now);
        self.worked = true;
    }
}

/// One of the host's threads that are a thread of the relay, number `me` of `shifts` if there are two. `work` is with the
/// first one at first.
pub(super) fn serve(
    me: usize,
    shifts: Option<&Shifts<Box<Thread>>>,
    priority: Priority,
    work: Option<Box<Thread>>,
) {
    sched::set_up(priority);
    let here = Place {
        me,
        shifts,
        schedstat: stalls::schedstat(),
    };
    match (shifts, work) {
        (Some(shifts), work) => shifts.serve(me, work, |thread| thread.run(&here)),
        (None, Some(thread)) => drop(thread.run(&here)),
        (None, None) => (),
    }
}

/// One of the host's threads.
struct Place<'s> {
    me: usize,
    shifts: Option<&'s Shifts<Box<Thread>>>,
    /// What the kernel tells of it.
    schedstat: Option<Arc<File>>,
}

impl Place<'_> {
    /// Nobody is to come while this one sleeps; false where it is here already.
    fn call_off(&self) -> bool {
        self.shifts.is_none_or(Shifts::call_off)
    }
}

/// A sleep that the relay's thread is in.
#[derive(Clone, Copy)]
pub(crate) struct Asleep {
    start_ns: Nanos,
    until_ns: Nanos,
}

impl Thread {
    /// Runs until told to stop, or until another one may go on.
    fn run(mut self: Box<Self>, here: &Place<'_>) -> Ended<Box<Thread>> {
        let asleep = self.state.asleep.take();
        if let Some(asleep) = asleep {
            self.woke(asleep);
        }
        if self.state.at_work != Some(here.me) {
            if asleep.is_some() {
                self.waiting.held_up(mono_ns());
            }
            self.take_over(here);
        }
        loop {
            if let Some(shifts) = here.shifts
                && shifts.is_here()
                && !self.part(here.me, shifts)
            {
                self.waiting.leave();
                return Ended::HandOver(self);
            }
            let now = mono_ns();
            self.state.stalls.look(now);
            if let (Some(apart), Some(shifts)) = (&self.apart, here.shifts) {
                if !apart.is_last() {
                    self.look_after_guest(now, here.me, shifts);
                } else if self.is_to_go_back(now) {
                    self.go_back(shifts);
                    return Ended::BroughtBack;
                }
            }
            let (table, guest) = (&mut self.table, self.guest.as_mut());
            let due = || {
                let own = pressing(table, &self.air, &self.far, &self.state);
                own.min(guest.map_or(Nanos::MAX, |guest| {
                    pressing(&mut guest.table, &guest.air, &guest.far, &guest.state)
                }))
            };
            let overdue = self.waiting.pace(now, thread_cpu_ns, due);
            match (overdue, here.shifts) {
                (Some(Overdue::Relief), Some(shifts)) => shifts.call(here.me),
                (Some(Overdue::Rest { until }), _) if here.call_off() => {
                    self.sleep(until, true);
                }
                _ => (),
            }
            let took = self.turns(now);
            let more = self.waiting.goes_on(took, || self.left_in_rings());
            if !self.attend_if_asked() {
                return Ended::Over;
            }
            if !more && let Some((until, news)) = self.wait(here) {
                self.waiting.leave();
                return Ended::Asleep(self, until, news);
            }
        }
    }

    /// The calling thread goes on with the work of another.
    fn take_over(&mut self, here: &Place<'_>) {
        self.state.at_work = Some(here.me);
        self.waiting.enter();
        self.state.stalls.enter(here.schedstat.clone());
        self.told_of_host_thread();
    }

    /// Tells the capture program which of the host's threads hands frames to nodes.
    pub(super) fn told_of_host_thread(&self) {
        // SAFETY: plain system call.
        let tid = unsafe { libc::gettid() };
        let told = self.loaded.told(self.number);
        told.thread.store(tid as u64, Ordering::Relaxed);
        if let Some(guest) = &self.guest {
            guest.told_of_host_thread();
        }
    }

    /// A turn of this thread, and of its guest if it has one.
    fn turns(&mut self, now: Nanos) -> bool {
        let took = self.turn(now);
        if self.apart.is_none() {
            return took;
        }
        let took = self.turn_of_guest() || took;
        if let Some(apart) = &mut self.apart
            && (std::mem::take(&mut self.state.worked) || took)
        {
            apart.worked(mono_ns().saturating_sub(now));
        }
        took
    }

    /// Frames that the last turn saw and left.
    fn left_in_rings(&self) -> u32 {
        let guest = self.guest.as_ref().map_or(0, |guest| guest.rings.waiting());
        self.rings.waiting().max(guest)
    }

    /// Take in what has arrived, send what is due. True when there may be more to do at once.
    pub(super) fn turn(&mut self, now: Nanos) -> bool {
        self.rings.look();
        let settled = now.saturating_sub(SETTLE_NS);
        let mut busy = false;
        // Updates take effect between the frames that arrived before and after their instant.
        while let Some(first) = self.state.scheduled.front()
            && first.at_ns <= settled
        {
            let at_ns = first.at_ns;
            if self.across.is_some() {
                if !self.change_together(at_ns) {
                    return self.meanwhile(now, at_ns);
                }
                busy = true;
                continue;
            }
            while self.intake(at_ns.saturating_sub(1)) {
                self.send_due(mono_ns());
            }
            if let Some(first) = self.state.scheduled.pop_front() {
                self.make(first, true);
            }
            busy = true;
        }
        busy |= self.intake(settled);
        busy |= self.take_handed();
        // The rings are first come, first served; what is in the table gets its fair turn. Whoever fills the rings does
        // not hold up those that are due on other edges.
        let (old, mut now) = (now.saturating_sub(RINGS_OLD_NS), now);
        for _ in 0..INTAKES_PER_TURN {
            let long = self.rings.waiting() > RINGS_LONG;
            let long = long || self.rings.oldest().is_some_and(|ts| ts < old);
            if !long || !self.intake(settled) {
                break;
            }
            now = mono_ns();
            self.send_punctual(now);
        }
        busy |= self.air.advance(settled, &mut self.table, &mut self.pool);
        busy |= self.send_arrived(now);
        busy |= self.send_due(now);
        if let Some(across) = &mut self.across {
            across.knock();
        }
        busy
    }

    /// While other threads are not as far as a change at this instant, what is due is sent all the same.
    fn meanwhile(&mut self, now: Nanos, at_ns: Nanos) -> bool {
        let before = at_ns.saturating_sub(1);
        self.air.advance(before, &mut self.table, &mut self.pool);
        self.send_due(now);
        if let Some(across) = &mut self.across {
            across.knock();
        }
        // Another one may have to run where we do.
        std::thread::yield_now();
        true
    }

    /// Move captured frames to their edges. True when there may be more.
    pub(super) fn intake(&mut self, until: Nanos) -> bool {
        if self.across.as_ref().is_some_and(|a| a.instants.waits()) {
            return false;
        }
        let mut count = 0;
        while count < INTAKE
            && let Some(captured) = self.rings.next(until, &mut self.pool)
        {
            let frame = captured.frame;
            let from = self.wires.port(captured.port);
            let destination = self.pool.destination(frame);
            let taken = if self.externals.has(from) {
                self.take_external(captured.ts_ns, from, destination, frame)
            } else if self.air.has(from.0) {
                // A channel's time runs for all its ports: nothing is sent in its past.
                self.take_to_air(captured.ts_ns, from, destination, frame)
            } else {
                let at_ns = self.enters_at(captured.ts_ns, from, frame);
                self.enter(at_ns, from, destination, frame)
            };
            count += taken.max(1);
        }
        if count > 0 {
            self.state.took_in_ns = until;
            self.rings.release(&mut self.pool);
            self.state.frames(until);
        }
        count >= INTAKE
    }

    /// When a frame enters its edges: as if the node that passed it on had no stack, where that is known.
    #[inline]
    fn enters_at(&mut self, ts_ns: Nanos, from: PortId, frame: SlotRef) -> Nanos {
        let Some(passed) = &mut self.passed else {
            return ts_ns;
        };
        // Super-frames are other packets than those that they are made of.
        let mark = if frame.is_new() || frame.is_gso() {
            None
        } else {
            passed.mark(from, self.pool.whole(frame).1)
        };
        passed.enters(from, ts_ns, mark)
    }

    /// Whole where its edge allows, else frame by frame. How many frames' work that is.
    pub(super) fn take_gso(
        &mut self,
        ts_ns: Nanos,
        from: PortId,
        destination: [u8; 6],
        gso: SlotRef,
    ) -> usize {
        let (table, pool) = (&mut self.table, &mut self.pool);
        let pieces = pool.gso(gso).map_or(0, |t| t.slots.len());
        let plain = pool.gso(gso).filter(|t| t.vlan_tci.is_none() && !t.udp);
        let plain = plain.filter(|t| pool.gso_headers(t).is_some());
        if let Some(len) = plain.map(|t| t.len)
            && table.takes_gso(from, destination, len, GSO_NS)
        {
            pool.enters(ts_ns, from, gso);
            table.arrive(ts_ns, from, destination, len, gso, pool);
            return pieces;
        }
        let mut frames = std::mem::take(&mut self.state.cut);
        let lost = pool.cut_up(gso, &mut frames);
        self.state.no_slot += lost.no_slot;
        self.state.over_share += lost.over_share;
        for &frame in &frames {
            pool.enters(ts_ns, from, frame);
            table.arrive(ts_ns, from, destination, u32::from(frame.len), frame, pool);
        }
        let work = frames.len().max(pieces);
        self.state.cut = frames;
        work
    }

    /// Over a channel that ports share: frame by frame. How many frames' work that is.
    fn take_to_air(
        &mut self,
        ts_ns: Nanos,
        from: PortId,
        destination: [u8; 6],
        frame: SlotRef,
    ) -> usize {
        let mut frames = std::mem::take(&mut self.state.cut);
        self.single_frames(frame, &mut frames);
        let (air, table, pool) = (&mut self.air, &mut self.table, &mut self.pool);
        for &frame in &frames {
            pool.enters(ts_ns, from, frame);
            air.send(ts_ns, from, destination, frame, table, pool);
        }
        let work = frames.len().max(1);
        self.state.cut = frames;
        work
    }

    /// A frame, or the frames that a GSO frame is made of.
    pub(super) fn single_frames(&mut self, frame: SlotRef, frames: &mut Vec<SlotRef>) {
        frames.clear();
        if frame.is_gso() {
            let lost = self.pool.cut_up(frame, frames);
            self.state.no_slot += lost.no_slot;
            self.state.over_share += lost.over_share;
        } else {
            frames.push(frame);
        }
    }

    /// From an interface of the host: frame by frame, whatever the edge. How many frames' work that is.
    fn take_external(
        &mut self,
        ts_ns: Nanos,
        at: PortId,
        destination: [u8; 6],
        frame: SlotRef,
    ) -> usize {
        let mut frames = std::mem::take(&mut self.state.cut);
        self.single_frames(frame, &mut frames);
        for &frame in &frames {
            let (from, frame) = self.externals.steer(ts_ns, at, frame, &mut self.pool);
            self.enter(ts_ns, from, destination, frame);
        }
        let work = frames.len().max(1);
        self.state.cut = frames;
        work
    }

    /// Nothing to do at the moment: spin if something is due soon, else sleep. Tells until when, and what ends it before, where
    /// two threads are to do so.
    fn wait(&mut self, here: &Place<'_>) -> Option<(Nanos, News)> {
        let now = mono_ns();
        self.state.awake.look(now);
        let mut due = next_due(&mut self.table, &self.air, &self.far, &self.state);
        if let Some(guest) = &mut self.guest {
            guest.state.awake.look(now);
            let theirs = next_due(&mut guest.table, &guest.air, &guest.far, &guest.state);
            due = due.min(theirs);
        }
        let before = self.state.warm_up.time(due);
        let (until, rest) = match self.waiting.plan(now, due, before) {
            Plan::Spin if self.state.warm_up.worth_it(now, due) && self.pending() == 0 => {
                warm_up::queue(&mut self.xsk, &self.loaded.slots);
                self.flush();
                self.state.warm_up.done(mono_ns());
                return None;
            }
            Plan::Spin => {
                std::hint::spin_loop();
                return None;
            }
            // Who is here already takes over, and sleeps itself.
            _ if !here.call_off() => return None,
            Plan::Sleep { until } => {
                let until = until.min(self.state.awake.until());
                let apart = self.apart.as_mut();
                let until = until.min(apart.map_or(Nanos::MAX, |apart| apart.sleeps(now, until)));
                // Nobody tells us of slots that come back.
                let mut scarce = self.pool.homes.are_scarce();
                let until = self.guest.as_ref().map_or(until, |guest| {
                    scarce |= guest.pool.homes.are_scarce();
                    until.min(guest.state.awake.until())
                });
                let latest = if scarce { now + SCARCE_NS } else { Nanos::MAX };
                let until = until.min(latest);
                // Whoever sends on this processor is not interrupted for each frame.
                let nap = now + NAP_NS;
                let naps = self.is_apart() && now - self.state.took_in_ns < NAPS_NS;
                if naps && nap < until {
                    (nap, true)
                } else {
                    (until, false)
                }
            }
            Plan::Rest { until } => (until, true),
        };
        if until < Nanos::MAX && self.waiting.relieved(now) {
            return Some((until, self.fall_asleep(until, rest)?));
        }
        self.sleep(until, rest);
        None
    }

    /// Sleep until then, or until something comes in; a `rest` is taken whatever comes in before.
    fn sleep(&mut self, until: Nanos, rest: bool) {
        let news = self.fall_asleep(until, rest);
        if let Some((news, asleep)) = news.zip(self.state.asleep.take()) {
            bell::sleep(news, until);
            self.woke(asleep);
        }
    }

    /// What ends a sleep until then before its time; `None` where there is no sleep, as something is there already.
    fn fall_asleep(&mut self, until: Nanos, rest: bool) -> Option<News> {
        let mut stays = self.stays_awake(rest);
        if let Some(guest) = &mut self.guest {
            stays |= guest.stays_awake(rest);
        }
        if stays {
            self.wake_up();
            return None;
        }
        self.state.sleeps += 1;
        self.state.asleep = Some(Asleep {
            start_ns: mono_ns(),
            until_ns: until,
        });
        let news = |thread: &Thread| {
            let wake = (!rest).then_some(thread.wake_fd);
            [wake, Some(thread.signals.bell.fd())]
        };
        let [wake, bell] = news(self);
        let [theirs, their_bell] = self.guest.as_deref().map_or([None; 2], news);
        Some([wake, bell, theirs, their_bell])
    }

    /// Whether there is something that ends a sleep at once; what comes after it has been asked does so too.
    fn stays_awake(&mut self, rest: bool) -> bool {
        let news = !rest && (self.rings.fall_asleep() || self.has_news());
        news || self.signals.attention.load(Ordering::SeqCst)
    }

    fn wake_up(&self) {
        self.rings.wake_up();
        if let Some(guest) = &self.guest {
            guest.rings.wake_up();
        }
    }

    /// The sleep is over.
    fn woke(&mut self, asleep: Asleep) {
        let now = mono_ns();
        self.waiting.slept(asleep.until_ns, now);
        let wanted = if now >= asleep.until_ns {
            asleep.until_ns
        } else {
            let oldest = |rings: &mut Rings| {
                rings.look();
                rings.oldest().unwrap_or(Nanos::MAX)
            };
            let own = oldest(&mut self.rings).min(asleep.until_ns);
            let guest = self.guest.as_mut();
            own.min(guest.map_or(Nanos::MAX, |guest| oldest(&mut guest.rings)))
        };
        let stalls = &mut self.state.stalls;
        stalls.woke(asleep.start_ns, wanted, now);
        self.wake_up();
    }

    /// Whether another thread has something for this one.
    fn has_news(&mut self) -> bool {
        let across = self.across.as_mut();
        across.is_some_and(|across| across.has_news())
    }

    /// Treats what is asked of this thread and of its guest. False when it is time to stop.
    fn attend_if_asked(&mut self) -> bool {
        let guest = self.guest.as_mut();
        let goes_on = guest.is_none_or(|guest| guest.attend_if_asked());
        goes_on && (!self.signals.attention.load(Ordering::Relaxed) || self.attend())
    }

    /// Treat all commands. False when it is time to stop.
    fn attend(&mut self) -> bool {
        self.signals.attention.store(false, Ordering::SeqCst);
        self.signals.bell.hear();
        if self.signals.stop.load(Ordering::SeqCst) {
            return false;
        }
        while let Ok(command) = self.commands.try_recv() {
            self.treat(command);
        }
        true
    }
}

/// When the next frame, turn of a channel or update is due.
fn next_due(table: &mut EdgeTable<SlotRef>, air: &Air, far: &Far, state: &State) -> Nanos {
    let frame = table.next_event().unwrap_or(Nanos::MAX);
    let frame = frame.min(far.next_due().unwrap_or(Nanos::MAX));
    let frame = frame.min(air.next_event().map_or(Nanos::MAX, |at| at + SETTLE_NS));
    let update = state.scheduled.front();
    frame.min(update.map_or(Nanos::MAX, |s| s.at_ns + SETTLE_NS))
}

/// The same for what a rest may wait for: what is far behind is no reason to put it off until others are due.
fn pressing(table: &mut EdgeTable<SlotRef>, air: &Air, far: &Far, state: &State) -> Nanos {
    if state.last_late_ns > FAR_BEHIND_NS {
        return table.next_punctual().unwrap_or(Nanos::MAX);
    }
    next_due(table, air, far, state)
}
