//! The JSON schema of everything here.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::json;

use crate::information::{
    Contacts, Event, Links, Node, OpenSn, Orbit, Peers, Ports, Refusal, Request, Topology,
};

/// One property for each kind of document, so that one schema holds them all.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only the schema of it is used")]
struct Documents {
    /// `node.json`.
    node: Node,
    /// `ports.json`.
    ports: Ports,
    /// `peers.json`.
    peers: Peers,
    /// `topology.json`.
    topology: Topology,
    /// `orbit.json`.
    orbit: Orbit,
    /// `contacts.json`.
    contacts: Contacts,
    /// `opensn/NODE`.
    opensn: OpenSn,
    /// A line of `events`, and `data` of an answer to `follow`.
    event: Event,
    /// A request to the socket, one per line.
    request: Request,
    /// `data` of the answer to `links`.
    links: Links,
    /// A refusal, beside `"ok": false`.
    refusal: Refusal,
}

/// Returns the schema (JSON Schema 2020-12) of the information for nodes, as shipped in
/// `docs/reference/information.schema.json`. Each document is a property of the root. The types are in `$defs`.
#[must_use]
pub fn schema_json() -> String {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<Documents>();
    schema.insert("title".to_owned(), json!("Information for nodes"));
    let version = format!("Version {} of the documents.", crate::information::VERSION);
    schema.insert("description".to_owned(), json!(version));
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text.push('\n');
    text
}
