//! Effects: changes of an edge on top of the impairment that geometry and the plan give it at each step.
//!
//! Effects belong to a profile (all edges of a kind of link), to a port (all edges that leave it) or to one edge. An
//! edge's effects take precedence over its port's, and those over its profile's. They remain when a step changes,
//! removes and restores the edge, until they are replaced.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::access::EdgeAccess;
use crate::capabilities::DriverKind;
use crate::discipline::Discipline;
use crate::jitter::{Jitter, JitterLaw};
use crate::loss::LossLaw;
use crate::rate::RateLaw;
use crate::types::{Delay, Impairment, Loss, Nanos, PortId};

/// Holding back of some frames, so that others overtake them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reorder {
    /// Probability of holding a frame back, 0 to 1.
    pub ratio: f64,
    /// How long a frame is held back: it arrives behind the frames served up to this much later.
    pub extent_ns: u64,
}

/// A field of [`Effects`].
#[derive(Clone, Copy, Debug)]
pub struct EffectField {
    /// The field's name.
    pub name: &'static str,
    /// The key of a link in the scenario that sets it. For loss it is the key of laws that not every driver has.
    pub key: &'static str,
    /// The drivers that have it.
    pub drivers: &'static [DriverKind],
}

/// Makes [`Effects`] from one table: what a field does, its type, its key in the scenario, and the drivers that have it.
macro_rules! effects {
    ($($(#[$doc:meta])* $field:ident: $type:ty, $key:literal, [$($driver:ident),*];)*) => {
        /// Fields that replace or extend the impairment of an edge.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        pub struct Effects {
            $(
                $(#[$doc])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $field: Option<$type>,
            )*
        }

        impl Effects {
            /// All fields.
            pub const FIELDS: &'static [EffectField] = &[$(EffectField {
                name: stringify!($field),
                key: $key,
                drivers: &[$(DriverKind::$driver),*],
            }),*];

            /// Returns the fields that have a value.
            pub fn set_fields(&self) -> impl Iterator<Item = &'static EffectField> + use<> {
                let set = [$(self.$field.is_some()),*];
                let fields = Self::FIELDS.iter().zip(set);
                fields.filter_map(|(field, is_set)| is_set.then_some(field))
            }

            /// Returns the fields of `other`, and these where it has none.
            fn replaced(&self, other: &Effects) -> Effects {
                Effects {
                    $($field: other.$field.clone().or_else(|| self.$field.clone()),)*
                }
            }

            fn check_fields(&self, errors: &mut Vec<String>) {
                $(if let Some(value) = &self.$field {
                    Check::check(value, $key, errors);
                })*
            }
        }
    };
}

effects! {
    /// The link is broken: arriving frames are dropped with cause `outage`, frames that wait for service are dropped
    /// with cause `removed`, frames in flight still arrive.
    down: bool, "down", [Relay, Edt, Netem];
    /// Replaces the geometry's delay.
    delay_ns: u64, "delay", [Relay, Edt, Netem];
    /// Added to the geometry's delay, or to `delay_ns`.
    extra_delay_ns: u64, "extra_delay", [Relay, Edt, Netem];
    /// Replaces the plan's rate, bit/s, at least 1.
    rate_bps: u64, "rate", [Relay, Edt, Netem];
    /// A rate that changes over time. It replaces the plan's rate and `rate_bps`.
    rate_law: RateLaw, "rate_law", [Relay];
    /// Replaces the plan's queue limit.
    queue_bytes: u64, "queue", [Relay, Edt, Netem];
    /// Limit of waiting frames, in addition to the limit in bytes.
    queue_frames: u64, "queue_frames", [Relay];
    /// Replaces drop-tail.
    discipline: Discipline, "aqm", [Relay, Edt];
    /// Framing bytes that each frame additionally takes on the link, for service only.
    overhead_bytes: u32, "overhead", [Relay, Edt];
    /// Replaces the plan's loss.
    loss: LossLaw, "loss_law", [Relay, Edt, Netem];
    /// Added to the delay. Frames stay in order: a frame that would overtake arrives together with the one before it.
    jitter: Jitter, "jitter", [Relay];
    /// Access of terminals: waits for turns and grants, gaps, losses, and a share of the rate. It comes before the delay, and
    /// in addition to loss and jitter.
    access: EdgeAccess, "access", [Relay];
    /// Reordering of frames.
    reorder: Reorder, "reorder", [Relay];
    /// Probability that a frame arrives twice, one right after the other.
    duplicate_ratio: f64, "duplicate", [Relay];
    /// Probability that one bit behind the Ethernet header is flipped.
    corrupt_ratio: f64, "corrupt", [Relay];
}

