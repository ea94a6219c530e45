//! Short RCU grace periods while we attach programs and delete devices.
//!
//! Attaching one tcx program costs 25-50 ms of grace period under RTNL, or 20-55 us with
//! `/sys/kernel/rcu_expedited = 1`. Expedited grace periods interrupt every CPU, which would
//! disturb measurements, so this is held for bring-up and take-down only.

use std::path::Path;

use crate::error::Result;
use crate::globals::{Globals, Held, Owner, Release, Wish};

const EXPEDITED: &str = "/sys/kernel/rcu_expedited";

/// Grace periods are expedited while this lives.
#[derive(Debug)]
pub struct Expedited(Option<Held>);

impl Expedited {
    /// Starts expediting. On a kernel without the switch this does nothing; see
    /// [`Expedited::is_effective`].
    ///
    /// # Errors
    /// As [`Globals::hold`].
    pub fn hold(globals: &Globals, owner: &Owner) -> Result<Expedited> {
        if !Path::new(EXPEDITED).exists() {
            return Ok(Expedited(None));
        }
        globals
            .hold(owner, Path::new(EXPEDITED), Wish::Exactly("1".into()))
            .map(|h| Expedited(Some(h)))
    }

    /// Whether the kernel has the switch.
    pub fn is_effective(&self) -> bool {
        self.0.is_some()
    }

    /// Ends it, saying what became of the switch.
    ///
    /// # Errors
    /// As [`Held::finish`].
    pub fn finish(self) -> Result<Option<Release>> {
        self.0.map(Held::finish).transpose()
    }
}
