//! The keyboard of a shell on another machine.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use crate::channel::Size;
use crate::channel::{Message, Sending};

/// Interval at which the end flag and the size of the terminal are checked.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Maximum number of keys in a message.
const TYPED_BYTES: usize = 4096;

/// The source of typed keys.
pub trait Keyboard {
    /// Returns the number of bytes typed within `patience`, possibly 0, or `None` if no more can follow.
    ///
    /// # Errors
    /// If the keyboard cannot be read.
    fn typed(&mut self, bytes: &mut [u8], patience: Duration) -> io::Result<Option<usize>>;

    /// Returns the current size of the terminal, if it is one.
    fn size(&self) -> Option<Size>;
}

/// Sends the typed keys, and the size of the terminal whenever it changes, until no key can follow or `over` is set.
pub(super) fn type_keys(
    sending: &Sending,
    keyboard: &mut (dyn Keyboard + Send),
    over: &AtomicBool,
) -> io::Result<()> {
    let mut sent = None;
    let mut bytes = [0; TYPED_BYTES];
    while !over.load(Ordering::Acquire) {
        let size = keyboard.size();
        if let Some(now) = size.filter(|_| size != sent) {
            sending.send(&Message::Size(now))?;
            sent = size;
        }
        match keyboard.typed(&mut bytes, LOOK_EVERY)? {
            Some(0) => {}
            Some(count) => sending.send(&Message::Input(bytes[..count].to_vec()))?,
            None => return sending.send(&Message::InputEnd),
        }
    }
    Ok(())
}
