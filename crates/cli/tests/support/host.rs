//! One test at a time, and the host as it was before.
//!
//! The picture is compared whole first. Only where it differs it is asked whose the difference is: on a host
//! where others work at the same time (their labs, their namespaces), what is not ours is named but forgiven.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use constel_host::bpf;
use constel_host::claim::{LabState, RuntimeDir};
use constel_host::inventory::{Difference, HostInventory, diff};
use constel_host::process;

use super::{constel, stderr};

/// The kernel frees BPF objects and namespaces a moment after their last user has gone.
const SETTLED_WITHIN: Duration = Duration::from_secs(10);

/// Labs of these tests have names that start so.
pub(crate) const LABS: &str = "cli-test-";

/// The host, ours alone among all tests of the command, as it was before the test.
pub(crate) struct Host {
    before: HostInventory,
    /// Labs of others lived when the picture was taken: what they had raised may be put back by whoever is last.
    others_lived: bool,
    _turn: File,
}

impl Host {
    /// Waits for its turn, removes what killed tests left, and nothing else, and takes the picture.
    pub(crate) fn take() -> Host {
        assert!(
            rustix::process::geteuid().is_root(),
            "these tests make network namespaces: run them as root"
        );
        let turn = File::create(std::env::temp_dir().join("constel-cli-tests.lock")).unwrap();
        rustix::fs::flock(turn.as_fd(), rustix::fs::FlockOperation::LockExclusive).unwrap();
        clean_killed();
        let others_lived = others_live();
        Host {
            before: HostInventory::take().unwrap(),
            others_lived: others_lived || others_live(),
            _turn: turn,
        }
    }

    /// Panics when anything that is ours differs from the picture taken before.
    pub(crate) fn assert_as_before(&self, when: &str) {
        let end = Instant::now() + SETTLED_WITHIN;
        loop {
            let all = diff(&self.before, &HostInventory::take().unwrap());
            if all.is_empty() {
                return;
            }
            let (ours, others): (Vec<_>, Vec<_>) = all
                .iter()
                .partition(|d| is_ours(d) && !self.is_of_before(d));
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
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn is_of_before(&self, difference: &Difference) -> bool {
        self.others_lived && difference.kind == "settings"
    }
}

/// A test killed from outside leaves its lab behind. The next lab would give the host back what that one had
/// raised, and the pictures before and after would differ through no fault of the test between them.
fn clean_killed() {
    for entry in RuntimeDir::default().list().unwrap() {
        let lab = entry.lab.to_string();
        if entry.state == LabState::Dead && lab.starts_with(LABS) {
            eprintln!("{lab} was left by a killed test: cleaning it");
            let output = constel(["clean", &lab]);
            assert!(output.status.success(), "{}", stderr(&output));
        }
    }
}

/// Whether a difference is our doing. In doubt it is.
fn is_ours(difference: &Difference) -> bool {
    let named = difference.what.contains(LABS);
    match (difference.kind.as_str(), difference.sign) {
        ("processes" | "cgroups", _) => named,
        // A lab's folder has its name; a journal of settings names its owners inside.
        ("runtime", _) => named || (!others_live() && difference.sign == '+'),
        // Labs hold their namespaces by descriptors and name none: these are others', unless they say otherwise.
        ("named_namespaces", _) => ours_by_name(&difference.what),
        ("mounts", _) if difference.what.starts_with("/run/netns") => {
            ours_by_name(&difference.what)
        }
        ("namespaces", '+') => namespace_is_ours(&difference.what),
        // What was there before the test was not ours, and nothing of ours can end it.
        ("namespaces" | "bpf", _) if difference.sign == '-' => false,
        // Ours are held by nobody once `constel run` is dead; those of living labs are somebody's.
        ("bpf", _) => bpf::orphans().unwrap().iter().any(|object| {
            format!("{:?} {} \"{}\"", object.kind, object.id, object.name) == difference.what
        }),
        ("settings", _) => !others_live(),
        _ => true,
    }
}

fn ours_by_name(what: &str) -> bool {
    ["constel", "cst", LABS]
        .iter()
        .any(|mark| what.contains(mark))
}

/// Whether any lab of somebody else lives, or has changed settings.
fn others_live() -> bool {
    let runtime = RuntimeDir::default();
    let labs = runtime.list().unwrap();
    let owners = runtime.globals().owners().unwrap_or_default();
    labs.iter()
        .map(|entry| entry.lab.to_string())
        .chain(owners)
        .any(|name| !name.starts_with(LABS))
}

/// A namespace is only in the picture while a process is in it or holds it: ours if such a process is.
fn namespace_is_ours(what: &str) -> bool {
    let marked: BTreeSet<u32> = process::marked(None)
        .unwrap()
        .into_iter()
        .filter(|marked| marked.lab.starts_with(LABS))
        .map(|marked| marked.pid)
        .collect();
    let holders = holders_of(what);
    holders.iter().any(|&pid| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        marked.contains(&pid)
            || pid == std::process::id()
            || String::from_utf8_lossy(&command).contains(LABS)
    })
}

/// Processes that are in this namespace (`net:[N]`) or have it open.
fn holders_of(namespace: &str) -> Vec<u32> {
    let leads_there =
        |path: &std::path::Path| fs::read_link(path).is_ok_and(|to| to.as_os_str() == namespace);
    let mut holders = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let mut open = fs::read_dir(entry.path().join("fd"))
            .into_iter()
            .flatten()
            .flatten();
        if leads_there(&entry.path().join("ns/net")) || open.any(|fd| leads_there(&fd.path())) {
            holders.push(pid);
        }
    }
    holders
}
