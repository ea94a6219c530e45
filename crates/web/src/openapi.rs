//! The server as an OpenAPI 3.1 document: `docs/reference/web.openapi.json`. Addresses are those by which the server
//! answers, schemas those of the types that it sends and reads.

use constel_api::Write;
use constel_api::answers::{
    Applied, BoxShown, LinkSet, MemberSet, NetworkShown, NodesSet, Paths, Routes, RulesChanged,
    StationsSet,
};
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema, json_schema};
use serde_json::{Map, Value, json};

use crate::answers::WRITES;
use crate::captures::{self, CaptureFor};
use crate::flows::FlowOrder;
use crate::guard::OWN_HEADER;
use crate::page;
use crate::questions::{Is, Question};
use crate::views::{
    Columns, DraftView, FlowNow, LinkView, NodeState, Refused, RunView, SeriesView, ShellMessage,
    SocketMessage, Timeline, TrackView, World,
};
use crate::{shell, socket};

/// Why a request may be refused, by its status.
const REFUSALS: [(u16, &str); 10] = [
    (
        400,
        "It is no request of HTTP/1.1, or what it asks cannot be answered.",
    ),
    (
        401,
        "There is no session: the token was used already, or another server issued it.",
    ),
    (
        403,
        "Another site's page sent it, or the server was not started with `--write` or `--shell`.",
    ),
    (404, "There is nothing here."),
    (405, "Not by this method."),
    (411, "The length of the body is missing."),
    (413, "The body is longer than 1 MiB."),
    (421, "It was sent to a name that is not this server's."),
    (
        431,
        "The head is longer than 16 KiB, or has too many fields.",
    ),
    (
        503,
        "Too many connections are open, or another draft is being planned.",
    ),
];

/// The error codes of every request.
const ANY: [u16; 4] = [400, 421, 431, 503];

/// The document, as text.
#[must_use]
pub fn document() -> String {
    let mut generator = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into())
        .into_generator();
    let paths = paths(&mut generator);
    let refused = generator.subschema_for::<Refused>();
    let responses: Map<String, Value> = REFUSALS
        .iter()
        .map(|(status, words)| {
            let response = json!({ "description": words, "content": content(&refused) });
            (format!("Refused{status}"), response)
        })
        .collect();
    let session = json!({
        "type": "apiKey",
        "in": "cookie",
        "name": "constel-PORT",
        "description": "The session that a token was exchanged for; PORT is the server's port, so that servers on one host have different cookies.",
    });
    let document = json!({
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "Constel web view",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The server of `constel web`, on the loopback alone. It changes with the page that it serves: programs use the \
                lab's socket, whose schema is api.schema.json.",
            "license": { "name": env!("CARGO_PKG_LICENSE"), "identifier": env!("CARGO_PKG_LICENSE") },
        },
        "servers": [{
            "url": "http://127.0.0.1:{port}",
            "description": "localhost and [::1] are its names as well.",
            "variables": { "port": { "default": "8080", "description": "As the printed address has it." } },
        }],
        "security": [{ "session": [] }],
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "responses": responses,
            "securitySchemes": { "session": session },
        },
    });
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}

