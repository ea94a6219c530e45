//! Creation of a driver by its kind.

use constel_link::DriverKind;

use crate::config::PlaneConfig;
use crate::edt;
use crate::error::{DriverError, Result};
use crate::netem;
use crate::relay::{Relay, RelayConfig};
use crate::traits::Plane;

/// Creates a driver's namespaces and loads its programs. The driver does not run yet.
///
/// # Errors
/// Requests that the kernel refused; [`crate::probe`] explains what is missing.
pub fn make_plane(kind: DriverKind, config: &PlaneConfig) -> Result<Box<dyn Plane>> {
    if kind != DriverKind::Relay && !config.channels.is_empty() {
        let text = format!("{kind} knows no channels that ports share");
        return Err(DriverError::Config(text));
    }
    if kind != DriverKind::Relay && config.transit.is_some() {
        let text = format!("{kind} does not forward for nodes without a stack");
        return Err(DriverError::Config(text));
    }
    Ok(match kind {
        DriverKind::Relay => Box::new(Relay::new(RelayConfig {
            grain_ns: config.grain_ns,
            channels: config.channels.clone(),
            switches: config.switches.clone(),
            transit: config.transit.clone(),
            threads: config.threads,
            nodes: config.nodes.clone(),
            deduct_stacks: config.deduct_stacks,
            ..RelayConfig::new(config.lab.as_str(), config.ports, config.seed)
        })?),
        DriverKind::Edt => edt::make(config)?,
        DriverKind::Netem => netem::make(config)?,
    })
}
