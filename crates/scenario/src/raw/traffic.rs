//! `traffic`: software that runs in the nodes.

use constel_units::{DataRate, DataSize, TimeSpan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Destination, Family, Name, NodeName, RawLeotp, RawTcp, RawVivace};

/// A flow or command. Exactly one of `ping`, `iperf3`, `http`, `leotp`, `tcp`, `vivace` and `run` gives its
/// kind. `from`, `to` and `node` are names of nodes, or patterns of names with `*` for any characters and `?` for
/// one; `to: each` stands for all nodes that the pattern in `from` matches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Traffic")]
pub struct RawFlow {
    /// Name of the flow in results and events, unique in the scenario.
    pub name: Name,
    /// When it starts, in lab time.
    #[schemars(extend("x-minimum" = "0 s"))]
    pub at: TimeSpan,
    /// The longest time that it may run; it ends within the scenario's `duration`.
    #[serde(rename = "for")]
    #[schemars(extend("x-exclusive-minimum" = "0 s"))]
    pub length: TimeSpan,
    /// The kind of the flow.
    #[serde(flatten)]
    pub kind: RawKind,
}

/// The kind of a flow, with its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RawKind {
    /// Echo requests and their round-trip times.
    Ping(RawPing),
    /// Bulk or constant-rate traffic and its throughput.
    Iperf3(RawIperf3),
    /// A download.
    Http(RawHttp),
    /// A download over LEOTP, with the events on its path.
    Leotp(RawLeotp),
    /// A download over TCP, measured as `leotp` is.
    Tcp(RawTcp),
    /// A download over UDP with PCC Vivace, measured as `leotp` is.
    Vivace(RawVivace),
    /// Any command.
    Run(RawRun),
}

/// Echo requests and their round-trip times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Ping")]
pub struct RawPing {
    /// The node that sends the requests.
    pub from: NodeName,
    /// The node that answers, or its end of a disjoint path (`london.tl.2`).
    pub to: Destination,
    /// Time between two requests.
    #[serde(default = "one_second")]
    #[schemars(extend("x-minimum" = "2 ms", "x-maximum" = "1 h"))]
    pub interval: TimeSpan,
    /// Internet protocol. Default: the first of `routing.families`.
    pub family: Option<Family>,
    /// Bytes of payload in a request, without the headers of UDP or ICMP and of IP.
    #[serde(default = "ping_size")]
    #[schemars(extend("x-minimum" = "16 B", "x-maximum" = "65000 B"))]
    pub size: DataSize,
    /// The program that sends the requests.
    #[serde(default)]
    pub tool: PingTool,
}

/// A program that sends echo requests.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum PingTool {
    /// Constel's own program, over UDP: round-trip and one-way times, to the nanosecond. It also answers in the
    /// far node.
    #[default]
    Probe,
    /// The host's `ping`, over ICMP, which prints round-trip times with three digits: whole milliseconds above
    /// 100 ms.
    Ping,
}

fn one_second() -> TimeSpan {
    TimeSpan::from_ns(1_000_000_000)
}

fn ping_size() -> DataSize {
    DataSize::from_bytes(56)
}

/// Bulk (TCP) or constant-rate (UDP) traffic and its throughput.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Iperf3")]
pub struct RawIperf3 {
    /// The sender.
    pub from: NodeName,
    /// The receiver: a node, or its end of a disjoint path.
    pub to: Destination,
    /// Transport protocol.
    #[serde(default)]
    pub protocol: Protocol,
    /// Congestion control of the sender. Only with `protocol: tcp`; default `cubic`.
    #[schemars(length(min = 1, max = 15))]
    pub congestion: Option<String>,
    /// Rate of the sender's payload. Required with `protocol: udp`, and only there.
    #[schemars(extend("x-minimum" = "1 kbit/s", "x-maximum" = "400 Gbit/s"))]
    pub rate: Option<DataRate>,
    /// The receiver is the client and connects to the sender (`iperf3 -R`). Otherwise the sender connects to the receiver.
    #[serde(default)]
    pub reverse: bool,
    /// Internet protocol. Default: the first of `routing.families`.
    pub family: Option<Family>,
    /// Port of the server. Default: the first free one of the node from 5301 on, which leaves iperf3's own (5201) to the user.
    #[schemars(range(min = 1, max = 65_535))]
    pub port: Option<u16>,
}

/// Transport protocol.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// TCP, at the rate of its congestion control.
    #[default]
    Tcp,
    /// UDP, at a constant rate.
    Udp,
}

/// An HTTP download.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Http")]
pub struct RawHttp {
    /// The server, which sends the file.
    pub from: NodeName,
    /// The client, which receives it: a node, or its end of a disjoint path.
    pub to: Destination,
    /// Size of the file.
    #[schemars(extend("x-minimum" = "1 B", "x-maximum" = "1 TB"))]
    pub size: DataSize,
    /// Internet protocol. Default: the first of `routing.families`.
    pub family: Option<Family>,
    /// Port of the server. Default: the first free one of the node from 8001 on.
    #[schemars(range(min = 1, max = 65_535))]
    pub port: Option<u16>,
}

/// Any command, run in a node without a shell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Run")]
pub struct RawRun {
    /// The node.
    pub node: NodeName,
    /// The program and its arguments. It is ended when `for` is over.
    #[schemars(length(min = 1, max = 1000))]
    pub command: Vec<String>,
}