fn paths(generator: &mut SchemaGenerator) -> Map<String, Value> {
    let mut paths = Map::new();
    for (path, kind) in page::files() {
        let fine = json!({ "description": "The file, compressed.", "content": { (kind): {} } });
        let kept = json!({ "description": "It is the one that `If-None-Match` names." });
        let file = json!({
            "summary": "A file of the page.",
            "security": [],
            "responses": responses(&ANY, &[(200, fine), (304, kept)]),
        });
        paths.insert(path.to_owned(), json!({ "get": file }));
    }
    for question in Question::ALL {
        let fine = json!({ "description": "The answer.", "content": content(&answer(question, generator)) });
        let get = json!({
            "summary": question.words(),
            "parameters": question.asked().iter().map(query).collect::<Vec<_>>(),
            "responses": responses(&[400, 401, 403, 421, 431, 503], &[(200, fine)]),
        });
        paths.insert(question.path().to_owned(), json!({ "get": get }));
    }
    paths.insert(
        "/api/session".to_owned(),
        json!({ "post": session(generator) }),
    );
    paths.insert("/api/do".to_owned(), json!({ "post": change(generator) }));
    paths.insert("/api/draft".to_owned(), json!({ "post": draft(generator) }));
    let asks = generator.subschema_for::<socket::SocketRequest>();
    let told = generator.subschema_for::<SocketMessage>();
    let bytes = "A step: crates/web/src/frame.rs has it byte by byte.";
    let steps = conversation(
        "Steps on request; news of a running lab as they come.",
        json!({ "text": asks }),
        json!({ "text": told, "bytes": bytes }),
    );
    paths.insert("/api/socket".to_owned(), json!({ "get": steps }));
    let asks = generator.subschema_for::<shell::ShellRequest>();
    let told = generator.subschema_for::<ShellMessage>();
    let mut shell = conversation(
        "A shell in a node (`--shell`).",
        json!({ "text": asks, "bytes": "What is typed." }),
        json!({ "text": told, "bytes": "Output of the terminal." }),
    );
    let node = Question::Node.asked().iter().take(1).map(query);
    if let Some(parameters) = shell["parameters"].as_array_mut() {
        parameters.extend(node);
    }
    paths.insert("/api/shell".to_owned(), json!({ "get": shell }));
    paths
}

/// Returns the schema of a reply.
fn answer(question: Question, generator: &mut SchemaGenerator) -> Schema {
    match question {
        Question::World => generator.subschema_for::<World>(),
        Question::Link => generator.subschema_for::<LinkView>(),
        Question::Path => generator.subschema_for::<Paths>(),
        Question::Node => generator.subschema_for::<NodeState>(),
        Question::Track => generator.subschema_for::<TrackView>(),
        Question::Series => generator.subschema_for::<SeriesView>(),
        Question::Events => generator.subschema_for::<Timeline>(),
        Question::Routes => generator.subschema_for::<Routes>(),
        Question::Rules => generator.subschema_for::<BoxShown>(),
        Question::Networks => generator.subschema_for::<Vec<NetworkShown>>(),
        Question::Flows => generator.subschema_for::<Vec<FlowNow>>(),
        Question::Run => generator.subschema_for::<RunView>(),
        Question::Columns => generator.subschema_for::<Columns>(),
    }
}

fn query(asked: &crate::questions::QueryValue) -> Value {
    let schema = match asked.is {
        Is::Text => json!({ "type": "string" }),
        Is::Whole => json!({ "type": "integer", "minimum": 0, "default": 0 }),
        Is::Flag => json!({ "enum": ["0", "1"], "default": "0" }),
    };
    json!({
        "name": asked.name,
        "in": "query",
        "required": asked.is == Is::Text,
        "description": asked.words,
        "schema": schema,
    })
}

fn content(schema: &Schema) -> Value {
    json!({ "application/json": { "schema": schema } })
}

fn responses(refusals: &[u16], fine: &[(u16, Value)]) -> Map<String, Value> {
    let mut all: Map<String, Value> = fine
        .iter()
        .map(|(status, response)| (status.to_string(), response.clone()))
        .collect();
    for status in refusals {
        let response = json!({ "$ref": format!("#/components/responses/Refused{status}") });
        all.insert(status.to_string(), response);
    }
    all
}

fn origin() -> Value {
    json!({
        "name": "Origin",
        "in": "header",
        "required": true,
        "description": "One of this server's own names.",
        "schema": { "type": "string", "pattern": "^http://(127\\.0\\.0\\.1|localhost|\\[::1\\]):[0-9]+$" },
    })
}

/// Returns the header that requests with changes must carry.
fn own() -> Value {
    let header = json!({
        "name": OWN_HEADER,
        "in": "header",
        "required": true,
        "description": "Only the page itself can send it.",
        "schema": { "const": "1" },
    });
    json!([origin(), header])
}

