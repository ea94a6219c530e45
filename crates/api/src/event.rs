//! Events of a lab: lines of `events.ndjson` and of the request `events`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answers::{BriefEffects, Catalogued, DelayRange, DelaySet};
use crate::request::{NodeChange, StationChange};

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Number of the event, from 1 without gaps, so that a reader notices missed events.
    pub seq: u64,
    /// Lab time in nanoseconds; absent before the lab's clock starts.
    pub t_ns: Option<i64>,
    /// Wall-clock time, RFC 3339 UTC with microseconds.
    pub wall: String,
    /// The event. The `kind` and the fields of the event are beside the other fields.
    #[serde(flatten)]
    pub what: EventData,
    /// Catalogue names of the satellites in the event. Absent if none is from a catalogue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub catalogued: Vec<Catalogued>,
}

impl EventData {
    /// The nodes named in it: each text is a node's name, or two with `-` between them.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        let (one, many): ([Option<&String>; 2], &[String]) = match self {
            Self::Failure { objects, .. } | Self::Repair { objects, .. } => ([None; 2], objects),
            Self::NodesMoved { nodes, .. } | Self::NodesSet { nodes, .. } => ([None; 2], nodes),
            Self::StationsSet { stations, .. } => ([None; 2], stations),
            Self::Handover { from, to, .. } => ([from.as_ref(), to.as_ref()], &[]),
            Self::DisjointPaths { between, .. } => ([None; 2], between),
            Self::LinkSet { link, .. } => ([Some(link), None], &[]),
            Self::MemberJoined { node, .. }
            | Self::MemberLeft { node, .. }
            | Self::DaemonDied { node, .. }
            | Self::UserFile { node, .. }
            | Self::Command { node, .. }
            | Self::DaemonRestarted { node, .. }
            | Self::HelperDied { node, .. }
            | Self::ContainerEnded { node, .. }
            | Self::ContainerHealthy { node }
            | Self::ContainerUnhealthy { node, .. }
            | Self::StackChanged { node, .. }
            | Self::ContainerRestarted { node } => ([Some(node), None], &[]),
            Self::Starting { .. }
            | Self::EdgesUp { .. }
            | Self::DaemonsStarted { .. }
            | Self::RoutesConverged { .. }
            | Self::HelpersStarted { .. }
            | Self::ContainersStarted { .. }
            | Self::Running { .. }
            | Self::ClockStarted
            | Self::FlowStarted { .. }
            | Self::PathChanged { .. }
            | Self::FlowEnded { .. }
            | Self::Older { .. }
            | Self::RulesChanged { .. }
            | Self::ScenarioChanged { .. }
            | Self::DelaysSet { .. }
            | Self::PolicyJoined { .. }
            | Self::PolicyHeld { .. }
            | Self::PolicyLeft { .. }
            | Self::Confirmed
            | Self::Unconfirmed
            | Self::Stopping
            | Self::Finished { .. } => ([None; 2], &[]),
        };
        one.into_iter().flatten().chain(many).map(String::as_str)
    }
}

