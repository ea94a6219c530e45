//! HTTP/1.1 over the engine's socket: one request per connection, by [`ureq`].

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use ureq::http::Request;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};
use ureq::{Agent, BodyReader, SendBody};

use crate::engine::Engine;
use crate::engine::error::{Result, What, message};

const MOST_HEAD: usize = 64 << 10;
const MOST_ERROR: u64 = 4096;
/// Maximum size of a JSON document, bytes. A list of all containers of a large lab has a few megabytes.
const MOST_JSON: u64 = 64 << 20;
/// Minimum rate of an answer, bytes per second. In addition to the timeout, an answer may take the time that its bytes need at
/// this rate; otherwise an answer that arrives byte by byte would block its reader for ever.
const LEAST_BYTES_PER_S: u64 = 10_000;

/// The body of a request.
#[derive(Debug, Clone, Copy)]
pub enum Sent<'a> {
    /// No body.
    Nothing,
    /// A JSON document.
    Json(&'a Value),
    /// A tar archive: the whole file, from its beginning.
    Tar(&'a File),
}

/// A successful answer, read up to the beginning of its body.
pub struct Answer {
    engine: Engine,
    status: u16,
    body: BodyReader<'static>,
}

/// A connection whose answer must arrive at a minimum rate.
#[derive(Debug)]
struct Timed {
    stream: UnixStream,
    buffers: LazyBuffers,
    patience: Duration,
    /// The end of the request.
    begun: Instant,
    bytes: u64,
    /// The error that ended the request. An engine that refuses may answer and close before it has read the whole request, so
    /// this error counts only if no answer follows.
    unsent: Option<io::Error>,
}

impl Timed {
    fn new(stream: UnixStream, patience: Duration) -> io::Result<Self> {
        stream.set_write_timeout(Some(patience))?;
        Ok(Self {
            stream,
            buffers: LazyBuffers::new(MOST_HEAD, MOST_HEAD),
            patience,
            begun: Instant::now(),
            bytes: 0,
            unsent: None,
        })
    }

    fn read(&mut self) -> io::Result<usize> {
        let at_least = Duration::from_secs(self.bytes / LEAST_BYTES_PER_S);
        let until = self.begun + self.patience + at_least;
        let left = until.saturating_duration_since(Instant::now());
        let slow = || io::Error::new(io::ErrorKind::TimedOut, "it answers too slowly");
        if left.is_zero() {
            return Err(slow());
        }
        let wait = left.min(self.patience);
        self.stream.set_read_timeout(Some(wait))?;
        loop {
            match self.stream.read(self.buffers.input_append_buf()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(slow()),
                read => return read,
            }
        }
    }
}

impl Transport for Timed {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(
        &mut self,
        amount: usize,
        _: NextTimeout,
    ) -> std::result::Result<(), ureq::Error> {
        if self.unsent.is_none() {
            let written = self.stream.write_all(&self.buffers.output()[..amount]);
            self.unsent = written.err();
            self.begun = Instant::now();
        }
        Ok(())
    }

    fn await_input(&mut self, _: NextTimeout) -> std::result::Result<bool, ureq::Error> {
        let read = self.read();
        let silent = self.bytes == 0 && !matches!(read, Ok(1..));
        if let Some(unsent) = self.unsent.take_if(|_| silent) {
            return Err(unsent.into());
        }
        let read = read?;
        self.bytes += read as u64;
        self.buffers.input_appended(read);
        Ok(read > 0)
    }

    fn is_open(&mut self) -> bool {
        false
    }
}

/// Hands out one connection, which exists already.
#[derive(Debug)]
struct Opened(Mutex<Option<Timed>>);

impl Connector for Opened {
    type Out = Timed;

    fn connect(
        &self,
        _: &ConnectionDetails<'_>,
        _: Option<()>,
    ) -> std::result::Result<Option<Timed>, ureq::Error> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).take())
    }
}

impl Engine {
    /// Sends a request and waits for the head of the answer. Names in the path must be escaped.
    ///
    /// # Errors
    /// If the engine cannot be reached, does not answer before its timeout, or refuses.
    pub fn ask(&self, method: &str, path: &str, sent: Sent<'_>) -> Result<Answer> {
        let stream = UnixStream::connect(self.socket());
        let stream = stream.map_err(|e| self.error(What::Unreachable(e)))?;
        let broken = |e: io::Error| self.error(What::Broken(e));
        let timed = Timed::new(stream, self.patience).map_err(broken)?;
        let answer = send(timed, method, path, sent).map_err(|e| broken(e.into_io()))?;
        let status = answer.status().as_u16();
        let mut body = answer.into_body().into_reader();
        if !(200..300).contains(&status) {
            let mut said = Vec::new();
            // The reason of the refusal may be truncated; the refusal itself is certain.
            drop(body.by_ref().take(MOST_ERROR).read_to_end(&mut said));
            let message = message(&said);
            return Err(self.error(What::Refused { status, message }));
        }
        Ok(Answer {
            engine: self.clone(),
            status,
            body,
        })
    }
}

impl Answer {
    /// Returns the status, from 200 to 299.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Parses the body as a JSON document.
    ///
    /// # Errors
    /// If the body is no valid document, is truncated, or has more than 64 MiB.
    pub fn json(self) -> Result<Value> {
        let Self { engine, body, .. } = self;
        let mut bytes = Vec::new();
        let read = body.take(MOST_JSON + 1).read_to_end(&mut bytes);
        read.map_err(|e| engine.error(What::Broken(e)))?;
        if bytes.len() as u64 > MOST_JSON {
            return Err(engine.error(What::Odd("its answer has more than 64 MiB".to_owned())));
        }
        let odd = |e| What::Odd(format!("its answer cannot be read: {e}"));
        serde_json::from_slice(&bytes).map_err(|e| engine.error(odd(e)))
    }

    /// Waits for the end of the body.
    ///
    /// # Errors
    /// If the body is truncated.
    pub fn end(self) -> Result<()> {
        let Self { engine, body, .. } = self;
        let read = io::copy(&mut body.take(MOST_JSON), &mut io::sink());
        read.map(drop).map_err(|e| engine.error(What::Broken(e)))
    }
}

impl Read for Answer {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.body.read(to)
    }
}

fn send(
    timed: Timed,
    method: &str,
    path: &str,
    sent: Sent<'_>,
) -> std::result::Result<ureq::http::Response<ureq::Body>, ureq::Error> {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_response_header_size(MOST_HEAD)
        .user_agent(concat!("constel/", env!("CARGO_PKG_VERSION")))
        .proxy(None)
        .build();
    let opened = Opened(Mutex::new(Some(timed)));
    let agent = Agent::with_parts(config, opened, DefaultResolver::default());
    // An address needs no resolution, and the connection exists already.
    let request = Request::builder()
        .method(method)
        .uri(format!("http://127.0.0.1{path}"))
        .header("Connection", "close");
    match sent {
        Sent::Nothing if method == "POST" => agent.run(request.body(&[][..])?),
        Sent::Nothing => agent.run(request.body(SendBody::none())?),
        Sent::Json(value) => {
            let request = request.header("Content-Type", "application/json");
            agent.run(request.body(value.to_string())?)
        }
        Sent::Tar(mut file) => {
            file.seek(SeekFrom::Start(0))?;
            agent.run(
                request
                    .header("Content-Type", "application/x-tar")
                    .body(file)?,
            )
        }
    }
}
