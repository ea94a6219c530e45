//! The listening server: one thread accepts connections, and each connection has one thread, up to a limit.

use std::io::{self, Read as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tungstenite::handshake::derive_accept_key;

use crate::answers;
use crate::behind::step_back;
use crate::captures::Captures;
use crate::drafts::Drafts;
use crate::flows::Flows;
use crate::guard::{Guard, Refusal};
use crate::http::{Answer, BadRequest, Head, REQUEST_WITHIN, Request};
use crate::page;
use crate::shell::{self, ShellProgram};
use crate::socket::{self, SEND_WITHIN, Socket};
use crate::source::{Of, Source};
use crate::token::Sessions;

/// Most connections at a time.
pub const CONNECTIONS: usize = 64;

/// A pause after a connection could not be accepted: without free descriptors the next try fails as well.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Maximum time and number of bytes for which the request of a refused client is read.
const HEARD_OUT: (Duration, usize) = (Duration::from_secs(1), 4 << 20);

/// Receives the next address when one was used.
pub type OnUsed = Box<dyn Fn(&str) + Send + Sync>;

/// The options of a server.
#[derive(Default)]
pub struct Options {
    /// The port of the loopback; 0: any that is free.
    pub port: u16,
    /// Whether links and rules may be changed.
    pub write: bool,
    /// Opens shells in nodes, where they are to be.
    pub shell: Option<ShellProgram>,
    /// This program, which runs flows in nodes; `None`: none is started.
    pub program: Option<PathBuf>,
    /// Called when an address was used, because each one works for one browser.
    pub on_used: Option<OnUsed>,
}

pub(crate) struct Shared {
    pub(crate) source: Source,
    pub(crate) write: bool,
    pub(crate) shell: Option<ShellProgram>,
    pub(crate) flows: Flows,
    pub(crate) captures: Captures,
    pub(crate) drafts: Drafts,
    guard: Guard,
    sessions: Sessions,
    on_used: Option<OnUsed>,
    port: u16,
    connections: AtomicUsize,
    stop: Arc<AtomicBool>,
}

/// A listening server; stops when dropped.
pub struct Server {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on the loopback.
    ///
    /// # Errors
    /// When the port is taken, or there can be no thread.
    pub fn start(mut source: Source, options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port))?;
        let port = listener.local_addr()?.port();
        let stop = Arc::new(AtomicBool::new(false));
        source.begin(&stop)?;
        let shared = Arc::new(Shared {
            source,
            write: options.write,
            shell: options.shell,
            flows: Flows::new(options.program),
            captures: Captures::default(),
            drafts: Drafts::default(),
            guard: Guard::new(port),
            sessions: Sessions::new()?,
            on_used: options.on_used,
            port,
            connections: AtomicUsize::new(0),
            stop,
        });
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("web".to_owned())
            .spawn(move || accept(&listener, &own))?;
        if matches!(shared.source.of, Of::Plan(_)) {
            // Every browser requests this step first, so it is computed while the browser starts.
            let own = Arc::clone(&shared);
            std::thread::Builder::new()
                .name("web-first".to_owned())
                .spawn(move || own.source.skies.as_ref().map(|skies| skies.at(0).is_ok()))?;
        }
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Returns the address, which works for one browser.
    #[must_use]
    pub fn url(&self) -> String {
        self.shared.url()
    }

    /// Returns the listening address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.shared.port).into()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        // accept() has no time limit: a connection of our own wakes it.
        let woken = TcpStream::connect(self.address()).is_ok();
        if let (Some(thread), true) = (self.thread.take(), woken) {
            drop(thread.join());
        }
    }
}

/// One of a limited number of connections.
struct ConnectionSlot(Arc<Shared>);

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::AcqRel);
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.stop.load(Ordering::Acquire) {
            return;
        }
        let Ok(mut stream) = stream else {
            std::thread::sleep(ACCEPT_PAUSE);
            continue;
        };
        let before = shared.connections.fetch_add(1, Ordering::AcqRel);
        let place = ConnectionSlot(Arc::clone(shared));
        if before >= CONNECTIONS {
            drop(stream.set_write_timeout(Some(Duration::from_millis(100))));
            drop(Answer::refused(503, "too many connections").send(&mut stream));
            continue;
        }
        let serve = move || {
            // A client that goes away mid-answer is its own business.
            drop(place.0.serve(stream));
        };
        drop(
            std::thread::Builder::new()
                .name("web-client".to_owned())
                .spawn(serve),
        );
    }
}

