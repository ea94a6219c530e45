//! A Debian system in a folder, from Debian's archive, for recipes to take from.

use std::path::Path;
use std::process::Command;

use constel_containers::image::Recipe;

use super::place::{TempFolder, is_there, run};
use crate::error::Error;

/// Creates a system with the packages of a recipe. The output of debootstrap goes to standard error. The folder is removed
/// when the returned value is dropped.
pub(super) fn system(
    recipe: Recipe,
    suite: &str,
    mirror: Option<&str>,
) -> Result<TempFolder, Error> {
    if !is_there("debootstrap") {
        return Err(Error::NoDebootstrap);
    }
    let place = TempFolder::make("constel-debootstrap")?;
    let mut command = Command::new("debootstrap");
    command.arg("--variant=minbase");
    command.arg(format!("--include={}", recipe.packages().join(",")));
    command.arg(suite).arg(root_of(&place)).args(mirror);
    run(command)?;
    Ok(place)
}

/// Returns the root of the system within the folder.
pub(super) fn root_of(place: &TempFolder) -> std::path::PathBuf {
    Path::new(place.path()).join("root")
}
