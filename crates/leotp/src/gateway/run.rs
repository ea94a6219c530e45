//! A running gateway: one thread keeps the connections and serves the flows.

use super::CONTROL_PORT;
use super::connection::{Connection, Tell, ThreadReport, flow_to_tcp, spawn, tcp_to_flow};
use super::control::{Control, Event, MAX_LEN, Message};
use super::options::{GatewayOptions, GatewayStats, Peer};
use crate::Nanos;
use crate::core::Quota;
use crate::rt::{
    DEFAULT_PORT, FetchOptions, Intercept, Intercepted, Publisher, RunError, accept, connect_from,
    end_with_reset, random_bytes, reset,
};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long a server may take to answer a connection.
const DIAL_WITHIN: Duration = Duration::from_secs(20);
/// The interval of checks whether a peer with connections still answers.
const ALIVE_EVERY: Duration = Duration::from_secs(5);
/// As many times more connections as one address may have, an IPv6 /64 may have.
const PER_PREFIX: u32 = 4;
/// Reports of threads that are handled before the peers' messages: with a thousand clients at once the peers
/// must not wait for the last.
const TOLD_PER_TURN: usize = 16;
/// How often helper threads check whether they must stop.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Debug)]
enum Other {
    Taken(Intercepted),
    Heard(IpAddr, Vec<u8>),
    Dialed(u64, std::io::Result<TcpStream>),
}

/// A gateway. The redirection ends when it is dropped.
pub struct Gateway {
    options: GatewayOptions,
    publisher: Publisher,
    controls: Vec<Control>,
    asked: Vec<Instant>,
    sockets: Vec<UdpSocket>,
    connections: HashMap<u64, Connection>,
    clients: Quota,
    told: Receiver<ThreadReport<Other>>,
    /// Whether there may be more reports of threads than were handled.
    behind: bool,
    tell: Tell<Other>,
    started: Instant,
    over: Arc<AtomicBool>,
    stats: GatewayStats,
    to_flows: Arc<AtomicU64>,
    to_tcp: Arc<AtomicU64>,
    _intercept: Intercept,
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway")
            .field("connections", &self.connections.len())
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

/// Returns an unpredictable number.
fn random() -> Result<u64, RunError> {
    random_bytes().map(u64::from_ne_bytes)
}

impl Gateway {
    /// Binds its ports and intercepts connections from now on. Needs CAP_NET_ADMIN.
    ///
    /// # Errors
    /// No key although none has been allowed, an interface that does not exist, ports
    /// that are taken, parameters that cannot work, missing rights.
    pub fn start(mut options: GatewayOptions) -> Result<Self, RunError> {
        let key = options.checked_key()?;
        let any: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        let locals: Vec<IpAddr> = options.local.map_or(any.to_vec(), |local| vec![local]);
        // Interests wait at a server that sends nothing: they are repeated often enough to be valid
        // when it sends again. And the bytes that wait for TCP must not exceed the configured buffer.
        let p = &mut options.params;
        p.rto_max_ns = p.rto_max_ns.min(2_000_000_000);
        p.recv_buffer_bytes = options.buffer_bytes.max(p.min_window_bytes);
        let flows: Vec<SocketAddr> = locals.iter().map(|ip| (*ip, DEFAULT_PORT).into()).collect();
        let publisher = Publisher::bind(&flows, options.params.clone())?;
        let (to, told) = channel();
        let tell = Tell {
            to,
            waker: publisher.waker(),
        };
        let over = Arc::new(AtomicBool::new(false));
        let mut sockets = Vec::new();
        for ip in locals {
            let at = SocketAddr::new(ip, CONTROL_PORT);
            let bind = || -> std::io::Result<UdpSocket> {
                let socket = crate::rt::udp_of_one_family(at)?;
                socket.set_read_timeout(Some(LOOK))?;
                listen(socket.try_clone()?, tell.clone(), Arc::clone(&over))?;
                Ok(socket)
            };
            sockets.push(bind().map_err(RunError::io(format!("bind {at}")))?);
        }
        let mut controls = Vec::new();
        for peer in &options.peers {
            let lost_ns = u64::try_from(options.lost_after.as_nanos()).unwrap_or(u64::MAX);
            let control = Control::new(key, random_bytes()?, peer.address);
            controls.push(control.lost_after(lost_ns));
        }
        options.intercept.destinations = options.destinations();
        let intercept = Intercept::start(&options.intercept)?;
        for listener in intercept.listeners()? {
            let (tell, over) = (tell.clone(), Arc::clone(&over));
            spawn("accept", move || {
                while !over.load(Ordering::Acquire) {
                    match accept(&listener, LOOK) {
                        Ok(Some(taken)) => tell.tell(ThreadReport::Other(Other::Taken(taken))),
                        Ok(None) => {}
                        // The client has gone already, or descriptors are short: the next one may
                        // succeed.
                        Err(_) => std::thread::sleep(Duration::from_millis(10)),
                    }
                }
            })
            .map_err(RunError::io("start a thread"))?;
        }
        Ok(Self {
            asked: vec![Instant::now(); options.peers.len()],
            clients: Quota::new(
                options.max_per_client,
                options.max_per_client.saturating_mul(PER_PREFIX),
            ),
            options,
            publisher,
            controls,
            sockets,
            connections: HashMap::new(),
            told,
            behind: false,
            tell,
            started: Instant::now(),
            over,
            stats: GatewayStats::default(),
            to_flows: Arc::default(),
            to_tcp: Arc::default(),
            _intercept: intercept,
        })
    }

