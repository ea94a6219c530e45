//! TCP sockets with addresses of others.

use super::{check, set_opt, to_raw};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// A stream socket that may be bound to any address.
fn transparent(v4: bool) -> io::Result<OwnedFd> {
    let domain = if v4 { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: a plain system call without pointers.
    let fd = check(unsafe { libc::socket(domain, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the call above has just returned this descriptor; it has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let raw = fd.as_raw_fd();
    set_opt(raw, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    if v4 {
        set_opt(raw, libc::IPPROTO_IP, libc::IP_TRANSPARENT, 1)?;
    } else {
        set_opt(raw, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
        set_opt(raw, libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT, 1)?;
    }
    Ok(fd)
}

fn bind(fd: &OwnedFd, local: SocketAddr) -> io::Result<()> {
    let (address, len) = to_raw(local);
    // SAFETY: `address` holds an address of `len` bytes.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) }).map(|_| ())
}

/// Creates a listener for connections to any address that are redirected to it.
pub(crate) fn listen_transparent(local: SocketAddr) -> io::Result<TcpListener> {
    let fd = transparent(local.is_ipv4())?;
    bind(&fd, local)?;
    // SAFETY: a plain system call without pointers.
    check(unsafe { libc::listen(fd.as_raw_fd(), 4096) })?;
    Ok(fd.into())
}

/// Connects to `dst` with the source address `src`, even if it is another host's.
pub(crate) fn connect_from(
    src: SocketAddr,
    dst: SocketAddr,
    congestion: Option<&str>,
    limit: Duration,
) -> io::Result<TcpStream> {
    let fd = transparent(src.is_ipv4())?;
    if let Some(name) = congestion {
        set_congestion(&fd, name)?;
    }
    bind(&fd, src)?;
    let stream = TcpStream::from(fd);
    stream.set_nonblocking(true)?;
    let (address, len) = to_raw(dst);
    // SAFETY: `address` holds an address of `len` bytes.
    let started =
        check(unsafe { libc::connect(stream.as_raw_fd(), (&raw const address).cast(), len) });
    match started {
        Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => {}
        other => {
            return other
                .and_then(|_| stream.set_nonblocking(false))
                .map(|()| stream);
        }
    }
    if !wait(&stream, libc::POLLOUT, limit)? {
        return Err(io::ErrorKind::TimedOut.into());
    }
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Whether there is something to read within `limit`.
pub(crate) fn wait_readable(socket: &impl AsRawFd, limit: Duration) -> io::Result<bool> {
    wait(socket, libc::POLLIN, limit)
}

fn wait(socket: &impl AsRawFd, events: i16, limit: Duration) -> io::Result<bool> {
    let mut p = libc::pollfd {
        fd: socket.as_raw_fd(),
        events,
        revents: 0,
    };
    let ms = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: one valid pollfd.
    match check(unsafe { libc::poll(&raw mut p, 1, ms) }) {
        Ok(n) => Ok(n > 0),
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(e) => Err(e),
    }
}

/// A UDP socket of the address's own family alone, so that one port can be bound in both.
pub(crate) fn udp_of_one_family(local: SocketAddr) -> io::Result<UdpSocket> {
    let v4 = local.is_ipv4();
    let domain = if v4 { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: a plain system call without pointers.
    let fd = check(unsafe { libc::socket(domain, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the call above has just returned this descriptor; it has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    if !v4 {
        set_opt(fd.as_raw_fd(), libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
    }
    bind(&fd, local)?;
    Ok(fd.into())
}

/// Chooses a congestion control.
pub(crate) fn set_congestion(socket: &impl AsRawFd, name: &str) -> io::Result<()> {
    // SAFETY: the pointer and the length are those of `name`.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            name.len() as u32,
        )
    })
    .map(|_| ())
}

/// Disconnects the other side from a connection, with a reset.
pub(crate) fn disconnect(stream: &TcpStream) -> io::Result<()> {
    let nobody = libc::sockaddr {
        sa_family: libc::AF_UNSPEC as u16,
        sa_data: [0; 14],
    };
    // SAFETY: the pointer and the length describe an address that outlives the call.
    check(unsafe {
        libc::connect(
            stream.as_raw_fd(),
            &raw const nobody,
            size_of::<libc::sockaddr>() as u32,
        )
    })
    .map(|_| ())
}

/// Sets whether the closing of a connection is a reset.
pub(crate) fn reset_on_close(stream: &TcpStream, reset: bool) -> io::Result<()> {
    let linger = libc::linger {
        l_onoff: reset.into(),
        l_linger: 0,
    };
    // SAFETY: the pointer and the length describe a linger that outlives the call.
    check(unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of::<libc::linger>() as u32,
        )
    })
    .map(|_| ())
}
