//! Places of values in the structure of a file.

use std::fmt;

/// One step of a value's path in the file's structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seg<'a> {
    /// Under this key.
    Key(&'a str),
    /// At this index of a list.
    Index(usize),
}

/// A path of [`Seg`]s, printed as `traffic[3].ping.to`.
pub(crate) struct Path<'a>(pub(crate) &'a [Seg<'a>]);

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, seg) in self.0.iter().enumerate() {
            match seg {
                Seg::Index(index) => write!(f, "[{index}]")?,
                Seg::Key(key) if position == 0 => f.write_str(key)?,
                Seg::Key(key) => write!(f, ".{key}")?,
            }
        }
        Ok(())
    }
}
