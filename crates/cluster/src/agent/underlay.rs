//! The sockets where a machine listens for others. All are bound to the requested interface only: UDP and TCP on one port of
//! its address, and a socket for pings in raw frames if the interface carries Ethernet.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use constel_host::ethernet::Interface;
use constel_host::netlink::Socket;

use crate::agent::clocks::{mono_ns, random_bytes, wall_ahead_ns};
use crate::agent::reach::Echo;
use crate::agent::record::UnderlayAt;
use crate::underlay::{Key, PING_BYTES, Ping};

/// Interval at which the end flag is checked.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Number of free ports that are tried.
const FREE_PORTS: usize = 16;

/// Maximum length of an interface name in Linux.
const LONGEST_NAME: usize = 15;

/// The interface and port to listen on: `INTERFACE[:PORT]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// Name of the interface.
    pub interface: String,
    /// Port of UDP and TCP. 0 selects a free one.
    pub port: u16,
}

/// The error for a text that is not `INTERFACE[:PORT]`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no INTERFACE[:PORT], such as eth1 or eth1:4790 (ports are 1 to 65535)")]
pub struct ListenError(String);

impl FromStr for Listen {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Self, ListenError> {
        let wrong = || ListenError(text.to_owned());
        let (interface, port) = match text.rsplit_once(':') {
            Some((interface, digits)) => {
                let port: u16 = digits.parse().map_err(|_| wrong())?;
                if port == 0 || !digits.bytes().all(|b| b.is_ascii_digit()) {
                    return Err(wrong());
                }
                (interface, port)
            }
            None => (text, 0),
        };
        let is_name = (1..=LONGEST_NAME).contains(&interface.len())
            && !interface.contains(|c: char| c.is_whitespace() || "/:".contains(c));
        if !is_name {
            return Err(wrong());
        }
        Ok(Self {
            interface: interface.to_owned(),
            port,
        })
    }
}

/// The sockets that answer pings, and the one that accepts requests.
pub(crate) struct Responder {
    socket: UdpSocket,
    requests: TcpListener,
    at: UnderlayAt,
    /// The interface and the socket for raw frames, if available.
    raw: Option<(Interface, Echo)>,
    /// Number of datagrams that were not pings, or had the wrong key.
    strangers: AtomicU64,
}

impl Responder {
    /// Listens on the interface's first address: IPv4 if there is one, otherwise an IPv6 address that others can reach.
    pub(crate) fn open(listen: &Listen) -> Result<Self, String> {
        let (address, mtu_bytes) = address_of(&listen.interface)?;
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", listen.interface);
        let place = SocketAddr::new(address, listen.port);
        let (socket, requests) = both(place).map_err(|e| {
            let place = match listen.port {
                0 => address.to_string(),
                _ => place.to_string(),
            };
            named(&format!("listen on {place}: {e}"))
        })?;
        socket
            .set_read_timeout(Some(LOOK_EVERY))
            .map_err(|e| named(&e))?;
        let key = Key::new(random_bytes().map_err(|e| named(&e))?);
        // Raw Ethernet is optional: without it the machine still takes part by UDP.
        let raw = Interface::named(&listen.interface).ok();
        let raw = raw.and_then(|own| Echo::open(&own, key.clone()).map(|echo| (own, echo)));
        let at = UnderlayAt {
            interface: listen.interface.clone(),
            address: socket.local_addr().map_err(|e| named(&e))?,
            key,
            mtu_bytes,
            ethernet: raw.as_ref().map(|(interface, _)| interface.address.0),
        };
        Ok(Self {
            socket,
            requests,
            at,
            raw,
            strangers: AtomicU64::new(0),
        })
    }

    pub(crate) fn at(&self) -> &UnderlayAt {
        &self.at
    }

    /// Returns the socket that accepts requests. It does not block.
    pub(crate) fn requests(&self) -> &TcpListener {
        &self.requests
    }

    /// Returns the address with the current MTU of the interface.
    pub(crate) fn now(&self) -> UnderlayAt {
        let mtu_bytes = address_of(&self.at.interface).map(|(_, mtu_bytes)| mtu_bytes);
        UnderlayAt {
            mtu_bytes: mtu_bytes.unwrap_or(self.at.mtu_bytes),
            ..self.at.clone()
        }
    }

    /// Returns the interface and the socket for raw frames, if available.
    pub(crate) fn raw(&self) -> Option<&(Interface, Echo)> {
        self.raw.as_ref()
    }

