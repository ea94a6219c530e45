//! Changes by hand as they were at an instant, from the events of a lab or of a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use constel_api::answers::{BriefEffects, DelaySet};
use constel_api::{Event, EventData, NodeChange};
use constel_link::{Effects, EffectsChange, PortId};
use constel_plan::{AbsentMembers, EdgeEnds, Lab, ManualEffects};
use constel_topology::{Snapshot, pairs_named};
use serde::Deserialize;
use serde_json::Value;

/// The changes by hand up to an instant: failed and changed links, absent members of networks, and delays of networks as far
/// as their events have them.
#[derive(Debug, Clone)]
pub(crate) struct Changes {
    effects: ManualEffects,
    /// The failed edges, each with the lab time of its failure.
    failed_ns: BTreeMap<EdgeEnds, u64>,
    /// Ports of nodes that are failed or stopped, with the lab time of the change.
    failed_ports_ns: BTreeMap<PortId, u64>,
    away: AbsentMembers,
}

/// Whether an event changes links by hand.
pub(crate) fn is_by_hand(event: &Event) -> bool {
    matches!(
        event.what,
        EventData::LinkSet { .. }
            | EventData::MemberLeft { .. }
            | EventData::MemberJoined { .. }
            | EventData::DelaysSet { .. }
            | EventData::NodesSet { .. }
    )
}

/// Returns the lab time of an event. Changes before the clock started are in force from the beginning.
fn time_ns(event: &Event) -> u64 {
    event.t_ns.and_then(|t| u64::try_from(t).ok()).unwrap_or(0)
}

impl Changes {
    /// Returns the state without changes by hand, in which members that start `away` are absent.
    pub(crate) fn none(lab: &Lab) -> Self {
        let (away, effects) = lab.absent_at_start();
        let failed_ns = effects.down().map(|edge| (edge, 0)).collect();
        Self {
            effects,
            failed_ns,
            failed_ports_ns: BTreeMap::new(),
            away,
        }
    }

    /// Returns the changes in force at lab time `t_ns`.
    pub(crate) fn until(lab: &Lab, events: &[Event], t_ns: u64) -> Self {
        let mut changes = Self::none(lab);
        for event in events.iter().filter(|event| time_ns(event) <= t_ns) {
            changes.take(lab, event);
        }
        changes
    }

    /// Returns the state without changes, and the changes after each of the events, with its lab time. Only the last of the
    /// events within `every_ns` is returned.
    pub(crate) fn over_time(lab: &Lab, events: &[Event], every_ns: u64) -> Vec<(u64, Self)> {
        let events: Vec<&Event> = events.iter().filter(|event| is_by_hand(event)).collect();
        let mut now = Self::none(lab);
        let mut all = vec![(0, now.clone())];
        for (i, event) in events.iter().enumerate() {
            now.take(lab, event);
            let slot = |event: &Event| time_ns(event).div_ceil(every_ns.max(1));
            if events
                .get(i + 1)
                .is_none_or(|next| slot(next) != slot(event))
            {
                all.push((time_ns(event), now.clone()));
            }
        }
        all
    }

    /// Returns a step's topology with these changes.
    pub(crate) fn over(&self, lab: &Lab, snapshot: &Arc<Snapshot>) -> Arc<Snapshot> {
        self.applied(lab, snapshot)
            .map_or_else(|| Arc::clone(snapshot), Arc::new)
    }

    /// Returns a step's topology with these changes; `None` without any.
    pub(crate) fn applied(&self, lab: &Lab, snapshot: &Snapshot) -> Option<Snapshot> {
        let applied = self.effects.applied(&lab.profiles, snapshot);
        if self.failed_ports_ns.is_empty() {
            return applied;
        }
        let mut now = applied.unwrap_or_else(|| snapshot.clone());
        let is_failed = |port| self.failed_ports_ns.contains_key(&port);
        now.edges
            .retain(|edge| !is_failed(edge.from) && !is_failed(edge.to));
        Some(now)
    }

