//! Parses instants in the forms of foreign files; all formats use this one parser.
//!
//! | form | who writes it |
//! |---|---|
//! | `2026-11-21T01:02:03.5`, `2026-325T01:02:03.5` | CCSDS 301.0-B (ASCII time codes A and B), with `Z` or without |
//! | `2026-11-21T01:02:03.5+00:00` | RFC 3339: Python, JavaScript libraries; other offsets are refused |
//! | `2026-11-21 01:02:03.5` | Space-Track, spreadsheets |
//! | `21 Nov 2026 01:02:03.5`, `Nov 21 2026 01:02:03.5` | STK (`UTCG`) |
//! | `2026 11 21 1 2 3.50000000` | SP3 |

use crate::error::UnitError;
use crate::utc::{UTC, Utc, days_from_date, days_in_month, from_parts};

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];

/// Parses an instant in any of the forms above. Digits beyond nanoseconds are rounded.
///
/// The text has no leap seconds or time scale: the result is the instant at which a UTC clock shows this text. For a file in
/// TAI, TT or GPS time, `constel_orbit::scales` converts it to UTC.
///
/// # Errors
/// [`UnitError::BadInstant`] for any other text, for dates that do not exist, and for a second 60.
pub fn instant(text: &str) -> Result<Utc, UnitError> {
    let bad = |reason: &str| UnitError::BadInstant {
        text: text.chars().take(60).collect(),
        reason: reason.to_owned(),
        example: UTC.example,
    };
    let trimmed = text.trim();
    // RFC 3339 writes UTC in three forms.
    let zone = ["Z", "z", "+00:00", "-00:00"];
    let bare = zone.iter().find_map(|zone| trimmed.strip_suffix(zone));
    let bare = bare.unwrap_or(trimmed).trim_end();
    let form = || bad("expected a date and a time, like 2026-11-21T01:02:03.5");
    let (date, time) = split(bare).ok_or_else(form)?;
    let (year, month, day) = date_of(date).ok_or_else(form)?;
    let clock: Vec<&str> = if time.contains(':') {
        time.split(':').collect()
    } else {
        time.split_whitespace().collect()
    };
    let [hour, minute, second] = clock[..] else {
        return Err(form());
    };
    let (whole, fraction) = second.split_once('.').unwrap_or((second, ""));
    let (Some(hour), Some(minute), Some(second)) = (digits(hour), digits(minute), digits(whole))
    else {
        return Err(form());
    };
    let fraction_ns = nanoseconds(fraction).ok_or_else(form)?;
    if !(1..=12).contains(&month) || !(1..=days_in_month(year, month)).contains(&day) {
        return Err(bad("there is no such date"));
    }
    if second == 60 {
        return Err(bad(
            "second must be 00 to 59 (leap seconds are not represented)",
        ));
    }
    // 24:00:00 is the end of a day in ISO 8601; SP3 and CCSDS do not write it.
    if hour > 23 || minute > 59 || second > 59 {
        return Err(bad("time of day must be 00:00:00 to 23:59:59"));
    }
    let seconds = hour * 3600 + minute * 60 + second;
    from_parts(days_from_date(year, month, day), seconds, fraction_ns)
        .ok_or_else(|| UTC.out_of_range(trimmed))
}

/// Splits a text into the date and the time of day.
fn split(text: &str) -> Option<(&str, &str)> {
    if !text.is_ascii() {
        return None;
    }
    if let Some(parts) = text.split_once(['T', 't']).filter(|(date, time)| {
        // The T of `Oct` is not the separator between date and time.
        date.ends_with(|c: char| c.is_ascii_digit())
            && time.starts_with(|c: char| c.is_ascii_digit())
    }) {
        return Some(parts);
    }
    if text.contains(':') {
        return text.rsplit_once(' ');
    }
    // Six numbers: the first three are the date.
    let mut left = text;
    for _ in 0..3 {
        left = left.trim_start();
        left = &left[left.find(' ')?..];
    }
    Some((&text[..text.len() - left.len()], left))
}

