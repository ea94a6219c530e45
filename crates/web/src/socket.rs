//! A browser's socket: steps on request, and news of a lab as they occur.
//!
//! A client that does not read gets no more data: a step is a reply to a request, and news are kept once for all clients. A
//! connection ends if the client does not accept data within 5 s.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tungstenite::protocol::{Role, WebSocketConfig};
use tungstenite::{Bytes, Error, Message, Utf8Bytes, WebSocket};

use crate::behind::step_back;
use crate::bells::still;
use crate::live::Feed;
use crate::source::{Of, Source};
use crate::tell::Teller;
use crate::views::SocketMessage;

/// Longest message of a client, bytes.
pub const MESSAGE_BYTES: usize = 64 << 10;

/// Longest control frame of a server, bytes.
const CONTROL_BYTES: usize = 127;

/// Maximum time in which a client must accept sent data.
pub(crate) const SEND_WITHIN: Duration = Duration::from_secs(5);

/// How often it is looked whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Time without a message after which a client is pinged.
const ASK_AFTER: Duration = Duration::from_secs(30);

/// Most events of one message.
const EVENTS: usize = 500;

/// A socket after the handshake.
pub(crate) struct Socket<S = TcpStream> {
    inner: WebSocket<S>,
}

/// A message from a client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Incoming {
    Text(String),
    Bytes(Vec<u8>),
}

impl Socket {
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_read_timeout(Some(Duration::from_millis(1)))?;
        stream.set_write_timeout(Some(SEND_WITHIN))?;
        stream.set_nodelay(true)?;
        Ok(Self::over(stream))
    }

    /// Waits until the client sends a message, or `other` is readable.
    pub(crate) fn wait(&self, other: Option<&dyn AsFd>, most: Duration) -> io::Result<[bool; 2]> {
        let own = self.inner.get_ref();
        let mut fds = vec![PollFd::new(own, PollFlags::IN)];
        if let Some(other) = other {
            fds.push(PollFd::from_borrowed_fd(other.as_fd(), PollFlags::IN));
        }
        let most = Timespec::try_from(most).map_err(io::Error::other)?;
        match poll(&mut fds, Some(&most)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
        Ok([ready(0), ready(1)])
    }
}

impl<S: Read + Write> Socket<S> {
    fn over(stream: S) -> Self {
        let bounds = WebSocketConfig::default()
            .max_message_size(Some(MESSAGE_BYTES))
            .max_frame_size(Some(MESSAGE_BYTES))
            .read_buffer_size(16 << 10);
        Self {
            inner: WebSocket::from_raw_socket(stream, Role::Server, Some(bounds)),
        }
    }

