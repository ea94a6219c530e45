//! Terminals of stations: whose satellites they use, and how they choose among them.

use std::collections::BTreeSet;

use constel_topology::{GslPolicy, GslSpec};
use constel_units::Utc;

use super::constellations::Found;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::model::{HandoverKind, Name, Terminal};
use crate::parse::Parsed;
use crate::raw::{RawGsl, RawHandover, RawPolicy, RawTerminal};
use crate::walk::Seg::{self, Index, Key};

impl RawPolicy {
    /// Returns the policy of a lab that starts then: its slots are counted from there, and are longer than zero.
    #[must_use]
    pub fn from_start(self, start: Utc) -> GslPolicy {
        match self {
            Self::Plain(plain) => GslPolicy::Plain(plain),
            Self::Hysteresis(gain) => GslPolicy::Hysteresis {
                gain_deg: gain.deg(),
            },
            Self::Scheduler { slot } => {
                // Slots begin at second 12 of the minute; the phase is relative to the start of the lab.
                let anchor = i128::from(12_000_000_000_i64) - i128::from(start.unix_ns());
                let phase = anchor.rem_euclid(i128::from(slot.ns()));
                GslPolicy::Scheduler {
                    period_ns: slot.ns().unsigned_abs(),
                    phase_ns: u64::try_from(phase).unwrap_or(0),
                }
            }
        }
    }
}

/// Returns the rule of antennas. Slots of schedulers are counted from `start`, lab time zero.
pub(super) fn rule(policy: RawPolicy, handover: &RawHandover, start: Utc) -> GslSpec {
    GslSpec {
        policy: policy.from_start(start),
        outage_ns: handover.outage.ns().unsigned_abs(),
        make_before_break: handover.kind == HandoverKind::MakeBeforeBreak,
    }
}

/// The settings that a rule leaves to the constellations.
#[derive(Clone, Copy)]
struct Left {
    policy: bool,
    handover: bool,
}

impl Left {
    const ALL: Left = Left {
        policy: true,
        handover: true,
    };

    /// The key of `gsl` by which two constellations give one terminal different rules, or different interfaces.
    fn differing(self, a: &RawGsl, b: &RawGsl) -> Option<&'static str> {
        if self.policy && a.policy != b.policy {
            Some("policy")
        } else if self.handover && a.handover != b.handover {
            Some("handover")
        } else if a.link.mtu != b.link.mtu {
            Some("link.mtu")
        } else {
            None
        }
    }
}

/// Resolves the terminals of stations.
pub(super) struct Terminals<'a> {
    parsed: &'a Parsed,
    found: &'a [Found],
    /// Whether the error that constellations differ, although some station has no `terminals`, has been
    /// reported.
    compared: bool,
}

impl<'a> Terminals<'a> {
    pub(super) fn new(parsed: &'a Parsed, found: &'a [Found]) -> Self {
        Self {
            parsed,
            found,
            compared: false,
        }
    }

    /// Returns the only terminal, for all constellations, of stations that name none; `who` describes the
    /// stations.
    pub(super) fn plain(
        &mut self,
        who: &str,
        antennas: u8,
        errors: &mut Diagnostics,
    ) -> Vec<Terminal> {
        if !std::mem::replace(&mut self.compared, true) {
            self.agree(who, errors);
        }
        let rule = self.found.iter().find_map(|f| f.resolved.gsl.as_ref());
        vec![Terminal {
            constellations: None,
            antennas,
            min_elevation: None,
            rule: rule.map(|gsl| gsl.rule),
        }]
    }

    /// An antenna for all constellations can have only one habit.
    fn agree(&self, who: &str, errors: &mut Diagnostics) {
        let all = self.parsed.raw.constellations.iter();
        let mut all = all.filter_map(|(name, c)| Some((name, c.gsl.as_ref()?)));
        let Some((first_name, first)) = all.next() else {
            return;
        };
        for (name, other) in all {
            let Some(key) = Left::ALL.differing(first, other) else {
                continue;
            };
            let mut path = vec![Key("constellations"), Key(name.as_str()), Key("gsl")];
            path.extend(key.split('.').map(Key));
            let message = format!("`gsl.{key}` of `{name}` and `{first_name}` differ");
            let error = self
                .parsed
                .error_at(&path, "disagreement", message)
                .with_reason(
                    "antennas of a station without `terminals` are for all constellations, so one rule for them",
                )
                .with_suggestion(format!(
                    "give {who} a terminal for each: `terminals: [{{constellations: [{first_name}]}}, \
                     {{constellations: [{name}]}}]`"
                ));
            errors.push(error);
        }
    }

