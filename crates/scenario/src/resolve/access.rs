//! `gsl.access`: the preset, its parts that are changed or switched off, and the keys that it excludes.

use constel_link::DriverKind;
use constel_link::access::{
    Access, Blockage, Cell, Changes, Gap, Grants, HOURS, Leg, Partial, Rate, Retransmission, Sky,
    Slots, Step, preset,
};
use constel_units::{Ratio, TimeSpan};

use super::constellations::Resolver;
use crate::raw::{
    AccessPart, RawAccess, RawAccessParts, RawCell, RawConstellation, RawGap, RawGsl, RawLeg,
};
use crate::walk::Seg::Key;

/// Largest median load, as in [`Access::check`].
const MOST_LOAD: f64 = 0.98;

fn ns(span: TimeSpan) -> u64 {
    span.ns().unsigned_abs()
}

/// Returns the access of a preset. The schema allows names of presets only.
fn of_preset(name: &str) -> Access {
    preset(name).map(|preset| preset.access).unwrap_or_default()
}

/// Returns whether rain takes a part of the rates.
pub(super) fn has_sky(raw: &RawAccess) -> bool {
    let preset_has = |name: &String| of_preset(name).sky.is_some();
    match raw {
        RawAccess::Preset(name) => preset_has(name),
        RawAccess::Parts(parts) => {
            let kept = !parts.without.contains(&AccessPart::Sky);
            parts.sky.is_some() || kept && parts.preset.as_ref().is_some_and(preset_has)
        }
    }
}

impl Resolver<'_> {
    /// Returns the access of links to the ground; `None` if no part of it is left.
    pub(super) fn gsl_access(&mut self, raw: &RawConstellation, gsl: &RawGsl) -> Option<Access> {
        let written = gsl.access.as_ref()?;
        let access = match written {
            RawAccess::Preset(name) => of_preset(name),
            RawAccess::Parts(parts) => self.access_of_parts(parts),
        };
        if access.is_ideal() {
            return None;
        }
        self.access_excludes(raw, gsl);
        Some(access)
    }

    /// Reports keys that have no effect together with `access`, and drivers that do not have it.
    fn access_excludes(&mut self, raw: &RawConstellation, gsl: &RawGsl) {
        let at = [Key("gsl"), Key("access")];
        let laws = [
            ("rate_law", gsl.link.rate_law.is_some()),
            ("delay_trace", gsl.link.delay_trace.is_some()),
        ];
        for (key, _) in laws.into_iter().filter(|(_, written)| *written) {
            self.error(
                &at,
                "no-effect",
                format!("`gsl.access` does not go with `gsl.link.{key}`"),
                "a recording or a law of a whole link has the waits and the rates of its access already",
                Some(format!("remove `access`, or `link.{key}`")),
            );
        }
        let sky = |access: &RawAccess| match access {
            RawAccess::Preset(_) => false,
            RawAccess::Parts(parts) => parts.sky.is_some(),
        };
        if gsl.radio.is_some() && gsl.access.as_ref().is_some_and(sky) {
            self.error(
                &[Key("gsl"), Key("access"), Key("sky")],
                "no-effect",
                "`gsl.access.sky` has no effect with `gsl.radio`".into(),
                "the radio computes range and rain",
                Some("remove one of them".into()),
            );
        }
        if !raw.nodes {
            self.error(
                &at,
                "no-effect",
                "`gsl.access` has no effect with `nodes: false`".into(),
                "networks over a constellation have the delays of its geometry alone",
                Some("remove `access`, or `nodes: false`".into()),
            );
        }
        let driver = self.parsed.raw.links.driver.kind();
        if let Some(driver) = driver.filter(|driver| *driver != DriverKind::Relay) {
            self.error(
                &at,
                "driver",
                format!("`access` is more than `links: {{driver: {driver}}}` can do"),
                "turns, grants and gaps decide frame by frame; drivers that have them: relay",
                Some("remove `access`, or choose `driver: relay`".into()),
            );
        }
    }

    /// Reports values that contradict each other. All other bounds are those of the schema.
    fn check_parts(&mut self, raw: &RawAccessParts) {
        let mut report = |keys: &[&str], code, message: &str, reason: &str| {
            let keys = keys.iter().map(|key| Key(key));
            let at: Vec<_> = [Key("gsl"), Key("access")]
                .into_iter()
                .chain(keys)
                .collect();
            self.error(&at, code, message.to_owned(), reason, None);
        };
        if let Some(slots) = &raw.slots
            && slots.phase.ns() >= slots.period.ns()
        {
            let reason = "a slot begins within the first period of a minute";
            let message = "`phase` must be less than `period`";
            report(&["slots", "phase"], "out-of-range", message, reason);
        }
        if let Some(cell) = &raw.cell {
            let loads = cell.load.iter().chain(cell.load_by_hour.iter().flatten());
            if loads.into_iter().any(|load| load.get() > MOST_LOAD) {
                let key = cell.load.map_or("load_by_hour", |_| "load");
                let reason = "in a full cell no poll would serve the terminal";
                let message = format!("`{key}` must be at most 98 %");
                report(&["cell", key], "out-of-range", &message, reason);
            }
        }
        if let Some(step) = &raw.step
            && step.long_max.ns() < step.long_min.ns()
        {
            let reason = "long delays are uniform from `long_min` to `long_max`";
            let message = "`long_max` must be at least `long_min`";
            report(&["step", "long_max"], "order", message, reason);
        }
        if let Some(chain) = &raw.blockage
            && chain.begin.get() + chain.end.get() > 1.0
        {
            let reason = "one draw for each slot decides whether a blockage begins or ends";
            let message = "`begin` and `end` must be at most 100 % together";
            report(&["blockage", "end"], "out-of-range", message, reason);
        }
    }

    fn access_of_parts(&mut self, raw: &RawAccessParts) -> Access {
        self.check_parts(raw);
        let mut access = raw.preset.as_deref().map(of_preset).unwrap_or_default();
        for part in &raw.without {
            switch_off(&mut access, *part);
            if is_given(raw, *part) {
                let name = format!("{part:?}").to_lowercase();
                self.error(
                    &[Key("gsl"), Key("access"), Key("without")],
                    "no-effect",
                    format!("`{name}` is switched off by `without`, and given"),
                    "a part is either off or has values",
                    Some(format!("remove `{name}` in one of the two places")),
                );
            }
        }
        if let Some(slots) = &raw.slots {
            access.slots = Slots {
                period_ns: ns(slots.period),
                phase_ns: ns(slots.phase),
            };
        }
        access.cell = raw.cell.as_ref().map(cell).or(access.cell);
        if let Some(step) = &raw.step {
            access.step = Some(Step {
                spread_ns: ns(step.spread),
                long_ratio: step.long.get(),
                long_least_ns: ns(step.long_min),
                long_most_ns: ns(step.long_max),
                change_ratio: step.change.get(),
            });
        }
        access.handover = raw.handover.as_ref().map(gap).or(access.handover);
        access.relink = raw.relink.as_ref().map(gap).or(access.relink);
        if let Some(chain) = &raw.blockage {
            access.blockage = Some(Blockage {
                begin_ratio: chain.begin.get(),
                end_ratio: chain.end.get(),
                partial: chain.partial.as_ref().map(|part| Partial {
                    ratio: part.chance.get(),
                    blocked_ns: ns(part.blocked),
                    clear_ns: ns(part.clear),
                    hold_ns: ns(part.hold),
                }),
            });
        }
        if let Some(sky) = &raw.sky {
            access.sky = Some(Sky {
                snr_db: sky.snr.db(),
                rain_most_db: sky.rain_max.db(),
                rain_mm_per_h: sky.rain.mm_per_h(),
            });
        }
        for (leg, given) in [(&mut access.up, &raw.up), (&mut access.down, &raw.down)] {
            if let Some(given) = given {
                change_leg(leg, given);
            }
        }
        access
    }
}

