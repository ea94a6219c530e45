//! The columns of the two element lines.
//!
//! Not the `sgp4` crate's own reader: that one takes what a forgiving number parser takes
//! ("1e5", "inf", "+5"), stops at the first fault, and rounds the epoch through floating point.

use sgp4::chrono::{NaiveDate, TimeDelta};

use crate::tle::{LINE_LENGTH, TleReason};

type Line = [u8; LINE_LENGTH];

/// The fields of the two lines, in the lines' units.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields {
    pub(crate) catalogue_number: u64,
    classification: u8,
    designator: Option<String>,
    epoch_year: i32,
    epoch_day: u32,
    /// Part of the day in 1e-8 days, the format's own step.
    epoch_fraction_e8: i64,
    mean_motion_dot: f64,
    mean_motion_ddot: f64,
    drag_term: f64,
    ephemeris_type: u8,
    element_set_number: u64,
    inclination_deg: f64,
    right_ascension_deg: f64,
    eccentricity: f64,
    argument_of_perigee_deg: f64,
    mean_anomaly_deg: f64,
    mean_motion_per_day: f64,
    revolution_number: u64,
}

/// Sum of the digits of the first 68 columns, a minus counting as one, modulo ten.
pub(crate) fn checksum(line: &Line) -> u8 {
    let sum: u32 = line[..LINE_LENGTH - 1]
        .iter()
        .map(|byte| match byte {
            b'0'..=b'9' => u32::from(byte - b'0'),
            b'-' => 1,
            _ => 0,
        })
        .sum();
    (sum % 10) as u8
}

/// Reads columns of one line and collects the errors.
struct Columns<'a> {
    line: &'a Line,
    errors: Vec<TleReason>,
}

impl<'a> Columns<'a> {
    fn new(line: &'a Line) -> Self {
        Self {
            line,
            errors: Vec::new(),
        }
    }

    /// The text in columns `first..=last` (from 1). Lines are checked to be ASCII before.
    fn text(&self, first: usize, last: usize) -> &'a str {
        std::str::from_utf8(&self.line[first - 1..last]).unwrap_or_default()
    }

    /// Reads a field with `read`; a `None` becomes an error with the `expected` value.
    fn field<T: Default>(
        &mut self,
        first: usize,
        last: usize,
        field: &'static str,
        expected: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> T {
        let text = self.text(first, last);
        read(text).unwrap_or_else(|| {
            let reason = format!("{text:?} is not {expected}");
            self.errors.push(TleReason::Field {
                first,
                last,
                field,
                reason,
            });
            T::default()
        })
    }

    /// The columns between fields must be blank, or a shifted line would be read as another orbit.
    fn blanks(&mut self, columns: &[usize]) {
        for column in columns {
            self.field(*column, *column, "separator", "a blank", |text| {
                (text == " ").then_some(())
            });
        }
    }
}

pub(crate) fn read_line_1(line: &Line, fields: &mut Fields) -> Vec<TleReason> {
    let mut columns = Columns::new(line);
    columns.blanks(&[2, 9, 18, 33, 44, 53, 62, 64]);
    fields.catalogue_number = columns.field(
        3,
        7,
        "catalogue number",
        "a number or Alpha-5",
        catalogue_number,
    );
    // No orbit depends on it: a blank means unclassified, and the letter's case does not matter.
    let letters = "U, C, S or blank";
    fields.classification = columns.field(8, 8, "classification", letters, |text| {
        let letter = text.bytes().next().unwrap_or(b' ').to_ascii_uppercase();
        match letter {
            b' ' => Some(b'U'),
            b'U' | b'C' | b'S' => Some(letter),
            _ => None,
        }
    });
    fields.designator = columns.field(
        10,
        17,
        "international designator",
        "blank or like 98067A",
        designator,
    );
    fields.epoch_year = columns.field(19, 20, "epoch year", "two digits", |text| {
        // Two digits since Sputnik's year 1957.
        let year = i32::try_from(digits(text)?).ok()?;
        Some(if year < 57 { 2000 + year } else { 1900 + year })
    });
    (fields.epoch_day, fields.epoch_fraction_e8) = columns.field(
        21,
        32,
        "epoch day",
        "a day of the year like 257.46316094",
        epoch_day,
    );
    fields.mean_motion_dot = columns.field(
        34,
        43,
        "first derivative of mean motion",
        "like -.00002182",
        signed_decimal,
    );
    fields.mean_motion_ddot = columns.field(
        45,
        52,
        "second derivative of mean motion",
        "like 12345-6",
        assumed_point,
    );
    fields.drag_term = columns.field(54, 61, "drag term", "like -11606-4", assumed_point);
    // Blank in old sets; always 0 in distributed ones and of no effect.
    fields.ephemeris_type = columns.field(63, 63, "ephemeris type", "a digit", |text| {
        if text == " " {
            Some(0)
        } else {
            u8::try_from(digits(text)?).ok()
        }
    });
    fields.element_set_number = columns.field(
        65,
        68,
        "element set number",
        "a whole number",
        padded_integer,
    );
    columns.errors
}

