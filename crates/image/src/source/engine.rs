//! Images of the Docker or Podman engine of this machine, which answers with what `docker save` writes.

use std::fs::File;

use constel_engine::{Address, Engine};

use super::files::spool;
use super::found::Context;
use crate::error::Fault;
use crate::reference::Reference;

/// Has the engine save an image into a file without a name.
pub(super) fn save(image: &Reference, context: &Context<'_>) -> Result<File, Fault> {
    let address = Address::find().map_err(|reason| Fault::Engine {
        socket: "of this machine".to_owned(),
        reason,
    })?;
    let answer = Engine::at(address.socket).save(&image.to_string());
    let mut answer = answer.map_err(|error| Fault::Engine {
        socket: error.socket().display().to_string(),
        reason: error.reason(),
    })?;
    spool(&mut answer, "the engine's answer", context)
}
