//! What all quantities share: the table of units.

/// One unit: how it is written and what it is worth in the smallest unit.
pub(crate) struct Unit {
    pub(crate) name: &'static str,
    pub(crate) factor: u64,
}

/// A quantity's name, units and habits.
pub(crate) struct Quantity {
    pub(crate) name: &'static str,
    pub(crate) format: &'static str,
    pub(crate) example: &'static str,
    pub(crate) units: &'static [Unit],
    /// Spellings people use for something else or wrongly, with advice.
    pub(crate) hints: &'static [(&'static str, &'static str)],
    pub(crate) range: &'static str,
}
