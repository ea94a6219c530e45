//! To end with another process.

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::error::Error;

/// Calls `then` once, in a thread of its own, when the process `pid` has ended, or at once if there is no such process.
///
/// # Errors
/// [`Error::BadProcess`] if the process cannot be watched.
pub fn when_ended(pid: u32, then: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    let bad = |reason: String| Error::BadProcess { pid, reason };
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let number = number.ok_or_else(|| bad("no process has this number".to_owned()))?;
    let descriptor = match pidfd_open(number, PidfdFlags::empty()) {
        Ok(descriptor) => descriptor,
        Err(Errno::SRCH) => {
            then();
            return Ok(());
        }
        Err(error) => return Err(bad(error.to_string())),
    };
    constel_host::process::when_ended(descriptor, "tether", then).map_err(Error::Thread)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::sync::mpsc::{TryRecvError, channel};
    use std::time::Duration;

    use super::*;

    #[test]
    fn it_is_called_when_the_process_ends_and_not_before() {
        let (said, heard) = channel();
        // `cat` ends when its input does.
        let mut cat = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        when_ended(cat.id(), move || said.send(()).unwrap()).unwrap();
        assert_eq!(heard.try_recv(), Err(TryRecvError::Empty));
        drop(cat.stdin.take());
        heard.recv_timeout(Duration::from_secs(240)).unwrap();
        cat.wait().unwrap();
        // Now it is gone.
        let (said, heard) = channel();
        when_ended(cat.id(), move || said.send(()).unwrap()).unwrap();
        heard.try_recv().unwrap();
        assert!(when_ended(0, || ()).is_err() && when_ended(u32::MAX, || ()).is_err());
    }
}
