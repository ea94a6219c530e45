//! Capabilities of the link drivers: the parts of the edge model that each supports. Requiring more is an error; a
//! driver never approximates silently.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::discipline::Discipline;
use crate::effects::{EffectField, Effects};
use crate::loss::LossLaw;
use crate::types::{Impairment, Loss, PortId};

/// Largest queue limit of `edt` and `netem`: with more, the kernel's arithmetic could overflow.
const QUEUE_BYTES_MAX: u64 = 2_000_000_000;
/// Steepest slope of `edt` and `netem`, ns/s: the delay changes by one second per second.
const SLOPE_MAX: i64 = 1_000_000_000;

/// A link driver.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum DriverKind {
    /// One thread that runs the edge model on frames in shared memory: the reference.
    Relay,
    /// Departure times computed in the kernel and kept by fq.
    Edt,
    /// netem below htb, one for each edge.
    Netem,
}

impl DriverKind {
    /// All drivers, in the order in which `auto` tries them.
    pub const ALL: [DriverKind; 3] = [DriverKind::Relay, DriverKind::Edt, DriverKind::Netem];

    /// The driver's name in scenarios and results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            DriverKind::Relay => "relay",
            DriverKind::Edt => "edt",
            DriverKind::Netem => "netem",
        }
    }

    /// The driver's capabilities.
    #[must_use]
    pub const fn capabilities(self) -> Capabilities {
        let all = matches!(self, DriverKind::Relay);
        let edt = matches!(self, DriverKind::Edt);
        Capabilities {
            driver: self,
            delay_glides: all || edt,
            atomic_updates: all || edt,
            keeps_order: all || edt,
            seeded: all || edt,
            queue_in_bytes: all || edt,
            measures_lateness: all || edt,
            mtu_max_bytes: match self {
                DriverKind::Relay => 1998,
                DriverKind::Edt => 3392,
                DriverKind::Netem => 1500,
            },
        }
    }

    /// Returns the fields of [`Effects`] that the driver has; `None`: all, with all their laws. A driver that has only some
    /// has Bernoulli's loss only, and only disciplines that mark above a threshold.
    #[must_use]
    pub fn effects(self) -> Option<Vec<&'static str>> {
        let has = |field: &&EffectField| field.drivers.contains(&self);
        let own = Effects::FIELDS.iter().filter(has);
        let own: Vec<_> = own.map(|field| field.name).collect();
        (own.len() < Effects::FIELDS.len()).then_some(own)
    }
}

impl std::fmt::Display for DriverKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Capabilities of a driver. All drivers have delay, rate, a drop-tail queue, Bernoulli loss, failing links, and frames
/// of every EtherType.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// The driver.
    pub driver: DriverKind,
    /// Whether the delay follows its slope between two updates; otherwise it stays constant until the next update.
    pub delay_glides: bool,
    /// Whether an update is applied at one instant, completely or not at all; otherwise edge by edge.
    pub atomic_updates: bool,
    /// Whether frames of an edge never overtake each other; otherwise neighbours may do so that were sent or released
    /// on different CPUs.
    pub keeps_order: bool,
    /// Whether the same seed loses the same frames.
    pub seeded: bool,
    /// Whether the queue's limit counts bytes; otherwise it counts frames of 1,514 bytes.
    pub queue_in_bytes: bool,
    /// Whether the driver measures how much later than due each frame left.
    pub measures_lateness: bool,
    /// Largest MTU of a port, bytes above Ethernet: the size of a relay slot, the largest frame of the trunk of `edt`,
    /// and for `netem`, whose queues count frames, the frame size by which they are computed.
    pub mtu_max_bytes: u32,
}

/// A requested feature that a driver does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The field of [`Effects`] that requires it.
    pub field: &'static str,
    /// The key of a link in the scenario that sets it.
    pub key: &'static str,
    /// The missing feature, and which drivers have it.
    pub why: String,
}

impl Capabilities {
    /// Returns the effects that the driver does not support; empty if it supports all.
    #[must_use]
    pub fn refusals(&self, effects: &Effects) -> Vec<Refusal> {
        let driver = self.driver;
        if driver.effects().is_none() {
            return Vec::new();
        }
        let all_laws = |kind: DriverKind| kind.effects().is_none();
        let mut refusals = Vec::new();
        for field in effects.set_fields() {
            let mut refuse = |why| {
                refusals.push(Refusal {
                    field: field.name,
                    key: field.key,
                    why,
                });
            };
            if !field.drivers.contains(&driver) {
                let what = format!("effect `{}`", field.name);
                refuse(self.lacks(&what, |kind| field.drivers.contains(&kind)));
                continue;
            }
            match field.name {
                "loss" if !is_plain(effects.loss.as_ref()) => {
                    refuse(self.lacks("loss law beyond Bernoulli's", all_laws));
                }
                "discipline" if !marks_at_most(effects.discipline.as_ref()) => {
                    let what = "queue discipline beyond marking by `ce_threshold`";
                    refuse(self.lacks(what, all_laws));
                }
                "queue_bytes" => {
                    let bytes = effects.queue_bytes.unwrap_or(0);
                    self.holds(bytes).unwrap_or_else(refuse);
                }
                _ => (),
            }
        }
        refusals
    }

    /// Returns why ports cannot have this MTU; `None` if they can.
    #[must_use]
    pub fn mtu_refusal(&self, mtu_bytes: u32) -> Option<String> {
        (mtu_bytes > self.mtu_max_bytes).then(|| {
            let (driver, most) = (self.driver, self.mtu_max_bytes);
            format!("driver {driver} carries an MTU of {most} bytes at most, not {mtu_bytes}")
        })
    }

