//! Output: data goes to stdout, as one JSON document or as a table; messages go to stderr. Neither panics.

use std::io::{self, IsTerminal, Write};

use constel_api::answers::{Catalogued, Forwarding, RoutesAfter};
use constel_units::shown::{is_unprintable, printable};
use serde_json::Value;

/// Prints one JSON document.
///
/// # Errors
/// If stdout is closed.
pub(crate) fn json(document: &impl serde::Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, document)?;
    writeln!(out)
}

/// Prints one JSON object on one line.
///
/// # Errors
/// If stdout is closed.
pub(crate) fn json_line(document: &impl serde::Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, document)?;
    writeln!(out)
}

/// Prints text. Parts of it may come from a node, an image, a file or another machine, so commands to the terminal are escaped.
///
/// # Errors
/// If stdout is closed.
pub(crate) fn text(text: &str) -> io::Result<()> {
    raw(printable(text).as_bytes())
}

/// Prints bytes unchanged, such as the output of a command.
///
/// # Errors
/// If stdout is closed.
pub(crate) fn raw(bytes: &[u8]) -> io::Result<()> {
    io::stdout().lock().write_all(bytes)
}

/// Clears the terminal's screen, for text that replaces the previous one.
///
/// # Errors
/// If stdout is closed.
pub(crate) fn clear_screen() -> io::Result<()> {
    raw(b"\x1b[H\x1b[J")
}

/// Formats a table with columns padded to their widest cell; the caller formats numbers. Line breaks in cells are escaped, so
/// no cell can look like another row.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let columns = head.len();
    let one_line = |cell: &String| match cell.contains(is_unprintable) {
        true => cell.escape_default().to_string(),
        false => cell.clone(),
    };
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(one_line).collect())
        .collect();
    let mut width: Vec<usize> = head.iter().map(|h| h.chars().count()).collect();
    for row in &rows {
        for (w, cell) in width.iter_mut().zip(row) {
            *w = (*w).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        for (column, cell) in cells.enumerate() {
            text.push_str(cell);
            if column + 1 < columns {
                text.extend(std::iter::repeat_n(
                    ' ',
                    width[column] - cell.chars().count() + 2,
                ));
            }
        }
        text.push('\n');
    };
    line(&mut head.iter().copied());
    for row in &rows {
        line(&mut row.iter().map(String::as_str));
    }
    text
}

/// Prints text on stderr, as [`text`] does on stdout. Errors (a closed pipe, a full disk) are ignored.
pub(crate) fn tell(text: &str) {
    drop(io::stderr().lock().write_all(printable(text).as_bytes()));
}

/// Prints bytes on stderr unchanged, such as a command's standard error.
pub(crate) fn raw_to_stderr(bytes: &[u8]) {
    drop(io::stderr().lock().write_all(bytes));
}

/// Returns whether stderr is a terminal.
pub(crate) fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Formats nanoseconds as milliseconds with three decimals.
pub(crate) fn ms(ns: f64) -> String {
    format!("{:.3} ms", ns / 1e6)
}

/// Formats bits per second with an SI prefix.
pub(crate) fn rate(bps: f64) -> String {
    match bps {
        b if b >= 1e9 => format!("{:.2} Gbit/s", b / 1e9),
        b if b >= 1e6 => format!("{:.2} Mbit/s", b / 1e6),
        b => format!("{:.1} kbit/s", b / 1e3),
    }
}

/// Formats bytes with a suitable unit.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 30 => format!("{:.1} GiB", b as f64 / f64::from(1 << 30)),
        b if b >= 1 << 20 => format!("{:.1} MiB", b as f64 / f64::from(1 << 20)),
        b if b >= 1 << 10 => format!("{:.1} KiB", b as f64 / f64::from(1 << 10)),
        b => format!("{b} B"),
    }
}

/// Formats the state of routes after a change by hand, as a line; empty if no routes were waited for.
pub(crate) fn routes_after(routes: RoutesAfter) -> String {
    match routes {
        RoutesAfter::Converged { after_ns } => {
            let ms = after_ns as f64 / 1e6;
            format!("computed routes converged {ms:.1} ms later\n")
        }
        RoutesAfter::NotYet { waited_ns } => format!(
            "computed routes had not converged {:.1} s later; `constel path` shows the kernels' routes\n",
            waited_ns as f64 / 1e9
        ),
        RoutesAfter::NotAwaited => "did not wait for routes\n".to_owned(),
        RoutesAfter::NotOurs | RoutesAfter::Untouched => String::new(),
    }
}

/// Formats lab time.
pub(crate) fn lab_time(t_ns: Option<u64>) -> String {
    t_ns.map_or_else(|| "held".to_owned(), |t| format!("{:.1} s", t as f64 / 1e9))
}

/// Formats a value as a table cell; `-` for none.
pub(crate) fn or_dash(value: Option<impl std::fmt::Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Formats the drops of a node without a stack: a number for each cause.
pub(crate) fn dropped(forwarding: &Forwarding) -> String {
    let causes = forwarding.dropped.iter();
    let causes: Vec<String> = causes
        .map(|(word, count)| format!("{count} {word}"))
        .collect();
    match causes.is_empty() {
        true => "0".to_owned(),
        false => causes.join(", "),
    }
}

/// Formats a satellite's catalogue entry as a line.
pub(crate) fn catalogued(satellite: &Catalogued) -> String {
    let name = or_dash(satellite.catalogue_name.as_deref());
    match satellite.norad_id {
        Some(number) => format!("{}: {name}, NORAD {number}\n", satellite.node),
        None => format!("{}: {name}\n", satellite.node),
    }
}

/// Formats a JSON value as a table cell.
pub(crate) fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_cell_is_no_command_and_no_other_row() {
        let cell = "a\u{1b}]0;x\u{7}\nb".to_owned();
        let text = super::table(&["NAME"], &[vec![cell]]);
        assert_eq!(text, "NAME\na\\u{1b}]0;x\\u{7}\\nb\n");
    }

    #[test]
    fn columns_line_up() {
        let text = super::table(
            &["LAB", "N"],
            &[
                vec!["a".into(), "1".into()],
                vec!["long".into(), "22".into()],
            ],
        );
        assert_eq!(text, "LAB   N\na     1\nlong  22\n");
    }
}
