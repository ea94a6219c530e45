//! Bounds of quantities, written in the schema as quantities.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use constel_units::{
    Angle, DataRate, DataSize, Decibels, FigureOfMerit, Frequency, Length, Power, RainRate, Ratio,
    Speed, Temperature, TimeSpan, Utc,
};
use serde_json::Value;

use crate::schema::Resolved;

/// A bound: on which side of `edge` a value must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bound<'a> {
    pub(crate) rule: Rule,
    pub(crate) edge: &'a str,
}

/// On which side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    AtLeast,
    AtMost,
    MoreThan,
    LessThan,
}

const KEYWORDS: [(&str, Rule); 4] = [
    ("x-minimum", Rule::AtLeast),
    ("x-exclusive-minimum", Rule::MoreThan),
    ("x-maximum", Rule::AtMost),
    ("x-exclusive-maximum", Rule::LessThan),
];

impl fmt::Display for Bound<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self.rule {
            Rule::AtLeast => "at least",
            Rule::AtMost => "at most",
            Rule::MoreThan => "more than",
            Rule::LessThan => "less than",
        };
        write!(f, "{words} {}", self.edge)
    }
}

/// The bounds of a schema, lower before upper.
pub(crate) fn bounds<'a>(schema: Resolved<'a>) -> impl Iterator<Item = Bound<'a>> {
    KEYWORDS.into_iter().filter_map(move |(keyword, rule)| {
        schema
            .get(keyword)
            .and_then(Value::as_str)
            .map(|edge| Bound { rule, edge })
    })
}

/// The first bound that `text`, a valid quantity of `format`, breaks.
pub(crate) fn check_bounds<'a>(
    schema: Resolved<'a>,
    format: &str,
    text: &str,
) -> Option<Bound<'a>> {
    bounds(schema).find(|bound| {
        let order = compare(format, text, bound.edge);
        !match bound.rule {
            Rule::AtLeast => order.is_some_and(Ordering::is_ge),
            Rule::AtMost => order.is_some_and(Ordering::is_le),
            Rule::MoreThan => order.is_some_and(Ordering::is_gt),
            Rule::LessThan => order.is_some_and(Ordering::is_lt),
        }
    })
}

fn compare(format: &str, a: &str, b: &str) -> Option<Ordering> {
    fn of<T: FromStr + PartialOrd>(a: &str, b: &str) -> Option<Ordering> {
        a.parse::<T>().ok()?.partial_cmp(&b.parse::<T>().ok()?)
    }
    match format {
        "length" => of::<Length>(a, b),
        "speed" => of::<Speed>(a, b),
        "angle" => of::<Angle>(a, b),
        "timespan" => of::<TimeSpan>(a, b),
        "datarate" => of::<DataRate>(a, b),
        "datasize" => of::<DataSize>(a, b),
        "ratio" => of::<Ratio>(a, b),
        "frequency" => of::<Frequency>(a, b),
        "power" => of::<Power>(a, b),
        "decibels" => of::<Decibels>(a, b),
        "g-over-t" => of::<FigureOfMerit>(a, b),
        "temperature" => of::<Temperature>(a, b),
        "rainrate" => of::<RainRate>(a, b),
        "utc" => of::<Utc>(a, b),
        _ => None,
    }
}