impl Shared {
    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/#{}", self.port, self.sessions.token())
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        let end = Instant::now() + REQUEST_WITHIN;
        stream.set_read_timeout(Some(REQUEST_WITHIN))?;
        stream.set_write_timeout(Some(SEND_WITHIN))?;
        let request = match Request::read(&mut stream, end) {
            Ok(request) => request,
            Err(BadRequest::Gone) => return Ok(()),
            Err(BadRequest::Answer(status, words)) => {
                return refuse(&mut stream, &Answer::refused(status, words));
            }
        };
        let head = request.head.clone();
        if head.path == "/api/socket" || head.path == "/api/shell" {
            return match self.upgrade(&head, request.is_followed()) {
                Ok(key) => self.converse(stream, &head, &key),
                Err(answer) => answer.send(&mut stream),
            };
        }
        let answer = self.answer(request, &mut stream, end);
        let answer = answer.unwrap_or_default();
        if answer.status >= 400 {
            return refuse(&mut stream, &answer);
        }
        answer.send(&mut stream)
    }

    /// `None`: the client has left.
    fn answer(&self, request: Request, stream: &mut TcpStream, end: Instant) -> Option<Answer> {
        let head = request.head.clone();
        if let Err(refusal) = self.guard.name(&head) {
            return Some(refused(refusal));
        }
        let get = head.method == "GET";
        if let Some(file) = page::file(&head).filter(|_| get) {
            return Some(file);
        }
        let posts = matches!(
            head.path.as_str(),
            "/api/session" | "/api/do" | "/api/draft"
        );
        if !head.path.starts_with("/api/") {
            return Some(Answer::refused(404, "there is nothing here"));
        }
        if get == posts || !(get || head.method == "POST") {
            return Some(Answer::refused(405, "not in this way"));
        }
        if posts && let Err(refusal) = self.guard.change(&head) {
            return Some(refused(refusal));
        }
        if head.path == "/api/session" {
            let body = self.body(request, stream, end);
            return match body {
                Ok(body) => Some(self.session(&head, &body)),
                Err(answer) => answer,
            };
        }
        if !self.known(&head) {
            return Some(refused(Refusal::Session));
        }
        if get {
            step_back();
            return Some(answers::get(self, &head));
        }
        match self.body(request, stream, end) {
            Ok(text) if head.path == "/api/draft" => {
                step_back();
                Some(answers::draft(self, &text))
            }
            Ok(body) => Some(answers::change(self, &body)),
            Err(answer) => answer,
        }
    }

    fn body(
        &self,
        request: Request,
        stream: &mut TcpStream,
        end: Instant,
    ) -> Result<Vec<u8>, Option<Answer>> {
        request.body(stream, end).map_err(|bad| match bad {
            BadRequest::Gone => None,
            BadRequest::Answer(status, words) => Some(Answer::refused(status, words)),
        })
    }

    fn known(&self, head: &Head) -> bool {
        let session = self.guard.session(head);
        session.is_some_and(|session| self.sessions.has(session))
    }

    /// A session for the token; or, without one, whether there is a session already.
    fn session(&self, head: &Head, body: &[u8]) -> Answer {
        let token = std::str::from_utf8(body).unwrap_or_default().trim();
        if token.is_empty() && self.known(head) {
            return Answer::json(&true);
        }
        match self.sessions.exchange(token) {
            Ok(Some(session)) => {
                if let Some(tell) = &self.on_used {
                    tell(&self.url());
                }
                let cookie = format!(
                    "{}={session}; Path=/; HttpOnly; SameSite=Strict",
                    self.guard.cookie()
                );
                Answer {
                    cookie: Some(cookie),
                    ..Answer::json(&true)
                }
            }
            Ok(None) if self.known(head) => Answer::json(&true),
            Ok(None) => refused(Refusal::Session),
            Err(error) => Answer::refused(500, &error.to_string()),
        }
    }

    /// The client's key, where it may have a socket.
    fn upgrade(&self, head: &Head, followed: bool) -> Result<String, Answer> {
        self.guard.origin(head).map_err(refused)?;
        if !self.known(head) {
            return Err(refused(Refusal::Session));
        }
        let says = |name: &str, word: &str| {
            let said = head.only(name).unwrap_or_default();
            said.split(',')
                .any(|one| one.trim().eq_ignore_ascii_case(word))
        };
        let upgrades =
            head.method == "GET" && says("upgrade", "websocket") && says("connection", "upgrade");
        let key = head.only("sec-websocket-key").filter(|key| key.len() == 24);
        match key {
            Some(key) if upgrades && says("sec-websocket-version", "13") && !followed => {
                Ok(key.to_owned())
            }
            _ => Err(Answer::refused(400, "this is for sockets of version 13")),
        }
    }

    fn converse(&self, mut stream: TcpStream, head: &Head, key: &str) -> io::Result<()> {
        use std::io::Write as _;
        let shell = match (head.path.as_str(), &self.shell, head.asked("node")) {
            ("/api/socket", ..) => None,
            (_, Some(shell), Some(node)) if self.source.has_node(&node) => Some((shell, node)),
            (_, None, _) => {
                let words = "shells are not open: `constel web --shell` opens them";
                return Answer::refused(403, words).send(&mut stream);
            }
            _ => return Answer::refused(404, "no such node").send(&mut stream),
        };
        let accept = derive_accept_key(key.as_bytes());
        write!(
            stream,
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
        )?;
        let socket = Socket::new(stream)?;
        let stopped = || self.stopped();
        match shell {
            Some((shell, node)) => shell::serve(socket, shell, &node, &stopped),
            None => socket::serve(socket, &self.source, &stopped),
        }
        Ok(())
    }
}

/// Refuses a request that may not have been read to its end. Closing a connection with unread bytes resets it and loses the
/// answer, so the rest is read for a while.
fn refuse(stream: &mut TcpStream, answer: &Answer) -> io::Result<()> {
    answer.send(stream)?;
    stream.shutdown(Shutdown::Write)?;
    let (within, mut left) = HEARD_OUT;
    let end = Instant::now() + within;
    stream.set_read_timeout(Some(within))?;
    let mut piece = [0; 8192];
    while left > 0 && Instant::now() < end {
        match stream.read(&mut piece)? {
            0 => break,
            got => left = left.saturating_sub(got),
        }
    }
    Ok(())
}

fn refused(refusal: Refusal) -> Answer {
    Answer::refused(refusal.status(), refusal.words())
}
