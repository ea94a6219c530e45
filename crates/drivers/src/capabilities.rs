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
            seeded: all || edt,
            queue_in_bytes: all || edt,
            acquisition: all || edt,
            overhead: all || edt,
            any_loss_law: all,
            queue_in_frames: all,
            jitter: all,
            reorder: all,
            duplicate: all,
            corrupt: all,
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
    /// The same seed loses the same frames.
    pub seeded: bool,
    /// The queue's limit counts bytes; else whole frames of 1,514 bytes.
    pub queue_in_bytes: bool,
    /// Edges that come up later than they exist (`up_from_ns`).
    pub acquisition: bool,
    /// Framing bytes on the link.
    pub overhead: bool,
    /// Loss laws beyond Bernoulli.
    pub any_loss_law: bool,
    /// A queue limit in frames beside the one in bytes.
    pub queue_in_frames: bool,
    /// Jitter.
    pub jitter: bool,
    /// Reordering.
    pub reorder: bool,
    /// Duplication.
    pub duplicate: bool,
    /// Bit errors.
    pub corrupt: bool,
}

impl Capabilities {
    /// What of these effects the driver does not have, in words; empty when it has all.
    #[must_use]
    pub fn refusals(&self, effects: &Effects) -> Vec<String> {
        // Every field is looked at: a new one must be decided on here.
        let plain_loss = matches!(
            effects.loss,
            None | Some(LossLaw::None | LossLaw::Bernoulli { .. })
        );
        let asked: [(bool, bool, &str, fn(&Capabilities) -> bool); 7] = [
            (
                plain_loss,
                self.any_loss_law,
                "a loss law beyond Bernoulli",
                |c| c.any_loss_law,
            ),
            (
                effects.queue_frames.is_none(),
                self.queue_in_frames,
                "a queue limit in frames",
                |c| c.queue_in_frames,
            ),
            (
                effects.overhead_bytes.is_none(),
                self.overhead,
                "link-layer overhead",
                |c| c.overhead,
            ),
            (effects.jitter.is_none(), self.jitter, "jitter", |c| {
                c.jitter
            }),
            (effects.reorder.is_none(), self.reorder, "reordering", |c| {
                c.reorder
            }),
            (
                effects.duplicate_ratio.is_none(),
                self.duplicate,
                "duplication",
                |c| c.duplicate,
            ),
            (
                effects.corrupt_ratio.is_none(),
                self.corrupt,
                "bit errors",
                |c| c.corrupt,
            ),
        ];
        let mut refusals: Vec<String> = asked
            .into_iter()
            .filter(|(absent, has, ..)| !absent && !has)
            .map(|(_, _, what, has)| self.lacks(what, has))
            .collect();
        if !matches!(self.driver, DriverKind::Relay)
            && effects.queue_bytes.is_some_and(|b| b > QUEUE_BYTES_MAX)
        {
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
        let why = if edge.up_from_ns > 0 && !self.acquisition {
            self.lacks("links that are up only after a time of acquisition", |c| {
                c.acquisition
            })
        } else if edge.queue.bytes > QUEUE_BYTES_MAX {
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

    fn lacks(&self, what: &str, has: fn(&Capabilities) -> bool) -> String {
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
            ["driver edt has no bit errors; drivers that have: relay"]
        );
        assert_eq!(
            DriverKind::Netem.capabilities().refusals(&effects),
            [
                "driver netem has no link-layer overhead; drivers that have: relay, edt",
                "driver netem has no bit errors; drivers that have: relay"
            ]
        );
    }

    #[test]
    fn edges_of_the_plan_as_well() {
        let edge = Impairment {
            up_from_ns: 5,
            ..Impairment::delay_only(1)
        };
        let refusal = |kind: DriverKind| {
            kind.capabilities()
                .edge_refusal(PortId(1), PortId(2), &edge)
        };
        assert_eq!(refusal(DriverKind::Relay), None);
        assert_eq!(refusal(DriverKind::Edt), None);
        assert!(refusal(DriverKind::Netem).unwrap().contains("acquisition"));
    }
}
