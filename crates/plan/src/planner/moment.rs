//! Which part of a step something is planned for.

/// What routes are wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// For a step as a whole, from its time on.
    Step,
    /// For what is left of a step after something changed at this lab time, nanoseconds.
    Within(u64),
}
