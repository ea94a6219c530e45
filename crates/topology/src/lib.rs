//! The edges that exist at an instant, with their delays and the reasons why links are up or down.
//!
//! A [`Spec`] (constellations, ground nodes, and the rules of their links) and a [`Sky`] (positions of
//! satellites) give a [`Layout`]: nodes, ports and the pairs of laser ports that may ever be linked, none of
//! which change during a run. A [`Stepper`] then turns step numbers into [`Snapshot`]s: positions and edges.
//! [`diff`] returns the changes between two of them, [`why()`] the reason why a link is up or down.
//!
//! Everything is a pure function of its arguments. Times are nanoseconds after the start of the lab, positions
//! ITRF metres.
#![forbid(unsafe_code)]

mod beams;
mod check;
mod check_parts;
mod circle;
mod class;
mod decided;
mod down;
mod edges;
mod effort;
mod error;
mod failures;
mod geometry;
mod ground;
mod ground_link;
mod in_view;
mod layout;
mod network;
mod node;
mod pairing;
mod pairing_free;
mod policy;
pub mod radio;
mod sky;
mod snapshot;
mod spec;
mod stepper;
mod track;
mod visible;
mod why;
mod why_words;

pub use check::MAX_NODES;
pub use circle::Circle;
pub use class::{
    Access, Addressing, Attachment, CABLE, EdgeClass, GSL, HOST, ISL, Medium, NETWORK, NodeClass,
    SATELLITE, SPACECRAFT, STATION, Span, Transit,
};
pub use down::Down;
pub use effort::{CutReason, Effort};
pub use error::SpecError;
pub use failures::{Broken, key as seeded_key};
pub use geometry::{geocentric_latitude_deg, slope_ns_per_s};
pub use ground_link::Signals;
pub use layout::{CableLink, IslLink, Layout, TerminalLayout, pairs_named};
pub use node::{LaserSlot, MAX_CABLES, Node, NodeId, Port, Seat};
pub use pairing::IslKind;
pub use policy::{
    Candidate, Choice, GslPolicy, HighestElevation, Hysteresis, LeastLoaded, LongestVisible,
    MostReachable, Nearest, PlainPolicy, Policy, Scheduler, built_in,
};
pub use sky::{NoPosition, OrbitSky, Sky};
pub use snapshot::{Delta, Edge, Handover, Snapshot, diff};
pub use spec::{
    Cable, Centre, Chosen, Constellation, CrossShell, Disruption, ElevationStep, Failure,
    FailureTarget, FailureTime, GroundService, GslAccess, GslSpec, Host, IslPattern, LaserPairing,
    Lasers, Law, LinkClass, Moment, Neighbours, Network, NetworkEdge, Obstacle, Operators,
    PlusGrid, Radio, Rain, Recorded, Recording, Satellite, Spec, Station, Switched, Terminal,
    Waypoint, Wrap,
};
pub use stepper::{StationCandidates, StepRefusal, Stepper};
pub use why::{LinkReason, why};