    fn now(&self) -> Nanos {
        self.started.elapsed().as_nanos() as u64
    }

    /// Works for at most `wait`.
    ///
    /// # Errors
    /// When the kernel refuses something that concerns all connections.
    pub fn poll(&mut self, wait: Duration) -> Result<(), RunError> {
        let now = self.now();
        let due = self.controls.iter().filter_map(Control::poll_timeout).min();
        let due = if self.behind { Some(now) } else { due };
        let wait = due.map_or(wait, |t| {
            wait.min(Duration::from_nanos(t.saturating_sub(now)))
        });
        self.publisher.poll(wait)?;
        self.behind = true;
        for _ in 0..TOLD_PER_TURN {
            let Ok(told) = self.told.try_recv() else {
                self.behind = false;
                break;
            };
            match told {
                ThreadReport::Other(Other::Taken(taken)) => self.taken(taken)?,
                ThreadReport::Other(Other::Heard(from, bytes)) => self.heard(from, &bytes)?,
                ThreadReport::Other(Other::Dialed(id, stream)) => self.dialed(id, stream),
                ThreadReport::Arrived(id) => self.arrived(id),
                ThreadReport::Broken(id) => self.broken(id),
            }
        }
        self.ask_peers();
        self.send();
        Ok(())
    }

    /// Returns the counters of connections.
    pub fn stats(&self) -> GatewayStats {
        GatewayStats {
            to_flows_bytes: self.to_flows.load(Ordering::Relaxed),
            to_tcp_bytes: self.to_tcp.load(Ordering::Relaxed),
            ..self.stats
        }
    }

    /// Connections now.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// A connection of a client.
    fn taken(&mut self, taken: Intercepted) -> Result<(), RunError> {
        let fits = |peer: &Peer| peer.fits(taken.dst.ip());
        let peers = self.options.peers.iter().enumerate();
        let peer = peers.filter_map(|(i, p)| Some((fits(p)?, i))).max();
        let client = taken.src.ip();
        let (Some((_, peer)), true, true) = (
            peer,
            self.clients.admits(client),
            self.connections.len() < self.options.max_connections,
        ) else {
            self.stats.refused += 1;
            reset(&taken.stream);
            return Ok(());
        };
        let (id, up, down) = (random()?, random()?, random()?);
        let writer = self.publisher.publish_live(up, self.options.buffer_bytes);
        let connection = Connection::new(peer, client, (up, down), writer);
        self.keep(id, connection);
        self.stats.taken += 1;
        let open = Message::Open {
            connection: id,
            up,
            down,
            src: taken.src,
            dst: taken.dst,
        };
        self.say(peer, open);
        self.begin(id, taken.stream);
        Ok(())
    }

