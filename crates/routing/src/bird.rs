//! Configuration of BIRD 2 (OSPFv2 and OSPFv3) for one node. Checked against BIRD 2.0.12.
//!
//! What was found to work, and why:
//! - ISL ports are `ptp`: hellos go to the multicast group, no election, one neighbour.
//! - Ground ports are `ptmp`. On `ptp`, BIRD since 2.0.10 sends everything to the multicast group, which
//!   mixes up the satellites' several stations; `broadcast` would let stations of one satellite send to each
//!   other directly, over an edge that does not exist. BIRD's `ptmp` sends hellos only to neighbours it was
//!   told or has heard. So a *station* lists the satellites it will use (a terminal knows the ephemeris: see
//!   [`serving_within`]) and a *satellite* lists nobody and answers whom it hears.
//! - Only loopbacks are advertised (`stubnet`); the /31s and ground addresses are hidden, which halves the
//!   router LSAs and keeps kernel tables at one route per node.
//! - `krt_prefsrc` makes the loopback the source address, so replies do not depend on ports.
//! - Equal-cost multipath is off: one next hop per destination, as with computed routes.
//! - A handover is repaired when the old neighbour's dead time ends: the new adjacency is up within a hello.
//!   BFD makes it *worse*: the router LSA that says "old neighbour gone" then comes first, and BIRD will not
//!   originate the next for 5 s (MinLSInterval, RFC 2328 appendix B, fixed in BIRD). Measured with hello 1 s:
//!   2.4-3.1 s with dead 3 s, 3.0-3.6 s with dead 4 s, 7.5-8.1 s with BFD at 3 x 100 ms.
//! - A lab needs about 7 s to converge from nothing (66 + 14 nodes, both protocols: 7.3 s, 1.1 s of CPU,
//!   1.1 MiB and 0.03 % of a core each when idle), for the same reason: the first, empty LSA goes out at
//!   once, the one with neighbours 5 s later.

use crate::addresses::{
    AddressPlan, GSL_V4, GSL_V4_LEN, ISL_V4, ISL_V4_LEN, LOOPBACK_V4, LOOPBACK_V4_LEN, LOOPBACK_V6,
    LOOPBACK_V6_LEN,
};
use constel_topology::{Layout, NodeId, NodeKind, PortRole, Stepper};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;

/// Seconds between BIRD's looks at interfaces and kernel tables; it hears of changes by netlink anyway.
const SCAN_S: u32 = 300;

/// Timers and costs, the same in every node (OSPF needs hello and dead to agree).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OspfSpec {
    /// Seconds between hellos, 1..=65535.
    pub hello_s: u16,
    /// Seconds without a hello until a neighbour is dropped, at least twice `hello_s`.
    pub dead_s: u16,
    /// Seconds until an unacknowledged packet is sent again, 1..=65535. Must exceed a link's round trip.
    pub retransmit_s: u16,
    /// Seconds by which route calculations are gathered, 1..=65535.
    pub tick_s: u16,
    /// Cost of an ISL, 1..=65535.
    pub isl_cost: u16,
    /// Cost of a ground link, 1..=65535. High enough and no path leads through a station.
    pub gsl_cost: u16,
    /// OSPFv2.
    pub ipv4: bool,
    /// OSPFv3.
    pub ipv6: bool,
}

/// A configuration that cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BirdError {
    /// A number out of bounds.
    #[error("OSPF {what} is {value}, must be at least {least}")]
    TooSmall {
        /// Which number.
        what: &'static str,
        /// What it is.
        value: u16,
        /// The bound.
        least: u32,
    },
    /// Neither protocol is asked for.
    #[error("OSPF needs IPv4 or IPv6 or both")]
    NoFamily,
    /// Something listed as a station's satellite is none.
    #[error("`{0}` is no satellite")]
    NotASatellite(String),
    /// Satellites hear of stations by themselves.
    #[error("`{0}` is a satellite and needs no ground neighbours")]
    NeighboursOfSatellite(String),
    /// BIRD's strings have no escapes.
    #[error("the log's path {0:?} cannot be written in BIRD's configuration")]
    LogPath(String),
}

