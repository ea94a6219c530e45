//! The changes that users make to a running lab by command, in the form in which machines send them to each other,
//! and their results.

use constel_api::ApiError;
use constel_api::ErrorCode;
use constel_api::answers::{DelaysSet, LinkSet};
use constel_link::{Effects, PortId};
use constel_plan::EdgeEnds;
use serde::{Deserialize, Serialize};

/// A change to a running lab.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ManualChange {
    /// Effects on a link, or on all edges that leave a port.
    Link(Box<Impairing>),
    /// A member joins or leaves a network.
    Member(MemberMove),
    /// The delays of all edges of a network.
    Delays(Delays),
}

/// The effects to set on a link, or on all edges that leave a port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Impairing {
    /// The link as `A-B`, or the port as `NODE/PORT`, for messages.
    pub link: String,
    /// The edges or the port that get the effects.
    pub on: EffectTarget,
    /// The effects. Time-dependent laws begin at lab time zero.
    pub effects: Effects,
    /// Whether earlier effects there are removed first.
    pub reset: bool,
    /// How long they hold, nanoseconds; `None` if they stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ns: Option<u64>,
}

/// The place of effects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EffectTarget {
    /// These edges, each from a port to a port.
    Edges(Vec<(PortId, PortId)>),
    /// All edges that leave this port, with later ones. Effects on single edges override these.
    Port(PortId),
}

/// A change of links that ends by itself.
#[derive(Debug)]
pub(crate) struct Ending {
    /// The end, by the machine's clock.
    pub(crate) at_mono_ns: u64,
    /// The link, as `A-B`, or the port.
    pub(crate) link: String,
    /// The effects that were set.
    pub(crate) patch: Effects,
    /// The effects by command before, of each place.
    pub(crate) before: Vec<(Place, Effects)>,
}

/// The place of effects.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    Edge(EdgeEnds),
    Port(PortId),
}

/// A member that joins or leaves its network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberMove {
    /// The network.
    pub network: String,
    /// The member's node.
    pub node: String,
    /// The node's port in the network.
    pub port: PortId,
    /// Whether the member is in the network after the change.
    pub joined: bool,
}

/// New delays of a network's edges, or a return to the scenario's delays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delays {
    /// The index of the network in the scenario.
    pub network: usize,
    /// A row for each member as sender, nanoseconds. A cell without a number leaves its edge unchanged.
    pub delays_ns: Option<Vec<Vec<Option<u64>>>>,
}

impl ManualChange {
    /// Returns the object of the change, for messages.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Link(impairing) => impairing.link.clone(),
            Self::Member(moving) => format!("{} in {}", moving.node, moving.network),
            Self::Delays(delays) => format!("the delays of network {}", delays.network),
        }
    }
}

/// The result of a change on this machine. The number is the new version of the list of failed edges, if that
/// changed.
#[derive(Debug)]
pub(crate) enum Made {
    Link(LinkSet, Option<u64>),
    Member(Moved),
    Delays(DelaysSet),
}

/// The result of moving a member, also if it already was where it should be.
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

/// Returns the error for an answer of another kind. It cannot occur, because the number of an order is unique.
fn another() -> ApiError {
    ApiError::new(ErrorCode::Failed, "another change was made".to_owned())
}
