//! Expedited RCU grace periods while we attach programs and delete devices.
//!
//! Attaching one tcx program costs 25-50 ms of grace period under RTNL, or 20-55 us with
//! `/sys/kernel/rcu_expedited = 1`. Expedited grace periods interrupt every CPU, which would
//! disturb measurements, so this is held for bring-up and take-down only.

use std::path::Path;

use crate::error::Result;
use crate::globals::{Globals, Held, Owner, Release, RequiredValue};

const EXPEDITED: &str = "/sys/kernel/rcu_expedited";

/// Grace periods are expedited while this lives.
#[derive(Debug)]
pub struct Expedited {
    held: Option<Held>,
    lacks_room: bool,
}

impl Expedited {
    /// Starts expediting. Has no effect on a kernel without the switch, or if the disk is too full to record the
    /// switch's value. A full disk makes things slow, and must not keep a lab from being taken down. See
    /// [`Expedited::is_effective`] and [`Expedited::lacks_room`].
    ///
    /// # Errors
    /// As [`Globals::hold`].
    pub fn hold(globals: &Globals, owner: &Owner) -> Result<Expedited> {
        if !Path::new(EXPEDITED).exists() {
            return Ok(Expedited {
                held: None,
                lacks_room: false,
            });
        }
        match globals.hold(
            owner,
            Path::new(EXPEDITED),
            RequiredValue::Exactly("1".into()),
        ) {
            Err(e) if e.errno() == Some(libc::ENOSPC) => Ok(Expedited {
                held: None,
                lacks_room: true,
            }),
            held => held.map(|held| Expedited {
                held: Some(held),
                lacks_room: false,
            }),
        }
    }

    /// Returns whether grace periods are expedited.
    pub fn is_effective(&self) -> bool {
        self.held.is_some()
    }

    /// Returns whether they are not expedited because the disk is full.
    pub fn lacks_room(&self) -> bool {
        self.lacks_room
    }

    /// Ends it, and returns what happened to the switch.
    ///
    /// # Errors
    /// As [`Held::finish`].
    pub fn finish(self) -> Result<Option<Release>> {
        self.held.map(Held::finish).transpose()
    }
}
