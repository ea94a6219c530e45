//! Limits of the host that a large lab needs higher, each recorded and restored.

use std::path::PathBuf;

use constel_host::globals::{Globals, Owner, Wish};
use constel_host::sysctl;

use crate::error::EngineError;

/// Neighbour entries a port may cost: its far end in two families, and the groups it listens to.
const NEIGHBOURS_PER_PORT: u64 = 16;

/// Raises what a lab with so many ports needs. Neighbour tables are shared by all namespaces of a host, and
/// the default of 1,024 entries is full with a few hundred ports.
///
/// # Errors
/// When a limit exists but cannot be raised: neighbours would get lost later, in silence.
pub(crate) fn raise(globals: &Globals, owner: &Owner, ports: usize) -> Result<(), EngineError> {
    let entries = (ports as u64 * NEIGHBOURS_PER_PORT).max(1024);
    for family in ["ipv4", "ipv6"] {
        for threshold in ["gc_thresh3", "gc_thresh2", "gc_thresh1"] {
            let path: PathBuf = sysctl::path_of(&format!("net/{family}/neigh/default/{threshold}"));
            if path.exists() {
                globals.set(owner, &path, Wish::AtLeast(entries))?;
            }
        }
    }
    Ok(())
}
