//! A snapshot of everything that we could change on the host, to compare before and after.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::bpf::{self, BpfObject};
use crate::cgroup;
use crate::claim::RuntimeDir;
use crate::error::{Context, Error, Result};
use crate::ident::is_gone;
use crate::netlink::Socket;
use crate::process;
use crate::sysctl;

/// Settings of the whole host that Constel may change.
pub const SETTINGS: &[&str] = &[
    "/proc/sys/net/core/devconf_inherit_init_net",
    "/proc/sys/net/core/netdev_max_backlog",
    "/proc/sys/net/core/rmem_max",
    "/proc/sys/net/core/wmem_max",
    "/proc/sys/net/core/bpf_jit_limit",
    "/proc/sys/net/ipv4/neigh/default/gc_thresh1",
    "/proc/sys/net/ipv4/neigh/default/gc_thresh2",
    "/proc/sys/net/ipv4/neigh/default/gc_thresh3",
    "/proc/sys/net/ipv6/neigh/default/gc_thresh1",
    "/proc/sys/net/ipv6/neigh/default/gc_thresh2",
    "/proc/sys/net/ipv6/neigh/default/gc_thresh3",
    "/proc/sys/net/ipv4/tcp_allowed_congestion_control",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/net/ipv6/conf/all/forwarding",
    "/proc/sys/kernel/pid_max",
    "/proc/sys/kernel/threads-max",
    "/proc/sys/fs/file-max",
    "/proc/sys/fs/inotify/max_user_instances",
    "/sys/kernel/rcu_expedited",
];

/// A snapshot of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostInventory {
    /// Inode numbers of network namespaces: those of processes, those that processes hold open,
    /// and those named in `/run/netns`.
    pub namespaces: BTreeSet<u64>,
    /// Names in `/run/netns`.
    pub named_namespaces: BTreeSet<String>,
    /// Interfaces of the calling thread's namespace: name and stable attributes.
    pub links: BTreeMap<String, String>,
    /// Queueing disciplines in that namespace.
    pub qdiscs: BTreeSet<String>,
    /// Processes with our mark.
    pub processes: BTreeSet<String>,
    /// [`SETTINGS`] that exist, and their values.
    pub settings: BTreeMap<String, String>,
    /// BPF objects.
    pub bpf: BTreeSet<BpfObject>,
    /// Our cgroups.
    pub cgroups: BTreeSet<String>,
    /// Contents of the runtime directory.
    pub runtime: BTreeSet<PathBuf>,
    /// Mount points of this mount namespace.
    pub mounts: BTreeSet<String>,
}

/// One difference between two snapshots.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Difference {
    /// Kind of object: the field of [`HostInventory`].
    pub kind: String,
    /// `-` if it is gone, `+` if it is new, `~` if it changed.
    pub sign: char,
    /// The object.
    pub what: String,
}

impl HostInventory {
    /// Takes a snapshot, with the runtime directory at its usual place.
    ///
    /// # Errors
    /// [`Error::Os`] with the objects that cannot be listed.
    pub fn take() -> Result<HostInventory> {
        Self::take_with(&RuntimeDir::default())
    }

    /// Takes a snapshot with another runtime directory.
    ///
    /// # Errors
    /// [`Error::Os`] with the objects that cannot be listed.
    pub fn take_with(runtime: &RuntimeDir) -> Result<HostInventory> {
        let mut socket = Socket::open()?;
        let links = socket.links()?;
        let name_of: BTreeMap<u32, &str> =
            links.iter().map(|l| (l.ifindex, l.name.as_str())).collect();
        let qdiscs = socket.qdiscs()?;
        let named = names_in(Path::new("/run/netns"))?;
        Ok(HostInventory {
            namespaces: namespaces(&named)?,
            links: links
                .iter()
                .map(|l| {
                    let what = format!(
                        "index {} kind {:?} mac {:?} mtu {} up {} alias {:?} group {}",
                        l.ifindex, l.kind, l.mac, l.mtu, l.up, l.alias, l.group
                    );
                    (l.name.clone(), what)
                })
                .collect(),
            qdiscs: qdiscs
                .iter()
                .map(|q| {
                    let dev = name_of.get(&q.ifindex).copied().unwrap_or("?");
                    format!("{dev}: {} {:x} parent {:x}", q.kind, q.handle, q.parent)
                })
                .collect(),
            processes: process::marked(None)?
                .into_iter()
                .map(|m| format!("{} {} of lab {}", m.pid, m.command, m.lab))
                .collect(),
            settings: SETTINGS
                .iter()
                .filter_map(|p| Some((p.to_string(), sysctl::normal(&fs::read_to_string(p).ok()?))))
                .collect(),
            bpf: match bpf::objects() {
                Ok(all) => all.into_iter().collect(),
                Err(e) if e.errno() == Some(libc::ENOSYS) => BTreeSet::new(),
                Err(e) => return Err(e),
            },
            cgroups: cgroups()?,
            runtime: tree(runtime.root())?,
            mounts: fs::read_to_string("/proc/self/mounts")
                .context(|| "read /proc/self/mounts".into())?
                .lines()
                .filter_map(|l| Some(l.split(' ').nth(1)?.to_owned()))
                .collect(),
            named_namespaces: named,
        })
    }

