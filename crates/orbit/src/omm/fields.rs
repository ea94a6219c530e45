//! The keywords of a message as mean elements. The required ones are those of CCSDS 502.0-B-3 (table 4-3),
//! except those that catalogues leave out because they never vary (centre, frame, theory, time system).

use constel_units::instant;
use constel_units::shown::one_line;
use sgp4::chrono::DateTime;

use super::Record;
use crate::elements::ElementSet;
use crate::scales::TimeScale;

/// Names of the theory; Space-Track writes the second.
const THEORIES: [&str; 4] = ["SGP4", "SGP/SGP4", "SDP4", "SGP4/SDP4"];

/// The keywords that are read. Others may be there more than once: comments, parameters of users.
const READ: [&str; 20] = [
    "OBJECT_NAME",
    "OBJECT_ID",
    "CENTER_NAME",
    "REF_FRAME",
    "TIME_SYSTEM",
    "MEAN_ELEMENT_THEORY",
    "EPOCH",
    "MEAN_MOTION",
    "ECCENTRICITY",
    "INCLINATION",
    "RA_OF_ASC_NODE",
    "ARG_OF_PERICENTER",
    "MEAN_ANOMALY",
    "EPHEMERIS_TYPE",
    "NORAD_CAT_ID",
    "ELEMENT_SET_NO",
    "REV_AT_EPOCH",
    "BSTAR",
    "MEAN_MOTION_DOT",
    "MEAN_MOTION_DDOT",
];

/// The element set of one message.
///
/// # Errors
/// Everything that is wrong with it, one text for each thing.
pub(super) fn element_set(record: &Record) -> Result<ElementSet, Vec<String>> {
    let mut fields = Fields {
        record,
        wrong: Vec::new(),
    };
    for keyword in READ {
        fields.once(keyword);
    }
    fields.word("CENTER_NAME", &["EARTH"]);
    fields.word("REF_FRAME", &["TEME"]);
    fields.word("MEAN_ELEMENT_THEORY", &THEORIES);
    let ns = fields.epoch_ns();
    let mean_motion = match (record.get("MEAN_MOTION"), record.get("SEMI_MAJOR_AXIS")) {
        (None, Some(_)) => {
            fields.wrong.push(
                "MEAN_MOTION is missing: SEMI_MAJOR_AXIS is for theories other than SGP4"
                    .to_owned(),
            );
            1.0
        }
        _ => fields.number("MEAN_MOTION", None),
    };
    let number = fields.catalogue_number();
    let elements = sgp4::Elements {
        object_name: record.get("OBJECT_NAME").map(str::to_owned),
        international_designator: record.get("OBJECT_ID").map(str::to_owned),
        norad_id: number.unwrap_or(0),
        classification: match record.get("CLASSIFICATION_TYPE") {
            Some("C") => sgp4::Classification::Classified,
            Some("S") => sgp4::Classification::Secret,
            _ => sgp4::Classification::Unclassified,
        },
        datetime: DateTime::from_timestamp_nanos(ns).naive_utc(),
        // Both derivatives are for SGP; SGP4 does not read them.
        mean_motion_dot: fields.number("MEAN_MOTION_DOT", Some(0.0)),
        mean_motion_ddot: fields.number("MEAN_MOTION_DDOT", Some(0.0)),
        drag_term: fields.number("BSTAR", None),
        element_set_number: fields.whole("ELEMENT_SET_NO"),
        inclination: fields.number("INCLINATION", None),
        right_ascension: fields.number("RA_OF_ASC_NODE", None),
        eccentricity: fields.number("ECCENTRICITY", None),
        argument_of_perigee: fields.number("ARG_OF_PERICENTER", None),
        mean_anomaly: fields.number("MEAN_ANOMALY", None),
        mean_motion,
        revolution_number: fields.whole("REV_AT_EPOCH"),
        ephemeris_type: u8::try_from(fields.whole("EPHEMERIS_TYPE")).unwrap_or(u8::MAX),
    };
    let mut wrong = fields.wrong;
    match ElementSet::checked(elements) {
        Ok(set) if wrong.is_empty() => Ok(if number.is_some() {
            set
        } else {
            set.unnumbered()
        }),
        Ok(_) => Err(wrong),
        Err(more) => {
            let more = more.into_iter();
            wrong.extend(more.map(|(field, reason)| format!("{field}: {reason}")));
            Err(wrong)
        }
    }
}

