//! `leotp gateway`.

use crate::common::{Failure, ParamArgs, human_bytes, read_key};
use crate::mid::Ports;
use leotp::gateway::{Gateway, GatewayOptions, Peer};
use leotp::rt::{InterceptOptions, catch_signals, raise_open_files, stop_requested};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The gateway at the other end, for all destinations or those of a prefix
    /// (repeatable): 10.0.0.2, or 192.0.2.0/24=10.0.0.2.
    #[arg(long, required = true, value_name = "[PREFIX=]ADDR", value_parser = parse_peer)]
    peer: Vec<(Option<(IpAddr, u8)>, IpAddr)>,
    /// TCP ports of the servers, one or FIRST-LAST.
    #[arg(long, value_name = "PORTS", default_value_t = Ports(1, u16::MAX))]
    ports: Ports,
    /// Take only connections that arrive at this interface: one towards the clients
    /// (repeatable).
    #[arg(long, value_name = "INTERFACE")]
    interface: Vec<String>,
    /// Own address towards the peers.
    #[arg(long, value_name = "ADDR")]
    bind: Option<IpAddr>,
    /// Own address as the peers know it, if it differs from the source address of packets
    /// (NAT).
    #[arg(long, value_name = "ADDR")]
    known_as: Option<IpAddr>,
    /// Secret that the gateways share, in this file (64 hexadecimal digits): without it no
    /// other host can open or reset connections.
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "insecure_without_key"
    )]
    key_file: Option<PathBuf>,
    /// Run without a key: any host that can send packets with a peer's address can then open
    /// connections from here to everywhere. For networks without other users.
    #[arg(long, conflicts_with = "key_file")]
    insecure_without_key: bool,
    /// Let peers open connections to this host itself too: to loopback and to its own
    /// addresses.
    #[arg(long)]
    allow_local: bool,
    /// Bytes of one direction of a connection that may wait.
    #[arg(long, default_value_t = 4 << 20, value_parser = clap::value_parser!(u64).range(65_536..=1 << 30))]
    buffer: u64,
    /// Largest number of connections at the same time.
    #[arg(long, default_value_t = 1024)]
    max_connections: usize,
    /// Largest number of connections of one client's address; of one IPv6 /64 four times as
    /// many.
    #[arg(long, default_value_t = 256)]
    max_per_client: u32,
    /// Reset the connections of a peer that has confirmed no message for this many seconds.
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    lost_after: u64,
    /// Congestion control of the TCP connections.
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// Completes the name of the nftables table, leotp_NAME.
    #[arg(long, default_value = "gateway", value_parser = crate::mid::table_name)]
    name: String,
    /// Report every this many seconds on standard error; 0: never.
    #[arg(long, default_value_t = 0)]
    report: u64,
    /// Print counters as JSON on standard output at the end.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    params: ParamArgs,
}

type PeerArg = (Option<(IpAddr, u8)>, IpAddr);

fn parse_peer(s: &str) -> Result<PeerArg, String> {
    let address = |s: &str| {
        s.parse::<IpAddr>()
            .map_err(|_| format!("{s} is no IP address"))
    };
    let Some((prefix, peer)) = s.split_once('=') else {
        return Ok((None, address(s)?));
    };
    let (ip, len) = prefix
        .split_once('/')
        .ok_or_else(|| format!("{prefix} is no prefix ADDR/LENGTH"))?;
    let ip = address(ip)?;
    let most = if ip.is_ipv4() { 32 } else { 128 };
    match len.parse() {
        Ok(len) if len <= most => Ok((Some((ip, len)), address(peer)?)),
        _ => Err(format!("the length of {prefix} is not 0 to {most}")),
    }
}

/// Every address once, with all its prefixes.
fn peers(all: &[PeerArg]) -> Vec<Peer> {
    let mut peers: Vec<Peer> = Vec::new();
    for (prefix, address) in all {
        let everything: Vec<(IpAddr, u8)> = match prefix {
            Some(prefix) => vec![*prefix],
            None => vec![([0; 4].into(), 0), ([0; 16].into(), 0)],
        };
        match peers.iter_mut().find(|p| p.address == *address) {
            Some(peer) => peer.prefixes.extend(everything),
            None => peers.push(Peer {
                prefixes: everything,
                address: *address,
            }),
        }
    }
    peers
}

pub(crate) fn run(a: &Args) -> Result<(), Failure> {
    catch_signals()?;
    raise_open_files()?;
    let options = GatewayOptions {
        intercept: InterceptOptions {
            ports: (a.ports.0, a.ports.1),
            interfaces: a.interface.clone(),
            name: a.name.clone(),
            congestion: a.congestion.clone(),
            ..InterceptOptions::default()
        },
        peers: peers(&a.peer),
        local: a.bind,
        known_as: a.known_as,
        key: a.key_file.as_deref().map(read_key).transpose()?,
        allow_no_key: a.insecure_without_key,
        allow_local: a.allow_local,
        buffer_bytes: a.buffer,
        max_connections: a.max_connections,
        max_per_client: a.max_per_client,
        lost_after: Duration::from_secs(a.lost_after),
        params: a.params.params()?,
    };
    let mut gateway = Gateway::start(options)?;
    eprintln!(
        "gateway for TCP ports {} (nftables table leotp_{})",
        a.ports, a.name
    );
    let mut last = Instant::now();
    let mut warned = false;
    while !stop_requested() {
        gateway.poll(Duration::from_millis(200))?;
        if !warned && gateway.stats().other_version > 0 {
            warned = true;
            eprintln!(
                "leotp: a peer speaks another version of the gateways' protocol; both must be of one"
            );
        }
        if a.report > 0 && last.elapsed().as_secs() >= a.report {
            last = Instant::now();
            let s = gateway.stats();
            eprintln!(
                "{} connections, {} taken, {} opened, {} refused, {} reset, {} to LEOTP, {} to TCP",
                gateway.connections(),
                s.taken,
                s.opened,
                s.refused,
                s.reset,
                human_bytes(s.to_flows_bytes),
                human_bytes(s.to_tcp_bytes)
            );
        }
    }
    if a.json {
        let v = serde_json::json!({ "gateway": gateway.stats(), "connections": gateway.connections(), "peak_rss_bytes": leotp::rt::peak_rss_bytes(), "cpu_s": leotp::rt::cpu_seconds() });
        println!("{v}");
    }
    Ok(())
}
