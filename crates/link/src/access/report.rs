//! The parts of an access as text, for people who ask why a frame is late.

use std::fmt::Write as _;

use super::parts::{Access, Direction, Gap, Leg};

/// One part that is switched on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The part's name, as in a scenario.
    pub name: &'static str,
    /// Its values.
    pub values: String,
}

fn ms(ns: u64) -> String {
    format!("{:.1} ms", ns as f64 / 1e6)
}

fn percent(ratio: f64) -> String {
    format!("{:.1} %", ratio * 100.0)
}

fn gap(gap: &Gap) -> String {
    format!(
        "{} of the slots, median {}, frames wait {} at most",
        percent(gap.ratio),
        ms(gap.median_ns),
        ms(gap.hold_ns)
    )
}

fn leg(leg: &Leg) -> Option<String> {
    let mut text = String::new();
    // Writing to a String cannot fail.
    if leg.processing_ns > 0 {
        let _ = write!(text, ", processing {}", ms(leg.processing_ns));
    }
    if leg.turn_ns > 0 {
        let _ = write!(text, ", turns each {}", ms(leg.turn_ns));
    }
    if let Some(grants) = &leg.grants {
        let (request, period) = (ms(grants.request_ns), ms(grants.period_ns));
        let _ = write!(text, ", request {request}, polls each {period}");
    }
    if let Some(link) = &leg.retransmission {
        let _ = write!(
            text,
            ", {} of transmissions fail, {} each, {} at most",
            percent(link.ratio),
            ms(link.again_ns),
            link.transmissions
        );
    }
    if let Some(rate) = &leg.rate {
        let _ = write!(text, ", {} Mbit/s alone", rate.alone_bps as f64 / 1e6);
    }
    (!text.is_empty()).then(|| text.trim_start_matches(", ").to_owned())
}

impl Access {
    /// Returns the parts that are switched on, in the order in which a frame passes them.
    #[must_use]
    pub fn parts(&self) -> Vec<Part> {
        let loads = self.cell.as_ref().map(|cell| {
            let least = cell.load_by_hour.iter().copied().fold(1.0, f64::min);
            let most = cell.load_by_hour.iter().copied().fold(0.0, f64::max);
            let mut text = format!("load {} to {} by hour", percent(least), percent(most));
            if let Some(changes) = &cell.changes {
                let _ = write!(text, ", changes each {}", ms(changes.every_ns));
            }
            text
        });
        let step = self.step.as_ref().map(|step| {
            let mut text = format!(
                "up to {} a slot; {} of the slots {} to {}",
                ms(step.spread_ns),
                percent(step.long_ratio),
                ms(step.long_least_ns),
                ms(step.long_most_ns)
            );
            if step.change_ratio > 0.0 {
                let _ = write!(text, "; {} change", percent(step.change_ratio));
            }
            text
        });
        let blockage = self.blockage.as_ref().map(|chain| {
            // The share of a two-state chain in its blocked state, in the long run.
            let all =
                chain.begin_ratio / (chain.begin_ratio + chain.end_ratio).max(f64::MIN_POSITIVE);
            let mut text = format!("{} of the slots", percent(all));
            if let Some(part) = &chain.partial {
                let _ = write!(
                    text,
                    ", {} of them in parts: {} without service, {} with it",
                    percent(part.ratio),
                    ms(part.blocked_ns),
                    ms(part.clear_ns)
                );
            }
            text
        });
        let sky = self.sky.as_ref().map(|sky| {
            format!(
                "{} dB in the zenith, rain up to {} dB",
                sky.snr_db, sky.rain_most_db
            )
        });
        let parts = [
            ("blockage", blockage),
            ("handover", self.handover.as_ref().map(gap)),
            ("relink", self.relink.as_ref().map(gap)),
            ("cell", loads),
            ("step", step),
            ("sky", sky),
            ("up", leg(self.leg(Direction::Up))),
            ("down", leg(self.leg(Direction::Down))),
        ];
        let on = parts.into_iter().filter_map(|(name, values)| {
            let values = values?;
            Some(Part { name, values })
        });
        on.collect()
    }
}
