//! What a running lab answers to questions from other processes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use constel_api::LabView;
use constel_drivers::Links;
use constel_link::{PortId, RateLaw};
use constel_observe::detail;
use constel_observe::events::{Event, EventLog};
use constel_scenario::nearest;
use constel_topology::{NodeId, Snapshot, why};
use serde_json::{Value, json};

use crate::answers::impair;
use crate::answers::inspect::{self, Goal};
use crate::clock::{LabClock, mono_ns};
use crate::failed::Failed;
use crate::nodes::kernels::Kernels;
use constel_plan::Blueprint;

/// What the view needs; parts appear as the lab comes up.
#[derive(Default)]
pub(crate) struct Live {
    pub(crate) kernels: Option<Arc<Kernels>>,
    pub(crate) relay: Option<Arc<dyn Links>>,
    pub(crate) snapshot: Option<Arc<Snapshot>>,
    pub(crate) state: &'static str,
    pub(crate) scenario: String,
}

/// The engine's side of the socket.
pub(crate) struct View {
    pub(crate) lab: String,
    pub(crate) live: Mutex<Live>,
    pub(crate) clock: Arc<LabClock>,
    pub(crate) log: Arc<EventLog>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) failed: Arc<Failed>,
    pub(crate) by_hand: Mutex<ByHand>,
}

/// What was done to links of the running lab by hand.
#[derive(Default)]
pub(crate) struct ByHand {
    /// Links taken down or brought back since somebody last looked: when, and which.
    pub(crate) changes: Vec<(u64, String)>,
}

impl View {
    fn with<T>(&self, f: impl FnOnce(&Live) -> T) -> T {
        f(&self.live.lock().unwrap_or_else(|e| e.into_inner()))
    }

    pub(crate) fn change(&self, f: impl FnOnce(&mut Live)) {
        f(&mut self.live.lock().unwrap_or_else(|e| e.into_inner()));
    }

    /// The topology in force, if there is one.
    pub(crate) fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.with(|live| live.snapshot.clone())
    }

    fn row(&self, live: &Live) -> Value {
        json!({
            "lab": self.lab,
            "state": live.state,
            "scenario": live.scenario,
            "pid": std::process::id(),
            "nodes": live.kernels.as_ref().map_or(0, |k| k.nodes.len()),
            "edges": live.snapshot.as_ref().map_or(0, |s| s.edges.len()),
            "t_ns": self.clock.now_ns(),
        })
    }
}

impl LabView for View {
    fn state(&self) -> Value {
        self.with(|live| self.row(live))
    }

    fn show(&self) -> Value {
        self.with(|live| {
            let mut row = self.row(live);
            if let (Some(kernels), Some(snapshot)) = (&live.kernels, &live.snapshot) {
                let blueprint = &kernels.blueprint;
                let nodes = blueprint.lab.layout.nodes().iter().map(|node| {
                    let own = blueprint.addresses.loopback(node.id);
                    let links = blueprint
                        .lab
                        .layout
                        .ports_of(node.id)
                        .iter()
                        .map(|port| snapshot.edges_from(port.id).len())
                        .sum::<usize>();
                    json!({
                        "name": node.name, "kind": node.class.name,
                        "ipv4": own.v4, "ipv6": own.v6, "links": links,
                    })
                });
                row["node_list"] = nodes.collect();
            }
            if let Some(relay) = &live.relay {
                row["relay"] = relay.snapshot().map_or(Value::Null, |stats| stats.detail);
            }
            row
        })
    }

