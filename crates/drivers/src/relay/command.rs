//! What other threads ask of the relay's threads, and how they make them look up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

use constel_link::medium::Counters;
use constel_link::{
    CheckedEffects, CheckedUpdate, EdgeStats, Histogram, Nanos, PortId, UpdateError,
};

use super::bell::Bell;
use super::external::{ExternalCounts, Steer};
use super::far::Arrival;
use super::instant::Change;
use super::state::Class;
use super::stats::ThreadStats;
use super::times::EdgeTimes;
use super::transit::TransitCounts;
use crate::error::{DriverError, Result};
use crate::stats::{LateSpells, Stall};
use crate::tap::{Tap, Wanted};
use crate::update::{Applied, KnownEffects};

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
