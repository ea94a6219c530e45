//! The interface of every link driver: [`Plane`] before it runs, [`Links`] while it runs.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use constel_host::netns::NetNs;
use constel_link::medium::Counters;
use constel_link::{EdgeStats, EdgeUpdate, EffectsChange, Nanos, PlaneReport, PortId};

use crate::error::Result;
use crate::ports::host_ifindex;
use crate::relay::{Arrival, Captured, External, FarPorts, TransitCounts};
use crate::stats::{ClassLateness, LateSpells, Stall};
use crate::tap::{TapFilter, Tapping};
use crate::update::{Applied, KnownEffects, PendingUpdate};
use crate::{Capabilities, DriverKind};

/// The namespaces, programs and memory of a driver.
///
/// The creator of ports makes a veth pair for each. Its host end has the name `h<port>` and the index
/// [`Plane::host_ifindex`], is in the namespace [`Plane::shard_ns`], and is up. The node's end must have the address
/// [`constel_link::mac_of`] and send no super-frames ([`crate::relay::send_single_frames`]). Then [`Plane::attach`] is
/// called.
pub trait Plane: fmt::Debug + Send + Sync {
    /// Returns the driver's kind.
    fn kind(&self) -> DriverKind;

    /// Returns the driver's capabilities.
    fn capabilities(&self) -> Capabilities {
        self.kind().capabilities()
    }

    /// Returns the namespace in which the host end of this port must be.
    ///
    /// # Errors
    /// When the driver was made for fewer ports, or has no namespaces.
    fn shard_ns(&self, port: PortId) -> Result<&NetNs>;

    /// Returns the index that the host end of this port must have there.
    ///
    /// # Errors
    /// As [`Plane::shard_ns`].
    fn host_ifindex(&self, port: PortId) -> Result<u32> {
        Ok(host_ifindex(port))
    }

    /// Takes these ports into the link plane; their host ends exist. Several threads may call it.
    ///
    /// # Errors
    /// The first interface that does not exist, or another refusal of the kernel.
    fn attach(&self, ports: &[PortId]) -> Result<()>;

    /// Takes interfaces of the host *of the calling thread's namespace*, before the start. Each is one of the plane's
    /// ports, and sends the frames of edges that lead to it.
    ///
    /// # Errors
    /// [`DriverError::Unsupported`] by drivers that support nodes only; the kernel's refusal.
    ///
    /// [`DriverError::Unsupported`]: crate::DriverError::Unsupported
    fn take_interfaces(&self, interfaces: &[External]) -> Result<()> {
        refuse_interfaces(interfaces).map(|_| ())
    }

    /// Captures frames that come in at these interfaces, while the driver runs and until the returned value is dropped.
    /// The frames take the edges of the interfaces' ports.
    ///
    /// # Errors
    /// As [`Plane::take_interfaces`].
    fn let_in(&self, interfaces: &[External]) -> Result<Captured> {
        refuse_interfaces(interfaces)
    }

    /// Sets the carrier of frames for these ports, before the start: their nodes are on another machine.
    ///
    /// # Errors
    /// [`DriverError::Unsupported`] by drivers whose frames stay in the kernel; [`DriverError::NoSuchPort`].
    ///
    /// [`DriverError::Unsupported`]: crate::DriverError::Unsupported
    /// [`DriverError::NoSuchPort`]: crate::DriverError::NoSuchPort
    fn far(&self, _far: FarPorts) -> Result<()> {
        Err(no_machines())
    }

    /// Starts moving frames.
    ///
    /// # Errors
    /// [`DriverError::Started`] the second time; otherwise the kernel's refusal.
    ///
    /// [`DriverError::Started`]: crate::DriverError::Started
    fn start(&self) -> Result<Arc<dyn Links>>;

    /// Returns the number of frames that nodes have sent so far and that did not reach the driver.
    ///
    /// # Errors
    /// When the kernel's counters cannot be read.
    fn lost_before_capture(&self) -> Result<u64>;

    /// Returns the driver's own namespaces, for tools that inspect them.
    fn namespaces(&self) -> Vec<BorrowedFd<'_>>;
}

/// Returns the error of drivers whose frames stay in the kernel.
fn no_machines() -> crate::DriverError {
    let error = "only the driver relay carries frames between machines";
    crate::DriverError::Unsupported(vec![error.to_owned()])
}

