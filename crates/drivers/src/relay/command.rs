//! Commands from other threads to the relay's threads.

use std::sync::mpsc::SyncSender;

use constel_link::medium::Counters;
use constel_link::{
    CheckedEffects, CheckedUpdate, EdgeStats, Histogram, Nanos, PortId, UpdateError,
};

use super::external::{ExternalCounts, Steer};
use super::far::Arrival;
use super::instant::{Change, UpdateReply};
use super::state::Class;
use super::stats::ThreadStats;
use super::times::EdgeTimes;
use super::transit::TransitCounts;
use crate::stats::{LateSpells, Stall};
use crate::tap::{Tap, TapFilter};
use crate::update::KnownEffects;

/// Places of the table read per command, so that statistics do not delay frames.
pub(crate) const PLACES_PER_TURN: usize = 256;

/// A command to a relay thread.
pub(crate) enum Command {
    Apply {
        update: CheckedUpdate,
        at_ns: Option<Nanos>,
        reply: UpdateReply,
    },
    /// With several threads: a change that all of them make at this instant.
    Change(Nanos, Change),
    ApplyEffects(CheckedEffects, SyncSender<Result<Nanos, UpdateError>>),
    LateBeyond(Nanos),
    Classify(Vec<String>, Vec<u8>),
    ClearLateness,
    /// Replaces the steering; the reply contains the old one.
    Steer(Box<dyn Steer>, SyncSender<Option<Box<dyn Steer>>>),
    /// Resets the times of edges from these ports.
    ForgetTimes(Vec<PortId>),
    Tap(Tap, SyncSender<()>),
    /// Adds ports to the tap with this number.
    TapAlso(u64, TapFilter, SyncSender<()>),
    /// Frames that arrived from far ports.
    Arrive(Vec<Arrival>),
    /// The nodes of these ports are local from now on.
    ComeHome(Vec<PortId>, SyncSender<()>),
    Query(Query),
}

/// A query. No frame depends on it.
pub(crate) enum Query {
    Stats(SyncSender<ThreadStats>),
    Edge(PortId, PortId, SyncSender<Option<EdgeStats>>),
    /// Existing edges from a place on; the flag states whether there are more.
    Edges(usize, SyncSender<(Vec<EdgeStats>, bool)>),
    Effects(PortId, PortId, SyncSender<KnownEffects>),
    Lateness(SyncSender<Histogram>),
    Stalls(SyncSender<Vec<Stall>>),
    LateSpells(SyncSender<LateSpells>),
    Classes(SyncSender<Vec<Class>>),
    Externals(SyncSender<Vec<ExternalCounts>>),
    /// Times of edges from a place on, and the place of the next call.
    Times(usize, SyncSender<(Vec<EdgeTimes>, Option<usize>)>),
    /// Counters of the ports of each channel.
    Air(SyncSender<Vec<Vec<Counters>>>),
    /// Counters of nodes without a stack: first node, and number of nodes.
    Transit(u32, usize, SyncSender<Vec<TransitCounts>>),
}
