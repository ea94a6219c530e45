//! The runs of a sweep.

use std::fmt;
use std::str::FromStr;

use constel_scenario::{NotASetting, Setting, slug};
use sha2::{Digest, Sha256};

use crate::sweep::shard::Shard;

/// Most runs of a sweep.
pub(super) const MOST_CELLS: usize = 10_000;

/// Longest part of a folder's name that contains the differences, bytes.
const LONGEST_SLUG: usize = 80;

/// The differences between runs: a place of the scenario and the values that it takes, `KEY=A,B,C`; or
/// [named](Self::named) choices.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis(pub(super) Vec<Choice>);

/// One of the values of an axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Choice {
    pub(super) label: String,
    pub(super) settings: Vec<Setting>,
}

impl Axis {
    /// Choices with names, each with all that it sets.
    #[must_use]
    pub fn named(choices: Vec<(String, Vec<Setting>)>) -> Self {
        let choice = |(label, settings)| Choice { label, settings };
        Self(choices.into_iter().map(choice).collect())
    }

    /// Whether there are several values; otherwise all runs have the only one.
    #[must_use]
    pub fn varies(&self) -> bool {
        self.0.len() > 1
    }

    /// The places that it sets, each once.
    fn keys(&self) -> Vec<String> {
        let settings = self.0.iter().flat_map(|choice| &choice.settings);
        let mut keys: Vec<String> = settings.map(Setting::key).collect();
        keys.sort();
        keys.dedup();
        keys
    }
}

impl FromStr for Axis {
    type Err = NotASetting;

    fn from_str(text: &str) -> Result<Self, NotASetting> {
        let choice = |setting: Setting| Choice {
            label: format!("{}={}", last_word(&setting.key()), setting.value()),
            settings: vec![setting],
        };
        Ok(Self(Setting::each(text)?.into_iter().map(choice).collect()))
    }
}

/// A sweep: a scenario, the differences between its runs, and the seeds.
#[derive(Debug, Clone, PartialEq)]
pub struct Design {
    pub(super) file: String,
    pub(super) digest: String,
    pub(super) axes: Vec<Axis>,
    pub(super) seeds: Vec<u64>,
}

/// A combination of values.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// The variant's index among all, from 0.
    pub index: usize,
    /// All that is set in the scenario's file.
    pub settings: Vec<Setting>,
    /// The settings that differ from the other variants, for people: `congestion=bbr`; `as it is` without such
    /// settings.
    pub label: String,
    /// The label as the name of a folder.
    pub folder: String,
}

/// One run of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// The cell's combination of values.
    pub variant: Variant,
    /// The cell's seed.
    pub seed: u64,
}

/// The reason why a sweep is not possible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DesignError {
    /// No seed is given.
    NoSeeds,
    /// A seed is given twice.
    SeedTwice(u64),
    /// A place is given twice.
    KeyTwice(String),
    /// A value is given twice for one place.
    ValueTwice(String),
    /// The seed is not an axis.
    SeedAsAxis,
    /// Too many runs to wait for.
    TooMany(usize),
    /// A setting of a stored sweep is not `KEY=VALUE`.
    NotASetting(NotASetting),
}

