//! The container of one node: created, inspected, and created again in the network of the previous one.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use constel_host::cgroup::LabCgroup;
use constel_host::cgroup::limits::killed_for_memory;
use constel_host::enclosure::Inside;
use constel_host::process::when_ended;
use constel_host::{Error, NetNs, Result};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::first::{First, Meeting};
use super::{Crew, FIRST_PROCESS_AT, NodeContainer, NodeContainerOf};
use crate::engine::{Bind, ContainerOptions, Kind, Network};
use crate::runtime::container::ContainerSpec;

/// Path of the socket where a first process connects. The compiled program has the same path.
const DOOR: &str = "/.constel/door";

/// Maximum time from the start by the engine until the first process connects.
const COMES_WITHIN: Duration = Duration::from_secs(30);

/// Maximum wait for the thread that counts kills when the process has ended.
const COUNTED_WITHIN: Duration = Duration::from_secs(5);

/// The capability that is needed to enter another network.
const MAY_GO: &str = "SYS_ADMIN";

/// Makes the containers of a lab's nodes.
pub(super) struct Maker {
    pub(super) crew: Arc<Crew>,
    pub(super) kind: Kind,
    /// Folder of the sockets on the host.
    pub(super) folder: PathBuf,
    pub(super) order_of: Box<NodeContainerOf>,
}

/// A container that waits, runs or has ended.
pub(super) struct Container {
    pub(super) cgroups: Vec<LabCgroup>,
    pub(super) inside: Inside,
    pub(super) first: First,
    pub(super) spec: ContainerSpec,
    /// Whether its program was started.
    pub(super) begun: AtomicBool,
    /// Number of its processes that had been killed at its memory limit at the last query.
    killed: AtomicU64,
    /// This number at the moment when its first process ended; `None` for a container without a limit.
    killed_at_end: Option<Mutex<Receiver<Option<u64>>>>,
}

impl Maker {
    /// Makes the container of the node of that name, with a network of its own.
    pub(super) fn make(&self, name: &str) -> Result<Container> {
        self.open((self.order_of)(name)?)
    }

    /// Creates the container again in an existing network, after the previous one has ended. Files that the previous one
    /// wrote are lost.
    pub(super) fn recreate(
        &self,
        name: &str,
        netns: &NetNs,
        ended: &Container,
    ) -> Result<Container> {
        let what =
            |error| Error::Conflict(format!("create the container of {name} again: {error}"));
        let made = || -> Result<Container> {
            // The engine could not distinguish two containers of one name.
            ended.first.made().remove()?;
            let mut ordered = (self.order_of)(name)?;
            // Docker takes no path: it takes the network where a process of its own is.
            let lender = match self.kind {
                Kind::Podman => None,
                Kind::Docker => Some(self.lender(name, &ordered.order, netns)?),
            };
            ordered.order.network = match &lender {
                Some(lender) => Network::Of(lender.made().id().to_owned()),
                None => Network::At(netns.proc_path().to_string_lossy().into_owned()),
            };
            let container = self.open(ordered)?;
            let own = inode(&format!("/proc/{}/ns/net", container.first.pid()))?;
            if own != inode(&netns.proc_path().to_string_lossy())? {
                let why = "the engine gave it another network than the node's";
                return Err(Error::Conflict(why.to_owned()));
            }
            Ok(container)
        };
        made().map_err(what)
    }

    /// A container of the same image that is in the node's network, for as long as it is held.
    fn lender(&self, name: &str, like: &ContainerOptions, netns: &NetNs) -> Result<First> {
        let order = ContainerOptions {
            name: format!("{}.lender-{}", like.name, self.crew.next_number()),
            image: like.image.clone(),
            user: Some("0:0".to_owned()),
            labels: like.labels.clone(),
            // The one that it lends its network to takes it over.
            hostname: like.hostname.clone(),
            capabilities: vec![MAY_GO.to_owned()],
            no_new_privileges: true,
            ulimits: like.ulimits.clone(),
            ..ContainerOptions::default()
        };
        let lender = self.come(order, ("lend", &[name.to_owned()]))?;
        lender.go(netns.fd())?;
        Ok(lender)
    }

