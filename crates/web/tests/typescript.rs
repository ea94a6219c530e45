//! The page's types are those of the server: TypeScript, generated from the JSON schema of the Rust types.

use std::fmt::Write as _;
use std::path::Path;

use constel_api::answers::{BoxShown, LinkSet, NetworkShown, Paths, Routes, Shown};
use constel_web::views::{
    Columns, DraftView, FlowNow, LinkView, NodeState, RunView, SeriesView, SocketMessage, Timeline,
    TrackView, World,
};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// One property for each document, so that one schema holds them all.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only the schema of it is used")]
struct Documents {
    world: World,
    link: LinkView,
    node: NodeState,
    path: Paths,
    series: SeriesView,
    track: TrackView,
    events: Timeline,
    run: RunView,
    columns: Columns,
    routes: Routes,
    show: Shown,
    rules: BoxShown,
    link_set: LinkSet,
    networks: Vec<NetworkShown>,
    flows: Vec<FlowNow>,
    told: SocketMessage,
    draft: DraftView,
}

/// Returns all types, in the order of their names.
fn types() -> String {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let schema = generator.into_root_schema_for::<Documents>();
    let mut text = String::from(
        "// Made of crates/web/src/views.rs and crates/api by `CONSTEL_BLESS=1 cargo test -p constel-web`.\n",
    );
    let definitions = schema.get("$defs").and_then(Value::as_object);
    for (name, definition) in definitions.into_iter().flatten() {
        let _ = write!(text, "\nexport type {name} = {};\n", of(definition, ""));
    }
    text
}

/// A schema as a type, its inner lines after `indent`.
fn of(schema: &Value, indent: &str) -> String {
    let Some(schema) = schema.as_object() else {
        return "unknown".to_owned();
    };
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        return name.rsplit('/').next().unwrap_or(name).to_owned();
    }
    if let Some(constant) = schema.get("const") {
        return constant.to_string();
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return joined(values.iter().map(Value::to_string));
    }
    let mut all = Vec::new();
    for key in ["oneOf", "anyOf"] {
        if let Some(either) = schema.get(key).and_then(Value::as_array) {
            all.push(joined(either.iter().map(|one| of(one, indent))));
        }
    }
    if schema.contains_key("properties") {
        all.push(object(schema, indent));
    }
    match all.len() {
        0 => plain(schema, indent),
        1 => all.remove(0),
        _ => all
            .iter()
            .map(|one| format!("({one})"))
            .collect::<Vec<_>>()
            .join(" & "),
    }
}

fn joined(all: impl Iterator<Item = String>) -> String {
    all.collect::<Vec<_>>().join(" | ")
}

fn object(schema: &Map<String, Value>, indent: &str) -> String {
    let inner = format!("{indent}  ");
    let required = schema.get("required").and_then(Value::as_array);
    let needs = |name: &str| required.is_some_and(|all| all.iter().any(|one| one == name));
    let mut text = String::from("{\n");
    for (name, property) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let key = if name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            name.clone()
        } else {
            format!("{name:?}")
        };
        let optional = if needs(name) { "" } else { "?" };
        let _ = writeln!(text, "{inner}{key}{optional}: {};", of(property, &inner));
    }
    text + indent + "}"
}

fn plain(schema: &Map<String, Value>, indent: &str) -> String {
    let one = |kind: &str| match kind {
        "integer" | "number" => "number".to_owned(),
        "string" | "boolean" | "null" => kind.to_owned(),
        "array" => array(schema, indent),
        "object" => match schema.get("additionalProperties") {
            Some(values) if values.is_object() => format!("Record<string, {}>", of(values, indent)),
            _ => "Record<string, unknown>".to_owned(),
        },
        _ => "unknown".to_owned(),
    };
    match schema.get("type") {
        Some(Value::String(kind)) => one(kind),
        Some(Value::Array(kinds)) => joined(kinds.iter().filter_map(Value::as_str).map(one)),
        _ => "unknown".to_owned(),
    }
}

fn array(schema: &Map<String, Value>, indent: &str) -> String {
    if let Some(items) = schema.get("prefixItems").and_then(Value::as_array) {
        let items: Vec<String> = items.iter().map(|item| of(item, indent)).collect();
        return format!("[{}]", items.join(", "));
    }
    match schema.get("items") {
        Some(items) => format!("({})[]", of(items, indent)),
        None => "unknown[]".to_owned(),
    }
}

#[test]
fn the_pages_types_are_the_servers() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/src/types.ts");
    let types = types();
    if std::env::var_os("CONSTEL_BLESS").is_some() {
        std::fs::write(&file, &types).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(kept, types, "CONSTEL_BLESS=1 writes web/src/types.ts anew");
}
