//! Capabilities of this host, found by trying: for `constel doctor`, and before a run.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::cgroup;
use crate::error::{Error, Result};
use crate::limits;
use crate::netlink::{
    Batch, FIRST_OWN_IFINDEX, IpPrefix, NextHop, Route, RouteTarget, Socket, VethEnd,
};
use crate::netns::NetNs;
use crate::{bpf, sysctl};

/// Result of one test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeItem {
    /// Short name, stable for use in scripts.
    pub name: String,
    /// Whether it works.
    pub ok: bool,
    /// Whether Constel requires it.
    pub required: bool,
    /// Details of the result.
    pub detail: String,
    /// How to fix it; empty when it works.
    pub remedy: String,
}

/// Checks that the process has the rights for bringing up a lab.
///
/// # Errors
/// [`Error::Invalid`] with the missing capabilities and a remedy.
pub fn require_privilege() -> Result<()> {
    let missing = missing_capabilities()?;
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "not enough privilege: {} missing (run as root, for example with sudo)",
        missing.join(", ")
    )))
}

/// Capabilities (by number in the kernel's `capability.h`) that bringing up a lab needs.
const CAPABILITIES: &[(u32, &str)] = &[
    (5, "CAP_KILL"),
    (12, "CAP_NET_ADMIN"),
    (13, "CAP_NET_RAW"),
    (21, "CAP_SYS_ADMIN"),
];

fn missing_capabilities() -> Result<Vec<String>> {
    let what = "read /proc/thread-self/status";
    let status = fs::read_to_string("/proc/thread-self/status").map_err(|e| Error::os(what, e))?;
    let effective = status
        .lines()
        .find_map(|l| l.strip_prefix("CapEff:"))
        .and_then(|v| u64::from_str_radix(v.trim(), 16).ok())
        .ok_or_else(|| Error::Protocol {
            what: what.into(),
            detail: "no CapEff".into(),
        })?;
    Ok(CAPABILITIES
        .iter()
        .filter(|(bit, _)| effective & (1 << bit) == 0)
        .map(|(_, name)| (*name).to_owned())
        .collect())
}

/// Tries everything that this crate relies on, in temporary namespaces. Leaves nothing behind and changes nothing on
/// the host.
pub fn probe() -> Vec<ProbeItem> {
    let mut items = Vec::new();
    let mut add = |name: &str, required, found: Result<String>, remedy: &str| {
        let (ok, detail) = match found {
            Ok(d) => (true, d),
            Err(e) => (false, e.to_string()),
        };
        let remedy = if ok { String::new() } else { remedy.into() };
        items.push(ProbeItem {
            name: name.into(),
            ok,
            required,
            detail,
            remedy,
        });
        ok
    };
    add(
        "privilege",
        true,
        require_privilege().map(|()| "all capabilities needed are there".into()),
        "run as root, for example with sudo",
    );
    let netns = add(
        "network-namespaces",
        true,
        NetNs::new().map(|_| "can be made".into()),
        "a kernel with CONFIG_NET_NS, and the right to use it (containers need CAP_SYS_ADMIN)",
    );
    if netns {
        add(
            "veth",
            true,
            try_veth(),
            "a kernel with CONFIG_VETH (modprobe veth)",
        );
        add(
            "ipv6",
            true,
            in_namespace(|| has("net/ipv6/conf/all/forwarding", "IPv6 is there")),
            "a kernel with IPv6 that is not disabled (no ipv6.disable=1 on its command line)",
        );
        add(
            "ipv4-via-ipv6",
            false,
            try_via(),
            "a kernel of version 5.2 or later",
        );
    }
    add(
        "inherited-settings",
        false,
        has(
            "net/core/devconf_inherit_init_net",
            "nodes can be born with their settings",
        ),
        "a kernel of version 5.15 or later, outside containers; nodes start more slowly without",
    );
    add(
        "expedited-rcu",
        false,
        fs::OpenOptions::new()
            .write(true)
            .open("/sys/kernel/rcu_expedited")
            .map(|_| "can be switched".into())
            .map_err(|e| Error::os("open /sys/kernel/rcu_expedited", e)),
        "a writable /sys; attaching programs takes 25-50 ms each without",
    );
    add(
        "cgroup2",
        false,
        try_cgroup(),
        "mount cgroup2 (processes are found by mark without)",
    );
    add(
        "bpf",
        false,
        bpf::objects().map(|o| format!("{} objects loaded", o.len())),
        "a kernel with CONFIG_BPF_SYSCALL, and CAP_SYS_ADMIN or CAP_BPF",
    );
    add(
        "open-files",
        false,
        open_files(),
        "raise the hard limit: ulimit -Hn 65536, or LimitNOFILE= of the service",
    );
    add(
        "shared-memory-start",
        true,
        try_start(),
        "see the detail; a security module may forbid starting processes this way",
    );
    items
}

