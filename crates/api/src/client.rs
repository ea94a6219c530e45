//! The asking side.

use std::io::{self, BufRead, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

use crate::answers::{
    Applied, BoxShown, Capturing, CommandSent, DelaysSet, LabRow, LinkSet, LinkShown, Loads,
    MemberSet, NetworkShown, NodeAccess, NodesSet, Paths, Routes, RulesChanged, ScenarioShown,
    Shown, StationsSet, UserFileSet, Version,
};
use crate::{
    ApiError, ApplyOrder, CaptureOrder, Event, NodeChange, PROTOCOL, Read, Request, RuleChange,
    SOCKET_NAME, SetLink, StationChange, Write,
};

/// Longest wait for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// Why a question got no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No process listens: the lab is starting, stopping or dead.
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
    Refused(ApiError),
}

/// A connection to one lab. Questions wait for their answer, at most 60 s.
#[derive(Debug)]
pub struct Client {
    reader: BufReader<UnixStream>,
}

/// Events as they come, until the lab ends.
#[derive(Debug)]
pub struct Events(Client);

impl Iterator for Events {
    type Item = Result<Event, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.receive().transpose()
    }
}

/// How often it is looked whether a capture is to end.
const STOP_LOOK: Duration = Duration::from_millis(100);

/// A running capture as a stream in pcapng format. When `stop` becomes true, the lab sends the end of the file.
#[derive(Debug)]
pub struct CaptureStream<'a> {
    client: Client,
    stop: &'a AtomicBool,
    stopped: bool,
}

impl io::Read for CaptureStream<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.stop.load(Ordering::Acquire) && !self.stopped {
                self.stopped = true;
                let stream = self.client.reader.get_ref();
                stream.shutdown(std::net::Shutdown::Write)?;
                stream.set_read_timeout(Some(ANSWER_WITHIN))?;
            }
            match self.client.reader.read(to) {
                Err(error)
                    if error.kind() == io::ErrorKind::Interrupted
                        || error.kind() == io::ErrorKind::WouldBlock && !self.stopped => {}
                done => return done,
            }
        }
    }
}

impl Client {
    /// Shows frames as they pass, until `stop` is true or the lab ends.
    ///
    /// # Errors
    /// As [`ClientError`].
    pub fn capture(
        mut self,
        order: CaptureOrder,
        stop: &AtomicBool,
    ) -> Result<(Capturing, CaptureStream<'_>), ClientError> {
        let capturing = self.ask(Write::Capture(order))?;
        self.reader.get_ref().set_read_timeout(Some(STOP_LOOK))?;
        let stream = CaptureStream {
            client: self,
            stop,
            stopped: false,
        };
        Ok((capturing, stream))
    }

    /// Connects to the lab whose runtime folder is `lab_dir`.
    ///
    /// # Errors
    /// [`ClientError::Connect`] if no process listens.
    pub fn connect(lab_dir: &Path) -> Result<Self, ClientError> {
        let stream =
            UnixStream::connect(lab_dir.join(SOCKET_NAME)).map_err(ClientError::Connect)?;
        Ok(Self {
            reader: BufReader::new(stream),
        })
    }

    /// A box's interfaces and rules.
    ///
    /// # Errors
    /// As [`ClientError`].
    pub fn rules(&mut self) -> Result<BoxShown, ClientError> {
        self.ask(Read::Rules)
    }

    /// Changes the rules of a box.
    ///
    /// # Errors
    /// As [`ClientError`].
    pub fn change_rules(&mut self, change: RuleChange) -> Result<RulesChanged, ClientError> {
        self.ask(Write::ChangeRules { change })
    }

    /// Confirms a box.
    ///
    /// # Errors
    /// As [`ClientError`].
    pub fn confirm(&mut self) -> Result<(), ClientError> {
        self.ask::<IgnoredAny>(Write::Confirm).map(drop)
    }

    /// The versions of the lab's protocol and program.
    ///
    /// # Errors
    /// As [`ClientError`].
    pub fn version(&mut self) -> Result<Version, ClientError> {
        self.ask(Read::Version)
    }

    /// The lab's row of `constel list`.
    ///
    /// # Errors
    /// As [`ClientError`].
    pub fn state(&mut self) -> Result<LabRow, ClientError> {
        self.ask(Read::State)
    }

    /// Nodes, and the link plane's health.
    ///
    /// # Errors
    /// As [`ClientError`].
    pub fn show(&mut self) -> Result<Shown, ClientError> {
        self.ask(Read::Show)
    }

    /// The scenario that it runs.
    ///
    /// # Errors
    /// As [`ClientError`].
    pub fn scenario(&mut self) -> Result<ScenarioShown, ClientError> {
        self.ask(Read::Scenario)
    }

    /// The link between two nodes.
    ///
    /// # Errors
    /// As [`ClientError`].
    pub fn link(&mut self, a: &str, b: &str) -> Result<LinkShown, ClientError> {
        let (a, b) = (a.to_owned(), b.to_owned());
        self.ask(Read::Link { a, b })
    }

    /// A node's routes, as its kernel has them.
    ///
    /// # Errors
    /// As [`ClientError`].
    pub fn routes(&mut self, node: &str) -> Result<Routes, ClientError> {
        let node = node.to_owned();
        self.ask(Read::Routes { node })
    }