/// Reads fields of one message and collects the errors.
struct Fields<'a> {
    record: &'a Record,
    wrong: Vec<String>,
}

impl Fields<'_> {
    /// A keyword that may not have two values.
    fn once(&mut self, keyword: &str) {
        if let (Some(earlier), Some(later)) =
            (self.record.twice.get(keyword), self.record.get(keyword))
        {
            let [earlier, later] = [earlier, later].map(|text| one_line(text.as_bytes(), 60));
            self.wrong.push(format!(
                "{keyword} is given twice, as `{earlier}` and `{later}`"
            ));
        }
    }

    /// A keyword whose value, if there is one, must be one of `allowed`, whatever the case of its letters.
    fn word(&mut self, keyword: &str, allowed: &[&str]) {
        let Some(given) = self.record.get(keyword) else {
            return;
        };
        if !allowed.iter().any(|word| word.eq_ignore_ascii_case(given)) {
            let wanted = allowed.first().copied().unwrap_or_default();
            self.wrong
                .push(format!("{keyword} is \"{given}\", expected \"{wanted}\""));
        }
    }

    /// Returns a finite number; `absent` is the default without a value, `None` means that it is required.
    fn number(&mut self, keyword: &str, absent: Option<f64>) -> f64 {
        let (reason, stand_in) = match (self.record.get(keyword), absent) {
            (None, Some(value)) => return value,
            (None, None) => (format!("{keyword} is missing"), 1.0),
            (Some(text), _) => match bare(text).parse::<f64>() {
                Ok(value) if value.is_finite() => return value,
                _ => (format!("{keyword}: `{text}` is not a number"), 1.0),
            },
        };
        self.wrong.push(reason);
        stand_in
    }

    /// A whole number, 0 if absent.
    fn whole(&mut self, keyword: &str) -> u64 {
        let Some(text) = self.record.get(keyword) else {
            return 0;
        };
        // Spreadsheets and JSON writers make `0.0` of `0`.
        let text = bare(text);
        let whole = text.strip_suffix(".0").unwrap_or(text);
        whole.parse().unwrap_or_else(|_| {
            self.wrong
                .push(format!("{keyword}: `{text}` is not a whole number"));
            0
        })
    }

    fn catalogue_number(&mut self) -> Option<u64> {
        self.record.get("NORAD_CAT_ID")?;
        Some(self.whole("NORAD_CAT_ID"))
    }

    /// EPOCH in nanoseconds of UTC.
    fn epoch_ns(&mut self) -> i64 {
        let scale = match self.record.get("TIME_SYSTEM").map(TimeScale::named) {
            None => TimeScale::Utc,
            Some(Ok(scale)) => scale,
            Some(Err(reason)) => {
                self.wrong.push(format!("TIME_SYSTEM: {reason}"));
                TimeScale::Utc
            }
        };
        let Some(text) = self.record.get("EPOCH") else {
            self.wrong.push("EPOCH is missing".to_owned());
            return 0;
        };
        match instant(text) {
            Ok(read) => scale.to_utc(read).unix_ns(),
            Err(error) => {
                self.wrong.push(format!("EPOCH: {error}"));
                0
            }
        }
    }
}

/// A value without its unit: `51.6416 [deg]`.
fn bare(text: &str) -> &str {
    match text.split_once('[') {
        Some((number, unit)) if unit.ends_with(']') => number.trim_end(),
        _ => text,
    }
}
