//! The JSON schema of everything here.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::json;

use crate::answers::{
    Applied, BoxShown, Capturing, CommandSent, DelaysSet, LabRow, LinkSet, LinkShown, ListedLab,
    Loads, MemberSet, NetworkShown, NodeAccess, NodesSet, Paths, PolicyAnswer, PolicyJoined,
    PolicyState, Routes, RulesChanged, ScenarioShown, Shown, StationsSet, UserFileSet, Version,
};
use crate::manifest::Manifest;
use crate::summary::Summary;
use crate::{ApiError, Event, Read, Write};

/// One property for each kind of document, so that one schema holds them all.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only the schema of it is used")]
struct Documents {
    /// Requests that change nothing, one a line.
    read: Read,
    /// Requests that change the lab, one a line.
    write: Write,
    /// `data` of an answer, by the request's verb.
    answers: Answers,
    /// The state that a live policy receives before each step: `data` of a line.
    policy_state: PolicyState,
    /// The answer of a live policy, a line.
    policy_answer: PolicyAnswer,
    /// A refusal, beside `"ok": false`.
    error: ApiError,
    /// An event: `data` of an answer to `events`, and a line of `events.ndjson`.
    event: Event,
    /// The output of `constel list --json`.
    list: Vec<ListedLab>,
    /// `summary.json`, and the output of `constel run --json`.
    summary: Summary,
    /// `manifest.json`.
    manifest: Manifest,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only the schema of it is used")]
#[schemars(rename_all = "kebab-case")]
struct Answers {
    version: Version,
    state: LabRow,
    show: Shown,
    scenario: ScenarioShown,
    link: LinkShown,
    loads: Loads,
    routes: Routes,
    path: Paths,
    rules: BoxShown,
    change_rules: RulesChanged,
    capture: Capturing,
    set_link: LinkSet,
    set_nodes: NodesSet,
    apply: Applied,
    set_station: StationsSet,
    set_member: MemberSet,
    set_delays: DelaysSet,
    networks: Vec<NetworkShown>,
    enter: NodeAccess,
    user_file: UserFileSet,
    command: CommandSent,
    policy: PolicyJoined,
}

/// The schema (JSON Schema 2020-12) of requests, answers, events, errors and the documents of a results folder, as
/// shipped in `docs/reference/api.schema.json`. Each is a property of the root; the types are in `$defs`.
#[must_use]
pub fn schema_json() -> String {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<Documents>();
    schema.insert("title".to_owned(), json!("Constel control surface"));
    schema.insert(
        "description".to_owned(),
        json!(format!("Version {} of the protocol.", crate::PROTOCOL)),
    );
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text.push('\n');
    text
}
