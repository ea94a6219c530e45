//! Rows of the summary whose number is not limited by the scenario: the first ones are kept.

/// The number of rows that are kept.
pub(crate) const KEPT: usize = 10_000;

/// Rows of one kind.
#[derive(Debug)]
pub(crate) struct Rows<T> {
    pub(crate) kept: Vec<T>,
    /// The number of rows after those.
    pub(crate) further: u64,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self {
            kept: Vec::new(),
            further: 0,
        }
    }
}

impl<T> Rows<T> {
    /// Adds a row. Returns its index, if it is kept.
    pub(crate) fn push(&mut self, row: T) -> Option<usize> {
        if self.kept.len() == KEPT {
            self.further += 1;
            return None;
        }
        self.kept.push(row);
        Some(self.kept.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_kept_and_the_others_counted() {
        let mut rows = Rows::default();
        for row in 0..3 * KEPT {
            assert_eq!(rows.push(row), Some(row).filter(|row| *row < KEPT));
        }
        assert_eq!((rows.kept.len(), rows.further), (KEPT, 2 * KEPT as u64));
    }
}
