//! A rule's path, in the link plane's terms, and the sky that it may lead through.

use std::num::NonZeroU64;

use constel_link::rules::{Path, Via};
use constel_link::{Delay, Impairment, Loss, QueueLimit};
use constel_units::DataRate;

use super::RuleReader;
use crate::raw::{RawLink, RawPath, RawPlace, RawVia, SkyName};
use crate::resolve::link::{check_jitter, path_effects};
use crate::resolve::radio;
use crate::schema::as_written;
use crate::walk::Seg::{self, Key};

impl RuleReader<'_, '_> {
    pub(super) fn path(&mut self, way: &str, raw: &RawPath) -> Path {
        let no_effect = |reader: &mut Self, key: &str, with: &str, why: &str| {
            if reader.document.is_written(&reader.at(&[way, key])) {
                let message = format!("`{key}` has no effect {with}");
                let error = reader
                    .document
                    .error_at_key(&reader.at(&[way, key]), "no-effect", message)
                    .with_reason(why)
                    .with_suggestion(format!("remove `{key}`"));
                reader.errors.push(error);
            }
        };
        if raw.preset.is_some() {
            no_effect(self, "delay", "with `preset`", "both set the delay");
            if raw.delay_trace.is_some() {
                let why = "the recording is the whole delay";
                no_effect(self, "preset", "with `delay_trace`", why);
            }
        }
        if raw.via.is_some() {
            for key in ["delay", "preset", "delay_trace"] {
                no_effect(
                    self,
                    key,
                    "with `via`",
                    "the satellites' positions set the delay",
                );
            }
        }
        if raw.rate_law.is_some() {
            no_effect(self, "rate", "with `rate_law`", "the law sets the rate");
        } else if raw.rate.is_none() {
            for key in ["queue", "queue_frames", "aqm", "overhead"] {
                no_effect(
                    self,
                    key,
                    "without `rate`",
                    "frames wait only where sending takes time",
                );
            }
        }
        let link = as_link(raw);
        let at = self.at(&[way]);
        let effects = path_effects(
            self.document,
            &at,
            (&link, raw.effects()),
            self.inputs,
            self.errors,
        );
        if raw.via.is_none() && raw.delay_trace.is_none() {
            let jitter = (effects.jitter.as_ref(), raw.delay_of());
            check_jitter(self.document, &at, jitter, self.errors);
        }
        let radio = raw.via.as_ref().is_some_and(|via| via.radio.is_some());
        if radio && raw.rate.is_none() {
            let message = "`radio` has an effect only with `rate`";
            let at = self.at(&[way, "via", "radio"]);
            let error = self.document.error_at_key(&at, "no-effect", message);
            self.errors.push(
                error
                    .with_reason("what the radio leaves room for bounds the path's own rate")
                    .with_suggestion("give `rate`: the most that the terminals carry"),
            );
        }
        let via = raw.via.as_ref().map(|via| self.via(way, via));
        let paced = raw.rate.is_some() || raw.rate_law.is_some();
        Path {
            impairment: Impairment {
                delay: Delay::constant(raw.delay_of().ns().unsigned_abs()),
                rate_bps: NonZeroU64::new(link.rate.bps()).filter(|_| paced),
                queue: QueueLimit {
                    bytes: if paced { link.queue.bytes() } else { 0 },
                },
                loss: match raw.loss.get() {
                    loss_ratio if loss_ratio > 0.0 => Loss::Bernoulli { loss_ratio },
                    _ => Loss::None,
                },
                ..Impairment::delay_only(0)
            },
            via,
            effects,
        }
    }

    fn via(&mut self, way: &str, raw: &RawVia) -> Via {
        let relays = matches!(raw.constellation, SkyName::Meo | SkyName::Geo);
        let slot = self.at(&[way, "via", "orbital_slot"]);
        match (raw.constellation, raw.orbital_slot) {
            (SkyName::Geo, None) => {
                let message = "`orbital_slot` is missing";
                let error = self.document.error_at(&slot, "missing-key", message);
                self.errors
                    .push(error.with_reason("it is the position of the satellite of `geo`"));
            }
            (SkyName::Geo, Some(_)) | (_, None) => {}
            (_, Some(_)) => {
                let message = "`orbital_slot` has an effect only with `constellation: geo`";
                let error = self.document.error_at_key(&slot, "no-effect", message);
                self.errors.push(error);
            }
        }
        if raw.from == raw.to {
            let message = "`from` and `to` are the same place";
            let at = self.at(&[way, "via", "to"]);
            self.errors
                .push(self.document.error_at(&at, "same-node", message));
        }
        let rain = self.rain(way, raw);
        let place = |of: &RawPlace| constel_link::rules::GroundPoint {
            latitude_deg: of.latitude.deg(),
            longitude_deg: of.longitude.deg(),
        };
        let lowest_deg = if relays { 5.0 } else { 25.0 };
        Via {
            sky: raw.constellation.as_str().to_owned(),
            orbital_slot_deg: raw.orbital_slot.map(|angle| angle.deg()),
            from: place(&raw.from),
            to: place(&raw.to),
            at_unix_ns: raw.at.map(|at| at.unix_ns()),
            min_elevation_deg: raw.min_elevation.map_or(lowest_deg, |angle| angle.deg()),
            outage_ns: raw.outage.ns().unsigned_abs(),
            // The radio as read, in its own format.
            radio: raw
                .radio
                .as_ref()
                .map(|radio| as_written(radio).to_string()),
            rain_mm_per_h: rain,
        }
    }

    /// Returns the rain at both ends, and reports errors of it and of the radio.
    fn rain(&mut self, way: &str, raw: &RawVia) -> [f64; 2] {
        if let Some(radio) = &raw.radio {
            let at = self.at(&[way, "via", "radio"]);
            radio::radio(radio, |key, code, message, why, allowed| {
                let at: Vec<Seg<'_>> = at.iter().copied().chain([Key(key)]).collect();
                let error = self.document.error_at(&at, code, message);
                let error = error.with_allowed(allowed.iter().copied());
                self.errors.push(match why {
                    "" => error,
                    why => error.with_reason(why),
                });
            });
        } else if raw.rain.is_some() {
            let at = self.at(&[way, "via", "rain"]);
            let message = "`rain` has an effect only with `radio`";
            let error = self.document.error_at_key(&at, "no-effect", message);
            self.errors.push(
                error.with_suggestion("describe the radio, as `gsl.radio` of a scenario does"),
            );
        }
        raw.rain
            .map_or([0.0; 2], |rain| [rain.from.mm_per_h(), rain.to.mm_per_h()])
    }
}

/// The keys of a path that are laws, as those of a link.
fn as_link(raw: &RawPath) -> RawLink {
    // With a law the rate is only nominal.
    let rate = raw.rate.unwrap_or(DataRate::from_bps(1_000_000_000));
    let link = RawLink::of_rate(rate);
    RawLink {
        rate_law: raw.rate_law.clone(),
        overhead: raw.overhead,
        queue: raw.queue.unwrap_or(link.queue),
        queue_frames: raw.queue_frames,
        aqm: raw.aqm.clone(),
        loss: raw.loss,
        loss_law: raw.loss_law.clone(),
        delay_trace: raw.delay_trace.clone(),
        jitter: raw.jitter.clone(),
        ..link
    }
}
