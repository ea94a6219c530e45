//! A connection whose two directions are used by different threads at the same time.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConnection};
use tungstenite::protocol::frame::coding::{Data, OpCode};
use tungstenite::protocol::frame::{Frame, FrameSocket};

use super::message::{MESSAGE_BYTES, Message};
use super::tls;
use crate::underlay::Key;

/// Maximum time until TCP is connected, and until the handshake of TLS is done. An end without the key gets no longer.
const SHAKEN_WITHIN: Duration = Duration::from_secs(5);
/// Maximum time that a reader waits for a message, and then returns without one.
const NEXT_WITHIN: Duration = Duration::from_millis(50);
/// A connection without traffic is probed after this time, and then as often.
const PROBED_AFTER: Duration = Duration::from_secs(5);
/// Unanswered probes until the other end counts as gone.
const PROBES: u32 = 3;
/// Bytes that are read from TCP at a time: those of a record of TLS.
const READ_BYTES: usize = 16 << 10;

/// Both directions of a connection.
pub(crate) struct Connection {
    pub(crate) sending: Arc<Sending>,
    pub(crate) receiving: Receiving,
}

/// Connects to the agent of a machine.
///
/// # Errors
/// If it cannot be reached, or does not have the key.
pub(crate) fn connect(address: SocketAddr, key: &Key) -> io::Result<Connection> {
    let tcp = TcpStream::connect_timeout(&address, SHAKEN_WITHIN)?;
    // However this process ends, the other end must notice at once, even if it does not read what was sent.
    sockopt::set_socket_linger(&tcp, Some(Duration::ZERO))?;
    let config = tls::client(key).map_err(io::Error::other)?;
    let name = ServerName::IpAddress(address.ip().into());
    let tls = ClientConnection::new(config, name).map_err(io::Error::other)?;
    shaken(tcp, tls.into())
}

/// Accepts a connection.
///
/// # Errors
/// If the other end does not have the key, or says nothing.
pub(crate) fn accept(tcp: TcpStream, key: &Key) -> io::Result<Connection> {
    let config = tls::server(key).map_err(io::Error::other)?;
    let tls = ServerConnection::new(config).map_err(io::Error::other)?;
    shaken(tcp, tls.into())
}

/// Does the handshake.
fn shaken(tcp: TcpStream, mut tls: rustls::Connection) -> io::Result<Connection> {
    // Typed keys and their echo are small messages that must not wait for each other.
    tcp.set_nodelay(true)?;
    sockopt::set_socket_keepalive(&tcp, true)?;
    sockopt::set_tcp_keepidle(&tcp, PROBED_AFTER)?;
    sockopt::set_tcp_keepintvl(&tcp, PROBED_AFTER)?;
    sockopt::set_tcp_keepcnt(&tcp, PROBES)?;
    let until = Instant::now() + SHAKEN_WITHIN;
    while tls.is_handshaking() {
        tls.complete_io(&mut Until(&tcp, until))?;
    }
    tcp.set_write_timeout(None)?;
    tcp.set_read_timeout(Some(NEXT_WITHIN))?;
    let tls = Arc::new(Mutex::new(tls));
    let writer = Writer {
        tls: Arc::clone(&tls),
        tcp: tcp.try_clone()?,
        sealed: Vec::new(),
    };
    let reader = Reader {
        tls,
        tcp: tcp.try_clone()?,
        raw: vec![0; READ_BYTES],
        unread: 0..0,
    };
    Ok(Connection {
        sending: Arc::new(Sending {
            frames: Mutex::new(FrameSocket::new(writer)),
            tcp,
        }),
        receiving: Receiving(FrameSocket::new(reader)),
    })
}

/// The socket until a time. An end that sends a byte now and then gets no more time by that.
struct Until<'a>(&'a TcpStream, Instant);

impl Until<'_> {
    fn left(&self) -> io::Result<Duration> {
        let left = self.1.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(left),
        }
    }
}

/// The kernel reports a timeout of a socket as if the socket were not to block.
fn late(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    }
}

impl Read for Until<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.set_read_timeout(Some(self.left()?))?;
        self.0.read(bytes).map_err(late)
    }
}

