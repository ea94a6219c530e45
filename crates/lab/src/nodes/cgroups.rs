//! The groups of a lab's processes, and what these may take.

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

/// Processes that a lab may have by default: so many, as many again for each container, and so many more for each node. A container
/// may have the first number, so that one that leaves nothing to others (zombies count until they are waited for) takes its own alone.
const PROCESSES: u64 = 4096;
const PROCESSES_PER_NODE: u64 = 64;

/// The groups of a lab's processes.
#[derive(Default)]
pub(crate) struct Cgroups {
    /// All of them, so that they can be ended.
    all: Option<LabCgroup>,
    /// Routing daemons and the programs of images, which together have one share of the processors: thousands of them would
    /// starve the link plane, and the bring-up of those that are still to come.
    pub(crate) sharing: Option<LabCgroup>,
    /// What they may take: all, and those of nodes with limits of their own.
    lab: LimitedGroups,
    nodes: BTreeMap<String, LimitedGroups>,
    /// In the hierarchies that limit nothing here; of labs with containers, so that those are below them.
    others: Vec<LabCgroup>,
    /// Some containers are an engine's, which has groups of its own for them.
    by_engine: bool,
}

impl Cgroups {
    /// `sharing`: whether there will be programs that have one share of the processors together.
    ///
    /// # Errors
    /// When one is left over from a lab that was killed; [`EngineError::Unable`] when the scenario asks for limits that
    /// this host does not have.
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

    /// Refuses limits that somebody asked for and that this host cannot keep.
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

    /// The groups that programs of the node of that name are in.
    pub(crate) fn of(&self, node: &str) -> Vec<&LabCgroup> {
        let limited = self.nodes.get(node).unwrap_or(&self.lab).groups();
        // Those with limits may be the lab's own group, or within it.
        let all = self.all.iter();
        let outside = all.filter(|all| limited.iter().all(|g| !g.path().starts_with(all.path())));
        outside.chain(limited).chain(&self.others).collect()
    }

    /// How many processes of that node were killed because its own limit of memory was reached.
    pub(crate) fn killed_for_memory(&self, node: &str) -> u64 {
        let limited = self.nodes.get(node);
        limited.map_or(0, LimitedGroups::killed_for_memory)
    }

    /// Their paths.
    pub(crate) fn paths(&self, node: &str) -> Vec<PathBuf> {
        let groups = self.of(node).into_iter();
        groups.map(|group| group.path().to_owned()).collect()
    }

    /// The time in which some process of the lab waited for a processor, nanoseconds since some instant: of any process of this
    /// host where those of the lab are not told apart.
    pub(crate) fn processor_wait_ns(&self) -> Option<u64> {
        let told_apart = self.all.as_ref().filter(|_| !self.by_engine);
        told_apart.map_or_else(host_processor_wait_ns, LabCgroup::processor_wait_ns)
    }

    /// What is not limited because this host lacks the controller.
    pub(crate) fn unlimited(&self) -> &[&'static str] {
        self.lab.missing()
    }

    /// How the processors are shared with routing daemons, for the record.
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

/// Three quarters of the machine's memory.
fn most_memory() -> Option<u64> {
    Some(memory_bytes("MemTotal:")? / 4 * 3)
}

/// How many processes a lab, and each container of it that states nothing, may have.
struct Shares<'a> {
    /// `None`: the kernel does not say how many it can number.
    lab: Option<u64>,
    container: Option<u64>,
    /// The containers that state nothing.
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
        // Not all that the machine can number.
        let most = numbers.map(|numbers| numbers / 4 * 3);
        let (lab, container) = shares(plan.scenario.limits.lab.processes, most, containers, nodes);
        Self {
            lab,
            container,
            silent,
        }
    }

    /// What is stated, and the shares of those that state nothing about processes.
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

/// The bounds of a lab and of each of its `containers` that state none: together they leave one share to all others.
fn shares(
    asked: Option<u64>,
    most: Option<u64>,
    containers: u64,
    nodes: u64,
) -> (Option<u64>, Option<u64>) {
    let enough = PROCESSES * (containers + 1) + PROCESSES_PER_NODE * nodes;
    let lab = asked.or_else(|| most.map(|most| most.min(enough)));
    let container = lab.map(|lab| (lab / (containers + 1)).clamp(1, PROCESSES));
    (lab, container)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_container_can_take_what_is_left_to_others() {
        // As before where there is none.
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
        // A host that does not say sets no bound.
        assert_eq!(shares(None, None, 3, 3), (None, None));
    }
}
