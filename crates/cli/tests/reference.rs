//! The examples of the reference: each is valid, and each shown output is the real one. No test here needs root.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::support::workspace;
use crate::tutorial::{blocks, path_with_constel, run};

/// The top-level keys of a scenario, each with its lines.
fn keys(lines: &[&str]) -> Vec<(String, Vec<String>)> {
    let mut keys: Vec<(String, Vec<String>)> = Vec::new();
    for line in lines {
        let key = line
            .split_once(':')
            .filter(|(key, _)| !key.starts_with([' ', '#', '-']));
        match (key, keys.last_mut()) {
            (Some((key, _)), _) => keys.push((key.to_owned(), vec![(*line).to_owned()])),
            (None, Some((_, lines))) => lines.push((*line).to_owned()),
            (None, None) => {}
        }
    }
    keys
}

/// The complete scenario of an example: the first page's, with the example's keys in place of its own.
fn completed(first: &[(String, Vec<String>)], example: &[&str]) -> String {
    let own = keys(example);
    let has = |name: &str| own.iter().any(|(key, _)| key == name);
    let kept = first.iter().filter(|(key, _)| !has("constel") && !has(key));
    let lines = kept.chain(&own).flat_map(|(_, lines)| lines.iter());
    lines.map(|line| format!("{line}\n")).collect()
}

fn check_page(folder: &Path, path: &str, page: &Path, first: &[(String, Vec<String>)]) -> usize {
    let text = fs::read_to_string(page).unwrap();
    let mut outputs = 0;
    for (info, lines) in blocks(&text) {
        let words: Vec<&str> = info.split(' ').collect();
        match words.as_slice() {
            ["yaml"] => {
                let scenario = completed(first, &lines);
                fs::write(folder.join("example.yaml"), scenario).unwrap();
                run(folder, path, "constel check example.yaml");
            }
            [_, file] => fs::write(folder.join(file), lines.join("\n") + "\n").unwrap(),
            ["console"] => {
                let mut real = Vec::new();
                for command in lines.iter().filter_map(|line| line.strip_prefix("$ ")) {
                    real.push(format!("$ {command}"));
                    real.extend(run(folder, path, command).lines().map(str::to_owned));
                    outputs += 1;
                }
                assert_eq!(lines, real, "{}", page.display());
            }
            _ => panic!("{}: a block of {info:?}", page.display()),
        }
    }
    outputs
}

#[test]
fn every_example_of_the_reference_is_valid_and_has_its_output() {
    let folder = tempfile::tempdir().unwrap();
    symlink(
        workspace().join("scenarios"),
        folder.path().join("scenarios"),
    )
    .unwrap();
    let reference = workspace().join("docs/reference");
    let scenario = reference.join("scenario");
    let text = fs::read_to_string(scenario.join("index.md")).unwrap();
    let (_, first) = blocks(&text).swap_remove(0);
    let first = keys(&first);
    let names = fs::read_dir(scenario).unwrap();
    let mut pages: Vec<PathBuf> = names.map(|entry| entry.unwrap().path()).collect();
    pages.extend(["box-rules.md", "box-scenario.md"].map(|name| reference.join(name)));
    let path = path_with_constel();
    let outputs: usize = pages
        .iter()
        .map(|page| check_page(folder.path(), &path, page, &first))
        .sum();
    assert!(pages.len() > 20 && outputs > 12, "{outputs} outputs");
}