fn cell(raw: &RawCell) -> Cell {
    let mut load_by_hour = [raw.load.map_or(0.0, Ratio::get); HOURS];
    // The schema requires one value for each hour.
    for (load, given) in load_by_hour
        .iter_mut()
        .zip(raw.load_by_hour.iter().flatten())
    {
        *load = given.get();
    }
    Cell {
        load_by_hour,
        spread: raw.spread,
        changes: raw.changes.as_ref().map(|changes| Changes {
            every_ns: ns(changes.every),
            spread: changes.spread,
        }),
    }
}

fn gap(raw: &RawGap) -> Gap {
    Gap {
        ratio: raw.chance.get(),
        median_ns: ns(raw.median),
        spread: raw.spread,
        hold_ns: ns(raw.hold),
    }
}

fn change_leg(leg: &mut Leg, raw: &RawLeg) {
    leg.processing_ns = raw.processing.map_or(leg.processing_ns, ns);
    leg.turn_ns = raw.turns.map_or(leg.turn_ns, ns);
    if let Some(grants) = &raw.grants {
        leg.grants = Some(Grants {
            request_ns: ns(grants.request),
            period_ns: ns(grants.period),
        });
    }
    if let Some(link) = &raw.retransmission {
        leg.retransmission = Some(Retransmission {
            ratio: link.chance.get(),
            again_ns: ns(link.again),
            transmissions: link.transmissions,
        });
    }
    if let Some(rate) = &raw.rate {
        leg.rate = Some(Rate {
            alone_bps: rate.alone.bps(),
            spread: rate.spread,
        });
    }
}

/// Switches a part off, in both directions.
fn switch_off(access: &mut Access, part: AccessPart) {
    let mut legs = |change: fn(&mut Leg)| {
        change(&mut access.up);
        change(&mut access.down);
    };
    match part {
        AccessPart::Cell => access.cell = None,
        AccessPart::Step => access.step = None,
        AccessPart::Handover => access.handover = None,
        AccessPart::Relink => access.relink = None,
        AccessPart::Blockage => access.blockage = None,
        AccessPart::Sky => access.sky = None,
        AccessPart::Processing => legs(|leg| leg.processing_ns = 0),
        AccessPart::Turns => legs(|leg| leg.turn_ns = 0),
        AccessPart::Grants => legs(|leg| leg.grants = None),
        AccessPart::Retransmission => legs(|leg| leg.retransmission = None),
        AccessPart::Rate => legs(|leg| leg.rate = None),
    }
}

/// Returns whether the file gives values of a part.
fn is_given(raw: &RawAccessParts, part: AccessPart) -> bool {
    let legs = [&raw.up, &raw.down];
    let in_leg = |has: fn(&RawLeg) -> bool| legs.iter().any(|leg| leg.as_ref().is_some_and(has));
    match part {
        AccessPart::Cell => raw.cell.is_some(),
        AccessPart::Step => raw.step.is_some(),
        AccessPart::Handover => raw.handover.is_some(),
        AccessPart::Relink => raw.relink.is_some(),
        AccessPart::Blockage => raw.blockage.is_some(),
        AccessPart::Sky => raw.sky.is_some(),
        AccessPart::Processing => in_leg(|leg| leg.processing.is_some()),
        AccessPart::Turns => in_leg(|leg| leg.turns.is_some()),
        AccessPart::Grants => in_leg(|leg| leg.grants.is_some()),
        AccessPart::Retransmission => in_leg(|leg| leg.retransmission.is_some()),
        AccessPart::Rate => in_leg(|leg| leg.rate.is_some()),
    }
}
