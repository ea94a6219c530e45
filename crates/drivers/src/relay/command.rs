//! Commands from other threads to the relay's threads, and the signals that make these read them.

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
use crate::tap::{Tap, TapFilter};
use crate::update::{Applied, KnownEffects};

/// Places of the table read per command, so that statistics do not delay frames.
pub(crate) const PLACES_PER_TURN: usize = 256;

/// Result of an update, and the update itself: freeing tens of thousands of changes takes time, so the requester does
/// it.
pub(crate) type UpdateReply = SyncSender<(Result<Applied, UpdateError>, CheckedUpdate)>;

/// A command to a relay thread.
pub(crate) enum Command {
    Apply {
        update: CheckedUpdate,
        at_ns: Option<Nanos>,
        reply: UpdateReply,
    },
    /// With several threads: a change that all of them make at this instant.
    Change(Nanos, Change),
    Stats(SyncSender<ThreadStats>),
    Edge(PortId, PortId, SyncSender<Option<EdgeStats>>),
    /// Existing edges from a place on; the flag states whether there are more.
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
    /// Replaces the steering; the reply contains the old one.
    Steer(Box<dyn Steer>, SyncSender<Option<Box<dyn Steer>>>),
    Externals(SyncSender<Vec<ExternalCounts>>),
    /// Times of edges from a place on, and the place of the next call.
    Times(usize, SyncSender<(Vec<EdgeTimes>, Option<usize>)>),
    /// Resets the times of edges from these ports.
    ForgetTimes(Vec<PortId>),
    /// Counters of the ports of each channel.
    Air(SyncSender<Vec<Vec<Counters>>>),
    /// Counters of nodes without a stack: first node, and number of nodes.
    Transit(u32, usize, SyncSender<Vec<TransitCounts>>),
    Tap(Tap, SyncSender<()>),
    /// Adds ports to the tap with this number.
    TapAlso(u64, TapFilter, SyncSender<()>),
    /// Frames that arrived from far ports.
    Arrive(Vec<Arrival>),
    /// The nodes of these ports are local from now on.
    ComeHome(Vec<PortId>, SyncSender<()>),
}

/// Signals shared with the handles.
#[derive(Debug)]
pub(crate) struct Signals {
    /// Set when there are commands, or the thread must stop.
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

    /// Makes the thread check for commands, unless it sleeps.
    pub(crate) fn attract(&self) {
        self.attention.store(true, Ordering::SeqCst);
    }

    /// Makes the thread check for commands, even if it sleeps.
    pub(crate) fn ring(&self) {
        self.attract();
        self.bell.ring();
    }
}
