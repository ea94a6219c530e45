//! TCP connections of other hosts: intercepted as they pass, opened with their addresses.

use super::RunError;
use super::nft::{Redirect, Taken, Transport, is_permission};
use super::sys::tcp;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// The connections to intercept.
#[derive(Debug, Clone)]
pub struct InterceptOptions {
    /// Ports of the servers, first and last.
    pub ports: (u16, u16),
    /// Only connections that arrive at these interfaces; none: at any.
    pub interfaces: Vec<String>,
    /// Only connections to these servers, addresses and lengths of prefixes; none: to any.
    pub destinations: Vec<(IpAddr, u8)>,
    /// Completes the nftables table's name, `leotp_<name>`.
    pub name: String,
    /// Packet mark that leads to the transparent sockets.
    pub mark: u32,
    /// Routing table of marked packets.
    pub table: u32,
    /// Congestion control towards the clients; `None`: the namespace's.
    pub congestion: Option<String>,
}

impl Default for InterceptOptions {
    fn default() -> Self {
        Self {
            ports: (1, u16::MAX),
            interfaces: Vec::new(),
            destinations: Vec::new(),
            name: String::from("tcp"),
            mark: 0x004c_4550,
            table: 19_526,
            congestion: None,
        }
    }
}

/// Intercepts connections that pass this host to the ports. The redirection ends when it is
/// dropped.
#[derive(Debug)]
pub struct Intercept {
    listeners: Vec<TcpListener>,
    _redirect: Redirect,
}

/// An intercepted connection, which was meant for another host.
#[derive(Debug)]
pub struct Intercepted {
    /// The stream to the client, which seems to be connected with `dst`.
    pub stream: TcpStream,
    /// The client.
    pub src: SocketAddr,
    /// The server.
    pub dst: SocketAddr,
}

impl Intercept {
    /// Opens listeners and redirects the ports to them. Needs CAP_NET_ADMIN.
    ///
    /// # Errors
    /// An interface that does not exist, missing rights, or a kernel without TPROXY.
    pub fn start(o: &InterceptOptions) -> Result<Self, RunError> {
        for name in &o.interfaces {
            must_exist(name)?;
        }
        let v4 = tcp::listen_transparent((Ipv4Addr::UNSPECIFIED, 0).into()).map_err(|source| {
            let hint = if is_permission(&source) {
                " (needs CAP_NET_ADMIN)"
            } else {
                ""
            };
            let what = format!("open a transparent TCP socket{hint}");
            RunError::Io { what, source }
        })?;
        let port = v4
            .local_addr()
            .map_err(RunError::io("look at a socket"))?
            .port();
        let mut listeners = vec![v4];
        match tcp::listen_transparent((Ipv6Addr::UNSPECIFIED, port).into()) {
            Ok(v6) => listeners.push(v6),
            // Without IPv6 there are no connections to intercept.
            Err(e)
                if matches!(
                    e.raw_os_error(),
                    Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)
                ) => {}
            Err(e) => return Err(RunError::io("open a transparent IPv6 socket")(e)),
        }
        if let Some(name) = &o.congestion {
            for listener in &listeners {
                tcp::set_congestion(listener, name)
                    .map_err(RunError::io(format!("use congestion control {name}")))?;
            }
        }
        let redirect = Redirect::install(
            &o.name,
            Transport::Tcp,
            &Taken {
                ports: o.ports,
                interfaces: &o.interfaces,
                destinations: &o.destinations,
            },
            port,
            o.mark,
            o.table,
        )?;
        Ok(Self {
            listeners,
            _redirect: redirect,
        })
    }

    /// One listener for each family; for [`accept`].
    ///
    /// # Errors
    /// When descriptors are short.
    pub fn listeners(&self) -> Result<Vec<TcpListener>, RunError> {
        let all = self.listeners.iter().map(TcpListener::try_clone);
        all.collect::<io::Result<_>>()
            .map_err(RunError::io("copy a socket"))
    }
}

/// Checks that this network namespace has an interface of that name: a rule for a missing one
/// would match nothing without an error.
fn must_exist(interface: &str) -> Result<(), RunError> {
    let list = std::fs::read_to_string("/proc/self/net/dev")
        .map_err(RunError::io("list the network interfaces"))?;
    let lines = list.lines().filter_map(|l| l.split_once(':'));
    let names: Vec<&str> = lines.map(|(name, _)| name.trim()).collect();
    if names.contains(&interface) {
        return Ok(());
    }
    let there = names.join(", ");
    Err(RunError::Options(format!(
        "there is no network interface {interface} here; there are: {there}"
    )))
}

/// Waits for the next connection, for at most `limit`.
///
/// # Errors
/// The kernel's.
pub fn accept(listener: &TcpListener, limit: Duration) -> io::Result<Option<Intercepted>> {
    if !tcp::wait_readable(listener, limit)? {
        return Ok(None);
    }
    let (stream, src) = listener.accept()?;
    let dst = stream.local_addr()?;
    Ok(Some(Intercepted { stream, src, dst }))
}

/// Opens a connection to `dst` in the name of `src`.
///
/// # Errors
/// The kernel's; [`io::ErrorKind::TimedOut`] after `limit`.
pub fn connect_from(
    src: SocketAddr,
    dst: SocketAddr,
    congestion: Option<&str>,
    limit: Duration,
) -> io::Result<TcpStream> {
    tcp::connect_from(src, dst, congestion, limit)
}

/// Ends a connection with a reset, at once, and wakes threads that read or write it.
pub fn reset(stream: &TcpStream) {
    // Some kernels (6.4 to 6.6) refuse while others wait in a system call. Then
    // those are woken, and the last to close the stream resets.
    let _ = tcp::reset_on_close(stream, true);
    if tcp::disconnect(stream).is_err() {
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
}

/// Whether the end of this process, or the last close, is a reset for the other side of a connection.
///
/// # Errors
/// The kernel's.
pub fn end_with_reset(stream: &TcpStream, reset: bool) -> io::Result<()> {
    tcp::reset_on_close(stream, reset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_does_not_exist_is_refused_with_those_that_do() {
        assert!(must_exist("lo").is_ok());
        let o = InterceptOptions {
            interfaces: vec![String::from("NOSUCH")],
            ..InterceptOptions::default()
        };
        let error = Intercept::start(&o).unwrap_err().to_string();
        assert!(error.contains("NOSUCH") && error.contains(" lo"), "{error}");
    }
}
