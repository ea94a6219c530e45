//! Validation of a spec: all errors at once, no value is clamped.

use crate::class::STATION;
use crate::error::SpecError;
use crate::policy::GslPolicy;
use crate::spec::{Constellation, IslPattern, LaserPairing, LinkClass, Neighbours, PlusGrid, Spec};
use std::collections::{BTreeMap, BTreeSet};

/// The most nodes a lab may have, so that ports and addresses fit their numbers.
pub const MAX_NODES: usize = 100_000;

/// All that is wrong with the spec itself.
pub(crate) fn check(spec: &Spec) -> Vec<SpecError> {
    let mut c = Checker { errors: Vec::new() };
    c.bounds(
        "step",
        "length in ns",
        spec.step_ns as f64,
        1e6..=6e10,
        "1e6 to 6e10",
    );
    let satellites = spec
        .constellations
        .iter()
        .map(|c| c.satellites.len())
        .sum::<usize>();
    c.at_most(
        "nodes",
        satellites + spec.stations.len() + spec.hosts.len(),
        MAX_NODES,
    );
    c.at_most(
        "constellations",
        spec.constellations.len(),
        usize::from(u16::MAX),
    );
    let mut names = BTreeSet::new();
    let all = spec
        .constellations
        .iter()
        .flat_map(|k| k.satellites.iter().map(|s| &s.name))
        .chain(spec.stations.iter().map(|s| &s.name))
        .chain(spec.hosts.iter().map(|h| &h.name));
    for name in all {
        if !names.insert(name.as_str()) {
            c.errors.push(SpecError::DuplicateName(name.clone()));
        }
    }
    c.at_most("failures", spec.failures.len(), usize::from(u16::MAX));
    for rule in &spec.rules {
        c.bounds(
            "gsl",
            "outage in ns",
            rule.outage_ns as f64,
            0.0..=3.6e12,
            "0 to 3.6e12 (1 h)",
        );
        c.policy(&rule.policy);
    }
    c.failures(spec, &names);
    c.cross(spec);
    c.cables(spec);
    c.classes(spec);
    c.networks(spec, &names);
    c.switched(spec, names.len());
    for constellation in &spec.constellations {
        c.constellation(constellation);
    }
    for station in &spec.stations {
        c.station(station);
        c.choices(satellites, station);
        c.terminals(spec, station);
    }
    c.errors
}

pub(crate) struct Checker {
    pub(crate) errors: Vec<SpecError>,
}

impl Checker {
    pub(crate) fn bounds(
        &mut self,
        what: &str,
        field: &'static str,
        value: f64,
        range: std::ops::RangeInclusive<f64>,
        allowed: &'static str,
    ) {
        // Not-a-number is in no range.
        if !range.contains(&value) {
            self.errors.push(SpecError::OutOfBounds {
                what: what.to_owned(),
                field,
                value,
                allowed,
            });
        }
    }

    fn at_most(&mut self, what: &'static str, count: usize, max: usize) {
        if count > max {
            self.errors.push(SpecError::TooMany { what, count, max });
        }
    }

    fn cables(&mut self, spec: &Spec) {
        let stations = spec.stations.iter().map(|s| (s.name.as_str(), &STATION));
        let hosts = spec.hosts.iter().map(|h| (h.name.as_str(), h.class));
        let satellites = spec.constellations.iter().flat_map(|k| {
            let class = k.class;
            k.satellites.iter().map(move |s| (s.name.as_str(), class))
        });
        // How many cables each may still have.
        let mut ends: BTreeMap<&str, (u8, u8)> = stations
            .chain(hosts)
            .chain(satellites)
            .filter(|(_, class)| class.cables > 0)
            .map(|(name, class)| (name, (class.cables, class.cables)))
            .collect();
        let mut pairs = BTreeSet::new();
        for cable in &spec.cables {
            let (a, b) = (cable.a.as_str(), cable.b.as_str());
            self.class(&format!("{a}-{b}"), &cable.class);
            let mut reason = None;
            for end in [a, b] {
                match ends.get_mut(end) {
                    None => reason = Some(format!("`{end}` is no station or host")),
                    Some((0, most)) => reason = Some(format!("`{end}` has more than {most}")),
                    Some((left, _)) => *left -= 1,
                }
            }
            if a == b {
                reason = Some("both ends are one node".to_owned());
            } else if !pairs.insert((a.min(b), a.max(b))) {
                reason = Some("there is one already".to_owned());
            }
            if let Some(reason) = reason {
                self.errors.push(SpecError::BadCable {
                    a: a.to_owned(),
                    b: b.to_owned(),
                    reason,
                });
            }
        }
        for host in &spec.hosts {
            let (name, n) = (&host.name, "-90 to 90");
            self.bounds(
                name,
                "latitude in degrees",
                host.latitude_deg,
                -90.0..=90.0,
                n,
            );
            let allowed = "-180 to 180";
            let longitude = host.longitude_deg;
            self.bounds(
                name,
                "longitude in degrees",
                longitude,
                -180.0..=180.0,
                allowed,
            );
            let altitude = host.altitude_m;
            self.bounds(
                name,
                "altitude in m",
                altitude,
                -1e3..=2e4,
                "-1,000 to 20,000",
            );
        }
    }