impl Write for Until<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.set_write_timeout(Some(self.left()?))?;
        self.0.write(bytes).map_err(late)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn as_io(error: tungstenite::Error) -> io::Error {
    match error {
        tungstenite::Error::Io(error) => error,
        error => io::Error::new(io::ErrorKind::InvalidData, error),
    }
}

/// The direction to the other end. Several threads may use it.
pub(crate) struct Sending {
    frames: Mutex<FrameSocket<Writer>>,
    tcp: TcpStream,
}

impl Sending {
    /// Sends a message. Waits while the other end does not read.
    ///
    /// # Errors
    /// If the connection is closed, or the message is too long.
    pub(crate) fn send(&self, message: &Message) -> io::Result<()> {
        let frame = Frame::message(message.pack()?, OpCode::Data(Data::Binary), true);
        lock(&self.frames).send(frame).map_err(as_io)
    }

    /// Sends bytes as messages until they end.
    ///
    /// # Errors
    /// If the connection is closed. An error of the source counts as its end.
    pub(crate) fn send_all(
        &self,
        mut from: impl Read,
        message: impl Fn(Vec<u8>) -> Message,
    ) -> io::Result<()> {
        let mut bytes = vec![0; super::PIECE_BYTES];
        loop {
            match from.read(&mut bytes) {
                Ok(0) => return Ok(()),
                Ok(count) => self.send(&message(bytes[..count].to_vec()))?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Ok(()),
            }
        }
    }

    /// Returns whether the other end has closed the connection. Bytes may be left that it sent before.
    pub(crate) fn is_closed(&self) -> bool {
        let mut news = [PollFd::new(&self.tcp, PollFlags::RDHUP)];
        let closed = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut news, Some(&now)).is_ok() && news[0].revents().intersects(closed)
    }

    /// Closes the connection in both directions, and thereby wakes each thread that sends or receives.
    pub(crate) fn close(&self) {
        // An error means that it is closed already.
        let _ = self.tcp.shutdown(Shutdown::Both);
    }
}

/// The direction from the other end.
pub(crate) struct Receiving(FrameSocket<Reader>);

impl Receiving {
    /// Returns the next message, or `None` if none arrived within 50 ms.
    ///
    /// # Errors
    /// If the connection is closed, or the other end breaks the protocol.
    pub(crate) fn next(&mut self) -> io::Result<Option<Message>> {
        match self.0.read(Some(MESSAGE_BYTES)).map_err(as_io) {
            Ok(Some(frame)) => Message::unpack(frame.payload()).map(Some),
            Ok(None) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if crate::agent::is_patience(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Encrypts. The lock on TLS is held while bytes are encrypted, and not while they are sent: the other direction must be able
/// to decrypt while this one waits for a slow reader.
struct Writer {
    tls: Arc<Mutex<rustls::Connection>>,
    tcp: TcpStream,
    sealed: Vec<u8>,
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sealed.clear();
        let taken = {
            let mut tls = lock(&self.tls);
            let taken = tls.writer().write(bytes)?;
            while tls.wants_write() {
                tls.write_tls(&mut self.sealed)?;
            }
            taken
        };
        self.tcp.write_all(&self.sealed)?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Decrypts. No lock is held while it waits for bytes.
struct Reader {
    tls: Arc<Mutex<rustls::Connection>>,
    tcp: TcpStream,
    raw: Vec<u8>,
    /// The bytes of `raw` that TLS has not taken yet.
    unread: std::ops::Range<usize>,
}

impl Read for Reader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            {
                let mut tls = lock(&self.tls);
                match tls.reader().read(bytes) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => return read,
                }
                // TLS takes no more than it can keep decrypted, so what it has decrypted is read in between.
                if !self.unread.is_empty() {
                    let mut unread = &self.raw[self.unread.clone()];
                    self.unread.start += tls.read_tls(&mut unread)?;
                    tls.process_new_packets().map_err(io::Error::other)?;
                    continue;
                }
            }
            match self.tcp.read(&mut self.raw)? {
                // The end of TLS is a message of its own. Without it, an attacker could cut a stream off.
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.unread = 0..count,
            }
        }
    }
}
