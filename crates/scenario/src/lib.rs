//! The user's scenario file: parse, validate, resolve.
//!
//! Two stages. [`parse`] reads the form of the file without touching the environment; [`resolve`] reads the
//! files it names through [`Files`], fills every default and checks what the form cannot express. Both collect
//! *all* errors, each with file, line, column, snippet, path and hint ([`Diagnostics`]).
//!
//! The raw types in [`raw`] are the one source of truth of the format: [`schema`] derives the
//! JSON schema from them. `parse` checks files against that schema, and the tables of the
//! reference pages are made from it.
//!
//! [`set`] changes values in a file's text before it is parsed.
//!
//! [`read_rules`] does both for the rules of a box, and [`read_box`] for scenarios that are a box: these are
//! other formats.
//!
//! This crate does not handle orbits (the text of element files is passed on as it is), topology, or anything
//! of the host.
//!
//! ```
//! let text = "constel: 1\nname: x\nstart: 2026-11-21T00:00:00Z\nduration: 10\nconstellations: {}\n";
//! let errors = constel_scenario::parse("x.yaml", text).unwrap_err();
//! assert!(errors.to_string().starts_with("x.yaml:4:11: error: `duration` needs a unit"));
//! ```

#![forbid(unsafe_code)]

mod bounds;
mod csv_rows;
mod deferred;
mod diagnostic;
mod edit;
mod files;
mod forwarders;
mod glob;
pub mod model;
mod parse;
mod places;
mod presets;
pub mod raw;
mod resolve;
mod schema;
mod slug;
mod software;
mod source;
#[cfg(test)]
mod tests;
mod text_file;
mod tree;
mod walk;

pub use csv_rows::{CsvRow, csv_rows};
pub use deferred::{Called, DeferredNode};
pub use diagnostic::{Diagnostic, Diagnostics, LeftOut, nearest};
pub use edit::{NotASetting, Setting, set};
pub use files::{DiskFiles, Files, MAX_FILE_BYTES};
pub use glob::Glob;
pub use model::Scenario;
pub use parse::{Document, Parsed, parse, parse_bytes};
pub use resolve::{
    address, is_box, network, not_a_node_name, read_box, read_rules, read_scenario,
    read_scenario_with, resolve,
};
pub use schema::{box_schema_json, rules_schema_json, schema, schema_json};
pub use slug::slug;
pub use software::{NodeFacts, NodeKind};
pub use source::{Source, Span};
pub use text_file::TextFile;
pub use tree::{MAX_BYTES, MAX_DEPTH, MAX_NODES};

/// YAML as trees with the place of every value; for other files than scenarios.
pub mod yaml {
    pub use crate::tree::{Core, Entry, Node, Value, core_type, read};
}