    /// Makes a container, and waits for its first process.
    fn come(&self, mut order: ContainerOptions, (mode, argv): (&str, &[String])) -> Result<First> {
        let number = self.crew.next_number();
        let meeting = Meeting::arrange(&self.folder.join(number.to_string()))?;
        order.binds.push(Bind {
            source: meeting.path().to_string_lossy().into_owned(),
            target: DOOR.to_owned(),
            read_only: true,
        });
        let own = [format!("/{FIRST_PROCESS_AT}"), mode.to_owned()];
        order.argv = own.into_iter().chain(argv.iter().cloned()).collect();
        let made = self.crew.make(&order)?;
        let pid = made.first_process()?;
        let first = open_process(pid).and_then(|process| {
            let stream = meeting.meet(pid, process.as_fd(), COMES_WITHIN)?;
            Ok((process, stream))
        });
        // It may have ended at once, and the engine knows why.
        let (process, stream) = first.map_err(|error| made.explain(error))?;
        Ok(First::new(pid, process, stream, mode == "stay", made))
    }

    fn open(&self, ordered: NodeContainer) -> Result<Container> {
        let NodeContainer { order, spec, stays } = ordered;
        let mode = if stays { "stay" } else { "exec" };
        let memory_bytes = order.memory_bytes;
        let first = self.come(order, (mode, &spec.argv))?;
        let pid = first.pid();
        if inode(&format!("/proc/{pid}/ns/user"))? != inode("/proc/self/ns/user")? {
            return Err(Error::Conflict(format!(
                "{} keeps users of containers apart from those of the host, which nodes cannot have",
                first.made().engine()
            )));
        }
        let path = |kind: &str| PathBuf::from(format!("/proc/{pid}/ns/{kind}"));
        let cgroups = LabCgroup::of_process(pid)?;
        let killed_at_end = match memory_bytes {
            Some(_) => Some(killed_when_ended(open_process(pid)?, cgroups.clone())?),
            None => None,
        };
        Ok(Container {
            cgroups,
            inside: Inside::open(&path("mnt"), &path("pid"), pid)?,
            first,
            spec,
            begun: AtomicBool::new(false),
            killed: AtomicU64::new(0),
            killed_at_end,
        })
    }
}

impl Container {
    /// Returns whether a process of the container was killed at its limit of memory since the last call. The engine removes the
    /// container's groups when its first process has ended; then the count of that moment holds, and without one the engine's record.
    pub(super) fn ran_out_of_memory(&self) -> bool {
        let at_end = || {
            let killed = self.killed_at_end.as_ref()?;
            killed
                .lock()
                .unwrap_or_else(|e| e.into_inner())
                .recv_timeout(COUNTED_WITHIN)
                .ok()?
        };
        match killed_for_memory(&self.cgroups).or_else(at_end) {
            Some(killed) => killed > self.killed.swap(killed, Ordering::AcqRel),
            None => self.first.made().ran_out_of_memory(),
        }
    }
}

/// Counts the processes of these groups that were killed at a limit of memory, once this process has ended. The engine removes the
/// groups some ten milliseconds later, long before a busy lab asks, and often does not see the reason itself.
fn killed_when_ended(
    process: OwnedFd,
    groups: Vec<LabCgroup>,
) -> Result<Mutex<Receiver<Option<u64>>>> {
    let (send, receive) = mpsc::sync_channel(1);
    let count = move || {
        // The container may be gone before the request.
        let _ = send.send(killed_for_memory(&groups));
    };
    when_ended(process, "killed", count)
        .map_err(|error| Error::os("watch a container's end", error))?;
    Ok(Mutex::new(receive))
}

fn inode(path: &str) -> Result<u64> {
    let found = std::fs::metadata(path).map(|found| found.ino());
    found.map_err(|error| Error::os(format!("look at {path}"), error))
}

fn open_process(pid: u32) -> Result<OwnedFd> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let opened = number
        .ok_or(io::Error::from_raw_os_error(3))
        .and_then(|pid| Ok(pidfd_open(pid, PidfdFlags::empty())?));
    opened.map_err(|error| Error::os(format!("open process {pid}, a container's first"), error))
}
