//! The interface for messages to the user.

/// The parts of a stage that has no end.
pub const ENDLESS: u64 = u64::MAX;

/// The receiver of stages and messages; several threads call it.
pub trait Progress: Send + Sync {
    /// The stage `name` has done `done` of `total` parts, which are [`ENDLESS`] for the time of a lab without an end; `note` may
    /// be empty.
    fn stage(&self, name: &str, done: u64, total: u64, note: &str);
    /// A message for the user.
    fn say(&self, line: &str);
}

/// A stage in progress.
pub(crate) struct Stage<'a> {
    progress: &'a dyn Progress,
    name: &'static str,
    total: u64,
}

impl<'a> Stage<'a> {
    /// Announces a stage of `total` parts.
    pub(crate) fn begin(progress: &'a dyn Progress, name: &'static str, total: u64) -> Self {
        progress.stage(name, 0, total, "");
        Self {
            progress,
            name,
            total,
        }
    }

    /// Reports that `done` parts are done.
    pub(crate) fn reach(&self, done: u64) {
        self.progress.stage(self.name, done, self.total, "");
    }

    /// Reports that `done` parts are done, with a note.
    pub(crate) fn note(&self, done: u64, note: &str) {
        self.progress.stage(self.name, done, self.total, note);
    }

    /// Reports the end of the stage.
    pub(crate) fn end(self, note: &str) {
        self.progress.stage(self.name, self.total, self.total, note);
    }
}
