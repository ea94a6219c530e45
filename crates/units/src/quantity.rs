//! The common part of all quantities: the table of units.

/// A unit: its name and its value in the smallest unit.
pub(crate) struct Unit {
    pub(crate) name: &'static str,
    pub(crate) factor: u64,
}

/// A quantity's name, units and conventions.
pub(crate) struct Quantity {
    pub(crate) name: &'static str,
    pub(crate) format: &'static str,
    pub(crate) example: &'static str,
    pub(crate) units: &'static [Unit],
    /// Wrong or ambiguous spellings, with advice.
    pub(crate) hints: &'static [(&'static str, &'static str)],
    pub(crate) range: &'static str,
}
