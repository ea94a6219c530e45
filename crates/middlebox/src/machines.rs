//! Machines at the interfaces of a box that the lab creates and removes.
//!
//! Each machine is a network namespace like the nodes of other labs, with its programs in the lab's enclosure. Its
//! cable ends in one more namespace, in which the box runs. The host's own namespace is not involved, and
//! everything disappears with this process.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use constel_api::answers::NodeAccess;
use constel_api::{ApiError, ErrorCode};
use constel_containers::runtime::netns::{NetnsRuntime, NodeEnvironment};
use constel_containers::runtime::{FreshNode, Node, NodeRuntime, Program};
use constel_host::claim::{Claim, LabName, link_alias};
use constel_host::enclosure::{Enclosure, NODE_FOLDER, Shown};
use constel_host::globals::Globals;
use constel_host::netlink::{
    AddressSpec, Batch, FIRST_OWN_IFINDEX, IpPrefix, LinkChange, Mac, Socket, VethEnd,
};
use constel_host::process::{self, Child, ProcessSelection};
use constel_host::template::Setting;
use constel_host::threads::result_of;
use constel_host::{NetNs, sysctl};
use constel_lab::{own_folder, search_path};
use constel_measure::results::Results;
use constel_scenario::model::Machine;

use crate::error::BoxError;
use crate::router::route;

/// The time after which a killed process that still exists will not end at all.
const KILLED_WITHIN: Duration = Duration::from_secs(10);
/// The interface numbers: of `lo`, and the first numbers of the lab's own interfaces.
const LO: u32 = 1;
const ETH0: u32 = FIRST_OWN_IFINDEX;
const FIRST_WIRE: u32 = FIRST_OWN_IFINDEX;

/// A machine can be used at once, and it sends no packets that no program requested.
const SETTINGS: &[Setting] = &[
    ("net/ipv6/conf/all/accept_dad", "0"),
    ("net/ipv6/conf/default/accept_dad", "0"),
    ("net/ipv6/conf/all/dad_transmits", "0"),
    ("net/ipv6/conf/default/dad_transmits", "0"),
    ("net/ipv6/conf/all/router_solicitations", "0"),
    ("net/ipv6/conf/default/router_solicitations", "0"),
];

/// The namespace of the box has no addresses.
const NO_ADDRESSES: [&str; 2] = [
    "net/ipv6/conf/all/disable_ipv6",
    "net/ipv6/conf/default/disable_ipv6",
];

/// The machines of a box. They exist as long as this value.
pub(crate) struct Machines {
    lab: LabName,
    names: Vec<String>,
    nodes: Vec<Box<dyn Node>>,
    enclosure: Arc<Enclosure>,
    middle: NetNs,
    globals: Globals,
}

/// The folders from which machines see some files; absolute.
struct Folders {
    hosts: PathBuf,
    results: PathBuf,
}

impl Machines {
    /// Creates the machines and connects them. The calling thread must be in the host's namespace, and must not end
    /// before the machines.
    ///
    /// # Errors
    /// Errors of the kernel; nothing is left behind then.
    pub(crate) fn make(
        claim: &Claim,
        globals: Globals,
        machines: &[Machine],
        results: &Results,
    ) -> Result<Machines, BoxError> {
        let lab = claim.lab().clone();
        let folders = Folders {
            hosts: claim.dir().join("hosts"),
            results: results.dir().to_owned(),
        };
        let written = fs::write(&folders.hosts, hosts(machines));
        let shown = written.and_then(|()| shown_to_all(&folders));
        let shown = shown.map_err(|source| BoxError::Results {
            path: folders.hosts.clone(),
            source,
        })?;
        let enclosure = Arc::new(Enclosure::new(lab.as_str(), shown)?);
        let results = folders.results;
        let quarters = NodeEnvironment {
            enclosure: Arc::clone(&enclosure),
            shown_to: Box::new(move |name| kept(&results, name)),
            container_of: Box::new(|_| Ok(None)),
        };
        let runtime =
            NetnsRuntime::new(SETTINGS, globals.clone(), claim.owner(), Arc::new(quarters))?;
        let middle = NetNs::new()?;
        middle.run(|| {
            NO_ADDRESSES
                .iter()
                .try_for_each(|key| sysctl::write(key, "1"))
        })??;
        let names: Vec<&str> = machines
            .iter()
            .map(|machine| machine.name.as_ref())
            .collect();
        let fresh = runtime.create(&names)?;
        plug_in(&lab, &middle, machines, &fresh)?;
        let mut nodes = Vec::new();
        for (fresh, machine) in fresh.into_iter().zip(machines) {
            nodes.push(finished(fresh, machine)?);
        }
        Ok(Machines {
            lab,
            names: machines.iter().map(|m| m.name.to_string()).collect(),
            nodes,
            enclosure,
            middle,
            globals,
        })
    }

    /// Returns the namespace of the box.
    pub(crate) fn middle(&self) -> &NetNs {
        &self.middle
    }

    /// Returns the names of the machines, which are also the names of their interfaces.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Starts a program in a machine.
    ///
    /// # Errors
    /// When it does not exist or cannot be started.
    pub(crate) fn start(
        &self,
        machine: usize,
        argv: &[String],
        (stdout, stderr): (&Path, &Path),
    ) -> constel_host::Result<Child> {
        self.nodes[machine].start(Program {
            lab: self.lab.as_str(),
            node: &self.names[machine],
            argv,
            search_path: search_path(),
            env: vec![own_folder()],
            stdout,
            stderr,
            cgroups: Vec::new(),
            kernel_events: true,
            of_image: false,
            append: false,
        })
    }

