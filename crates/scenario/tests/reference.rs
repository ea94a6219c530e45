//! The tables of keys in the reference pages are those of the schemas, and every key has its table.

use std::collections::BTreeMap;
use std::fs;

use constel_scenario::reference_pages;

const FOLDER: &str = "../../docs/reference";

/// The pages with tables of keys, by their paths below `FOLDER`.
fn pages() -> BTreeMap<String, String> {
    let mut pages = BTreeMap::new();
    for entry in fs::read_dir(format!("{FOLDER}/scenario")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        pages.insert(format!("scenario/{name}"), String::new());
    }
    for name in ["box-rules.md", "box-scenario.md"] {
        pages.insert(name.to_owned(), String::new());
    }
    for (path, text) in &mut pages {
        *text = fs::read_to_string(format!("{FOLDER}/{path}")).unwrap();
    }
    pages
}

#[test]
fn tables_of_keys_are_those_of_the_schemas() {
    let pages = pages();
    let expected = reference_pages(&pages).unwrap();
    for (path, text) in &expected {
        if std::env::var_os("CONSTEL_BLESS").is_some() {
            fs::write(format!("{FOLDER}/{path}"), text).unwrap();
        }
        assert!(
            *text == fs::read_to_string(format!("{FOLDER}/{path}")).unwrap(),
            "docs/reference/{path} is out of date; run `CONSTEL_BLESS=1 cargo test -p constel-scenario`"
        );
    }
}

#[test]
fn a_definition_without_a_table_is_an_error() {
    let mut pages = pages();
    let text = pages.get_mut("scenario/losses.md").unwrap();
    *text = text.replace("<!-- keys: Frames -->\n", "<!-- keys: Frame -->\n");
    let error = reference_pages(&pages).unwrap_err();
    assert_eq!(error, "scenario/losses.md: no definition `Frame` has keys");
    let text = pages.get_mut("scenario/losses.md").unwrap();
    *text = String::new();
    let error = reference_pages(&pages).unwrap_err();
    assert_eq!(error, "no page has the keys of `scenario/LossLaw`");
}

#[test]
fn pages_are_short_enough_to_read() {
    for (path, text) in pages() {
        let words = text.split_whitespace().count();
        assert!(
            words <= 2500,
            "{path}: {words} words; move a topic to a page of its own"
        );
    }
}
