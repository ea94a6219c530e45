//! Questions to a running lab: those that change nothing apart from those that do.

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::path::PathBuf;

use constel_link::Effects;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::answers::PolicyPart;

/// Version of the protocol. It rises when a question or an answer changes its meaning; new questions and new fields
/// of answers leave it as it is. A request may name the version it is written in (`"version": 1`); a lab refuses
/// those of later versions.
pub const PROTOCOL: u32 = 1;

/// A question that changes nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "verb", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Read {
    /// The version of the protocol and of the program. Answer: [`Version`](crate::answers::Version).
    Version,
    /// The lab's row of `constel list`. Answer: [`LabRow`](crate::answers::LabRow).
    State,
    /// Nodes, counters, the link plane's health. Answer: [`Shown`](crate::answers::Shown).
    Show,
    /// The scenario that it runs: its text and where it was read. Answer: [`ScenarioShown`](crate::answers::ScenarioShown).
    Scenario,
    /// One link: both directions' live state, counters, and why it is up or down. Answer:
    /// [`LinkShown`](crate::answers::LinkShown).
    Link {
        /// One end's node name.
        a: String,
        /// The other end's node name.
        b: String,
    },
    /// The traffic of every edge so far. Clients poll it every few seconds, and the difference gives the load. Answer:
    /// [`Loads`](crate::answers::Loads).
    Loads,
    /// A node's routes, as its kernel has them. Answer: [`Routes`](crate::answers::Routes).
    Routes {
        /// The node's name.
        node: String,
    },
    /// The path from one node to another by the kernels' tables, and the path of minimum delay. Answer:
    /// [`Paths`](crate::answers::Paths).
    Path {
        /// Source node.
        from: String,
        /// Destination: a node, or ends of disjoint paths such as `london.tl.2`, or `london.tl` for all ends of the pair.
        to: String,
        /// Lab time whose edges are used, nanoseconds. Default: now. Tables are always the current ones.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at_ns: Option<u64>,
    },
    /// The lab's networks and their members. Answer: [`NetworkShown`](crate::answers::NetworkShown), one each.
    Networks,
    /// A box's interfaces, and its rules with their counters. Answer: [`BoxShown`](crate::answers::BoxShown).
    Rules,
    /// All events so far. With `follow`, then each new one. Answers: [`Event`](crate::Event), one per line.
    Events {
        /// Keep the stream open.
        #[serde(default)]
        follow: bool,
    },
}

/// The settings for a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetLink {
    /// Node name of one end. Without `b`: both ends as `A-B`, or a port as `NODE/PORT`, which selects its egress on all its
    /// edges.
    pub a: String,
    /// The other end's node name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b: Option<String>,
    /// Settings that replace earlier ones. Settings that are not named stay.
    pub effects: Box<Effects>,
    /// First take away all that was set before.
    #[serde(default)]
    pub reset: bool,
    /// Answer only when computed routes have followed a link that failed or was healed.
    #[serde(default = "yes")]
    pub wait: bool,
    /// Lab time after which these settings end, nanoseconds: those that no other request changed since are as before. Default: they stay.
    /// Not with `reset`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ns: Option<NonZeroU64>,
}

fn yes() -> bool {
    true
}

impl SetLink {
    /// Creates an order that merges with earlier settings and waits for routes.
    #[must_use]
    pub fn new(a: &str, b: Option<&str>, effects: Effects) -> Self {
        Self {
            a: a.to_owned(),
            b: b.map(str::to_owned),
            effects: Box::new(effects),
            reset: false,
            wait: true,
            for_ns: None,
        }
    }
}

/// A change of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NodeChange {
    /// All links of the nodes fail; their programs go on.
    Fail,
    /// The links work again.
    Heal,
    /// All processes in the nodes are killed, and all links fail, as by a loss of power.
    Stop,
    /// Programs of stopped nodes start again, and their links work.
    Start,
    /// All processes in the nodes are killed, and their programs start again; links stay.
    Restart,
    /// All processes in the nodes stand still; their kernels go on, so that they forward and answer pings.
    Pause,
    /// Paused processes go on.
    Resume,
    /// The nodes leave the lab: all processes are killed, all links fail, and flows with an end there end, without being
    /// failed software.
    Remove,
    /// Removed nodes are in the lab again, as when it started.
    Add,
}

impl NodeChange {
    /// The word of it, as in requests.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Heal => "heal",
            Self::Stop => "stop",
            Self::Start => "start",
            Self::Restart => "restart",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Remove => "remove",
            Self::Add => "add",
        }
    }
}

/// A changed scenario for a running lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyOrder {
    /// Text of the scenario file.
    pub text: String,
    /// The file, for messages.
    pub file: String,
    /// The folder beside which other files are looked for, from the root.
    pub folder: PathBuf,
    /// Only compare: change nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// How stations choose their satellites from now on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum StationChange {
    /// An antenna uses this satellite, and is dark while it cannot use it.
    Attach {
        /// The satellite's node name.
        satellite: String,
        /// The antenna, from 0 in the order of the station's terminals. Default: the one that is attached to it, or else 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        antenna: Option<usize>,
    },
    /// An antenna uses no satellite.
    Detach {
        /// The antenna; default: all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        antenna: Option<usize>,
    },
    /// All antennas choose by a policy again.
    Policy {
        /// The policy, as in a scenario. Default: the one of the scenario.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        policy: Option<Value>,
    },
}

