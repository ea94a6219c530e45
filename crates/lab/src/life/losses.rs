//! Machines that are lost during lab time. All other machines remove the lost machine's nodes with the same step.
//! If nodes move, other machines create them again, and all restore their links with one step.

use std::collections::BTreeMap;
use std::time::Duration;

use constel_plan::Planner;
use constel_topology::NodeId;

use crate::error::EngineError;

/// A change of the lab's machines. All machines receive the same changes in the same order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A machine is lost.
    Lost(Loss),
    /// Nodes of a lost machine exist on other machines.
    Back(Return),
}

/// The loss of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The number of the machine.
    pub machine: usize,
    /// The lab time by which all others know of the loss, nanoseconds.
    pub from_ns: u64,
    /// The nodes that it had, or was to create.
    pub nodes: Vec<NodeId>,
    /// The numbers of the machines that create some of the nodes again.
    pub to: BTreeMap<NodeId, usize>,
}

/// The return of a lost machine's nodes on other machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Return {
    /// The number of the machine that was lost.
    pub machine: usize,
    /// The lab time by which all know of the return, nanoseconds.
    pub from_ns: u64,
    /// The number of the machine that has each node.
    pub nodes: BTreeMap<NodeId, usize>,
}

/// Returns the lab time of the first step that is planned after all machines have the news of `from_ns`. A step is
/// planned when the one before it has begun.
fn planned_ns(from_ns: u64, step_ns: u64) -> u64 {
    // The first step at or after `from_ns` may already be planned when the news arrives, so that the next one
    // counts.
    (from_ns.div_ceil(step_ns) + 1) * step_ns
}

/// Returns the lab time from which a lost machine's nodes have no links, nanoseconds, if all others know of the
/// loss by `from_ns`.
#[must_use]
pub fn gone_ns(from_ns: u64, step_ns: u64) -> u64 {
    planned_ns(from_ns, step_ns)
}

/// Returns the lab time from which the nodes that were created again have their links, if all know of it by
/// `from_ns`, and the nodes disappeared at `gone_ns`. It is at least a step later, so that the disappearance takes
/// effect first.
#[must_use]
pub fn back_ns(from_ns: u64, gone_ns: u64, step_ns: u64) -> u64 {
    // The links must be absent for at least one step, or the return would cancel the loss within one plan.
    planned_ns(from_ns, step_ns).max(gone_ns + step_ns)
}

/// Returns the name of the failure that removes a lost machine's nodes.
pub(crate) fn loss_of(machine: &str) -> String {
    format!("loss of machine {machine}")
}

/// The machines of a lab, as far as losses need them.
pub(crate) struct Machines {
    /// The number of this machine.
    pub(crate) here: usize,
    /// The names, by number.
    pub(crate) names: Vec<String>,
    /// The number of the machine that had each node when the lab came up.
    pub(crate) machine_of: Vec<usize>,
}

/// The losses that this machine knows of.
#[derive(Default)]
pub(crate) struct Losses {
    /// The number of changes handled.
    heard: usize,
    /// The lab time from which each lost machine's nodes have no links, by machine.
    gone_ns: BTreeMap<usize, u64>,
}

/// The consequences of new changes.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct News {
    /// Messages for the user.
    pub(crate) said: Vec<String>,
    /// Nodes that this machine must create.
    pub(crate) wanted: Vec<Wanted>,
    /// Nodes that have returned.
    pub(crate) back: Vec<Back>,
}

/// Nodes that this machine must create.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The lost machine.
    pub(crate) machine: usize,
    /// The lab time at which they disappear everywhere. Before it they must not be taken in.
    pub(crate) gone_ns: u64,
    pub(crate) nodes: Vec<NodeId>,
}

/// Nodes whose links return.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Back {
    /// The lost machine.
    pub(crate) machine: usize,
    /// The lab times between which they have no links.
    pub(crate) away_ns: (u64, u64),
    /// The nodes by the machine that has them.
    pub(crate) nodes: BTreeMap<usize, Vec<NodeId>>,
}