    /// Keeps only objects with our mark and the settings that we may change: for hosts on which other programs start
    /// and end between two snapshots. Namespaces, mounts and other programs' links are left out.
    pub fn ours_only(mut self) -> HostInventory {
        self.namespaces.clear();
        self.named_namespaces.clear();
        self.mounts.clear();
        self.qdiscs.clear();
        self.links.retain(|_, what| what.contains("\"constel lab="));
        self.bpf.retain(|o| o.name.starts_with(bpf::PREFIX));
        self
    }
}

/// Returns the differences; empty when the snapshots are equal.
pub fn diff(before: &HostInventory, after: &HostInventory) -> Vec<Difference> {
    let mut out = Vec::new();
    let mut sets = |kind: &str, a: BTreeSet<String>, b: BTreeSet<String>| {
        let d = |sign, what: &String| Difference {
            kind: kind.into(),
            sign,
            what: what.clone(),
        };
        out.extend(a.difference(&b).map(|w| d('-', w)));
        out.extend(b.difference(&a).map(|w| d('+', w)));
    };
    let text = |s: &BTreeSet<PathBuf>| s.iter().map(|p| p.display().to_string()).collect();
    let nums = |s: &BTreeSet<u64>| s.iter().map(|n| format!("net:[{n}]")).collect();
    let objs = |s: &BTreeSet<BpfObject>| {
        s.iter()
            .map(|o| format!("{:?} {} \"{}\"", o.kind, o.id, o.name))
            .collect()
    };
    sets(
        "namespaces",
        nums(&before.namespaces),
        nums(&after.namespaces),
    );
    sets(
        "named_namespaces",
        before.named_namespaces.clone(),
        after.named_namespaces.clone(),
    );
    sets("qdiscs", before.qdiscs.clone(), after.qdiscs.clone());
    sets(
        "processes",
        before.processes.clone(),
        after.processes.clone(),
    );
    sets("bpf", objs(&before.bpf), objs(&after.bpf));
    sets("cgroups", before.cgroups.clone(), after.cgroups.clone());
    sets("runtime", text(&before.runtime), text(&after.runtime));
    sets("mounts", before.mounts.clone(), after.mounts.clone());
    for (kind, a, b) in [
        ("links", &before.links, &after.links),
        ("settings", &before.settings, &after.settings),
    ] {
        let keys: BTreeSet<_> = a.keys().chain(b.keys()).collect();
        for k in keys {
            let (sign, what) = match (a.get(k), b.get(k)) {
                (Some(x), Some(y)) if x == y => continue,
                (Some(x), Some(y)) => ('~', format!("{k}: {x} -> {y}")),
                (Some(_), None) => ('-', k.clone()),
                _ => ('+', k.clone()),
            };
            out.push(Difference {
                kind: kind.into(),
                sign,
                what,
            });
        }
    }
    out
}

/// Returns the inodes of all network namespaces that processes are in or hold open, and of named ones.
fn namespaces(named: &BTreeSet<String>) -> Result<BTreeSet<u64>> {
    let mut out = BTreeSet::new();
    let mut add_link = |path: &Path| {
        // The link's text is "net:[4026531840]"; following it would require more rights.
        if let Ok(text) = fs::read_link(path)
            && let Some(n) = text
                .to_str()
                .and_then(|t| t.strip_prefix("net:[")?.strip_suffix(']'))
            && let Ok(n) = n.parse()
        {
            out.insert(n);
        }
    };
    for entry in fs::read_dir("/proc")
        .context(|| "list /proc".into())?
        .flatten()
    {
        let pid = entry.file_name();
        if !pid
            .to_str()
            .is_some_and(|p| p.bytes().all(|b| b.is_ascii_digit()))
        {
            continue;
        }
        add_link(&entry.path().join("ns/net"));
        let fds = match fs::read_dir(entry.path().join("fd")) {
            Ok(fds) => fds,
            Err(e) if is_gone(&e) || e.kind() == std::io::ErrorKind::PermissionDenied => continue,
            Err(e) => return Err(Error::os(format!("list descriptors of process {pid:?}"), e)),
        };
        fds.flatten().for_each(|fd| add_link(&fd.path()));
    }
    for name in named {
        use std::os::unix::fs::MetadataExt;
        out.extend(fs::metadata(Path::new("/run/netns").join(name)).map(|m| m.ino()));
    }
    Ok(out)
}

fn cgroups() -> Result<BTreeSet<String>> {
    let mut out = BTreeSet::new();
    for root in cgroup::roots()? {
        let ours = names_in(&root)?.into_iter();
        out.extend(ours.filter(|n| n.starts_with(cgroup::PREFIX)));
    }
    Ok(out)
}

fn names_in(dir: &Path) -> Result<BTreeSet<String>> {
    match fs::read_dir(dir) {
        Ok(entries) => Ok(entries
            .flatten()
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .collect()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(e) => Err(Error::os(format!("list {}", dir.display()), e)),
    }
}

/// Returns all paths below `dir`.
fn tree(dir: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut out = BTreeSet::new();
    let mut todo = vec![dir.to_path_buf()];
    while let Some(d) = todo.pop() {
        for name in names_in(&d)? {
            let path = d.join(name);
            if fs::symlink_metadata(&path).is_ok_and(|m| m.is_dir()) {
                todo.push(path.clone());
            }
            out.insert(path);
        }
    }
    Ok(out)
}
