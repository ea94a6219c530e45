//! What every link driver offers: [`Plane`] before it runs, [`Links`] while it does.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use constel_host::netns::NetNs;
use constel_link::medium::Counters;
use constel_link::{EdgeStats, EdgeUpdate, EffectsChange, Nanos, PortId};

use crate::error::Result;
use crate::ports::host_ifindex;
use crate::relay::{Arrival, Captured, External, FarPorts, TransitCounts};
use crate::stats::{ClassLateness, LateSpells, PlaneStats, Stall};
use crate::tap::{Tapping, Wanted};
use crate::update::{Applied, KnownEffects, PendingUpdate};
use crate::{Capabilities, DriverKind};

/// The namespaces, programs and memory of a driver.
///
/// Whoever makes the ports creates, for each, a veth pair whose host end is called `h<port>`, has the index
/// [`Plane::host_ifindex`], stands in the namespace [`Plane::shard_ns`] and is up; the node's end must have the address
/// [`constel_link::mac_of`] and send no super-frames ([`crate::relay::send_single_frames`]). Then [`Plane::attach`].
pub trait Plane: fmt::Debug + Send + Sync {
    /// Which driver it is.
    fn kind(&self) -> DriverKind;

    /// What it can do.
    fn capabilities(&self) -> Capabilities {
        self.kind().capabilities()
    }

    /// The namespace in which the host end of this port must stand.
    ///
    /// # Errors
    /// When the driver was made for fewer ports, or has no namespaces.
    fn shard_ns(&self, port: PortId) -> Result<&NetNs>;

    /// The index that the host end of this port must have there.
    ///
    /// # Errors
    /// As [`Plane::shard_ns`].
    fn host_ifindex(&self, port: PortId) -> Result<u32> {
        Ok(host_ifindex(port))
    }

    /// Take these ports into the link plane; their host ends exist. May be called by several threads.
    ///
    /// # Errors
    /// The first interface that does not exist, or what else the kernel refused.
    fn attach(&self, ports: &[PortId]) -> Result<()>;

    /// Take interfaces of the host *of the calling thread's namespace*, before the start: each is one of the plane's ports,
    /// and sends what edges lead to it.
    ///
    /// # Errors
    /// [`DriverError::Unsupported`] by drivers that know nodes only; what the kernel refused.
    ///
    /// [`DriverError::Unsupported`]: crate::DriverError::Unsupported
    fn take_interfaces(&self, interfaces: &[External]) -> Result<()> {
        refuse_interfaces(interfaces).map(|_| ())
    }

    /// Once it runs: from here on, until what is returned is dropped, what comes in at these interfaces takes their edges.
    ///
    /// # Errors
    /// As [`Plane::take_interfaces`].
    fn let_in(&self, interfaces: &[External]) -> Result<Captured> {
        refuse_interfaces(interfaces)
    }

    /// Have frames for these ports taken away by what goes with them, before the start: their nodes are another machine's.
    ///
    /// # Errors
    /// [`DriverError::Unsupported`] by drivers whose frames stay in the kernel; [`DriverError::NoSuchPort`].
    ///
    /// [`DriverError::Unsupported`]: crate::DriverError::Unsupported
    /// [`DriverError::NoSuchPort`]: crate::DriverError::NoSuchPort
    fn far(&self, _far: FarPorts) -> Result<()> {
        Err(no_machines())
    }

    /// Start moving frames.
    ///
    /// # Errors
    /// [`DriverError::Started`] the second time; else what the kernel refused.
    ///
    /// [`DriverError::Started`]: crate::DriverError::Started
    fn start(&self) -> Result<Arc<dyn Links>>;

    /// Frames that nodes have sent so far and that did not reach the driver.
    ///
    /// # Errors
    /// When the kernel does not tell.
    fn lost_before_capture(&self) -> Result<u64>;

    /// The driver's own namespaces, for tools that look inside.
    fn namespaces(&self) -> Vec<BorrowedFd<'_>>;
}

/// What drivers say whose frames stay in the kernel.
fn no_machines() -> crate::DriverError {
    let error = "only the driver relay carries frames between machines";
    crate::DriverError::Unsupported(vec![error.to_owned()])
}

