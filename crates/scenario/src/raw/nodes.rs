//! `nodes` and `node`: the isolation of nodes, and their software.

use std::borrow::Cow;
use std::collections::BTreeMap;

use constel_units::{Angle, DataSize, Length, TimeSpan};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::Name;
use super::programs::yes;

/// The software of nodes, by their kind and by name. A constellation, station or host may set it in its own
/// `node`. If several settings apply to a node, the last counts: its kind, its constellation, its own, then
/// `overrides` in their order.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Nodes")]
pub struct RawNodes {
    /// All satellites.
    pub satellites: Option<RawNode>,
    /// All ground stations.
    pub stations: Option<RawNode>,
    /// All hosts.
    pub hosts: Option<RawNode>,
    /// Nodes by name, shell or place; these settings apply after all others.
    #[serde(default)]
    #[schemars(length(max = 10_000))]
    pub overrides: Vec<RawOverride>,
}

/// The software of some nodes. At least one of `nodes`, `shells` and `region` is given; with several, the
/// settings are for the nodes that all of them select.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Override")]
pub struct RawOverride {
    /// Names of nodes; `*` stands for any characters, `?` for one. Each matches at least one node.
    #[schemars(length(min = 1, max = 10_000))]
    pub nodes: Option<Vec<String>>,
    /// Satellites of these shells: names of constellations, or `<constellation>-<shell>` of an element file.
    #[schemars(length(min = 1, max = 1_000))]
    pub shells: Option<Vec<Name>>,
    /// Satellites that are over this circle on the ground at lab time zero; they keep the settings when they
    /// move on.
    pub region: Option<RawCircle>,
    /// The settings of these nodes.
    pub set: RawNode,
}

/// A circle on the ground.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Circle")]
pub struct RawCircle {
    /// Latitude of the centre.
    #[schemars(extend("x-minimum" = "-90 deg", "x-maximum" = "90 deg"))]
    pub latitude: Angle,
    /// Longitude of the centre.
    #[schemars(extend("x-minimum" = "-180 deg", "x-maximum" = "180 deg"))]
    pub longitude: Angle,
    /// Radius on the ground.
    #[schemars(extend("x-exclusive-minimum" = "0 km", "x-maximum" = "20100 km"))]
    pub radius: Length,
}

/// The isolation of a node, and its software. A key that is left out has the value of a setting that applies
/// before, or else the image's.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Node")]
pub struct RawNode {
    /// The isolation of the node. Default: `oci` if it has an `image`, else `netns`.
    pub runtime: Option<Runtime>,
    /// The node's image: a name of `images`, or a name as in `constel image list`.
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// The program that the node runs; the image's `command` is then left out too.
    #[schemars(length(max = 1000))]
    pub entrypoint: Option<Vec<String>>,
    /// The program's arguments, or the program with its arguments if there is no `entrypoint`; without a shell.
    #[schemars(length(max = 1000))]
    pub command: Option<Vec<String>>,
    /// The working directory; absolute. It is created if it is missing.
    #[schemars(length(min = 1, max = 4095))]
    pub workdir: Option<String>,
    /// The user of the node's programs: `user` or `user:group`, by the image's names or by numbers.
    #[schemars(length(min = 1, max = 255))]
    pub user: Option<String>,
    /// Variables of its environment, besides the image's and those of other settings.
    #[serde(default)]
    pub env: Environment,
    /// Files and folders of the host that its programs see, besides those of other settings.
    #[serde(default)]
    #[schemars(length(max = 1000))]
    pub mounts: Vec<Volume>,
    /// More or fewer capabilities than the default.
    pub capabilities: Option<RawCapabilities>,
    /// The system calls that its programs may make. Default `default`.
    pub seccomp: Option<Seccomp>,
    /// Whether programs that its programs execute get no more rights than they have: no `setuid` file, no file
    /// with capabilities. Default `true`.
    pub no_new_privileges: Option<bool>,
    /// Whether the kernel notifies the node's programs at once of changes of interfaces, addresses and routes.
    /// The kernel offers each change to every listener of the machine, so that thousands of routing daemons
    /// cost each other more than their protocol does. With `false` binding a netlink socket fails, and BIRD
    /// polls instead; not with FRR or `ip`. Only with `runtime: oci`; programs started by `exec` are notified
    /// all the same. Default `true`.
    pub kernel_events: Option<bool>,
    /// Whether Constel restores changes that programs in the node make to its network stack: removed
    /// interfaces, their names, MTUs and MAC addresses, addresses, neighbours, computed routes and the rules by
    /// which they are found. With `false` such a change is reported and stays, for software that manages its
    /// stack by itself. Nodes without an image have this key too. Default `true`.
    pub restore: Option<bool>,
    /// TCP, UDP and SCTP checksums of the frames that the node sends: `partial`, as over any veth, or `full`. A switch in user
    /// space, which forwards frames as it sees them, needs `full` in the nodes that send the frames. Such a node sends TCP in
    /// single frames and has a few times less throughput. Nodes without an image have this key too. Default `partial`.
    pub checksums: Option<Checksums>,
    /// Resource limits of its programs. Nodes without an image have this key too.
    pub limits: Option<RawShare>,
    /// Whether its program is started again when it ends: after a second, then after twice as long each time up
    /// to 30 s. The wait is a second again once the program has run for 30 s. Default `never`.
    pub restart: Option<RestartPolicy>,
    /// Health check of its program. Without it there is no check, whatever the image has.
    pub health: Option<RawHealth>,
    /// How its program is stopped.
    pub stop: Option<RawStop>,
    /// Storage of the files that its programs write over the image's files. Default `memory`.
    pub state: Option<StatePlace>,
}