    /// Returns why the lateness of frames cannot be checked against a bound; `None` if it can.
    #[must_use]
    pub fn lateness_refusal(&self) -> Option<String> {
        (!self.measures_lateness).then(|| {
            self.lacks("measure of lateness", |kind| {
                kind.capabilities().measures_lateness
            })
        })
    }

    /// Checks that a queue may hold `queue_bytes`. The error is the reason why not.
    fn holds(&self, queue_bytes: u64) -> Result<(), String> {
        if matches!(self.driver, DriverKind::Relay) || queue_bytes <= QUEUE_BYTES_MAX {
            return Ok(());
        }
        Err(format!(
            "driver {}: a queue holds {QUEUE_BYTES_MAX} bytes at most",
            self.driver
        ))
    }

    /// Returns why the driver cannot emulate this edge of the plan; `None` if it can.
    #[must_use]
    pub fn edge_refusal(&self, from: PortId, to: PortId, edge: &Impairment) -> Option<String> {
        if matches!(self.driver, DriverKind::Relay) {
            return None;
        }
        // Every driver has these loss laws. The exhaustive pattern forces a decision for a new law.
        let (Loss::None | Loss::Bernoulli { .. }) = edge.loss;
        let why = if let Err(why) = self.holds(edge.queue.bytes) {
            why
        } else if edge.delay.slope_ns_per_s.abs() > SLOPE_MAX {
            format!(
                "driver {}: a delay may change by 1 s each second at most",
                self.driver
            )
        } else {
            return None;
        };
        Some(format!("edge {from} -> {to}: {why}"))
    }

    fn lacks(&self, what: &str, has: impl Fn(DriverKind) -> bool) -> String {
        // The message names the drivers that can do it, so that the user knows the next step.
        let others: Vec<&str> = DriverKind::ALL
            .into_iter()
            .filter(|kind| has(*kind))
            .map(DriverKind::name)
            .collect();
        format!(
            "driver {} has no {what}; drivers that have: {}",
            self.driver,
            others.join(", ")
        )
    }
}

/// Returns whether every driver has this law of loss.
fn is_plain(law: Option<&LossLaw>) -> bool {
    matches!(law, None | Some(LossLaw::None | LossLaw::Bernoulli { .. }))
}

/// Returns whether every driver with disciplines has this one.
fn marks_at_most(discipline: Option<&Discipline>) -> bool {
    matches!(
        discipline,
        None | Some(Discipline::DropTail | Discipline::CeThreshold { .. })
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_driver_has_is_refused_with_those_that_have_it() {
        let effects = Effects {
            corrupt_ratio: Some(0.1),
            overhead_bytes: Some(24),
            delay_ns: Some(1),
            ..Effects::default()
        };
        assert!(
            DriverKind::Relay
                .capabilities()
                .refusals(&effects)
                .is_empty()
        );
        let why = |kind: DriverKind| -> Vec<String> {
            let refusals = kind.capabilities().refusals(&effects);
            refusals.into_iter().map(|refusal| refusal.why).collect()
        };
        assert_eq!(
            why(DriverKind::Edt),
            ["driver edt has no effect `corrupt_ratio`; drivers that have: relay"]
        );
        assert_eq!(
            why(DriverKind::Netem),
            [
                "driver netem has no effect `overhead_bytes`; drivers that have: relay, edt",
                "driver netem has no effect `corrupt_ratio`; drivers that have: relay"
            ]
        );
    }

    #[test]
    fn every_law_of_loss_but_bernoullis_is_more() {
        let capabilities = DriverKind::Edt.capabilities();
        let with = |loss| Effects {
            loss: Some(loss),
            ..Effects::default()
        };
        assert!(capabilities.refusals(&with(LossLaw::None)).is_empty());
        let bernoulli = LossLaw::Bernoulli { loss_ratio: 0.1 };
        assert!(capabilities.refusals(&with(bernoulli)).is_empty());
        let trace = LossLaw::Trace { lost: vec![true] };
        assert_eq!(capabilities.refusals(&with(trace)).len(), 1);
    }

    #[test]
    fn of_the_disciplines_edt_has_the_one_that_marks_by_a_threshold() {
        let refused = |kind: DriverKind, discipline| -> Vec<String> {
            let effects = Effects {
                discipline: Some(discipline),
                ..Effects::default()
            };
            let refusals = kind.capabilities().refusals(&effects);
            refusals.into_iter().map(|refusal| refusal.why).collect()
        };
        let step = Discipline::CeThreshold { above_ns: 1 };
        assert!(refused(DriverKind::Relay, step).is_empty());
        assert!(refused(DriverKind::Edt, step).is_empty());
        assert_eq!(
            refused(DriverKind::Netem, step),
            ["driver netem has no effect `discipline`; drivers that have: relay, edt"]
        );
        let codel = Discipline::Codel(crate::CodelParams::default());
        assert_eq!(
            refused(DriverKind::Edt, codel),
            [
                "driver edt has no queue discipline beyond marking by `ce_threshold`; drivers that have: relay"
            ]
        );
    }

    #[test]
    fn edges_of_the_plan_as_well() {
        let edge = Impairment {
            queue: crate::QueueLimit { bytes: u64::MAX },
            ..Impairment::delay_only(1)
        };
        let refusal = |kind: DriverKind| {
            kind.capabilities()
                .edge_refusal(PortId(1), PortId(2), &edge)
        };
        assert_eq!(refusal(DriverKind::Relay), None);
        assert!(
            refusal(DriverKind::Edt)
                .unwrap()
                .contains("2000000000 bytes at most")
        );
    }
}
