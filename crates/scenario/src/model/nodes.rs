//! The software of nodes: containers, their images and their limits.

use constel_units::DataSize;
use serde::Serialize;

use super::{Limit, Name, Volume};
pub use crate::raw::{
    Capability, Checksums, RawCircle as Circle, RestartPolicy, Runtime, Seccomp, StatePlace,
};
use crate::raw::{RawHealth, RawNode, StopSignal};
use crate::source::Span;

/// Time that programs get to end, by default.
const STOP_GRACE_NS: u64 = 2_000_000_000;

/// An image by a name of the scenario's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedImage {
    /// The name.
    pub name: Name,
    /// The image's source, as `constel image import` accepts it.
    pub source: Option<String>,
    /// The image's identity, by its configuration or manifest: `sha256:` and 64 digits.
    pub digest: Option<String>,
    /// The place in the scenario file.
    pub(crate) place: (Span, String),
}

/// A rule about the software of nodes; later rules override earlier ones.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeRule {
    /// The nodes that the rule applies to.
    pub of: NodesOf,
    /// The settings.
    pub set: RawNode,
    /// The place in the scenario file.
    pub(crate) place: (Span, String),
}

/// The nodes that a rule applies to.
#[derive(Debug, Clone, PartialEq)]
pub enum NodesOf {
    /// All satellites.
    Satellites,
    /// All stations.
    Stations,
    /// All hosts.
    Hosts,
    /// A constellation's satellites, or a formation's craft.
    Constellation(Name),
    /// A station or host.
    Node(Name),
    /// Nodes that fulfil all of these conditions.
    Chosen(NodeSelection),
}

/// The nodes that a rule applies to: those that fulfil all of the given conditions.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeSelection {
    /// Patterns of which each node's name matches one.
    pub names: Vec<String>,
    /// Shells that the nodes are part of: a constellation by its index in the scenario, and a shell by its
    /// index in the element set.
    pub shells: Vec<(usize, u16)>,
    /// A circle that the nodes are over at lab time zero.
    pub region: Option<Circle>,
}

/// The software of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct NodeSoftware {
    /// The node's image and settings of the container; `None`: the node is a network namespace, and its
    /// programs are the host's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
    /// The resource limits of the node's programs.
    #[serde(skip_serializing_if = "Limit::is_none")]
    pub limits: Limit,
    /// Whether it has no network stack, and the link plane forwards for it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub forwards: bool,
    /// Whether changes by its programs to its network stack stay, and are not restored.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keeps_changes: bool,
    /// Whether frames leave it with complete checksums.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub full_checksums: bool,
}

/// A container. `None` always means the image's value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Container {
    /// The image.
    pub image: String,
    /// Whether Docker's or Podman's engine runs it; else Constel does.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_engine: bool,
    /// The program; where there is one, the image's arguments do not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Vec<String>>,
    /// Its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// The working directory; absolute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// `user` or `user:group`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Variables beside the image's, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<(String, String)>,
    /// The host's files that the container sees; of two at one place the later one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<Volume>,
    /// Capabilities beside the default ones.
    #[serde(serialize_with = "words", skip_serializing_if = "is_none")]
    pub capabilities_added: u64,
    /// Default capabilities that it does not have; a capability that is also added is kept.
    #[serde(serialize_with = "words", skip_serializing_if = "is_none")]
    pub capabilities_dropped: u64,
    /// The system calls that the container may make.
    pub seccomp: Seccomp,
    /// Whether programs that it executes get no more rights.
    pub no_new_privileges: bool,
    /// Whether it may bind netlink sockets, by which the kernel notifies of changes.
    #[serde(skip_serializing_if = "Clone::clone")]
    pub kernel_events: bool,
    /// Whether its program is started again.
    pub restart: RestartPolicy,
    /// The health check; `None`: no check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
    /// The signal that asks the program to end; `None`: the image's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_signal: Option<i32>,
    /// How long it may take to end, nanoseconds.
    pub stop_grace_ns: u64,
    /// The place of the files that the container writes.
    pub state: StatePlace,
    /// The size of files that the container may keep in memory, bytes; `None`: the lab's limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files_bytes: Option<u64>,
}

