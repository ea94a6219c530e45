//! Splits a text into a number and its unit, and suggests corrections.

use crate::decimal::{Decimal, NumberError};
use crate::error::UnitError;
use crate::format::QUANTITIES;
use crate::quantity::{Quantity, Unit};

impl Quantity {
    /// Splits `text` into its number and the unit of this quantity.
    pub(crate) fn split(&self, text: &str) -> Result<(Decimal, &'static Unit), UnitError> {
        let (number, rest) = Decimal::split(text.trim()).map_err(|error| match error {
            NumberError::Syntax => UnitError::NotANumber {
                quantity: self.name,
                text: text.to_owned(),
                example: self.example,
            },
            NumberError::TooLong => self.out_of_range(text),
        })?;
        let unit = rest.trim_start();
        if unit.is_empty() {
            return Err(UnitError::MissingUnit {
                quantity: self.name,
                text: text.to_owned(),
                allowed: self.allowed(),
                example: self.example,
            });
        }
        match self.units.iter().find(|candidate| candidate.name == unit) {
            Some(found) => Ok((number, found)),
            None => Err(UnitError::UnknownUnit {
                quantity: self.name,
                unit: unit.to_owned(),
                allowed: self.allowed(),
                hint: self.hint(unit),
            }),
        }
    }

    /// Parses `text` to a whole number of the smallest unit, `smallest`.
    pub(crate) fn parse_integer(
        &self,
        text: &str,
        smallest: &'static str,
    ) -> Result<i128, UnitError> {
        let (number, unit) = self.split(text)?;
        match number.times_exact(unit.factor) {
            Ok(Some(value)) => Ok(value),
            Ok(None) => Err(UnitError::LosesPrecision {
                quantity: self.name,
                text: text.to_owned(),
                smallest,
            }),
            Err(()) => Err(self.out_of_range(text)),
        }
    }

    pub(crate) fn out_of_range(&self, text: &str) -> UnitError {
        UnitError::OutOfRange {
            quantity: self.name,
            text: text.to_owned(),
            range: self.range,
        }
    }

    pub(crate) fn allowed(&self) -> Vec<&'static str> {
        self.units.iter().map(|unit| unit.name).collect()
    }

    /// Returns the advice for an unknown unit: a known mistake, another quantity's unit, another case, or one edit away.
    fn hint(&self, unit: &str) -> Option<String> {
        if let Some((_, advice)) = self.hints.iter().find(|(wrong, _)| *wrong == unit) {
            return Some((*advice).to_owned());
        }
        for other in QUANTITIES {
            if other.name != self.name && other.units.iter().any(|known| known.name == unit) {
                return Some(format!("{unit:?} is a unit of {}", other.name));
            }
        }
        let meant = self
            .units
            .iter()
            .find(|known| known.name.eq_ignore_ascii_case(unit))
            .or_else(|| {
                self.units
                    .iter()
                    .find(|known| one_edit_apart(known.name, unit))
            })?;
        Some(format!("did you mean {:?}?", meant.name))
    }
}

/// Returns whether `a` and `b` differ by at most one inserted, removed or replaced character.
fn one_edit_apart(a: &str, b: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().min(b.len()) < 2 {
        return false; // for one-letter units everything is one edit away
    }
    let (long, short) = if a.len() >= b.len() {
        (&a, &b)
    } else {
        (&b, &a)
    };
    let prefix = long
        .iter()
        .zip(short.iter())
        .take_while(|(x, y)| x == y)
        .count();
    match long.len() - short.len() {
        0 => long.get(prefix + 1..) == short.get(prefix + 1..) || prefix == long.len(),
        1 => long[prefix + 1..] == short[prefix..],
        _ => false,
    }
}
