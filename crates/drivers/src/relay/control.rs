//! The control side of a relay thread: commands of other threads, and the signals that announce them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

use super::bell::Signals;
use super::command::Command;
use super::data_path::DataPath;
use super::sched::Scheduler;

/// One thread's commands.
pub(crate) struct Control {
    pub(super) signals: Arc<Signals>,
    pub(super) commands: Receiver<Command>,
    /// Signals of the thread whose guest this one can be.
    pub(super) first: Option<Arc<Signals>>,
}

impl Control {
    /// Returns whether there may be commands.
    pub(super) fn has_news(&self) -> bool {
        self.signals.attention.load(Ordering::SeqCst)
    }

    /// Handles all commands, if there may be some. Returns false when the thread must stop.
    pub(super) fn attend_if_asked(&mut self, data: &mut DataPath, sched: &Scheduler) -> bool {
        !self.signals.attention.load(Ordering::Relaxed) || self.attend(data, sched)
    }

    fn attend(&mut self, data: &mut DataPath, sched: &Scheduler) -> bool {
        // The flag is cleared before the commands are read: a command sent later sets it again.
        self.signals.attention.store(false, Ordering::SeqCst);
        self.signals.bell.hear();
        if self.signals.stop.load(Ordering::SeqCst) {
            return false;
        }
        while let Ok(command) = self.commands.try_recv() {
            data.handle_command(command, sched);
        }
        true
    }
}
