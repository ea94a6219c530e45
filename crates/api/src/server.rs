//! The lab's side: one thread accepts, one thread per client answers.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use crate::{Answer, REQUEST_LIMIT_BYTES, Request};

/// What the server asks of the engine. Calls come from several threads at once.
pub trait LabView: Send + Sync + 'static {
    /// The lab's row of `constel list`.
    fn state(&self) -> Value;
    /// Everything `constel show` prints.
    fn show(&self) -> Value;
    /// One link's live state.
    ///
    /// # Errors
    /// When a node does not exist; says which, and the nearest name.
    fn link(&self, a: &str, b: &str) -> Result<Value, String>;
    /// Puts effects on a link; says what is set now.
    ///
    /// # Errors
    /// When there is no such link, or a value cannot be.
    fn set_link(
        &self,
        a: &str,
        b: Option<&str>,
        effects: Value,
        reset: bool,
    ) -> Result<Value, String>;
    /// A node's routes, as its kernel has them.
    ///
    /// # Errors
    /// When the node does not exist, or its kernel does not answer.
    fn routes(&self, node: &str) -> Result<Value, String>;
    /// The way from one node to another by the kernels' tables, over the edges of lab time `at_ns` (now unless
    /// given), and the way of least delay.
    ///
    /// # Errors
    /// When a node does not exist, or a kernel does not answer.
    fn path(&self, from: &str, to: &str, at_ns: Option<u64>) -> Result<Value, String>;
    /// Events so far, and a channel with the later ones.
    fn events(&self) -> (Vec<Value>, Receiver<Value>);
    /// Asks the engine to take the lab down; returns at once.
    fn down(&self);
}

/// A listening server; stops and removes its socket when dropped.
pub struct Server {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on `path`, which must not exist. The lab's folder keeps others out (mode 0700).
    ///
    /// # Errors
    /// When the socket cannot be bound.
    pub fn start(path: &Path, lab: Arc<dyn LabView>) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("api".into())
            .spawn(move || {
                for stream in listener.incoming() {
                    if seen.load(Ordering::Acquire) {
                        return;
                    }
                    let Ok(stream) = stream else { continue };
                    let lab = Arc::clone(&lab);
                    // A client that goes away mid-answer is its own business.
                    let answer = move || drop(answer_client(&stream, lab.as_ref()));
                    drop(
                        std::thread::Builder::new()
                            .name("api-client".into())
                            .spawn(answer),
                    );
                }
            })?;
        Ok(Self {
            path: path.to_owned(),
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // accept() has no time limit: a connection of our own wakes it.
        let woken = UnixStream::connect(&self.path).is_ok();
        if let (Some(thread), true) = (self.thread.take(), woken) {
            drop(thread.join());
        }
        drop(std::fs::remove_file(&self.path));
    }
}

fn answer_client(stream: &UnixStream, lab: &dyn LabView) -> io::Result<()> {
    stream.set_write_timeout(Some(Duration::from_secs(10)))?;
    let mut writer = BufWriter::new(stream);
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        let got = (&mut reader)
            .take(REQUEST_LIMIT_BYTES)
            .read_line(&mut line)?;
        if got == 0 {
            return Ok(());
        }
        if !line.ends_with('\n') && got as u64 == REQUEST_LIMIT_BYTES {
            let error = format!("a request has at most {REQUEST_LIMIT_BYTES} bytes");
            return say(&mut writer, Err(error));
        }
        match serde_json::from_str(&line) {
            Err(error) => say(&mut writer, Err(format!("not a request: {error}")))?,
            Ok(Request::State) => say(&mut writer, Ok(lab.state()))?,
            Ok(Request::Show) => say(&mut writer, Ok(lab.show()))?,
            Ok(Request::Link { a, b }) => say(&mut writer, lab.link(&a, &b))?,
            Ok(Request::SetLink {
                a,
                b,
                effects,
                reset,
            }) => say(&mut writer, lab.set_link(&a, b.as_deref(), effects, reset))?,
            Ok(Request::Routes { node }) => say(&mut writer, lab.routes(&node))?,
            Ok(Request::Path { from, to, at_ns }) => {
                say(&mut writer, lab.path(&from, &to, at_ns))?;
            }
            Ok(Request::Down) => {
                lab.down();
                say(&mut writer, Ok(Value::Null))?;
            }
            Ok(Request::Events { follow }) => {
                let (history, later) = lab.events();
                for event in history {
                    say(&mut writer, Ok(event))?;
                }
                if follow {
                    for event in later {
                        say(&mut writer, Ok(event))?;
                    }
                }
                return Ok(());
            }
        }
    }
}

fn say(writer: &mut impl Write, result: Result<Value, String>) -> io::Result<()> {
    serde_json::to_writer(&mut *writer, &Answer::from(result)).map_err(io::Error::other)?;
    writer.write_all(b"\n")?;
    writer.flush()
}
