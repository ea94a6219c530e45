//! Failures, and links between shells: checks of their references and of their times.

use std::collections::BTreeMap;

use constel_topology::FailureTarget as Sky;
use constel_units::TimeSpan;

use super::constellations::Found;
use super::disruptions;
use super::inputs::Inputs;
use super::link::link_of;
use super::nodes::Nodes;
use crate::deferred::DeferredNode;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::model::{CrossShell, Failure, FailureTarget, FailureTime, Name, Orbits, SourcePosition};
use crate::parse::Parsed;
use crate::raw::{RawFailure, RawTarget, RegionHits};
use crate::walk::Seg::{self, Index, Key};

/// The names of `constellations` and of their shells.
pub(super) struct Names<'a> {
    parsed: &'a Parsed,
    /// By name, and `<constellation>-<shell>`.
    shells: BTreeMap<String, (usize, u16)>,
    constellations: BTreeMap<&'a str, usize>,
}

impl<'a> Names<'a> {
    pub(super) fn new(parsed: &'a Parsed, found: &'a [Found]) -> Self {
        let mut names = Self {
            parsed,
            shells: BTreeMap::new(),
            constellations: BTreeMap::new(),
        };
        for (place, constellation) in found.iter().map(|f| &f.resolved).enumerate() {
            names
                .constellations
                .insert(constellation.name.as_str(), place);
            match &constellation.orbits {
                Orbits::Walker(_) | Orbits::Ephemeris(_) | Orbits::Formation(_) => {
                    names
                        .shells
                        .insert(constellation.name.to_string(), (place, 0));
                }
                Orbits::Tle(set) | Orbits::Omm(set) => {
                    if set.shells.is_empty() {
                        let name = constellation.name.to_string();
                        names.shells.insert(name, (place, 0));
                    }
                    for (number, shell) in (0u16..).zip(&set.shells) {
                        let name = format!("{}-{}", constellation.name, shell.name);
                        names.shells.insert(name, (place, number));
                    }
                }
            }
        }
        names
    }