/// The frames to capture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CaptureOrder {
    /// A node, for all of its ports, or a port as `NODE/PORT`; of a box, a rule's name, or an interface's.
    pub of: String,
    /// A filter for frames in either direction, in the format of `match` in a rule of a box, such as `protocol: udp, dport:
    /// 53`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
}

/// A program that decides for the lab, step by step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyOrder {
    /// Name of the policy in events and results, 1 to 64 characters.
    pub name: String,
    /// The time for an answer, nanoseconds: at most half a step. Default: half a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ns: Option<NonZeroU64>,
    /// The parts of the state that it needs. Default: all.
    #[serde(default = "PolicyPart::all")]
    pub wants: BTreeSet<PolicyPart>,
}

/// A question that changes the lab, or opens a door into it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "verb", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Write {
    /// Sets effects on both directions of a link, or on the egress of a port. They stay until reset. Answer:
    /// [`LinkSet`](crate::answers::LinkSet).
    SetLink(SetLink),
    /// Fails, stops or pauses nodes, or undoes it. Answer: [`NodesSet`](crate::answers::NodesSet).
    SetNodes {
        /// The nodes' names.
        nodes: Vec<String>,
        /// How.
        change: NodeChange,
        /// Answer only when computed routes have followed links that failed.
        #[serde(default = "yes")]
        wait: bool,
    },
    /// Compares a changed scenario with the one that the lab runs and, unless a change is refused, runs the changed one from now
    /// on. Answer: [`Applied`](crate::answers::Applied).
    Apply(ApplyOrder),
    /// Changes how stations choose their satellites. Answer: [`StationsSet`](crate::answers::StationsSet).
    SetStation {
        /// The stations' node names.
        stations: Vec<String>,
        /// How.
        change: StationChange,
    },
    /// Brings a member into its network, or takes it out. Answer: [`MemberSet`](crate::answers::MemberSet).
    SetMember {
        /// The network's name.
        network: String,
        /// The member's node name.
        node: String,
        /// Whether it is in it from now on.
        joined: bool,
    },
    /// Puts delays on edges of a network, all in one instant, or takes them away again. Answer:
    /// [`DelaysSet`](crate::answers::DelaysSet).
    SetDelays {
        /// The network's name; one with `medium: links`.
        network: String,
        /// One-way delays, nanoseconds: a row for each member as sender, and a cell for each member as receiver, in the
        /// order of the members. A `null` cell leaves its edge unchanged. Without any delays, all delays that were set this
        /// way are removed.
        #[serde(default)]
        delays_ns: Option<Vec<Vec<Option<u64>>>>,
    },
    /// The data that a process of this host needs to enter a node. Answer: [`NodeAccess`](crate::answers::NodeAccess).
    Enter {
        /// The node's name.
        node: String,
    },
    /// Sets or removes a user file that a node receives. Answer: [`UserFileSet`](crate::answers::UserFileSet).
    UserFile {
        /// The node's name.
        node: String,
        /// Name of the file: letters, digits, `.`, `_` and `-`, not beginning with `.`, at most 64 characters.
        name: String,
        /// Content, at most 1 MiB. Without it, the file is removed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// Sends data to the programs of a node that read its information stream. Answer:
    /// [`CommandSent`](crate::answers::CommandSent).
    Command {
        /// The node's name.
        node: String,
        /// Anything, at most 16 KiB as text.
        data: serde_json::Value,
    },
    /// Changes the rules of a box in one instant; frames of other rules are neither lost nor delayed. Answer:
    /// [`RulesChanged`](crate::answers::RulesChanged).
    ChangeRules {
        /// How.
        change: RuleChange,
    },
    /// Shows frames as they pass. Answer: [`Capturing`](crate::answers::Capturing), and behind that line a file as pcapng has
    /// it, until the lab ends or the client has ended its own sending.
    Capture(CaptureOrder),
    /// Lets a program decide: it gets the state before each step, and answers links, attachments and routes. Answer:
    /// [`PolicyJoined`](crate::answers::PolicyJoined), and behind that line a [`PolicyState`](crate::answers::PolicyState) for each
    /// step. The client sends a [`PolicyAnswer`](crate::answers::PolicyAnswer) to each, on a line.
    Policy(PolicyOrder),
    /// Confirms that a user still reaches the host, so the box that waits for this goes on. The answer is empty.
    Confirm,
    /// Take the lab down; answered (by nothing) once it has begun.
    Down,
}

