//! Information about nodes and their surroundings for those nodes that request it, so that an image can configure itself.
//!
//! A node sees a folder, [`FOLDER`]: [`node.json`](Node) and [`ports.json`](Ports), which never change;
//! [`peers.json`](Peers) and [`topology.json`](Topology), which change with its links. [`orbit.json`](Orbit) and
//! [`contacts.json`](Contacts) look ahead. There are the user's own files in `user/`;
//! [`events`](Event), one per line; and a socket that accepts [`Request`]s. Files are replaced as a whole, never written in
//! place.
//!
//! [`NodeInformation`] creates the documents of a node from a plan. [`changes`] finds the nodes whose documents differ between two
//! topologies. This module does not use files, sockets or clocks.
//!
//! ```
//! use constel_plan::information::{Stamp, NodeInformation, changes};
//! use constel_plan::{Blueprint, Lab, LocalNodes};
//! use constel_scenario::{DiskFiles, parse, resolve};
//!
//! let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/iridium.yaml");
//! let text = std::fs::read_to_string(path).unwrap() + "\ninformation: [{nodes: [tokyo]}]\n";
//! let lab = Lab::new(resolve(&parse(path, &text)?, &DiskFiles::beside(path))?)?;
//! let blueprint = std::sync::Arc::new(Blueprint::new(lab).unwrap());
//! let first = blueprint.lab.stepper().advance();
//! let telling = NodeInformation::new(&blueprint, &LocalNodes::all()).unwrap();
//! let tokyo = blueprint.lab.layout.find("tokyo").unwrap().id;
//! assert_eq!(telling.asking().collect::<Vec<_>>(), [tokyo]);
//! let peers = telling.peers(tokyo, &first, Stamp { revision: 1, t_ns: 0 });
//! assert_eq!(peers.peers[0].port, "gsl0");
//! assert!(changes(&blueprint.lab.layout, &first, &first).is_empty());
//! # Ok::<(), constel_scenario::Diagnostics>(())
//! ```

mod ahead;
mod changes;
mod documents;
mod opensn;
mod schema;
mod socket;
mod telling;

pub use ahead::Foresight;
pub use changes::{Change, changes};
pub use documents::{
    ComingContact, Contacts, End, Event, InformationEvent, Link, LinkEnd, Node, Orbit, Peer, Peers,
    Place, Port, Ports, Scope, Seat, Topology, TopologyNode, Track,
};
pub use opensn::{OPENSN, OPENSN_FOLDER, OpenSn, OpenSnEnd, OpenSnLink};
pub use schema::schema_json;
pub use socket::{Links, LiveLink, Refusal, Request};
pub use telling::{ExtraInformation, NodeInformation, Stamp};

/// Path of the folder in a node.
pub const FOLDER: &str = "/run/constel";

/// Version of the documents, of events and of the socket's questions. It rises when something changes its meaning or goes; new
/// fields, kinds of events and questions leave it as it is.
pub const VERSION: u32 = 1;

/// Names in the folder.
pub mod names {
    /// [`Node`](crate::information::Node).
    pub const NODE: &str = "node.json";
    /// [`Ports`](crate::information::Ports).
    pub const PORTS: &str = "ports.json";
    /// [`Peers`](crate::information::Peers).
    pub const PEERS: &str = "peers.json";
    /// [`Topology`](crate::information::Topology).
    pub const TOPOLOGY: &str = "topology.json";
    /// [`Orbit`](crate::information::Orbit).
    pub const ORBIT: &str = "orbit.json";
    /// [`Contacts`](crate::information::Contacts).
    pub const CONTACTS: &str = "contacts.json";
    /// The user's files.
    pub const USER: &str = "user";
    /// [`Event`](crate::information::Event)s, one a line.
    pub const EVENTS: &str = "events";
    /// Those before [`EVENTS`], once that has become too long.
    pub const OLDER_EVENTS: &str = "events.older";
    /// The socket.
    pub const SOCKET: &str = "socket";
}
