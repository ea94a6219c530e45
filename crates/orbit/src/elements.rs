//! One object's mean elements, wherever they were read from.

use constel_units::Utc;

/// Mean elements of one object at one epoch, for SGP4. Made by [`crate::tle::parse`] and
/// [`crate::omm::parse`], which check every field's range.
#[derive(Debug, Clone, PartialEq)]
pub struct ElementSet {
    elements: sgp4::Elements,
    epoch: Utc,
}

impl ElementSet {
    /// Checks what SGP4 takes for granted; every violation is reported as (field, reason).
    pub(crate) fn checked(elements: sgp4::Elements) -> Result<Self, Vec<(&'static str, String)>> {
        let mut wrong = Vec::new();
        let mut within = |field, value: f64, low: f64, high: f64, text: &str| {
            if !(low..=high).contains(&value) {
                wrong.push((field, format!("{value} must lie {text}")));
            }
        };
        within(
            "inclination",
            elements.inclination,
            0.0,
            180.0,
            "between 0 and 180 degrees",
        );
        for (field, value) in [
            ("right ascension", elements.right_ascension),
            ("argument of perigee", elements.argument_of_perigee),
            ("mean anomaly", elements.mean_anomaly),
        ] {
            within(field, value, 0.0, 360.0, "between 0 and 360 degrees");
        }
        // The upper bound is the largest f64 below one: 0 <= e < 1.
        within(
            "eccentricity",
            elements.eccentricity,
            0.0,
            1.0_f64.next_down(),
            "at or above 0 and below 1",
        );
        // 20 revolutions a day is an orbit 480 km under the ground; SGP4 accepts it and fails
        // later, with a message about something else.
        within(
            "mean motion",
            elements.mean_motion,
            f64::MIN_POSITIVE,
            20.0,
            "above 0 and at most 20 revolutions a day",
        );
        for (field, value) in [
            ("drag term", elements.drag_term),
            ("first derivative of mean motion", elements.mean_motion_dot),
            (
                "second derivative of mean motion",
                elements.mean_motion_ddot,
            ),
        ] {
            within(field, value, f64::MIN, f64::MAX, "in the finite numbers");
        }
        let epoch = elements.datetime.and_utc().timestamp_nanos_opt();
        match epoch {
            Some(ns) if wrong.is_empty() => Ok(Self {
                elements,
                epoch: Utc::from_unix_ns(ns),
            }),
            Some(_) => Err(wrong),
            None => {
                wrong.push(("epoch", format!("{} is out of range", elements.datetime)));
                Err(wrong)
            }
        }
    }

    /// The object's name, without padding, if the file gives one.
    pub fn name(&self) -> Option<&str> {
        self.elements.object_name.as_deref()
    }

    /// The catalogue number.
    pub fn catalogue_number(&self) -> u64 {
        self.elements.norad_id
    }

    /// When the elements hold.
    pub fn epoch(&self) -> Utc {
        self.epoch
    }

    /// The elements in the `sgp4` crate's form: degrees and revolutions a day.
    pub fn elements(&self) -> &sgp4::Elements {
        &self.elements
    }
}

/// Writes a list of errors, one a line.
pub(crate) fn one_a_line(
    f: &mut std::fmt::Formatter<'_>,
    errors: &[impl std::fmt::Display],
) -> std::fmt::Result {
    for (index, error) in errors.iter().enumerate() {
        if index > 0 {
            f.write_str("\n")?;
        }
        error.fmt(f)?;
    }
    Ok(())
}
