//! The commands of a flow, and the nodes in which they run. Pure, except that paths appear in them.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use constel_scenario::model::{
    Action, Destination, Family, Flow, Http, Iperf3, Name, Ping, PingTool, Transfer,
    TransferProtocol, Transport,
};
use constel_topology::NodeId;
use constel_units::TimeSpan;

use crate::error::EngineError;
use crate::watch::paths::Pair;
use constel_plan::Blueprint;

/// A program to start in a node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Launch {
    pub(crate) node: NodeId,
    pub(crate) argv: Vec<String>,
}

/// A server, and the sign that it listens.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Server {
    pub(crate) launch: Launch,
    /// The sign that it is ready.
    pub(crate) ready: Ready,
    /// The files that it needs, with their contents.
    pub(crate) files: Vec<(PathBuf, Content)>,
}

/// The sign that a server is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ready {
    /// A socket in its node listens on this TCP port.
    TcpPort(u16),
    /// A line of its output begins with this text.
    Says(&'static str),
}

/// The contents of a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Content {
    Text(String),
    /// This number of zero bytes, sparse.
    Zeros(u64),
}

/// The programs of a flow.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FlowPlan {
    pub(crate) server: Option<Server>,
    pub(crate) client: Launch,
    /// The client's flag for the instant of lab time zero, if it needs one: nanoseconds of `CLOCK_MONOTONIC`, known
    /// when it starts.
    pub(crate) zero_flag: Option<&'static str>,
    /// The client's flag that says that the other end is on another machine; `None` if it makes no difference.
    pub(crate) apart_flag: Option<&'static str>,
    /// The two ends of the flow, if it has them, for paths and lower bounds.
    pub(crate) ends: Option<Pair>,
}

impl FlowPlan {
    /// Returns the client's command. `zero_ns` is the instant of lab time zero by `CLOCK_MONOTONIC`, nanoseconds.
    pub(crate) fn client_argv(&self, zero_ns: u64) -> Vec<String> {
        let mut argv = self.client.argv.clone();
        if let Some(flag) = self.zero_flag {
            argv.extend([flag.to_owned(), zero_ns.to_string()]);
        }
        argv
    }
}

/// Returns the programs that a flow needs, as (program, Debian package).
pub(crate) fn programs(flow: &Flow) -> &'static [(&'static str, &'static str)] {
    match flow.action {
        Action::Ping(ref ping) if ping.tool == PingTool::Ping => &[("ping", "iputils-ping")],
        Action::Iperf3(_) => &[("iperf3", "iperf3")],
        Action::Http(_) => &[("nginx", "nginx-light"), ("curl", "curl")],
        Action::Ping(_) | Action::Transfer(_) | Action::Run(_) => &[],
    }
}

/// The program of transfers, which is installed with Constel.
pub(crate) const TRANSFER: &str = "constel-transfer";

/// The program of probes: Constel itself has a command for them.
const PROBE: &str = "constel";

/// Returns Constel's own program that a flow needs.
pub(crate) fn own_programs(flow: &Flow) -> Option<&'static str> {
    match &flow.action {
        Action::Ping(ping) if ping.tool != PingTool::Ping => Some(PROBE),
        Action::Transfer(_) => Some(TRANSFER),
        _ => None,
    }
}

/// Returns the commands of a flow. `dir` is a folder for its server's files; `records` is the file for the times of
/// single records.
///
/// # Errors
/// When the flow names a node that the lab does not have.
pub(crate) fn plan(
    blueprint: &Blueprint,
    flow: &Flow,
    dir: &Path,
    records: &Path,
) -> Result<FlowPlan, EngineError> {
    let seconds = flow.length.seconds();
    match &flow.action {
        Action::Ping(ping) => match ping.tool {
            PingTool::Ping => plan_ping(blueprint, ping, seconds),
            PingTool::Probe { port } => plan_probe(blueprint, ping, port, flow.length),
        },
        Action::Iperf3(iperf3) => plan_iperf3(blueprint, iperf3, seconds),
        Action::Http(http) => plan_http(blueprint, http, seconds, dir),
        Action::Transfer(transfer) => plan_transfer(blueprint, transfer, seconds, records),
        Action::Run(run) => Ok(FlowPlan {
            server: None,
            client: Launch {
                node: node(blueprint, &run.node)?,
                argv: run.command.clone(),
            },
            zero_flag: None,
            apart_flag: None,
            ends: None,
        }),
    }
}

