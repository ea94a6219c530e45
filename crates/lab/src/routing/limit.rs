//! The time limit until routes must have converged for the first time.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::error::EngineError;

/// A time span that begins when the links are up and includes the start of daemons.
pub(crate) struct Limit {
    /// The instant at which the links were up.
    pub(crate) since: Instant,
    /// The time limit from that instant.
    pub(crate) within: Duration,
    /// The folder of the daemons' logs.
    pub(crate) logs: PathBuf,
}

impl Limit {
    /// Returns an error once the limit is over; `missing` describes the missing routes.
    ///
    /// # Errors
    /// [`EngineError::NoRoutes`] after the limit.
    pub(crate) fn check(&self, missing: impl FnOnce() -> String) -> Result<(), EngineError> {
        match self.since.elapsed() > self.within {
            true => Err(self.refused(missing())),
            false => Ok(()),
        }
    }

    /// Returns the error for routes that will not converge, because of `reason`.
    pub(crate) fn refused(&self, reason: String) -> EngineError {
        EngineError::NoRoutes {
            limit_s: self.within.as_secs(),
            reason,
            logs: self.logs.clone(),
        }
    }
}
