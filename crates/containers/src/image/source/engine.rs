//! Images of this machine's Docker or Podman engine, which are read in the format of `docker save`.

use std::fs::File;

use super::files::spool;
use super::found::Context;
use crate::engine::{Address, Engine};
use crate::image::error::Fault;
use crate::image::reference::Reference;

/// Minimum limit for the engine's answer, bytes. Archives have padding and repeat what images share, so the stated size is not
/// enough.
const SMALL_BYTES: u64 = 64 << 20;

/// Requests an image from the engine and writes it to an unnamed temporary file.
pub(super) fn save(image: &Reference, context: &Context<'_>) -> Result<File, Fault> {
    let address = Address::find().map_err(|reason| Fault::Engine {
        socket: "of this machine".to_owned(),
        reason,
    })?;
    let engine = Engine::at(address.socket);
    let wrong = |error: crate::engine::Error| Fault::Engine {
        socket: error.socket().display().to_string(),
        reason: error.reason(),
    };
    let name = image.to_string();
    // An engine without the image reports that at the request to save it.
    let said = engine.image(&name).map_err(wrong)?;
    let size = said.map_or(0, |image| image.bytes);
    let most_bytes = SMALL_BYTES.saturating_add(size.saturating_mul(2));
    let mut answer = engine.save(&name).map_err(wrong)?;
    let most_bytes = most_bytes.min(context.limits.spool_bytes);
    spool(&mut answer, "the engine's answer", most_bytes, context)
}
