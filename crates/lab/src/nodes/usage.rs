//! The resources that nodes use, from cgroups of their own.

use std::path::PathBuf;

use constel_host::cgroup::usage::Usage;
use constel_topology::NodeId;

use super::cgroups::Cgroups;
use super::kernels::Kernels;

/// Returns the cgroups that contain the programs of this node and no others. Containers and nodes with limits have some;
/// other nodes, and nodes of other machines, have none.
fn own_groups(groups: &Cgroups, kernels: &Kernels, node: NodeId) -> Vec<PathBuf> {
    let lab = &kernels.blueprint.lab;
    if !lab.is_accounted(node) || !kernels.ours().has(node) {
        return Vec::new();
    }
    let name = &lab.layout.node(node).name;
    if !lab.is_by_engine(node) {
        return groups.own(name);
    }
    // An engine may have created the container again, in other groups.
    let door = kernels.node(node).door(name).ok();
    door.and_then(|door| door.inner)
        .map(|inner| inner.cgroups)
        .unwrap_or_default()
}

/// Returns the resources that a node uses; `None` if nothing is counted for it.
pub(crate) fn of_node(groups: &Cgroups, kernels: &Kernels, node: NodeId) -> Option<Usage> {
    let own = own_groups(groups, kernels, node);
    let usage = Usage::of(&own);
    (usage != Usage::default()).then_some(usage)
}