    /// Returns the next message of the client, if there is one.
    ///
    /// # Errors
    /// If the client has left, or sends an invalid message.
    pub(crate) fn read(&mut self) -> Result<Option<Incoming>, Error> {
        loop {
            match self.inner.read() {
                Ok(Message::Text(text)) => {
                    return Ok(Some(Incoming::Text(text.as_str().to_owned())));
                }
                Ok(Message::Binary(bytes)) => return Ok(Some(Incoming::Bytes(bytes.to_vec()))),
                Ok(Message::Close(_)) => return Err(Error::ConnectionClosed),
                // The answer to a ping waits to be sent.
                Ok(_) => self.inner.flush()?,
                Err(Error::Io(error)) if is_nothing(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn text(&mut self, document: &impl Serialize) -> Result<(), Error> {
        let text = serde_json::to_string(document).map_err(io::Error::other)?;
        self.made(text.into())
    }

    /// A document that has been written already.
    fn made(&mut self, text: Utf8Bytes) -> Result<(), Error> {
        self.inner.send(Message::Text(text))
    }

    pub(crate) fn bytes(&mut self, bytes: impl Into<Bytes>) -> Result<(), Error> {
        self.inner.send(Message::binary(bytes))
    }

    fn ask(&mut self) -> Result<(), Error> {
        self.inner.send(Message::Ping(Vec::new().into()))
    }

    /// Sends the reason for the end, and closes the connection.
    pub(crate) fn close(mut self) {
        drop(self.inner.close(None));
        drop(self.inner.flush());
    }
}

/// Reads frames and messages of a client after the handshake, as the server does. Returns whether a message was accepted by the page's
/// socket or by a shell's. For tests with bytes that no browser sends.
///
/// # Panics
/// When a message is longer than [`MESSAGE_BYTES`], when the answers (pongs, a close) are longer than what was received and one control
/// frame, or when bytes that arrive in pieces are read as other messages than the same bytes at once.
#[must_use]
pub fn reads(bytes: &[u8]) -> bool {
    let whole = messages(bytes, usize::MAX);
    assert_eq!(whole, messages(bytes, 7), "in pieces");
    whole.iter().any(|said| match said {
        Incoming::Text(text) => {
            serde_json::from_str::<SocketRequest>(text).is_ok() || crate::shell::understands(text)
        }
        Incoming::Bytes(_) => true,
    })
}

/// Returns all messages until the connection ends; `piece` bytes arrive at a time.
fn messages(bytes: &[u8], piece: usize) -> Vec<Incoming> {
    let stream = Pieces {
        left: bytes,
        piece,
        is_due: false,
        written: 0,
    };
    let (mut socket, mut all) = (Socket::over(stream), Vec::new());
    loop {
        match socket.read() {
            Ok(Some(said)) => {
                let length = match &said {
                    Incoming::Text(text) => text.len(),
                    Incoming::Bytes(bytes) => bytes.len(),
                };
                assert!(length <= MESSAGE_BYTES);
                all.push(said);
            }
            Ok(None) => {}
            Err(_) => break,
        }
    }
    // A pong has the payload of its ping, without a mask. A close may have a reason of its own.
    assert!(socket.inner.get_ref().written <= bytes.len() + CONTROL_BYTES);
    all
}

/// A connection on which bytes arrive in pieces, with nothing to be read in between.
struct Pieces<'a> {
    left: &'a [u8],
    piece: usize,
    is_due: bool,
    /// Bytes that were sent on it.
    written: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.is_due = !self.is_due;
        if self.is_due && !self.left.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let most = self.piece.min(into.len());
        self.left.read(&mut into[..most])
    }
}

impl Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Messages from a page on its socket.
#[derive(Deserialize, JsonSchema)]
#[serde(tag = "op", rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "SocketRequest")]
pub(crate) enum SocketRequest {
    /// Requests a step, with positions `ahead` steps later.
    Step {
        /// Number of the step: lab time divided by the duration of a step.
        step: u64,
        /// How many steps later the other positions are.
        #[serde(default = "one")]
        ahead: u64,
    },
    /// Resets the state: the next step is sent completely.
    Reset,
    /// Starts or stops the load of a running lab's links, which is sent every two seconds.
    Loads {
        /// Whether it is wanted from now on.
        wanted: bool,
    },
}

/// Returns whether no data is ready to be read yet.
fn is_nothing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

fn one() -> u64 {
    1
}

/// A client that wants data of a lab, counted as long as this value lives.
struct Wanting<'a>(&'a AtomicUsize);

impl<'a> Wanting<'a> {
    fn new(those: &'a AtomicUsize) -> Self {
        those.fetch_add(1, Ordering::AcqRel);
        Self(those)
    }
}

impl Drop for Wanting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The state of one browser.
struct Client<'a> {
    teller: Teller,
    feed: Option<&'a Feed>,
    /// Set if the browser wants the load of links, with the number of the latest sample that it has.
    weighs: Option<(Wanting<'a>, u64)>,
}

/// Serves a page until it leaves or `stopped` is true.
pub(crate) fn serve(mut socket: Socket, source: &Source, stopped: &dyn Fn() -> bool) {
    step_back();
    let end = converse(&mut socket, source, stopped);
    if let Err(Error::Capacity(_) | Error::Protocol(_) | Error::Utf8(_)) = end {
        drop(socket.text(&refused("a message must be JSON text of at most 64 KiB")));
    }
    socket.close();
}

fn refused(words: &str) -> SocketMessage {
    SocketMessage::Refused {
        error: words.to_owned(),
    }
}

fn converse(socket: &mut Socket, source: &Source, stopped: &dyn Fn() -> bool) -> Result<(), Error> {
    let feed = match &source.of {
        Of::Lab { feed, .. } => feed.as_deref(),
        _ => None,
    };
    let _watching = feed.map(|feed| Wanting::new(&feed.watchers));
    let mut client = Client {
        teller: Teller::default(),
        feed,
        weighs: None,
    };
    let bell = feed.map(|feed| feed.bells.bell()).transpose()?;
    let (mut looks, mut events, mut told_end) = (0, 0, false);
    let (mut heard, mut asked) = (Instant::now(), false);
    while !stopped() {
        let bell = bell.as_deref();
        let [said, rung] = socket.wait(bell.map(|bell| bell as &dyn AsFd), LOOK_EVERY)?;
        if let Some(bell) = bell.filter(|_| rung) {
            still(bell);
        }
        if said {
            (heard, asked) = (Instant::now(), false);
        }
        while said && let Some(said) = socket.read()? {
            answer(socket, source, &mut client, &said)?;
        }
        if heard.elapsed() > 2 * ASK_AFTER {
            return Ok(());
        }
        if heard.elapsed() > ASK_AFTER && !asked {
            asked = true;
            socket.ask()?;
        }
        if let Some(feed) = feed.filter(|_| !told_end) {
            let ended = feed.ended();
            while events < feed.count() {
                let mut timeline = feed.timeline(events);
                timeline.events.truncate(EVENTS);
                events += timeline.events.len().max(1);
                socket.text(&SocketMessage::Events {
                    events: timeline.events,
                })?;
            }
            if let Some((latest, now)) = feed.news(looks) {
                looks = latest;
                socket.made(now)?;
            }
            if let Some((_, seen)) = &mut client.weighs
                && let Some((latest, loads)) = feed.loads(*seen)
            {
                *seen = latest;
                socket.made(loads)?;
            }
            told_end = ended;
        }
    }
    Ok(())
}

fn answer(
    socket: &mut Socket,
    source: &Source,
    client: &mut Client<'_>,
    said: &Incoming,
) -> Result<(), Error> {
    let ask = match said {
        Incoming::Text(text) => serde_json::from_str(text).map_err(|error| error.to_string()),
        Incoming::Bytes(_) => Err("a message is JSON text".to_owned()),
    };
    match (ask, &source.skies) {
        (Err(words), _) => socket.text(&refused(&words)),
        (Ok(SocketRequest::Reset), _) => {
            client.teller = Teller::default();
            Ok(())
        }
        (Ok(_), None) => socket.text(&refused("a box has no sky")),
        (Ok(SocketRequest::Loads { wanted }), Some(_)) => {
            let Some(feed) = client.feed else {
                return socket.text(&refused("only links of a running lab carry something"));
            };
            // Earlier samples belong to another time.
            client.weighs = wanted.then(|| (Wanting::new(&feed.weighers), feed.weighed()));
            Ok(())
        }
        (Ok(SocketRequest::Step { step, ahead }), Some(skies)) => {
            match skies.tell(&mut client.teller, step, ahead) {
                Ok(bytes) => socket.bytes(bytes),
                Err(words) => socket.text(&refused(&words)),
            }
        }
    }
}