    fn unknown(&self, path: &[Seg<'_>], what: &str, name: &Name) -> Diagnostic {
        let known: Vec<&str> = match what {
            "shell" => self.shells.keys().map(String::as_str).collect(),
            _ => self.constellations.keys().copied().collect(),
        };
        self.parsed
            .error_at(
                path,
                "unknown-constellation",
                format!("no {what} is called `{name}`"),
            )
            .with_nearest(name.as_str(), known.iter().copied())
            .with_allowed(known)
    }

    pub(super) fn shell(
        &self,
        path: &[Seg<'_>],
        name: &Name,
        errors: &mut Diagnostics,
    ) -> Option<(usize, u16)> {
        let found = self.shells.get(name.as_str()).copied();
        if found.is_none() {
            errors.push(self.unknown(path, "shell", name));
        }
        found
    }

    fn constellation(
        &self,
        path: &[Seg<'_>],
        name: &Name,
        errors: &mut Diagnostics,
    ) -> Option<usize> {
        let found = self.constellations.get(name.as_str()).copied();
        if found.is_none() {
            errors.push(self.unknown(path, "constellation", name));
        }
        found
    }
}

/// Links between shells.
pub(super) fn cross_shell(
    parsed: &Parsed,
    found: &[Found],
    inputs: &mut Inputs<'_>,
    errors: &mut Diagnostics,
) -> Vec<CrossShell> {
    let names = Names::new(parsed, found);
    let mut links = Vec::new();
    for (index, raw) in parsed.raw.cross_shell.iter().enumerate() {
        let path = |key| [Key("cross_shell"), Index(index), Key(key)];
        let from = names.shell(&path("from"), &raw.from, errors);
        let to = names.shell(&path("to"), &raw.to, errors);
        let (Some(from), Some(to)) = (from, to) else {
            continue;
        };
        if from == to {
            let message = "`from` and `to` are the same shell".to_owned();
            errors.push(parsed.error_at(&path("to"), "same-node", message));
        }
        links.push(CrossShell {
            from,
            to,
            max_range: raw.max_range,
            atmosphere: raw.atmosphere,
            acquisition: raw.acquisition,
            link: link_of(parsed, &path("link"), &raw.link, inputs, errors),
        });
    }
    links
}

/// Resolves the failures.
pub(super) fn failures(
    parsed: &Parsed,
    found: &[Found],
    nodes: &Nodes<'_>,
    deferred: &mut Vec<DeferredNode>,
    errors: &mut Diagnostics,
) -> Vec<Failure> {
    let names = Names::new(parsed, found);
    let mut failures: Vec<Failure> = Vec::new();
    for (index, raw) in parsed.raw.failures.iter().enumerate() {
        if errors.is_full() {
            break;
        }
        if failures.iter().any(|f| f.name == raw.name) {
            let path = [Key("failures"), Index(index), Key("name")];
            let message = format!("two failures are called `{}`", raw.name);
            errors.push(parsed.error_at(&path, "duplicate-name", message));
        }
        let mut one = One {
            parsed,
            names: &names,
            nodes,
            deferred,
            errors,
            index,
        };
        let (when, what) = (one.when(raw), one.what(&raw.what));
        one.reboots(raw);
        if let (Some(when), Some(what)) = (when, what) {
            failures.push(Failure {
                name: raw.name.clone(),
                what,
                when,
                reboot: raw.reboot,
                written: Some(SourcePosition::at(parsed, &written_at(raw, index))),
            });
        }
    }
    failures
}

/// The key by which a failure names its target.
fn written_at(raw: &RawFailure, index: usize) -> Vec<Seg<'static>> {
    let key = match raw.what {
        RawTarget::Link(_) => "link",
        RawTarget::Plane(_) => "plane",
        RawTarget::Lasers(_) => "lasers",
        RawTarget::Seam(_) => "seam",
        _ => return vec![Key("failures"), Index(index)],
    };
    vec![Key("failures"), Index(index), Key(key)]
}

fn ns(span: TimeSpan) -> u64 {
    span.ns().unsigned_abs()
}

struct One<'a> {
    parsed: &'a Parsed,
    names: &'a Names<'a>,
    nodes: &'a Nodes<'a>,
    deferred: &'a mut Vec<DeferredNode>,
    errors: &'a mut Diagnostics,
    index: usize,
}

impl One<'_> {
    fn when(&mut self, raw: &RawFailure) -> Option<FailureTime> {
        match (raw.at, raw.length, raw.mtbf, raw.mttr) {
            (Some(at), length, None, None) => {
                let once = self.regularly(raw, at, length)?;
                let Some(duration) = self.parsed.raw.duration.filter(|duration| at >= *duration)
                else {
                    return Some(once);
                };
                let path = [Key("failures"), Index(self.index), Key("at")];
                let message = format!("`{}` begins at {at}, when the lab is over", raw.name);
                let error = self.parsed.error_at(&path, "order", message);
                let why = format!("the scenario's `duration` is {duration}");
                self.errors.push(error.with_reason(why));
                None
            }
            (None, None, Some(mtbf), Some(mttr)) if raw.every.is_none() => {
                Some(FailureTime::Random {
                    mtbf_ns: ns(mtbf),
                    mttr_ns: ns(mttr),
                })
            }
            _ => {
                let path = [Key("failures"), Index(self.index)];
                let error = self
                    .parsed
                    .error_at(&path, "choose-one", "a failure has one kind of time")
                    .with_reason("it happens once, with `at` and perhaps `for`, regularly, with `every` as well, or at random, with `mtbf` and `mttr`")
                    .with_suggestion("write `at: 10 s, for: 20 s`, or `mtbf: 1 h, mttr: 5 min`");
                self.errors.push(error);
                None
            }
        }
    }

    /// Returns the time of a failure that begins at a given time.
    fn regularly(
        &mut self,
        raw: &RawFailure,
        at: TimeSpan,
        length: Option<TimeSpan>,
    ) -> Option<FailureTime> {
        let Some(every) = raw.every else {
            return Some(FailureTime::Scheduled {
                from_ns: ns(at),
                until_ns: length.map(|length| ns(at) + ns(length)),
            });
        };
        let path = [Key("failures"), Index(self.index), Key("every")];
        match length {
            Some(length) if length < every => Some(FailureTime::Regular {
                from_ns: ns(at),
                for_ns: ns(length),
                every_ns: ns(every),
            }),
            Some(length) => {
                let message = format!(
                    "`{}` lasts {length}, and begins again every {every}",
                    raw.name
                );
                let error = self.parsed.error_at(&path, "order", message);
                let error = error.with_allowed([format!("more than {length}")]);
                self.errors.push(error);
                None
            }
            None => {
                let message = "`every` goes with `at` and `for`";
                let error = self.parsed.error_at(&path, "no-effect", message);
                let why = "a failure without `for` has no end, and cannot begin again";
                self.errors.push(error.with_reason(why));
                None
            }
        }
    }