fn has(key: &str, good: &str) -> Result<String> {
    sysctl::read(key).map(|_| good.into())
}

fn in_namespace<T: Send>(f: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    NetNs::new()?.run(f)?
}

fn try_veth() -> Result<String> {
    let (a, b) = (NetNs::new()?, NetNs::new()?);
    let mut socket = Socket::open_in(&a)?;
    let mut batch = Batch::new();
    let first = VethEnd {
        name: "a",
        ifindex: Some(FIRST_OWN_IFINDEX),
        up: true,
        ..VethEnd::default()
    };
    let second = VethEnd {
        name: "b",
        ifindex: Some(FIRST_OWN_IFINDEX + 1),
        netns: Some(b.fd()),
        ..VethEnd::default()
    };
    batch.create_veth(&first, &second)?;
    socket.send(&mut batch)?;
    match Socket::open_in(&b)?.link_named("b")? {
        Some(l) if l.ifindex == FIRST_OWN_IFINDEX + 1 => {
            Ok("pairs across namespaces can be made".into())
        }
        other => Err(Error::Protocol {
            what: "make a veth pair".into(),
            detail: format!("its far end is {other:?}"),
        }),
    }
}

fn try_via() -> Result<String> {
    let ns = NetNs::new()?;
    let mut socket = Socket::open_in(&ns)?;
    let mut batch = Batch::new();
    let end = |name| VethEnd {
        name,
        ..VethEnd::default()
    };
    let first = VethEnd {
        ifindex: Some(FIRST_OWN_IFINDEX),
        up: true,
        ..end("a")
    };
    batch.create_veth(
        &first,
        &VethEnd {
            ifindex: Some(FIRST_OWN_IFINDEX + 1),
            ..end("b")
        },
    )?;
    batch.link_up(FIRST_OWN_IFINDEX + 1);
    let dst: IpPrefix = "192.0.2.0/24".parse()?;
    let gateway = "fe80::1".parse().expect("an address");
    batch.add_route(&Route::new(
        dst,
        RouteTarget::Hop(NextHop::via(FIRST_OWN_IFINDEX, gateway)),
    ))?;
    socket.send(&mut batch)?;
    Ok("IPv4 routes can have IPv6 gateways".into())
}

fn try_cgroup() -> Result<String> {
    let Some(root) = cgroup::mount_point()? else {
        return Err(Error::Invalid(
            "cgroup2 is not mounted, or read-only".into(),
        ));
    };
    let dir = root.join(format!("{}probe-{}", cgroup::PREFIX, std::process::id()));
    fs::create_dir(&dir).map_err(|e| Error::os(format!("make {}", dir.display()), e))?;
    let kill = dir.join("cgroup.kill").exists();
    fs::remove_dir(&dir).map_err(|e| Error::os(format!("remove {}", dir.display()), e))?;
    let how = if kill { "" } else { ", without cgroup.kill" };
    Ok(format!("usable at {}{how}", root.display()))
}

fn open_files() -> Result<String> {
    // Two per node and some for other purposes: enough for the largest shell published so far.
    const WANTED: u64 = 10_000;
    let limit = limits::raise_open_files(WANTED)?;
    if limit < WANTED {
        return Err(Error::Invalid(format!(
            "at most {limit} open files: enough for about {} nodes",
            limit / 2
        )));
    }
    Ok(format!("{limit} or more"))
}

fn try_start() -> Result<String> {
    let program = ["/bin/true", "/usr/bin/true"]
        .into_iter()
        .find(|p| Path::new(p).exists());
    let Some(program) = program else {
        return Ok("not tried: no /bin/true here".into());
    };
    let exit = crate::process::Spawn::new("probe", [program])
        .start()?
        .wait()?;
    if exit.is_success() {
        Ok("processes can be started".into())
    } else {
        Err(Error::Invalid(format!("{program} ended with {exit}")))
    }
}
