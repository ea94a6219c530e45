//! What nodes are made of.

use constel_units::DataSize;
use serde::Serialize;

use super::{Limit, Name};
use crate::raw::RawNode;
pub use crate::raw::{Capability, RestartPolicy, Runtime, Seccomp, StatePlace};
use crate::source::Span;

/// Something that is said of nodes; later rules go over earlier ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeRule {
    /// Of which.
    pub of: NodesOf,
    /// What.
    pub set: RawNode,
    /// Where it stands.
    #[serde(skip)]
    pub(crate) place: (Span, String),
}

/// Of which nodes something is said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodesOf {
    /// All satellites.
    Satellites,
    /// All stations.
    Stations,
    /// All hosts.
    Hosts,
    /// A constellation's satellites.
    Constellation(Name),
    /// A station or host.
    Node(Name),
    /// Those whose names match one of these.
    Named(Vec<String>),
}

/// What a node is made of.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct NodeSoftware {
    /// Its image and what is said about it; `None`: it is a network namespace, and its programs are the host's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
    /// What its programs may take.
    #[serde(skip_serializing_if = "Limit::is_none")]
    pub limits: Limit,
}

/// A container. `None` is always: as the image says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Container {
    /// The image.
    pub image: String,
    /// The program; where there is one, the image's arguments do not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Vec<String>>,
    /// Its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Where it begins; absolute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// `user` or `user:group`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Variables beside the image's, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<(String, String)>,
    /// What it sees of the host; of two at one place the later one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<Volume>,
    /// Capabilities beside the default ones.
    #[serde(serialize_with = "words", skip_serializing_if = "is_none")]
    pub capabilities_added: u64,
    /// Capabilities of the default ones that it does not have; those that are added count more.
    #[serde(serialize_with = "words", skip_serializing_if = "is_none")]
    pub capabilities_dropped: u64,
    /// Which system calls it may make.
    pub seccomp: Seccomp,
    /// Whether nothing that it executes has more rights.
    pub no_new_privileges: bool,
    /// Whether its program is started again.
    pub restart: RestartPolicy,
    /// Where what it writes is.
    pub state: StatePlace,
}

/// Something of the host that a container sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Volume {
    /// As the scenario says: relative to its folder, or absolute.
    pub host: String,
    /// Absolute; without `.` and `..`.
    pub at: String,
    /// Whether it cannot be written there.
    pub read_only: bool,
}

impl Container {
    /// What of it is more than containers have by default, in words; empty for most.
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

/// The last that is said counts, of variables and mounts for each of them.
pub(crate) fn over(under: &mut RawNode, set: &RawNode) {
    fn later<T: Clone>(under: &mut Option<T>, set: Option<&T>) {
        if let Some(set) = set {
            *under = Some(set.clone());
        }
    }
    later(&mut under.runtime, set.runtime.as_ref());
    if set.image.is_some() && set.runtime.is_none() {
        // Whoever names an image wants it run.
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
    if let Some(share) = &set.limits {
        let own = under.limits.get_or_insert_default();
        later(&mut own.cpu, share.cpu.as_ref());
        later(&mut own.memory, share.memory.as_ref());
        later(&mut own.pids, share.pids.as_ref());
    }
    later(&mut under.restart, set.restart.as_ref());
    later(&mut under.state, set.state.as_ref());
}

/// What came of all that is said of a node.
pub(crate) fn software(node: RawNode) -> NodeSoftware {
    let limits = node.limits.map_or(Limit::default(), |share| Limit {
        cpu_thousandths: share.cpu.as_deref().and_then(thousandths),
        memory_bytes: share.memory.map(DataSize::bytes),
        processes: share.pids.map(u64::from),
    });
    let image = node.image.filter(|_| node.runtime != Some(Runtime::Netns));
    let bits = |list: &[Capability]| list.iter().fold(0, |set, one| set | one.bits());
    let capabilities = node.capabilities.unwrap_or_default();
    let container = image.map(|image| Container {
        image,
        entrypoint: node.entrypoint,
        command: node.command,
        workdir: node.workdir,
        user: node.user,
        env: node.env.0.into_iter().collect(),
        mounts: node
            .mounts
            .into_iter()
            .map(|mount| Volume {
                host: mount.host,
                at: mount.at,
                read_only: mount.read_only,
            })
            .collect(),
        capabilities_added: bits(&capabilities.add),
        capabilities_dropped: bits(&capabilities.drop),
        seccomp: node.seccomp.unwrap_or_default(),
        no_new_privileges: node.no_new_privileges.unwrap_or(true),
        restart: node.restart.unwrap_or_default(),
        state: node.state.unwrap_or_default(),
    });
    NodeSoftware { container, limits }
}

/// A number of processors in thousandths; `None` for what is none from 0.01 to 4096.
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
}
