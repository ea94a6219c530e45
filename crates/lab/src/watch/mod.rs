pub(crate) mod changes;
pub(crate) mod converged;
pub(crate) mod event_log;
pub(crate) mod paths;
pub(crate) mod rows;
pub(crate) mod series;
pub(crate) mod summary;