/// Bounds of a field's value.
trait Check {
    /// Adds every error of the value of this key.
    fn check(&self, _key: &str, _errors: &mut Vec<String>) {}
}

impl Check for bool {}
impl Check for u32 {}
impl Check for u64 {}

/// All such fields are probabilities.
impl Check for f64 {
    fn check(&self, key: &str, errors: &mut Vec<String>) {
        if !(0.0..=1.0).contains(self) {
            errors.push(format!("{key} ratio {self} is not within 0..=1"));
        }
    }
}

impl Check for Reorder {
    fn check(&self, key: &str, errors: &mut Vec<String>) {
        self.ratio.check(key, errors);
    }
}

/// Laws that check themselves.
macro_rules! checks_itself {
    ($($law:ty),*) => {
        $(impl Check for $law {
            fn check(&self, _: &str, errors: &mut Vec<String>) {
                <$law>::check(self, errors);
            }
        })*
    };
}

checks_itself!(RateLaw, Discipline, LossLaw, Jitter, EdgeAccess);

/// All errors in some effects.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", .errors.join("; "))]
pub struct EffectsError {
    /// The errors, at least one.
    pub errors: Vec<String>,
}

impl Effects {
    /// Returns the effect that makes a link fail, or restores it.
    #[must_use]
    pub fn failed(failed: bool) -> Effects {
        Effects {
            down: Some(failed),
            ..Effects::default()
        }
    }

    /// Checks that all values are valid.
    ///
    /// # Errors
    /// Every value out of its bounds.
    pub fn check(&self) -> Result<(), EffectsError> {
        let mut errors = Vec::new();
        if self.rate_bps == Some(0) {
            errors
                .push("rate 0 bit/s: at least 1 (a link without service is one that fails)".into());
        }
        self.check_fields(&mut errors);
        if errors.is_empty() {
            Ok(())
        } else {
            Err(EffectsError { errors })
        }
    }

    /// Returns these effects, replaced where `other` sets a field.
    #[must_use]
    pub fn merged(&self, other: &Effects) -> Effects {
        // An absent value means unchanged, so settings by command add up.
        let mut merged = self.replaced(other);
        // The kind of rate that was set last is in force.
        if other.rate_bps.is_some() {
            merged.rate_law.clone_from(&other.rate_law);
        }
        merged
    }

    /// Returns the effects with all laws of time starting `by_ns` later. Laws are written in lab time; edges use the
    /// clock of the data plane.
    #[must_use]
    pub fn starting_later(mut self, by_ns: Nanos) -> Effects {
        self.rate_law = self.rate_law.map(|law| law.starting_later(by_ns));
        // Only a recording depends on the time: all other jitter laws are stationary.
        if let Some(Jitter {
            law: JitterLaw::Trace { origin_ns, .. },
            ..
        }) = &mut self.jitter
        {
            *origin_ns = origin_ns.saturating_add(by_ns);
        }
        if let Some(access) = &mut self.access {
            access.minute_ns = access.minute_ns.saturating_add(by_ns);
        }
        self
    }