/// How to find out whether a container's program works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Health {
    /// The command that is run; `None`: the image's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// From the end of one run to the start of the next, nanoseconds.
    pub interval_ns: u64,
    /// After which a run has failed, nanoseconds.
    pub timeout_ns: u64,
    /// From the program's start, in which failures do not count, nanoseconds.
    pub start_period_ns: u64,
    /// Failures in a row that are bad health.
    pub retries: u32,
}

impl From<RawHealth> for Health {
    fn from(raw: RawHealth) -> Self {
        Self {
            command: raw.command,
            interval_ns: raw.interval.ns().unsigned_abs(),
            timeout_ns: raw.timeout.ns().unsigned_abs(),
            start_period_ns: raw.start_period.ns().unsigned_abs(),
            retries: raw.retries,
        }
    }
}

impl Container {
    /// The privileges of the container beyond the default ones, in words; empty for most.
    #[must_use]
    pub fn privileges(&self) -> Vec<String> {
        let added = Capability::words(self.capabilities_added);
        let mut more: Vec<String> = added.into_iter().map(str::to_owned).collect();
        if self.seccomp == Seccomp::None {
            more.push("all system calls".to_owned());
        }
        if !self.no_new_privileges {
            more.push("setuid files".to_owned());
        }
        more
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_none(bits: &u64) -> bool {
    *bits == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn words<S: serde::Serializer>(bits: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(Capability::words(*bits))
}

/// Overrides the settings of `under` by those of `set`; variables and mounts are overridden one by one.
pub(crate) fn over(under: &mut RawNode, set: &RawNode) {
    fn later<T: Clone>(under: &mut Option<T>, set: Option<&T>) {
        if let Some(set) = set {
            *under = Some(set.clone());
        }
    }
    later(&mut under.runtime, set.runtime.as_ref());
    let runs_none = matches!(under.runtime, Some(Runtime::Netns | Runtime::Forward));
    if set.image.is_some() && set.runtime.is_none() && runs_none {
        // A rule that names an image makes the node a container.
        under.runtime = None;
    }
    later(&mut under.image, set.image.as_ref());
    if set.entrypoint.is_some() {
        // Arguments of another program.
        under.command = None;
    }
    later(&mut under.entrypoint, set.entrypoint.as_ref());
    later(&mut under.command, set.command.as_ref());
    later(&mut under.workdir, set.workdir.as_ref());
    later(&mut under.user, set.user.as_ref());
    under.env.0.extend(set.env.0.clone());
    for mount in &set.mounts {
        under.mounts.retain(|earlier| earlier.at != mount.at);
        under.mounts.push(mount.clone());
    }
    later(&mut under.capabilities, set.capabilities.as_ref());
    later(&mut under.seccomp, set.seccomp.as_ref());
    later(&mut under.no_new_privileges, set.no_new_privileges.as_ref());
    later(&mut under.kernel_events, set.kernel_events.as_ref());
    if let Some(share) = &set.limits {
        let own = under.limits.get_or_insert_default();
        later(&mut own.cpu, share.cpu.as_ref());
        later(&mut own.memory, share.memory.as_ref());
        later(&mut own.pids, share.pids.as_ref());
        later(&mut own.files, share.files.as_ref());
    }
    later(&mut under.restore, set.restore.as_ref());
    later(&mut under.checksums, set.checksums.as_ref());
    later(&mut under.restart, set.restart.as_ref());
    later(&mut under.health, set.health.as_ref());
    later(&mut under.stop, set.stop.as_ref());
    later(&mut under.state, set.state.as_ref());
}

/// Returns the software that follows from all settings of a node.
pub(crate) fn software(node: RawNode) -> NodeSoftware {
    let files = node.limits.as_ref().and_then(|share| share.files);
    let limits = node.limits.map_or(Limit::default(), |share| Limit {
        cpu_thousandths: share.cpu.as_deref().and_then(thousandths),
        memory_bytes: share.memory.map(DataSize::bytes),
        processes: share.pids.map(u64::from),
    });
    let runs_one = !matches!(node.runtime, Some(Runtime::Netns | Runtime::Forward));
    let forwards = node.runtime == Some(Runtime::Forward);
    let image = node.image.filter(|_| runs_one);
    let bits = |list: &[Capability]| list.iter().fold(0, |set, one| set | one.bits());
    let capabilities = node.capabilities.unwrap_or_default();
    let by_engine = node.runtime == Some(Runtime::Docker);
    let container = image.map(|image| Container {
        image,
        by_engine,
        entrypoint: node.entrypoint,
        command: node.command,
        workdir: node.workdir,
        user: node.user,
        env: node.env.0.into_iter().collect(),
        mounts: node.mounts,
        capabilities_added: bits(&capabilities.add),
        capabilities_dropped: bits(&capabilities.drop),
        seccomp: node.seccomp.unwrap_or_default(),
        no_new_privileges: node.no_new_privileges.unwrap_or(true),
        kernel_events: node.kernel_events.unwrap_or(true),
        restart: node.restart.unwrap_or_default(),
        health: node.health.map(Health::from),
        stop_signal: node
            .stop
            .as_ref()
            .and_then(|stop| stop.signal)
            .map(StopSignal::number),
        stop_grace_ns: node
            .stop
            .as_ref()
            .map_or(STOP_GRACE_NS, |stop| stop.grace.ns().unsigned_abs()),
        state: node.state.unwrap_or_default(),
        files_bytes: files.map(DataSize::bytes),
    });
    NodeSoftware {
        container,
        limits,
        forwards,
        keeps_changes: node.restore == Some(false),
        full_checksums: node.checksums == Some(Checksums::Full),
    }
}

/// Parses a number of processors, in thousandths; `None` for a value outside 0.01 to 4096.
pub(crate) fn thousandths(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let number: f64 = text.parse().ok().filter(|_| plain)?;
    (0.01..=4096.0)
        .contains(&number)
        .then(|| (number * 1000.0).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_counted_in_thousandths() {
        let all = ["0.5", "2", "0.01", "0.009", "1e2", "-1", "", "half", "4097"];
        let expected = [
            Some(500),
            Some(2000),
            Some(10),
            None,
            None,
            None,
            None,
            None,
            None,
        ];
        assert_eq!(all.map(thousandths), expected);
    }

    #[test]
    fn what_is_said_last_counts() {
        let mut node = RawNode {
            image: Some("a".into()),
            command: Some(vec!["x".into()]),
            ..RawNode::default()
        };
        let netns = RawNode {
            runtime: Some(Runtime::Netns),
            ..RawNode::default()
        };
        over(&mut node, &netns);
        assert_eq!(software(node.clone()).container, None);
        let image = RawNode {
            image: Some("b".into()),
            entrypoint: Some(vec!["y".into()]),
            ..RawNode::default()
        };
        over(&mut node, &image);
        let container = software(node).container.unwrap();
        assert_eq!((container.image.as_str(), container.command), ("b", None));
        assert_eq!(container.entrypoint, Some(vec!["y".to_owned()]));
    }

    #[test]
    fn an_image_does_not_say_who_runs_it() {
        let mut node = RawNode {
            runtime: Some(Runtime::Docker),
            ..RawNode::default()
        };
        let image = RawNode {
            image: Some("a".into()),
            ..RawNode::default()
        };
        over(&mut node, &image);
        assert!(software(node).container.unwrap().by_engine);
        assert!(!software(image).container.unwrap().by_engine);
    }
}