    /// Returns the entrance to a machine for other processes.
    ///
    /// # Errors
    /// [`ErrorCode::NodeNotFound`], [`ErrorCode::Failed`].
    pub(crate) fn enter(&self, name: &str) -> Result<NodeAccess, ApiError> {
        let Some(place) = self.names.iter().position(|known| known == name) else {
            let error = format!("no machine is called '{name}'");
            let nearest = constel_scenario::nearest(name, self.names.iter().map(String::as_str));
            let nearest = nearest.map(str::to_owned);
            return Err(ApiError {
                nearest,
                ..ApiError::new(ErrorCode::NodeNotFound, error)
            });
        };
        let door = self.nodes[place].door(name);
        let door = door.map_err(|error| ApiError::new(ErrorCode::Failed, error.to_string()))?;
        Ok(NodeAccess::Netns {
            node: name.to_owned(),
            netns: door.netns,
            mounts: door.mounts,
            pids: door.pids,
            cgroups: Vec::new(),
        })
    }

    /// Ends the machines' programs and restores host-wide settings. The machines disappear when they are dropped.
    ///
    /// # Errors
    /// The first failure, after every step was tried.
    pub(crate) fn end(&self) -> constel_host::Result<()> {
        let killed = self.enclosure.kill(KILLED_WITHIN);
        let marked = process::kill_marked(self.lab.as_str(), ProcessSelection::Mine, KILLED_WITHIN);
        for node in &self.nodes {
            match node.end_connections() {
                // Then they end by themselves, within minutes.
                Err(error) if error.is_unsupported() => {}
                ended => ended?,
            }
        }
        let restored = self.globals.release_all(self.lab.as_str());
        killed?;
        marked?;
        restored.map(|_| ())
    }
}

impl std::fmt::Debug for Machines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machines")
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

/// Returns `/etc/hosts` with the names and addresses of all machines.
fn hosts(machines: &[Machine]) -> String {
    let mut text = "127.0.0.1 localhost\n::1 localhost\n".to_owned();
    for machine in machines {
        for (address, _) in &machine.addresses {
            text.push_str(&format!("{address} {}\n", machine.name));
        }
    }
    text
}

/// Returns the files of the host that every machine sees in its own mount namespace.
fn shown_to_all(folders: &Folders) -> std::io::Result<Vec<Shown>> {
    let own = constel_host::sealed::own_program()?;
    let in_place = |path: &Path, read_only| Shown::in_place(path, read_only);
    let here = std::env::current_dir()?;
    let mut shown = vec![in_place(&here, false), in_place(&folders.results, false)];
    shown.extend(own.parent().map(|folder| in_place(folder, true)));
    shown.retain(Shown::is_hidden);
    shown.extend(Shown::instead_of("/etc/hosts", folders.hosts.clone()));
    shown.sort_by(|a, b| a.target.cmp(&b.target));
    shown.dedup_by(|later, kept| later.target == kept.target);
    Ok(shown)
}

/// Returns the folder in which a machine's programs leave files for the results.
fn kept(results: &Path, name: &str) -> constel_host::Result<Vec<Shown>> {
    let source = results.join("nodes").join(name);
    fs::create_dir_all(&source)
        .map_err(|error| constel_host::Error::os(format!("make {}", source.display()), error))?;
    Ok(vec![Shown {
        source,
        target: NODE_FOLDER.into(),
        read_only: false,
    }])
}

/// Connects each machine by a cable to the namespace of the box.
fn plug_in(
    lab: &LabName,
    middle: &NetNs,
    machines: &[Machine],
    fresh: &[Box<dyn FreshNode>],
) -> constel_host::Result<()> {
    let alias = link_alias(lab);
    let mut batch = Batch::new();
    for (n, (machine, node)) in (0u8..).zip(machines.iter().zip(fresh)) {
        let ifindex = FIRST_WIRE + u32::from(n);
        let near = VethEnd {
            name: machine.name.as_str(),
            ifindex: Some(ifindex),
            mac: Some(Mac([2, 0xc5, 0xb0, 0, 0, n + 1])),
            ..VethEnd::default()
        };
        let far = VethEnd {
            name: "eth0",
            netns: Some(node.netns()),
            ifindex: Some(ETH0),
            mac: Some(Mac([2, 0xc5, 0xaa, 0, 0, n + 1])),
            ..VethEnd::default()
        };
        batch.create_veth(&near, &far)?;
        batch.change_link(&LinkChange {
            ifindex,
            alias: Some(&alias),
            up: Some(true),
            ..LinkChange::default()
        })?;
    }
    Socket::open_in(middle)?.send(&mut batch)
}

/// Completes a machine with its addresses and settings.
fn finished(fresh: Box<dyn FreshNode>, machine: &Machine) -> Result<Box<dyn Node>, BoxError> {
    let mut setup = Batch::new();
    setup.link_up(LO).link_up(ETH0);
    for (address, length) in &machine.addresses {
        let prefix = IpPrefix::new(*address, *length)?;
        setup.add_address(&AddressSpec::new(ETH0, prefix));
    }
    for gateway in &machine.gateways {
        let everywhere: IpAddr = match gateway {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        setup.add_route(&route(everywhere, 0, (ETH0, *gateway))?)?;
    }
    let set = || {
        let settings = machine.settings.iter();
        let mut set = settings.map(|(key, value)| sysctl::write(key, value));
        set.try_for_each(|written| written)
    };
    // The thread that enters the namespace cannot return to its own.
    std::thread::scope(|scope| result_of(scope.spawn(|| fresh.finish(&mut || set(), &mut setup))))
        .map_err(|error| BoxError::Machine {
            machine: machine.name.to_string(),
            source: error,
        })
}
