//! Bounds of an access's values.

use super::parts::{Access, Gap, Leg};

/// Shortest slot, poll and frame: shorter ones would cost more time than they model.
const LEAST_PERIOD_NS: u64 = 100_000;
/// Longest slot: an hour.
const MOST_PERIOD_NS: u64 = 3_600_000_000_000;
/// Shortest mean of intervals within a blocked slot, for the same reason.
const LEAST_MEAN_NS: u64 = 10_000_000;
/// Longest delay of one part: ten seconds.
const MOST_DELAY_NS: u64 = 10_000_000_000;

/// Errors, collected with the name of the field.
struct Errors<'a>(&'a mut Vec<String>);

impl Errors<'_> {
    fn ratio(&mut self, name: &str, value: f64, most: f64) {
        if !(0.0..=most).contains(&value) {
            self.0
                .push(format!("{name} {value} is not within 0..={most}"));
        }
    }

    fn spread(&mut self, name: &str, value: f64) {
        self.ratio(name, value, 5.0);
    }

    fn within(&mut self, name: &str, value: u64, least: u64, most: u64) {
        if !(least..=most).contains(&value) {
            self.0
                .push(format!("{name} {value} is not within {least}..={most}"));
        }
    }

    fn delay(&mut self, name: &str, value: u64) {
        self.within(name, value, 0, MOST_DELAY_NS);
    }

    fn gap(&mut self, name: &str, gap: &Gap) {
        self.ratio(&format!("{name}.ratio"), gap.ratio, 1.0);
        self.delay(&format!("{name}.median_ns"), gap.median_ns);
        self.spread(&format!("{name}.spread"), gap.spread);
        self.delay(&format!("{name}.hold_ns"), gap.hold_ns);
    }

    fn leg(&mut self, name: &str, leg: &Leg) {
        self.delay(&format!("{name}.processing_ns"), leg.processing_ns);
        // Zero switches turns off.
        if leg.turn_ns > 0 {
            let field = format!("{name}.turn_ns");
            self.within(&field, leg.turn_ns, LEAST_PERIOD_NS, MOST_DELAY_NS);
        }
        if let Some(grants) = &leg.grants {
            self.delay(&format!("{name}.grants.request_ns"), grants.request_ns);
            let field = format!("{name}.grants.period_ns");
            self.within(&field, grants.period_ns, LEAST_PERIOD_NS, MOST_DELAY_NS);
        }
        if let Some(link) = &leg.retransmission {
            let field = |last: &str| format!("{name}.retransmission.{last}");
            self.ratio(&field("ratio"), link.ratio, 1.0);
            self.delay(&field("again_ns"), link.again_ns);
            let count = u64::from(link.transmissions);
            self.within(&field("transmissions"), count, 1, 16);
        }
        if let Some(rate) = &leg.rate {
            let field = |last: &str| format!("{name}.rate.{last}");
            self.within(
                &field("alone_bps"),
                rate.alone_bps,
                crate::rate::MIN_MEAN_BPS,
                crate::rate::MAX_BPS,
            );
            self.spread(&field("spread"), rate.spread);
        }
    }
}

impl Access {
    /// Checks that all values are within their bounds.
    ///
    /// # Errors
    /// Every value out of its bounds, with its field.
    pub fn check(&self) -> Result<(), Vec<String>> {
        let mut found = Vec::new();
        let mut errors = Errors(&mut found);
        let period_ns = self.slots.period_ns;
        errors.within(
            "slots.period_ns",
            period_ns,
            LEAST_PERIOD_NS,
            MOST_PERIOD_NS,
        );
        // A phase of a whole period would be phase 0 under another name.
        let last_ns = period_ns.saturating_sub(1);
        errors.within("slots.phase_ns", self.slots.phase_ns, 0, last_ns);
        if let Some(cell) = &self.cell {
            for (hour, load) in cell.load_by_hour.iter().enumerate() {
                errors.ratio(&format!("cell.load_by_hour[{hour}]"), *load, 0.98);
            }
            errors.spread("cell.spread", cell.spread);
            if let Some(changes) = &cell.changes {
                let every_ns = changes.every_ns;
                errors.within(
                    "cell.changes.every_ns",
                    every_ns,
                    LEAST_PERIOD_NS,
                    MOST_DELAY_NS,
                );
                errors.spread("cell.changes.spread", changes.spread);
            }
        }
        if let Some(step) = &self.step {
            errors.delay("step.spread_ns", step.spread_ns);
            errors.ratio("step.long_ratio", step.long_ratio, 1.0);
            let (least, most) = (step.long_least_ns, step.long_most_ns);
            errors.delay("step.long_least_ns", least);
            errors.within("step.long_most_ns", most, least, MOST_DELAY_NS);
            errors.ratio("step.change_ratio", step.change_ratio, 1.0);
        }
        if let Some(gap) = &self.handover {
            errors.gap("handover", gap);
        }
        if let Some(gap) = &self.relink {
            errors.gap("relink", gap);
        }
        if let Some(chain) = &self.blockage {
            errors.ratio("blockage.begin_ratio", chain.begin_ratio, 1.0);
            // The two ranges of a slot's draw must not overlap: a slot cannot begin and end a blockage.
            let rest = 1.0 - chain.begin_ratio.clamp(0.0, 1.0);
            errors.ratio("blockage.end_ratio", chain.end_ratio, rest);
            if let Some(part) = &chain.partial {
                errors.ratio("blockage.partial.ratio", part.ratio, 1.0);
                for (name, mean_ns) in [
                    ("blockage.partial.blocked_ns", part.blocked_ns),
                    ("blockage.partial.clear_ns", part.clear_ns),
                ] {
                    errors.within(name, mean_ns, LEAST_MEAN_NS, MOST_PERIOD_NS);
                }
                errors.delay("blockage.partial.hold_ns", part.hold_ns);
            }
        }
        if let Some(sky) = &self.sky {
            if !(-20.0..=60.0).contains(&sky.snr_db) {
                errors
                    .0
                    .push(format!("sky.snr_db {} is not within -20..=60", sky.snr_db));
            }
            errors.ratio("sky.rain_most_db", sky.rain_most_db, 60.0);
            if !(0.01..=1000.0).contains(&sky.rain_mm_per_h) {
                let value = sky.rain_mm_per_h;
                errors.0.push(format!(
                    "sky.rain_mm_per_h {value} is not within 0.01..=1000"
                ));
            }
        }
        errors.leg("up", &self.up);
        errors.leg("down", &self.down);
        if found.is_empty() { Ok(()) } else { Err(found) }
    }
}
