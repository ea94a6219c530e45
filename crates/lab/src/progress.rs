//! What the engine tells a person who watches.

/// Receives stages and happenings; called from several threads.
pub trait Progress: Send + Sync {
    /// The stage called `name` has done `done` of `total` things; `note` may be empty.
    fn stage(&self, name: &str, done: u64, total: u64, note: &str);
    /// Something happened that a person would want to read.
    fn say(&self, line: &str);
}

/// One stage under way.
pub(crate) struct Stage<'a> {
    progress: &'a dyn Progress,
    name: &'static str,
    total: u64,
}

impl<'a> Stage<'a> {
    /// Announces a stage of `total` things.
    pub(crate) fn begin(progress: &'a dyn Progress, name: &'static str, total: u64) -> Self {
        progress.stage(name, 0, total, "");
        Self {
            progress,
            name,
            total,
        }
    }

    /// `done` things are done.
    pub(crate) fn reach(&self, done: u64) {
        self.progress.stage(self.name, done, self.total, "");
    }

    /// `done` things are done, and here is what that means.
    pub(crate) fn note(&self, done: u64, note: &str) {
        self.progress.stage(self.name, done, self.total, note);
    }

    /// Over.
    pub(crate) fn end(self, note: &str) {
        self.progress.stage(self.name, self.total, self.total, note);
    }
}