    /// Returns the paths from one node to another, over the edges of lab time `at_ns`. Default: now.
    ///
    /// # Errors
    /// As [`ClientError`].
    pub fn path(&mut self, from: &str, to: &str, at_ns: Option<u64>) -> Result<Paths, ClientError> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.ask(Read::Path { from, to, at_ns })
    }

    /// Sets effects on both directions of a link, or on the egress of a port.
    ///
    /// # Errors
    /// As [`ClientError`].
    pub fn set_link(&mut self, order: SetLink) -> Result<LinkSet, ClientError> {
        self.ask(Write::SetLink(order))
    }

    /// Fails, stops or pauses nodes, or undoes it.
    ///
    /// # Errors
    /// As [`ClientError`].
    pub fn set_nodes(
        &mut self,
        nodes: Vec<String>,
        change: NodeChange,
        wait: bool,
    ) -> Result<NodesSet, ClientError> {
        self.ask(Write::SetNodes {
            nodes,
            change,
            wait,
        })
    }

    /// Compares a changed scenario with the present one and, unless it is a dry run or a change is refused, has the lab run the
    /// changed one.
    ///
    /// # Errors
    /// As [`ClientError`].
    pub fn apply(&mut self, order: ApplyOrder) -> Result<Applied, ClientError> {
        self.ask(Write::Apply(order))
    }

    /// Changes how stations choose their satellites.
    ///
    /// # Errors
    /// As [`ClientError`].
    pub fn set_station(
        &mut self,
        stations: Vec<String>,
        change: StationChange,
    ) -> Result<StationsSet, ClientError> {
        self.ask(Write::SetStation { stations, change })
    }

    /// Returns the traffic of every edge so far.
    ///
    /// # Errors
    /// As [`ClientError`].
    pub fn loads(&mut self) -> Result<Loads, ClientError> {
        self.ask(Read::Loads)
    }

    /// Returns the networks and their members.
    ///
    /// # Errors
    /// As [`ClientError`].
    pub fn networks(&mut self) -> Result<Vec<NetworkShown>, ClientError> {
        self.ask(Read::Networks)
    }

    /// Brings a member into its network, or takes it out.
    ///
    /// # Errors
    /// As [`ClientError`].
    pub fn set_member(
        &mut self,
        network: &str,
        node: &str,
        joined: bool,
    ) -> Result<MemberSet, ClientError> {
        let (network, node) = (network.to_owned(), node.to_owned());
        self.ask(Write::SetMember {
            network,
            node,
            joined,
        })
    }

    /// Puts delays on edges of a network, a row for each member as sender; `None`: takes them away.
    ///
    /// # Errors
    /// As [`ClientError`].
    pub fn set_delays(
        &mut self,
        network: &str,
        delays_ns: Option<Vec<Vec<Option<u64>>>>,
    ) -> Result<DelaysSet, ClientError> {
        let network = network.to_owned();
        self.ask(Write::SetDelays { network, delays_ns })
    }

    /// The door of a node.
    ///
    /// # Errors
    /// As [`ClientError`].
    pub fn enter(&mut self, node: &str) -> Result<NodeAccess, ClientError> {
        let node = node.to_owned();
        self.ask(Write::Enter { node })
    }

    /// Sets a user file that a node receives. Without a text, removes it.
    ///
    /// # Errors
    /// As [`ClientError`].
    pub fn user_file(
        &mut self,
        node: &str,
        name: &str,
        text: Option<String>,
    ) -> Result<UserFileSet, ClientError> {
        let (node, name) = (node.to_owned(), name.to_owned());
        self.ask(Write::UserFile { node, name, text })
    }

    /// Sends something to the programs of a node.
    ///
    /// # Errors
    /// As [`ClientError`].
    pub fn command(
        &mut self,
        node: &str,
        data: serde_json::Value,
    ) -> Result<CommandSent, ClientError> {
        let node = node.to_owned();
        self.ask(Write::Command { node, data })
    }

    /// Has the lab taken down; returns once that has begun.
    ///
    /// # Errors
    /// As [`ClientError`].
    pub fn down(&mut self) -> Result<(), ClientError> {
        self.ask::<IgnoredAny>(Write::Down).map(drop)
    }

    /// Returns all events so far. With `follow`, then each new one until the lab ends.
    ///
    /// # Errors
    /// As [`ClientError`].
    pub fn events(mut self, follow: bool) -> Result<Events, ClientError> {
        self.send(&Read::Events { follow }.into(), None)?;
        self.reader.get_ref().shutdown(std::net::Shutdown::Write)?;
        Ok(Events(self))
    }

    fn ask<T: DeserializeOwned>(&mut self, request: impl Into<Request>) -> Result<T, ClientError> {
        self.send(&request.into(), Some(ANSWER_WITHIN))?;
        self.receive()?
            .ok_or_else(|| ClientError::Io(io::ErrorKind::UnexpectedEof.into()))
    }

    fn send(&mut self, request: &Request, limit: Option<Duration>) -> Result<(), ClientError> {
        #[derive(Serialize)]
        struct Line<'a> {
            version: u32,
            #[serde(flatten)]
            request: &'a Request,
        }
        self.reader.get_ref().set_read_timeout(limit)?;
        let mut line = serde_json::to_vec(&Line {
            version: PROTOCOL,
            request,
        })?;
        line.push(b'\n');
        self.reader.get_ref().write_all(&line)?;
        Ok(())
    }

    fn receive<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ClientError> {
        #[derive(Deserialize)]
        struct Outcome {
            ok: bool,
        }
        #[derive(Deserialize)]
        struct Good<T> {
            data: T,
        }
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        if serde_json::from_str::<Outcome>(&line)?.ok {
            let good: Good<T> = serde_json::from_str(&line)?;
            Ok(Some(good.data))
        } else {
            Err(ClientError::Refused(serde_json::from_str(&line)?))
        }
    }
}
