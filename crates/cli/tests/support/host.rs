//! The host as it was before a test.
//! The picture is compared as a whole first. Only if it differs, the owner of the difference is
//! determined: on a host with other users (their labs, their namespaces), their objects are named
//! but forgiven.

use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use constel_host::bpf;
use constel_host::claim::{LabState, RuntimeDir};
use constel_host::inventory::{Difference, HostInventory, diff};
use constel_host::process;

use super::{constel, hangs_after, stderr};

/// The names of this process's labs start with it: tests run side by side, one process each.
pub(crate) static LABS: Prefix = Prefix;

/// `ct`, the process, `-`.
pub(crate) struct Prefix;

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ct{}-", std::process::id())
    }
}

impl Prefix {
    /// Whether the text names a lab of this process.
    pub(crate) fn is_in(&self, text: &str) -> bool {
        text.contains(&self.to_string())
    }
}

/// The process whose tests gave a lab this name, where one did.
fn test_of(lab: &str) -> Option<u32> {
    lab.strip_prefix("ct")?.split_once('-')?.0.parse().ok()
}

/// The host as it was before the test.
pub(crate) struct Host {
    before: HostInventory,
    /// Labs of others lived when the picture was taken: the last one may restore the settings that they had raised.
    others_lived: bool,
}

impl Host {
    /// Removes what killed tests left, and nothing else, and takes the picture.
    pub(crate) fn take() -> Host {
        assert!(
            rustix::process::geteuid().is_root(),
            "these tests make network namespaces: run them as root"
        );
        clean_killed();
        let others_lived = others_live();
        Host {
            before: HostInventory::take().unwrap(),
            others_lived: others_lived || others_live(),
        }
    }

    /// Panics when anything that is ours differs from the picture taken before.
    pub(crate) fn assert_as_before(&self, when: &str) {
        // The kernel frees BPF objects and namespaces a moment after their last user has gone: longer where it has much to do.
        let end = Instant::now() + hangs_after();
        // A picture costs as much as the host has processes: the less often the longer it takes.
        let mut pause = Duration::from_millis(50);
        loop {
            let all = diff(&self.before, &HostInventory::take().unwrap());
            if all.is_empty() {
                return;
            }
            let holders: LazyCell<Holders> = LazyCell::new(Holders::find);
            let (ours, others): (Vec<_>, Vec<_>) =
                all.iter().partition(|d| self.is_ours(d, &holders));
            if ours.is_empty() {
                eprintln!(
                    "{when}: nothing of ours is left; others changed {} things meanwhile",
                    others.len()
                );
                return;
            }
            assert!(
                Instant::now() < end,
                "{when}: the host is not as it was: {ours:#?}"
            );
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(500));
        }
    }

    /// Whether a difference is our doing. In doubt it is.
    fn is_ours(&self, difference: &Difference, holders: &LazyCell<Holders>) -> bool {
        let named = LABS.is_in(&difference.what);
        match (difference.kind.as_str(), difference.sign) {
            ("processes" | "cgroups" | "named_namespaces", _) => named,
            ("namespaces", '+') => holders.ours.contains(&difference.what),
            // Labs mount nothing there for the host to see: another test has a disk of its own in its folder.
            ("mounts", _) if Path::new(&difference.what).starts_with(std::env::temp_dir()) => false,
            // These existed before the test: not ours, and our code cannot end them.
            ("namespaces" | "bpf", '-') => false,
            // These carry no lab's name. Ours have no holder once `constel run` is dead.
            ("bpf", _) if self.others_lived || others_live() => false,
            ("bpf", _) => bpf::orphans().unwrap().iter().any(|object| {
                format!("{:?} {} \"{}\"", object.kind, object.id, object.name) == difference.what
            }),
            // Folders, mounts and interfaces (by their alias) carry the lab's name; settings and queues do not.
            _ => named || !(self.others_lived || others_live()),
        }
    }
}

/// A test killed from outside leaves its lab behind. The next lab would give the host back what that one had
/// raised, and the pictures before and after would differ through no fault of the test between them.
fn clean_killed() {
    for entry in RuntimeDir::default().list().unwrap() {
        let lab = entry.lab.to_string();
        let killed =
            test_of(&lab).is_some_and(|test| !Path::new(&format!("/proc/{test}")).exists());
        if entry.state == LabState::Dead && killed {
            eprintln!("{lab} was left by a killed test: cleaning it");
            let output = constel(["clean", &lab]);
            assert!(output.status.success(), "{}", stderr(&output));
        }
    }
}

/// Whether a lab of another user lives, or has changed settings.
fn others_live() -> bool {
    let runtime = RuntimeDir::default();
    let labs = runtime.list().unwrap();
    let owners = runtime.globals().owners().unwrap_or_default();
    labs.iter()
        .map(|entry| entry.lab.to_string())
        .chain(owners)
        .any(|name| !LABS.is_in(&name))
}

/// The namespaces that our processes are in or hold. A namespace is only in the picture while a process does. One comparison
/// needs one search: hundreds of namespaces of other tests' labs may differ.
struct Holders {
    /// `net:[N]` of each.
    ours: BTreeSet<String>,
}

impl Holders {
    fn find() -> Self {
        let marked = process::marked(None).unwrap();
        let marked = marked.iter().filter(|marked| LABS.is_in(&marked.lab));
        let mut pids: BTreeSet<u32> = marked.map(|marked| marked.pid).collect();
        pids.insert(std::process::id());
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|pid| pid.parse().ok()) else {
                continue;
            };
            let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            if LABS.is_in(&String::from_utf8_lossy(&command)) {
                pids.insert(pid);
            }
        }
        let ours = pids.into_iter().flat_map(|pid| {
            let place = Path::new("/proc").join(pid.to_string());
            let open = fs::read_dir(place.join("fd"))
                .into_iter()
                .flatten()
                .flatten();
            let open = open.map(|fd| fd.path());
            let links = open.chain([place.join("ns/net")]).collect::<Vec<_>>();
            links.into_iter().filter_map(|link| {
                fs::read_link(link)
                    .ok()?
                    .into_os_string()
                    .into_string()
                    .ok()
            })
        });
        Self {
            ours: ours.filter(|to| to.starts_with("net:[")).collect(),
        }
    }
}
