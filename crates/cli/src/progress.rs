//! Progress while a lab starts: a moving bar on a terminal, plain lines elsewhere. Always on stderr.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use constel_control::{ENDLESS, Progress};
use constel_units::shown::printable;
use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// Returns the progress display for stderr: a bar on a terminal, else lines.
pub(crate) fn for_stderr() -> Arc<dyn Progress> {
    if output::stderr_is_terminal() {
        Arc::new(Terminal::default())
    } else {
        Arc::new(as_lines())
    }
}

/// Returns the progress display of plain lines.
pub(crate) fn as_lines() -> Lines {
    Lines {
        started: Instant::now(),
        last: Mutex::new(None),
    }
}

/// Plain lines: one per stage, and at most one every 5 s inside a long one. A stage without an end has one line.
pub(crate) struct Lines {
    started: Instant,
    last: Mutex<Option<(String, Instant)>>,
}

impl Lines {
    fn say(&self, text: &str) {
        output::tell(&format!(
            "[{:7.2} s] {text}\n",
            self.started.elapsed().as_secs_f64()
        ));
    }
}

impl Progress for Lines {
    fn stage(&self, name: &str, done: u64, total: u64, note: &str) {
        let mut last = self.last.lock().unwrap_or_else(|e| e.into_inner());
        if total == ENDLESS {
            let began = last.as_ref().is_none_or(|(stage, _)| stage != name);
            *last = Some((name.to_owned(), Instant::now()));
            if began {
                self.say(&format!("{name}: no end"));
            }
            return;
        }
        let finished = done >= total;
        let due = match &*last {
            Some((stage, when)) if stage == name => when.elapsed() > Duration::from_secs(5),
            _ => true,
        };
        if !due && !finished {
            return;
        }
        *last = Some((name.to_owned(), Instant::now()));
        let note = if note.is_empty() {
            String::new()
        } else {
            format!(": {note}")
        };
        self.say(&format!("{name} {done}/{total}{note}"));
    }

    fn say(&self, line: &str) {
        Self::say(self, line);
    }
}

/// A bar for the current stage; finished stages and messages scroll above it.
#[derive(Default)]
struct Terminal {
    bar: Mutex<Option<(String, ProgressBar)>>,
}

impl Progress for Terminal {
    fn stage(&self, name: &str, done: u64, total: u64, note: &str) {
        let mut slot = self.bar.lock().unwrap_or_else(|e| e.into_inner());
        if slot.as_ref().is_none_or(|(stage, _)| stage != name) {
            if let Some((_, old)) = slot.take() {
                old.finish();
            }
            let bar = ProgressBar::new(total);
            let style = "{spinner:.cyan} {prefix:<22} {bar:32.cyan/blue} {pos:>5}/{len:<5} {elapsed:>4} {msg}";
            bar.set_style(ProgressStyle::with_template(style).expect("the template is a constant"));
            bar.set_prefix(name.to_owned());
            bar.enable_steady_tick(Duration::from_millis(120));
            *slot = Some((name.to_owned(), bar));
        }
        if let Some((_, bar)) = &*slot {
            bar.set_length(total);
            bar.set_position(done);
            bar.set_message(printable(note).into_owned());
            if done >= total {
                bar.finish();
            }
        }
    }

    fn say(&self, line: &str) {
        let slot = self.bar.lock().unwrap_or_else(|e| e.into_inner());
        match &*slot {
            Some((_, bar)) if !bar.is_finished() => bar.println(printable(line)),
            _ => output::tell(&format!("{line}\n")),
        }
    }
}