    fn constellation(&mut self, k: &Constellation) {
        let mask = k.min_elevation_deg;
        self.bounds(
            &k.name,
            "elevation mask in degrees",
            mask,
            -5.0..=90.0,
            "-5 to 90",
        );
        self.class(&k.name, &k.gsl_class);
        for step in &k.gsl_steps {
            let above = step.above_deg;
            self.bounds(
                &k.name,
                "elevation of a step in degrees",
                above,
                -5.0..=90.0,
                "-5 to 90",
            );
            self.bounds(&k.name, "loss ratio", step.loss_ratio, 0.0..=1.0, "0 to 1");
        }
        for pair in k
            .gsl_steps
            .windows(2)
            .filter(|p| p[1].above_deg <= p[0].above_deg)
        {
            let above = pair[1].above_deg;
            self.bounds(
                &k.name,
                "elevation of a step in degrees",
                above,
                91.0..=91.0,
                "higher than the step before",
            );
        }
        let avoidance = k.gso_avoidance_deg;
        self.bounds(
            &k.name,
            "GSO avoidance in degrees",
            avoidance,
            0.0..=45.0,
            "0 to 45",
        );
        let mut seats = BTreeMap::new();
        for s in &k.satellites {
            if let Some(first) = seats.insert((s.shell, s.plane, s.slot), &s.name) {
                self.errors.push(SpecError::DuplicateSeat {
                    constellation: k.name.clone(),
                    first: first.clone(),
                    second: s.name.clone(),
                    shell: s.shell,
                    plane: s.plane,
                    slot: s.slot,
                });
            }
        }
        self.radio(k);
        if let IslPattern::PlusGrid(grid) = &k.isl {
            self.class(&k.name, &k.isl_class);
            self.grid(k, grid);
            self.lasers(k);
        }
    }

    fn policy(&mut self, policy: &GslPolicy) {
        match policy {
            GslPolicy::Hysteresis { gain_deg } => {
                self.bounds(
                    "gsl",
                    "hysteresis in degrees",
                    *gain_deg,
                    0.0..=90.0,
                    "0 to 90",
                );
            }
            GslPolicy::Scheduler {
                period_ns,
                phase_ns,
            } => {
                let period = *period_ns as f64;
                self.bounds(
                    "gsl",
                    "slot in ns",
                    period,
                    1e6..=3.6e12,
                    "1e6 to 3.6e12 (1 h)",
                );
                let phase = *phase_ns as f64;
                self.bounds(
                    "gsl",
                    "phase of slots in ns",
                    phase,
                    0.0..=period - 1.0,
                    "less than a slot",
                );
            }
            GslPolicy::Plain(_) => {}
        }
    }

