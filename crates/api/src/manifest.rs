//! `manifest.json`: everything one needs to know to repeat a run, or to doubt it.

use std::collections::BTreeMap;

use constel_link::DriverKind;
use constel_measure::verdict::Bounds;
use constel_units::Utc;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::answers::Catalogued;
use crate::summary::first_version;

/// An image that nodes of the lab are made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsedImage {
    /// As the scenario has it.
    pub name: String,
    /// The digest of its configuration.
    pub id: String,
    /// The digest of its manifest, where its source had one.
    pub manifest: Option<String>,
    /// Origin of the data.
    pub source: String,
    /// How many nodes are made of it.
    pub nodes: usize,
}

/// Written before the lab comes up. Fields are added, never changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Manifest {
    /// Version of this document: [`DOCUMENTS`](crate::summary::DOCUMENTS).
    #[serde(default = "first_version")]
    pub version: u32,
    /// The program's version.
    pub constel: String,
    /// Name of the lab.
    pub lab: String,
    /// Name of the scenario.
    pub scenario: String,
    /// The scenario's seed.
    pub seed: u64,
    /// UTC at lab time zero.
    pub start: Utc,
    /// Requested lab time of the run, nanoseconds; `null` for a lab without an end.
    pub duration_ns: Option<u64>,
    /// Time between two topologies, nanoseconds.
    pub step_ns: u64,
    /// When lab time starts to run: `until-routes-converge` or `none`.
    pub clock_hold: String,
    /// The scenario's `routing`, every default filled in.
    pub routing: Section,
    /// Settings of every node's kernel, by their names below `/proc/sys`.
    pub node_settings: BTreeMap<String, String>,
    /// Timers and areas of OSPF. `null` without OSPF.
    pub ospf: Option<Ospf>,
    /// Whether the scenario's traffic was to run.
    pub traffic: bool,
    /// Every file the scenario was made from, the scenario itself first.
    pub inputs: Vec<Input>,
    /// How many objects of element files are in no constellation.
    pub left_out: usize,
    /// How old the data of files is.
    pub data_ages: Vec<DataAge>,
    /// Catalogue names of the satellites of element files and ephemerides. Absent if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub catalogued: Vec<Catalogued>,
    /// The images of the nodes. Absent if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<UsedImage>,
    /// The link driver.
    pub driver: Driver,
    /// The limits against which the measurements are checked.
    pub bounds: Bounds,
    /// Runtimes of the nodes: `netns`, `oci`, `docker`, or several of them separated by commas.
    pub runtime: String,
    /// The machine.
    pub host: Host,
    /// Transport of frames between the machines of a lab on several machines. Absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between: Option<MachineTransportReport>,
    /// Host-wide settings that the lab needs higher, by their files.
    pub host_settings: BTreeMap<String, HostSetting>,
    /// The program's arguments, itself first.
    pub command_line: Vec<String>,
}

/// Returns the program's arguments with its name, for [`Manifest::command_line`]. Arguments may be any bytes on Unix.
/// Invalid UTF-8 is replaced by U+FFFD.
#[must_use]
pub fn command_line() -> Vec<String> {
    let words = std::env::args_os();
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// The part that the manifests of labs and of boxes have in common, in every version.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Head {
    /// `box`; absent for a lab's.
    #[serde(default)]
    pub kind: Option<String>,
    /// Name of the lab or box.
    pub lab: String,
    /// Name of the scenario.
    pub scenario: String,
    /// The seed.
    pub seed: u64,
    /// UTC at lab time zero.
    #[serde(default)]
    pub start: Option<Utc>,
    /// Every file that it was made from, the scenario itself first.
    #[serde(default)]
    pub inputs: Vec<Input>,
    /// The images that nodes are made of.
    #[serde(default)]
    pub images: Vec<UsedImage>,
}

impl Head {
    /// Whether it is of a box.
    #[must_use]
    pub fn is_box(&self) -> bool {
        self.kind.as_deref() == Some("box")
    }
}

/// The transport of frames between the machines of a lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MachineTransportReport {
    /// `udp` or `ethernet`.
    pub transport: String,
    /// Why this one.
    pub why: String,
    /// The longest frame that the scenario's MTUs allow, its Ethernet header included, bytes.
    pub frame_bytes: u64,
    /// The MTU between the machines that such a frame wants, bytes.
    pub mtu_wanted_bytes: u64,
    /// Smallest MTU of the machines' interfaces, bytes. If it is smaller, UDP fragments such frames. `null`: unknown.
    pub mtu_bytes: Option<u64>,
}

/// A file that a scenario was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// As the scenario names it; the scenario itself as the user named it.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// SHA-256, 64 hexadecimal digits.
    pub sha256: String,
}

/// How old the data of a file is, or where it ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DataAge {
    /// The constellation that uses it.
    pub constellation: String,
    /// The file, as the scenario names it.
    pub file: String,
    /// For elements: days between their epoch and the start of the scenario, positive or negative, as the median over the
    /// simulated satellites.
    pub median_days: Option<f64>,
    /// This difference for the satellite where it is largest.
    pub farthest_days: Option<f64>,
    /// A warning for the user, if any.
    pub warning: Option<String>,
}

