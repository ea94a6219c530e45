//! A value that cannot be read causes no error but its own: what stands in for it is a guess.

use std::fs;
use std::path::{Path, PathBuf};

use constel_scenario::{DiskFiles, Source, Span, read_scenario, yaml};

const FOLDER: &str = "../../scenarios";

/// The places of all scalars below a node.
fn scalars(node: &yaml::Node, found: &mut Vec<(Span, String)>) {
    match &node.value {
        yaml::Value::Scalar { text, .. } => found.push((node.span, text.clone())),
        yaml::Value::Sequence(items) => items.iter().for_each(|item| scalars(item, found)),
        yaml::Value::Mapping(entries) => {
            entries
                .iter()
                .for_each(|entry| scalars(&entry.value, found));
        }
    }
}

/// The text with another value at this place; `None` for a value that is not written as it reads.
fn with(text: &str, span: Span, old: &str, new: &str) -> Option<String> {
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let line = lines.get_mut(span.line as usize - 1)?;
    let at = line.char_indices().nth(span.column as usize - 1)?.0;
    let rest = line[at..].strip_prefix(old)?;
    *line = format!("{}{new}{rest}", &line[..at]);
    Some(lines.join("\n"))
}

/// The shipped scenarios that are read quickly: large files of elements take a while.
fn shipped() -> Vec<PathBuf> {
    let files = fs::read_dir(FOLDER)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let slow = |name: &str| name.starts_with("box") || name.starts_with("starlink");
    let mut files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|e| e == "yaml"))
        .filter(|path| !slow(&path.file_name().unwrap().to_string_lossy()))
        .collect();
    files.sort();
    assert!(files.len() >= 7, "{files:?}");
    files
}

fn errors_beside(path: &Path) -> (usize, Vec<String>) {
    let text = fs::read_to_string(path).unwrap();
    let files = DiskFiles::in_folder(FOLDER);
    let root = yaml::read(&Source::new("f", &text)).unwrap();
    let (mut all, mut beside, mut tried) = (Vec::new(), Vec::new(), 0);
    scalars(&root, &mut all);
    for (span, old) in all {
        // No quantity, word, number or name. A pattern still matches something.
        let new = if old.contains('*') {
            "\"*?*\""
        } else {
            "\"~!~\""
        };
        let Some(wrong) = with(&text, span, &old, new) else {
            continue;
        };
        let Err(errors) = read_scenario("f.yaml", wrong.as_bytes(), &files) else {
            continue;
        };
        tried += 1;
        for error in &errors {
            if error.span().line != span.line || error.span().column != span.column {
                beside.push(format!("{} for `{old}`:\n{error}", path.display()));
            }
        }
    }
    (tried, beside)
}

#[test]
fn a_wrong_value_causes_no_error_elsewhere() {
    let (mut tried, mut beside) = (0, Vec::new());
    for path in shipped() {
        let (some, found) = errors_beside(&path);
        tried += some;
        beside.extend(found);
    }
    assert!(tried > 300, "only {tried} values");
    assert!(
        beside.is_empty(),
        "{} of {tried}:\n{}",
        beside.len(),
        beside.join("\n")
    );
}
