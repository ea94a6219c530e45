//! Messages of libbpf. It prints them to standard error unless [`listen`] was called.

use std::sync::{Mutex, Once};

use libbpf_rs::PrintLevel;

/// Bytes kept until [`take`] is called: a verifier's log may be megabytes.
const BYTES_MAX: usize = 65_536;
/// Lines that [`take`] returns: the verifier prints its objection last.
const LINES_MAX: usize = 12;

static MESSAGES: Mutex<String> = Mutex::new(String::new());

fn remember(level: PrintLevel, message: String) {
    if level == PrintLevel::Warn
        && let Ok(mut messages) = MESSAGES.lock()
        && messages.len() < BYTES_MAX
    {
        messages.push_str(&message);
    }
}

/// Keeps warnings of libbpf from now on instead of printing them. One call is enough for a process.
pub fn listen() {
    static LISTENS: Once = Once::new();
    LISTENS.call_once(|| {
        libbpf_rs::set_print(Some((PrintLevel::Warn, remember)));
    });
}

/// Returns the last lines that libbpf has printed since the last call: empty, or starting with ": ".
#[must_use]
pub fn take() -> String {
    let said = MESSAGES.lock().map(|mut m| std::mem::take(&mut *m));
    let said = said.unwrap_or_default();
    let lines: Vec<&str> = said.trim().lines().collect();
    let last = lines[lines.len().saturating_sub(LINES_MAX)..].join("\n");
    if last.is_empty() {
        last
    } else {
        format!(": {last}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_warnings_are_kept_once() {
        assert_eq!(take(), "");
        remember(PrintLevel::Info, "nothing of note\n".into());
        for line in 0..20 {
            remember(PrintLevel::Warn, format!("line {line}\n"));
        }
        let said = take();
        assert!(said.starts_with(": line 8\n"), "{said}");
        assert!(said.ends_with("line 19"), "{said}");
        assert_eq!(take(), "");
    }
}
