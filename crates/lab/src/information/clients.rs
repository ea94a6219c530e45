//! The nodes' sockets, over which programs follow events and send requests. The thread never waits for a client:
//! one that does not read its answers is disconnected.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;

use constel_plan::information::{Event, NodeInformation, Refusal, Request, names};
use constel_topology::NodeId;
use rustix::event::epoll;
use serde::Serialize;

use super::folder::node_folder;
use super::keeper::Keeper;

/// The longest request, bytes.
const QUESTION_BYTES: usize = 4 << 10;
/// The largest amount of unread data before a client is disconnected, bytes.
const WAITING_BYTES: usize = 512 << 10;
/// The amount of unread data from which a client's requests are not answered until it has read, bytes.
const PAUSE_BYTES: usize = 64 << 10;
/// The number of requests of one client that are answered per turn. Then the other clients have their turn, so that
/// a program with endless requests does not delay other nodes.
const ANSWERS_A_TURN: usize = 16;

/// The largest number of clients of a node.
const CLIENTS_OF_A_NODE: usize = 32;

/// The first number of a client. The number 0 is the eventfd; the numbers between are listening sockets, counted
/// from 1.
const FIRST_CLIENT: u64 = 1 << 32;

/// The sockets of all nodes, and their clients.
pub(super) struct Clients {
    poll: OwnedFd,
    bell: Arc<OwnedFd>,
    listeners: Vec<(NodeId, UnixListener)>,
    clients: BTreeMap<u64, Client>,
    next: u64,
}

/// A connected program.
struct Client {
    node: NodeId,
    stream: UnixStream,
    /// The beginning of a request that it has sent so far.
    question: Vec<u8>,
    /// The data that it has not read yet.
    waiting: Vec<u8>,
    follows: bool,
    /// Whether it has ended its sending direction.
    over: bool,
    /// The events for which epoll watches it.
    watched: epoll::EventFlags,
}

impl Clients {
    /// Listens in the folders of all nodes that receive information.
    pub(super) fn new(
        telling: &NodeInformation,
        root: &Path,
        bell: &Arc<OwnedFd>,
    ) -> io::Result<Self> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(0);
        epoll::add(&poll, bell.as_fd(), data, epoll::EventFlags::IN)?;
        let mut listeners = Vec::new();
        for (n, node) in (1..).zip(telling.asking()) {
            let path = node_folder(root, node).join(names::SOCKET);
            let listener = UnixListener::bind(&path)?;
            listener.set_nonblocking(true)?;
            // Any user of the node may connect; other nodes cannot see its folder.
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666))?;
            let data = epoll::EventData::new_u64(n);
            epoll::add(&poll, &listener, data, epoll::EventFlags::IN)?;
            listeners.push((node, listener));
        }
        Ok(Self {
            poll,
            bell: Arc::clone(bell),
            listeners,
            clients: BTreeMap::new(),
            next: FIRST_CLIENT,
        })
    }

    /// Waits until there is something to do; `None` when epoll fails.
    pub(super) fn wait(&self) -> Option<Vec<u64>> {
        let mut events = Vec::with_capacity(64);
        loop {
            match epoll::wait(
                &self.poll,
                rustix::buffer::spare_capacity(&mut events),
                None,
            ) {
                Ok(_) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return None,
            }
        }
        // The eventfd is cleared before its messages are read: a later message sets it again.
        let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
        Some(events.iter().map(|event| event.data.u64()).collect())
    }

    /// Handles the events of [`Clients::wait`].
    pub(super) fn serve(&mut self, ready: Vec<u64>, keeper: &Keeper) {
        for number in ready {
            match number {
                0 => {}
                listener if listener < FIRST_CLIENT => self.accept(listener),
                client => self.answer(client, keeper),
            }
        }
    }

    /// Sends an event of a node to its followers.
    pub(super) fn tell(&mut self, node: NodeId, event: &Event) {
        let of_node = self.clients.iter_mut();
        let followers = of_node.filter(|(_, client)| client.node == node && client.follows);
        let mut gone = Vec::new();
        for (&number, client) in followers {
            client.say(event);
            if client.send(&self.poll, number).is_err() {
                gone.push(number);
            }
        }
        gone.iter()
            .for_each(|number| drop(self.clients.remove(number)));
    }

    fn accept(&mut self, listener: u64) {
        let Some((node, listener)) = self.listeners.get(listener as usize - 1) else {
            return;
        };
        while let Ok((stream, _)) = listener.accept() {
            let of_node = self.clients.values().filter(|c| c.node == *node).count();
            if of_node >= CLIENTS_OF_A_NODE || stream.set_nonblocking(true).is_err() {
                continue;
            }
            let data = epoll::EventData::new_u64(self.next);
            if epoll::add(&self.poll, &stream, data, epoll::EventFlags::IN).is_err() {
                continue;
            }
            let client = Client {
                node: *node,
                stream,
                question: Vec::new(),
                waiting: Vec::new(),
                follows: false,
                over: false,
                watched: epoll::EventFlags::IN,
            };
            self.clients.insert(self.next, client);
            self.next += 1;
        }
    }

    fn answer(&mut self, number: u64, keeper: &Keeper) {
        let Some(client) = self.clients.get_mut(&number) else {
            return;
        };
        // Earlier answers go first; once they are sent, the client may have further requests answered.
        let sent = client.send(&self.poll, number).is_ok();
        let stays = sent && client.take_turn(keeper) && client.send(&self.poll, number).is_ok();
        if !stays {
            self.clients.remove(&number);
        }
    }
}