/// A change of the rules of a box. Rules are written as in its file; paths of files are relative to that file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum RuleChange {
    /// A new rule.
    Add {
        /// The rule.
        rule: Value,
        /// Position of the rule, from 1. Default: last.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<usize>,
    },
    /// Another rule in the place of one.
    Edit {
        /// The name of the one.
        name: String,
        /// The other, which keeps that name unless it has one of its own.
        rule: Value,
    },
    /// A rule to another place.
    Move {
        /// Its name.
        name: String,
        /// New position, from 1.
        at: usize,
    },
    /// A rule goes.
    Remove {
        /// Its name.
        name: String,
    },
    /// Replaces all rules. Rules that stay the same keep their counters.
    Replace {
        /// The rules.
        rules: Vec<Value>,
    },
}

/// Any question.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Request {
    /// It changes nothing.
    Read(Read),
    /// It changes the lab.
    Write(Write),
}

impl Request {
    /// Verbs of [`Write`]; all others are of [`Read`].
    const WRITES: [&str; 14] = [
        "apply",
        "set-link",
        "set-station",
        "set-nodes",
        "set-member",
        "set-delays",
        "enter",
        "user-file",
        "command",
        "change-rules",
        "capture",
        "policy",
        "confirm",
        "down",
    ];
}

impl From<Read> for Request {
    fn from(read: Read) -> Self {
        Self::Read(read)
    }
}

impl From<Write> for Request {
    fn from(write: Write) -> Self {
        Self::Write(write)
    }
}

impl<'de> Deserialize<'de> for Request {
    /// Selects the type by the verb, so that an error describes the requested verb.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let fields = serde_json::Map::deserialize(from)?;
        let verb = fields.get("verb").and_then(|verb| verb.as_str());
        let writes = verb.is_some_and(|verb| Self::WRITES.contains(&verb));
        let request = serde_json::Value::Object(fields);
        if writes {
            Write::deserialize(request).map(Self::Write)
        } else {
            Read::deserialize(request).map(Self::Read)
        }
        .map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_question_is_read_back_as_what_it_is() {
        let (a, b) = ("a".to_owned(), "b".to_owned());
        let requests: [Request; 25] = [
            Read::Version.into(),
            Read::State.into(),
            Read::Show.into(),
            Read::Scenario.into(),
            Read::Link { a: a.clone(), b }.into(),
            Read::Routes { node: a.clone() }.into(),
            Read::Path {
                from: a.clone(),
                to: a.clone(),
                at_ns: Some(7),
            }
            .into(),
            Read::Events { follow: true }.into(),
            Read::Networks.into(),
            Read::Loads.into(),
            Write::SetMember {
                network: a.clone(),
                node: a.clone(),
                joined: true,
            }
            .into(),
            Write::SetNodes {
                nodes: vec![a.clone()],
                change: NodeChange::Restart,
                wait: false,
            }
            .into(),
            Write::Apply(ApplyOrder {
                text: "constel: 1".to_owned(),
                file: "x.yaml".to_owned(),
                folder: "/tmp".into(),
                dry_run: true,
            })
            .into(),
            Write::SetStation {
                stations: vec![a.clone()],
                change: StationChange::Attach {
                    satellite: a.clone(),
                    antenna: Some(1),
                },
            }
            .into(),
            Write::SetDelays {
                network: a.clone(),
                delays_ns: Some(vec![vec![None, Some(3)], vec![Some(0), None]]),
            }
            .into(),
            Write::SetLink(SetLink {
                reset: true,
                ..SetLink::new(&a, None, Effects::failed(true))
            })
            .into(),
            Write::UserFile {
                node: a.clone(),
                name: "x.conf".to_owned(),
                text: Some(String::new()),
            }
            .into(),
            Write::Command {
                node: a.clone(),
                data: serde_json::json!({"do": ["this"]}),
            }
            .into(),
            Write::Enter { node: a.clone() }.into(),
            Read::Rules.into(),
            Write::ChangeRules {
                change: RuleChange::Move { name: a, at: 2 },
            }
            .into(),
            Write::Capture(CaptureOrder {
                of: "sat-1/isl0".to_owned(),
                filter: Some("protocol: udp".to_owned()),
            })
            .into(),
            Write::Policy(PolicyOrder {
                name: "balance".to_owned(),
                within_ns: NonZeroU64::new(1),
                wants: BTreeSet::from([PolicyPart::Edges]),
            })
            .into(),
            Write::Confirm.into(),
            Write::Down.into(),
        ];
        for request in requests {
            let text = serde_json::to_string(&request).unwrap();
            assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), request);
        }
    }

    #[test]
    fn an_error_speaks_of_the_question_that_was_meant() {
        let error = |text: &str| {
            serde_json::from_str::<Request>(text)
                .unwrap_err()
                .to_string()
        };
        let wrong = error(r#"{"verb": "set-link", "a": "x", "effects": {"delay": 3}}"#);
        assert!(wrong.contains("unknown field `delay`"), "{wrong}");
        let wrong = error(r#"{"verb": "fly"}"#);
        assert!(wrong.contains("unknown variant `fly`"), "{wrong}");
    }
}
