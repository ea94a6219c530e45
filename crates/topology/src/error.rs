//! Errors of a spec. All findings are collected.

use crate::sky::NoPosition;

/// One finding in a [`Spec`](crate::Spec). `what` names the constellation, satellite or station.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// A cable that cannot be.
    #[error("the cable between `{a}` and `{b}`: {reason}")]
    BadCable {
        /// One end.
        a: String,
        /// The other.
        b: String,
        /// The reason in words.
        reason: String,
    },
    /// An invalid network.
    #[error("the network `{name}`: {reason}")]
    BadNetwork {
        /// The network.
        name: String,
        /// The reason in words.
        reason: String,
    },
    /// A node whose class does not fit its place in the spec.
    #[error("`{name}` is a {class}: {reason}")]
    BadClass {
        /// The node, or its constellation.
        name: String,
        /// The class.
        class: &'static str,
        /// The reason in words.
        reason: &'static str,
    },
    /// A number is outside its bounds.
    #[error("{what}: {field} is {value}, allowed is {allowed}")]
    OutOfBounds {
        /// Whose number.
        what: String,
        /// The name of the number, with unit.
        field: &'static str,
        /// The value.
        value: f64,
        /// The allowed values.
        allowed: &'static str,
    },
    /// Two nodes of one name.
    #[error("two nodes are named `{0}`")]
    DuplicateName(String),
    /// Two satellites in one seat.
    #[error(
        "{constellation}: `{first}` and `{second}` sit in the same place (shell {shell}, plane {plane}, slot {slot})"
    )]
    DuplicateSeat {
        /// Whose satellites.
        constellation: String,
        /// One.
        first: String,
        /// The other.
        second: String,
        /// Their shell.
        shell: u16,
        /// Their plane.
        plane: u16,
        /// Their slot.
        slot: u16,
    },
    /// Walker pairing needs planes 0..P with slots 0..S each.
    #[error("{constellation}: shell {shell} is no complete Walker pattern: {reason}")]
    IncompleteWalker {
        /// Whose shell.
        constellation: String,
        /// Which shell.
        shell: u16,
        /// The missing part.
        reason: String,
    },
    /// Walker's F out of range.
    #[error(
        "{constellation}: shell {shell}: phasing {phasing} must be below the number of planes, {planes}"
    )]
    Phasing {
        /// Whose shell.
        constellation: String,
        /// Which shell.
        shell: u16,
        /// F as given.
        phasing: u32,
        /// P.
        planes: usize,
    },
    /// A pair of satellites that cannot be linked.
    #[error("{constellation}: `{a}` and `{b}` cannot be linked: {reason}")]
    BadPair {
        /// Whose pair.
        constellation: String,
        /// One end.
        a: String,
        /// The other.
        b: String,
        /// Why not.
        reason: &'static str,
    },
    /// A failure without a target, or with values that make no sense.
    #[error("failure `{name}`: {reason}")]
    BadFailure {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// Waypoints that lead nowhere.
    #[error("{station}: {reason}")]
    BadTrack {
        /// Whose.
        station: String,
        /// Why.
        reason: String,
    },
    /// Choices of satellites that cannot be.
    #[error("{station}: {reason}")]
    BadChoices {
        /// Whose.
        station: String,
        /// Why.
        reason: String,
    },
    /// Switched links that cannot be.
    #[error("{reason}")]
    BadSwitched {
        /// Why.
        reason: String,
    },
    /// A terminal that cannot be.
    #[error("{station}: {reason}")]
    BadTerminal {
        /// Whose.
        station: String,
        /// The reason in words.
        reason: String,
    },
    /// The sky has another number of satellites than the spec.
    #[error("the spec has {spec} satellites, the sky {sky}")]
    Count {
        /// Satellites in the spec.
        spec: usize,
        /// Satellites in the sky.
        sky: usize,
    },
    /// Too many of something for its number type.
    #[error("too many {what}: {count}, at most {max}")]
    TooMany {
        /// The item.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// A satellite has no position at the start.
    #[error(transparent)]
    NoPosition(#[from] NoPosition),
}
