//! The lab's side: one thread accepts, one thread per client answers.

use std::io::{self, BufRead, BufReader, BufWriter, Read as _};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use crate::answers::{
    Applied, BoxShown, Capturing, CommandSent, DelaysSet, LabRow, LinkSet, LinkShown, Loads,
    MemberSet, NetworkShown, NodeAccess, NodesSet, Paths, PolicyJoined, Routes, RulesChanged,
    ScenarioShown, Shown, StationsSet, UserFileSet, Version,
};
use crate::policy::{self, PolicySeat};
use crate::stream::{self, CaptureSource};
use crate::{
    ApiError, ApplyOrder, CaptureOrder, ErrorCode, Next, NodeChange, PROTOCOL, PolicyOrder,
    REQUEST_LIMIT_BYTES, Read, Request, RuleChange, SetLink, StationChange, Subscription, Write,
};

/// Interval at which a follower of events is checked while no event occurs. A client that has left is removed then.
const FOLLOWER_LOOK: Duration = Duration::from_millis(250);

/// A pause after a connection could not be accepted: without free descriptors the next try fails as well.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The operations of a lab that the server needs for read requests. Several threads call them in parallel.
pub trait LabReader: Send + Sync + 'static {
    /// The lab's row of `constel list`.
    fn state(&self) -> LabRow;
    /// Everything `constel show` prints.
    fn show(&self) -> Shown;
    /// The scenario that it runs.
    ///
    /// # Errors
    /// [`ErrorCode::NotALab`].
    fn scenario(&self) -> Result<ScenarioShown, ApiError> {
        Err(not_a_lab())
    }
    /// One link's live state.
    ///
    /// # Errors
    /// [`ErrorCode::NodeNotFound`], [`ErrorCode::ComingUp`].
    fn link(&self, a: &str, b: &str) -> Result<LinkShown, ApiError>;
    /// Returns the traffic of every edge.
    ///
    /// # Errors
    /// [`ErrorCode::NotALab`], [`ErrorCode::ComingUp`]; [`ErrorCode::Failed`] if the link plane has stopped.
    fn loads(&self) -> Result<Loads, ApiError> {
        Err(not_a_lab())
    }
    /// A node's routes, as its kernel has them.
    ///
    /// # Errors
    /// [`ErrorCode::NodeNotFound`], [`ErrorCode::ComingUp`]; [`ErrorCode::Failed`] when its kernel does not answer.
    fn routes(&self, node: &str) -> Result<Routes, ApiError>;
    /// Returns the path from one node to another by the kernels' tables, over the edges of lab time `at_ns` (default: now),
    /// and the path of minimum delay. Computing those edges may take seconds. It ends when `wanted` returns false, or when
    /// the lab goes down.
    ///
    /// # Errors
    /// [`ErrorCode::NodeNotFound`], [`ErrorCode::NoPath`], [`ErrorCode::ComingUp`], [`ErrorCode::TooFar`];
    /// [`ErrorCode::Failed`] if a kernel does not answer.
    fn path(
        &self,
        from: &str,
        to: &str,
        at_ns: Option<u64>,
        wanted: &(dyn Fn() -> bool + Sync),
    ) -> Result<Paths, ApiError>;
    /// Returns the networks and their members.
    ///
    /// # Errors
    /// [`ErrorCode::ComingUp`].
    fn networks(&self) -> Result<Vec<NetworkShown>, ApiError>;
    /// A box's interfaces and rules.
    ///
    /// # Errors
    /// [`ErrorCode::NotABox`], [`ErrorCode::ComingUp`], [`ErrorCode::Failed`].
    fn rules(&self) -> Result<BoxShown, ApiError> {
        Err(ApiError::not_a_box())
    }
    /// Returns the events that are kept, and all later ones.
    fn follow(&self) -> Subscription;
}

fn not_a_lab() -> ApiError {
    ApiError::new(ErrorCode::NotALab, "this is a box: it has no sky")
}

