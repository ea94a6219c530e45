//! The part of a step for which something is planned.

/// The time for which routes are planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// A step as a whole, from its time on.
    Step,
    /// The rest of a step after a change at this lab time, nanoseconds.
    Within(u64),
}