impl fmt::Display for DesignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSeeds => f.write_str("no seeds: 1..10 are ten, 1,5,9 are three"),
            Self::SeedTwice(seed) => write!(f, "seed {seed} is given twice; it would count twice"),
            Self::KeyTwice(key) => write!(
                f,
                "`{key}` is given twice; write all its values after one `{key}=`"
            ),
            Self::ValueTwice(setting) => {
                write!(f, "`{setting}` is given twice; it would count twice")
            }
            Self::SeedAsAxis => {
                f.write_str("`seed` is not set here; the seeds of all runs are given with --seeds")
            }
            Self::TooMany(cells) => write!(f, "{cells} runs; at most {MOST_CELLS} make a sweep"),
            Self::NotASetting(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for DesignError {}

impl Design {
    /// Every combination of the axes' values with every seed. `text` is what `file` holds.
    ///
    /// # Errors
    /// [`DesignError`].
    pub fn new(
        file: &str,
        text: &str,
        axes: Vec<Axis>,
        seeds: Vec<u64>,
    ) -> Result<Self, DesignError> {
        let digest = Sha256::digest(text.as_bytes());
        let digest = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Self::checked(file.to_owned(), digest, axes, seeds)
    }

    pub(super) fn checked(
        file: String,
        digest: String,
        axes: Vec<Axis>,
        seeds: Vec<u64>,
    ) -> Result<Self, DesignError> {
        if seeds.is_empty() {
            return Err(DesignError::NoSeeds);
        }
        if let Some(seed) = repeated(&seeds) {
            return Err(DesignError::SeedTwice(*seed));
        }
        let keys: Vec<String> = axes.iter().flat_map(Axis::keys).collect();
        if keys.iter().any(|key| key == "seed") {
            return Err(DesignError::SeedAsAxis);
        }
        if let Some(key) = repeated(&keys) {
            return Err(DesignError::KeyTwice(key.clone()));
        }
        for axis in &axes {
            let told: Vec<String> = axis.0.iter().map(Choice::told).collect();
            let labels: Vec<String> = axis.0.iter().map(|choice| choice.label.clone()).collect();
            if let Some(value) = repeated(&told).or(repeated(&labels)) {
                return Err(DesignError::ValueTwice(value.clone()));
            }
        }
        let lengths = axes.iter().map(|axis| axis.0.len());
        let cells = lengths.fold(seeds.len(), usize::saturating_mul);
        if cells > MOST_CELLS {
            return Err(DesignError::TooMany(cells));
        }
        Ok(Self {
            file,
            digest,
            axes,
            seeds,
        })
    }

    /// The combinations; the last axis changes fastest.
    #[must_use]
    pub fn variants(&self) -> Vec<Variant> {
        let mut combinations: Vec<Vec<(&Choice, bool)>> = vec![Vec::new()];
        for axis in &self.axes {
            let mut longer = Vec::with_capacity(combinations.len() * axis.0.len());
            for known in &combinations {
                for choice in &axis.0 {
                    let mut known = known.clone();
                    known.push((choice, axis.varies()));
                    longer.push(known);
                }
            }
            combinations = longer;
        }
        let variant = |(index, choices): (usize, Vec<(&Choice, bool)>)| {
            let chosen = choices.iter().filter(|(_, varies)| *varies);
            let told: Vec<&str> = chosen.map(|(choice, _)| choice.label.as_str()).collect();
            let label = match told.as_slice() {
                [] => "as it is".to_owned(),
                told => told.join(", "),
            };
            let mut slug = slug(&label);
            slug.truncate(LONGEST_SLUG);
            let settings = choices
                .iter()
                .flat_map(|(choice, _)| choice.settings.clone());
            Variant {
                index,
                folder: format!("{index:02}-{}", slug.trim_end_matches('-')),
                settings: settings.collect(),
                label,
            }
        };
        combinations.into_iter().enumerate().map(variant).collect()
    }

    /// The runs in their order: all combinations with one seed, then with the next, so that changes on the host
    /// in the meantime affect all combinations equally.
    pub fn cells(&self) -> impl Iterator<Item = Cell> {
        let variants = self.variants();
        self.seeds.iter().flat_map(move |&seed| {
            let variants = variants.clone().into_iter();
            variants.map(move |variant| Cell { variant, seed })
        })
    }

    /// The runs of a shard in the order of [`cells`](Self::cells); all runs without one.
    pub fn cells_of(&self, shard: Option<Shard>) -> impl Iterator<Item = Cell> {
        let variants = self.variants().len();
        let cells = self.cells().enumerate();
        let own = cells.filter(move |(at, _)| shard.is_none_or(|shard| shard.has(*at, variants)));
        own.map(|(_, cell)| cell)
    }

    /// The scenario's file, as the user named it.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The seeds.
    #[must_use]
    pub fn seeds(&self) -> &[u64] {
        &self.seeds
    }
}

impl Choice {
    /// All that it sets.
    fn told(&self) -> String {
        let settings: Vec<String> = self.settings.iter().map(ToString::to_string).collect();
        settings.join(" ")
    }
}

/// `traffic[0].tcp.congestion` is `congestion` to people.
fn last_word(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

fn repeated<T: PartialEq>(items: &[T]) -> Option<&T> {
    let mut rest = items.iter().enumerate();
    rest.find_map(|(at, item)| items[..at].contains(item).then_some(item))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn design(axes: &[&str], seeds: &[u64]) -> Result<Design, DesignError> {
        let axes = axes.iter().map(|axis| axis.parse().unwrap()).collect();
        Design::new("a.yaml", "constel: 1\n", axes, seeds.to_vec())
    }

    #[test]
    fn every_combination_meets_every_seed_in_turn() {
        let design = design(
            &["a.rate=1 Mbit/s, 2 Mbit/s", "b=[x, y]", "c.d={k: 1},~"],
            &[7, 8],
        )
        .unwrap();
        let told: Vec<String> = design
            .cells()
            .map(|cell| {
                format!(
                    "{} {} {}",
                    cell.seed, cell.variant.folder, cell.variant.label
                )
            })
            .collect();
        assert_eq!(told[0], "7 00-rate-1-mbit-s-d-k-1 rate=1 Mbit/s, d={k: 1}");
        assert_eq!(told[1], "7 01-rate-1-mbit-s-d rate=1 Mbit/s, d=\"~\"");
        assert_eq!((told.len(), &told[4][..4]), (8, "8 00"));
        let set: Vec<String> = design.variants()[3]
            .settings
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(set, ["a.rate=2 Mbit/s", "b=[x, y]", "c.d=\"~\""]);
    }

    #[test]
    fn without_axes_only_seeds_differ() {
        let design = design(&[], &[1, 2]).unwrap();
        let labels: Vec<_> = design.cells().map(|cell| cell.variant.label).collect();
        assert_eq!(labels, ["as it is", "as it is"]);
    }

    #[test]
    fn choices_have_names_and_set_several_places() {
        let set = |text: &[&str]| {
            text.iter()
                .map(|s| s.parse().unwrap())
                .collect::<Vec<Setting>>()
        };
        let named = [("leotp", &["a=1", "b=2"][..]), ("tcp", &["a=2"])];
        let named = named.map(|(name, text)| (name.to_owned(), set(text)));
        let axes = vec![Axis::named(named.to_vec()), "c=1,2".parse().unwrap()];
        let design = Design::new("a.yaml", "", axes.clone(), vec![1]).unwrap();
        let told: Vec<String> = design
            .variants()
            .iter()
            .map(|v| format!("{} {}", v.folder, v.settings.len()))
            .collect();
        assert_eq!(
            told,
            [
                "00-leotp-c-1 3",
                "01-leotp-c-2 3",
                "02-tcp-c-1 2",
                "03-tcp-c-2 2"
            ]
        );
        let again = vec![axes[0].clone(), "b=3".parse().unwrap()];
        assert_eq!(
            Design::new("", "", again, vec![1]),
            Err(DesignError::KeyTwice("b".to_owned()))
        );
    }

    #[test]
    fn nothing_counts_twice() {
        assert_eq!(design(&[], &[]), Err(DesignError::NoSeeds));
        assert_eq!(design(&[], &[1, 2, 1]), Err(DesignError::SeedTwice(1)));
        assert_eq!(
            design(&["a=1", "a=2"], &[1]),
            Err(DesignError::KeyTwice("a".to_owned()))
        );
        assert_eq!(
            design(&["a=1,2,1"], &[1]),
            Err(DesignError::ValueTwice("a=1".to_owned()))
        );
        assert_eq!(design(&["seed=1,2"], &[1]), Err(DesignError::SeedAsAxis));
        let many: Vec<u64> = (0..=10_000).collect();
        assert_eq!(design(&[], &many), Err(DesignError::TooMany(10_001)));
    }
}
