//! A Debian system in a folder, from Debian's archive, for recipes to take from.

use std::path::Path;
use std::process::Command;

use constel_image::Recipe;

use super::place::{Place, is_there, run};
use crate::error::Error;

/// Makes one with what a recipe needs; what debootstrap says goes to standard error. The folder goes with what is given.
pub(super) fn system(recipe: Recipe, suite: &str, mirror: Option<&str>) -> Result<Place, Error> {
    if !is_there("debootstrap") {
        return Err(Error::NoDebootstrap);
    }
    let place = Place::make("constel-debootstrap")?;
    let mut command = Command::new("debootstrap");
    command.arg("--variant=minbase");
    command.arg(format!("--include={}", recipe.packages().join(",")));
    command.arg(suite).arg(root_of(&place)).args(mirror);
    run(command)?;
    Ok(place)
}

/// Where in the folder the system is.
pub(super) fn root_of(place: &Place) -> std::path::PathBuf {
    Path::new(place.path()).join("root")
}