    /// Returns the lab time at which an edge was failed by hand; `None` if it is not failed.
    pub(crate) fn failed_ns(&self, edge: EdgeEnds) -> Option<u64> {
        let ports = [edge.0, edge.1].map(|port| self.failed_ports_ns.get(&port));
        let edge = self.failed_ns.get(&edge);
        ports.into_iter().chain([edge]).flatten().min().copied()
    }

    /// Returns why a link of these edges is down if a member of its network is absent.
    pub(crate) fn why_absent(&self, lab: &Lab, edges: &[EdgeEnds]) -> Option<String> {
        self.away.why_down(&lab.layout, edges)
    }

    fn take(&mut self, lab: &Lab, event: &Event) {
        let t_ns = time_ns(event);
        match &event.what {
            EventData::LinkSet { link, effects, .. } => self.link(lab, link, &read(effects), t_ns),
            EventData::MemberLeft { network, node } => {
                for port in members(lab, network, node) {
                    self.moved(lab, port, false, t_ns);
                }
            }
            EventData::MemberJoined { network, node } => {
                for port in members(lab, network, node) {
                    self.moved(lab, port, true, t_ns);
                }
            }
            EventData::DelaysSet {
                network,
                reset,
                delays,
                ..
            } => self.delays(lab, network, *reset, delays),
            EventData::NodesSet { change, nodes } => self.nodes(lab, *change, nodes, t_ns),
            _ => {}
        }
    }

    /// In the lab, stations choose other satellites than those that are failed. Here the links of a failed node are down, and all
    /// others stay as in the scenario.
    fn nodes(&mut self, lab: &Lab, change: NodeChange, nodes: &[String], t_ns: u64) {
        let failed = match change {
            NodeChange::Fail | NodeChange::Stop | NodeChange::Remove => true,
            NodeChange::Heal | NodeChange::Start | NodeChange::Add => false,
            NodeChange::Restart | NodeChange::Pause | NodeChange::Resume => return,
        };
        let nodes = nodes.iter().filter_map(|name| lab.layout.find(name));
        for port in nodes.flat_map(|node| lab.layout.ports_of(node.id)) {
            if failed {
                self.failed_ports_ns.entry(port.id).or_insert(t_ns);
            } else {
                self.failed_ports_ns.remove(&port.id);
            }
        }
    }

    /// Delays that an event does not have, because there are too many, stay as they were.
    fn delays(&mut self, lab: &Lab, network: &str, reset: bool, delays: &[DelaySet]) {
        if reset {
            let ports = ports_of(lab, network);
            for (a, b) in ports
                .iter()
                .flat_map(|a| ports.iter().map(move |b| (*a, *b)))
            {
                self.delay((a, b), None);
            }
        }
        for set in delays {
            let ends = [&set.from, &set.to].map(|node| members(lab, network, node));
            if let [[from], [to]] = [&ends[0][..], &ends[1][..]] {
                self.delay((*from, *to), Some(set.delay_ns));
            }
        }
    }

    fn delay(&mut self, edge: EdgeEnds, delay_ns: Option<u64>) {
        let own = self.effects.edge(edge);
        if own.delay_ns != delay_ns {
            let effects = Effects { delay_ns, ..own };
            self.effects.record(EffectsChange::of_edge(edge, effects));
        }
    }

    /// The event has the settings of one edge, which are those of the link's other edges too. It does not have the ports,
    /// so they are set for all ports of the two nodes.
    fn link(&mut self, lab: &Lab, link: &str, effects: &Effects, t_ns: u64) {
        let layout = &lab.layout;
        if let Some((node, port)) = link.rsplit_once('/') {
            let node = layout.find(node).map(|node| layout.ports_of(node.id));
            let port = node.and_then(|ports| ports.iter().find(|own| own.name() == port));
            if let Some(port) = port {
                let effects = (!effects.is_empty()).then(|| effects.clone());
                let port = port.id;
                self.effects.record(EffectsChange::Port { port, effects });
            }
            return;
        }
        let node = |name: &str| layout.find(name).map(|node| node.id);
        let Some((a, b)) = pairs_named(link, node).next() else {
            return;
        };
        for a in layout.ports_of(a) {
            for b in layout.ports_of(b) {
                self.set((a.id, b.id), effects.clone(), t_ns);
                self.set((b.id, a.id), effects.clone(), t_ns);
            }
        }
    }

