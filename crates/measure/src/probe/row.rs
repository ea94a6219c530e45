//! A probe and its fate, as a line of CSV: times in lab time, delays in microseconds with three decimals.

use std::fmt;
use std::str::FromStr;

/// The first line of a file of rows.
pub const HEADER: &str = "seq,sent_s,there_us,back_us,rtt_us,fate";

/// The fate of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Answered.
    Ok,
    /// Answered after an answer to a later probe.
    Reordered,
    /// Answered by a responder that held it longer than [`crate::probe::book::HELD_AT_MOST_NS`]. The delays include the
    /// holding time.
    Late,
    /// A further answer to a probe that already has one. It is not counted as a probe.
    Duplicate,
    /// Never answered.
    Lost,
    /// The probe could not be sent because there was no route. It counts as lost.
    Unsent,
    /// The probe had no answer when probing ended, and was sent less than the longest round trip before. Its fate
    /// is not known.
    UnderWay,
}

const FATES: [(Fate, &str); 7] = [
    (Fate::Ok, "ok"),
    (Fate::Reordered, "reordered"),
    (Fate::Late, "late"),
    (Fate::Duplicate, "duplicate"),
    (Fate::Lost, "lost"),
    (Fate::Unsent, "unsent"),
    (Fate::UnderWay, "under-way"),
];

impl Fate {
    /// Returns the word that a row has for this fate.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        let known = FATES.iter().find(|(fate, _)| *fate == self);
        known.map_or("", |(_, word)| word)
    }

    /// Returns whether this is the first answer to a probe.
    #[must_use]
    pub fn is_answer(self) -> bool {
        matches!(self, Self::Ok | Self::Reordered | Self::Late)
    }
}

/// One probe, or a further answer to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The number, from 1.
    pub seq: u64,
    /// The instant of sending, nanoseconds since lab time zero.
    pub sent_ns: u64,
    /// The time from sending to arrival at the destination, nanoseconds; `None` also if the destination has another
    /// clock.
    pub there_ns: Option<u64>,
    /// The time from the answer's departure to its arrival, nanoseconds; `None` as for `there_ns`.
    pub back_ns: Option<u64>,
    /// The round-trip time, nanoseconds, without the holding time of the responder unless that time made the probe
    /// [`Fate::Late`].
    pub rtt_ns: Option<u64>,
    /// The fate.
    pub fate: Fate,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (s, ns) = (self.sent_ns / 1_000_000_000, self.sent_ns % 1_000_000_000);
        write!(f, "{},{s}.{ns:09}", self.seq)?;
        for delay_ns in [self.there_ns, self.back_ns, self.rtt_ns] {
            match delay_ns {
                Some(ns) => write!(f, ",{}.{:03}", ns / 1_000, ns % 1_000)?,
                None => f.write_str(",")?,
            }
        }
        write!(f, ",{}", self.fate.as_str())
    }
}

/// The error for a line that is not a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a row of probes ({HEADER})")]
pub struct RowError;

impl FromStr for Row {
    type Err = RowError;

    fn from_str(line: &str) -> Result<Self, RowError> {
        let mut cells = line.split(',');
        let mut cell = || cells.next().ok_or(RowError);
        let seq = cell()?.parse().map_err(|_| RowError)?;
        let sent_ns = decimal::<9>(cell()?).ok_or(RowError)?;
        let mut delay = || match cell()? {
            "" => Ok(None),
            text => decimal::<3>(text).map(Some).ok_or(RowError),
        };
        let (there_ns, back_ns, rtt_ns) = (delay()?, delay()?, delay()?);
        let word = cell()?;
        let known = FATES.iter().find(|(_, known)| *known == word);
        let row = Self {
            seq,
            sent_ns,
            there_ns,
            back_ns,
            rtt_ns,
            fate: known.ok_or(RowError)?.0,
        };
        let adds_up = match (there_ns, back_ns) {
            (None, None) => true,
            (Some(there_ns), Some(back_ns)) => there_ns.checked_add(back_ns) == rtt_ns,
            _ => false,
        };
        // A line that was cut off or changed is rejected as a whole.
        (cells.next().is_none() && adds_up)
            .then_some(row)
            .ok_or(RowError)
    }
}

/// Parses a number with exactly `DECIMALS` decimals. Returns it in units of the last decimal.
fn decimal<const DECIMALS: usize>(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if part.len() != DECIMALS || !digits(part) || !digits(whole) {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let scale = 10_u64.pow(DECIMALS as u32);
    whole.checked_mul(scale)?.checked_add(part.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_row_is_a_line() {
        let row = Row {
            seq: 7,
            sent_ns: 1_200_000_034,
            there_ns: Some(7_702_413),
            back_ns: Some(600),
            rtt_ns: Some(7_703_013),
            fate: Fate::Ok,
        };
        assert_eq!(row.to_string(), "7,1.200000034,7702.413,0.600,7703.013,ok");
        let apart = Row {
            there_ns: None,
            back_ns: None,
            ..row
        };
        assert_eq!(apart.to_string(), "7,1.200000034,,,7703.013,ok");
        assert_eq!(apart.to_string().parse(), Ok(apart));
        let lost = Row {
            there_ns: None,
            back_ns: None,
            rtt_ns: None,
            fate: Fate::Lost,
            ..row
        };
        assert_eq!(lost.to_string(), "7,1.200000034,,,,lost");
        assert_eq!(lost.to_string().parse(), Ok(lost));
        for bad in [
            "",
            HEADER,
            "7,1.200000034,7702.413,0.600,7703.013",
            "7,1.200000034,7702.413,0.600,7703.012,ok",
            "7,1.200000034,7702.413,0.600,7703.013,ok,",
            "7,1.2,7702.413,0.600,7703.013,ok",
            "7,1.200000034,7702.413,,7703.013,ok",
            "7,1.200000034,7702.413,0.600,,ok",
            "7,1.200000034,+702.413,0.600,703.013,ok",
            "7,1.200000034,,,,gone",
        ] {
            assert_eq!(bad.parse::<Row>(), Err(RowError), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            seq: u64, sent_ns: u64, there in 0..u64::MAX / 2, back in 0..u64::MAX / 2, fate in 0..FATES.len(), answered: bool,
            apart: bool,
        ) {
            let row = Row {
                seq,
                sent_ns,
                there_ns: (answered && !apart).then_some(there),
                back_ns: (answered && !apart).then_some(back),
                rtt_ns: answered.then_some(there + back),
                fate: FATES[fate].0,
            };
            prop_assert_eq!(row.to_string().parse(), Ok(row));
        }

        #[test]
        fn nothing_panics(line in "[0-9.,a-z-]{0,60}") {
            let _ = line.parse::<Row>();
        }
    }
}
