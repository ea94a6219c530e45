//! Exact decimal numbers: sign, integer mantissa, power of ten. No function here rounds.

use std::fmt;

/// `(-1)^negative * mantissa * 10^exponent`, mantissa without trailing zeros (zero: exponent 0).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decimal {
    pub(crate) negative: bool,
    pub(crate) mantissa: u128,
    pub(crate) exponent: i32,
}

/// The reason why the leading number of a text could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NumberError {
    /// No decimal number at the start.
    Syntax,
    /// More digits or a larger exponent than any quantity can use.
    TooLong,
}

/// Exponents beyond this are out of every quantity's range; the bound keeps arithmetic on
/// exponents from overflowing.
const EXPONENT_LIMIT: i32 = 400;

impl Decimal {
    /// Splits `text` into its leading number and the rest.
    /// Grammar: `[+-]? digits ('.' digits)? ([eE] [+-]? digits)?`. An `e` not followed by an
    /// exponent belongs to the rest.
    pub(crate) fn split(text: &str) -> Result<(Self, &str), NumberError> {
        let bytes = text.as_bytes();
        let mut at = 0;
        let negative = match bytes.first() {
            Some(b'-') => {
                at += 1;
                true
            }
            Some(b'+') => {
                at += 1;
                false
            }
            _ => false,
        };
        let mut mantissa: u128 = 0;
        let mut exponent: i32 = 0;
        let mut pending_zeros: u32 = 0;
        let digits_from = at;
        let mut take = |digit: u8, fraction: bool| -> Result<(), NumberError> {
            // Zeros are held back until a later digit proves them significant, so that long
            // runs of trailing zeros do not overflow the mantissa.
            if digit == b'0' {
                pending_zeros = pending_zeros.checked_add(1).ok_or(NumberError::TooLong)?;
            } else {
                let shift = pending_zeros + 1;
                if mantissa != 0 {
                    let power = 10u128.checked_pow(shift).ok_or(NumberError::TooLong)?;
                    mantissa = mantissa.checked_mul(power).ok_or(NumberError::TooLong)?;
                }
                mantissa = mantissa
                    .checked_add(u128::from(digit - b'0'))
                    .ok_or(NumberError::TooLong)?;
                pending_zeros = 0;
            }
            if fraction {
                exponent = exponent.checked_sub(1).ok_or(NumberError::TooLong)?;
            }
            Ok(())
        };
        while let Some(digit @ b'0'..=b'9') = bytes.get(at).copied() {
            take(digit, false)?;
            at += 1;
        }
        if at == digits_from {
            return Err(NumberError::Syntax);
        }
        if bytes.get(at) == Some(&b'.') {
            let fraction_from = at + 1;
            at = fraction_from;
            while let Some(digit @ b'0'..=b'9') = bytes.get(at).copied() {
                take(digit, true)?;
                at += 1;
            }
            if at == fraction_from {
                return Err(NumberError::Syntax);
            }
        }
        if mantissa != 0 {
            let zeros = i32::try_from(pending_zeros).map_err(|_| NumberError::TooLong)?;
            exponent = exponent.checked_add(zeros).ok_or(NumberError::TooLong)?;
        }
        if matches!(bytes.get(at), Some(b'e' | b'E')) {
            let mut end = at + 1;
            if matches!(bytes.get(end), Some(b'+' | b'-')) {
                end += 1;
            }
            let exponent_digits_from = end;
            while matches!(bytes.get(end), Some(b'0'..=b'9')) {
                end += 1;
            }
            if end > exponent_digits_from {
                let given: i32 = text[at + 1..end]
                    .parse()
                    .map_err(|_| NumberError::TooLong)?;
                exponent = exponent.checked_add(given).ok_or(NumberError::TooLong)?;
                at = end;
            }
        }
        if mantissa == 0 {
            exponent = 0;
        } else if exponent.abs() > EXPONENT_LIMIT {
            return Err(NumberError::TooLong);
        }
        Ok((
            Self {
                negative: negative && mantissa != 0,
                mantissa,
                exponent,
            },
            &text[at..],
        ))
    }

    /// Returns the shortest decimal that reads back as `value`. `value` must be finite.
    pub(crate) fn from_f64(value: f64) -> Self {
        match Self::split(&format!("{value:e}")) {
            Ok((decimal, _)) => decimal,
            Err(_) => unreachable!("finite f64 {value} prints at most 17 digits"),
        }
    }

    /// Converts an integer to a decimal.
    pub(crate) fn from_integer(value: i128) -> Self {
        let mut decimal = Self {
            negative: value < 0,
            mantissa: value.unsigned_abs(),
            exponent: 0,
        };
        while decimal.mantissa != 0 && decimal.mantissa.is_multiple_of(10) {
            decimal.mantissa /= 10;
            decimal.exponent += 1;
        }
        decimal
    }

    /// Returns the same digits times `10^power`.
    pub(crate) fn shifted(mut self, power: i32) -> Self {
        if self.mantissa != 0 {
            self.exponent += power;
        }
        self
    }