    fn link(&self, a: &str, b: &str) -> Result<Value, String> {
        self.with(|live| {
            let (Some(kernels), Some(snapshot)) = (&live.kernels, &live.snapshot) else {
                return Err("the lab is still coming up".to_owned());
            };
            let blueprint = &kernels.blueprint;
            let layout = &blueprint.lab.layout;
            let (a_id, b_id) = (find(blueprint, a)?, find(blueprint, b)?);
            let reason = why(layout, snapshot, a_id, b_id);
            let directions = [(a_id, b_id), (b_id, a_id)].map(|(from, to)| {
                layout
                    .ports_of(from)
                    .iter()
                    .flat_map(|port| snapshot.edges_from(port.id))
                    .filter(|edge| layout.port(edge.to).node == to)
                    .map(|edge| self.direction(live, edge.from, edge.to, snapshot))
                    .collect::<Vec<_>>()
            });
            let up = directions.iter().any(|rows| !rows.is_empty());
            let [there, back] = directions;
            let edges: Vec<Value> = there.into_iter().chain(back).collect();
            Ok(json!({
                "a": a, "b": b, "up": up,
                "why": reason.describe(layout), "edges": edges, "t_ns": self.clock.now_ns(),
            }))
        })
    }

    fn set_link(
        &self,
        a: &str,
        b: Option<&str>,
        effects: Value,
        reset: bool,
    ) -> Result<Value, String> {
        let (kernels, snapshot) = self.held()?;
        let blueprint = &kernels.blueprint;
        let relay = self.with(|live| live.relay.clone());
        let relay = relay.ok_or_else(|| "the lab is still coming up".to_owned())?;
        let ends = impair::ends(a, b, |name| find(blueprint, name))?;
        let version = self.failed.now().version();
        let zero_ns = self.clock.zero_mono_ns().unwrap_or_else(mono_ns);
        let plane = (relay.as_ref(), self.failed.as_ref());
        let answer = impair::set(blueprint, plane, &snapshot, ends, effects, reset, zero_ns)?;
        let t_ns = self.clock.now_ns().and_then(|t| i64::try_from(t).ok());
        let set = &answer["edges"][0]["effects"];
        let name = b.map_or_else(|| a.to_owned(), |b| format!("{a}-{b}"));
        if self.failed.now().version() != version {
            self.note_by_hand(&name);
        }
        self.log.emit(
            t_ns,
            "link-set",
            detail! {"link" => name, "reset" => reset, "effects" => set.clone()},
        );
        Ok(answer)
    }

    fn routes(&self, node: &str) -> Result<Value, String> {
        let (kernels, _) = self.held()?;
        let id = find(&kernels.blueprint, node)?;
        let mut answer = inspect::routes(&kernels, id).map_err(|e| e.to_string())?;
        answer["t_ns"] = json!(self.clock.now_ns());
        Ok(answer)
    }

    fn path(&self, from: &str, to: &str, at_ns: Option<u64>) -> Result<Value, String> {
        let (kernels, mut snapshot) = self.held()?;
        let blueprint = &kernels.blueprint;
        let from = find(blueprint, from)?;
        let goal = find_goal(blueprint, from, to)?;
        // A held clock stands at the snapshot's time.
        let now_ns = self.clock.now_ns().map_or(snapshot.t_ns, |t| {
            // The next step's edges are in force a moment before this view has them.
            t.min(snapshot.t_ns + blueprint.lab.step_ns())
        });
        let t_ns = at_ns.unwrap_or(now_ns);
        if at_ns.is_some() {
            let step = t_ns / blueprint.lab.step_ns();
            snapshot = Arc::new(blueprint.lab.stepper().at_step(step));
        }
        let mut answer = inspect::path(&kernels, &snapshot, (from, &goal), t_ns)
            .map_err(|error| error.to_string())?;
        answer["tables_t_ns"] = json!(now_ns);
        Ok(answer)
    }

    fn events(&self) -> (Vec<Value>, Receiver<Value>) {
        let value = |event: &Event| serde_json::to_value(event).unwrap_or(Value::Null);
        let (history, later) = self.log.follow();
        let (sender, receiver) = channel();
        drop(
            std::thread::Builder::new()
                .name("events".into())
                .spawn(move || {
                    for event in later {
                        if sender.send(value(&event)).is_err() {
                            return;
                        }
                    }
                }),
        );
        (history.iter().map(value).collect(), receiver)
    }

    fn down(&self) {
        self.stop.store(true, Ordering::Release);
    }
}

/// What a path needs: everything of the lab at one moment.
type Held = (Arc<Kernels>, Arc<Snapshot>);