/// The events, by `kind`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum EventData {
    /// The lab's name is claimed, nothing is made yet.
    Starting {
        /// The lab.
        lab: String,
        /// How many nodes it will have.
        nodes: usize,
    },
    /// The first edges carry frames; the sky is held at lab time zero.
    EdgesUp {
        /// Directed edges.
        edges: usize,
    },
    /// Every routing daemon runs.
    DaemonsStarted {
        /// How many.
        count: usize,
    },
    /// Every served station has a route to every other: for the first time, or again after a change. After the death of a
    /// daemon that broke no route, when its neighbours can no longer have missed it.
    RoutesConverged {
        /// Ordered pairs of stations walked, both families counted.
        pairs: usize,
        /// Seconds since the first edges; only the first time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after_s: Option<f64>,
    },
    /// Midnodes and proxies run.
    HelpersStarted {
        /// How many.
        count: usize,
    },
    /// The lab is up.
    Running {
        /// From the first stage on, seconds.
        bring_up_s: f64,
    },
    /// Lab time zero.
    ClockStarted,
    /// A failure of the scenario began, or nodes were failed by hand.
    Failure {
        /// Name of the failure in the scenario, or `by hand`.
        cause: String,
        /// The nodes and links that broke.
        objects: Vec<String>,
    },
    /// A failure of the scenario ended, or nodes that were failed by hand have their links again.
    Repair {
        /// Name of the failure in the scenario, or `by hand`.
        cause: String,
        /// The nodes and links that are whole again.
        objects: Vec<String>,
    },
    /// Nodes of a lost machine were created again on another machine, and have their links from now on.
    NodesMoved {
        /// The machine that was lost.
        from: String,
        /// The one that has them.
        to: String,
        /// The nodes.
        nodes: Vec<String>,
        /// How long they had no links, seconds of lab time.
        away_s: f64,
    },
    /// Nodes were failed, stopped, paused, or the reverse, by hand.
    NodesSet {
        /// How.
        change: NodeChange,
        /// The nodes that it changed.
        nodes: Vec<String>,
    },
    /// The lab runs a changed scenario from now on.
    ScenarioChanged {
        /// The file, as the user named it.
        file: String,
        /// Name of the copy of its text in the results.
        copy: String,
        /// The keys that changed.
        keys: Vec<String>,
    },
    /// Stations were attached to satellites, detached or given a policy by hand.
    StationsSet {
        /// How.
        change: StationChange,
        /// The stations.
        stations: Vec<String>,
    },
    /// A member of a network was brought into it by hand.
    MemberJoined {
        /// The network.
        network: String,
        /// The member.
        node: String,
    },
    /// A member of a network was taken out of it by hand.
    MemberLeft {
        /// The network.
        network: String,
        /// The member.
        node: String,
    },
    /// Delays of a network were changed by hand.
    DelaysSet {
        /// The network.
        network: String,
        /// How many of its edges.
        edges: usize,
        /// Whether the scenario's values were restored.
        reset: bool,
        /// The new delays of these edges, if they are at most 400; else empty. Empty for a reset.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        delays: Vec<DelaySet>,
        /// The range of all new delays. Absent for a reset.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        range: Option<DelayRange>,
    },
    /// A station changed its satellite.
    Handover {
        /// The station.
        station: String,
        /// The satellite it left; `None`: it was dark.
        from: Option<String>,
        /// The satellite it went to; `None`: it is dark now.
        to: Option<String>,
        /// The port of its terminal; absent where the station has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<String>,
    },
    /// The packets of a flow take another path than before, by the kernels' routes: found by looking at every step.
    PathChanged {
        /// The flow.
        flow: String,
        /// The nodes passed before, both ends among them; empty: there was no path.
        from: Vec<String>,
        /// The nodes passed now.
        to: Vec<String>,
    },
    /// A pair has more or fewer disjoint paths than before.
    DisjointPaths {
        /// The pair's name.
        pair: String,
        /// The two nodes of the pair.
        between: [String; 2],
        /// How many paths there are.
        found: usize,
        /// Number of paths that the scenario requests.
        requested: usize,
    },
    /// A link was changed by hand.
    LinkSet {
        /// The link, as `A-B`.
        link: String,
        /// Whether earlier settings were removed first.
        reset: bool,
        /// Current settings of the link's first edge.
        effects: BriefEffects,
        /// Lab time for which they hold, nanoseconds; absent if they stay.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        for_ns: Option<u64>,
    },
    /// A user set or removed a user file that a node receives.
    UserFile {
        /// Name of the node.
        node: String,
        /// Its name.
        name: String,
        /// How long it is, bytes; absent: it is gone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<usize>,
    },
    /// Something was sent to the programs of a node by hand.
    Command {
        /// Name of the node.
        node: String,
        /// The data.
        data: serde_json::Value,
    },
    /// Rules of a box were changed.
    RulesChanged {
        /// How: `add`, `edit`, `move`, `remove`, `replace`.
        change: String,
        /// Name of the rule. Absent if all rules were replaced.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        /// How many there are now.
        rules: usize,
    },
    /// A program decides for the lab from the next step on.
    PolicyJoined {
        /// Its name.
        policy: String,
        /// The time for each answer, nanoseconds.
        within_ns: u64,
    },
    /// A live policy gave no valid answer in time, so that its decisions before held.
    PolicyHeld {
        /// Its name.
        policy: String,
        /// The step without its decision.
        step: u64,
        /// The reason.
        why: String,
    },
    /// A live policy does not decide any more. The last decisions hold.
    PolicyLeft {
        /// Its name.
        policy: String,
        /// Whether it ended on purpose.
        on_purpose: bool,
    },
    /// A user confirmed a box that would have taken itself down.
    Confirmed,
    /// No user confirmed the box in time, so it takes itself down.
    Unconfirmed,
    /// A routing daemon ended.
    DaemonDied {
        /// In which node.
        node: String,
        /// Its program.
        program: String,
        /// How it ended.
        how: String,
        /// When it is started again, seconds from now; `None`: it is not.
        again_in_s: Option<f64>,
    },
    /// A routing daemon was started again.
    DaemonRestarted {
        /// In which node.
        node: String,
        /// Its program.
        program: String,
    },
    /// A Midnode or proxy ended.
    HelperDied {
        /// In which node.
        node: String,
        /// How it ended.
        how: String,
    },
    /// The programs of containers were started, each in its node.
    ContainersStarted {
        /// How many.
        count: usize,
    },
    /// The program of a container ended, and all others in it.
    ContainerEnded {
        /// Its node.
        node: String,
        /// How it ended.
        how: String,
        /// When it is started again, seconds from now; `None`: it is not.
        again_in_s: Option<f64>,
    },
    /// The program of a container was started again.
    ContainerRestarted {
        /// Its node.
        node: String,
    },
    /// A container's program works, by its check of health: for the first time, or again.
    ContainerHealthy {
        /// Its node.
        node: String,
    },
    /// A container's program does not work, by its check of health.
    ContainerUnhealthy {
        /// Its node.
        node: String,
        /// Result of the last check.
        how: String,
    },
    /// Programs in a node changed the network stack that Constel had set up, or reverted such a change.
    StackChanged {
        /// The node.
        node: String,
        /// New differences. If there are very many, the first ones.
        changed: Vec<String>,
        /// Differences that ended: Constel restored the setting, or the node did.
        restored: Vec<String>,
        /// Remaining differences, which only the node can end.
        left: Vec<String>,
    },
    /// A flow's client was started.
    FlowStarted {
        /// The flow.
        flow: String,
    },
    /// A flow's client ended by itself, or could not be started.
    FlowEnded {
        /// The flow.
        flow: String,
        /// Exit code as a shell reports it. 127 if the program could not be started.
        exit: i32,
    },
    /// Only sent to followers, never in `events.ndjson`: this many events up to this one are no longer kept in memory. `seq`
    /// is that of the last of them.
    Older {
        /// How many.
        events: u64,
        /// The file in which they are.
        file: String,
    },
    /// The lab is being taken down.
    Stopping,
    /// The lab is down; the last event of a run that came to its end.
    Finished {
        /// Whether the figures are to be trusted.
        trustworthy: bool,
        /// Whether software in the lab failed.
        #[serde(default)]
        failed: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_flat_object() {
        let event = Event {
            seq: 3,
            t_ns: Some(5),
            wall: "2026-11-22T00:00:00.000000Z".to_owned(),
            what: EventData::Handover {
                station: "tokyo".to_owned(),
                from: None,
                to: Some("sat-1".to_owned()),
                port: None,
            },
            catalogued: Vec::new(),
        };
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(
            text,
            r#"{"seq":3,"t_ns":5,"wall":"2026-11-22T00:00:00.000000Z","kind":"handover","station":"tokyo","from":null,"to":"sat-1"}"#
        );
        assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event);
        let bare = r#"{"seq":1,"t_ns":0,"wall":"w","kind":"clock-started"}"#;
        let bare: Event = serde_json::from_str(bare).unwrap();
        assert_eq!(bare.what, EventData::ClockStarted);
    }
}