pub(crate) fn read_line_2(line: &Line, fields: &mut Fields) -> Vec<TleReason> {
    let mut columns = Columns::new(line);
    columns.blanks(&[2, 8, 17, 26, 34, 43, 52]);
    fields.catalogue_number = columns.field(
        3,
        7,
        "catalogue number",
        "a number or Alpha-5",
        catalogue_number,
    );
    let angle = "degrees like 123.4567";
    fields.inclination_deg = columns.field(9, 16, "inclination", angle, padded_decimal);
    fields.right_ascension_deg = columns.field(18, 25, "right ascension", angle, padded_decimal);
    fields.eccentricity = columns.field(27, 33, "eccentricity", "seven digits", |text| {
        digits(text).map(|value| value as f64 / 1e7)
    });
    fields.argument_of_perigee_deg =
        columns.field(35, 42, "argument of perigee", angle, padded_decimal);
    fields.mean_anomaly_deg = columns.field(44, 51, "mean anomaly", angle, padded_decimal);
    fields.mean_motion_per_day = columns.field(
        53,
        63,
        "mean motion",
        "revolutions a day like 15.72125391",
        padded_decimal,
    );
    fields.revolution_number = columns.field(
        64,
        68,
        "revolution number",
        "a whole number",
        padded_integer,
    );
    columns.errors
}

impl Fields {
    /// The elements in the propagator's form.
    pub(crate) fn into_elements(self, name: Option<String>) -> Result<sgp4::Elements, TleReason> {
        let datetime = NaiveDate::from_yo_opt(self.epoch_year, self.epoch_day)
            .and_then(|date| date.and_hms_opt(0, 0, 0))
            .and_then(|midnight| {
                // 1e-8 days are 864 000 ns exactly.
                let of_day = TimeDelta::nanoseconds(self.epoch_fraction_e8 * 864_000);
                midnight.checked_add_signed(of_day)
            })
            .ok_or_else(|| TleReason::Value {
                field: "epoch",
                reason: format!("{} has no day {}", self.epoch_year, self.epoch_day),
            })?;
        Ok(sgp4::Elements {
            object_name: name,
            international_designator: self.designator,
            norad_id: self.catalogue_number,
            classification: match self.classification {
                b'C' => sgp4::Classification::Classified,
                b'S' => sgp4::Classification::Secret,
                _ => sgp4::Classification::Unclassified,
            },
            datetime,
            mean_motion_dot: self.mean_motion_dot,
            mean_motion_ddot: self.mean_motion_ddot,
            drag_term: self.drag_term,
            element_set_number: self.element_set_number,
            inclination: self.inclination_deg,
            right_ascension: self.right_ascension_deg,
            eccentricity: self.eccentricity,
            argument_of_perigee: self.argument_of_perigee_deg,
            mean_anomaly: self.mean_anomaly_deg,
            mean_motion: self.mean_motion_per_day,
            revolution_number: self.revolution_number,
            ephemeris_type: self.ephemeris_type,
        })
    }
}

/// One or more digits, and no other character.
fn digits(text: &str) -> Option<u64> {
    let all_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if all_digits { text.parse().ok() } else { None }
}

/// Digits after leading blanks; all blank counts as zero, as old sets have it.
fn padded_integer(text: &str) -> Option<u64> {
    let text = text.trim_start_matches(' ');
    if text.is_empty() {
        Some(0)
    } else {
        digits(text)
    }
}

/// `digits.digits` after leading blanks.
fn padded_decimal(text: &str) -> Option<f64> {
    let text = text.trim_start_matches(' ');
    let (whole, fraction) = text.split_once('.')?;
    digits(whole)?;
    digits(fraction)?;
    text.parse().ok()
}

/// `[sign][digits].digits` after leading blanks.
fn signed_decimal(text: &str) -> Option<f64> {
    let text = text.trim_start_matches(' ');
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.')?;
    if !whole.is_empty() {
        digits(whole)?;
    }
    digits(fraction)?;
    text.parse().ok()
}