/// The isolation of a node.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Runtime {
    /// A network namespace; its programs are the host's.
    Netns,
    /// A container of an image, run by Constel itself.
    Oci,
    /// A container of an image, run by Docker's or Podman's engine.
    Docker,
    /// No network stack: the link plane forwards for the node, answers pings and sends ICMP errors. Only
    /// satellites, with `driver: relay` and routes that Constel computes; no program runs in such a node.
    Forward,
}

/// A file or folder of the host that programs of an image see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Volume")]
pub struct Volume {
    /// The file or folder of the host; relative to the scenario's folder, or absolute.
    #[schemars(length(min = 1, max = 4095))]
    pub host: String,
    /// The place in the node, absolute. It is created if it is missing.
    #[schemars(length(min = 1, max = 4095))]
    pub at: String,
    /// Whether programs cannot write there.
    #[serde(default = "yes")]
    pub read_only: bool,
}

/// More or fewer capabilities than the default: `CHOWN`, `DAC_OVERRIDE`, `FOWNER`, `FSETID`, `KILL`, `SETGID`,
/// `SETUID`, `SETPCAP`, `NET_BIND_SERVICE`, `NET_RAW`, `SYS_CHROOT`, `AUDIT_WRITE` and `SETFCAP`. Programs of
/// other users than root have only those that are added.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Capabilities")]
pub struct RawCapabilities {
    /// More.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub add: Vec<Capability>,
    /// Capabilities to remove; they are removed first.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub drop: Vec<Capability>,
}

/// The system calls that programs may make.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Seccomp {
    /// No calls that reach beyond the container, except those that an added capability is for.
    #[default]
    Default,
    /// All.
    None,
}

/// Health check of a node's program: a command that runs repeatedly beside it, in its container. Exit code 0
/// means good health. Changes are reported as events and have no other effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Health")]
pub struct RawHealth {
    /// The command of the check, without a shell. Default: the image's, if it has one.
    #[schemars(length(min = 1, max = 1000))]
    pub command: Option<Vec<String>>,
    /// From the program's start to the first run, and from the end of one run to the start of the next.
    #[serde(default = "health_interval")]
    #[schemars(extend("x-minimum" = "100 ms", "x-maximum" = "1 h"))]
    pub interval: TimeSpan,
    /// A run that takes longer is ended and counts as failed.
    #[serde(default = "health_timeout")]
    #[schemars(extend("x-minimum" = "10 ms", "x-maximum" = "1 h"))]
    pub timeout: TimeSpan,
    /// Time from the program's start in which failures do not count.
    #[serde(default = "no_time")]
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "1 h"))]
    pub start_period: TimeSpan,
    /// This number of failures one after the other means bad health.
    #[serde(default = "health_retries")]
    #[schemars(range(min = 1, max = 1000))]
    pub retries: u32,
}

fn health_interval() -> TimeSpan {
    TimeSpan::from_ns(30_000_000_000)
}

fn health_timeout() -> TimeSpan {
    TimeSpan::from_ns(30_000_000_000)
}

fn no_time() -> TimeSpan {
    TimeSpan::from_ns(0)
}

fn health_retries() -> u32 {
    3
}

/// How a node's program is stopped when the lab goes down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Stop")]
pub struct RawStop {
    /// The signal. Default: the image's, or else `TERM`. A program that has not set an action for the signal is
    /// killed at once.
    pub signal: Option<StopSignal>,
    /// The longest time that the program may take before it is killed.
    #[serde(default = "stop_grace")]
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "60 s"))]
    pub grace: TimeSpan,
}

fn stop_grace() -> TimeSpan {
    TimeSpan::from_ns(2_000_000_000)
}

/// A signal that requests programs to end.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs, reason = "signal(7) says what each is for")]
pub enum StopSignal {
    Hup,
    Int,
    Quit,
    Kill,
    Usr1,
    Usr2,
    Term,
    Winch,
}

impl StopSignal {
    /// Linux's number.
    #[must_use]
    pub fn number(self) -> i32 {
        match self {
            Self::Hup => 1,
            Self::Int => 2,
            Self::Quit => 3,
            Self::Kill => 9,
            Self::Usr1 => 10,
            Self::Usr2 => 12,
            Self::Term => 15,
            Self::Winch => 28,
        }
    }
}

