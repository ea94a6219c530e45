//! The description of a sweep in its folder, `sweep.json`.

use serde::{Deserialize, Serialize};

use crate::sweep::design::{Axis, Choice, Design, DesignError};

/// The description of a sweep that is stored at its start, so that a later call continues the same sweep and
/// `constel sweep merge` needs no scenario.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Version of this document, [`Record::VERSION`].
    pub version: u32,
    /// The scenario's file, as the user named it.
    pub scenario: String,
    /// SHA-256 of its text, in hexadecimal digits.
    pub scenario_sha256: String,
    /// The choices of every axis.
    pub axes: Vec<Vec<RecordedChoice>>,
    /// The seeds.
    pub seeds: Vec<u64>,
}

/// One of the values of an axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedChoice {
    /// The name of the choice in tables.
    pub label: String,
    /// The settings that it makes, as `KEY=VALUE`.
    pub set: Vec<String>,
}

impl Record {
    /// The version that this program writes and reads.
    pub const VERSION: u32 = 2;

    /// Returns all settings of all choices, for people.
    #[must_use]
    pub fn settings(&self) -> String {
        let choices = self.axes.iter().flatten();
        let settings: Vec<&str> = choices
            .flat_map(|choice| choice.set.iter().map(String::as_str))
            .collect();
        settings.join(" ")
    }
}

impl Design {
    /// Returns the description that is stored.
    #[must_use]
    pub fn record(&self) -> Record {
        let recorded = |choice: &Choice| RecordedChoice {
            label: choice.label.clone(),
            set: choice.settings.iter().map(ToString::to_string).collect(),
        };
        let choices = |axis: &Axis| axis.0.iter().map(recorded).collect();
        Record {
            version: Record::VERSION,
            scenario: self.file.clone(),
            scenario_sha256: self.digest.clone(),
            axes: self.axes.iter().map(choices).collect(),
            seeds: self.seeds.clone(),
        }
    }

    /// Returns the sweep that a description was made of.
    ///
    /// # Errors
    /// [`DesignError`], as for [`Design::new`], and for a setting that is not `KEY=VALUE`.
    pub fn recorded(record: Record) -> Result<Self, DesignError> {
        let choice = |recorded: RecordedChoice| {
            let settings = recorded.set.iter().map(|setting| setting.parse());
            let settings: Result<_, _> = settings.collect();
            Ok(Choice {
                label: recorded.label,
                settings: settings.map_err(DesignError::NotASetting)?,
            })
        };
        let axis = |choices: Vec<RecordedChoice>| {
            let choices: Result<_, _> = choices.into_iter().map(choice).collect();
            choices.map(Axis)
        };
        let axes: Result<_, _> = record.axes.into_iter().map(axis).collect();
        Self::checked(record.scenario, record.scenario_sha256, axes?, record.seeds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_design_is_the_same_after_it_was_stored() {
        let named = ["x.\"a.b\"=[1, {k: ~}]", "b=20 ms"].map(|set| set.parse().unwrap());
        let axes = vec![
            Axis::named(vec![("mine, all".to_owned(), named.to_vec())]),
            "t[web].c=\"1, 2\",~,null,on".parse().unwrap(),
        ];
        let design = Design::new("a.yaml", "constel: 1\n", axes, vec![3, 1]).unwrap();
        let text = serde_json::to_string(&design.record()).unwrap();
        let again = Design::recorded(serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!(again.record(), design.record());
        let told = |design: &Design| -> Vec<String> {
            let cells = design.cells();
            cells
                .map(|cell| {
                    format!(
                        "{} {} {}",
                        cell.seed, cell.variant.folder, cell.variant.label
                    )
                })
                .collect()
        };
        assert_eq!(told(&again), told(&design));
        assert_eq!(told(&design).len(), 8);
    }

    #[test]
    fn a_foreign_record_is_checked_like_a_command_line() {
        let good = Design::new("a.yaml", "", vec!["a=1,2".parse().unwrap()], vec![1]).unwrap();
        let with = |change: &dyn Fn(&mut Record)| {
            let mut record = good.record();
            change(&mut record);
            Design::recorded(record).map(|design| design.record())
        };
        assert_eq!(with(&|_| ()), Ok(good.record()));
        assert_eq!(
            with(&|r| r.seeds = vec![1, 1]),
            Err(DesignError::SeedTwice(1))
        );
        assert!(matches!(
            with(&|r| r.axes[0][0].set = vec!["a".to_owned()]),
            Err(DesignError::NotASetting(_))
        ));
    }
}
