//! A transparent Midnode on a Linux router.

use super::disk::DiskCache;
use super::nft::{Redirect, Taken, Transport, is_permission};
use super::sys::{Socket, SocketOptions};
use super::{DEFAULT_PORT, Driver, IoStats, RunError};
use crate::core::{CacheStats, FlowState, Midnode, MidnodeStats, Params};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// How a Midnode attaches to its host.
#[derive(Debug, Clone)]
pub struct MidOptions {
    /// UDP ports of the LEOTP traffic to take, first and last.
    pub ports: (u16, u16),
    /// Local port of the transparent sockets; 0: the kernel's choice.
    pub local_port: u16,
    /// Completes the nftables table's name, `leotp_<name>`.
    pub name: String,
    /// Packet mark that leads to the transparent sockets.
    pub mark: u32,
    /// Routing table of marked packets.
    pub table: u32,
    /// A folder for blocks that do not fit in the cache in memory, and the bytes that it may have
    /// there; `None`: memory only.
    pub disk_cache: Option<(PathBuf, u64)>,
    /// Protocol parameters.
    pub params: Params,
}

impl Default for MidOptions {
    fn default() -> Self {
        Self {
            ports: (DEFAULT_PORT, DEFAULT_PORT),
            local_port: 0,
            name: String::from("mid"),
            mark: 0x004c_454f,
            table: 19_525,
            disk_cache: None,
            params: Params::default(),
        }
    }
}

/// A running Midnode. The redirection ends when it is dropped.
#[derive(Debug)]
pub struct Mid {
    driver: Driver,
    node: Midnode,
    _redirect: Redirect,
}

impl Mid {
    /// Opens the sockets and redirects the port. Needs CAP_NET_ADMIN.
    ///
    /// # Errors
    /// Parameters that cannot work, missing rights, a name in use, a kernel without TPROXY, or
    /// a cache on disk that cannot be opened.
    pub fn start(o: MidOptions) -> Result<Self, RunError> {
        let node = match &o.disk_cache {
            Some(_) if o.params.cache_bytes == 0 => {
                let text =
                    "a cache on disk is for what the cache in memory gives up: cache_bytes is 0";
                return Err(RunError::Options(String::from(text)));
            }
            Some((dir, bytes)) => {
                Midnode::with_store(o.params, Box::new(DiskCache::open(dir, *bytes)?))?
            }
            None => Midnode::new(o.params)?,
        };
        let so = SocketOptions {
            transparent: true,
            recv_buffer: 8 << 20,
            send_buffer: 0,
        };
        let rights = |what: &str| {
            let what = what.to_owned();
            move |source: std::io::Error| {
                let hint = if is_permission(&source) {
                    " (needs CAP_NET_ADMIN)"
                } else {
                    ""
                };
                RunError::Io {
                    what: format!("{what}{hint}"),
                    source,
                }
            }
        };
        let v4 = Socket::bind((Ipv4Addr::UNSPECIFIED, o.local_port).into(), so)
            .map_err(rights("open a transparent IPv4 socket"))?;
        let port = v4.local().port();
        let mut sockets = vec![v4];
        match Socket::bind((Ipv6Addr::UNSPECIFIED, port).into(), so) {
            Ok(s) => sockets.push(s),
            // A kernel without IPv6 has no IPv6 packets to take.
            Err(e)
                if matches!(
                    e.raw_os_error(),
                    Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)
                ) => {}
            Err(e) => return Err(rights("open a transparent IPv6 socket")(e)),
        }
        let redirect = Redirect::install(
            &o.name,
            Transport::Udp,
            &Taken {
                ports: o.ports,
                interfaces: &[],
                destinations: &[],
            },
            port,
            o.mark,
            o.table,
        )?;
        Ok(Self {
            driver: Driver::new(sockets, true)?,
            node,
            _redirect: redirect,
        })
    }

    /// Works for at most `wait`.
    ///
    /// # Errors
    /// The kernel's, of waiting or receiving.
    pub fn poll(&mut self, wait: Duration) -> Result<(), RunError> {
        self.driver.turn(
            &mut self.node,
            u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX),
        )
    }

    /// Writes the blocks of the cache in memory to disk, if it has a place there.
    pub fn flush_cache(&mut self) {
        self.node.flush_cache();
    }

    /// Port of the transparent sockets.
    pub fn local(&self) -> Option<SocketAddr> {
        self.driver.sockets().first().map(Socket::local)
    }

    /// Protocol counters.
    pub const fn stats(&self) -> MidnodeStats {
        self.node.stats()
    }

    /// Cache counters.
    pub const fn cache_stats(&self) -> CacheStats {
        self.node.cache_stats()
    }

    /// Datagram counters.
    pub const fn io_stats(&self) -> IoStats {
        self.driver.stats()
    }

    /// The state of every flow at this moment.
    pub fn flow_states(&self) -> impl Iterator<Item = FlowState> + '_ {
        self.node.flow_states()
    }

    /// Flows with state.
    pub fn flows(&self) -> usize {
        self.node.flows()
    }
}
