//! Changes of the edge table: validated as a whole and applied as a whole.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::types::{Impairment, Loss, PortId};

/// One change of one edge.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EdgeChange {
    /// Create the edge with this impairment, or give an existing edge this impairment.
    Set {
        /// Port the frames leave.
        from: PortId,
        /// Port the frames reach.
        to: PortId,
        /// The edge's impairment.
        impairment: Impairment,
    },
    /// Remove the edge. Frames that wait for service are dropped, frames in flight still arrive.
    Remove {
        /// Port the frames leave.
        from: PortId,
        /// Port the frames reach.
        to: PortId,
    },
}

impl EdgeChange {
    /// Returns the edge, as (from, to).
    #[must_use]
    pub fn edge(&self) -> (PortId, PortId) {
        match *self {
            EdgeChange::Set { from, to, .. } | EdgeChange::Remove { from, to } => (from, to),
        }
    }
}

/// A set of changes that takes effect at one instant, completely or not at all.
///
/// An edge may be named once per update. The order does not affect the result; changes sorted by (from, to) are checked
/// fastest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EdgeUpdate {
    /// The changes.
    pub changes: Vec<EdgeChange>,
}

/// One error in an update.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ChangeError {
    /// A port number that the table does not have.
    #[error("edge {from} -> {to}: {port} does not exist (the table has {ports} ports)")]
    NoSuchPort {
        /// Edge start.
        from: PortId,
        /// Edge end.
        to: PortId,
        /// The port that does not exist.
        port: PortId,
        /// Ports in the table.
        ports: u32,
    },
    /// An edge from a port to itself.
    #[error("edge {port} -> {port}: an edge cannot end at its own port")]
    SelfEdge {
        /// The port.
        port: PortId,
    },
    /// Loss outside 0..=1 or not a number.
    #[error("edge {from} -> {to}: loss ratio {loss_ratio} is not within 0..=1")]
    LossRatio {
        /// Edge start.
        from: PortId,
        /// Edge end.
        to: PortId,
        /// The value given.
        loss_ratio: f64,
    },
    /// An edge named twice.
    #[error("edge {from} -> {to}: named more than once in one update")]
    Duplicate {
        /// Edge start.
        from: PortId,
        /// Edge end.
        to: PortId,
    },
    /// A profile that the table does not have.
    #[error("edge {from} -> {to}: there is no profile {profile}")]
    NoSuchProfile {
        /// Edge start.
        from: PortId,
        /// Edge end.
        to: PortId,
        /// The number given.
        profile: u16,
    },
    /// Removal of an edge that does not exist.
    #[error("edge {from} -> {to}: cannot be removed, it does not exist")]
    NoSuchEdge {
        /// Edge start.
        from: PortId,
        /// Edge end.
        to: PortId,
    },
}

/// All errors in an update; no change was applied.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{} of the edge changes cannot be made; first: {}", .errors.len(), .errors[0])]
pub struct UpdateError {
    /// The errors, at least one.
    pub errors: Vec<ChangeError>,
}

/// An update whose own values are valid for a table of `ports` ports. Only the table can check that the edges to be
/// removed exist.
///
/// [`EdgeUpdate::check`] creates it, so that a data plane can do this work on another thread.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedUpdate {
    changes: Vec<EdgeChange>,
    ports: u32,
    /// Parts that only the table can check: edges to be removed, and profiles, each once.
    removals: Vec<(PortId, PortId)>,
    profiles: Vec<u16>,
}

impl CheckedUpdate {
    /// Returns the changes.
    #[must_use]
    pub fn changes(&self) -> &[EdgeChange] {
        &self.changes
    }

    /// Returns the number of ports of the tables for which this update was checked.
    #[must_use]
    pub fn ports(&self) -> u32 {
        self.ports
    }

    /// Divides the update among tables that each have a share of the edges. `part_of` returns the part that has the
    /// edges to a port.
    #[must_use]
    pub fn divided(self, parts: usize, part_of: impl Fn(PortId) -> usize) -> Vec<CheckedUpdate> {
        let mut all = vec![EdgeUpdate::default(); parts];
        for change in self.changes {
            // An edge is on the thread of its destination, so each change has exactly one thread.
            all[part_of(change.edge().1)].changes.push(change);
        }
        let of = |part: EdgeUpdate| {
            let (removals, profiles) = named(&part.changes);
            CheckedUpdate {
                changes: part.changes,
                ports: self.ports,
                removals,
                profiles,
            }
        };
        all.into_iter().map(of).collect()
    }

    pub(crate) fn removals(&self) -> &[(PortId, PortId)] {
        &self.removals
    }

    pub(crate) fn profiles(&self) -> &[u16] {
        &self.profiles
    }
}

impl EdgeUpdate {
    /// Checks all values for a table of `ports` ports.
    ///
    /// # Errors
    /// All errors together: ports out of range, edges from a port to itself, invalid loss ratios and duplicates.
    pub fn check(self, ports: u32) -> Result<CheckedUpdate, UpdateError> {
        let mut errors = Vec::new();
        for change in &self.changes {
            check_one(change, ports, &mut errors);
        }
        let (removals, profiles) = named(&self.changes);
        // The changes of one update have no order, so two for one edge would contradict each other.
        find_duplicates(&self.changes, &mut errors);
        if errors.is_empty() {
            Ok(CheckedUpdate {
                changes: self.changes,
                ports,
                removals,
                profiles,
            })
        } else {
            Err(UpdateError { errors })
        }
    }
}