    fn lasers(&mut self, k: &Constellation) {
        if let Some(limit) = k.lasers.max_slew_deg_per_s {
            self.bounds(
                &k.name,
                "slew limit in degrees per second",
                limit,
                0.0..=360.0,
                "0 to 360",
            );
        }
        let acquisition = k.lasers.acquisition_ns as f64;
        self.bounds(
            &k.name,
            "acquisition in ns",
            acquisition,
            0.0..=3.6e12,
            "0 to 3.6e12 (1 h)",
        );
        match &k.lasers.pairing {
            LaserPairing::Grid | LaserPairing::Ring => {}
            LaserPairing::Nearest(most) => {
                self.bounds(
                    &k.name,
                    "nearest satellites",
                    f64::from(*most),
                    1.0..=4.0,
                    "1 to 4",
                );
            }
            LaserPairing::List(pairs) => {
                let names: BTreeSet<&str> = k.satellites.iter().map(|s| s.name.as_str()).collect();
                let mut seen = BTreeSet::new();
                let mut links: BTreeMap<&str, usize> = BTreeMap::new();
                for (a, b) in pairs {
                    let mut used = [a, b].map(|n| {
                        let count = links.entry(n.as_str()).or_default();
                        *count += 1;
                        *count
                    });
                    used.sort_unstable();
                    let reason = if a == b {
                        "both are the same"
                    } else if ![a, b].iter().all(|n| names.contains(n.as_str())) {
                        "no such satellite in this constellation"
                    } else if !seen.insert((a.min(b), a.max(b))) {
                        "they are listed twice"
                    } else if used[1] > 4 {
                        "a satellite has four lasers"
                    } else {
                        continue;
                    };
                    self.errors.push(SpecError::BadPair {
                        constellation: k.name.clone(),
                        a: a.clone(),
                        b: b.clone(),
                        reason,
                    });
                }
            }
        }
    }

    fn cross(&mut self, spec: &Spec) {
        for cross in &spec.cross {
            let known =
                |(constellation, _): (usize, u16)| constellation < spec.constellations.len();
            if !known(cross.from) || !known(cross.to) || cross.from == cross.to {
                self.errors.push(SpecError::BadPair {
                    constellation: "cross-shell links".to_owned(),
                    a: format!("{:?}", cross.from),
                    b: format!("{:?}", cross.to),
                    reason: "two different shells are needed",
                });
            }
            let what = "cross-shell links";
            self.bounds(what, "range in m", cross.max_range_m, 1.0..=1e9, "1 to 1e9");
            self.bounds(
                what,
                "clearance in m",
                cross.clearance_m,
                0.0..=1e6,
                "0 to 1e6",
            );
            self.class(what, &cross.class);
        }
    }

    fn class(&mut self, what: &str, class: &LinkClass) {
        self.bounds(what, "loss ratio", class.loss_ratio, 0.0..=1.0, "0 to 1");
        let mtu = f64::from(class.mtu_bytes);
        self.bounds(what, "MTU in bytes", mtu, 576.0..=9000.0, "576 to 9,000");
        let extra = class.extra_delay_ns as f64;
        self.bounds(
            what,
            "extra delay in ns",
            extra,
            0.0..=1e10,
            "0 to 1e10 (10 s)",
        );
    }

    fn grid(&mut self, k: &Constellation, grid: &PlusGrid) {
        let name = &k.name;
        self.bounds(
            name,
            "polar cut-off in degrees",
            grid.polar_cutoff_deg,
            0.0..=90.0,
            "0 to 90",
        );
        self.bounds(
            name,
            "ISL range in m",
            grid.max_range_m,
            1.0..=1e9,
            "1 to 1e9",
        );
        self.bounds(
            name,
            "ISL clearance in m",
            grid.clearance_m,
            0.0..=1e6,
            "0 to 1e6",
        );
        let Neighbours::Walker { phasing, .. } = grid.neighbours else {
            return;
        };
        let mut shells: BTreeMap<u16, BTreeMap<u16, BTreeSet<u16>>> = BTreeMap::new();
        for s in &k.satellites {
            shells
                .entry(s.shell)
                .or_default()
                .entry(s.plane)
                .or_default()
                .insert(s.slot);
        }
        for (shell, planes) in shells {
            let slots = planes.values().map(BTreeSet::len).max().unwrap_or(0);
            let whole = 0..planes.len();
            if !planes.keys().map(|&p| usize::from(p)).eq(whole) {
                let reason = format!("planes must be numbered 0 to {}", planes.len() - 1);
                self.incomplete(name, shell, reason);
            }
            for (plane, have) in &planes {
                if !have.iter().map(|&s| usize::from(s)).eq(0..slots) {
                    let reason = format!("plane {plane} must have slots 0 to {}", slots - 1);
                    self.incomplete(name, shell, reason);
                }
            }
            if phasing as usize >= planes.len() {
                self.errors.push(SpecError::Phasing {
                    constellation: name.clone(),
                    shell,
                    phasing,
                    planes: planes.len(),
                });
            }
        }
    }

    fn incomplete(&mut self, name: &str, shell: u16, reason: String) {
        let constellation = name.to_owned();
        self.errors.push(SpecError::IncompleteWalker {
            constellation,
            shell,
            reason,
        });
    }
}
