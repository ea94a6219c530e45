//! The events that a scenario may name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The objects that an event names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventSubject {
    /// None: it concerns the lab as a whole.
    Nothing,
    /// A flow.
    Flow,
    /// A failure of the scenario, with the nodes and links that it affects.
    Failure,
    /// Nodes, links, networks, files or programs.
    Any,
}

macro_rules! event_kinds {
    ($($doc:literal $variant:ident $word:literal $subject:ident,)*) => {
        /// The kind of an event, as in `events.ndjson`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[schemars(rename = "EventKind")]
        pub enum EventKind {
            $(
                #[doc = $doc]
                #[serde(rename = $word)]
                $variant,
            )*
        }

        impl EventKind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the kind's word.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }

            /// Returns the objects that events of this kind name.
            #[must_use]
            pub fn subject(self) -> EventSubject {
                match self {
                    $(Self::$variant => EventSubject::$subject,)*
                }
            }
        }
    };
}

event_kinds! {
    "The lab's name is claimed." Starting "starting" Nothing,
    "The first edges carry frames." EdgesUp "edges-up" Nothing,
    "All routing daemons run." DaemonsStarted "daemons-started" Nothing,
    "All stations have routes to each other, for the first time or again." RoutesConverged "routes-converged" Nothing,
    "Midnodes and proxies run." HelpersStarted "helpers-started" Nothing,
    "The programs of containers run." ContainersStarted "containers-started" Nothing,
    "The lab is up." Running "running" Nothing,
    "Lab time zero." ClockStarted "clock-started" Nothing,
    "A failure of the scenario began." Failure "failure" Failure,
    "A failure of the scenario ended." Repair "repair" Failure,
    "Nodes of a lost machine run on another machine." NodesMoved "nodes-moved" Any,
    "A node joined a network by hand." MemberJoined "member-joined" Any,
    "A node left a network by hand." MemberLeft "member-left" Any,
    "Nodes were failed, stopped, paused or brought back by hand." NodesSet "nodes-set" Any,
    "The lab runs a changed scenario." ScenarioChanged "scenario-changed" Nothing,
    "Stations were attached to satellites, detached or given a policy by hand." StationsSet "stations-set" Any,
    "A live policy decides from here on." PolicyJoined "policy-joined" Nothing,
    "An answer of a live policy came too late or was refused: the decisions before hold." PolicyHeld "policy-held" Nothing,
    "A live policy decides no longer." PolicyLeft "policy-left" Nothing,
    "Delays of a network were changed by hand." DelaysSet "delays-set" Any,
    "A station changed its satellite." Handover "handover" Any,
    "The packets of a flow take another path." PathChanged "path-changed" Any,
    "A pair has more or fewer disjoint paths." DisjointPaths "disjoint-paths" Any,
    "A link was changed by hand." LinkSet "link-set" Any,
    "A user's file in a node was set or removed." UserFile "user-file" Any,
    "A command was sent to the programs of a node." Command "command" Any,
    "A routing daemon ended." DaemonDied "daemon-died" Any,
    "A routing daemon was started again." DaemonRestarted "daemon-restarted" Any,
    "A Midnode or proxy ended." HelperDied "helper-died" Any,
    "The program of a container ended." ContainerEnded "container-ended" Any,
    "The program of a container was started again." ContainerRestarted "container-restarted" Any,
    "The health check of a container succeeds." ContainerHealthy "container-healthy" Any,
    "The health check of a container fails." ContainerUnhealthy "container-unhealthy" Any,
    "A node's network stack was changed by its programs." StackChanged "stack-changed" Any,
    "A flow's client was started." FlowStarted "flow-started" Flow,
    "A flow's client ended by itself, or could not be started." FlowEnded "flow-ended" Flow,
    "The lab is being taken down." Stopping "stopping" Nothing,
    "The lab is down." Finished "finished" Nothing,
}
