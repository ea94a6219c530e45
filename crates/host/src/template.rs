//! Creation of nodes with the right settings.
//!
//! A router needs some twenty settings (forwarding on, no address detection, no redirects, ...). Writing them one by
//! one in thousands of namespaces costs more than the namespaces. With `net.core.devconf_inherit_init_net = 3` a new
//! namespace copies `conf/all` and `conf/default` from its creator's namespace: we prepare one template, and create all
//! nodes from inside it. The global switch is on only while nodes are being created (see [`crate::globals`]).

use std::collections::BTreeSet;
use std::thread;

use crate::error::{Error, Result};
use crate::globals::{Globals, Owner, RequiredValue};
use crate::netlink::Socket;
use crate::netns::NetNs;
use crate::sysctl;
use crate::threads::results_of;

const INHERIT: &str = "net/core/devconf_inherit_init_net";

/// A sysctl key (with `/`) and its value.
pub type Setting = (&'static str, &'static str);

/// Settings of every node that forwards:
///
/// - IPv4 and IPv6 forwarding;
/// - every interface usable at once (no duplicate address detection, no router solicitations);
/// - no filtering by reverse path, because paths over a constellation are not symmetric, and no redirects;
/// - packets that may cross 255 nodes: shortest paths over a grid of 72 planes have up to 58 hops, and a path that is
///   lengthened while a packet is in transit would exceed the usual limit of 64.
///
/// Turning forwarding on resets other settings, so it comes first.
pub const ROUTER: &[Setting] = &[
    ("net/ipv4/conf/all/forwarding", "1"),
    ("net/ipv4/conf/default/forwarding", "1"),
    ("net/ipv6/conf/all/forwarding", "1"),
    ("net/ipv6/conf/default/forwarding", "1"),
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/default/rp_filter", "0"),
    ("net/ipv4/conf/all/accept_redirects", "0"),
    ("net/ipv4/conf/default/accept_redirects", "0"),
    ("net/ipv4/conf/all/send_redirects", "0"),
    ("net/ipv4/conf/default/send_redirects", "0"),
    ("net/ipv6/conf/all/accept_dad", "0"),
    ("net/ipv6/conf/default/accept_dad", "0"),
    ("net/ipv6/conf/all/dad_transmits", "0"),
    ("net/ipv6/conf/default/dad_transmits", "0"),
    ("net/ipv6/conf/all/accept_ra", "0"),
    ("net/ipv6/conf/default/accept_ra", "0"),
    ("net/ipv6/conf/all/accept_redirects", "0"),
    ("net/ipv6/conf/default/accept_redirects", "0"),
    ("net/ipv6/conf/all/router_solicitations", "0"),
    ("net/ipv6/conf/default/router_solicitations", "0"),
    ("net/ipv4/ip_default_ttl", "255"),
    ("net/ipv6/conf/all/hop_limit", "255"),
    ("net/ipv6/conf/default/hop_limit", "255"),
];

/// Additional settings of nodes if routes have several next hops: packets of one flow (addresses, protocol and ports)
/// take one of them, so that they stay in order.
pub const BY_FLOW: [Setting; 2] = [
    ("net/ipv4/fib_multipath_hash_policy", "1"),
    ("net/ipv6/fib_multipath_hash_policy", "1"),
];

/// Settings of namespaces that only contain our ends of the links: no IPv6, hence no addresses, no multicast reports,
/// and half the cost of setting an interface up. Frames pass below IP.
pub const SWITCH: &[Setting] = &[
    ("net/ipv6/conf/all/disable_ipv6", "1"),
    ("net/ipv6/conf/default/disable_ipv6", "1"),
    ("net/ipv4/conf/all/forwarding", "0"),
    ("net/ipv4/conf/default/forwarding", "0"),
];

/// Settings that restore what container engines turn off when they create no network.
const WITH_IPV6: [Setting; 3] = [
    ("net/ipv6/conf/all/disable_ipv6", "0"),
    ("net/ipv6/conf/default/disable_ipv6", "0"),
    ("net/ipv6/conf/lo/disable_ipv6", "0"),
];

/// Settings of a container's namespace as in container engines: users without rights may send pings and listen on every
/// port, as in Docker since 20.10.
pub const UNPRIVILEGED: [Setting; 2] = [
    ("net/ipv4/ping_group_range", "0 2147483647"),
    ("net/ipv4/ip_unprivileged_port_start", "0"),
];

/// A prepared namespace from which nodes are created.
#[derive(Debug)]
pub struct NodeTemplate {
    ns: NetNs,
    inherited: Vec<Setting>,
    written: Vec<Setting>,
}

/// Created nodes, and how they got their settings.
#[derive(Debug)]
pub struct Created {
    /// The nodes, in no particular order.
    pub nodes: Vec<NetNs>,
    /// Number of nodes that copied their settings from the template. In the others they were written one by one, which
    /// is slower but gives the same result.
    pub inherited: usize,
}

impl NodeTemplate {
    /// Prepares a namespace with the given settings (in this order) and checks each.
    ///
    /// Any `net/...` setting of a namespace can be given. Those outside `conf/{all,default}`, and two inside, are not
    /// inherited and will be written in every node.
    ///
    /// # Errors
    /// [`Error::Os`] when the kernel refuses the namespace or a setting, [`Error::Invalid`] when a setting does not stay.
    pub fn prepare(settings: &[Setting]) -> Result<NodeTemplate> {
        let ns = namespace_with(settings)?;
        let (inherited, written) = settings.iter().partition(|(key, _)| is_inherited(key));
        Ok(NodeTemplate {
            ns,
            inherited,
            written,
        })
    }

    /// Returns the template's own namespace.
    pub fn ns(&self) -> &NetNs {
        &self.ns
    }