    fn set(&mut self, edge: EdgeEnds, mut effects: Effects, t_ns: u64) {
        let failed = effects.down == Some(true);
        self.away.set_failed(edge, failed);
        // An edge of an absent member is down already, and stays so.
        match self.away.failed_by_hand(edge) {
            Some(_) => effects = effects.merged(&Effects::failed(true)),
            None => self.mark(edge, failed, t_ns),
        }
        self.effects.record(EffectsChange::of_edge(edge, effects));
    }

    /// Notes whether an edge is failed, and from when on.
    fn mark(&mut self, edge: EdgeEnds, down: bool, t_ns: u64) {
        if down {
            self.failed_ns.entry(edge).or_insert(t_ns);
        } else {
            self.failed_ns.remove(&edge);
        }
    }

    fn moved(&mut self, lab: &Lab, port: PortId, joined: bool, t_ns: u64) {
        let to = (port, joined);
        for (edge, down) in self.away.move_recorded(&lab.layout, to, &mut self.effects) {
            self.mark(edge, down, t_ns);
        }
    }
}

/// Returns the effects of an event. Recordings are shortened there, so that they are left out here.
fn read(brief: &BriefEffects) -> Effects {
    brief.effects().unwrap_or_else(|| {
        let Ok(Value::Object(mut all)) = serde_json::to_value(brief) else {
            return Effects::default();
        };
        all.retain(|_, value| value.is_number() || value.is_boolean());
        Effects::deserialize(Value::Object(all)).unwrap_or_default()
    })
}

/// Returns the ports of a network.
fn ports_of<'a>(lab: &'a Lab, network: &str) -> &'a [PortId] {
    let networks = lab.layout.spec().networks.iter();
    let place = networks.enumerate().find(|(_, own)| own.name == network);
    place.map_or(&[], |(place, _)| lab.layout.network_ports(place))
}

