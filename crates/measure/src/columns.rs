//! Units in the names of columns.

/// The endings of columns' names, and their units.
const UNITS: [(&str, &str); 12] = [
    ("ns", "ns"),
    ("us", "us"),
    ("ms", "ms"),
    ("s", "s"),
    ("bps", "bit/s"),
    ("mbps", "Mbit/s"),
    ("bytes", "B"),
    ("m", "m"),
    ("km", "km"),
    ("deg", "deg"),
    ("percent", "%"),
    ("ratio", "1"),
];

/// Returns the unit of a column, with which its name ends (`delay_ns`: `ns`); `None` for counts, names and texts.
///
/// ```
/// use constel_measure::columns::unit_of_column;
///
/// assert_eq!(unit_of_column("rate_bps"), Some("bit/s"));
/// assert_eq!(unit_of_column("hops"), None);
/// assert_eq!(unit_of_column("s"), None);
/// ```
#[must_use]
pub fn unit_of_column(name: &str) -> Option<&'static str> {
    let (_, last) = name.rsplit_once('_')?;
    let mut known = UNITS.iter();
    known.find(|(word, _)| *word == last).map(|(_, unit)| *unit)
}
