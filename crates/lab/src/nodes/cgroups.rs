//! The cgroups of a lab's processes, and their limits.

use std::collections::BTreeMap;
use std::path::PathBuf;

use constel_host::cgroup::limits::{LimitedGroups, Limits};
use constel_host::cgroup::{LabCgroup, host_processor_wait_ns};
use constel_host::claim::LabName;
use constel_host::limits::memory_bytes;
use constel_host::sysctl;
use constel_plan::Lab;
use constel_scenario::model::Limit;

use crate::error::EngineError;

/// The default limit of processes: this number for the lab, the same number again for each container, and
/// `PROCESSES_PER_NODE` for each node. A container may have the first number, so that one that exhausts its limit
/// (zombies count until they are reaped) only exhausts its own.
const PROCESSES: u64 = 4096;
const PROCESSES_PER_NODE: u64 = 64;

/// The cgroups of a lab's processes.
#[derive(Default)]
pub(crate) struct Cgroups {
    /// The cgroup of all processes, with which they can be ended.
    all: Option<LabCgroup>,
    /// The cgroup of routing daemons and of containers' programs, which have one common share of the processors:
    /// thousands of them would otherwise starve the link plane, and the start of further ones.
    pub(crate) sharing: Option<LabCgroup>,
    /// The limits: of the whole lab, and below of nodes with limits of their own.
    lab: LimitedGroups,
    nodes: BTreeMap<String, LimitedGroups>,
    /// Cgroups in hierarchies without limits, for labs with containers, so that these are below them.
    others: Vec<LabCgroup>,
    /// Whether an engine has some of the containers, in cgroups of its own.
    by_engine: bool,
}

impl Cgroups {
    /// Creates the cgroups. `sharing`: whether there will be programs with a common share of the processors.
    ///
    /// # Errors
    /// When a cgroup is left over from a killed lab; [`EngineError::Unable`] when the scenario has limits that this
    /// host does not support.
    pub(crate) fn create(lab: &LabName, plan: &Lab, sharing: bool) -> Result<Self, EngineError> {
        let asked = &plan.scenario.limits;
        let names = plan.layout.nodes().iter().map(|node| node.name.as_str());
        let software = names.zip(plan.software.iter().map(|software| software.limits));
        let listed = asked
            .nodes
            .iter()
            .map(|(name, limit)| (name.as_str(), *limit));
        let stated: Vec<(&str, Limit)> = software
            .filter(|(_, limit)| !limit.is_none())
            .chain(listed)
            .collect();
        // The kernel's range of process numbers bounds the default limits.
        let numbers = sysctl::read_as::<u64>("kernel/pid_max").ok();
        let shares = Shares::of(plan, numbers, &stated);
        let of_nodes = shares.with(&stated);
        let with_cpu = of_nodes
            .iter()
            .any(|(_, limit)| limit.cpu_thousandths.is_some());
        let all = LabCgroup::create(lab)?;
        let cpu = match sharing || with_cpu {
            true => LabCgroup::create_cpu(lab)?,
            false => None,
        };
        // A limit of the scenario replaces the default; without either there is no limit.
        let limits = Limits {
            memory_bytes: asked.lab.memory_bytes.or_else(most_memory),
            processes: asked.lab.processes.or(shares.lab),
            cpu_thousandths: None,
        };
        let mut made = Self {
            lab: LimitedGroups::create(
                lab,
                all.as_ref(),
                &limits,
                (!of_nodes.is_empty(), with_cpu),
                cpu.as_ref(),
            )?,
            all,
            sharing: cpu.filter(|_| sharing),
            nodes: BTreeMap::new(),
            others: Vec::new(),
            by_engine: plan.containers().any(|(_, container)| container.by_engine),
        };
        // Only limits that the scenario states are checked: a missing controller for a default limit is only a
        // warning.
        made.check(stated.iter().map(|(_, limit)| limit).chain([&asked.lab]))?;
        for (name, limit) in of_nodes {
            let limits = Limits {
                memory_bytes: limit.memory_bytes,
                processes: limit.processes,
                cpu_thousandths: limit.cpu_thousandths,
            };
            made.nodes
                .insert(name.to_owned(), made.lab.node(name, &limits)?);
        }
        if plan.containers().next().is_some() {
            made.others = LabCgroup::create_others(lab)?;
        }
        Ok(made)
    }

