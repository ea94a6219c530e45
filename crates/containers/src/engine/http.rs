//! HTTP/1.1 over the engine's socket: one request per connection.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::engine::Engine;
use crate::engine::body::{Body, Chunk};
use crate::engine::error::{Result, What, message};

const MOST_HEAD: usize = 64 << 10;
const MOST_HEADERS: usize = 64;
const MOST_ERROR: u64 = 4096;
/// Maximum size of a JSON document, bytes. A list of all containers of a large lab has a few megabytes.
const MOST_JSON: u64 = 64 << 20;

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
#[derive(Debug)]
pub struct Answer {
    engine: Engine,
    status: u16,
    body: Body<BufReader<Timed>>,
}

/// Minimum rate of an answer, bytes per second. In addition to the timeout, an answer may take the time that its bytes need at
/// this rate; otherwise an answer that arrives byte by byte would block its reader for ever.
const LEAST_BYTES_PER_S: u64 = 10_000;

/// An answer that must arrive at a minimum rate.
#[derive(Debug)]
struct Timed {
    stream: UnixStream,
    patience: Duration,
    begun: Instant,
    bytes: u64,
}

impl Timed {
    fn new(stream: UnixStream, patience: Duration) -> Self {
        Self {
            stream,
            patience,
            begun: Instant::now(),
            bytes: 0,
        }
    }
}

impl Read for Timed {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let at_least = Duration::from_secs(self.bytes / LEAST_BYTES_PER_S);
        let until = self.begun + self.patience + at_least;
        let left = until.saturating_duration_since(Instant::now());
        let slow = || io::Error::new(io::ErrorKind::TimedOut, "it answers too slowly");
        if left.is_zero() {
            return Err(slow());
        }
        let wait = left.min(self.patience);
        self.stream.set_read_timeout(Some(wait))?;
        let read = match self.stream.read(to) {
            // Part of the answer has arrived, so the timeout for the first byte does not apply.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && self.bytes > 0 => {
                return Err(slow());
            }
            read => read?,
        };
        self.bytes += read as u64;
        Ok(read)
    }
}

