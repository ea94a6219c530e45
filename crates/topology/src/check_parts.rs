//! Checks of stations, their weather, radio and failures.

use crate::check::Checker;
use crate::class::GSL;
use crate::error::SpecError;
use crate::node::NodeId;
use crate::spec::{
    Centre, Constellation, Disruption, FailureTarget, FailureTime, Operators, Spec, Station,
    Switched,
};
use std::collections::BTreeSet;

impl Checker {
    pub(crate) fn failures(&mut self, spec: &Spec, names: &BTreeSet<&str>) {
        let mut seen = BTreeSet::new();
        for failure in &spec.failures {
            let constellation = match &failure.what {
                FailureTarget::Satellites { constellation }
                | FailureTarget::Plane { constellation, .. }
                | FailureTarget::Lasers { constellation }
                | FailureTarget::Eclipse { constellation, .. }
                | FailureTarget::Polar { constellation, .. }
                | FailureTarget::Seam { constellation } => Some(*constellation),
                _ => None,
            };
            let unknown = match &failure.what {
                FailureTarget::Nodes(nodes) => nodes.iter().find(|n| !names.contains(n.as_str())),
                FailureTarget::Link { a, b } => {
                    [a, b].into_iter().find(|n| !names.contains(n.as_str()))
                }
                FailureTarget::Network {
                    trouble:
                        Disruption::Jamming {
                            centre: Centre::Node(node),
                            ..
                        },
                    ..
                } => Some(node).filter(|n| !names.contains(n.as_str())),
                _ => None,
            };
            let never = match failure.when {
                FailureTime::Scheduled { from_ns, until_ns } => {
                    until_ns.is_some_and(|u| u <= from_ns)
                }
                FailureTime::Random { mtbf_ns, mttr_ns } => mtbf_ns == 0 || mttr_ns == 0,
                FailureTime::Regular {
                    for_ns, every_ns, ..
                } => for_ns == 0 || every_ns <= for_ns,
                FailureTime::Told => false,
            };
            if let FailureTarget::Eclipse { duty, .. } = &failure.what {
                self.bounds(&failure.name, "duty", *duty, 0.0..=1.0, "0 to 1");
            }
            let no_network = matches!(&failure.what, FailureTarget::Network { network, .. } if *network >= spec.networks.len());
            if let FailureTarget::Network {
                trouble:
                    Disruption::Jamming { loss_ratio, .. } | Disruption::Disturbance { loss_ratio, .. },
                ..
            } = &failure.what
            {
                self.bounds(&failure.name, "loss", *loss_ratio, 0.0..=1.0, "0 to 1");
            }
            let timeless = matches!(failure.what, FailureTarget::Eclipse { period_ns: 0, .. });
            let reason = if !seen.insert(failure.name.as_str()) {
                "another one has the same name".to_owned()
            } else if let Some(name) = unknown {
                format!("no node is called `{name}`")
            } else if constellation.is_some_and(|c| c >= spec.constellations.len()) {
                "no such constellation".to_owned()
            } else if no_network {
                "no such network".to_owned()
            } else if never || timeless {
                "it has no time to happen".to_owned()
            } else {
                continue;
            };
            let name = failure.name.clone();
            self.errors.push(SpecError::BadFailure { name, reason });
        }
    }

    pub(crate) fn station(&mut self, s: &Station) {
        self.track(s);
        self.weather(s);
        for o in &s.obstacles {
            for azimuth in [o.from_deg, o.to_deg] {
                self.bounds(
                    &s.name,
                    "azimuth in degrees",
                    azimuth,
                    0.0..=360.0,
                    "0 to 360",
                );
            }
            self.bounds(
                &s.name,
                "obstacle in degrees",
                o.elevation_deg,
                -5.0..=90.0,
                "-5 to 90",
            );
        }
        self.bounds(
            &s.name,
            "latitude in degrees",
            s.latitude_deg,
            -90.0..=90.0,
            "-90 to 90",
        );
        self.bounds(
            &s.name,
            "longitude in degrees",
            s.longitude_deg,
            -180.0..=180.0,
            "-180 to 180",
        );
        self.bounds(
            &s.name,
            "altitude in m",
            s.altitude_m,
            -1e3..=2e4,
            "-1,000 to 20,000",
        );
    }

    /// A station's terminals have ports, rules and satellites.
    pub(crate) fn terminals(&mut self, spec: &Spec, s: &Station) {
        let mut bad = |reason: String| {
            self.errors.push(SpecError::BadTerminal {
                station: s.name.clone(),
                reason,
            });
        };
        let (count, most) = (s.terminals.len(), GSL.ports.len());
        if !(1..=most).contains(&count) {
            bad(format!("{count} terminals, allowed are 1 to {most}"));
        }
        for terminal in &s.terminals {
            if terminal.rule >= spec.rules.len() {
                bad("a terminal chooses by no rule".to_owned());
            }
            let known = |k: &u16| usize::from(*k) < spec.constellations.len();
            if let Operators::Only(those) = &terminal.serves
                && (those.is_empty() || !those.iter().all(known))
            {
                bad("a terminal is for no constellation of this lab".to_owned());
            }
        }
        for terminal in &s.terminals {
            self.bounds(
                &s.name,
                "antennas",
                f64::from(terminal.antennas),
                1.0..=32.0,
                "1 to 32",
            );
            if let Some(mask_deg) = terminal.min_elevation_deg {
                self.bounds(
                    &s.name,
                    "elevation mask in degrees",
                    mask_deg,
                    -5.0..=90.0,
                    "-5 to 90",
                );
            }
        }
    }