    fn keep(&mut self, id: u64, connection: Connection) {
        self.clients.add(connection.client);
        self.connections.insert(id, connection);
    }

    fn say(&mut self, peer: usize, message: Message) {
        let now = self.now();
        // A peer that does not confirm at all will be found lost.
        let _ = self.controls[peer].say(now, message);
    }

    /// Both directions run from now on.
    fn begin(&mut self, id: u64, stream: TcpStream) {
        let Some(c) = self.connections.get_mut(&id) else {
            reset(&stream);
            return;
        };
        let Some(writer) = c.writer.take() else {
            return;
        };
        let remote = SocketAddr::new(self.options.peers[c.peer].address, DEFAULT_PORT);
        let fetch = FetchOptions {
            params: self.options.params.clone(),
            local: self.options.local.map(|ip| SocketAddr::new(ip, 0)),
            patience: None,
            rtt: self.controls[c.peer].rtt_ns().map(Duration::from_nanos),
            ..FetchOptions::new(remote, c.theirs)
        };
        let started = (|| {
            stream.set_nodelay(true)?;
            // Only the end of the TCP stream is an end: if this process dies, its connections are
            // reset.
            end_with_reset(&stream, true)?;
            let (from, to) = (stream.try_clone()?, stream.try_clone()?);
            let bytes = Arc::clone(&self.to_flows);
            tcp_to_flow(id, from, writer, bytes, self.tell.clone())?;
            let bytes = Arc::clone(&self.to_tcp);
            let stop = Arc::clone(&c.stop);
            flow_to_tcp(id, fetch, to, stop, bytes, self.tell.clone())
        })();
        c.stream = Some(stream);
        if started.is_err() {
            self.broken(id);
        }
    }

    fn heard(&mut self, from: IpAddr, bytes: &[u8]) -> Result<(), RunError> {
        let known = self.options.peers.iter().position(|p| p.address == from);
        let Some(peer) = known else {
            return Ok(());
        };
        let now = self.now();
        let options = &self.options;
        let event = self.controls[peer].handle(now, bytes, |ip| options.is_called(ip));
        let message = match event {
            Some(Event::Said(message)) => message,
            Some(Event::Restarted | Event::Lost) => {
                self.give_up(peer);
                return Ok(());
            }
            Some(Event::OtherVersion) => {
                self.stats.other_version += 1;
                return Ok(());
            }
            None => return Ok(()),
        };
        match message {
            Message::Open {
                connection,
                up,
                down,
                src,
                dst,
            } => self.open(peer, connection, (up, down), (src, dst))?,
            Message::Reset { connection } if self.of_peer(connection, peer) => {
                self.remove(connection, true);
            }
            Message::Done { connection } if self.of_peer(connection, peer) => {
                self.delivered(connection);
            }
            Message::Reset { .. } | Message::Done { .. } | Message::Alive => {}
        }
        Ok(())
    }

    fn of_peer(&self, id: u64, peer: usize) -> bool {
        self.connections.get(&id).is_some_and(|c| c.peer == peer)
    }

    /// Handles a peer's request for a connection to a server.
    fn open(
        &mut self,
        peer: usize,
        id: u64,
        (up, down): (u64, u64),
        (src, dst): (SocketAddr, SocketAddr),
    ) -> Result<(), RunError> {
        if self.connections.contains_key(&id) {
            return Ok(());
        }
        let room = self.connections.len() < self.options.max_connections;
        if !room || !self.options.may_open(dst.ip()) {
            self.stats.refused += 1;
            self.say(peer, Message::Reset { connection: id });
            return Ok(());
        }
        let control = &self.controls[peer];
        if control.rtt_ns().is_none() && !control.is_waiting() {
            // The round-trip time to the peer shortens the first timeouts of its flows.
            self.say(peer, Message::Alive);
        }
        // Before the server answers: the peer's first Interests are on their way.
        let writer = self.publisher.publish_live(down, self.options.buffer_bytes);
        let connection = Connection::new(peer, src.ip(), (down, up), writer);
        self.keep(id, connection);
        let tell = self.tell.clone();
        let congestion = self.options.intercept.congestion.clone();
        let dial = move || {
            let stream = connect_from(src, dst, congestion.as_deref(), DIAL_WITHIN);
            tell.tell(ThreadReport::Other(Other::Dialed(id, stream)));
        };
        if spawn("dial", dial).is_err() {
            self.broken(id);
        }
        Ok(())
    }

