//! `mounts` and `limits`: checks of places, of nodes, and of limits that exceed the total.

use std::path::{Component, Path};

use super::nodes::Nodes;
use crate::deferred::DeferredNode;
use crate::diagnostic::Diagnostics;
use crate::model::{Limit, Limits, Mount};
use crate::parse::Parsed;
use crate::raw::RawMount;
use crate::walk::Seg::{Index, Key};

/// Places that cannot be mounted over: nodes or the kernel have their own files there.
const TAKEN: [&str; 3] = ["/proc", "/sys", "/dev/pts"];

/// Checks the mounts; errors go to `errors`.
pub(super) fn mounts(
    parsed: &Parsed,
    nodes: &Nodes<'_>,
    deferred: &mut Vec<DeferredNode>,
    errors: &mut Diagnostics,
) -> Vec<Mount> {
    let raw = &parsed.raw.mounts;
    for (index, mount) in raw.iter().enumerate() {
        check_place(parsed, (index, mount), errors);
        let earlier = raw[..index].iter();
        let mut same = earlier.filter(|other| other.at == mount.at && share_nodes(other, mount));
        if same.next().is_some() {
            let path = [Key("mounts"), Index(index), Key("at")];
            let message = format!("two mounts are at `{}` of the same nodes", mount.at);
            let error = parsed.error_at(&path, "duplicate-mount", message);
            errors.push(error.with_reason("the earlier one would not be seen"));
        }
        for (n, name) in mount.nodes.iter().flatten().enumerate() {
            let path = [Key("mounts"), Index(index), Key("nodes"), Index(n)];
            nodes.must_be(parsed, &path, name, deferred, errors);
        }
    }
    let resolved = raw.iter().map(|mount| Mount {
        host: mount.host.clone(),
        at: mount.at.clone(),
        read_only: mount.read_only,
        nodes: mount.nodes.as_ref().map(|nodes| {
            let names = nodes.iter().map(|node| node.name().clone());
            names.collect()
        }),
    });
    resolved.collect()
}

/// Whether some node sees both.
fn share_nodes(a: &RawMount, b: &RawMount) -> bool {
    match (&a.nodes, &b.nodes) {
        (Some(a), Some(b)) => a.iter().any(|name| b.contains(name)),
        _ => true,
    }
}

/// Returns the reason why a path cannot be mounted over, and what to do.
pub(super) fn wrong_place(at: &str) -> Option<(&'static str, &'static str)> {
    let path = Path::new(at);
    let whole = path
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !path.is_absolute() || !whole || at.contains('\0') {
        Some((
            "it must be absolute, without `.` and `..`",
            "write a path such as `/srv/site`",
        ))
    } else if path == Path::new("/") {
        Some(("programs would see nothing else", "name a folder below it"))
    } else if TAKEN.iter().any(|taken| path.starts_with(taken)) {
        Some((
            "these are the node's own, or the kernel's",
            "choose another place",
        ))
    } else {
        None
    }
}

fn check_place(parsed: &Parsed, (index, mount): (usize, &RawMount), errors: &mut Diagnostics) {
    let path = [Key("mounts"), Index(index), Key("at")];
    if let Some((reason, suggestion)) = wrong_place(&mount.at) {
        let message = format!("nothing can be mounted at `{}`", mount.at);
        let error = parsed.error_at(&path, "bad-mount", message);
        errors.push(error.with_reason(reason).with_suggestion(suggestion));
    }
    if mount.host.contains('\0') {
        let path = [Key("mounts"), Index(index), Key("host")];
        errors.push(parsed.error_at(&path, "bad-mount", "a path holds no NUL byte"));
    }
}

/// Checks the limits; errors go to `errors`.
pub(super) fn limits(
    parsed: &Parsed,
    nodes: &Nodes<'_>,
    deferred: &mut Vec<DeferredNode>,
    errors: &mut Diagnostics,
) -> Limits {
    let raw = &parsed.raw.limits;
    let limit = |memory: Option<constel_units::DataSize>, processes: Option<u32>| Limit {
        cpu_thousandths: None,
        memory_bytes: memory.map(constel_units::DataSize::bytes),
        processes: processes.map(u64::from),
    };
    let lab = limit(raw.memory, raw.processes);
    let mut of_nodes = Vec::new();
    for (name, raw) in &raw.nodes {
        let path = [Key("limits"), Key("nodes"), Key(name.as_str())];
        nodes.must_be(parsed, &path, name, deferred, errors);
        let own = limit(raw.memory, raw.processes);
        if own == Limit::default() {
            let error = parsed.error_at_key(
                &path,
                "no-effect",
                format!("`{name}` is limited in nothing"),
            );
            errors.push(error.with_suggestion("give `memory`, `processes` or both"));
        }
        let pairs = [
            ("memory", own.memory_bytes, lab.memory_bytes),
            ("processes", own.processes, lab.processes),
        ];
        for (key, own, whole) in pairs {
            if let (Some(own), Some(whole)) = (own, whole)
                && own > whole
            {
                let path = [Key("limits"), Key("nodes"), Key(name.as_str()), Key(key)];
                let message = format!("the limit of `{name}` is above that of the whole lab");
                let error = parsed.error_at(&path, "out-of-range", message);
                errors.push(error.with_reason("it would never be reached"));
            }
        }
        of_nodes.push((name.clone(), own));
    }
    Limits {
        lab,
        nodes: of_nodes,
    }
}
