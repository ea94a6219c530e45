//! Images of the Docker or Podman engine of this machine, which answers with what `docker save` writes.

use std::fs::File;

use constel_engine::{Address, Engine};

use super::files::spool;
use super::found::Context;
use crate::error::Fault;
use crate::reference::Reference;

/// An answer may be so long whatever the engine says of the image, bytes: archives pad, and count what images share in each.
const SMALL_BYTES: u64 = 64 << 20;

/// Has the engine save an image into a file without a name.
pub(super) fn save(image: &Reference, context: &Context<'_>) -> Result<File, Fault> {
    let address = Address::find().map_err(|reason| Fault::Engine {
        socket: "of this machine".to_owned(),
        reason,
    })?;
    let engine = Engine::at(address.socket);
    let wrong = |error: constel_engine::Error| Fault::Engine {
        socket: error.socket().display().to_string(),
        reason: error.reason(),
    };
    let name = image.to_string();
    // An engine that does not know the image says so when it is to save it.
    let said = engine.image(&name).map_err(wrong)?;
    let size = said.map_or(0, |image| image.bytes);
    let most_bytes = SMALL_BYTES.saturating_add(size.saturating_mul(2));
    let mut answer = engine.save(&name).map_err(wrong)?;
    let most_bytes = most_bytes.min(context.limits.spool_bytes);
    spool(&mut answer, "the engine's answer", most_bytes, context)
}
