//! What somebody changes in a running lab by hand, as machines tell each other of it, and what came of that.

use constel_api::ApiError;
use constel_api::ErrorCode;
use constel_api::answers::{DelaysSet, LinkSet};
use constel_link::{Effects, PortId};
use serde::{Deserialize, Serialize};

/// A change by hand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ByHand {
    /// Effects on a link, or on all that leaves a port.
    Link(Box<Impairing>),
    /// A member of a network comes or goes.
    Member(Moving),
    /// All delays of a network.
    Delays(Delays),
}

/// What somebody puts on a link, or on all that leaves a port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Impairing {
    /// The link as `A-B`, or the port as `NODE/PORT`: for people.
    pub link: String,
    /// Where it is put.
    pub on: On,
    /// What is put there. Laws of time begin at lab time zero.
    pub effects: Effects,
    /// First, all that was put there before is taken away.
    pub reset: bool,
}

/// Where effects are put.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum On {
    /// On these edges, each from a port to a port.
    Edges(Vec<(PortId, PortId)>),
    /// On all edges that leave this port, those that come later included, beneath what is put on single edges.
    Port(PortId),
}

/// A member that joins its network or leaves it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moving {
    /// The network.
    pub network: String,
    /// The member's node.
    pub node: String,
    /// Its port in the network.
    pub port: PortId,
    /// Whether it is in it from then on.
    pub joined: bool,
}

/// Delays of a network's edges, or that they are the scenario's again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delays {
    /// The network's place among the scenario's.
    pub network: usize,
    /// A row for each member as sender, nanoseconds; a cell without a number leaves its edge as it is.
    pub delays_ns: Option<Vec<Vec<Option<u64>>>>,
}

impl ByHand {
    /// What it is about, for people.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Link(impairing) => impairing.link.clone(),
            Self::Member(moving) => format!("{} in {}", moving.node, moving.network),
            Self::Delays(delays) => format!("the delays of network {}", delays.network),
        }
    }
}

/// What came of a change here; with the version of the list of failed edges, if that changed.
#[derive(Debug)]
pub(crate) enum Made {
    Link(LinkSet, Option<u64>),
    Member(Moved),
    Delays(DelaysSet),
}

/// A member that is, or was, where it was asked to be.
#[derive(Debug)]
pub(crate) struct Moved {
    pub(crate) changed: bool,
    pub(crate) at_mono_ns: u64,
    pub(crate) version: Option<u64>,
}

impl Made {
    pub(crate) fn link(self) -> Result<(LinkSet, Option<u64>), ApiError> {
        match self {
            Self::Link(answer, version) => Ok((answer, version)),
            _ => Err(another()),
        }
    }

    pub(crate) fn member(self) -> Result<Moved, ApiError> {
        match self {
            Self::Member(moved) => Ok(moved),
            _ => Err(another()),
        }
    }

    pub(crate) fn delays(self) -> Result<DelaysSet, ApiError> {
        match self {
            Self::Delays(answer) => Ok(answer),
            _ => Err(another()),
        }
    }
}

/// Orders have numbers; of the same number there is one.
fn another() -> ApiError {
    ApiError::new(ErrorCode::Failed, "another change was made".to_owned())
}
