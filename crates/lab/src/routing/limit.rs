//! Until when routes must stand for the first time.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::error::EngineError;

/// A span of time that began when the links were up; starting daemons falls into it.
pub(crate) struct Limit {
    /// When the links were up.
    pub(crate) since: Instant,
    /// How long routes may take from then.
    pub(crate) within: Duration,
    /// Where the daemons write.
    pub(crate) logs: PathBuf,
}

impl Limit {
    /// Says no once it is over; `missing` is what there is to say of how far it came.
    ///
    /// # Errors
    /// [`EngineError::NoRoutes`] after the limit.
    pub(crate) fn check(&self, missing: impl FnOnce() -> String) -> Result<(), EngineError> {
        match self.since.elapsed() > self.within {
            true => Err(self.refused(missing())),
            false => Ok(()),
        }
    }

    /// Routes will not stand, for `reason`.
    pub(crate) fn refused(&self, reason: String) -> EngineError {
        EngineError::NoRoutes {
            limit_s: self.within.as_secs(),
            reason,
            logs: self.logs.clone(),
        }
    }
}