fn session(generator: &mut SchemaGenerator) -> Value {
    let fine = json!({
        "description": "There is a session.",
        "headers": { "Set-Cookie": {
            "description": "A new session's: `HttpOnly`, `SameSite=Strict`.",
            "schema": { "type": "string" },
        } },
        "content": content(&generator.subschema_for::<bool>()),
    });
    json!({
        "summary": "Exchanges the token of the printed address for a session; the token is good once.",
        "security": [],
        "parameters": own(),
        "requestBody": {
            "description": "The token; with a session already, nothing.",
            "content": { "text/plain": { "schema": { "type": "string" } } },
        },
        "responses": responses(&[400, 401, 403, 411, 413, 421, 431, 503], &[(200, fine)]),
    })
}

fn change(generator: &mut SchemaGenerator) -> Value {
    let order = order(generator);
    generator
        .definitions_mut()
        .insert("Order".to_owned(), order.to_value());
    let done = json_schema!({
        "description": "By what was ordered: a scenario, a link, nodes, stations, a member, rules; `true` for `confirm`; the number of a flow.",
        "anyOf": [
            generator.subschema_for::<Applied>(),
            generator.subschema_for::<LinkSet>(),
            generator.subschema_for::<NodesSet>(),
            generator.subschema_for::<StationsSet>(),
            generator.subschema_for::<MemberSet>(),
            generator.subschema_for::<RulesChanged>(),
            { "const": true },
            generator.subschema_for::<u32>(),
        ],
    });
    let mut fine = json!({ "description": "It is done. A capture is a pcapng file.", "content": content(&done) });
    fine["content"][captures::KIND] = json!({});
    json!({
        "summary": "Changes a running lab or box (`--write`).",
        "parameters": own(),
        "requestBody": {
            "required": true,
            "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Order" } } },
        },
        "responses": responses(&[400, 401, 403, 411, 413, 421, 431, 503], &[(200, fine)]),
    })
}

fn draft(generator: &mut SchemaGenerator) -> Value {
    let fine = json!({
        "description": "The errors of the draft with their lines, or the plan of it.",
        "content": content(&generator.subschema_for::<DraftView>()),
    });
    json!({
        "summary": "Checks and plans a draft of a scenario (`--new`, `--plan`). The server keeps no draft, and reads no file that one names.",
        "parameters": own(),
        "requestBody": {
            "required": true,
            "description": "The scenario.",
            "content": { "text/plain": { "schema": { "type": "string" } } },
        },
        "responses": responses(&[400, 401, 403, 411, 413, 421, 431, 503], &[(200, fine)]),
    })
}

/// The writes of the API that are carried out from here, flows, and captures.
fn order(generator: &mut SchemaGenerator) -> Schema {
    let all = Write::json_schema(generator).to_value();
    let verbs = all["oneOf"].as_array().into_iter().flatten();
    let own = verbs.filter(|one| {
        let verb = one["properties"]["verb"]["const"].as_str();
        verb.is_some_and(|verb| WRITES.contains(&verb))
    });
    let flow = json!({
        "description": "Starts a flow.",
        "type": "object",
        "properties": { "flow": generator.subschema_for::<FlowOrder>() },
        "required": ["flow"],
        "additionalProperties": false,
    });
    let capture = json!({
        "description": "Captures frames.",
        "type": "object",
        "properties": { "capture": generator.subschema_for::<CaptureFor>() },
        "required": ["capture"],
        "additionalProperties": false,
    });
    let either: Vec<Value> = own.cloned().chain([flow, capture]).collect();
    json_schema!({ "description": "The change.", "oneOf": either })
}

/// Returns the description of a WebSocket. OpenAPI cannot describe its messages, so they are in `x-socket`.
fn conversation(summary: &str, says: Value, told: Value) -> Value {
    let opened = json!({ "description": "A WebSocket, version 13." });
    json!({
        "summary": summary,
        "parameters": [origin()],
        "x-socket": { "browser": says, "server": told },
        "responses": responses(&[400, 401, 403, 404, 421, 431, 503], &[(101, opened)]),
    })
}
