pub(crate) mod builder;
pub(crate) mod launcher;
pub(crate) mod wiring;