/// The operations of a lab that the server needs for all requests.
pub trait LabWriter: LabReader {
    /// Sets effects on a link, or on the egress of a port. Returns the current settings.
    ///
    /// # Errors
    /// [`ErrorCode::NodeNotFound`], [`ErrorCode::BadName`], [`ErrorCode::NoLink`], [`ErrorCode::BadValue`],
    /// [`ErrorCode::Unsupported`], [`ErrorCode::ComingUp`], [`ErrorCode::Failed`]. In all cases, nothing was changed.
    fn set_link(&self, order: &SetLink) -> Result<LinkSet, ApiError>;
    /// Fails, stops or pauses nodes, or undoes it.
    ///
    /// # Errors
    /// [`ErrorCode::NodeNotFound`]; [`ErrorCode::BadValue`] if a node is not in the state that the change needs;
    /// [`ErrorCode::NotALab`], [`ErrorCode::Unsupported`], [`ErrorCode::ComingUp`]. In these cases, nothing was changed.
    /// [`ErrorCode::Failed`] if the link plane or a process refuses.
    fn set_nodes(
        &self,
        _nodes: &[String],
        _change: NodeChange,
        _wait: bool,
    ) -> Result<NodesSet, ApiError> {
        Err(not_a_lab())
    }
    /// Compares a changed scenario with the present one and, unless it is a dry run or a change is refused, runs the changed one.
    ///
    /// # Errors
    /// [`ErrorCode::BadValue`] if the scenario is not valid; [`ErrorCode::NotALab`], [`ErrorCode::Unsupported`],
    /// [`ErrorCode::ComingUp`]. In these cases, nothing was changed. [`ErrorCode::Failed`] if the host refuses.
    fn apply(&self, _order: &ApplyOrder) -> Result<Applied, ApiError> {
        Err(not_a_lab())
    }
    /// Changes how stations choose their satellites.
    ///
    /// # Errors
    /// [`ErrorCode::NodeNotFound`], [`ErrorCode::BadValue`], [`ErrorCode::NotALab`], [`ErrorCode::Unsupported`],
    /// [`ErrorCode::ComingUp`]. In all cases, nothing was changed.
    fn set_station(
        &self,
        _stations: &[String],
        _change: &StationChange,
    ) -> Result<StationsSet, ApiError> {
        Err(not_a_lab())
    }
    /// Brings a member into its network, or takes it out.
    ///
    /// # Errors
    /// [`ErrorCode::NodeNotFound`]; [`ErrorCode::BadName`] if there is no such network, or the node has no port in it;
    /// [`ErrorCode::Unsupported`], [`ErrorCode::ComingUp`], [`ErrorCode::Failed`]. In all cases, nothing was changed.
    fn set_member(&self, network: &str, node: &str, joined: bool) -> Result<MemberSet, ApiError>;
    /// Sets delays on edges of a network, nanoseconds: a row for each member as sender, and a cell for each member as
    /// receiver. `None` removes the delays.
    ///
    /// # Errors
    /// [`ErrorCode::BadName`] if there is no such network; [`ErrorCode::BadValue`] if it is not a network of links, the
    /// matrix does not have the size of its members, or a cell has no edge; [`ErrorCode::Unsupported`],
    /// [`ErrorCode::ComingUp`], [`ErrorCode::Failed`]. In all cases, nothing was changed.
    fn set_delays(
        &self,
        network: &str,
        delays_ns: Option<&[Vec<Option<u64>>]>,
    ) -> Result<DelaysSet, ApiError>;
    /// The door of a node.
    ///
    /// # Errors
    /// [`ErrorCode::NodeNotFound`], [`ErrorCode::ComingUp`].
    fn enter(&self, node: &str) -> Result<NodeAccess, ApiError>;
    /// Sets or removes a user file that a node receives.
    ///
    /// # Errors
    /// [`ErrorCode::NodeNotFound`], [`ErrorCode::NoInformation`], [`ErrorCode::BadValue`], [`ErrorCode::ComingUp`],
    /// [`ErrorCode::Failed`]. In all cases, nothing was changed.
    fn user_file(
        &self,
        node: &str,
        name: &str,
        text: Option<String>,
    ) -> Result<UserFileSet, ApiError>;
    /// Sends something to programs of a node.
    ///
    /// # Errors
    /// As [`LabWriter::user_file`].
    fn command(&self, node: &str, data: serde_json::Value) -> Result<CommandSent, ApiError>;
    /// Shows frames as they pass, from now on.
    ///
    /// # Errors
    /// [`ErrorCode::NodeNotFound`], [`ErrorCode::NoRule`], [`ErrorCode::BadName`], [`ErrorCode::BadValue`],
    /// [`ErrorCode::Unsupported`], [`ErrorCode::ComingUp`], [`ErrorCode::Failed`].
    fn capture(
        &self,
        order: &CaptureOrder,
    ) -> Result<(Capturing, Box<dyn CaptureSource>), ApiError>;
    /// Lets a program decide from the next step on. A lab has one at a time.
    ///
    /// # Errors
    /// [`ErrorCode::NotALab`]; [`ErrorCode::BadValue`] if the name or the time is out of bounds;
    /// [`ErrorCode::Unsupported`] on several machines, or if another program decides; [`ErrorCode::ComingUp`].
    fn policy(
        &self,
        _order: &PolicyOrder,
    ) -> Result<(PolicyJoined, Arc<dyn PolicySeat>), ApiError> {
        Err(not_a_lab())
    }
    /// Changes the rules of a box.
    ///
    /// # Errors
    /// [`ErrorCode::NotABox`], [`ErrorCode::NoRule`], [`ErrorCode::BadValue`], [`ErrorCode::ComingUp`],
    /// [`ErrorCode::Failed`]: nothing was changed.
    fn change_rules(&self, _change: RuleChange) -> Result<RulesChanged, ApiError> {
        Err(ApiError::not_a_box())
    }
    /// Confirms a box that waits for it, so that the box goes on.
    ///
    /// # Errors
    /// [`ErrorCode::NotABox`].
    fn confirm(&self) -> Result<(), ApiError> {
        Err(ApiError::not_a_box())
    }
    /// Requests that the lab be taken down, and returns at once.
    fn down(&self);
}