impl Losses {
    /// Handles new changes, before the step that begins at `next_ns` is planned.
    ///
    /// # Errors
    /// When it is too late for one of them: the other machines have already planned with it.
    pub(crate) fn hear(
        &mut self,
        changes: &[Change],
        machines: &Machines,
        planner: &mut Planner,
        next_ns: u64,
    ) -> Result<News, EngineError> {
        let mut news = News::default();
        // Each change is handled once and in the common order, so that all machines plan alike.
        for change in changes.iter().skip(self.heard) {
            match change {
                Change::Lost(loss) => self.lose(loss, machines, planner, next_ns, &mut news)?,
                Change::Back(back) => self.back(back, machines, planner, next_ns, &mut news)?,
            }
            self.heard += 1;
        }
        Ok(news)
    }

    fn lose(
        &mut self,
        loss: &Loss,
        machines: &Machines,
        planner: &mut Planner,
        next_ns: u64,
        news: &mut News,
    ) -> Result<(), EngineError> {
        // The step of the disappearance must still be ahead, or this machine's plans differ from those of the
        // others.
        let (name, step_ns) = (
            &machines.names[loss.machine],
            planner.blueprint().lab.step_ns(),
        );
        let gone_ns = gone_ns(loss.from_ns, step_ns);
        if gone_ns < next_ns {
            return Err(too_late(&loss_of(name)));
        }
        planner.fail_from(&loss_of(name), gone_ns);
        // Nodes that the machine had taken from an earlier loss are not in its failure, and are added.
        let taken = |node: &&NodeId| machines.machine_of[node.index()] != loss.machine;
        let taken: Vec<NodeId> = loss.nodes.iter().filter(taken).copied().collect();
        if !taken.is_empty() && !planner.fail_also(&loss_of(name), &taken, gone_ns) {
            return Err(EngineError::Apart(format!(
                "machine {name} began without nodes, and cannot be lost with those that it took"
            )));
        }
        self.gone_ns.insert(loss.machine, gone_ns);
        news.said.push(lost_in_words(loss, machines, gone_ns));
        // Every machine plans for all nodes, but creates only its own share.
        let own = loss.to.iter().filter(|(_, to)| **to == machines.here);
        let nodes: Vec<NodeId> = own.map(|(node, _)| *node).collect();
        if !nodes.is_empty() {
            let machine = loss.machine;
            news.wanted.push(Wanted {
                machine,
                gone_ns,
                nodes,
            });
        }
        Ok(())
    }

    fn back(
        &mut self,
        back: &Return,
        machines: &Machines,
        planner: &mut Planner,
        next_ns: u64,
        news: &mut News,
    ) -> Result<(), EngineError> {
        let (machine, step_ns) = (back.machine, planner.blueprint().lab.step_ns());
        let gone_ns = self.gone_ns.get(&machine).copied().unwrap_or(0);
        let back_ns = back_ns(back.from_ns, gone_ns, step_ns);
        let name = &machines.names[machine];
        if back_ns < next_ns {
            return Err(too_late(&format!("return of nodes of machine {name}")));
        }
        let nodes: Vec<NodeId> = back.nodes.keys().copied().collect();
        // A node may also belong to a later lost machine that was to create it, so that it is repaired in all
        // failures.
        for lost in self.gone_ns.keys() {
            planner.heal_from(&loss_of(&machines.names[*lost]), &nodes, back_ns);
        }
        let mut of: BTreeMap<usize, Vec<NodeId>> = BTreeMap::new();
        for (node, to) in &back.nodes {
            of.entry(*to).or_default().push(*node);
        }
        news.said.push(format!(
            "{} nodes of machine {name} are on others: they have their links from lab time {} s on",
            nodes.len(),
            back_ns as f64 / 1e9
        ));
        news.back.push(Back {
            machine,
            away_ns: (gone_ns, back_ns),
            nodes: of,
        });
        Ok(())
    }
}

impl Back {
    /// Returns how long they had no links.
    pub(crate) fn away(&self) -> Duration {
        Duration::from_nanos(self.away_ns.1 - self.away_ns.0)
    }
}

fn too_late(what: &str) -> EngineError {
    EngineError::Apart(format!(
        "it received the {what} after the others had planned with it: the store is too slow, or the machine too busy"
    ))
}

