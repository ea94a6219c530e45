//! The counters of interfaces: one number for each interface and instant, instants one after the other. These are
//! the kernel's own counters, so that a difference is exactly what it counted in between.

use std::fmt::Write as _;
use std::path::Path;

use constel_host::netlink::{LinkCounters, Socket};
use constel_host::netns::NetNs;
use constel_scenario::model::{SampleMetric, Sampling};
use constel_topology::NodeId;

use super::columns::Columns;
use crate::error::EngineError;
use crate::nodes::kernels::Kernels;

/// Returns the kernel's counter for a metric; `None` for a metric that interfaces do not have.
fn counter(metric: SampleMetric) -> Option<fn(&LinkCounters) -> u64> {
    match metric {
        SampleMetric::RxPackets => Some(|c| c.rx_packets),
        SampleMetric::TxPackets => Some(|c| c.tx_packets),
        SampleMetric::RxBytes => Some(|c| c.rx_bytes),
        SampleMetric::TxBytes => Some(|c| c.tx_bytes),
        SampleMetric::RxDropped => Some(|c| c.rx_dropped),
        SampleMetric::TxDropped => Some(|c| c.tx_dropped),
        _ => None,
    }
}

/// Interfaces that are sampled together.
struct Kernel {
    socket: Socket,
    /// The indices of its interfaces, in the order of the columns.
    ports: Vec<u32>,
}

pub(super) struct Interfaces {
    kernels: Vec<Kernel>,
    counters: Vec<fn(&LinkCounters) -> u64>,
    /// The columns: the time, then the counters.
    columns: Columns,
}

impl Interfaces {
    pub(super) fn begin(
        wanted: &Sampling,
        kernels: &Kernels,
        results: &Path,
    ) -> Result<Self, EngineError> {
        let layout = &kernels.blueprint.lab.layout;
        let mut index = String::from("place,node,port\n");
        let (mut all, mut place) = (Vec::new(), 0);
        for (number, node) in kernels.nodes.iter().enumerate() {
            let id = NodeId(number as u32);
            let name = &layout.node(id).name;
            // Nodes without a stack have no interfaces, and other machines sample their own nodes.
            let has_stack = !kernels.blueprint.lab.forwards(id) && kernels.ours().has(id);
            if !has_stack || !wanted.has_interfaces(name) {
                continue;
            }
            let ns = NetNs::open(node.netns_path())?;
            let mut socket = Socket::open_in(&ns)?;
            let mut ports: Vec<(u32, String)> = socket
                .links()?
                .into_iter()
                .map(|l| (l.ifindex, l.name))
                .collect();
            ports.sort_unstable();
            for (_, port) in &ports {
                // Writing to a String does not fail.
                let _ = writeln!(index, "{place},{name},{port}");
                place += 1;
            }
            let ports = ports.into_iter().map(|(ifindex, _)| ifindex).collect();
            all.push(Kernel { socket, ports });
        }
        let names: Vec<String> = wanted
            .of_interfaces()
            .map(|metric| format!("{}.u64", metric.as_str()))
            .collect();
        let names = std::iter::once("t_ns.i64").chain(names.iter().map(String::as_str));
        Ok(Self {
            kernels: all,
            counters: wanted.of_interfaces().filter_map(counter).collect(),
            columns: Columns::create("interfaces", results, ("index.csv", &index), names)?,
        })
    }

    pub(super) fn look(&mut self, t_ns: u64) -> Result<(), EngineError> {
        self.columns.put(0, t_ns)?;
        for kernel in &mut self.kernels {
            let seen = kernel.socket.link_counters()?;
            for ifindex in &kernel.ports {
                // A deleted interface counts as zero, so that the rows keep their length.
                let counters = seen.iter().find(|c| c.ifindex == *ifindex).copied();
                let counters = counters.unwrap_or_default();
                for (column, counter) in self.counters.iter().enumerate() {
                    self.columns.put(1 + column, counter(&counters))?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<(), EngineError> {
        self.columns.finish()
    }
}