/// Refuses interfaces, unless the list is empty.
fn refuse_interfaces(interfaces: &[External]) -> Result<Captured> {
    if interfaces.is_empty() {
        return Ok(Captured::default());
    }
    let error = "only the driver relay takes interfaces of the host";
    Err(crate::DriverError::Unsupported(vec![error.to_owned()]))
}

/// The edges of a running driver. It ends when its last owner drops it.
///
/// All methods may be called by any thread. Once the driver has been stopped, all methods that need its thread return
/// [`DriverError::Stopped`].
///
/// [`DriverError::Stopped`]: crate::DriverError::Stopped
pub trait Links: fmt::Debug + Send + Sync {
    /// Changes edges at one instant (for drivers that declare `atomic_updates`): at `at_mono_ns` (`CLOCK_MONOTONIC`),
    /// or at once when that is `None` or past. Waits until the change has taken effect.
    ///
    /// # Errors
    /// [`DriverError::Update`] or [`DriverError::Unsupported`] with all errors of the update; no change was applied.
    ///
    /// [`DriverError::Update`]: crate::DriverError::Update
    /// [`DriverError::Unsupported`]: crate::DriverError::Unsupported
    fn apply(&self, update: EdgeUpdate, at_mono_ns: Option<Nanos>) -> Result<Applied> {
        self.submit(update, at_mono_ns)?.wait()
    }

    /// Does the same as [`Links::apply`] without waiting. Values are checked before this returns.
    ///
    /// # Errors
    /// All errors in the values.
    fn submit(&self, update: EdgeUpdate, at_mono_ns: Option<Nanos>) -> Result<PendingUpdate>;

    /// Changes effects of ports and edges, at once. They remain whatever updates do to the edges. Returns the instant
    /// (`CLOCK_MONOTONIC`): frames that arrived before it got the old effects.
    ///
    /// # Errors
    /// [`DriverError::Effects`] or [`DriverError::Unsupported`] with all errors of the effects; no change was made.
    ///
    /// [`DriverError::Effects`]: crate::DriverError::Effects
    /// [`DriverError::Unsupported`]: crate::DriverError::Unsupported
    fn apply_effects(&self, changes: Vec<EffectsChange>) -> Result<Nanos>;

    /// Returns the effects of an edge, existing or not.
    ///
    /// # Errors
    /// When the driver has been stopped.
    fn effects(&self, from: PortId, to: PortId) -> Result<KnownEffects>;

    /// Returns the driver's counters. For drivers that count by themselves the cost does not depend on the number of
    /// edges.
    ///
    /// # Errors
    /// When the driver has been stopped, or the kernel's counters cannot be read.
    fn snapshot(&self) -> Result<PlaneReport>;

    /// Returns the number of frames that this port lost because it flooded and held its share of the driver's memory;
    /// `None` for drivers that leave that to the kernel's queues. The call does not interrupt the driver.
    ///
    /// # Errors
    /// [`DriverError::NoSuchPort`], from drivers that count these frames.
    ///
    /// [`DriverError::NoSuchPort`]: crate::DriverError::NoSuchPort
    fn dropped_share(&self, _port: PortId) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Returns the counters of a node without a stack, by its place in [`PlaneConfig::transit`](crate::PlaneConfig);
    /// `None` for drivers that do not forward, and if there is no such node.
    ///
    /// # Errors
    /// When the driver has been stopped.
    fn transit(&self, _member: u32) -> Result<Option<TransitCounts>> {
        Ok(None)
    }

    /// Returns the counters of all nodes without a stack, in their order. They are read in portions, so that no frame
    /// waits for all.
    ///
    /// # Errors
    /// When the driver has been stopped.
    fn all_transit(&self) -> Result<Vec<TransitCounts>> {
        Ok(Vec::new())
    }

    /// Returns the statistics of one edge, existing or past; `None` if it never existed. Only the relay knows how many
    /// frames are inside an edge; the other drivers count a frame as delivered when it has its departure time.
    ///
    /// # Errors
    /// When the driver has been stopped, or the kernel's counters cannot be read.
    fn edge_stats(&self, from: PortId, to: PortId) -> Result<Option<EdgeStats>>;