    /// Replies to pings until `end`.
    pub(crate) fn answer(&self, end: &AtomicBool) {
        // One byte longer than a ping, so that longer datagrams are recognised.
        let mut bytes = [0; PING_BYTES + 1];
        while !end.load(Ordering::Acquire) {
            let (length, from) = match self.socket.recv_from(&mut bytes) {
                Ok(received) => received,
                Err(e) if is_patience(&e) => continue,
                // Neither an ICMP error from a closed port nor an interface that went down may end this thread.
                Err(_) => {
                    std::thread::sleep(LOOK_EVERY);
                    continue;
                }
            };
            // Read directly after the arrival: everything between here and `t3_ns` is subtracted from the round trip.
            let t2_ns = mono_ns();
            match Ping::unpack(&bytes[..length], &self.at.key) {
                Some(Ping::Question { nonce }) => {
                    let wall_ahead_ns = wall_ahead_ns();
                    let answer = Ping::Answer {
                        nonce,
                        t2_ns,
                        t3_ns: mono_ns(),
                        wall_ahead_ns,
                    };
                    // A reply that cannot be sent counts as a lost one.
                    let _ = self.socket.send_to(&answer.pack(&self.at.key), from);
                }
                _ => {
                    self.strangers.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Returns the number of datagrams without a reply.
    #[cfg(test)]
    fn strangers(&self) -> u64 {
        self.strangers.load(Ordering::Relaxed)
    }
}

/// Binds UDP and TCP to one port. Without a given port, tries some free ones of UDP: a program may have such a port of TCP.
fn both(place: SocketAddr) -> std::io::Result<(UdpSocket, TcpListener)> {
    let mut tries = if place.port() == 0 { FREE_PORTS } else { 1 };
    loop {
        let socket = UdpSocket::bind(place)?;
        tries -= 1;
        match TcpListener::bind(socket.local_addr()?) {
            Ok(requests) => {
                requests.set_nonblocking(true)?;
                return Ok((socket, requests));
            }
            Err(e) if e.kind() == ErrorKind::AddrInUse && tries > 0 => {}
            Err(e) => return Err(e),
        }
    }
}

/// Returns whether the error means that no data arrived in time.
pub(crate) fn is_patience(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

/// Returns the address and the MTU of an interface.
fn address_of(interface: &str) -> Result<(IpAddr, u32), String> {
    let mut socket = Socket::open().map_err(|e| e.to_string())?;
    let links = socket.links().map_err(|e| e.to_string())?;
    let Some(link) = links.iter().find(|link| link.name == interface) else {
        let known: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
        return Err(format!(
            "no interface is called {interface}; there are: {}",
            known.join(", ")
        ));
    };
    let addresses = socket.addresses().map_err(|e| e.to_string())?;
    let own = addresses
        .iter()
        .filter(|address| address.ifindex == link.ifindex && !address.is_tentative())
        .map(|address| address.local.addr);
    let reachable = own.filter(|address| match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => !address.is_unicast_link_local(),
    });
    reachable
        .min_by_key(IpAddr::is_ipv6)
        .map(|address| (address, link.mtu))
        .ok_or_else(|| format!("{interface} has no address that others could reach"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_to_listen_is_read() {
        let read = |text: &str| text.parse::<Listen>().map(|l| (l.interface, l.port));
        assert_eq!(read("eth0"), Ok(("eth0".to_owned(), 0)));
        assert_eq!(read("eth0.7:4790"), Ok(("eth0.7".to_owned(), 4_790)));
        for wrong in [
            "",
            ":1",
            "eth0:",
            "eth0:0",
            "eth0:65536",
            "eth0:+1",
            "a b",
            "a/b",
            "a:b:1",
            "sixteen-letters-",
        ] {
            assert_eq!(read(wrong), Err(ListenError(wrong.to_owned())));
        }
    }

    #[test]
    fn interfaces_without_an_address_are_refused() {
        let none = Listen {
            interface: "nowhere".to_owned(),
            port: 0,
        };
        let error = Responder::open(&none).err().unwrap();
        assert!(error.contains("nowhere") && error.contains("lo"), "{error}");
    }

    /// On the loopback interface, only pings with the right key are answered.
    #[test]
    fn who_knows_the_key_is_answered() {
        let lo = Listen {
            interface: "lo".to_owned(),
            port: 0,
        };
        let responder = Responder::open(&lo).unwrap();
        assert!(responder.at().address.ip().is_loopback());
        let end = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| responder.answer(&end));
            let asker = UdpSocket::bind("127.0.0.1:0").unwrap();
            asker.connect(responder.at().address).unwrap();
            asker
                .set_read_timeout(Some(Duration::from_secs(10)))
                .unwrap();
            let key = &responder.at().key;
            let right = Ping::Question { nonce: 7 }.pack(key);
            let foreign = Ping::Question { nonce: 6 }.pack(&Key::new([6; 32]));
            let longer = [right.as_slice(), &[0]].concat();
            let answer = Ping::Answer {
                nonce: 5,
                t2_ns: 1,
                t3_ns: 1,
                wall_ahead_ns: 1,
            }
            .pack(key);
            for datagram in [&foreign[..], &longer, &answer, b"", &right] {
                asker.send(datagram).unwrap();
            }
            let before = mono_ns();
            let mut bytes = [0; 100];
            let length = asker.recv(&mut bytes).unwrap();
            // Only the last ping was valid, so its reply is the first to arrive.
            let Some(Ping::Answer {
                nonce,
                t2_ns,
                t3_ns,
                ..
            }) = Ping::unpack(&bytes[..length], key)
            else {
                panic!("{:?}", &bytes[..length]);
            };
            assert_eq!(nonce, 7);
            assert!(t2_ns <= t3_ns && t3_ns.abs_diff(before) < 60_000_000_000);
            end.store(true, Ordering::Release);
        });
        assert_eq!(responder.strangers(), 4);
    }
}
