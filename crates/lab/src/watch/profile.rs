//! What all interfaces of all nodes have counted, many times a second, as columns: files of 64-bit numbers, little-endian, one number
//! for each interface and instant, instants one after the other. They are the kernel's own counters, so that a difference is
//! exactly what it counted in between.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use constel_host::netlink::{LinkCounters, Socket};
use constel_host::netns::NetNs;
use constel_topology::NodeId;

use crate::clock::LabClock;
use crate::error::EngineError;
use crate::nodes::kernels::Kernels;

/// A counter's name, and where it is.
type Column = (&'static str, fn(&LinkCounters) -> u64);

/// The columns, in files called like them, and what stands in them.
const COLUMNS: [Column; 6] = [
    ("rx_packets", |c| c.rx_packets),
    ("tx_packets", |c| c.tx_packets),
    ("rx_bytes", |c| c.rx_bytes),
    ("tx_bytes", |c| c.tx_bytes),
    ("rx_dropped", |c| c.rx_dropped),
    ("tx_dropped", |c| c.tx_dropped),
];

/// What is counted of each interface, in the order of the columns; the files are called like that.
pub fn counter_names() -> impl Iterator<Item = &'static str> {
    COLUMNS.iter().map(|(name, _)| *name)
}

/// Interfaces that are looked at together.
struct Kernel {
    socket: Socket,
    /// Indices of its interfaces, in the order of the columns.
    ports: Vec<u32>,
}

/// A profile on its way to the results.
pub(crate) struct Profile {
    kernels: Vec<Kernel>,
    every: Duration,
    times: BufWriter<File>,
    columns: Vec<BufWriter<File>>,
}

impl Profile {
    /// Makes the folder `interfaces` of the results and opens a way to every node's kernel.
    ///
    /// # Errors
    /// What the host refuses.
    pub(crate) fn begin(
        kernels: &Kernels,
        results: &Path,
        hz: NonZeroU32,
    ) -> Result<Self, EngineError> {
        let layout = &kernels.blueprint.lab.layout;
        let mut index = String::from("place,node,port\n");
        let (mut all, mut place) = (Vec::new(), 0);
        for (number, node) in kernels.nodes.iter().enumerate() {
            let id = NodeId(number as u32);
            if kernels.blueprint.lab.forwards(id) || !kernels.ours.has(id) {
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
            let name = &layout.node(NodeId(number as u32)).name;
            for (_, port) in &ports {
                // A String takes whatever comes.
                let _ = writeln!(index, "{place},{name},{port}");
                place += 1;
            }
            let ports = ports.into_iter().map(|(ifindex, _)| ifindex).collect();
            all.push(Kernel { socket, ports });
        }
        let folder = results.join("interfaces");
        let files = || -> io::Result<_> {
            fs::create_dir(&folder)?;
            fs::write(folder.join("index.csv"), index)?;
            let file = |name: &str| File::create_new(folder.join(name)).map(BufWriter::new);
            let columns = counter_names().map(|name| file(&format!("{name}.u64")));
            Ok((file("t_ns.i64")?, columns.collect::<io::Result<_>>()?))
        };
        let (times, columns) = files().map_err(|source| EngineError::Io {
            what: format!("make {}", folder.display()),
            source,
        })?;
        Ok(Self {
            kernels: all,
            every: Duration::from_secs(1) / hz.get(),
            times,
            columns,
        })
    }

    /// Looks and writes from lab time zero until `over`, and once more then.
    ///
    /// # Errors
    /// When a kernel does not answer, or the files cannot be written.
    pub(crate) fn run(mut self, clock: &LabClock, over: &AtomicBool) -> Result<(), EngineError> {
        let mut next_ns = 0;
        loop {
            let last = over.load(Ordering::Acquire);
            if let Some(t_ns) = clock.now_ns() {
                if t_ns >= next_ns || last {
                    self.look(t_ns)?;
                    let every_ns = self.every.as_nanos() as u64;
                    next_ns = (t_ns / every_ns + 1) * every_ns;
                }
                if last {
                    return self.finish();
                }
                let left =
                    Duration::from_nanos(next_ns.saturating_sub(clock.now_ns().unwrap_or(next_ns)));
                clock.sleep(left.min(self.every));
            } else if last {
                return self.finish();
            } else {
                clock.sleep(Duration::from_millis(1));
            }
        }
    }

    fn look(&mut self, t_ns: u64) -> Result<(), EngineError> {
        let failed = |source| EngineError::Io {
            what: "write interfaces".to_owned(),
            source,
        };
        self.times
            .write_all(&(t_ns as i64).to_le_bytes())
            .map_err(failed)?;
        for kernel in &mut self.kernels {
            let seen = kernel.socket.link_counters()?;
            for ifindex in &kernel.ports {
                let counters = seen.iter().find(|c| c.ifindex == *ifindex).copied();
                let counters = counters.unwrap_or_default();
                for ((_, value), file) in COLUMNS.iter().zip(&mut self.columns) {
                    file.write_all(&value(&counters).to_le_bytes())
                        .map_err(failed)?;
                }
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), EngineError> {
        let files = std::iter::once(&mut self.times).chain(&mut self.columns);
        for file in files {
            file.flush().map_err(|source| EngineError::Io {
                what: "write interfaces".to_owned(),
                source,
            })?;
        }
        Ok(())
    }
}