impl Client {
    /// Reads and answers some of its requests. Returns false when the client has gone.
    ///
    /// All limits hold for each request: the requests of a program that sends without reading wait in its own
    /// socket.
    fn take_turn(&mut self, keeper: &Keeper) -> bool {
        if !self.over && !self.is_paused() && !self.has_question() {
            let mut buffer = [0; QUESTION_BYTES];
            match self.stream.read(&mut buffer) {
                // It may have closed only its sending direction, and may still receive.
                Ok(0) => self.over = true,
                Ok(n) => self.question.extend(&buffer[..n]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        self.answer_questions(keeper);
        !(self.over && self.hung_up())
    }

    /// Returns whether it must read before more of its requests are answered.
    fn is_paused(&self) -> bool {
        self.waiting.len() > PAUSE_BYTES
    }

    /// Returns whether there is a complete request without an answer.
    fn has_question(&self) -> bool {
        self.question.contains(&b'\n')
    }

    fn answer_questions(&mut self, keeper: &Keeper) {
        let mut answered = 0;
        for _ in 0..ANSWERS_A_TURN {
            let rest = &self.question[answered..];
            let Some(length) = rest.iter().position(|b| *b == b'\n') else {
                break;
            };
            if self.is_paused() {
                break;
            }
            let line = rest[..length].to_vec();
            answered += length + 1;
            self.ask(&line, keeper);
        }
        self.question.drain(..answered);
        // A request without a line end must not grow without limit.
        if self.question.len() > QUESTION_BYTES && !self.has_question() {
            self.refuse(&format!("a question has at most {QUESTION_BYTES} bytes"));
            self.question.clear();
        }
    }

    fn hung_up(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut fds = [PollFd::new(&self.stream, PollFlags::empty())];
        let asked = poll(&mut fds, Some(&Timespec::default()));
        let gone = PollFlags::HUP | PollFlags::ERR;
        asked.is_err() || fds[0].revents().intersects(gone)
    }

    fn ask(&mut self, line: &[u8], keeper: &Keeper) {
        match serde_json::from_slice::<Request>(line) {
            Ok(Request::Follow { after }) => {
                self.follows = true;
                let events = after.map(|seq| keeper.files.events_after(self.node, seq));
                let events = events.unwrap_or_default();
                events.iter().for_each(|event| self.say(event));
            }
            Ok(Request::Links) => self.say(&keeper.links(self.node)),
            Err(error) => self.refuse(&format!("not a question: {error}")),
        }
    }

    fn say(&mut self, data: &impl Serialize) {
        #[derive(Serialize)]
        struct Good<'a, T> {
            ok: bool,
            data: &'a T,
        }
        self.line(&Good { ok: true, data });
    }

    fn refuse(&mut self, error: &str) {
        #[derive(Serialize)]
        struct Bad {
            ok: bool,
            #[serde(flatten)]
            refusal: Refusal,
        }
        let error = error.to_owned();
        self.line(&Bad {
            ok: false,
            refusal: Refusal { error },
        });
    }

    fn line(&mut self, answer: &impl Serialize) {
        // Serialising these types to memory does not fail.
        self.waiting
            .extend(serde_json::to_vec(answer).unwrap_or_default());
        self.waiting.push(b'\n');
    }

    /// Sends the waiting data as far as the client accepts it.
    ///
    /// # Errors
    /// When it has gone, or leaves too much unread.
    fn send(&mut self, poll: &OwnedFd, number: u64) -> io::Result<()> {
        while !self.waiting.is_empty() {
            match self.stream.write(&self.waiting) {
                Ok(n) => drop(self.waiting.drain(..n)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        if self.waiting.len() > WAITING_BYTES {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let asks = self.has_question();
        if self.over && !self.follows && self.waiting.is_empty() && !asks {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut watched = epoll::EventFlags::empty();
        // A client with a request for its next turn must wake the thread again: either its socket is writable, or
        // it has to read first.
        watched.set(epoll::EventFlags::OUT, asks || !self.waiting.is_empty());
        // Level-triggered epoll would report the end of its data, and requests that must wait, in a busy loop.
        watched.set(
            epoll::EventFlags::IN,
            !self.over && !asks && !self.is_paused(),
        );
        if watched != self.watched {
            self.watched = watched;
            epoll::modify(
                poll,
                &self.stream,
                epoll::EventData::new_u64(number),
                watched,
            )?;
        }
        Ok(())
    }
}
