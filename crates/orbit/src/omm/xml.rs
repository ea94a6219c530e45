//! Messages as XML (CCSDS 505.0-B): an `omm` element, or several in an `ndm` element.

use roxmltree::{Document, Node, ParsingOptions};

use super::{Record, Records};

/// Most elements and texts of a document: some 60,000 messages.
const MOST_NODES: u32 = 5_000_000;

/// The messages of an XML text.
///
/// # Errors
/// With its line, if the text is not XML or has no message.
pub(super) fn records(text: &str) -> Result<Records, (usize, String)> {
    let options = ParsingOptions {
        allow_dtd: false,
        nodes_limit: MOST_NODES,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(text, options)
        .map_err(|error| (error.pos().row as usize, format!("not XML: {error}")))?;
    let named = |name: &'static str| {
        move |node: &Node<'_, '_>| node.tag_name().name().eq_ignore_ascii_case(name)
    };
    let mut records = Records::default();
    let (mut line, mut seen) = (1, 0);
    for message in document.descendants().filter(named("omm")) {
        let at = message.range().start;
        line += text[seen..at].bytes().filter(|b| *b == b'\n').count();
        seen = at;
        let mut record = Record::new(line);
        for leaf in message.descendants().filter(|node| is_leaf(node)) {
            record.put(leaf.tag_name().name(), leaf.text().unwrap_or(""));
        }
        records.good.push(record);
    }
    if records.good.is_empty() {
        let root = document.root_element().tag_name().name().to_owned();
        return Err((1, format!("<{root}> has no <omm> in it")));
    }
    Ok(records)
}

fn is_leaf(node: &Node<'_, '_>) -> bool {
    node.is_element() && !node.children().any(|child| child.is_element())
}