    /// Returns all existing edges, sorted. They are read in portions between frames, so not all at one instant.
    ///
    /// # Errors
    /// When the driver has been stopped, or the kernel's counters cannot be read.
    fn all_edges(&self) -> Result<Vec<EdgeStats>>;

    /// Resets the lateness and the stalls recorded so far.
    ///
    /// # Errors
    /// When the driver has been stopped, or the kernel's counters cannot be read.
    fn clear_lateness(&self) -> Result<()>;

    /// Records the lateness of edges separately by class, for drivers that can: `class_of` has for every port the index
    /// in `names` of the class of edges that leave it.
    ///
    /// # Errors
    /// When a port is of a class without a name, or the driver has been stopped.
    fn classify(&self, _names: Vec<String>, _class_of: Vec<u8>) -> Result<()> {
        Ok(())
    }

    /// Returns the lateness by class since the start or the last [`Links::clear_lateness`]; empty for drivers that do
    /// not separate classes.
    ///
    /// # Errors
    /// When the driver has been stopped.
    fn lateness_by_class(&self) -> Result<Vec<ClassLateness>> {
        Ok(Vec::new())
    }

    /// Sets how much later than due a frame must leave to count as late for [`Links::late_spells`]; default: 1 ms.
    ///
    /// # Errors
    /// When the driver has been stopped.
    fn late_beyond(&self, _bound_ns: Nanos) -> Result<()> {
        Ok(())
    }

    /// Returns the periods in which frames to a port left late since the last call: at most the latest 16,384 spells.
    /// `None` for drivers that do not measure this.
    ///
    /// # Errors
    /// When the driver has been stopped.
    fn late_spells(&self) -> Result<Option<LateSpells>> {
        Ok(None)
    }

    /// Returns when the machine kept the driver from running since the start or the last [`Links::clear_lateness`]: the
    /// latest 8,192 times. Empty for drivers that do not measure this.
    ///
    /// # Errors
    /// When the driver has been stopped.
    fn stalls(&self) -> Result<Vec<Stall>> {
        Ok(Vec::new())
    }

    /// Returns the counters of the ports of each channel of [`PlaneConfig::channels`](crate::PlaneConfig), in its
    /// order; empty for drivers without channels.
    ///
    /// # Errors
    /// When the driver has been stopped.
    fn channels(&self) -> Result<Vec<Vec<Counters>>> {
        Ok(Vec::new())
    }

    /// Taps frames as they pass, from now on.
    ///
    /// # Errors
    /// [`DriverError::Unsupported`] by drivers whose frames stay in the kernel; when the driver has been stopped.
    ///
    /// [`DriverError::Unsupported`]: crate::DriverError::Unsupported
    fn tap(&self, _wanted: TapFilter) -> Result<Tapping> {
        let error = "only the driver relay sees frames as they pass; in a node, tcpdump does";
        Err(crate::DriverError::Unsupported(vec![error.to_owned()]))
    }

    /// Delivers frames that came from far ports, at the instants at which they are due. Frames for which there is no
    /// room are counted (`no_buffer`), and those of an impossible size too (`size`).
    ///
    /// # Errors
    /// [`DriverError::NoSuchPort`], and [`DriverError::Unsupported`] for a frame that does not go from a far port to a
    /// local one: then no frame is taken. [`DriverError::Stopped`].
    ///
    /// [`DriverError::NoSuchPort`]: crate::DriverError::NoSuchPort
    /// [`DriverError::Unsupported`]: crate::DriverError::Unsupported
    /// [`DriverError::Stopped`]: crate::DriverError::Stopped
    fn arrive(&self, _arrivals: Vec<Arrival>) -> Result<()> {
        Err(no_machines())
    }

    /// Makes the nodes of these far ports local from now on: edges to them end at the nodes, whose ports are
    /// [attached](Plane::attach), and no further frames are accepted from them as from far ports. Call it while no edge
    /// leads to or from them.
    ///
    /// # Errors
    /// [`DriverError::NoSuchPort`], and when the driver has been stopped.
    ///
    /// [`DriverError::NoSuchPort`]: crate::DriverError::NoSuchPort
    fn come_home(&self, _ports: &[PortId]) -> Result<()> {
        Err(no_machines())
    }

    /// Ends the driver's thread and waits for it. Frames inside are discarded.
    fn stop(&self);
}