/// Parses year, month and day; the day's range is not checked.
fn date_of(text: &str) -> Option<(i64, i64, i64)> {
    let parts: Vec<&str> = text
        .split(|c: char| c == '-' || c == '/' || c.is_ascii_whitespace())
        .filter(|part| !part.is_empty())
        .collect();
    let year = |text: &str| digits(text).filter(|_| text.len() == 4);
    let named = |text: &str| {
        let short = text.get(..3)?.to_ascii_lowercase();
        let at = MONTHS.iter().position(|month| *month == short)?;
        i64::try_from(at + 1).ok()
    };
    match parts[..] {
        [y, of_year] if of_year.len() == 3 => {
            let (year, day) = (year(y)?, digits(of_year)?);
            // Month 0 does not exist: the form is right, and the date is not.
            Some(day_of_year(year, day).unwrap_or((year, 0, day)))
        }
        [a, b, c] => match (named(a), named(b)) {
            (Some(month), None) => Some((year(c)?, month, digits(b)?)),
            (None, Some(month)) => Some((year(c)?, month, digits(a)?)),
            _ => Some((year(a)?, digits(b)?, digits(c)?)),
        },
        _ => None,
    }
}

/// Returns the date of a day of a year, from 1.
fn day_of_year(year: i64, day: i64) -> Option<(i64, i64, i64)> {
    let mut left = day;
    for month in 1..=12 {
        let length = days_in_month(year, month);
        if (1..=length).contains(&left) {
            return Some((year, month, left));
        }
        left -= length;
    }
    None
}

/// Parses a text of one to four digits.
fn digits(text: &str) -> Option<i64> {
    let good = (1..=4).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    good.then(|| text.parse().ok()).flatten()
}

/// Returns the digits after a decimal point as nanoseconds, rounded.
fn nanoseconds(fraction: &str) -> Option<i64> {
    if !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let kept: i64 = format!("{:0<9.9}", fraction).parse().ok()?;
    let up = fraction.as_bytes().get(9).is_some_and(|b| *b >= b'5');
    Some(kept + i64::from(up))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_instant_in_every_form() {
        let want: Utc = "2026-11-21T01:02:03.5Z".parse().unwrap();
        for text in [
            "2026-11-21T01:02:03.5",
            "2026-11-21T01:02:03.5Z",
            "2026-11-21t01:02:03.5z",
            "2026-11-21T01:02:03.5+00:00",
            "2026-11-21T01:02:03.500-00:00",
            "2026-11-21 01:02:03.5+00:00",
            "2026-325T01:02:03.5+00:00",
            " 2026-11-21 01:02:03.500000000000 ",
            "2026-11-21 01:02:03.5 Z",
            "2026-325T01:02:03.5Z",
            "2026-325 01:02:03.5",
            "2026/11/21 01:02:03.5",
            "21 Nov 2026 01:02:03.5",
            "Nov 21 2026 01:02:03.5",
            "21 November 2026 1:02:03.5",
            "2026 11 21  1  2  3.50000000",
        ] {
            assert_eq!(instant(text), Ok(want), "{text}");
        }
        let october: Utc = "2026-10-01T00:00:00Z".parse().unwrap();
        assert_eq!(instant("1 Oct 2026 00:00:00.0"), Ok(october));
        let leap: Utc = "2024-12-31T00:00:00Z".parse().unwrap();
        assert_eq!(instant("2024-366T00:00:00"), Ok(leap));
        let rounded: Utc = "2026-11-21T00:00:01Z".parse().unwrap();
        assert_eq!(instant("2026-11-21T00:00:00.9999999999"), Ok(rounded));
    }

    #[test]
    fn other_texts_are_no_instants() {
        for text in [
            "",
            "T",
            "2026-11-21",
            "2026-366T00:00:00",
            "2026-000T00:00:00",
            "2026-02-29T00:00:00",
            "2026-1-1-1T00:00:00",
            "é-éééT0",
            "2026-11-21T24:00:00",
            "2026-12-31T23:59:60",
            "2026-11-21T00:00:00+01:00",
            "2026-11-21T00:00:00+00:01",
            "2026-11-21T00:00:00+0000",
            "2026-11-21T+00:00",
            "2026-11-21+00:00",
            "+00:00",
            "2026-11-21T00:00:00Z+00:00",
            "2026-11-21T00:00",
            "26-11-21T00:00:00",
            "2026-11-21T00:00:-1",
            "2026-11-21T00:00:00.5.5",
            "1 2 3 4 5",
            "9999-01-01T00:00:00",
            "+026-11-21T00:00:00",
        ] {
            assert!(instant(text).is_err(), "{text}");
        }
        for text in [
            "2026-366T00:00:00",
            "2026-000T00:00:00",
            "2026-02-29T00:00:00",
        ] {
            let error = instant(text).unwrap_err().to_string();
            assert!(error.contains("there is no such date"), "{error}");
        }
    }
}