impl OspfSpec {
    /// Finds everything that is wrong with the numbers.
    ///
    /// # Errors
    /// All findings.
    pub fn check(&self) -> Result<(), Vec<BirdError>> {
        let mut errors = Vec::new();
        let numbers = [
            ("hello time in seconds", self.hello_s, 1),
            (
                "dead time in seconds",
                self.dead_s,
                2 * u32::from(self.hello_s),
            ),
            ("retransmit time in seconds", self.retransmit_s, 1),
            ("tick in seconds", self.tick_s, 1),
            ("ISL cost", self.isl_cost, 1),
            ("ground link cost", self.gsl_cost, 1),
        ];
        for (what, value, least) in numbers {
            if u32::from(value) < least {
                errors.push(BirdError::TooSmall { what, value, least });
            }
        }
        if !self.ipv4 && !self.ipv6 {
            errors.push(BirdError::NoFamily);
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors)
        }
    }
}

/// Arguments for `bird`: in the foreground, with this configuration, control socket and nothing else. Log and
/// everything else are in the configuration.
#[must_use]
pub fn arguments(configuration: &Path, control: &Path) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["-f".into(), "-c".into(), configuration.into()];
    arguments.extend(["-s".into(), control.into()]);
    arguments
}

/// The satellites each station uses in `steps` steps from `from`, by the spec's order of stations: the
/// neighbours its BIRD must know to follow its handovers. Moves the stepper.
#[must_use]
pub fn serving_within(stepper: &mut Stepper, from: u64, steps: u64) -> Vec<BTreeSet<NodeId>> {
    let mut snapshot = stepper.at_step(from);
    let mut serving = vec![BTreeSet::new(); snapshot.serving.len()];
    for step in 0..steps {
        for (station, set) in serving.iter_mut().enumerate() {
            let beams = stepper.layout().beams_of(station);
            set.extend(snapshot.beams[beams].iter().flatten());
        }
        if step + 1 < steps {
            stepper.advance_into(&mut snapshot);
        }
    }
    serving
}

/// BIRD's configuration for `node`.
///
/// `gsl_neighbours` are the satellites a station will use during the run; empty for a satellite. `log` is
/// where BIRD writes what it has to say.
///
/// # Errors
/// Everything that is wrong with the arguments.
///
/// # Panics
/// When a node is not of this layout.
pub fn configuration(
    layout: &Layout,
    plan: &AddressPlan,
    spec: &OspfSpec,
    node: NodeId,
    gsl_neighbours: &BTreeSet<NodeId>,
    log: &Path,
) -> Result<String, Vec<BirdError>> {
    let mut errors = spec.check().err().unwrap_or_default();
    let this = layout.node(node);
    if this.kind == NodeKind::Satellite && !gsl_neighbours.is_empty() {
        errors.push(BirdError::NeighboursOfSatellite(this.name.clone()));
    }
    for n in gsl_neighbours.iter().map(|n| layout.node(*n)) {
        if n.kind != NodeKind::Satellite {
            errors.push(BirdError::NotASatellite(n.name.clone()));
        }
    }
    let log_text = log
        .to_str()
        .filter(|t| !t.contains(['"', '\n', '\r', '\\']));
    let Some(log_text) = log_text.filter(|_| errors.is_empty()) else {
        if log_text.is_none() {
            errors.push(BirdError::LogPath(log.to_string_lossy().into_owned()));
        }
        return Err(errors);
    };
    let own = plan.loopback(node);
    let mut text = String::new();
    let _ = writeln!(
        text,
        "# {}\n\
         log \"{log_text}\" {{ info, remote, warning, error, auth, fatal, bug }};\n\
         timeformat log iso long ms;\n\
         timeformat protocol iso long ms;\n\
         router id {};\n\
         protocol device {{ scan time {SCAN_S}; }}",
        this.name, own.v4
    );
    let writer = Writer {
        layout,
        plan,
        spec,
        node,
        gsl_neighbours,
    };
    if spec.ipv4 {
        let block = format!("{LOOPBACK_V4}/{LOOPBACK_V4_LEN}{{32,32}}");
        kernel(&mut text, "ipv4", &block, &own.v4.to_string());
        writer.ospf(&mut text, Family::V4);
    }
    if spec.ipv6 {
        let block = format!("{LOOPBACK_V6}/{LOOPBACK_V6_LEN}{{128,128}}");
        kernel(&mut text, "ipv6", &block, &own.v6.to_string());
        writer.ospf(&mut text, Family::V6);
    }
    Ok(text)
}

