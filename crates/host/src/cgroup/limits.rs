//! Limits of memory, processes and processor time for a lab, or one of its nodes.
//!
//! The controllers may be cgroup2's or cgroup v1's, each independently: their files differ, their effects do not. When
//! memory runs out, the kernel kills a program, the largest first. A program that exceeds the limit of processes cannot
//! start another.

use std::path::Path;

use super::LabCgroup;
use crate::claim::LabName;
use crate::error::{Context, Error, Result};
use crate::sysctl::write_file;

/// Limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory: of processes, of their files in memory (`/tmp` and `/run` of nodes), and of the kernel on their
    /// behalf.
    pub memory_bytes: Option<u64>,
    /// Processes and threads.
    pub processes: Option<u64>,
    /// Processor time, thousandths of a processor. For a lab as a whole it is not limited.
    pub cpu_thousandths: Option<u64>,
}

/// The controller without limits for a whole lab.
const CPU: &str = "cpu";

/// A controller with limits.
struct Controller {
    /// The controller's name in both versions.
    name: &'static str,
    /// The file for the limit, in cgroup2 and in cgroup v1.
    files: [&'static str; 2],
    of: fn(&Limits) -> Option<[String; 2]>,
}

/// Period over which the limit of processor time applies, in microseconds.
const PERIOD_US: u64 = 100_000;

fn same(limit: u64) -> [String; 2] {
    [limit.to_string(), limit.to_string()]
}

fn quota(thousandths: u64) -> [String; 2] {
    let us = thousandths * PERIOD_US / 1000;
    // The period is cgroup v1's default, so only the quota must be written there.
    [format!("{us} {PERIOD_US}"), us.to_string()]
}

const CONTROLLERS: [Controller; 3] = [
    Controller {
        name: "memory",
        files: ["memory.max", "memory.limit_in_bytes"],
        of: |limits| limits.memory_bytes.map(same),
    },
    Controller {
        name: "pids",
        files: ["pids.max", "pids.max"],
        of: |limits| limits.processes.map(same),
    },
    Controller {
        name: CPU,
        files: ["cpu.max", "cpu.cfs_quota_us"],
        of: |limits| limits.cpu_thousandths.map(quota),
    },
];

/// Returns how many processes of these groups were killed so far because a limit of memory was reached; `None` if no
/// group exists or counts.
#[must_use]
pub fn killed_for_memory(groups: &[LabCgroup]) -> Option<u64> {
    let files = ["memory.events", "memory.oom_control"];
    let files = groups
        .iter()
        .flat_map(|group| files.map(|file| group.path().join(file)));
    let count = |text: String| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("oom_kill "))?;
        line.trim().parse::<u64>().ok()
    };
    let texts = files.filter_map(|file| std::fs::read_to_string(file).ok());
    texts.filter_map(count).reduce(|sum, more| sum + more)
}

/// Groups whose members are subject to a lab's limits.
#[derive(Clone, Debug, Default)]
pub struct LimitedGroups {
    groups: Vec<LabCgroup>,
    /// Parent of the groups of nodes with limited processor time, in cgroup v1.
    cpu: Option<LabCgroup>,
    /// Parent of groups of nodes without any limit, in a cgroup2 that has no controllers: it counts processor time.
    counting: Option<LabCgroup>,
    missing: Vec<&'static str>,
}

