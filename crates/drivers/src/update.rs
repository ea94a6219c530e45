//! Results of updates and of queries about effects.

use std::fmt;

use constel_link::{Effects, Nanos};
use serde::Serialize;

use crate::error::Result;

/// An update that has taken effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// The instant at which it took effect: frames that arrived before it were handled by the old table.
    pub at_ns: Nanos,
    /// How long the table was busy with it.
    pub took_ns: Nanos,
    /// Numbers of changed edges.
    pub changes: constel_link::Applied,
}

/// Effects of an edge, and its own part of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownEffects {
    /// Effects in force, including its port's.
    pub in_force: Effects,
    /// Effects set for this edge alone.
    pub own: Effects,
}

/// An update that was sent and may not have taken effect yet.
#[must_use = "only its end says whether the update was applied"]
pub struct PendingUpdate(Box<dyn FnOnce() -> Result<Applied> + Send>);

impl PendingUpdate {
    /// Creates an update whose result this function waits for.
    pub(crate) fn new(wait: impl FnOnce() -> Result<Applied> + Send + 'static) -> PendingUpdate {
        PendingUpdate(Box::new(wait))
    }

    /// Waits until it has taken effect.
    ///
    /// # Errors
    /// [`DriverError::Update`] when an edge to be removed did not exist at that instant: no change of the update was
    /// applied. [`DriverError::Stopped`] when the driver ended first.
    ///
    /// [`DriverError::Update`]: crate::DriverError::Update
    /// [`DriverError::Stopped`]: crate::DriverError::Stopped
    pub fn wait(self) -> Result<Applied> {
        (self.0)()
    }
}

impl fmt::Debug for PendingUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PendingUpdate")
    }
}