/// Returns the ports of a node in a network.
fn members(lab: &Lab, network: &str, node: &str) -> Vec<PortId> {
    let layout = &lab.layout;
    let node = layout.find(node).map(|node| node.id);
    let own = |port: &&PortId| Some(layout.port(**port).node) == node;
    ports_of(lab, network).iter().filter(own).copied().collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use constel_control::Scenario;

    /// An event with the fields of `what`, at a lab time.
    pub(crate) fn event(t_s: f64, what: &Value) -> Event {
        let mut event = serde_json::json!({"seq": 1, "t_ns": (t_s * 1e9) as i64, "wall": "w"});
        for (name, value) in what.as_object().unwrap() {
            event[name] = value.clone();
        }
        serde_json::from_value(event).unwrap()
    }

    pub(crate) fn link_set(t_s: f64, link: &str, effects: Value) -> Event {
        let what = serde_json::json!({"kind": "link-set", "link": link, "reset": false, "effects": effects});
        event(t_s, &what)
    }

    fn lab() -> Lab {
        lab_with("")
    }

    fn lab_with(more: &str) -> Lab {
        let text = "constel: 1\nname: radio\nstart: 2026-11-21T00:00:00Z\nduration: 60 s\nstep: 1 s\n\
            routing: {mode: computed}\nground:\n  hosts:\n    a: {latitude: 0 deg, longitude: 0 deg}\n    b-c: {latitude: 0 deg, longitude: 1 deg}\n    d: {latitude: 0 deg, longitude: 2 deg}\n\
            networks:\n  air: {members: [a, b-c, d], law: {matrix: m.csv}, link: {rate: 1 Gbit/s}}\n";
        let folder = tempfile::tempdir().unwrap();
        let matrix = "from,to,delay_ms\na,b-c,10\na,d,10\nb-c,d,10\nb-c,a,10\nd,a,10\nd,b-c,10\n";
        std::fs::write(folder.path().join("m.csv"), matrix).unwrap();
        let text = text.replace("law:", &format!("{more}law:"));
        let scenario = Scenario::from_text("radio.yaml", &text, folder.path());
        scenario.unwrap_or_else(|error| panic!("{error}")).lab
    }

    /// The edges of an instant that carry frames, as names of nodes, with their delay in milliseconds.
    fn edges(lab: &Lab, events: &[Event], t_s: f64) -> Vec<String> {
        let t_ns = (t_s * 1e9) as u64;
        let snapshot = Arc::new(lab.stepper().at_step(t_ns / lab.step_ns()));
        let now = Changes::until(lab, events, t_ns).over(lab, &snapshot);
        let name = |port| lab.layout.node(lab.layout.port(port).node).name.clone();
        let edge = |edge: &constel_topology::Edge| {
            let ms = edge.impairment.delay.at(t_ns) as f64 / 1e6;
            format!("{}>{} {ms}", name(edge.from), name(edge.to))
        };
        let mut all: Vec<String> = now.edges.iter().map(edge).collect();
        all.sort();
        all
    }

    #[test]
    fn links_are_failed_slowed_and_healed_when_they_were() {
        let lab = lab();
        let events = [
            link_set(5.3, "b-c-d", serde_json::json!({"down": true})),
            link_set(8.0, "a-b-c", serde_json::json!({"delay_ns": 70_000_000})),
            link_set(9.0, "b-c-d", serde_json::json!({})),
        ];
        let all = [
            "a>b-c 10", "a>d 10", "b-c>a 10", "b-c>d 10", "d>a 10", "d>b-c 10",
        ];
        assert_eq!(edges(&lab, &events, 5.2), all);
        let failed = ["a>b-c 10", "a>d 10", "b-c>a 10", "d>a 10"];
        assert_eq!(edges(&lab, &events, 5.3), failed);
        let slow = ["a>b-c 70", "a>d 10", "b-c>a 70", "d>a 10"];
        assert_eq!(edges(&lab, &events, 8.9), slow);
        let healed = [
            "a>b-c 70", "a>d 10", "b-c>a 70", "b-c>d 10", "d>a 10", "d>b-c 10",
        ];
        assert_eq!(edges(&lab, &events, 59.0), healed);
    }

    #[test]
    fn an_absent_member_has_no_edges_and_what_was_failed_before_stays_failed() {
        let lab = lab();
        let events = [
            link_set(1.0, "a-d", serde_json::json!({"down": true})),
            member(2.0, "member-left", "d"),
            member(3.0, "member-left", "b-c"),
            member(4.0, "member-joined", "d"),
            member(5.0, "member-joined", "b-c"),
        ];
        let now = |t_s| edges(&lab, &events, t_s);
        assert_eq!(now(1.5), ["a>b-c 10", "b-c>a 10", "b-c>d 10", "d>b-c 10"]);
        assert_eq!(now(2.5), ["a>b-c 10", "b-c>a 10"]);
        assert_eq!(now(3.5), [""; 0]);
        assert_eq!(now(4.5), [""; 0]);
        assert_eq!(now(5.5), now(1.5));
    }

    fn member(t_s: f64, kind: &str, node: &str) -> Event {
        let what = serde_json::json!({"kind": kind, "network": "air", "node": node});
        event(t_s, &what)
    }

    #[test]
    fn a_member_that_starts_away_is_absent_until_it_joins() {
        let lab = lab_with("away: [d], ");
        let now = |events: &[Event], t_s| edges(&lab, events, t_s);
        let two = ["a>b-c 10", "b-c>a 10"];
        assert_eq!(now(&[], 0.0), two);
        let events = [
            link_set(1.0, "a-d", serde_json::json!({"down": true})),
            member(2.0, "member-joined", "d"),
            member(3.0, "member-left", "d"),
        ];
        assert_eq!(now(&events, 1.5), two);
        // A link that was failed while the member was absent stays failed when it is back.
        let joined = ["a>b-c 10", "b-c>a 10", "b-c>d 10", "d>b-c 10"];
        assert_eq!(now(&events, 2.0), joined);
        assert_eq!(now(&events, 3.0), two);
        let first = &Changes::over_time(&lab, &events, 1)[0];
        assert_eq!((first.0, first.1.failed_ns.len()), (0, 4));
    }

    #[test]
    fn a_failed_node_has_no_links_until_it_is_healed() {
        let lab = lab();
        let set = |t_s, change: &str| {
            event(
                t_s,
                &serde_json::json!({"kind": "nodes-set", "change": change, "nodes": ["d"]}),
            )
        };
        let events = [
            set(1.0, "stop"),
            link_set(2.0, "a-d", serde_json::json!({"down": true})),
            set(3.0, "pause"),
            set(4.0, "start"),
        ];
        let now = |t_s| edges(&lab, &events, t_s);
        let two = ["a>b-c 10", "b-c>a 10"];
        assert_eq!(now(0.5).len(), 6);
        assert_eq!(now(1.5), two);
        assert_eq!(now(3.5), two);
        // The link that was failed by itself stays so.
        assert_eq!(now(4.5), ["a>b-c 10", "b-c>a 10", "b-c>d 10", "d>b-c 10"]);
        let changes = Changes::until(&lab, &events, 3_500_000_000);
        let port = |name: &str| lab.layout.ports_of(lab.layout.find(name).unwrap().id)[0].id;
        assert_eq!(
            changes.failed_ns((port("b-c"), port("d"))),
            Some(1_000_000_000)
        );
        assert_eq!(changes.failed_ns((port("b-c"), port("a"))), None);
    }

    #[test]
    fn delays_of_a_network_are_those_that_were_set() {
        let lab = lab();
        let set = |t_s, edges: usize, delays: Value| {
            let what = serde_json::json!({"kind": "delays-set", "network": "air", "edges": edges, "reset": false, "delays": delays});
            event(t_s, &what)
        };
        let delay = |from: &str, to: &str, ms: u64| serde_json::json!({"from": from, "to": to, "delay_ns": ms * 1_000_000});
        let reset =
            serde_json::json!({"kind": "delays-set", "network": "air", "edges": 2, "reset": true});
        let events = [
            set(
                1.0,
                2,
                serde_json::json!([delay("a", "b-c", 70), delay("d", "a", 3)]),
            ),
            link_set(2.0, "a-d", serde_json::json!({"down": true})),
            set(3.0, 1, serde_json::json!([delay("a", "b-c", 5)])),
            // Too many to be listed: those that are known stay.
            set(4.0, 500, serde_json::json!([])),
            event(5.0, &reset),
        ];
        let slow = [
            "a>b-c 70", "a>d 10", "b-c>a 10", "b-c>d 10", "d>a 3", "d>b-c 10",
        ];
        assert_eq!(edges(&lab, &events, 1.0), slow);
        let failed = ["a>b-c 5", "b-c>a 10", "b-c>d 10", "d>b-c 10"];
        assert_eq!(edges(&lab, &events, 4.5), failed);
        let healed = link_set(6.0, "a-d", serde_json::json!({"down": false}));
        let all = [
            "a>b-c 10", "a>d 10", "b-c>a 10", "b-c>d 10", "d>a 10", "d>b-c 10",
        ];
        assert_eq!(edges(&lab, &[&events[..], &[healed]].concat(), 6.0), all);
    }

    #[test]
    fn a_recording_is_left_out_and_the_rest_is_taken() {
        let lab = lab();
        let shortened = serde_json::json!({
            "delay_ns": 40_000_000,
            "jitter": {"law": {"trace": {"values_ns": "100 values"}}},
        });
        let events = [link_set(0.0, "a-d", shortened)];
        assert!(edges(&lab, &events, 1.0).contains(&"a>d 40".to_owned()));
    }

    #[test]
    fn changes_over_time_are_those_of_each_sample() {
        let lab = lab();
        let set = |t_s, down: bool| link_set(t_s, "a-d", serde_json::json!({"down": down}));
        let events = [
            set(1.2, true),
            set(1.8, false),
            set(2.5, true),
            set(7.0, false),
        ];
        let all = Changes::over_time(&lab, &events, 1_000_000_000);
        let failed = |changes: &Changes| !changes.failed_ns.is_empty();
        let rows: Vec<_> = all.iter().map(|(t, now)| (*t, failed(now))).collect();
        let expected = [
            (0, false),
            (1_800_000_000, false),
            (2_500_000_000, true),
            (7_000_000_000, false),
        ];
        assert_eq!(rows, expected);
    }
}
