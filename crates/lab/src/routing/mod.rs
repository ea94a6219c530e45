pub(crate) mod daemons;
pub(crate) mod forwarding;
pub(crate) mod machine;
pub(crate) mod router;
pub(crate) mod start;
pub(crate) mod steps;
pub(crate) mod tables;
pub(crate) mod usage;