    /// Creates `n` nodes that have all the template's settings, each one checked.
    ///
    /// The calling thread must be in the host's namespace: the global switch is only visible there. If it cannot be set
    /// (in a restricted container), or another program turns it off in that time, the settings are written in each node
    /// that lacks them.
    ///
    /// # Errors
    /// [`Error::Os`] when a node cannot be created or configured, or the journal cannot be written; none of them
    /// remains then.
    pub fn create(&self, n: usize, globals: &Globals, owner: &Owner) -> Result<Created> {
        let path = sysctl::path_of(INHERIT);
        // A refused or missing switch is not an error, because there is the slower way. A journal that cannot be
        // written is one: then nothing of the host may be changed.
        let held = match globals.hold(owner, &path, RequiredValue::Exactly("3".into())) {
            Ok(h) => Some(h),
            Err(Error::Conflict(_)) => None,
            Err(e)
                if matches!(
                    e.errno(),
                    Some(libc::ENOENT | libc::EACCES | libc::EPERM | libc::EROFS)
                ) =>
            {
                None
            }
            Err(e) => return Err(e),
        };
        let created = NetNs::create_many(n, held.is_some().then_some(&self.ns));
        if let Some(h) = held {
            h.finish()?;
        }
        let nodes = created?;
        let inherited = self.check_all(&nodes)?;
        Ok(Created { nodes, inherited })
    }

    /// Gives namespaces created by other software the template's settings, each one checked; and IPv6, if it is
    /// disabled there.
    ///
    /// # Errors
    /// [`Error::Os`] when the kernel refuses a setting, [`Error::Invalid`] when one does not stay.
    pub fn complete(&self, ns: &NetNs) -> Result<()> {
        ns.run(|| {
            for (key, value) in WITH_IPV6 {
                sysctl::write(key, value)?;
            }
            apply(&self.inherited)?;
            apply(&self.written)
        })?
    }

    /// Checks every node and completes those that lack settings. Returns how many had them from the start.
    fn check_all(&self, nodes: &[NetNs]) -> Result<usize> {
        let workers = thread::available_parallelism()
            .map_or(1, |p| p.get())
            .min(4);
        let share = nodes.len().div_ceil(workers).max(1);
        thread::scope(|s| {
            let handles: Vec<_> = nodes
                .chunks(share)
                .map(|part| {
                    s.spawn(move || -> Result<usize> {
                        let last = part.len() - 1;
                        let mut born = 0;
                        for (i, ns) in part.iter().enumerate() {
                            ns.enter_for_good()?;
                            // One namespace copies all of conf/ or nothing. In every node one setting of each family is
                            // checked, in the first and last one all.
                            let thorough = i == 0 || i == last;
                            if self.looks_inherited(thorough)? {
                                born += 1;
                            } else {
                                apply(&self.inherited)?;
                            }
                            apply(&self.written)?;
                        }
                        Ok(born)
                    })
                })
                .collect();
            results_of(handles).into_iter().sum()
        })
    }

    /// Returns whether the calling thread's namespace has the template's inheritable settings.
    ///
    /// A check by netlink costs a few microseconds, by file (`/proc/sys` is looked up name by name) a hundred. So
    /// forwarding represents its family if the template sets it.
    fn looks_inherited(&self, thorough: bool) -> Result<bool> {
        let mut socket = None;
        let mut families = BTreeSet::new();
        for (key, value) in &self.inherited {
            let name = key.split('/').nth(1).unwrap_or_default();
            let known = match (name, key.ends_with("/conf/all/forwarding")) {
                _ if thorough => sysctl::read(key)? == *value,
                _ if families.contains(name) => continue,
                (family @ ("ipv4" | "ipv6"), true) => {
                    let socket: &mut Socket = match &mut socket {
                        Some(socket) => socket,
                        None => socket.insert(Socket::open()?),
                    };
                    socket.forwards(family == "ipv4")? == (*value != "0")
                }
                // Forwarding comes first in its family, or is not set at all.
                _ => sysctl::read(key)? == *value,
            };
            families.insert(name);
            if !known {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Gives an existing namespace these settings, in this order, each checked.
///
/// # Errors
/// As [`NodeTemplate::complete`].
pub fn settle(ns: &NetNs, settings: &[Setting]) -> Result<()> {
    ns.run(|| apply(settings))?
}

/// Returns a new namespace with the given settings (in this order), each checked.
///
/// # Errors
/// As [`NodeTemplate::prepare`].
pub fn namespace_with(settings: &[Setting]) -> Result<NetNs> {
    let ns = NetNs::new()?;
    settle(&ns, settings)?;
    Ok(ns)
}

/// Settings that the kernel sets to fixed defaults in each namespace, whatever else is copied (`addrconf_init_net`).
const NEVER_COPIED: [&str; 2] = [
    "net/ipv6/conf/default/autoconf",
    "net/ipv6/conf/default/disable_ipv6",
];

fn is_inherited(key: &str) -> bool {
    let copied = [
        "net/ipv4/conf/all/",
        "net/ipv4/conf/default/",
        "net/ipv6/conf/all/",
        "net/ipv6/conf/default/",
    ]
    .iter()
    .any(|p| key.starts_with(p));
    copied && !NEVER_COPIED.contains(&key)
}

/// Writes settings in the calling thread's namespace, then checks all, because some reset others.
fn apply(settings: &[Setting]) -> Result<()> {
    for (key, value) in settings {
        sysctl::write(key, value)?;
    }
    for (key, value) in settings {
        let now = sysctl::read(key)?;
        if now != *value {
            return Err(Error::Protocol {
                what: format!("set sysctl {key} to {value}"),
                detail: format!("it is {now}"),
            });
        }
    }
    Ok(())
}