    fn dialed(&mut self, id: u64, stream: std::io::Result<TcpStream>) {
        match stream {
            Ok(stream) => {
                self.stats.opened += 1;
                self.begin(id, stream);
            }
            Err(_) => {
                self.stats.unanswered += 1;
                self.broken(id);
            }
        }
    }

    fn arrived(&mut self, id: u64) {
        let Some(c) = self.connections.get_mut(&id) else {
            return;
        };
        c.arrived = true;
        let (peer, over) = (c.peer, c.delivered);
        self.say(peer, Message::Done { connection: id });
        if over {
            self.remove(id, false);
        }
    }

    fn delivered(&mut self, id: u64) {
        let Some(c) = self.connections.get_mut(&id) else {
            return;
        };
        c.delivered = true;
        let (ours, over) = (c.ours, c.arrived);
        self.publisher.withdraw(ours);
        if over {
            self.remove(id, false);
        }
    }

    /// TCP on this side is broken: so it shall be on the other.
    fn broken(&mut self, id: u64) {
        if let Some(peer) = self.connections.get(&id).map(|c| c.peer) {
            self.say(peer, Message::Reset { connection: id });
            self.remove(id, true);
        }
    }

    fn remove(&mut self, id: u64, with_reset: bool) {
        let Some(c) = self.connections.remove(&id) else {
            return;
        };
        self.clients.release(c.client);
        c.stop.ask();
        self.publisher.withdraw(c.ours);
        if with_reset {
            self.stats.reset += 1;
            if let Some(stream) = &c.stream {
                reset(stream);
            }
        } else {
            self.stats.ended += 1;
            if let Some(stream) = &c.stream {
                // TCP must still deliver its queued bytes; an error here concerns no other party.
                let _ = end_with_reset(stream, false);
            }
        }
    }

    fn give_up(&mut self, peer: usize) {
        let its = self.connections.iter().filter(|(_, c)| c.peer == peer);
        let its: Vec<u64> = its.map(|(id, _)| *id).collect();
        for id in its {
            self.remove(id, true);
        }
    }

    /// From time to time the gateway checks whether peers with connections still answer.
    fn ask_peers(&mut self) {
        let now = self.now();
        for peer in 0..self.controls.len() {
            if self.controls[peer].poll_lost(now).is_some() {
                self.give_up(peer);
            }
            if self.asked[peer].elapsed() < ALIVE_EVERY {
                continue;
            }
            self.asked[peer] = Instant::now();
            let concerned = self.connections.values().any(|c| c.peer == peer);
            if concerned && !self.controls[peer].is_waiting() {
                self.say(peer, Message::Alive);
            }
        }
    }

    fn send(&mut self) {
        let now = self.now();
        for (control, peer) in self.controls.iter_mut().zip(&self.options.peers) {
            let to = SocketAddr::new(peer.address, CONTROL_PORT);
            while let Some(bytes) = control.poll_transmit(now) {
                let mut sockets = self.sockets.iter();
                let of_family =
                    |s: &&UdpSocket| s.local_addr().is_ok_and(|a| a.is_ipv4() == to.is_ipv4());
                if let Some(socket) = sockets.find(of_family) {
                    // A lost message will be repeated.
                    let _ = socket.send_to(&bytes, to);
                }
            }
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        for c in self.connections.values() {
            c.stop.ask();
            if let Some(stream) = &c.stream {
                reset(stream);
            }
        }
    }
}

/// Passes received datagrams to the gateway.
fn listen(socket: UdpSocket, tell: Tell<Other>, over: Arc<AtomicBool>) -> std::io::Result<()> {
    spawn("control", move || {
        let mut buf = [0; MAX_LEN + 1];
        while !over.load(Ordering::Acquire) {
            if let Ok((n, from)) = socket.recv_from(&mut buf) {
                tell.tell(ThreadReport::Other(Other::Heard(
                    from.ip(),
                    buf[..n].to_vec(),
                )));
            }
        }
    })
}