impl LimitedGroups {
    /// Sets limits of a lab: on `unified`, its group of cgroup2, if that has the controllers, otherwise on groups
    /// created in cgroup v1's hierarchies. `with_nodes`: some nodes will have limits of their own; `with_cpu`: of
    /// processor time too, for which `cpu` is the lab's group in cgroup v1.
    ///
    /// # Errors
    /// [`Error::Conflict`] when a group is left over from a lab that was not cleaned up, [`Error::Os`] when the kernel
    /// refuses a limit.
    pub fn create(
        lab: &LabName,
        unified: Option<&LabCgroup>,
        limits: &Limits,
        (with_nodes, with_cpu): (bool, bool),
        cpu: Option<&LabCgroup>,
    ) -> Result<LimitedGroups> {
        let mut made = LimitedGroups::default();
        let mut in_unified = Vec::new();
        for controller in &CONTROLLERS {
            let of_nodes = controller.name == CPU;
            if of_nodes && !with_cpu {
                continue;
            }
            let group = match unified {
                Some(group) if group.path().join(controller.files[0]).exists() => {
                    in_unified.push(controller.name);
                    Some(group.clone())
                }
                // In cgroup v1 this group contains only processes of those nodes.
                _ if of_nodes => {
                    made.cpu = cpu.cloned();
                    if cpu.is_none() {
                        made.missing.push(controller.name);
                    }
                    continue;
                }
                _ => LabCgroup::create_v1(controller.name, lab)?,
            };
            match group {
                None => made.missing.push(controller.name),
                Some(group) => {
                    set(&group, controller, limits)?;
                    made.add(group);
                }
            }
        }
        // A group of cgroup2 whose subgroups have limits must not have processes of its own.
        if let (Some(group), true, false) = (unified, with_nodes, in_unified.is_empty()) {
            // Without limits, the controller `io` only counts.
            let counts_io = group.path().join("io.stat").exists();
            let on = in_unified.iter().chain(counts_io.then_some(&"io"));
            let on: Vec<_> = on.map(|name| format!("+{name}")).collect();
            let path = group.path().join("cgroup.subtree_control");
            write_file(&path, &on.join(" ")).context(|| format!("write {}", path.display()))?;
            made.groups.retain(|other| other != group);
            made.groups.push(group.subgroup("others")?);
        } else if with_nodes && in_unified.is_empty() {
            made.counting = unified.cloned();
        }
        Ok(made)
    }

    /// Adds limits of a node of the lab, below the lab's own.
    ///
    /// # Errors
    /// As [`LimitedGroups::create`].
    pub fn node(&self, name: &str, limits: &Limits) -> Result<LimitedGroups> {
        let mut made = LimitedGroups {
            missing: self.missing.clone(),
            ..LimitedGroups::default()
        };
        let cpu = self.cpu.iter().filter(|_| limits.cpu_thousandths.is_some());
        let above = self.groups.iter().chain(cpu).chain(&self.counting);
        for group in above {
            // Next to the group `others`, if there is one.
            let lab = match group.path().file_name().and_then(|n| n.to_str()) {
                Some("others") => LabCgroup::at(parent(group.path())?.to_owned()),
                _ => group.clone(),
            };
            let group = lab.subgroup(&format!("node-{name}"))?;
            for controller in &CONTROLLERS {
                set(&group, controller, limits)?;
            }
            made.add(group);
        }
        Ok(made)
    }

    fn add(&mut self, group: LabCgroup) {
        if !self.groups.contains(&group) {
            self.groups.push(group);
        }
    }

    /// Returns the groups that a process must join to be subject to the limits, each once.
    #[must_use]
    pub fn groups(&self) -> &[LabCgroup] {
        &self.groups
    }

    /// Returns how many of their processes were killed so far because a limit of memory was reached.
    #[must_use]
    pub fn killed_for_memory(&self) -> u64 {
        killed_for_memory(&self.groups).unwrap_or(0)
    }

    /// Returns the controllers that this host lacks: their resources are not limited.
    #[must_use]
    pub fn missing(&self) -> &[&'static str] {
        &self.missing
    }
}

fn parent(path: &Path) -> Result<&Path> {
    path.parent()
        .ok_or_else(|| Error::Invalid(format!("{} lies nowhere", path.display())))
}

/// Sets the limit of a group, if it has one and is in that controller's hierarchy.
fn set(group: &LabCgroup, controller: &Controller, limits: &Limits) -> Result<()> {
    let Some(limit) = (controller.of)(limits) else {
        return Ok(());
    };
    for (file, limit) in controller.files.into_iter().zip(&limit) {
        let path = group.path().join(file);
        if path.exists() {
            return write_file(&path, limit)
                .context(|| format!("set {} to {limit}", path.display()));
        }
    }
    Ok(())
}