fn lost_in_words(loss: &Loss, machines: &Machines, gone_ns: u64) -> String {
    let name = &machines.names[loss.machine];
    let from = format!("from lab time {} s on", gone_ns as f64 / 1e9);
    if loss.to.is_empty() {
        return format!("machine {name} is lost: the lab continues without its nodes, {from}");
    }
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for to in loss.to.values() {
        *counts.entry(*to).or_default() += 1;
    }
    let takers: Vec<String> = counts
        .iter()
        .map(|(to, count)| format!("{} takes {count}", machines.names[*to]))
        .collect();
    let stay = match loss.nodes.len() - loss.to.len() {
        0 => String::new(),
        stay => format!("; {stay} are not moved"),
    };
    format!(
        "machine {name} is lost: its {} nodes have no links {from}, and restart elsewhere: {}{stay}",
        loss.nodes.len(),
        takers.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{blueprint, computed_iridium, on_two_machines};
    use constel_plan::{Blueprint, FailedEdges, StepPlan};
    use std::sync::Arc;

    /// A planner of a lab of two machines, each with every second node, that may be lost.
    fn going_on() -> (Planner, Machines) {
        let blueprint = blueprint(&format!("{}on_machine_loss: move\n", computed_iridium()));
        let together = on_two_machines(&blueprint);
        let names = together.machines.iter().map(|m| m.name.clone()).collect();
        let lab = together.may_lose(blueprint.lab).unwrap();
        let blueprint = Blueprint::new(lab).unwrap_or_else(|e| panic!("{e}"));
        let machines = Machines {
            here: 0,
            names,
            machine_of: together.machine_of.clone(),
        };
        (Planner::new(Arc::new(blueprint)), machines)
    }

    fn loss(planner: &Planner, from_ns: u64, moves: bool) -> Change {
        let nodes = planner.blueprint().lab.layout.nodes().iter();
        let nodes: Vec<NodeId> = nodes.map(|n| n.id).filter(|n| n.index() % 2 == 1).collect();
        let to = nodes.iter().filter(|_| moves).map(|node| (*node, 0));
        Change::Lost(Loss {
            machine: 1,
            from_ns,
            to: to.collect(),
            nodes: nodes.clone(),
        })
    }

    struct Planned {
        plan: StepPlan,
        text: Vec<u8>,
        /// Edges of the other machine's nodes.
        left: usize,
    }

    /// The plans of a number of steps. Each change is received before the step that begins at its time, in seconds,
    /// is planned.
    fn plans(changes: &[(Change, u64)], steps: u64) -> Result<Vec<Planned>, EngineError> {
        let (mut planner, machines) = going_on();
        let failed = FailedEdges::default();
        let first = planner.first(&failed);
        planner.installed(first, &failed);
        let mut known = Losses::default();
        let mut plans = Vec::new();
        for step in 1..=steps {
            let next_ns = planner.current().t_ns + planner.blueprint().lab.step_ns();
            let heard = changes.iter().filter(|(_, heard_s)| step >= *heard_s);
            let heard: Vec<Change> = heard.map(|(change, _)| change.clone()).collect();
            let news = known.hear(&heard, &machines, &mut planner, next_ns)?;
            let told = changes.iter().filter(|(_, heard_s)| step == *heard_s);
            assert_eq!(news.said.len(), told.count(), "said once: {:?}", news.said);
            let mut next = planner.advance();
            planner.route(&mut next, &failed);
            let text = serde_json::to_vec(&next.plan).unwrap();
            let layout = &planner.blueprint().lab.layout;
            let theirs = |port| layout.port(port).node.index() % 2 == 1;
            let edges = next.snapshot.edges.iter();
            let left = edges.filter(|edge| theirs(edge.from) || theirs(edge.to));
            plans.push(Planned {
                plan: next.plan.clone(),
                text,
                left: left.count(),
            });
            planner.installed(next, &failed);
        }
        Ok(plans)
    }

    fn texts(plans: &[Planned]) -> Vec<&[u8]> {
        plans
            .iter()
            .map(|planned| planned.text.as_slice())
            .collect()
    }

    #[test]
    fn all_others_plan_without_a_lost_machine_from_the_same_step_on() {
        let loss = loss(&going_on().0, 2_300_000_000, false);
        assert_eq!(gone_ns(2_300_000_000, 1_000_000_000), 4_000_000_000);
        let calm = plans(&[], 7).unwrap();
        let soon = plans(&[(loss.clone(), 1)], 7).unwrap();
        let last = plans(&[(loss.clone(), 4)], 7).unwrap();
        assert_eq!(texts(&soon), texts(&last), "whenever each has heard of it");
        assert_eq!(
            texts(&soon[..3]),
            texts(&calm[..3]),
            "nothing changes before"
        );
        assert!(calm[3..].iter().all(|planned| planned.left > 100));
        assert!(soon[3..].iter().all(|planned| planned.left == 0));
        let late = plans(&[(loss, 5)], 7).err().unwrap().to_string();
        assert!(late.contains("loss of machine other"), "{late}");
    }

    /// Returned nodes get everything that they had: links, and every route that the kernels of new nodes need.
    #[test]
    fn what_comes_back_has_all_links_and_all_routes_of_a_fresh_lab() {
        let (planner, _) = going_on();
        let loss = loss(&planner, 1_300_000_000, true);
        let Change::Lost(lost) = loss.clone() else {
            panic!()
        };
        let back = Change::Back(Return {
            machine: 1,
            from_ns: 3_100_000_000,
            nodes: lost.to.clone(),
        });
        let calm = plans(&[], 6).unwrap();
        let soon = plans(&[(loss.clone(), 1), (back.clone(), 1)], 6).unwrap();
        let told = plans(&[(loss.clone(), 3), (back.clone(), 5)], 6).unwrap();
        assert_eq!(texts(&soon), texts(&told), "whenever each has heard of it");
        let left: Vec<bool> = told.iter().map(|planned| planned.left > 100).collect();
        assert_eq!(left, [true, true, false, false, true, true]);
        assert_eq!(told[5].left, calm[5].left);
        let late = plans(&[(loss, 3), (back, 6)], 6).err().unwrap().to_string();
        assert!(late.contains("return of nodes of machine other"), "{late}");
        // The plan of the step has everything, because the nodes are new.
        let layout = &planner.blueprint().lab.layout;
        let theirs = |port| layout.port(port).node.index() % 2 == 1;
        let back = &told[4].plan;
        let sets = back.edges.iter().filter(|change| {
            let (from, to) = change.edge();
            matches!(change, constel_link::EdgeChange::Set { .. }) && (theirs(from) || theirs(to))
        });
        assert_eq!(sets.count(), told[4].left);
        let mut fresh = Planner::new(Arc::clone(planner.blueprint()));
        let first = fresh.first(&FailedEdges::default());
        let of = |rows: &[constel_plan::RouteRow], node: NodeId| {
            rows.iter()
                .filter(|row| row.node == node && row.set)
                .count()
        };
        for node in &lost.nodes {
            let (now, ever) = (
                of(&back.routes.rows, *node),
                of(&first.plan.routes.rows, *node),
            );
            // A station may have no satellite at one of the two instants.
            assert!(
                now == ever || now == 0 || ever == 0,
                "{node:?}: {now} {ever}"
            );
        }
        let all: usize = lost.nodes.iter().map(|n| of(&back.routes.rows, *n)).sum();
        // Each has routes to fourteen stations.
        assert!(all > 40 * 12, "{all}");
    }

    #[test]
    fn what_a_machine_took_goes_with_it_and_nothing_comes_back_in_the_step_in_which_it_goes() {
        assert_eq!(back_ns(10, 4_000_000_000, 1_000_000_000), 5_000_000_000);
        let (mut planner, machines) = going_on();
        let mut known = Losses::default();
        let taken = Loss {
            machine: 0,
            from_ns: 0,
            nodes: vec![NodeId(0), NodeId(1)],
            to: BTreeMap::from([(NodeId(1), 0)]),
        };
        let changes = [Change::Lost(taken)];
        let news = known.hear(&changes, &machines, &mut planner, 0).unwrap();
        assert_eq!(news.wanted[0].nodes, [NodeId(1)]);
        assert_eq!(
            known.hear(&changes, &machines, &mut planner, 0).unwrap(),
            News::default()
        );
        let failed = FailedEdges::default();
        let first = planner.first(&failed);
        planner.installed(first, &failed);
        let broken = planner.advance().snapshot.broken.nodes.clone();
        assert!(
            broken.iter().any(|(node, _)| *node == NodeId(1)),
            "{broken:?}"
        );
    }
}
