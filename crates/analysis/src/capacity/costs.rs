//! Measured costs: of a node, an interface, a daemon, a frame. The values are fitted to measurements of
//! `benches/capacity`, and the tests of this crate compare the estimates with these measurements. Bytes are
//! those of x86-64; processor time is that of the machine in `benches/raw/capacity.json`.

/// The engine, its link plane and its pool of frames, bytes.
pub const ENGINE_BYTES: f64 = 140e6;
/// A node made as a network namespace, bytes.
pub const NODE_BYTES: f64 = 190e3;
/// An interface of a node, with its peer, addresses and neighbours, bytes.
pub const PORT_BYTES: f64 = 115e3;
/// A container run by Constel, in addition to a namespace, without the memory of its programs, bytes.
pub const CONTAINER_BYTES: f64 = 200e3;
/// A container of an engine above a namespace, with the engine's own processes for it, bytes.
pub const ENGINE_CONTAINER_BYTES: f64 = 12e6;
/// A computed route in a node's kernel, bytes.
pub const ROUTE_BYTES: f64 = 300.0;

/// A satellite that only forwards, with its edges, bytes.
pub const FORWARDER_BYTES: f64 = 3e3;
/// A path of such a satellite to a destination: in the relay's table, in the previous plan and in the current
/// one, bytes.
pub const WAY_BYTES: f64 = 64.0;

/// A process of BIRD without neighbours, bytes.
pub const BIRD_BYTES: f64 = 0.95e6;
/// A process of FRR without neighbours, bytes.
pub const FRR_BYTES: f64 = 5.9e6;
/// The memory of a daemon for another router of its area, and of its kernel for the routes there, for each
/// family, bytes.
pub const KNOWN_ROUTER_BYTES: f64 = 1_330.0;

/// Processor time of a daemon for each hello that it sends and receives, with all its other work in that time,
/// nanoseconds.
pub const HELLO_NS: f64 = 65e3;
/// Processor time of a step for each node, nanoseconds.
pub const STEP_NODE_NS: f64 = 4.4e3;

/// Processor time of a frame on a link: node, relay and the node behind it, nanoseconds; and of each of its bytes.
pub const FRAME_NS: (f64, f64) = (6_500.0, 3.2);
/// The part of it in the single thread that carries the frames of all links.
pub const RELAY_FRAME_NS: (f64, f64) = (2_600.0, 1.2);

/// A link into a node that only forwards, as a part of one into a node with a stack.
pub const FORWARDED_LINKS: f64 = 0.15;

/// The largest error of a lab's estimated memory, as a ratio of the real amount.
pub const MEMORY_ERROR_RATIO: f64 = 0.25;