    /// Choices are in order, and of satellites.
    pub(crate) fn choices(&mut self, satellites: usize, s: &Station) {
        let unordered = s.choices.windows(2).any(|w| w[1].t_ns <= w[0].t_ns);
        let mut those = s.choices.iter().flat_map(|chosen| &chosen.satellites);
        let reason = if unordered {
            "choices must be in order of time"
        } else if those.any(|satellite| satellite.index() >= satellites) {
            "what is chosen is no satellite"
        } else {
            return;
        };
        let station = s.name.clone();
        self.errors.push(SpecError::BadChoices {
            station,
            reason: reason.to_owned(),
        });
    }

    /// Switched links are in order, and join two nodes of the lab.
    pub(crate) fn switched(&mut self, spec: &Spec, nodes: usize) {
        let unordered = spec.switched.windows(2).any(|w| w[1].t_ns < w[0].t_ns);
        let known = |node: NodeId| node.index() < nodes;
        let fits = |s: &Switched| known(s.a) && known(s.b) && s.a != s.b;
        let reason = if unordered {
            "links must be switched in order of time"
        } else if !spec.switched.iter().all(fits) {
            "a switched link must join two nodes"
        } else {
            return;
        };
        self.errors.push(SpecError::BadSwitched {
            reason: reason.to_owned(),
        });
    }

    fn track(&mut self, s: &Station) {
        for w in &s.track {
            self.bounds(
                &s.name,
                "latitude in degrees",
                w.latitude_deg,
                -90.0..=90.0,
                "-90 to 90",
            );
            self.bounds(
                &s.name,
                "longitude in degrees",
                w.longitude_deg,
                -180.0..=180.0,
                "-180 to 180",
            );
            self.bounds(
                &s.name,
                "altitude in m",
                w.altitude_m,
                -1e3..=2e4,
                "-1,000 to 20,000",
            );
        }
        for pair in s.track.windows(2) {
            let opposite = (pair[0].latitude_deg + pair[1].latitude_deg).abs() < 0.1
                && ((pair[0].longitude_deg - pair[1].longitude_deg).rem_euclid(360.0) - 180.0)
                    .abs()
                    < 0.1;
            let reason = if pair[1].t_ns <= pair[0].t_ns {
                "waypoints must be in order of time"
            } else if opposite {
                "from a waypoint to the opposite point of the Earth there is no shortest way"
            } else {
                continue;
            };
            let station = s.name.clone();
            self.errors.push(SpecError::BadTrack {
                station,
                reason: reason.to_owned(),
            });
        }
    }

    /// Carriers, rain and recordings.
    pub(crate) fn radio(&mut self, k: &Constellation) {
        let Some(radio) = &k.radio else { return };
        for carrier in [&radio.up, &radio.down] {
            let budget = &carrier.budget;
            let fields = [
                (
                    "frequency in Hz",
                    budget.frequency_hz,
                    1e9..=55e9,
                    "1e9 to 55e9",
                ),
                (
                    "bandwidth in Hz",
                    budget.bandwidth_hz,
                    1e3..=1e10,
                    "1e3 to 1e10",
                ),
                (
                    "EIRP in dBW",
                    budget.eirp_dbw,
                    -100.0..=200.0,
                    "-100 to 200",
                ),
                (
                    "G/T in dB/K",
                    budget.g_over_t_db_per_k,
                    -100.0..=100.0,
                    "-100 to 100",
                ),
                (
                    "other losses in dB",
                    budget.other_losses_db,
                    0.0..=100.0,
                    "0 to 100",
                ),
                ("margin in dB", carrier.margin_db, 0.0..=100.0, "0 to 100"),
                ("roll-off", carrier.roll_off, 0.0..=1.0, "0 to 1"),
                (
                    "system temperature in K",
                    carrier.system_temperature_k.unwrap_or(1.0),
                    1.0..=1e5,
                    "1 to 1e5",
                ),
            ];
            for (field, value, range, allowed) in fields {
                self.bounds(&k.name, field, value, range, allowed);
            }
        }
    }

    fn weather(&mut self, s: &Station) {
        for rain in &s.rain {
            self.bounds(
                &s.name,
                "rain in mm/h",
                rain.mm_per_h,
                0.0..=500.0,
                "0 to 500",
            );
        }
        let points = &s.recording.points;
        for p in points {
            self.bounds(
                &s.name,
                "recorded loss ratio",
                p.loss_ratio,
                0.0..=1.0,
                "0 to 1",
            );
            let extra = p.extra_delay_ns as f64;
            self.bounds(
                &s.name,
                "recorded delay in ns",
                extra,
                0.0..=1e10,
                "0 to 1e10 (10 s)",
            );
        }
        let last_ns = points.last().map_or(0, |p| p.t_ns);
        let reason = if s.rain.windows(2).any(|w| w[1].t_ns <= w[0].t_ns)
            || points.windows(2).any(|w| w[1].t_ns <= w[0].t_ns)
        {
            "weather and recordings must be in order of time"
        } else if s.recording.repeat_ns > 0 && last_ns >= s.recording.repeat_ns {
            "a recording begins again before its last point"
        } else {
            return;
        };
        self.errors.push(SpecError::BadTrack {
            station: s.name.clone(),
            reason: reason.to_owned(),
        });
    }
}
