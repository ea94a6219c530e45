//! Flows and commands.

use constel_units::{DataRate, DataSize, TimeSpan};

use super::{Destination, Family, Name, Transfer, TransferProtocol};

/// Software that runs at a stated time.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// The flow's name, unique in the scenario.
    pub name: Name,
    /// Start, lab time.
    pub at: TimeSpan,
    /// How long it may run; `at + length <= duration`.
    pub length: TimeSpan,
    /// The kind of the flow.
    pub action: Action,
}

impl Flow {
    /// When it is over at the latest, lab time.
    pub fn end(&self) -> TimeSpan {
        TimeSpan::from_ns(self.at.ns() + self.length.ns())
    }

    /// The node and port of its server; `None`: it has none.
    pub fn server(&self) -> Option<(&Name, u16)> {
        match &self.action {
            Action::Ping(ping) => match ping.tool {
                PingTool::Probe { port } => Some((&ping.to.node, port)),
                PingTool::Ping => None,
            },
            Action::Iperf3(iperf3) if iperf3.reverse => Some((&iperf3.from, iperf3.port)),
            Action::Iperf3(iperf3) => Some((&iperf3.to.node, iperf3.port)),
            Action::Http(http) => Some((&http.from, http.port)),
            Action::Transfer(transfer) => Some((&transfer.from, transfer.port)),
            Action::Run(_) => None,
        }
    }

    /// Has its server listen on another port; without a server nothing changes.
    pub fn set_server_port(&mut self, to: u16) {
        match &mut self.action {
            Action::Ping(ping) => {
                if let PingTool::Probe { port } = &mut ping.tool {
                    *port = to;
                }
            }
            Action::Iperf3(iperf3) => iperf3.port = to,
            Action::Http(http) => http.port = to,
            Action::Transfer(transfer) => transfer.port = to,
            Action::Run(_) => {}
        }
    }

    /// Port of its TCP server; `None`: it has none.
    pub fn tcp_port(&self) -> Option<u16> {
        match &self.action {
            Action::Iperf3(iperf3) if matches!(iperf3.transport, Transport::Tcp { .. }) => {
                Some(iperf3.port)
            }
            Action::Http(http) => Some(http.port),
            Action::Transfer(transfer) if matches!(transfer.over, TransferProtocol::Tcp { .. }) => {
                Some(transfer.port)
            }
            _ => None,
        }
    }
}

/// The kind of a flow, with its settings.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Echo requests.
    Ping(Ping),
    /// iperf3 client and server.
    Iperf3(Iperf3),
    /// HTTP download.
    Http(Http),
    /// A measured download over a transport of choice.
    Transfer(Transfer),
    /// A command.
    Run(Run),
}

impl Action {
    /// The nodes of [`Action::way`].
    pub fn ends(&self) -> Option<(&Name, &Name)> {
        self.way().map(|(from, to)| (from, &to.node))
    }

    /// Returns the sender and the destination; for a ping the node that sends the requests and the one that
    /// answers. `None` for a command.
    pub fn way(&self) -> Option<(&Name, &Destination)> {
        match self {
            Action::Ping(flow) => Some((&flow.from, &flow.to)),
            Action::Iperf3(flow) => Some((&flow.from, &flow.to)),
            Action::Http(flow) => Some((&flow.from, &flow.to)),
            Action::Transfer(flow) => Some((&flow.from, &flow.to)),
            Action::Run(_) => None,
        }
    }
}

/// Echo requests from one node to another.
#[derive(Debug, Clone, PartialEq)]
pub struct Ping {
    /// Who asks.
    pub from: Name,
    /// The node that answers; another node than `from`.
    pub to: Destination,
    /// Time between two requests, 2 ms to 1 h.
    pub interval: TimeSpan,
    /// Internet protocol, one of the scenario's.
    pub family: Family,
    /// Payload, 16 to 65,000 bytes.
    pub size: DataSize,
    /// The program that sends the requests.
    pub tool: PingTool,
}

/// A program that sends echo requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PingTool {
    /// Constel's own.
    Probe {
        /// The UDP port of the node that answers; no other flow's server on that node has it.
        port: u16,
    },
    /// The host's, over ICMP.
    Ping,
}

/// An iperf3 client and its server. `Flow::length` is a whole number of seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Iperf3 {
    /// The sender.
    pub from: Name,
    /// The receiver; another node than `from`.
    pub to: Destination,
    /// The traffic that is sent.
    pub transport: Transport,
    /// The receiver is the client; otherwise the sender is.
    pub reverse: bool,
    /// Internet protocol, one of the scenario's.
    pub family: Family,
    /// The server's port; no other flow's server on that node has it.
    pub port: u16,
}

/// The traffic that an iperf3 flow sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// TCP with this congestion control.
    Tcp {
        /// Name of a congestion control module; whether the kernel has it is for the host to say.
        congestion: String,
    },
    /// UDP at this rate of payload.
    Udp {
        /// At least 1 kbit/s.
        rate: DataRate,
    },
}

/// An HTTP download.
#[derive(Debug, Clone, PartialEq)]
pub struct Http {
    /// The server, which sends.
    pub from: Name,
    /// The client, which downloads; another node than `from`.
    pub to: Destination,
    /// Size of the file, at least 1 byte.
    pub size: DataSize,
    /// Internet protocol, one of the scenario's.
    pub family: Family,
    /// The server's port; no other flow's server on that node has it.
    pub port: u16,
}

/// A command in a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The node.
    pub node: Name,
    /// Program and arguments; at least the program, not empty.
    pub command: Vec<String>,
}