/// How long the last event may take to its followers: they read at once, or they keep the lab no longer.
const LAST_EVENT_WITHIN: Duration = Duration::from_secs(2);

/// Clients that follow the events of a lab. The process of the lab must not end before they have received the last one.
#[derive(Clone, Default)]
pub struct Followers(Arc<(Mutex<usize>, Condvar)>);

impl std::fmt::Debug for Followers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Followers").field(&self.count()).finish()
    }
}

impl Followers {
    fn count(&self) -> MutexGuard<'_, usize> {
        self.0.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Counts one more until the value that is returned is dropped.
    fn another(&self) -> impl Drop + use<> {
        struct One(Followers);
        impl Drop for One {
            fn drop(&mut self) {
                *self.0.count() -= 1;
                self.0.0.1.notify_all();
            }
        }
        *self.count() += 1;
        One(self.clone())
    }

    /// Waits, after the log was closed, until all have received the last event: at most two seconds, as one of them may not read.
    pub fn hear_the_end(&self) {
        let gone = self
            .0
            .1
            .wait_timeout_while(self.count(), LAST_EVENT_WITHIN, |count| *count > 0);
        drop(gone);
    }
}

/// A listening server; stops and removes its socket when dropped.
pub struct Server {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    followers: Followers,
}

impl Server {
    /// Listens on `path`, which must not exist, for processes of the same user. The lab's folder keeps others out (mode
    /// 0700) until the socket itself does.
    ///
    /// # Errors
    /// When the socket cannot be bound.
    pub fn start(path: &Path, lab: Arc<dyn LabWriter>) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let followers = Followers::default();
        let all = followers.clone();
        let thread = std::thread::Builder::new()
            .name("api".into())
            .spawn(move || {
                for stream in listener.incoming() {
                    if seen.load(Ordering::Acquire) {
                        return;
                    }
                    let Ok(stream) = stream else {
                        std::thread::sleep(ACCEPT_PAUSE);
                        continue;
                    };
                    let (lab, all) = (Arc::clone(&lab), all.clone());
                    // A client that goes away mid-answer is its own business.
                    let answer = move || drop(answer_client(&stream, lab.as_ref(), &all));
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
            followers,
        })
    }

    /// Listens no more. Those who follow the lab still do.
    #[must_use]
    pub fn stop(self) -> Followers {
        self.followers.clone()
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

/// The part of a request that every version has.
#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    version: Option<u32>,
    #[serde(flatten)]
    request: serde_json::Map<String, serde_json::Value>,
}

fn parse(line: &str) -> Result<Request, ApiError> {
    let bad = |error| ApiError::new(ErrorCode::BadRequest, format!("not a request: {error}"));
    let envelope: Envelope = serde_json::from_str(line).map_err(bad)?;
    if let Some(version) = envelope.version.filter(|version| *version > PROTOCOL) {
        let error =
            format!("the request is of version {version}, this lab speaks up to {PROTOCOL}");
        return Err(ApiError::new(ErrorCode::UnsupportedVersion, error));
    }
    Request::deserialize(serde_json::Value::Object(envelope.request)).map_err(bad)
}

fn answer_client(
    stream: &UnixStream,
    lab: &dyn LabWriter,
    followers: &Followers,
) -> io::Result<()> {
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
            return refuse(&mut writer, &ApiError::new(ErrorCode::BadRequest, error));
        }
        match parse(&line) {
            Err(error) => refuse(&mut writer, &error)?,
            Ok(Request::Read(Read::Events { follow: false })) => {
                let mut events = lab.follow();
                while let Next::Event(event) = events.next(Some(Duration::ZERO)) {
                    say(&mut writer, &event)?;
                }
                return Ok(());
            }
            Ok(Request::Read(Read::Events { follow: true })) => {
                let _one = followers.another();
                return tell_events(stream, &mut writer, lab.follow());
            }
            Ok(Request::Read(read)) => {
                // A client that has left needs no answer.
                let wanted = || !left(stream).unwrap_or(true);
                answer_read(&mut writer, lab, read, &wanted)?;
            }
            Ok(Request::Write(Write::Capture(order))) => match lab.capture(&order) {
                Ok((capturing, mut source)) => {
                    say(&mut writer, &capturing)?;
                    return stream::send(stream, &mut writer, source.as_mut());
                }
                Err(error) => refuse(&mut writer, &error)?,
            },
            Ok(Request::Write(Write::Policy(order))) => match lab.policy(&order) {
                Ok((joined, seat)) => {
                    say(&mut writer, &joined)?;
                    return policy::serve(stream, &mut reader, writer, seat.as_ref());
                }
                Err(error) => refuse(&mut writer, &error)?,
            },
            Ok(Request::Write(write)) => answer_write(&mut writer, lab, write)?,
        }
    }
}

