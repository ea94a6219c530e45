//! Shards of a sweep: the runs of one machine or job, `2/4`.

use std::fmt;
use std::str::FromStr;

use crate::sweep::design::MOST_CELLS;

/// One of the shards into which the runs of a sweep are divided: `I/N`, with I from 1 to N.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// From 0.
    index: usize,
    of: usize,
}

impl Shard {
    /// Returns the number of this shard, from 1.
    #[must_use]
    pub fn number(self) -> usize {
        self.index + 1
    }

    /// Whether a run belongs to this shard. `place` is the run's index in a sweep of `variants` combinations.
    ///
    /// Every run belongs to exactly one shard, and the numbers of runs of two shards differ by one at most. Plain
    /// dealing (`place % N`) would give a combination to the same shard with every seed if N and the number of
    /// combinations have a common factor: differences between machines would look like differences between
    /// combinations. Therefore the first shard changes whenever the pattern would repeat.
    #[must_use]
    pub(super) fn has(self, place: usize, variants: usize) -> bool {
        let period = variants / gcd(variants, self.of) * self.of;
        (place + place / period.max(1)) % self.of == self.index
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number(), self.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<usize>().ok().filter(|_| digits)
        };
        let parts = text.split_once('/');
        let numbers = parts.and_then(|(i, n)| Some((number(i)?, number(n)?)));
        match numbers {
            Some((number, of)) if (1..=of).contains(&number) && of <= MOST_CELLS => Ok(Self {
                index: number - 1,
                of,
            }),
            _ => Err(format!(
                "`{}` is no shard: write I/N with I from 1 to N and N up to {MOST_CELLS}, for example 2/4",
                text.escape_default()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn shards(of: usize) -> Vec<Shard> {
        (0..of).map(|index| Shard { index, of }).collect()
    }

    #[test]
    fn every_run_is_in_one_shard_and_shards_are_equal() {
        for (variants, seeds, of) in sizes() {
            let cells = variants * seeds;
            let owners = |place| {
                shards(of)
                    .into_iter()
                    .filter(move |s| s.has(place, variants))
            };
            assert!((0..cells).all(|place| owners(place).count() == 1));
            let sizes = shards(of).into_iter().map(|shard| {
                (0..cells)
                    .filter(|&place| shard.has(place, variants))
                    .count()
            });
            let sizes: Vec<usize> = sizes.collect();
            let (least, most) = (sizes.iter().min(), sizes.iter().max());
            assert!(
                most.unwrap() - least.unwrap() <= 1,
                "{variants} {seeds} {of}: {sizes:?}"
            );
        }
    }

    /// With as many seeds as shards, every combination is run once in every shard.
    #[test]
    fn no_combination_stays_in_one_shard() {
        for (variants, _, of) in sizes().filter(|&(_, seeds, _)| seeds == 1) {
            for variant in 0..variants {
                let places = (0..of).map(|seed| seed * variants + variant);
                let owners: BTreeSet<usize> = places
                    .flat_map(|place| {
                        shards(of)
                            .into_iter()
                            .filter(move |s| s.has(place, variants))
                    })
                    .map(Shard::number)
                    .collect();
                assert_eq!(
                    owners.len(),
                    of,
                    "combination {variant} of {variants}, {of} shards"
                );
            }
        }
    }

    /// Numbers of combinations, seeds and shards.
    fn sizes() -> impl Iterator<Item = (usize, usize, usize)> {
        (0..9 * 9 * 9).map(|n| (n / 81 + 1, n / 9 % 9 + 1, n % 9 + 1))
    }

    #[test]
    fn shards_are_counted_from_one() {
        let shard: Shard = "2/4".parse().unwrap();
        assert_eq!((shard.number(), shard.to_string().as_str()), (2, "2/4"));
        for bad in [
            "", "2", "0/4", "5/4", "1/0", "+1/4", "a/b", "1/99999", "1/2/3",
        ] {
            assert!(bad.parse::<Shard>().is_err(), "{bad}");
        }
    }
}