    /// Refuses limits of the scenario that this host cannot enforce.
    fn check<'a>(&self, mut asked: impl Iterator<Item = &'a Limit>) -> Result<(), EngineError> {
        let missing = self.lab.missing();
        let lacks = |name: &str| missing.contains(&name);
        let wanted = asked.any(|limit| {
            (limit.memory_bytes.is_some() && lacks("memory"))
                || (limit.processes.is_some() && lacks("pids"))
                || (limit.cpu_thousandths.is_some() && lacks("cpu"))
        });
        if !wanted {
            return Ok(());
        }
        Err(EngineError::Unable {
            what: format!(
                "the scenario has `limits`, and this host no cgroup controller {} that can be used",
                missing.join(" and ")
            ),
            remedy:
                "mount cgroup2 with these controllers (kernel: CONFIG_MEMCG, CONFIG_CGROUP_PIDS, \
                     CONFIG_CFS_BANDWIDTH), or remove \
                     `limits`"
                    .to_owned(),
        })
    }

    /// Thaws processes that a container has frozen in one of its hierarchies: they do not die before.
    ///
    /// # Errors
    /// When a group cannot be listed or thawed.
    pub(crate) fn thaw(&self) -> constel_host::Result<()> {
        for group in self.all.iter().chain(&self.others) {
            group.thaw()?;
        }
        Ok(())
    }

    /// Returns the cgroups of the programs of the node with that name.
    pub(crate) fn of(&self, node: &str) -> Vec<&LabCgroup> {
        let limited = self.nodes.get(node).unwrap_or(&self.lab).groups();
        // The cgroup with limits may be the lab's own cgroup, or be below it. A process is in only one of these.
        let all = self.all.iter();
        let outside = all.filter(|all| limited.iter().all(|g| !g.path().starts_with(all.path())));
        outside.chain(limited).chain(&self.others).collect()
    }

    /// Returns how many processes of that node were killed at the node's own memory limit.
    pub(crate) fn killed_for_memory(&self, node: &str) -> u64 {
        let limited = self.nodes.get(node);
        limited.map_or(0, LimitedGroups::killed_for_memory)
    }

    /// Returns the cgroups that contain the programs of the node with that name alone; empty if it has none.
    pub(crate) fn own(&self, node: &str) -> Vec<PathBuf> {
        let groups = self.nodes.get(node).into_iter();
        let groups = groups.flat_map(LimitedGroups::groups);
        groups.map(|group| group.path().to_owned()).collect()
    }

    /// Returns the paths of all cgroups of its programs.
    pub(crate) fn paths(&self, node: &str) -> Vec<PathBuf> {
        let groups = self.of(node).into_iter();
        groups.map(|group| group.path().to_owned()).collect()
    }

    /// Returns the time in which some process of the lab waited for a processor, nanoseconds since some instant. If
    /// the lab's processes cannot be distinguished, the time covers all processes of this host.
    pub(crate) fn processor_wait_ns(&self) -> Option<u64> {
        let told_apart = self.all.as_ref().filter(|_| !self.by_engine);
        told_apart.map_or_else(host_processor_wait_ns, LabCgroup::processor_wait_ns)
    }

    /// Returns the resources without a limit because this host lacks the controller.
    pub(crate) fn unlimited(&self) -> &[&'static str] {
        self.lab.missing()
    }

    /// Describes how the processors are shared with routing daemons, for the results.
    pub(crate) fn sharing(&self) -> &'static str {
        if self.sharing.is_some() {
            "all daemons together weigh as much as one session (cgroup v1)"
        } else if self.all.as_ref().is_some_and(LabCgroup::has_weight) {
            "all processes in nodes together weigh as much as one group (cgroup v2)"
        } else {
            "each daemon weighs as much as a session: this host has no group for processor time"
        }
    }
}

/// Returns three quarters of the machine's memory.
fn most_memory() -> Option<u64> {
    Some(memory_bytes("MemTotal:")? / 4 * 3)
}

/// The process limits of a lab, and of each container without a limit of its own.
struct Shares<'a> {
    /// The limit of the lab; `None` if the kernel's maximum is not known.
    lab: Option<u64>,
    container: Option<u64>,
    /// The containers without a process limit of their own.
    silent: Vec<&'a str>,
}

impl<'a> Shares<'a> {
    fn of(plan: &'a Lab, numbers: Option<u64>, stated: &[(&str, Limit)]) -> Self {
        let states = |name: &str| {
            let mut limits = stated.iter().filter(|(of, _)| *of == name);
            limits.any(|(_, limit)| limit.processes.is_some())
        };
        let own = plan.containers().filter(|(_, own)| !own.by_engine);
        let names = own.map(|(node, _)| plan.layout.node(node).name.as_str());
        let silent: Vec<&str> = names.filter(|name| !states(name)).collect();
        let (containers, nodes) = (silent.len() as u64, plan.layout.nodes().len() as u64);
        // A quarter of the process numbers stays with the machine.
        let most = numbers.map(|numbers| numbers / 4 * 3);
        let (lab, container) = shares(plan.scenario.limits.lab.processes, most, containers, nodes);
        Self {
            lab,
            container,
            silent,
        }
    }

    /// Returns the stated limits, with the default shares of containers that have no process limit.
    fn with(&self, stated: &[(&'a str, Limit)]) -> Vec<(&'a str, Limit)> {
        let mut all = stated.to_vec();
        for name in &self.silent {
            match all.iter_mut().find(|(of, _)| of == name) {
                Some((_, limit)) => limit.processes = self.container,
                None => all.push((
                    name,
                    Limit {
                        processes: self.container,
                        ..Limit::default()
                    },
                )),
            }
        }
        all
    }
}

/// Returns the limits of a lab and of each of its `containers` without one: together these leave one share for all
/// other processes.
fn shares(
    asked: Option<u64>,
    most: Option<u64>,
    containers: u64,
    nodes: u64,
) -> (Option<u64>, Option<u64>) {
    let enough = PROCESSES * (containers + 1) + PROCESSES_PER_NODE * nodes;
    let lab = asked.or_else(|| most.map(|most| most.min(enough)));
    // The lab's limit is divided equally, with one share for processes outside the containers.
    let container = lab.map(|lab| (lab / (containers + 1)).clamp(1, PROCESSES));
    (lab, container)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_container_can_take_what_is_left_to_others() {
        // Without a limit the result is as before.
        assert_eq!(shares(None, Some(1 << 20), 0, 80).0, Some(4096 + 64 * 80));
        let bounds = [(None, 1 << 20), (None, 24_576), (Some(300), 1 << 20)];
        for (asked, most) in bounds {
            for containers in [1, 2, 80] {
                let (lab, container) = shares(asked, Some(most), containers, containers);
                let (lab, container) = (lab.unwrap(), container.unwrap());
                let left = lab - containers * container;
                assert!(container >= 1 && left >= container, "{lab} {container}");
                assert!(lab <= most);
            }
        }
        // A host that reports no maximum sets no limit.
        assert_eq!(shares(None, None, 3, 3), (None, None));
    }
}
