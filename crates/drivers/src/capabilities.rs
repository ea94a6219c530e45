//! What each driver can do. Asking for more is an error, never an approximation in silence.

use constel_link::{Effects, Impairment, Loss, LossLaw, PortId};
use serde::{Deserialize, Serialize};

use crate::edt::{QUEUE_BYTES_MAX, SLOPE_MAX};

/// A link driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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

    /// Its name in scenarios and results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            DriverKind::Relay => "relay",
            DriverKind::Edt => "edt",
            DriverKind::Netem => "netem",
        }
    }

    /// What it can do.
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
            effects: match self {
                DriverKind::Relay => None,
                DriverKind::Edt => Some(&[
                    "down",
                    "delay_ns",
                    "rate_bps",
                    "queue_bytes",
                    "overhead_bytes",
                    "loss",
                ]),
                DriverKind::Netem => Some(&["down", "delay_ns", "rate_bps", "queue_bytes", "loss"]),
            },
        }
    }
}

impl std::fmt::Display for DriverKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What a driver declares. All of them have delay, rate, a drop-tail queue, Bernoulli loss, links that fail, and
/// frames of every EtherType.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// Whose.
    pub driver: DriverKind,
    /// The delay follows its slope between two updates; else it stays as it was at the update.
    pub delay_glides: bool,
    /// An update is all or nothing, in one instant; else edge by edge.
    pub atomic_updates: bool,
    /// No frame overtakes another of its edge; else that may happen to neighbours that were sent or released on
    /// different CPUs.
    pub keeps_order: bool,
    /// The same seed loses the same frames.
    pub seeded: bool,
    /// The queue's limit counts bytes; else whole frames of 1,514 bytes.
    pub queue_in_bytes: bool,
    /// Fields of [`Effects`] it has, loss as Bernoulli's law only; `None`: all of them.
    pub effects: Option<&'static [&'static str]>,
}

impl Capabilities {
    /// What of these effects the driver does not have, in words; empty when it has all.
    #[must_use]
    pub fn refusals(&self, effects: &Effects) -> Vec<String> {
        let Some(known) = self.effects else {
            return Vec::new();
        };
        // By name: a field that is added to the effects is refused until it is added above.
        let asked = serde_json::to_value(effects).unwrap_or_default();
        let asked = asked.as_object().into_iter().flatten();
        let mut refusals: Vec<String> = asked
            .filter(|(field, _)| !known.contains(&field.as_str()))
            .map(|(field, _)| {
                let has = |c: &Capabilities| c.effects.is_none_or(|e| e.contains(&field.as_str()));
                self.lacks(&format!("effect `{field}`"), has)
            })
            .collect();
        let plain = [None, Some(&LossLaw::None)].contains(&effects.loss.as_ref())
            || matches!(effects.loss, Some(LossLaw::Bernoulli { .. }));
        if !plain {
            refusals.push(self.lacks("loss law beyond Bernoulli's", |c| c.effects.is_none()));
        }
        if effects.queue_bytes.is_some_and(|b| b > QUEUE_BYTES_MAX) {
            refusals.push(self.queue_too_long());
        }
        refusals
    }

    /// What of an edge of the plan the driver does not have.
    #[must_use]
    pub fn edge_refusal(&self, from: PortId, to: PortId, edge: &Impairment) -> Option<String> {
        if matches!(self.driver, DriverKind::Relay) {
            return None;
        }
        // What every driver has; a new law must be decided on here.
        let (Loss::None | Loss::Bernoulli { .. }) = edge.loss;
        let why = if edge.queue.bytes > QUEUE_BYTES_MAX {
            self.queue_too_long()
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

    fn queue_too_long(&self) -> String {
        format!(
            "driver {}: a queue holds {QUEUE_BYTES_MAX} bytes at most",
            self.driver
        )
    }

    fn lacks(&self, what: &str, has: impl Fn(&Capabilities) -> bool) -> String {
        let others: Vec<&str> = DriverKind::ALL
            .into_iter()
            .filter(|kind| has(&kind.capabilities()))
            .map(DriverKind::name)
            .collect();
        format!(
            "driver {} has no {what}; drivers that have: {}",
            self.driver,
            others.join(", ")
        )
    }
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
        assert_eq!(
            DriverKind::Edt.capabilities().refusals(&effects),
            ["driver edt has no effect `corrupt_ratio`; drivers that have: relay"]
        );
        assert_eq!(
            DriverKind::Netem.capabilities().refusals(&effects),
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
    fn edges_of_the_plan_as_well() {
        let edge = Impairment {
            queue: constel_link::QueueLimit { bytes: u64::MAX },
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