/// Returns the edges to be removed, and the profiles, each once.
fn named(changes: &[EdgeChange]) -> (Vec<(PortId, PortId)>, Vec<u16>) {
    let (mut removals, mut profiles) = (Vec::new(), Vec::new());
    for change in changes {
        match change {
            EdgeChange::Remove { .. } => removals.push(change.edge()),
            EdgeChange::Set { impairment, .. } => {
                let profile = impairment.profile;
                // 0 means that the edge has no profile.
                if profile != 0 && !profiles.contains(&profile) {
                    profiles.push(profile);
                }
            }
        }
    }
    (removals, profiles)
}

fn check_one(change: &EdgeChange, ports: u32, errors: &mut Vec<ChangeError>) {
    let (from, to) = change.edge();
    for port in [from, to] {
        if port.0 >= ports {
            errors.push(ChangeError::NoSuchPort {
                from,
                to,
                port,
                ports,
            });
        }
    }
    if from == to {
        errors.push(ChangeError::SelfEdge { port: from });
    }
    // NaN is in no range, so it is refused too.
    if let EdgeChange::Set { impairment, .. } = change
        && let Loss::Bernoulli { loss_ratio } = impairment.loss
        && !(0.0..=1.0).contains(&loss_ratio)
    {
        errors.push(ChangeError::LossRatio {
            from,
            to,
            loss_ratio,
        });
    }
}

/// Finds edges named more than once. Sorted updates (the usual case) are checked by one pass without allocation.
fn find_duplicates(changes: &[EdgeChange], errors: &mut Vec<ChangeError>) {
    // Strictly rising pairs are sorted and contain no duplicate.
    if changes.is_sorted_by(|a, b| a.edge() < b.edge()) {
        return;
    }
    let mut edges: Vec<(PortId, PortId)> = changes.iter().map(EdgeChange::edge).collect();
    // Equal pairs become neighbours, which costs less than a set of all pairs.
    edges.sort_unstable();
    let mut last = None;
    for pair in edges.windows(2) {
        // An edge that is named three times gives two equal pairs, but only one error.
        if pair[0] == pair[1] && last != Some(pair[0]) {
            let (from, to) = pair[0];
            errors.push(ChangeError::Duplicate { from, to });
            last = Some(pair[0]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(from: u32, to: u32, loss: Loss) -> EdgeChange {
        let impairment = Impairment {
            loss,
            ..Impairment::delay_only(1)
        };
        EdgeChange::Set {
            from: PortId(from),
            to: PortId(to),
            impairment,
        }
    }

    #[test]
    fn all_errors_are_collected() {
        let update = EdgeUpdate {
            changes: vec![
                set(0, 1, Loss::None),
                set(3, 3, Loss::None),
                set(
                    0,
                    9,
                    Loss::Bernoulli {
                        loss_ratio: f64::NAN,
                    },
                ),
                set(0, 1, Loss::Bernoulli { loss_ratio: 1.5 }),
                EdgeChange::Remove {
                    from: PortId(0),
                    to: PortId(1),
                },
            ],
        };
        let errors = update.check(4).unwrap_err().errors;
        assert_eq!(errors.len(), 5, "{errors:?}");
        assert_eq!(errors[0], ChangeError::SelfEdge { port: PortId(3) });
        assert!(matches!(
            errors[1],
            ChangeError::NoSuchPort {
                port: PortId(9),
                ports: 4,
                ..
            }
        ));
        assert!(
            matches!(errors[2], ChangeError::LossRatio { .. }),
            "NaN is not a ratio"
        );
        assert!(matches!(errors[3], ChangeError::LossRatio { .. }));
        assert_eq!(
            errors[4],
            ChangeError::Duplicate {
                from: PortId(0),
                to: PortId(1)
            }
        );
        assert!(errors[4].to_string().contains("port 0 -> port 1"));
    }

    #[test]
    fn parts_have_each_change_once_and_what_it_names() {
        let with_profile = |from, to, profile| EdgeChange::Set {
            from: PortId(from),
            to: PortId(to),
            impairment: Impairment {
                profile,
                ..Impairment::delay_only(1)
            },
        };
        let removal = EdgeChange::Remove {
            from: PortId(0),
            to: PortId(3),
        };
        let changes = vec![
            with_profile(0, 1, 7),
            with_profile(0, 2, 8),
            removal,
            with_profile(2, 1, 7),
        ];
        let checked = EdgeUpdate {
            changes: changes.clone(),
        };
        let parts = checked.check(4).unwrap().divided(2, |to| to.0 as usize % 2);
        assert_eq!(parts[0].changes(), [changes[1]]);
        assert_eq!(parts[1].changes(), [changes[0], removal, changes[3]]);
        assert_eq!(parts[0].profiles(), [8]);
        assert_eq!(parts[1].profiles(), [7]);
        assert_eq!(parts[0].removals(), []);
        assert_eq!(parts[1].removals(), [(PortId(0), PortId(3))]);
        assert_eq!(parts[1].ports(), 4);
    }

    #[test]
    fn bounds_are_included() {
        let update = EdgeUpdate {
            changes: vec![
                set(1, 0, Loss::Bernoulli { loss_ratio: 1.0 }),
                set(0, 1, Loss::Bernoulli { loss_ratio: 0.0 }),
            ],
        };
        assert_eq!(update.check(2).unwrap().changes().len(), 2);
    }
}
