//! Lists of seeds: `1..10`, `3`, `1,5,9..12`.

use std::str::FromStr;

/// Seeds in the order they are given. Both ends of a range belong to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seeds(pub Vec<u64>);

/// Most seeds of one range.
const MOST: u64 = 10_000;

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            let text = text.trim();
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            let number = text.parse::<u64>().ok().filter(|_| digits);
            number.ok_or_else(|| {
                format!(
                    "`{}` is no seed: seeds are whole numbers from 0, as in 1..10 or 1,5,9",
                    text.escape_default()
                )
            })
        };
        let mut seeds = Vec::new();
        for part in text.split(',') {
            match part.split_once("..") {
                None => seeds.push(number(part)?),
                Some((first, last)) => {
                    let (first, last) = (number(first)?, number(last)?);
                    if last < first {
                        return Err(format!("`{part}` is empty: {last} is less than {first}"));
                    }
                    if last - first >= MOST {
                        return Err(format!("`{part}` has more than {MOST} seeds"));
                    }
                    seeds.extend(first..=last);
                }
            }
        }
        Ok(Self(seeds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_both_ends() {
        assert_eq!("1..3".parse(), Ok(Seeds(vec![1, 2, 3])));
        assert_eq!("7, 1,5..6".parse(), Ok(Seeds(vec![7, 1, 5, 6])));
        for bad in [
            "",
            "a",
            "1..",
            "3..1",
            "-1",
            "+1",
            "1...3",
            "0..99999999999",
            "1,,2",
        ] {
            assert!(bad.parse::<Seeds>().is_err(), "{bad}");
        }
    }
}