    /// Checks that a reboot is of nodes and has an end.
    fn reboots(&mut self, raw: &RawFailure) {
        let ends = raw.at.is_some() && raw.length.is_some() && raw.every.is_none();
        if raw.reboot && !(matches!(raw.what, RawTarget::Nodes(_)) && ends) {
            let path = [Key("failures"), Index(self.index), Key("reboot")];
            let message = "`reboot` goes with `nodes`, `at` and `for`, without `every`";
            let error = self.parsed.error_at(&path, "no-effect", message);
            self.errors
                .push(error.with_reason("nodes reboot at a time, and are up again at another"));
        }
    }

    fn what(&mut self, raw: &RawTarget) -> Option<FailureTarget> {
        let index = self.index;
        let path = |key| [Key("failures"), Index(index), Key(key)];
        let names = self.names;
        Some(match raw {
            RawTarget::Nodes(nodes) => {
                for (place, name) in nodes.iter().enumerate() {
                    self.node(&[Key("nodes"), Index(place)], name);
                }
                let names = nodes.iter().map(|node| node.name().clone());
                FailureTarget::Nodes(names.collect())
            }
            RawTarget::Link(link) => {
                self.node(&[Key("link"), Key("from")], &link.from);
                self.node(&[Key("link"), Key("to")], &link.to);
                let [from, to] = [&link.from, &link.to].map(|node| node.name().clone());
                FailureTarget::Link(from, to)
            }
            RawTarget::Satellites(name) => FailureTarget::Sky(Sky::Satellites {
                constellation: names.constellation(&path("satellites"), name, self.errors)?,
            }),
            RawTarget::Plane(plane) => {
                let (constellation, shell) = names.shell(&path("plane"), &plane.of, self.errors)?;
                FailureTarget::Sky(Sky::Plane {
                    constellation,
                    shell,
                    plane: plane.number,
                })
            }
            RawTarget::Lasers(name) => FailureTarget::Sky(Sky::Lasers {
                constellation: names.constellation(&path("lasers"), name, self.errors)?,
            }),
            RawTarget::Stations(_) => FailureTarget::Sky(Sky::Stations),
            RawTarget::Region(region) => FailureTarget::Sky(Sky::Region {
                latitude_deg: region.latitude.deg(),
                longitude_deg: region.longitude.deg(),
                radius_m: region.radius.m(),
                satellites: region.hits != RegionHits::Stations,
                stations: region.hits != RegionHits::Satellites,
            }),
            RawTarget::Polar(polar) => FailureTarget::Sky(Sky::Polar {
                constellation: names.constellation(&path("polar"), &polar.of, self.errors)?,
                beyond_deg: polar.beyond.deg(),
            }),
            RawTarget::Seam(name) => FailureTarget::Sky(Sky::Seam {
                constellation: names.constellation(&path("seam"), name, self.errors)?,
            }),
            RawTarget::Eclipse(eclipse) => FailureTarget::Sky(Sky::Eclipse {
                constellation: names.constellation(&path("eclipse"), &eclipse.of, self.errors)?,
                duty: eclipse.duty.get(),
                period_ns: ns(eclipse.period),
            }),
            RawTarget::Partition(own) => return self.disruption().partition(own),
            RawTarget::Jamming(own) => return self.disruption().jamming(own),
            RawTarget::Disturbance(own) => return self.disruption().disturbance(own),
        })
    }

    /// Returns the reader of failures of networks.
    fn disruption(&mut self) -> disruptions::Reader<'_> {
        disruptions::Reader {
            parsed: self.parsed,
            nodes: self.nodes,
            deferred: self.deferred,
            errors: self.errors,
            index: self.index,
        }
    }

    fn node(&mut self, tail: &[Seg<'_>], name: &Name) {
        let mut path = vec![Key("failures"), Index(self.index)];
        path.extend_from_slice(tail);
        self.nodes
            .must_be(self.parsed, &path, name, self.deferred, self.errors);
    }
}
