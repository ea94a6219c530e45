//! The access of edges: an [`Access`], and the terminals whose edges have it.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::draw::Terminal;
use super::parts::{Access, Direction};
use super::pass::{Fate, Passage};
use crate::types::{Nanos, PortId};

/// The access of all edges of a kind of link. An edge that starts at a terminal goes up, one that ends at a terminal goes
/// down. Edges between other ports have no access.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EdgeAccess {
    /// The parts.
    #[serde(with = "shared")]
    #[schemars(with = "Access")]
    pub parts: Arc<Access>,
    /// Instant of a full minute of UTC.
    pub minute_ns: Nanos,
    /// The terminals' ports in rising order, each with its local mean solar time at that instant, hours.
    #[serde(with = "shared")]
    #[schemars(with = "Vec<(PortId, f64)>")]
    pub terminals: Arc<[(PortId, f64)]>,
}

/// Values that all edges share, serialized as the values themselves.
mod shared {
    use super::{Arc, Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<T: Serialize + ?Sized, S: Serializer>(
        value: &Arc<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        (**value).serialize(to)
    }

    /// A value that is read as another type and then shared: a list as a vector, all others as themselves.
    pub(super) trait Owned {
        type From: Into<Arc<Self>>;
    }

    impl Owned for super::Access {
        type From = super::Access;
    }

    impl<T> Owned for [T] {
        type From = Vec<T>;
    }

    pub(super) fn deserialize<'de, T: Owned + ?Sized, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Arc<T>, D::Error>
    where
        T::From: Deserialize<'de>,
    {
        T::From::deserialize(from).map(Into::into)
    }
}

impl EdgeAccess {
    /// Checks the parts, the order of the terminals and their times.
    pub(crate) fn check(&self, errors: &mut Vec<String>) {
        if let Err(wrong) = self.parts.check() {
            errors.extend(wrong.into_iter().map(|error| format!("access: {error}")));
        }
        if !self.terminals.is_sorted_by(|a, b| a.0 < b.0) {
            errors.push("access: terminals are not in rising order of their ports".into());
        }
        let hours = |(_, hour): &(PortId, f64)| (0.0..24.0).contains(hour);
        if !self.terminals.iter().all(hours) {
            errors.push("access: a local time is not within 0 to 24 hours".into());
        }
    }

    /// Returns whether both are the same, without a look at values that they share.
    fn is_same(&self, other: &EdgeAccess) -> bool {
        Arc::ptr_eq(&self.parts, &other.parts)
            && Arc::ptr_eq(&self.terminals, &other.terminals)
            && self.minute_ns == other.minute_ns
            || self == other
    }

    /// Returns the direction of the edge `from -> to`, its terminal's port and local time; `None` if neither end is a
    /// terminal.
    fn place(&self, from: PortId, to: PortId) -> Option<(Direction, PortId, f64)> {
        let hour = |port: PortId| {
            let place = self.terminals.binary_search_by_key(&port, |row| row.0);
            place.ok().map(|at| self.terminals[at].1)
        };
        let up = hour(from).map(|hour| (Direction::Up, from, hour));
        up.or_else(|| hour(to).map(|hour| (Direction::Down, to, hour)))
    }
}

/// State of the access of one edge.
#[derive(Clone, Debug)]
pub(crate) struct AccessState {
    set: EdgeAccess,
    pub(crate) direction: Direction,
    terminal: Terminal,
    passage: Passage,
}

impl AccessState {
    /// Returns the state of an edge that has carried no frame; `None` if the edge has no access.
    pub(crate) fn new(
        set: &EdgeAccess,
        lab_seed: u64,
        (from, to): (PortId, PortId),
    ) -> Option<AccessState> {
        let (direction, port, hour) = set.place(from, to)?;
        Some(AccessState {
            set: set.clone(),
            direction,
            // Both directions and all satellites have the same numbers, so that their gaps are at the same time.
            terminal: Terminal::new(lab_seed, port.0).at(set.minute_ns, hour),
            passage: Passage::new(direction),
        })
    }

    /// Returns whether this is the state of these values.
    pub(crate) fn is_of(&self, set: Option<&EdgeAccess>) -> bool {
        set.is_some_and(|set| self.set.is_same(set))
    }

    /// Returns the fate of a frame whose last bit is sent at `now`.
    pub(crate) fn send(&mut self, now: Nanos) -> Fate {
        self.passage.send(&self.set.parts, &self.terminal, now)
    }

    /// Returns whether the access has a rate in this direction.
    pub(crate) fn has_rate(&self) -> bool {
        self.set.parts.leg(self.direction).rate.is_some()
    }

    /// Returns the share of the rate at `t`, and the instant until which it holds.
    pub(crate) fn share(&self, t: Nanos) -> (f64, Nanos) {
        let share = self.set.parts.share(&self.terminal, self.direction, t);
        share.unwrap_or((1.0, Nanos::MAX))
    }
}