    /// Returns these effects without those that `patch` set and that were not changed since; their fields are as in `before`.
    #[must_use]
    pub fn without(&self, patch: &Effects, before: &Effects) -> Effects {
        fn back<T: Clone + PartialEq>(
            now: &Option<T>,
            set: &Option<T>,
            before: &Option<T>,
        ) -> Option<T> {
            match set.is_some() && now == set {
                true => before.clone(),
                false => now.clone(),
            }
        }
        // A rate and a law of the rate replace each other, so that they return together.
        let rate = (self.rate_bps, &self.rate_law) == (patch.rate_bps, &patch.rate_law)
            && (patch.rate_bps.is_some() || patch.rate_law.is_some());
        let (rate_bps, rate_law) = match rate {
            true => (before.rate_bps, before.rate_law.clone()),
            false => (
                back(&self.rate_bps, &patch.rate_bps, &before.rate_bps),
                back(&self.rate_law, &patch.rate_law, &before.rate_law),
            ),
        };
        Effects {
            down: back(&self.down, &patch.down, &before.down),
            delay_ns: back(&self.delay_ns, &patch.delay_ns, &before.delay_ns),
            extra_delay_ns: back(
                &self.extra_delay_ns,
                &patch.extra_delay_ns,
                &before.extra_delay_ns,
            ),
            rate_bps,
            rate_law,
            discipline: back(&self.discipline, &patch.discipline, &before.discipline),
            queue_bytes: back(&self.queue_bytes, &patch.queue_bytes, &before.queue_bytes),
            queue_frames: back(
                &self.queue_frames,
                &patch.queue_frames,
                &before.queue_frames,
            ),
            overhead_bytes: back(
                &self.overhead_bytes,
                &patch.overhead_bytes,
                &before.overhead_bytes,
            ),
            loss: back(&self.loss, &patch.loss, &before.loss),
            jitter: back(&self.jitter, &patch.jitter, &before.jitter),
            access: back(&self.access, &patch.access, &before.access),
            reorder: back(&self.reorder, &patch.reorder, &before.reorder),
            duplicate_ratio: back(
                &self.duplicate_ratio,
                &patch.duplicate_ratio,
                &before.duplicate_ratio,
            ),
            corrupt_ratio: back(
                &self.corrupt_ratio,
                &patch.corrupt_ratio,
                &before.corrupt_ratio,
            ),
        }
    }

    /// Returns whether no field is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Effects::default()
    }

    /// Returns the impairment with the fields that these effects replace.
    #[must_use]
    pub fn over(&self, base: &Impairment) -> Impairment {
        let mut effective = *base;
        if let Some(delay_ns) = self.delay_ns {
            // The slope is replaced too: the delay no longer follows the orbit.
            effective.delay = Delay::constant(delay_ns);
        }
        let extra_ns = self.extra_delay_ns.unwrap_or(0);
        // The slope stays: the additional delay is constant, and the orbit's part still changes.
        effective.delay.delay_ns = effective.delay.delay_ns.saturating_add(extra_ns);
        if let Some(rate) = self.rate_bps {
            effective.rate_bps = std::num::NonZeroU64::new(rate);
        }
        if let Some(law) = &self.rate_law {
            // Disciplines and the plan need one rate; service itself uses the law.
            effective.rate_bps = std::num::NonZeroU64::new(law.mean_bps());
        }
        if let Some(bytes) = self.queue_bytes {
            effective.queue.bytes = bytes;
        }
        match self.loss {
            Some(LossLaw::Bernoulli { loss_ratio }) => {
                effective.loss = Loss::Bernoulli { loss_ratio };
            }
            // The other laws are stateful and evaluated by `laws`, so the plan's loss must not be applied in addition.
            Some(_) => effective.loss = Loss::None,
            None => {}
        }
        effective
    }
}

/// One change of effects; `None` removes them.
#[derive(Clone, Debug, PartialEq)]
pub enum EffectsChange {
    /// Effects of all edges whose impairment has this profile.
    Profile {
        /// The profile's number, at least 1.
        number: u16,
        /// Their effects.
        effects: Option<Effects>,
    },
    /// Effects of all edges that leave this port.
    Port {
        /// The port.
        port: PortId,
        /// Their effects.
        effects: Option<Effects>,
    },
    /// Effects of one edge, whether it exists at the moment or not; on top of the port's effects.
    Edge {
        /// Edge start.
        from: PortId,
        /// Edge end.
        to: PortId,
        /// The edge's effects.
        effects: Option<Effects>,
    },
}