/// The link driver of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Driver {
    /// Which.
    pub name: DriverKind,
    /// Why this one.
    pub why: String,
    /// Capabilities of the driver.
    pub capabilities: Capabilities,
    /// Frames leave at whole multiples of this, nanoseconds; 0: each at its own time.
    pub grain_ns: i64,
    /// Threads of a driver that has its own. Absent for other drivers, and in earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<DriverThreads>,
    /// Whether the processing time of nodes' stacks is deducted from the delay of forwarded frames. Absent for drivers that
    /// cannot do this, and in earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deducts_stack_time: Option<bool>,
}

/// The threads that move the frames of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DriverThreads {
    /// Number of threads.
    pub count: usize,
    /// Reason for this number.
    pub why: String,
    /// Processors that they run on, each on any of them as the kernel sees fit.
    pub processors: Vec<usize>,
}

/// The capabilities that a driver declares, as [`constel_link::Capabilities`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Capabilities {
    /// The driver.
    pub driver: DriverKind,
    /// The delay follows its slope between two updates.
    pub delay_glides: bool,
    /// An update is all or nothing, in one instant.
    pub atomic_updates: bool,
    /// No frame overtakes another of its edge.
    pub keeps_order: bool,
    /// Whether the same seed loses the same frames.
    pub seeded: bool,
    /// The queue's limit counts bytes; else whole frames.
    pub queue_in_bytes: bool,
    /// It knows how much later than due each frame left.
    pub measures_lateness: bool,
    /// Largest MTU of a port, bytes above Ethernet. Earlier versions had one MTU only.
    #[serde(default = "only_mtu")]
    pub mtu_max_bytes: u32,
    /// Effects it has; `None`: all of them.
    pub effects: Option<Vec<String>>,
}

fn only_mtu() -> u32 {
    1500
}

impl From<constel_link::Capabilities> for Capabilities {
    fn from(declared: constel_link::Capabilities) -> Self {
        let constel_link::Capabilities {
            driver,
            delay_glides,
            atomic_updates,
            keeps_order,
            seeded,
            queue_in_bytes,
            measures_lateness,
            mtu_max_bytes,
        } = declared;
        let names = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        Self {
            driver,
            delay_glides,
            atomic_updates,
            keeps_order,
            seeded,
            queue_in_bytes,
            measures_lateness,
            mtu_max_bytes,
            effects: driver.effects().map(names),
        }
    }
}

/// OSPF of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ospf {
    /// Timers.
    pub timers: OspfTimers,
    /// The sample values of RFC 2328 (appendix C.3).
    pub rfc2328_samples: OspfSamples,
    /// Areas. `null`: a single area.
    pub areas: Option<Vec<Area>>,
    /// Lasers that no area may use; `None` with one area.
    pub lasers_in_no_area: Option<usize>,
    /// How fast daemons were started: the scenario's `routing.start`.
    pub start: Section,
    /// Whether the kernels notified the daemons of changes at once.
    pub kernel_events: bool,
}

/// Timers of OSPF, seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OspfTimers {
    /// Interval of hello packets.
    pub hello_s: u16,
    /// Time after which a silent neighbour is dead.
    pub dead_s: u16,
    /// The hello and dead times on ground links.
    pub ground: HelloTimers,
    /// Time after which an unacknowledged packet is sent again.
    pub retransmit_s: u16,
    /// Interval in which route calculations are collected.
    pub tick_s: u16,
}

/// Hello and dead time, seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HelloTimers {
    /// Interval of hello packets.
    pub hello_s: u16,
    /// Time after which a silent neighbour is dead.
    pub dead_s: u16,
}

/// OSPF's usual timers, seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OspfSamples {
    /// Interval of hello packets.
    pub hello_s: u16,
    /// Time after which a silent neighbour is dead.
    pub dead_s: u16,
    /// Time after which an unacknowledged packet is sent again.
    pub retransmit_s: u16,
}

/// An OSPF area.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Area {
    /// The constellation it is in.
    pub shell: String,
    /// OSPF's number of it.
    pub area: u16,
    /// How many satellites are in it; border routers are in two.
    pub satellites: usize,
    /// How many of them join it to another.
    pub border_routers: usize,
}

/// The machine of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// The kernel's release.
    pub kernel: Option<String>,
    /// Processors that the run could use.
    pub cpus: usize,
    /// Their model.
    pub cpu_model: Option<String>,
    /// All memory.
    pub memory_bytes: Option<u64>,
    /// `/proc/loadavg` before the run.
    pub load_average: Option<String>,
}

/// A host-wide setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostSetting {
    /// Value before the lab.
    pub before: Option<u64>,
    /// Minimum value while the lab is up.
    pub at_least: u64,
}

/// A resolved part of the scenario in the format of the scenario file, for the record and for users.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Section(serde_json::Value);

impl Section {
    /// Converts a part of the model.
    ///
    /// # Errors
    /// If it cannot be written as JSON.
    pub fn of(part: &impl Serialize) -> serde_json::Result<Self> {
        serde_json::to_value(part).map(Self)
    }
}

impl JsonSchema for Section {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Section".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A resolved part of the scenario, in the words of the scenario file's model.",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_earlier_version_declared_can_be_read() {
        let declared = r#"{"driver": "netem", "delay_glides": false, "atomic_updates": false, "keeps_order": false,
            "seeded": false, "queue_in_bytes": false, "measures_lateness": false, "effects": ["down"]}"#;
        let capabilities: Capabilities = serde_json::from_str(declared).unwrap();
        assert_eq!(capabilities.mtu_max_bytes, 1500);
        assert_eq!(capabilities.effects, Some(vec!["down".to_owned()]));
    }
}
