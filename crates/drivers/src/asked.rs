//! Checks that a request to a driver is valid, and within the driver's capabilities.

use constel_link::{
    Capabilities, CheckedEffects, CheckedUpdate, EdgeChange, EdgeUpdate, EffectsChange,
};

use crate::error::{DriverError, Result};

/// Checks an update for a driver with `ports` ports.
///
/// # Errors
/// [`DriverError::Update`] or [`DriverError::Unsupported`] with all errors of the update.
pub(crate) fn update(
    update: EdgeUpdate,
    ports: u32,
    capabilities: &Capabilities,
) -> Result<CheckedUpdate> {
    let update = update.check(ports)?;
    let refusals = update.changes().iter().filter_map(|change| match change {
        EdgeChange::Set {
            from,
            to,
            impairment,
        } => capabilities.edge_refusal(*from, *to, impairment),
        EdgeChange::Remove { .. } => None,
    });
    supported(refusals.collect())?;
    Ok(update)
}

/// Checks effects for a driver with `ports` ports.
///
/// # Errors
/// [`DriverError::Effects`] or [`DriverError::Unsupported`] with all errors of the effects.
pub(crate) fn effects(
    changes: Vec<EffectsChange>,
    ports: u32,
    capabilities: &Capabilities,
) -> Result<CheckedEffects> {
    let checked = CheckedEffects::new(changes, ports)?;
    let asked = checked.changes().iter().filter_map(EffectsChange::effects);
    let mut refusals: Vec<String> = asked
        .flat_map(|effects| capabilities.refusals(effects))
        .map(|refusal| refusal.why)
        .collect();
    // Many edges may require the same missing effect: report it once.
    refusals.sort();
    refusals.dedup();
    supported(refusals)?;
    Ok(checked)
}

/// Checks that the class of every port has a name.
///
/// # Errors
/// [`DriverError::Config`].
pub(crate) fn classes(names: &[String], class_of: &[u8]) -> Result<()> {
    if names.is_empty() || class_of.iter().any(|&c| usize::from(c) >= names.len()) {
        let text = format!("a port is of none of the {} classes", names.len());
        return Err(DriverError::Config(text));
    }
    Ok(())
}

fn supported(refusals: Vec<String>) -> Result<()> {
    if refusals.is_empty() {
        Ok(())
    } else {
        Err(DriverError::Unsupported(refusals))
    }
}