impl EffectsChange {
    /// Returns the change that gives an edge these effects. `down: false` is stored as no value, so that a repaired link
    /// equals one that never failed.
    #[must_use]
    pub fn of_edge((from, to): (PortId, PortId), mut effects: Effects) -> Self {
        // `down: false` has no effect on an edge, and without it the whole entry may disappear.
        effects.down = effects.down.filter(|down| *down);
        let effects = (!effects.is_empty()).then_some(effects);
        Self::Edge { from, to, effects }
    }

    /// Returns the ports that the change names.
    pub(crate) fn ports(&self) -> Vec<PortId> {
        match *self {
            EffectsChange::Profile { .. } => Vec::new(),
            EffectsChange::Port { port, .. } => vec![port],
            EffectsChange::Edge { from, to, .. } => vec![from, to],
        }
    }

    /// Returns the new effects; `None` removes the present ones.
    #[must_use]
    pub fn effects(&self) -> Option<&Effects> {
        match self {
            EffectsChange::Profile { effects, .. }
            | EffectsChange::Port { effects, .. }
            | EffectsChange::Edge { effects, .. } => effects.as_ref(),
        }
    }
}

/// Changes of effects that are valid for a table of `ports` ports.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedEffects {
    pub(crate) changes: Vec<EffectsChange>,
    pub(crate) ports: u32,
}

impl CheckedEffects {
    /// Checks all values and ports.
    ///
    /// # Errors
    /// All errors together.
    pub fn new(changes: Vec<EffectsChange>, ports: u32) -> Result<CheckedEffects, EffectsError> {
        let mut errors = Vec::new();
        for change in &changes {
            if let EffectsChange::Profile { number: 0, .. } = change {
                errors.push("profile 0 is the one without effects".into());
            }
            // The table indexes ports without a test when it applies the changes.
            for port in change.ports().into_iter().filter(|p| p.0 >= ports) {
                errors.push(format!(
                    "{port} does not exist (the table has {ports} ports)"
                ));
            }
            if let Some(Err(e)) = change.effects().map(Effects::check) {
                errors.extend(e.errors);
            }
        }
        if errors.is_empty() {
            Ok(CheckedEffects { changes, ports })
        } else {
            Err(EffectsError { errors })
        }
    }

    /// Returns the changes, in their order.
    #[must_use]
    pub fn changes(&self) -> &[EffectsChange] {
        &self.changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_errors_together() {
        let bad = Effects {
            rate_bps: Some(0),
            duplicate_ratio: Some(1.5),
            corrupt_ratio: Some(f64::NAN),
            loss: Some(LossLaw::Trace { lost: vec![] }),
            ..Effects::default()
        };
        assert_eq!(bad.check().unwrap_err().errors.len(), 4);
        let change = EffectsChange::Edge {
            from: PortId(0),
            to: PortId(9),
            effects: Some(bad),
        };
        assert_eq!(
            CheckedEffects::new(vec![change], 2)
                .unwrap_err()
                .errors
                .len(),
            5
        );
    }

    #[test]
    fn merging_keeps_what_is_not_named() {
        let old = Effects {
            delay_ns: Some(1),
            corrupt_ratio: Some(0.5),
            ..Effects::default()
        };
        let new = Effects {
            delay_ns: Some(2),
            down: Some(true),
            ..Effects::default()
        };
        let merged = old.merged(&new);
        assert_eq!(merged.delay_ns, Some(2));
        assert_eq!(merged.corrupt_ratio, Some(0.5));
        assert_eq!(merged.down, Some(true));
        assert!(!merged.is_empty() && Effects::default().is_empty());
        let text = serde_json::to_string(&merged).unwrap();
        assert_eq!(serde_json::from_str::<Effects>(&text).unwrap(), merged);
        assert!(serde_json::from_str::<Effects>("{\"dealy_ns\": 1}").is_err());
    }
}