    /// Returns the nearest f64 (correctly rounded); infinite if too large.
    pub(crate) fn to_f64(self) -> f64 {
        let sign = if self.negative { "-" } else { "" };
        format!("{sign}{}e{}", self.mantissa, self.exponent)
            .parse()
            .unwrap_or(f64::INFINITY)
    }

    /// Returns `self * factor` as an integer. `Ok(None)`: has a fraction; `Err(())`: does not fit.
    pub(crate) fn times_exact(self, factor: u64) -> Result<Option<i128>, ()> {
        if self.mantissa == 0 {
            return Ok(Some(0));
        }
        let mut mantissa = self.mantissa;
        let mut factor = u128::from(factor);
        let mut exponent = self.exponent;
        // Cancel the negative powers of ten prime by prime, in whichever of the two has them,
        // before multiplying: no intermediate overflow for numbers that do fit.
        let (mut twos, mut fives) = if exponent < 0 {
            (-exponent, -exponent)
        } else {
            (0, 0)
        };
        exponent = exponent.max(0);
        for (prime, left) in [(2, &mut twos), (5, &mut fives)] {
            while *left > 0 && mantissa.is_multiple_of(prime) {
                mantissa /= prime;
                *left -= 1;
            }
            while *left > 0 && factor.is_multiple_of(prime) {
                factor /= prime;
                *left -= 1;
            }
            if *left > 0 {
                return Ok(None);
            }
        }
        let power = 10u128.checked_pow(exponent.unsigned_abs()).ok_or(())?;
        let value = mantissa
            .checked_mul(factor)
            .and_then(|product| product.checked_mul(power))
            .and_then(|product| i128::try_from(product).ok())
            .ok_or(())?;
        Ok(Some(if self.negative { -value } else { value }))
    }

    /// Returns the number of digits after the decimal point when printed plainly.
    pub(crate) fn decimals(self) -> u32 {
        self.exponent.min(0).unsigned_abs()
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.negative { "-" } else { "" };
        let digits = self.mantissa.to_string();
        let point = digits.len() as i32 + self.exponent;
        if !(-8..=21).contains(&point) {
            return write!(f, "{sign}{digits}e{}", self.exponent);
        }
        if self.exponent >= 0 {
            write!(f, "{sign}{digits}{}", "0".repeat(self.exponent as usize))
        } else if point > 0 {
            let (whole, fraction) = digits.split_at(point as usize);
            write!(f, "{sign}{whole}.{fraction}")
        } else {
            write!(
                f,
                "{sign}0.{}{digits}",
                "0".repeat(point.unsigned_abs() as usize)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Decimal {
        Decimal::split(text).expect("valid").0
    }

    #[test]
    fn splits_number_and_rest() {
        assert_eq!(Decimal::split("1e3km").unwrap().1, "km");
        assert_eq!(Decimal::split("1 e").unwrap().1, " e");
        assert_eq!(Decimal::split("2em").unwrap().1, "em");
        assert_eq!(
            number("1200"),
            Decimal {
                negative: false,
                mantissa: 12,
                exponent: 2
            }
        );
        assert_eq!(
            number("-0.0120"),
            Decimal {
                negative: true,
                mantissa: 12,
                exponent: -3
            }
        );
        assert_eq!(
            number("100.001"),
            Decimal {
                negative: false,
                mantissa: 100_001,
                exponent: -3
            }
        );
        assert_eq!(
            number("-0.00"),
            Decimal {
                negative: false,
                mantissa: 0,
                exponent: 0
            }
        );
        for bad in ["", "km", ".5 m", "5. m", "-", "+-1", "NaN", "inf", "٣"] {
            assert_eq!(Decimal::split(bad), Err(NumberError::Syntax), "{bad}");
        }
        for bad in ["1e999999999999", "1e401", &"9".repeat(60)] {
            assert_eq!(Decimal::split(bad), Err(NumberError::TooLong), "{bad}");
        }
        assert_eq!(number(&format!("1{}", "0".repeat(60))).exponent, 60);
    }

    #[test]
    fn multiplies_without_rounding() {
        assert_eq!(
            number("0.1").times_exact(1_000_000_000),
            Ok(Some(100_000_000))
        );
        assert_eq!(number("0.5").times_exact(1024), Ok(Some(512)));
        assert_eq!(number("0.0009765625").times_exact(1024), Ok(Some(1)));
        assert_eq!(number("0.3").times_exact(1024), Ok(None));
        assert_eq!(number("1e40").times_exact(1), Err(()));
        assert_eq!(number("-1.5").times_exact(2), Ok(Some(-3)));
    }

    #[test]
    fn prints_plainly_within_reason() {
        for text in [
            "0",
            "550",
            "0.001",
            "-12.5",
            "1e300",
            "1e-300",
            "0.000000012",
        ] {
            let decimal = number(text);
            assert_eq!(number(&decimal.to_string()), decimal, "{text}");
        }
        assert_eq!(number("1.50e3").to_string(), "1500");
        assert_eq!(number("1e300").to_string(), "1e300");
    }
}