/// The node of that name, or which is nearest.
fn find(blueprint: &Blueprint, name: &str) -> Result<NodeId, String> {
    let layout = &blueprint.lab.layout;
    layout.find(name).map(|node| node.id).ok_or_else(|| {
        let names = layout.nodes().iter().map(|node| node.name.as_str());
        let hint = nearest(name, names).map(|n| format!("; nearest is '{n}'"));
        format!("no node is called '{name}'{}", hint.unwrap_or_default())
    })
}

/// The node of that name; or the ends of disjoint paths, as `london.tl.2` or, for all of the pair's, `london.tl`.
fn find_goal(blueprint: &Blueprint, from: NodeId, name: &str) -> Result<Goal, String> {
    let (layout, paths) = (&blueprint.lab.layout, blueprint.addresses.paths());
    let ends = paths.find(layout, name);
    let Some(first) = ends.first().copied() else {
        return find(blueprint, name).map(|node| Goal {
            node,
            name: name.to_owned(),
            paths: Vec::new(),
        });
    };
    let other = paths.node(first.other());
    if other != from {
        let (from, other) = (&layout.node(from).name, &layout.node(other).name);
        return Err(format!(
            "no path of the pair leads from '{from}' to '{name}': ask for those from '{other}'"
        ));
    }
    Ok(Goal {
        node: paths.node(first),
        name: name.to_owned(),
        paths: ends,
    })
}

impl View {
    /// Taken out of the lock: reading kernels' tables must not hold up a step.
    fn held(&self) -> Result<Held, String> {
        self.with(|live| live.kernels.clone().zip(live.snapshot.clone()))
            .ok_or_else(|| "the lab is still coming up, or going down".to_owned())
    }

    /// Remembers that links went down or came back by hand, for whoever asks whether routes stand.
    fn note_by_hand(&self, name: &str) {
        let t_ns = self.clock.now_ns().unwrap_or(0);
        let mut by_hand = self.by_hand.lock().unwrap_or_else(|e| e.into_inner());
        by_hand.changes.push((t_ns, name.to_owned()));
    }

    fn direction(&self, live: &Live, from: PortId, to: PortId, snapshot: &Snapshot) -> Value {
        let Some(kernels) = &live.kernels else {
            return Value::Null;
        };
        let blueprint = &kernels.blueprint;
        let layout = &blueprint.lab.layout;
        let end = |port: PortId| {
            let port = layout.port(port);
            let node: NodeId = port.node;
            format!("{}/{}", layout.node(node).name, port.name())
        };
        let known = live.relay.as_ref();
        let effects = known
            .and_then(|relay| relay.effects(from, to).ok())
            .map(|e| e.in_force)
            .unwrap_or_default();
        let edge = snapshot.edge(from, to);
        let now_ns = self.clock.now_ns().unwrap_or(0);
        let flooded = known.and_then(|relay| relay.dropped_share(from).ok().flatten());
        let counters = live
            .relay
            .as_ref()
            .and_then(|relay| relay.edge_stats(from, to).ok().flatten())
            .and_then(|stats| serde_json::to_value(stats).ok());
        json!({
            "from": end(from), "to": end(to),
            "delay_ns": effects.delay_ns.or(edge.map(|e| e.impairment.delay.at(now_ns))),
            "slope_ns_per_s": edge.map(|e| match effects.delay_ns {
                Some(_) => 0,
                None => e.impairment.delay.slope_ns_per_s,
            }),
            "rate_bps": effects.rate_law.as_ref().map(RateLaw::mean_bps).or(effects.rate_bps).or(edge.and_then(|e| e.impairment.rate_bps).map(u64::from)),
            "queue_bytes": effects.queue_bytes.or(edge.map(|e| e.impairment.queue.bytes)),
            "loss": edge.map(|e| e.impairment.loss),
            "effects": impair::brief(&effects),
            "counters": counters,
            // By the whole port, for flooding: not asked for by the scenario.
            "dropped_share": flooded,
        })
    }
}