impl Engine {
    /// Sends a request and waits for the head of the answer. The path is escaped where necessary.
    ///
    /// # Errors
    /// If the engine cannot be reached, does not answer before its timeout, or refuses.
    pub fn ask(&self, method: &str, path: &str, sent: Sent<'_>) -> Result<Answer> {
        let stream = UnixStream::connect(self.socket());
        let stream = stream.map_err(|e| self.error(What::Unreachable(e)))?;
        let broken = |e: io::Error| self.error(What::Broken(e));
        let timed = stream.set_write_timeout(Some(self.patience));
        timed.map_err(broken)?;
        // An engine that refuses may answer and close before it has read the whole request. That answer takes precedence over
        // the write error.
        let written = write(&stream, method, path, sent);
        let mut answer = BufReader::new(Timed::new(stream, self.patience));
        let head = head(&mut answer).map_err(|e| broken(written.err().unwrap_or(e)))?;
        let mut body = head.body(answer);
        if !(200..300).contains(&head.status) {
            let mut said = Vec::new();
            // The reason of the refusal may be truncated; the refusal itself is certain.
            drop(body.by_ref().take(MOST_ERROR).read_to_end(&mut said));
            return Err(self.error(What::Refused {
                status: head.status,
                message: message(&said),
            }));
        }
        Ok(Answer {
            engine: self.clone(),
            status: head.status,
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

fn write(mut to: &UnixStream, method: &str, path: &str, sent: Sent<'_>) -> io::Result<()> {
    let (kind, length, document) = match sent {
        Sent::Nothing => ("", 0, Vec::new()),
        Sent::Json(value) => {
            let bytes = serde_json::to_vec(value)?;
            ("application/json", bytes.len() as u64, bytes)
        }
        Sent::Tar(file) => ("application/x-tar", file.metadata()?.len(), Vec::new()),
    };
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: engine\r\nConnection: close\r\n");
    if !kind.is_empty() {
        head.push_str(&format!("Content-Type: {kind}\r\n"));
    }
    if !kind.is_empty() || method != "GET" {
        head.push_str(&format!("Content-Length: {length}\r\n"));
    }
    head.push_str("\r\n");
    to.write_all(&[head.as_bytes(), &document].concat())?;
    if let Sent::Tar(mut file) = sent {
        file.seek(SeekFrom::Start(0))?;
        io::copy(&mut file.take(length), &mut to)?;
    }
    Ok(())
}

/// Reads an answer to its end within the bounds of documents, and returns its status and body. This function needs no engine
/// and has no time limit; it exists to test the parsers.
///
/// # Errors
/// If the input is not an answer of HTTP/1.1, or has more than 64 MiB.
pub fn read_answer(mut from: impl BufRead) -> io::Result<(u16, Vec<u8>)> {
    let head = head(&mut from)?;
    let mut bytes = Vec::new();
    let body = head.body(from);
    body.take(MOST_JSON + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MOST_JSON {
        true => Err(io::Error::other("its answer has more than 64 MiB")),
        false => Ok((head.status, bytes)),
    }
}

/// The parts of an answer's head that we use.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    length: Length,
}

#[derive(Debug, PartialEq, Eq)]
enum Length {
    Bytes(u64),
    Chunks,
    UntilClosed,
}

impl Head {
    fn body<R>(&self, from: R) -> Body<R> {
        match (self.status, &self.length) {
            // These statuses never have a body, whatever the headers state.
            (204 | 304, _) => Body::Counted(from, 0),
            (_, Length::Bytes(length)) => Body::Counted(from, *length),
            (_, Length::Chunks) => Body::Chunked(from, Chunk::First),
            (_, Length::UntilClosed) => Body::UntilClosed(from),
        }
    }
}

/// Reads the head of an answer; skips interim answers (1xx).
fn head(answer: &mut impl BufRead) -> io::Result<Head> {
    for _ in 0..4 {
        let head = one_head(answer)?;
        if head.status >= 200 {
            return Ok(head);
        }
    }
    Err(io::Error::other("it does not come to an answer"))
}

fn one_head(answer: &mut impl BufRead) -> io::Result<Head> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let left = MOST_HEAD.saturating_sub(bytes.len());
        if left == 0 {
            return Err(io::Error::other("its answer's head is too long"));
        }
        let read = answer
            .by_ref()
            .take(left as u64)
            .read_until(b'\n', &mut bytes)?;
        if read == 0 {
            let why = "it closed before it had answered";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
        }
    }
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut parsed = httparse::Response::new(&mut headers);
    parsed.parse(&bytes).map_err(io::Error::other)?;
    let status = parsed
        .code
        .ok_or_else(|| io::Error::other("its answer has no status"))?;
    let length = length(parsed.headers)?;
    Ok(Head { status, length })
}

fn length(headers: &[httparse::Header<'_>]) -> io::Result<Length> {
    let named = |name: &'static str| {
        let of = headers
            .iter()
            .filter(move |h| h.name.eq_ignore_ascii_case(name));
        of.map(|header| String::from_utf8_lossy(header.value).trim().to_owned())
    };
    let codings: Vec<String> = named("transfer-encoding").collect();
    let lengths: Vec<String> = named("content-length").collect();
    match (codings.as_slice(), lengths.as_slice()) {
        ([], []) => Ok(Length::UntilClosed),
        ([one], []) if one.eq_ignore_ascii_case("chunked") => Ok(Length::Chunks),
        ([], [one]) if one.bytes().all(|byte| byte.is_ascii_digit()) => one
            .parse()
            .map(Length::Bytes)
            .map_err(|_| io::Error::other("its answer has an odd length")),
        // With two headers that disagree, either could be correct.
        _ => Err(io::Error::other("its answer does not say how long it is")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &[u8]) -> io::Result<Head> {
        head(&mut &text[..])
    }

    #[test]
    fn a_head_is_read_and_no_more() {
        let text =
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 28\r\n\r\n{\"message\": \"no such image\"}";
        let mut answer = &text[..];
        let head = head(&mut answer).unwrap();
        assert_eq!(head.status, 404);
        assert_eq!(head.length, Length::Bytes(28));
        assert_eq!(message(answer), "no such image");
    }

    #[test]
    fn what_is_to_come_is_waited_for() {
        let text =
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(parsed(text).unwrap().length, Length::Chunks);
        assert!(parsed(&b"HTTP/1.1 100 Continue\r\n\r\n".repeat(99)).is_err());
    }

    #[test]
    fn heads_that_lie_are_refused() {
        let odd: [&[u8]; 7] = [
            b"",
            b"HTTP/1.0 200 OK\r\n",
            b"SSH-2.0-OpenSSH\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        ];
        for text in odd {
            assert!(parsed(text).is_err(), "{:?}", String::from_utf8_lossy(text));
        }
        assert!(parsed(&b"x".repeat(1 << 20)).is_err());
        let many = [
            b"HTTP/1.1 200 OK\r\n".as_slice(),
            &b"A: b\r\n".repeat(1000),
            b"\r\n",
        ]
        .concat();
        assert!(parsed(&many).is_err());
    }
}
