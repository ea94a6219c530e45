//! A driver's thread: named after its lab, joined once.

use std::io;
use std::sync::Mutex;
use std::thread::{Builder, JoinHandle};

/// A running thread that any holder may wait for.
#[derive(Debug)]
pub(crate) struct NamedThread(Mutex<Option<JoinHandle<()>>>);

impl NamedThread {
    /// Starts a thread of this lab's driver.
    pub(crate) fn start(lab: &str, run: impl FnOnce() + Send + 'static) -> io::Result<NamedThread> {
        NamedThread::start_nth(lab, 0, run)
    }

    /// Starts one of several threads of this lab's driver, counted from 0.
    pub(crate) fn start_nth(
        lab: &str,
        number: usize,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<NamedThread> {
        let number = if number == 0 {
            String::new()
        } else {
            number.to_string()
        };
        // The kernel stores 15 bytes of a thread's name.
        let name: String = format!("cst{number}-{lab}").chars().take(15).collect();
        let thread = Builder::new().name(name).spawn(run)?;
        Ok(NamedThread(Mutex::new(Some(thread))))
    }

    /// Waits until the thread ends, after it was requested to stop. A second call returns at once.
    pub(crate) fn join(&self) {
        let thread = self.0.lock().ok().and_then(|mut t| t.take());
        if let Some(thread) = thread {
            // A panic was printed when it happened, and every call since then has returned `Stopped`.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_named_and_joined_once() {
        let (send, receive) = std::sync::mpsc::channel();
        let thread = NamedThread::start("a-lab-with-a-long-name", move || {
            let name = std::thread::current().name().map(str::to_owned);
            let _ = send.send(name);
        });
        let thread = thread.unwrap();
        assert_eq!(receive.recv().unwrap().as_deref(), Some("cst-a-lab-with-"));
        thread.join();
        thread.join();
    }

    #[test]
    fn a_panic_ends_it_quietly() {
        let thread = NamedThread::start("lab", || std::panic::resume_unwind(Box::new(())));
        thread.unwrap().join();
    }
}
