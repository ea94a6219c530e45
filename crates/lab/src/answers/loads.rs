//! The answer to a request for the bytes that every edge has delivered.

use constel_api::answers::{EdgeLoad, Loads};
use constel_drivers::{DriverError, Links};
use constel_link::EdgeStats;

use crate::clock::mono_ns;

/// Returns the edges that have delivered any bytes, at lab time `t_ns`.
///
/// # Errors
/// When the link plane has stopped, or the kernel does not report its counters.
pub(super) fn loads(links: &dyn Links, t_ns: Option<u64>) -> Result<Loads, DriverError> {
    let at_mono_ns = mono_ns();
    let load = |edge: &EdgeStats| {
        let rate_bps = edge.impairment.and_then(|impairment| impairment.rate_bps);
        EdgeLoad {
            from: edge.from,
            to: edge.to,
            delivered_bytes: edge.counters.delivered_bytes,
            rate_bps: rate_bps.map(u64::from),
        }
    };
    let edges = links.all_edges()?;
    let carried = edges
        .iter()
        .filter(|edge| edge.counters.delivered_bytes > 0);
    Ok(Loads {
        t_ns,
        at_mono_ns,
        edges: carried.map(load).collect(),
    })
}