/// Resource limits of the programs of a node. At least one of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Share")]
pub struct RawShare {
    /// Processors: `0.5` is half of one. From 0.01 to 4096.
    #[schemars(length(min = 1, max = 16))]
    pub cpu: Option<String>,
    /// Memory, including the files that they keep in memory.
    #[schemars(extend("x-minimum" = "1 MiB", "x-maximum" = "64 TiB"))]
    pub memory: Option<DataSize>,
    /// Processes and threads.
    #[schemars(range(min = 1, max = 4_194_304))]
    pub pids: Option<u32>,
    /// Size of files that it may keep in memory: files written over the image's files, unless `state` is
    /// `disk`, and files in `/tmp`, `/run` and `/dev/shm`. Nodes with an image only. Without it a node may use
    /// all that the lab has: half of the machine's memory.
    #[schemars(extend("x-minimum" = "1 MiB", "x-maximum" = "64 TiB"))]
    pub files: Option<DataSize>,
}

/// The checksums of the frames that a node sends.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Checksums {
    /// The receiving kernel takes them for correct.
    #[default]
    Partial,
    /// They are complete, as on a wire.
    Full,
}

/// Whether a program is started again.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum RestartPolicy {
    /// It is not.
    #[default]
    Never,
    /// If its exit code is not 0, or a signal ended it.
    OnFailure,
    /// However it ended.
    Always,
}

/// Storage of the state of a node.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum StatePlace {
    /// In memory; lost when the lab ends.
    #[default]
    Memory,
    /// In the results, at `nodes/NODE/state`, and kept there.
    Disk,
}

/// Variables of an environment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Environment(pub BTreeMap<String, String>);

impl Environment {
    /// The pattern of their names, for the JSON schema.
    const PATTERN: &'static str = "^[A-Za-z_][A-Za-z0-9_]*$";

    /// Why a text is not the name of a variable.
    pub(crate) fn wrong_name(name: &str) -> Option<&'static str> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let begins = name.starts_with(|c: char| fits(c) && !c.is_ascii_digit());
        let good = begins && name.len() <= 255 && name.chars().all(fits);
        (!good).then_some(
            "a variable's name is made of letters, digits and `_`, and does not begin with a digit",
        )
    }
}

impl JsonSchema for Environment {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Environment".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "x-keys": "variable",
            "patternProperties": {Self::PATTERN: {"type": "string", "maxLength": 65_536}},
            "additionalProperties": false,
        })
    }
}

macro_rules! capabilities {
    ($($name:ident $word:literal $number:literal)*) => {
        /// A capability of Linux; see capabilities(7).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[allow(missing_docs, reason = "capabilities(7) says what each is for")]
        pub enum Capability {
            #[serde(rename = "ALL")]
            All,
            $(#[serde(rename = $word)] $name,)*
        }

        impl Capability {
            /// The capability as a set: bit N is the kernel's number N.
            #[must_use]
            pub fn bits(self) -> u64 {
                match self {
                    Self::All => 0 $(| 1 << $number)*,
                    $(Self::$name => 1 << $number,)*
                }
            }

            /// The names of capabilities, as in a scenario.
            #[must_use]
            pub fn words(bits: u64) -> Vec<&'static str> {
                let all = [$(($number, $word)),*];
                all.into_iter().filter(|(n, _)| bits & (1 << n) != 0).map(|(_, word)| word).collect()
            }
        }
    };
}

capabilities! {
    Chown "CHOWN" 0
    DacOverride "DAC_OVERRIDE" 1
    DacReadSearch "DAC_READ_SEARCH" 2
    Fowner "FOWNER" 3
    Fsetid "FSETID" 4
    Kill "KILL" 5
    Setgid "SETGID" 6
    Setuid "SETUID" 7
    Setpcap "SETPCAP" 8
    LinuxImmutable "LINUX_IMMUTABLE" 9
    NetBindService "NET_BIND_SERVICE" 10
    NetBroadcast "NET_BROADCAST" 11
    NetAdmin "NET_ADMIN" 12
    NetRaw "NET_RAW" 13
    IpcLock "IPC_LOCK" 14
    IpcOwner "IPC_OWNER" 15
    SysModule "SYS_MODULE" 16
    SysRawio "SYS_RAWIO" 17
    SysChroot "SYS_CHROOT" 18
    SysPtrace "SYS_PTRACE" 19
    SysPacct "SYS_PACCT" 20
    SysAdmin "SYS_ADMIN" 21
    SysBoot "SYS_BOOT" 22
    SysNice "SYS_NICE" 23
    SysResource "SYS_RESOURCE" 24
    SysTime "SYS_TIME" 25
    SysTtyConfig "SYS_TTY_CONFIG" 26
    Mknod "MKNOD" 27
    Lease "LEASE" 28
    AuditWrite "AUDIT_WRITE" 29
    AuditControl "AUDIT_CONTROL" 30
    Setfcap "SETFCAP" 31
    MacOverride "MAC_OVERRIDE" 32
    MacAdmin "MAC_ADMIN" 33
    Syslog "SYSLOG" 34
    WakeAlarm "WAKE_ALARM" 35
    BlockSuspend "BLOCK_SUSPEND" 36
    AuditRead "AUDIT_READ" 37
    Perfmon "PERFMON" 38
    Bpf "BPF" 39
    CheckpointRestore "CHECKPOINT_RESTORE" 40
}
