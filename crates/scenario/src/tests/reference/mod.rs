//! The reference pages of the scenario file, the rules of a box and the box scenario: the tables of keys are those of the
//! schemas, and every key has its table.
//!
//! The rest of the pages is written by hand. A page has a block for each of its definitions, between `<!-- keys: NAME -->` and
//! `<!-- end of keys -->`.

mod tables;

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::schema::{BOX, Format, RULES, SCENARIO};
use tables::Section;

const FOLDER: &str = "../../docs/reference";

const BEGIN: &str = "<!-- keys: ";
const END: &str = "<!-- end of keys -->";

/// The top level of a format has no name among the definitions.
const TOP: &str = "";

/// The name of each format in blocks. A later format links to the sections of an earlier one if definitions are equal.
fn formats() -> [(&'static str, &'static Format); 3] {
    [("scenario", &SCENARIO), ("rules", &RULES), ("box", &BOX)]
}

/// The page of each definition, by format and name.
struct Places<'a>(BTreeMap<(usize, &'a str), &'a str>);

impl<'a> Places<'a> {
    /// Returns the page with the section of a definition: its own, or that of an equal one in an earlier format.
    fn page_of(&self, format: usize, name: &str) -> Option<&'a str> {
        let equal = |other: &usize| definition(*other, name) == definition(format, name);
        let mut formats = (0..=format).rev().filter(equal);
        formats.find_map(|format| self.0.get(&(format, name)).copied())
    }
}

/// Returns the pages with new tables of keys. `pages` has the text of each page by its path below `docs/reference`. Errors: a
/// block without an end, a name without a definition, and a definition with keys that has no block or two.
fn reference_pages(pages: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, String> {
    let mut places = Places(BTreeMap::new());
    for (path, text) in pages {
        for (_, name) in pieces(path, text)?.0 {
            let (format, definition_name) = named(name);
            if definition(format, definition_name).is_none() {
                return Err(format!("{path}: no definition `{name}` has keys"));
            }
            if let Some(other) = places.0.insert((format, definition_name), path) {
                return Err(format!("{path}: the keys of `{name}` are in {other} too"));
            }
        }
    }
    for (format, (format_name, Format { schema, .. })) in formats().into_iter().enumerate() {
        let names = schema.get("$defs").and_then(Value::as_object);
        let names = names.into_iter().flatten().map(|(name, _)| name.as_str());
        for name in names.chain([TOP]) {
            if definition(format, name).is_some() && places.page_of(format, name).is_none() {
                return Err(format!("no page has the keys of `{format_name}/{name}`"));
            }
        }
    }
    pages
        .iter()
        .map(|(path, text)| Ok((path.clone(), filled(path, text, &places)?)))
        .collect()
}

/// Returns a page with its blocks made from the schemas.
fn filled(path: &str, text: &str, places: &Places<'_>) -> Result<String, String> {
    let (blocks, rest) = pieces(path, text)?;
    let mut page = String::new();
    for (before, name) in blocks {
        let (format, definition_name) = named(name);
        let section = Section {
            format,
            page: path,
            root: &formats()[format].1.schema,
            places,
        };
        page.push_str(before);
        for part in [BEGIN, name, " -->\n"] {
            page.push_str(part);
        }
        let heading = match definition_name {
            TOP => "Top level",
            name => name,
        };
        if let Some(found) = definition(format, definition_name) {
            section.write(&mut page, heading, found);
        }
        page.push_str(END);
    }
    page.push_str(rest);
    Ok(page)
}

/// The text before each block with the block's name, and the text after the last block.
type Pieces<'a> = (Vec<(&'a str, &'a str)>, &'a str);

/// Splits a page at its blocks.
fn pieces<'a>(path: &str, text: &'a str) -> Result<Pieces<'a>, String> {
    let mut blocks = Vec::new();
    let mut rest = text;
    while let Some((before, block)) = rest.split_once(BEGIN) {
        let end = || format!("{path}: a block of keys has no `{END}`");
        let (name, block) = block.split_once(" -->\n").ok_or_else(end)?;
        let (_, after) = block.split_once(END).ok_or_else(end)?;
        blocks.push((before, name));
        rest = after;
    }
    Ok((blocks, rest))
}

/// Returns the format and the definition of a block: `Link` is the scenario's, `rules/Match` of the rules, and the
/// name of a format its top level.
fn named(name: &str) -> (usize, &str) {
    let (format, definition) = name.split_once('/').unwrap_or((name, TOP));
    let found = formats().iter().position(|(known, _)| *known == format);
    found.map_or((0, name), |format| (format, definition))
}

/// Returns a definition that has keys.
fn definition(format: usize, name: &str) -> Option<&'static Value> {
    let schema = &formats()[format].1.schema;
    let found = match name {
        TOP => schema,
        name => schema.get("$defs")?.get(name)?,
    };
    found.get("properties").is_some().then_some(found)
}

/// Returns the link from one page to another.
fn relative(from: &str, to: &str) -> String {
    match (from.rsplit_once('/'), to.rsplit_once('/')) {
        (Some((from, _)), Some((folder, page))) if from == folder => page.to_owned(),
        (Some((from, _)), _) => format!("{}{to}", "../".repeat(1 + from.matches('/').count())),
        (None, _) => to.to_owned(),
    }
}

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
