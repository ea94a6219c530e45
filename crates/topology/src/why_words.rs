//! Why a link is up or down, in words.

use crate::down::Down;
use crate::layout::Layout;
use crate::node::NodeId;
use crate::radio::Signal;
use crate::why::LinkReason;
use std::fmt;

impl LinkReason {
    /// True when frames pass.
    #[must_use]
    pub fn is_up(&self) -> bool {
        matches!(self, LinkReason::Up { .. })
    }

    /// The reason in a sentence, with node names.
    #[must_use]
    pub fn describe(&self, layout: &Layout) -> String {
        Words { why: self, layout }.to_string()
    }
}

fn write_signal(f: &mut fmt::Formatter<'_>, way: &str, signal: &Signal) -> fmt::Result {
    write!(f, "; {way}: C/N {:.1} dB (", signal.c_n_db)?;
    if signal.rain_db > 0.0 {
        write!(f, "rain fade {:.1} dB, ", signal.rain_db)?;
    }
    write!(f, "gases {:.1} dB)", signal.gas_db)?;
    match signal.carried {
        Some(c) => write!(f, ", {} at {:.1} Mbit/s", c.name, c.rate_bps / 1e6),
        None => Ok(()),
    }
}

struct Words<'a> {
    why: &'a LinkReason,
    layout: &'a Layout,
}

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.why {
            LinkReason::Up {
                range_m,
                delay_ns,
                elevation_deg,
                radio,
                access,
            } => {
                write!(
                    f,
                    "up: {:.1} km, {:.3} ms",
                    km(range_m),
                    *delay_ns as f64 / 1e6
                )?;
                if let Some(e) = elevation_deg {
                    write!(f, ", elevation {e:.1} deg")?;
                }
                if let Some(signals) = radio {
                    if signals.rain_mm_per_h > 0.0 {
                        write!(f, "; rain {:.1} mm/h", signals.rain_mm_per_h)?;
                    }
                    write_signal(f, "down", &signals.down)?;
                    write_signal(f, "up", &signals.up)?;
                }
                self.write_access(f, *access)
            }
            LinkReason::Acquiring { range_m, until_ns } => write!(
                f,
                "acquiring until {:.3} s: {:.1} km",
                *until_ns as f64 / 1e9,
                km(range_m)
            ),
            LinkReason::Down(down) => {
                f.write_str("down: ")?;
                self.write_down(f, down)
            }
        }
    }
}

fn km(metres: &f64) -> f64 {
    metres / 1e3
}

impl Words<'_> {
    fn name(&self, node: &NodeId) -> &str {
        &self.layout.node(*node).name
    }

    /// Writes the parts of the access that the satellite's constellation gives its links.
    fn write_access(&self, f: &mut fmt::Formatter<'_>, satellite: Option<NodeId>) -> fmt::Result {
        let constellation = satellite.and_then(|node| self.layout.constellation_of(node));
        let Some(access) = constellation.and_then(|k| k.access.as_ref()) else {
            return Ok(());
        };
        let parts = access.parts.parts();
        let words = parts
            .iter()
            .map(|part| format!("{}: {}", part.name, part.values));
        write!(f, "; access: {}", words.collect::<Vec<_>>().join("; "))
    }

    fn write_down(&self, f: &mut fmt::Formatter<'_>, down: &Down) -> fmt::Result {
        match down {
            Down::SameNode
            | Down::BothOnGround
            | Down::NoLasers
            | Down::NotNeighbours
            | Down::Seam
            | Down::NoFeeder
            | Down::SwitchedOff
            | Down::PolicyChoseNone => f.write_str(without_figures(down)),
            Down::NoPosition { node } => {
                write!(
                    f,
                    "{} has no position: its orbit has ended",
                    self.name(node)
                )
            }
            Down::PolarCutoff {
                node,
                latitude_deg,
                cutoff_deg,
            } => write!(
                f,
                "{} is at latitude {latitude_deg:.1} deg, beyond the polar cut-off of {cutoff_deg} deg",
                self.name(node)
            ),
            Down::BeyondRange {
                range_m,
                max_range_m,
            } => write!(
                f,
                "{:.1} km apart, beyond the range of {:.1} km",
                km(range_m),
                km(max_range_m)
            ),
            Down::LineOfSight {
                altitude_m,
                clearance_m,
            } => write!(
                f,
                "line of sight passes at {:.1} km, below {:.1} km",
                km(altitude_m),
                km(clearance_m)
            ),
            Down::NotForGround { node } => {
                write!(f, "{} does not serve the ground", self.name(node))
            }
            Down::NoTerminal { node } => {
                let name = self.name(node);
                write!(
                    f,
                    "the station has no terminal for the constellation of {name}"
                )
            }
            Down::Obstructed {
                azimuth_deg,
                elevation_deg,
                obstacle_deg,
            } => write!(
                f,
                "behind an obstacle {obstacle_deg} deg high at azimuth {azimuth_deg:.1} deg (elevation {elevation_deg:.1})"
            ),
            Down::GsoArc {
                angle_deg,
                limit_deg,
            } => write!(
                f,
                "{angle_deg:.1} deg from the geostationary arc, within the {limit_deg} deg to avoid"
            ),
            Down::NoMargin {
                to_ground,
                c_n_db,
                rain_db,
                gas_db,
            } => write!(
                f,
                "the radio link {} does not close: C/N {c_n_db:.1} dB (rain fade {rain_db:.1} dB, gases {gas_db:.1} dB)",
                if *to_ground { "down" } else { "up" }
            ),
            Down::BeamsTaken { beams } => {
                write!(f, "all {beams} beams of the satellite serve other stations")
            }
            Down::SlewLimit {
                rate_deg_per_s,
                limit_deg_per_s,
            } => write!(
                f,
                "a laser would have to turn by {rate_deg_per_s:.2} deg/s, more than {limit_deg_per_s}"
            ),
            Down::Failed { failure } => self.write_failed(f, *failure),
            Down::BelowMask {
                elevation_deg,
                mask_deg,
            } => write!(
                f,
                "below the mask by {:.1} deg (elevation {elevation_deg:.1}, mask {mask_deg})",
                mask_deg - elevation_deg
            ),
            Down::PolicyChose { satellite } => {
                write!(f, "policy chose {}", self.name(satellite))
            }
        }
    }

    fn write_failed(&self, f: &mut fmt::Formatter<'_>, failure: u16) -> fmt::Result {
        match self.layout.spec().failures.get(usize::from(failure)) {
            Some(failure) => write!(f, "failed by `{}`", failure.name),
            None => f.write_str("failed"),
        }
    }
}

/// The reasons that have no figures; empty for the others.
fn without_figures(down: &Down) -> &'static str {
    match down {
        Down::SameNode => "both ends are the same node",
        Down::BothOnGround => "both are on the ground",
        Down::NoLasers => "the constellation has no inter-satellite links",
        Down::NotNeighbours => "the pattern does not make them neighbours",
        Down::Seam => "across the seam: the planes fly in opposite directions",
        Down::NoFeeder => "no feeder uses the satellite, which only relays to feeders",
        Down::SwitchedOff => "switched off",
        Down::PolicyChoseNone => "policy chose no satellite",
        _ => "",
    }
}