    /// The terminals listed at `path`; `None` when something was wrong with one.
    pub(super) fn listed(
        &self,
        path: &[Seg<'_>],
        raw: &[RawTerminal],
        gateway: bool,
        errors: &mut Diagnostics,
    ) -> Option<Vec<Terminal>> {
        let mut terminals = Vec::new();
        for (index, terminal) in raw.iter().enumerate() {
            let mut at = path.to_vec();
            at.push(Index(index));
            let one = One {
                parsed: self.parsed,
                path: at,
                raw: terminal,
            };
            terminals.extend(one.resolve(self.found, gateway, errors));
        }
        (terminals.len() == raw.len()).then_some(terminals)
    }
}

/// One terminal as it is written.
struct One<'a> {
    parsed: &'a Parsed,
    path: Vec<Seg<'a>>,
    raw: &'a RawTerminal,
}

impl One<'_> {
    fn error(&self, tail: &[Seg<'_>], code: &'static str, message: String) -> Diagnostic {
        let mut path = self.path.clone();
        path.extend_from_slice(tail);
        self.parsed.error_at(&path, code, message)
    }

    fn resolve(
        &self,
        found: &[Found],
        gateway: bool,
        errors: &mut Diagnostics,
    ) -> Option<Terminal> {
        let raw = self.raw;
        let before = errors.len();
        if gateway && raw.antennas.is_some() {
            let message = "a gateway's terminal has an antenna for each shell".to_owned();
            errors.push(
                self.error(&[Key("antennas")], "no-effect", message)
                    .with_reason("what would be ignored is an error, so that no result misleads")
                    .with_suggestion("remove `antennas`, or `gateway`"),
            );
        }
        let places = self.constellations(errors);
        let left = Left {
            policy: raw.policy.is_none(),
            handover: raw.handover.is_none(),
        };
        self.agree(left, errors);
        if errors.len() > before {
            return None;
        }
        // Constellations with errors of their own are missing; then there is no scenario anyway.
        let those = raw.constellations.iter();
        let mut those = those.filter_map(|name| found.iter().find(|f| f.resolved.name == *name));
        let first = those.next()?.resolved.gsl.as_ref()?.rule;
        let own = rule(
            raw.policy.unwrap_or_default(),
            &raw.handover.clone().unwrap_or_default(),
            self.parsed.raw.start,
        );
        Some(Terminal {
            constellations: Some(places),
            antennas: raw.antennas.unwrap_or(1),
            min_elevation: raw.min_elevation,
            rule: Some(GslSpec {
                policy: raw.policy.map_or(first.policy, |_| own.policy),
                ..raw.handover.as_ref().map_or(first, |_| own)
            }),
        })
    }

    /// The places of its constellations in the scenario: they exist, once each, and serve the ground.
    fn constellations(&self, errors: &mut Diagnostics) -> BTreeSet<usize> {
        let known = &self.parsed.raw.constellations;
        let mut places = BTreeSet::new();
        for (index, name) in self.raw.constellations.iter().enumerate() {
            let tail = [Key("constellations"), Index(index)];
            let Some(place) = known.keys().position(|other| other == name) else {
                let message = format!("no constellation is called `{name}`");
                let error = self.error(&tail, "unknown-constellation", message);
                let names = known.keys().map(Name::as_str);
                errors.push(
                    error
                        .with_nearest(name.as_str(), names.clone())
                        .with_allowed(names),
                );
                continue;
            };
            if !places.insert(place) {
                let message = format!("`{name}` is listed twice");
                errors.push(self.error(&tail, "duplicate-name", message));
            }
            if !known[name].serves_ground {
                let message = format!("no satellite of `{name}` serves the ground");
                let error = self.error(&tail, "no-effect", message);
                errors.push(error.with_suggestion("remove it here, or its `serves_ground: false`"));
            }
        }
        places
    }

    /// Checks that the constellations of a terminal agree in the settings that it leaves to them.
    fn agree(&self, left: Left, errors: &mut Diagnostics) {
        let known = &self.parsed.raw.constellations;
        let those = self.raw.constellations.iter().enumerate();
        let mut those =
            those.filter_map(|(index, name)| Some((index, name, known.get(name)?.gsl.as_ref()?)));
        let Some((_, first_name, first)) = those.next() else {
            return;
        };
        for (index, name, other) in those {
            let Some(key) = left.differing(first, other) else {
                continue;
            };
            let tail = [Key("constellations"), Index(index)];
            let message = format!("`gsl.{key}` of `{name}` and `{first_name}` differ");
            let own = match key {
                "link.mtu" => String::new(),
                "handover" => ", or set `handover` here".to_owned(),
                _ => ", or set `policy` here".to_owned(),
            };
            errors.push(
                self.error(&tail, "disagreement", message)
                    .with_reason(
                        "antennas of one terminal have one rule, and their interface one MTU",
                    )
                    .with_suggestion(format!("give `{name}` a terminal of its own{own}")),
            );
        }
    }
}
