//! The progress of the import of an image.

use std::sync::Mutex;

use constel_containers::image::Step;

use crate::progress::Progress;

/// The number of bytes between two progress messages.
const EVERY_BYTES: u64 = 16 << 20;

/// Converts the progress of an import to that of a front end.
pub struct ImportProgress<'a> {
    progress: &'a dyn Progress,
    last: Mutex<u64>,
}

impl<'a> ImportProgress<'a> {
    /// Creates it for an import that has not begun yet.
    #[must_use]
    pub fn new(progress: &'a dyn Progress) -> Self {
        Self {
            progress,
            last: Mutex::new(0),
        }
    }
}

impl constel_containers::image::Progress for ImportProgress<'_> {
    fn step(&self, step: &Step<'_>) {
        match step {
            Step::Reading { what, bytes } => {
                let mut last = self.last.lock().unwrap_or_else(|e| e.into_inner());
                // The number restarts with the next layer.
                if *bytes < *last {
                    *last = 0;
                }
                if *bytes >= *last + EVERY_BYTES {
                    *last = *bytes;
                    self.progress
                        .say(&format!("reading {what}: {} MiB", bytes >> 20));
                }
            }
            Step::Unpacking {
                layer,
                layers,
                entries,
            } if entries % 1000 == 0 => {
                let note = format!("layer {layer}, {entries} entries");
                self.progress
                    .stage("layers", *layer as u64 - 1, *layers as u64, &note);
            }
            Step::Done {
                layer,
                layers,
                reused,
            } => {
                let note = if *reused { "there already" } else { "" };
                self.progress
                    .stage("layers", *layer as u64, *layers as u64, note);
            }
            _ => {}
        }
    }
}