/// The protocol that writes routes to loopbacks, and nothing else, into the kernel's main table.
fn kernel(text: &mut String, family: &str, block: &str, source: &str) {
    let _ = writeln!(
        text,
        "protocol kernel kernel_{family} {{\n  \
           scan time {SCAN_S};\n  \
           learn no;\n  \
           persist no;\n  \
           merge paths off;\n  \
           {family} {{\n    \
             import none;\n    \
             export filter {{\n      \
               if source != RTS_OSPF || net !~ [{block}] then reject;\n      \
               krt_prefsrc = {source};\n      \
               accept;\n    \
             }};\n  \
           }};\n\
         }}"
    );
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

struct Writer<'a> {
    layout: &'a Layout,
    plan: &'a AddressPlan,
    spec: &'a OspfSpec,
    node: NodeId,
    gsl_neighbours: &'a BTreeSet<NodeId>,
}

impl Writer<'_> {
    fn ospf(&self, text: &mut String, family: Family) {
        let (version, channel) = match family {
            Family::V4 => ("v2", "ipv4"),
            Family::V6 => ("v3", "ipv6"),
        };
        let _ = writeln!(
            text,
            "protocol ospf {version} ospf_{version} {{\n  \
               tick {};\n  \
               ecmp off;\n  \
               graceful restart off;\n  \
               {channel} {{ import all; export none; }};\n  \
               area 0 {{",
            self.spec.tick_s
        );
        let own = self.plan.loopback(self.node);
        match family {
            Family::V4 => {
                let _ = writeln!(
                    text,
                    "    stubnet {}/32;\n    \
                         stubnet {ISL_V4}/{ISL_V4_LEN} {{ hidden yes; summary yes; }};\n    \
                         stubnet {GSL_V4}/{GSL_V4_LEN} {{ hidden yes; summary yes; }};",
                    own.v4
                );
            }
            Family::V6 => {
                let _ = writeln!(text, "    stubnet {}/128;", own.v6);
            }
        }
        for port in self.layout.ports_of(self.node) {
            if port.role == PortRole::Gsl {
                let neighbours = self.neighbours(family);
                self.interface(text, port.name(), "ptmp", self.spec.gsl_cost, &neighbours);
            } else if self.layout.isl_of_port(port.id).is_some() {
                self.interface(text, port.name(), "ptp", self.spec.isl_cost, "");
            }
        }
        text.push_str("  };\n}\n");
    }

    fn interface(&self, text: &mut String, name: &str, kind: &str, cost: u16, more: &str) {
        let OspfSpec {
            hello_s,
            dead_s,
            retransmit_s,
            ..
        } = self.spec;
        let _ = writeln!(
            text,
            "    interface \"{name}\" {{ type {kind}; cost {cost}; hello {hello_s}; dead {dead_s}; \
             retransmit {retransmit_s}; {more}}};"
        );
    }

    fn neighbours(&self, family: Family) -> String {
        if self.gsl_neighbours.is_empty() {
            return String::new();
        }
        let mut list = String::from("neighbors { ");
        for satellite in self.gsl_neighbours {
            let far = self.plan.port(self.layout.gsl_port(*satellite));
            let _ = match (family, far.v4) {
                (Family::V4, Some((v4, _))) => write!(list, "{v4}; "),
                (Family::V4, None) => unreachable!("every ground port has an IPv4 address"),
                (Family::V6, _) => write!(list, "{}; ", far.v6_link_local),
            };
        }
        list.push_str("}; ");
        list
    }
}