/// Nothing, if nothing is asked for.
fn refuse_interfaces(interfaces: &[External]) -> Result<Captured> {
    if interfaces.is_empty() {
        return Ok(Captured::default());
    }
    let error = "only the driver relay takes interfaces of the host";
    Err(crate::DriverError::Unsupported(vec![error.to_owned()]))
}

/// The edges of a running driver. It ends when the last who shares it lets go.
///
/// All methods may be called by any thread. Once it has been stopped, all of them that ask its thread give
/// [`DriverError::Stopped`].
///
/// [`DriverError::Stopped`]: crate::DriverError::Stopped
pub trait Links: fmt::Debug + Send + Sync {
    /// Change edges in one instant (for drivers that declare `atomic_updates`): at `at_mono_ns` (`CLOCK_MONOTONIC`),
    /// or at once when that is `None` or past. Waits until it has taken effect.
    ///
    /// # Errors
    /// [`DriverError::Update`] or [`DriverError::Unsupported`] with everything wrong with it; nothing was applied.
    ///
    /// [`DriverError::Update`]: crate::DriverError::Update
    /// [`DriverError::Unsupported`]: crate::DriverError::Unsupported
    fn apply(&self, update: EdgeUpdate, at_mono_ns: Option<Nanos>) -> Result<Applied> {
        self.submit(update, at_mono_ns)?.wait()
    }

    /// As [`Links::apply`], without waiting. Values are checked before this returns.
    ///
    /// # Errors
    /// Everything wrong with the values.
    fn submit(&self, update: EdgeUpdate, at_mono_ns: Option<Nanos>) -> Result<PendingUpdate>;

    /// Change effects of ports and edges, at once. They stay whatever updates do to the edges. Returns when
    /// (`CLOCK_MONOTONIC`): frames that arrived before went by the old ones.
    ///
    /// # Errors
    /// [`DriverError::Effects`] or [`DriverError::Unsupported`] with everything wrong with them; nothing was changed.
    ///
    /// [`DriverError::Effects`]: crate::DriverError::Effects
    /// [`DriverError::Unsupported`]: crate::DriverError::Unsupported
    fn apply_effects(&self, changes: Vec<EffectsChange>) -> Result<Nanos>;

    /// The effects that hold for an edge, existing or not.
    ///
    /// # Errors
    /// When the driver has been stopped.
    fn effects(&self, from: PortId, to: PortId) -> Result<KnownEffects>;

    /// The driver's counters. Cheap, whatever the number of edges, for drivers that count by themselves.
    ///
    /// # Errors
    /// When the driver has been stopped, or the kernel does not tell.
    fn snapshot(&self) -> Result<PlaneStats>;

    /// Frames that this port lost because it flooded and held its share of the driver's memory; `None` for drivers
    /// that leave that to the kernel's queues. Does not disturb the driver.
    ///
    /// # Errors
    /// [`DriverError::NoSuchPort`], from drivers that can tell.
    ///
    /// [`DriverError::NoSuchPort`]: crate::DriverError::NoSuchPort
    fn dropped_share(&self, _port: PortId) -> Result<Option<u64>> {
        Ok(None)
    }

    /// What a node without a stack has done, by its place in [`PlaneConfig::transit`](crate::PlaneConfig); `None` for drivers
    /// that do not forward, and where there is no such node.
    ///
    /// # Errors
    /// When the driver has been stopped.
    fn transit(&self, _member: u32) -> Result<Option<TransitCounts>> {
        Ok(None)
    }

    /// The same of all of them, in their places; part by part, so that no frame waits for all.
    ///
    /// # Errors
    /// When the driver has been stopped.
    fn all_transit(&self) -> Result<Vec<TransitCounts>> {
        Ok(Vec::new())
    }

    /// One edge, alive or past; `None` when there never was one. Only the relay knows what is inside an edge; the
    /// other drivers count a frame as delivered when it has its departure time.
    ///
    /// # Errors
    /// When the driver has been stopped, or the kernel does not tell.
    fn edge_stats(&self, from: PortId, to: PortId) -> Result<Option<EdgeStats>>;

