pub(crate) mod attached;
pub(crate) mod bring_up;
pub(crate) mod lab_time;
pub(crate) mod limits;
pub(crate) mod manifest;
pub(crate) mod options;
pub(crate) mod preflight;
pub(crate) mod room;
pub(crate) mod run;
pub(crate) mod session;
pub(crate) mod site;
pub(crate) mod stages;
pub(crate) mod sweep;
pub(crate) mod take_down;
#[cfg(test)]
mod tests;
mod threads;
pub(crate) mod together;