/// `[ +-]ddddd[+-]d`: a decimal point is assumed before the five digits.
fn assumed_point(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_at_checked(6)?;
    let negative = match mantissa.as_bytes()[0] {
        b' ' | b'+' => false,
        b'-' => true,
        _ => return None,
    };
    // Leading blanks mean zeros in some old sets.
    let mantissa = mantissa[1..].trim_start_matches(' ');
    digits(mantissa)?;
    let power = match exponent.as_bytes() {
        [b'+', digit @ b'0'..=b'9'] => i32::from(digit - b'0'),
        [b'-', digit @ b'0'..=b'9'] => -i32::from(digit - b'0'),
        _ => return None,
    };
    let sign = if negative { "-" } else { "" };
    format!("{sign}0.{mantissa:0>5}e{power}").parse().ok()
}

/// Day of the year from 1 and its part in 1e-8 days.
fn epoch_day(text: &str) -> Option<(u32, i64)> {
    let (day, fraction) = text.trim_start_matches(' ').split_once('.')?;
    if fraction.len() != 8 {
        return None;
    }
    let day = u32::try_from(digits(day)?).ok()?;
    let fraction = i64::try_from(digits(fraction)?).ok()?;
    // Whether the year has a day 366 is judged with the year at hand.
    (1..=366).contains(&day).then_some((day, fraction))
}

/// Five digits, with leading blanks, or Alpha-5: a letter but I and O for the first two digits,
/// A = 10 to Z = 33.
fn catalogue_number(text: &str) -> Option<u64> {
    let first = *text.as_bytes().first()?;
    if !first.is_ascii_uppercase() {
        let trimmed = text.trim_start_matches(' ');
        return digits(trimmed);
    }
    let letter = u64::from(first - b'A');
    let tens = match first {
        b'A'..=b'H' => letter + 10,
        b'J'..=b'N' => letter + 9,
        b'P'..=b'Z' => letter + 8,
        _ => return None,
    };
    Some(tens * 10_000 + digits(&text[1..])?)
}

/// Returns launch year, number and piece: `98067A  ` becomes `1998-067A`; `Some(None)` for a blank field,
/// `None` for an invalid one.
fn designator(text: &str) -> Option<Option<String>> {
    if text.trim_ascii().is_empty() {
        return Some(None);
    }
    let year = digits(text.get(..2)?)?;
    let launch = text.get(2..5)?;
    digits(launch)?;
    let piece = text.get(5..)?.trim_end_matches(' ');
    let letters = !piece.is_empty() && piece.bytes().all(|byte| byte.is_ascii_uppercase());
    let year = if year < 57 { 2000 + year } else { 1900 + year };
    letters.then(|| Some(format!("{year}-{launch}{piece}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_by_hand() {
        assert_eq!(assumed_point(" 28098-4"), Some(0.28098e-4));
        assert_eq!(assumed_point("-11606-4"), Some(-0.11606e-4));
        assert_eq!(assumed_point("+00000+0"), Some(0.0));
        for bad in ["28098-44", " 28098 4", " 2809.-4", " 28098-x", "       "] {
            assert_eq!(assumed_point(bad), None, "{bad:?}");
        }
        assert_eq!(catalogue_number("00005"), Some(5));
        assert_eq!(catalogue_number("    5"), Some(5));
        assert_eq!(catalogue_number("A0000"), Some(100_000));
        assert_eq!(catalogue_number("H9999"), Some(179_999));
        assert_eq!(catalogue_number("J0000"), Some(180_000));
        assert_eq!(catalogue_number("P0000"), Some(230_000));
        assert_eq!(catalogue_number("Z9999"), Some(339_999));
        for bad in [
            "I0000", "O0000", "a0000", "A 000", "5    ", "     ", "-0005", "AB000",
        ] {
            assert_eq!(catalogue_number(bad), None, "{bad:?}");
        }
        assert_eq!(epoch_day("257.46316094"), Some((257, 46_316_094)));
        assert_eq!(epoch_day("  7.00000000"), Some((7, 0)));
        for bad in [
            "000.50000000",
            "367.00000000",
            "257.4631609 ",
            "2e7.00000000",
            "-57.00000000",
        ] {
            assert_eq!(epoch_day(bad), None, "{bad:?}");
        }
        assert_eq!(signed_decimal(" .00217935"), Some(0.002_179_35));
        assert_eq!(signed_decimal("-.00002182"), Some(-0.000_021_82));
        assert_eq!(signed_decimal("       inf"), None);
        assert_eq!(padded_decimal(" 53.0028"), Some(53.0028));
        assert_eq!(padded_decimal("-53.0028"), None);
        assert_eq!(designator("98067A  "), Some(Some("1998-067A".to_owned())));
        assert_eq!(designator("        "), Some(None));
        assert_eq!(designator("9806 A  "), None);
    }
}