    /// All existing edges, sorted. Read bit by bit between frames, so not all at one instant.
    ///
    /// # Errors
    /// When the driver has been stopped, or the kernel does not tell.
    fn all_edges(&self) -> Result<Vec<EdgeStats>>;

    /// Forget the lateness and the stalls recorded so far.
    ///
    /// # Errors
    /// When the driver has been stopped, or the kernel does not tell.
    fn clear_lateness(&self) -> Result<()>;

    /// Keep the lateness of edges apart by class, for drivers that can: `class_of` gives the place in `names` for
    /// every port, and with it for the edges that leave it.
    ///
    /// # Errors
    /// When a port is of a class without a name, or the driver has been stopped.
    fn classify(&self, _names: Vec<String>, _class_of: Vec<u8>) -> Result<()> {
        Ok(())
    }

    /// The lateness by class since the start or the last [`Links::clear_lateness`]; empty for drivers that do not keep
    /// it apart.
    ///
    /// # Errors
    /// When the driver has been stopped.
    fn lateness_by_class(&self) -> Result<Vec<ClassLateness>> {
        Ok(Vec::new())
    }

    /// From now on, a frame is late for [`Links::late_spells`] when it leaves later than this after its due time; 1 ms
    /// unless stated.
    ///
    /// # Errors
    /// When the driver has been stopped.
    fn late_beyond(&self, _bound_ns: Nanos) -> Result<()> {
        Ok(())
    }

    /// Which ports' frames left late since the last call, and when: at most 16,384 spells, the latest. `None` for drivers
    /// that cannot tell.
    ///
    /// # Errors
    /// When the driver has been stopped.
    fn late_spells(&self) -> Result<Option<LateSpells>> {
        Ok(None)
    }

    /// When the machine kept the driver from running since the start or the last [`Links::clear_lateness`]: the latest
    /// 8,192 times. Empty for drivers that cannot tell.
    ///
    /// # Errors
    /// When the driver has been stopped.
    fn stalls(&self) -> Result<Vec<Stall>> {
        Ok(Vec::new())
    }

    /// What the ports of each channel of [`PlaneConfig::channels`](crate::PlaneConfig) have counted, in its order; empty for
    /// drivers that know no channels.
    ///
    /// # Errors
    /// When the driver has been stopped.
    fn channels(&self) -> Result<Vec<Vec<Counters>>> {
        Ok(Vec::new())
    }

    /// Look at frames as they pass, from now on.
    ///
    /// # Errors
    /// [`DriverError::Unsupported`] by drivers whose frames stay in the kernel; when the driver has been stopped.
    ///
    /// [`DriverError::Unsupported`]: crate::DriverError::Unsupported
    fn tap(&self, _wanted: Wanted) -> Result<Tapping> {
        let error = "only the driver relay sees frames as they pass; in a node, tcpdump does";
        Err(crate::DriverError::Unsupported(vec![error.to_owned()]))
    }

    /// Hand over frames that came from far ports, at the instants at which they are due. What there is no room for is counted
    /// (`no_buffer`), and what is no frame (`size`).
    ///
    /// # Errors
    /// [`DriverError::NoSuchPort`], and [`DriverError::Unsupported`] for one that does not come from a far port and go to one that
    /// is here: then none of them is taken. [`DriverError::Stopped`].
    ///
    /// [`DriverError::NoSuchPort`]: crate::DriverError::NoSuchPort
    /// [`DriverError::Unsupported`]: crate::DriverError::Unsupported
    /// [`DriverError::Stopped`]: crate::DriverError::Stopped
    fn arrive(&self, _arrivals: Vec<Arrival>) -> Result<()> {
        Err(no_machines())
    }

    /// The nodes of these far ports are here from now on: edges to them end at the nodes, whose ports are [attached](Plane::attach),
    /// and frames that come from afar are none of theirs. To be called while no edge leads to them or away from them.
    ///
    /// # Errors
    /// [`DriverError::NoSuchPort`], and when the driver has been stopped.
    ///
    /// [`DriverError::NoSuchPort`]: crate::DriverError::NoSuchPort
    fn come_home(&self, _ports: &[PortId]) -> Result<()> {
        Err(no_machines())
    }

    /// End the driver's thread and wait for it. Frames inside are gone.
    fn stop(&self);
}
