//! The asking side, used by the CLI's verbs.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::{Answer, Request, SOCKET_NAME};

/// Why a question got no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens: the lab is starting, stopping or dead.
    #[error("the lab does not answer")]
    Connect(#[source] io::Error),
    /// The connection broke.
    #[error("the lab stopped answering")]
    Io(#[from] io::Error),
    /// The answer was not understood.
    #[error("the lab answered something unexpected")]
    Answer(#[from] serde_json::Error),
    /// The lab refused.
    #[error("{0}")]
    Refused(String),
}

/// A connection to one lab.
#[derive(Debug)]
pub struct Client {
    reader: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the lab whose runtime folder is `lab_dir`.
    ///
    /// # Errors
    /// [`ClientError::Connect`] when nobody listens.
    pub fn connect(lab_dir: &Path) -> Result<Self, ClientError> {
        let stream =
            UnixStream::connect(lab_dir.join(SOCKET_NAME)).map_err(ClientError::Connect)?;
        Ok(Self {
            reader: BufReader::new(stream),
        })
    }

    /// Asks and waits for the one answer, at most 30 s.
    ///
    /// # Errors
    /// As [`ClientError`].
    pub fn ask(&mut self, request: &Request) -> Result<Value, ClientError> {
        self.send(request, Some(Duration::from_secs(30)))?;
        self.receive()?
            .ok_or_else(|| ClientError::Io(io::ErrorKind::UnexpectedEof.into()))
    }

    /// Asks for a stream; answers come until the lab ends it.
    ///
    /// # Errors
    /// As [`ClientError`].
    pub fn stream(
        mut self,
        request: &Request,
    ) -> Result<impl Iterator<Item = Result<Value, ClientError>>, ClientError> {
        self.send(request, None)?;
        self.reader.get_ref().shutdown(std::net::Shutdown::Write)?;
        Ok(std::iter::from_fn(move || self.receive().transpose()))
    }

    fn send(&mut self, request: &Request, limit: Option<Duration>) -> Result<(), ClientError> {
        self.reader.get_ref().set_read_timeout(limit)?;
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.reader.get_ref().write_all(&line)?;
        Ok(())
    }

    fn receive(&mut self) -> Result<Option<Value>, ClientError> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let answer: Answer = serde_json::from_str(&line)?;
        match (answer.ok, answer.error) {
            (true, _) => Ok(Some(answer.data.unwrap_or(Value::Null))),
            (false, error) => Err(ClientError::Refused(error.unwrap_or_default())),
        }
    }
}