fn answer_read(
    out: &mut impl io::Write,
    lab: &dyn LabWriter,
    read: Read,
    wanted: &(dyn Fn() -> bool + Sync),
) -> io::Result<()> {
    match read {
        Read::Version => say(
            out,
            &Version {
                protocol: PROTOCOL,
                constel: env!("CARGO_PKG_VERSION").to_owned(),
            },
        ),
        Read::State => say(out, &lab.state()),
        Read::Show => say(out, &lab.show()),
        Read::Scenario => reply(out, lab.scenario()),
        Read::Link { a, b } => reply(out, lab.link(&a, &b)),
        Read::Loads => reply(out, lab.loads()),
        Read::Routes { node } => reply(out, lab.routes(&node)),
        Read::Networks => reply(out, lab.networks()),
        Read::Rules => reply(out, lab.rules()),
        Read::Path { from, to, at_ns } => reply(out, lab.path(&from, &to, at_ns, wanted)),
        // A stream has its own code, since it ends the connection.
        Read::Events { .. } => Ok(()),
    }
}

fn answer_write(out: &mut impl io::Write, lab: &dyn LabWriter, write: Write) -> io::Result<()> {
    match write {
        Write::SetLink(order) => reply(out, lab.set_link(&order)),
        Write::SetNodes {
            nodes,
            change,
            wait,
        } => reply(out, lab.set_nodes(&nodes, change, wait)),
        Write::Apply(order) => reply(out, lab.apply(&order)),
        Write::SetStation { stations, change } => reply(out, lab.set_station(&stations, &change)),
        Write::SetMember {
            network,
            node,
            joined,
        } => reply(out, lab.set_member(&network, &node, joined)),
        Write::SetDelays { network, delays_ns } => {
            reply(out, lab.set_delays(&network, delays_ns.as_deref()))
        }
        Write::Enter { node } => reply(out, lab.enter(&node)),
        Write::UserFile { node, name, text } => reply(out, lab.user_file(&node, &name, text)),
        Write::Command { node, data } => reply(out, lab.command(&node, data)),
        Write::ChangeRules { change } => reply(out, lab.change_rules(change)),
        Write::Confirm => reply(out, lab.confirm()),
        // These have their own code, since they end the connection.
        Write::Capture(_) | Write::Policy(_) => Ok(()),
        Write::Down => {
            lab.down();
            say(out, &())
        }
    }
}

/// One line an event, until the lab ends or the client has left.
fn tell_events(
    stream: &UnixStream,
    out: &mut impl io::Write,
    mut events: Subscription,
) -> io::Result<()> {
    loop {
        match events.next(Some(FOLLOWER_LOOK)) {
            Next::Event(event) => say(out, &event)?,
            Next::Nothing if left(stream)? => return Ok(()),
            Next::Nothing => {}
            Next::Ended => return Ok(()),
        }
    }
}

/// Whether the client has closed the connection; one that has only ended its own sending has not.
pub(crate) fn left(stream: &UnixStream) -> io::Result<bool> {
    let mut fds = [PollFd::new(stream, PollFlags::empty())];
    poll(&mut fds, Some(&Timespec::default()))?;
    let gone = PollFlags::HUP | PollFlags::ERR;
    Ok(fds[0].revents().intersects(gone))
}

fn reply<T: Serialize>(out: &mut impl io::Write, result: Result<T, ApiError>) -> io::Result<()> {
    match result {
        Ok(data) => say(out, &data),
        Err(error) => refuse(out, &error),
    }
}

pub(crate) fn say<T: Serialize>(out: &mut impl io::Write, data: &T) -> io::Result<()> {
    #[derive(Serialize)]
    struct Good<'a, T> {
        ok: bool,
        data: &'a T,
    }
    line(out, &Good { ok: true, data })
}

pub(crate) fn refuse(out: &mut impl io::Write, error: &ApiError) -> io::Result<()> {
    #[derive(Serialize)]
    struct Bad<'a> {
        ok: bool,
        #[serde(flatten)]
        error: &'a ApiError,
    }
    line(out, &Bad { ok: false, error })
}

fn line(out: &mut impl io::Write, answer: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, answer).map_err(io::Error::other)?;
    out.write_all(b"\n")?;
    out.flush()
}