fn node(blueprint: &Blueprint, name: &Name) -> Result<NodeId, EngineError> {
    let node = blueprint.lab.layout.find(name.as_str());
    node.map(|node| node.id).ok_or_else(|| {
        EngineError::Configuration(format!("traffic: this lab has no node \"{name}\""))
    })
}

fn pair(
    blueprint: &Blueprint,
    from: &Name,
    to: &Destination,
    family: Family,
) -> Result<Pair, EngineError> {
    Pair::new(blueprint, from, to, family).ok_or_else(|| {
        EngineError::Configuration(format!(
            "traffic: this lab has no path from \"{from}\" to \"{to}\""
        ))
    })
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

fn plan_ping(blueprint: &Blueprint, ping: &Ping, seconds: f64) -> Result<FlowPlan, EngineError> {
    let ends = pair(blueprint, &ping.from, &ping.to, ping.family)?;
    let interval = format!("{}", ping.interval.seconds());
    // An interrupt ends ping at the flow's end, with a summary. The flag -w would end it at the first ICMP
    // "unreachable" from a router, for example during a handover.
    let length = format!("{seconds}");
    let size = ping.size.bytes().to_string();
    let goal = ends.goal(blueprint).to_string();
    // `-D` prints arrival times, and `-n` avoids name look-ups, which nodes cannot do.
    let argv = words(&[
        "timeout",
        "--preserve-status",
        "-s",
        "INT",
        &length,
        "ping",
        "-D",
        "-n",
        "-i",
        &interval,
        "-s",
        &size,
        &goal,
    ]);
    Ok(FlowPlan {
        server: None,
        client: Launch {
            node: ends.from,
            argv,
        },
        zero_flag: None,
        apart_flag: None,
        ends: Some(ends),
    })
}

fn plan_probe(
    blueprint: &Blueprint,
    ping: &Ping,
    port: u16,
    length: TimeSpan,
) -> Result<FlowPlan, EngineError> {
    let ends = pair(blueprint, &ping.from, &ping.to, ping.family)?;
    let Pair { from, to, .. } = ends;
    let goal = SocketAddr::new(ends.goal(blueprint), port).to_string();
    // All times are nanoseconds, so that nothing is rounded.
    let argv = words(&[
        PROBE,
        "probe",
        "ask",
        &goal,
        "--interval-ns",
        &ping.interval.ns().to_string(),
        "--length-ns",
        &length.ns().to_string(),
        "--size",
        &ping.size.bytes().to_string(),
    ]);
    Ok(FlowPlan {
        server: Some(Server {
            launch: Launch {
                node: to,
                argv: words(&[PROBE, "probe", "answer", &goal]),
            },
            ready: Ready::Says(constel_measure::probe::LISTENING),
            files: Vec::new(),
        }),
        client: Launch { node: from, argv },
        zero_flag: Some("--zero-ns"),
        apart_flag: Some("--apart"),
        ends: Some(ends),
    })
}

fn plan_iperf3(
    blueprint: &Blueprint,
    iperf3: &Iperf3,
    seconds: f64,
) -> Result<FlowPlan, EngineError> {
    let ends = pair(blueprint, &iperf3.from, &iperf3.to, iperf3.family)?;
    let Pair { from, to, .. } = ends;
    // `from` sends in any case. With `reverse` the receiver connects to it.
    let (client, serving, goal) = match iperf3.reverse {
        false => (from, to, ends.goal(blueprint)),
        true => (to, from, ends.source(blueprint)),
    };
    let goal = goal.to_string();
    let port = iperf3.port.to_string();
    let length = format!("{}", seconds as u64);
    // `-1` ends the server after one client, and `-B` binds it to the address of the flow.
    let server = words(&["iperf3", "-s", "-1", "-p", &port, "-B", &goal]);
    let mut argv = words(&[
        "iperf3",
        "-c",
        &goal,
        "-p",
        &port,
        "-t",
        &length,
        "-J",
        "--connect-timeout",
        "5000",
    ]);
    match &iperf3.transport {
        Transport::Tcp { congestion } => argv.extend(words(&["-C", congestion])),
        Transport::Udp { rate } => {
            // 1200 bytes pass every link, with space for tunnels; iperf3's default would be fragmented with IPv6.
            argv.extend(words(&["-u", "-b", &rate.bps().to_string(), "-l", "1200"]));
        }
    }
    if iperf3.reverse {
        argv.push("-R".to_owned());
    }
    Ok(FlowPlan {
        server: Some(Server {
            launch: Launch {
                node: serving,
                argv: server,
            },
            ready: Ready::TcpPort(iperf3.port),
            files: Vec::new(),
        }),
        client: Launch { node: client, argv },
        zero_flag: None,
        apart_flag: None,
        ends: Some(ends),
    })
}

fn plan_http(
    blueprint: &Blueprint,
    http: &Http,
    seconds: f64,
    dir: &Path,
) -> Result<FlowPlan, EngineError> {
    let ends = pair(blueprint, &http.from, &http.to, http.family)?;
    // The sender is the server.
    let Pair { from, to, .. } = ends;
    let host = match ends.source(blueprint) {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => format!("[{v6}]"),
    };
    let config = dir.join("nginx.conf");
    let place = dir.display();
    // Everything is below the flow's own folder, because several servers run on one host with the same file system.
    let text = format!(
        "daemon off;\nmaster_process off;\nuser root;\npid {place}/nginx.pid;\n\
         error_log {place}/error.log;\nevents {{ worker_connections 64; }}\n\
         http {{\n  access_log off;\n  client_body_temp_path {place}/tmp;\n  proxy_temp_path {place}/tmp;\n  \
         fastcgi_temp_path {place}/tmp;\n  uwsgi_temp_path {place}/tmp;\n  scgi_temp_path {place}/tmp;\n  \
         server {{ listen {host}:{port}; root {place}/www; }}\n}}\n",
        port = http.port,
    );
    let server = words(&[
        "nginx",
        "-p",
        &place.to_string(),
        "-e",
        &format!("{place}/error.log"),
        "-c",
        &config.display().to_string(),
    ]);
    let url = format!("http://{host}:{}/file", http.port);
    let limit = format!("{seconds}");
    // `%{json}` prints all timings of the download in one line.
    let argv = words(&[
        "curl",
        "-sS",
        "-o",
        "/dev/null",
        "--max-time",
        &limit,
        "--write-out",
        "%{json}\\n",
        &url,
    ]);
    Ok(FlowPlan {
        server: Some(Server {
            launch: Launch {
                node: from,
                argv: server,
            },
            ready: Ready::TcpPort(http.port),
            files: vec![
                (config, Content::Text(text)),
                (dir.join("www/file"), Content::Zeros(http.size.bytes())),
            ],
        }),
        client: Launch { node: to, argv },
        zero_flag: None,
        apart_flag: None,
        ends: Some(ends),
    })
}

fn plan_transfer(
    blueprint: &Blueprint,
    transfer: &Transfer,
    seconds: f64,
    records: &Path,
) -> Result<FlowPlan, EngineError> {
    let ends = pair(blueprint, &transfer.from, &transfer.to, transfer.family)?;
    let Pair { from, to, .. } = ends;
    // The sender is the server, from which the receiver fetches.
    let goal = SocketAddr::new(ends.source(blueprint), transfer.port).to_string();
    let (transport, both, server_only) = match &transfer.over {
        TransferProtocol::Leotp(settings) => ("leotp", settings.arguments(), Vec::new()),
        TransferProtocol::Tcp { congestion } => {
            ("tcp", Vec::new(), words(&["--congestion", congestion]))
        }
        TransferProtocol::Vivace => {
            let seed = blueprint.lab.scenario.seed.to_string();
            ("vivace", Vec::new(), words(&["--seed", &seed]))
        }
    };
    let mut server = words(&[TRANSFER, "serve", transport, "--listen", &goal]);
    let length = seconds.to_string();
    let mut client = words(&[TRANSFER, "fetch", transport, &goal, "--time", &length]);
    // Both ends get the size: the sender ends its stream there, and the receiver its transfer.
    if let Some(size) = transfer.size {
        let size = words(&["--bytes", &size.bytes().to_string()]);
        server.extend(size.clone());
        client.extend(size);
    }
    // Times of records are written on request only: one line for every 1400 bytes of payload.
    if transfer.records {
        client.extend(words(&["--records", &records.display().to_string()]));
    }
    server.extend(both.iter().cloned().chain(server_only));
    client.extend(both);
    Ok(FlowPlan {
        server: Some(Server {
            launch: Launch {
                node: from,
                argv: server,
            },
            ready: Ready::Says("listening on"),
            files: Vec::new(),
        }),
        client: Launch {
            node: to,
            argv: client,
        },
        zero_flag: None,
        apart_flag: Some("--apart"),
        ends: Some(ends),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::blueprint;

    #[test]
    fn from_sends_and_to_receives_in_every_kind_of_flow() {
        let text = "constel: 1
name: ends
start: 2026-11-21T00:00:00Z
duration: 30 s
ground:
  hosts:
    a: {latitude: 0 deg, longitude: 0 deg}
    b: {latitude: 0 deg, longitude: 0 deg}
  cables:
    - {from: a, to: b, delay: 1 ms, link: {rate: 1 Gbit/s}}
routing: {mode: computed, destinations: all}
traffic:
  - {name: iperf3, at: 0 s, for: 5 s, iperf3: {from: a, to: b}}
  - {name: asked, at: 0 s, for: 5 s, iperf3: {from: a, to: b, reverse: true}}
  - {name: tcp, at: 0 s, for: 5 s, tcp: {from: a, to: b}}
  - {name: http, at: 0 s, for: 5 s, http: {from: a, to: b, size: 1 MB}}
  - {name: leotp, at: 0 s, for: 5 s, leotp: {from: a, to: b}}
  - {name: vivace, at: 0 s, for: 5 s, vivace: {from: a, to: b}}
  - {name: udp, at: 0 s, for: 5 s, iperf3: {from: a, to: b, protocol: udp, rate: 1 Mbit/s}}
  - {name: udp-asked, at: 0 s, for: 5 s, iperf3: {from: a, to: b, protocol: udp, rate: 1 Mbit/s, reverse: true}}
  - {name: probe, at: 0 s, for: 5 s, ping: {from: a, to: b}}
";
        let blueprint = blueprint(text);
        let id = |name| blueprint.lab.layout.find(name).unwrap().id;
        let (a, b) = (id("a"), id("b"));
        for flow in &blueprint.lab.scenario.traffic {
            let name = flow.name.as_str();
            let plan = plan(&blueprint, flow, Path::new("dir"), Path::new("records")).unwrap();
            let (client, server) = (plan.client, plan.server.unwrap().launch);
            // The client of iperf3 sends unless it asks its server to, and a client of echoes sends as well; all others download.
            let client_sends = ["iperf3", "udp", "probe"].contains(&name);
            let (sender, receiver) = match client_sends {
                true => (client.node, server.node),
                false => (server.node, client.node),
            };
            assert_eq!((sender, receiver), (a, b), "{name}");
            assert_eq!(
                client.argv.contains(&"-R".to_owned()),
                name.ends_with("asked")
            );
            // The client goes to its server's address.
            let goal = blueprint.addresses.loopback(server.node).v4.to_string();
            let words = client.argv.join(" ");
            assert!(words.contains(&goal), "{name}: {words}");
            let ends = plan.ends.unwrap();
            assert_eq!((ends.from, ends.to), (a, b), "{name}");
        }
    }
}
