//! XML by [`roxmltree`], within bounds.

use roxmltree::{Document, Node, ParsingOptions};

use crate::text::Findings;

/// Parses a document of at most `most_nodes` elements and texts. Document types are refused: their entities can expand a small file
/// to gigabytes.
///
/// # Errors
/// The first error, with its line.
pub(crate) fn parse(text: &str, most_nodes: u32) -> Result<Document<'_>, Findings> {
    let options = ParsingOptions {
        allow_dtd: false,
        nodes_limit: most_nodes,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(text, options).map_err(|error| {
        let mut findings = Findings::default();
        findings.push(error.pos().row as usize, format!("not XML: {error}"));
        findings
    })
}

/// Returns text made safe for an element or an attribute in double quotes.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Returns the text in an element, also if comments divide it.
pub(crate) fn content(node: Node<'_, '_>) -> String {
    let texts = node.children().filter(Node::is_text);
    texts.filter_map(|text| text.text()).collect()
}
