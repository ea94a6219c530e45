//! A scenario that is a box: a network between two interfaces, or between two machines that the lab makes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use constel_units::TimeSpan;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::kinds::Name;
use super::rules::{RawRule, first_seed};

/// A scenario with `box`: a network between two interfaces of the host, or between two machines that take the
/// place of the devices plugged into it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "BoxScenario")]
pub struct RawBoxScenario {
    /// Version of the scenario format. This Constel reads version 1.
    #[schemars(extend("enum" = [1]))]
    pub constel: u32,
    /// Name of the scenario; also the box's name unless `--name` gives another.
    pub name: Name,
    /// The purpose of the scenario, in the author's words.
    #[serde(default)]
    pub description: String,
    /// Seed of every random choice.
    #[serde(default = "first_seed")]
    pub seed: u64,
    /// How long the box runs. Without it, until it is stopped.
    #[schemars(extend("x-exclusive-minimum" = "0 s", "x-maximum" = "366 d"))]
    pub duration: Option<TimeSpan>,
    /// The interfaces or machines that the box joins, and its rules.
    #[serde(rename = "box")]
    pub middlebox: RawBox,
    /// Commands that run in the machines at stated times.
    #[serde(default)]
    #[schemars(length(max = 10_000))]
    pub traffic: Vec<RawCommand>,
}

/// A box. It joins exactly one of `interfaces` and `machines`: in pairs, where forward is from the first of
/// each pair to the second, unless it is a hub or a router.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "ScenarioBox",
    extend("oneOf" = [{"required": ["interfaces"]}, {"required": ["machines"]}])
)]
pub struct RawBox {
    /// Interfaces of this host.
    #[schemars(length(min = 2, max = 16), inner(length(min = 1, max = 15)))]
    pub interfaces: Option<Vec<String>>,
    /// Machines, each a network namespace whose `eth0` is plugged into the box. The lab creates and removes
    /// them.
    #[schemars(length(min = 2, max = 16))]
    pub machines: Option<Vec<RawMachine>>,
    /// The box is a hub: a switch between all interfaces, which learns addresses. The forward direction of a
    /// rule is that of the frames that its `match` matches as written.
    #[serde(default)]
    pub hub: bool,
    /// The box is an IP router between at most eight interfaces or machines.
    pub router: Option<RawRouter>,
    /// All frames go through the box, the host's own too. Only with `interfaces`.
    #[serde(default)]
    pub exclusive: bool,
    /// The rules, at most 4,096. Frames that no rule matches pass unchanged.
    #[serde(default)]
    #[schemars(length(max = 4096))]
    pub rules: Vec<RawRule>,
}

/// A router: it answers for its addresses (ARP, neighbour discovery), and decrements the TTL or hop limit of
/// packets that pass it. Rules apply to the packets that it forwards, as they leave it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Router")]
pub struct RawRouter {
    /// The router's addresses at each interface or machine.
    #[schemars(length(min = 2, max = 8))]
    pub ports: Vec<RawRouterPort>,
    /// Networks beyond the attached ones.
    #[serde(default)]
    #[schemars(length(max = 1000))]
    pub routes: Vec<RawRouterRoute>,
}

/// A port of a router.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RouterPort")]
pub struct RawRouterPort {
    /// The interface or machine.
    #[schemars(length(min = 1, max = 15))]
    pub at: String,
    /// The router's addresses there, with the length of their network: `10.20.0.254/24`.
    #[schemars(length(min = 1, max = 16), inner(length(min = 1)))]
    pub addresses: Vec<String>,
}

/// A route of a router.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RouterRoute")]
pub struct RawRouterRoute {
    /// The network: `10.30.0.0/16`, or `0.0.0.0/0` for everything else.
    pub to: String,
    /// The next hop, in an attached network of the router.
    pub via: String,
}

/// A machine that the lab makes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Machine")]
pub struct RawMachine {
    /// The machine's name; the other machine resolves it to its address.
    pub name: Name,
    /// Addresses of its `eth0`, with the length of their network: `10.20.0.1/24`.
    #[schemars(length(min = 1, max = 16), inner(length(min = 1)))]
    pub addresses: Vec<String>,
    /// Default gateways: each an address in the machine's network, at most one of IPv4 and one of IPv6.
    #[serde(default)]
    #[schemars(length(max = 2), inner(length(min = 1)))]
    pub gateways: Vec<String>,
    /// Settings of its kernel, by their names below `net`: `net.ipv4.tcp_rmem: 4096 131072 1400000`.
    #[serde(default)]
    pub settings: RawSettings,
}

/// Settings of a kernel's network by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawSettings(pub BTreeMap<String, String>);

impl RawSettings {
    /// The pattern of their names, for the JSON schema.
    const PATTERN: &'static str = "^net(\\.[A-Za-z0-9_-]+)+$";

    /// Why a text is not the name of a setting.
    pub(crate) fn wrong_name(name: &str) -> Option<&'static str> {
        let part = |part: &str| {
            let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            !part.is_empty() && part.chars().all(fits)
        };
        let below = name.strip_prefix("net.");
        let good = below.is_some_and(|below| below.split('.').all(part));
        (!good).then_some("a machine has settings below `net.`, such as `net.ipv4.tcp_rmem`")
    }
}

impl JsonSchema for RawSettings {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Settings".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "x-keys": "setting",
            "patternProperties": {Self::PATTERN: {"type": "string", "minLength": 1, "maxLength": 4096}},
            "additionalProperties": false,
        })
    }
}

/// A command in a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "MachineCommand")]
pub struct RawCommand {
    /// The command's name in results and events, unique in the scenario.
    pub name: Name,
    /// When it starts, after frames are let in.
    #[schemars(extend("x-minimum" = "0 s"))]
    pub at: TimeSpan,
    /// The longest time that it may run; it is ended then. It ends within the scenario's `duration`.
    #[serde(rename = "for")]
    #[schemars(extend("x-exclusive-minimum" = "0 s"))]
    pub length: TimeSpan,
    /// The program, its arguments, and the machine.
    pub run: RawMachineRun,
}

/// A program in a machine, without a shell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "MachineRun")]
pub struct RawMachineRun {
    /// The machine.
    pub node: Name,
    /// The program and its arguments.
    #[schemars(length(min = 1, max = 1000), inner(length(min = 1)))]
    pub command: Vec<String>,
}
