//! The OpenAPI document is that of the code, is one, and says what the server does.

use crate::served;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use constel_api::{Read, Write};
use constel_web::openapi::document;
use constel_web::{Options, ShellProgram};
use serde_json::{Map, Value, json};
use served::{served, served_with};

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/web.openapi.json")
}

fn parsed() -> Value {
    serde_json::from_str(&document()).unwrap()
}

fn fields(value: &Value) -> &Map<String, Value> {
    value
        .as_object()
        .unwrap_or_else(|| panic!("no object: {value}"))
}

#[test]
fn the_kept_document_is_that_of_the_code() {
    let text = document();
    if std::env::var_os("CONSTEL_BLESS").is_some() {
        std::fs::write(file(), &text).unwrap();
    }
    let kept = std::fs::read_to_string(file()).unwrap_or_default();
    assert!(
        kept == text,
        "CONSTEL_BLESS=1 writes docs/reference/web.openapi.json anew"
    );
}

/// The permitted and the required keys of objects of OpenAPI 3.1; `x-` besides.
const OBJECTS: [(&str, &[&str], &[&str]); 9] = [
    (
        "root",
        &["openapi", "info"],
        &[
            "jsonSchemaDialect",
            "servers",
            "paths",
            "components",
            "security",
        ],
    ),
    (
        "info",
        &["title", "version"],
        &["description", "license", "summary"],
    ),
    ("server", &["url"], &["description", "variables"]),
    ("path", &[], &["get", "post"]),
    (
        "operation",
        &["responses"],
        &["summary", "parameters", "requestBody", "security"],
    ),
    (
        "parameter",
        &["name", "in", "schema"],
        &["required", "description"],
    ),
    ("body", &["content"], &["description", "required"]),
    ("response", &["description"], &["headers", "content"]),
    (
        "components",
        &[],
        &["schemas", "responses", "securitySchemes"],
    ),
];

fn has(kind: &str, value: &Value) {
    let (_, must, may) = OBJECTS.iter().find(|(name, ..)| *name == kind).unwrap();
    for key in *must {
        assert!(value.get(key).is_some(), "{kind} without {key}: {value}");
    }
    for key in fields(value).keys() {
        let known = must.contains(&key.as_str()) || may.contains(&key.as_str());
        assert!(known || key.starts_with("x-"), "{kind} with {key}: {value}");
    }
}

/// Every reference leads somewhere.
fn leads(document: &Value, value: &Value) {
    match value {
        Value::Object(inner) => {
            if let Some(Value::String(to)) = inner.get("$ref") {
                let pointer = to.strip_prefix('#').unwrap_or(to);
                assert!(document.pointer(pointer).is_some(), "{to} leads nowhere");
            }
            inner.values().for_each(|inner| leads(document, inner));
        }
        Value::Array(all) => all.iter().for_each(|inner| leads(document, inner)),
        _ => {}
    }
}

#[test]
fn it_has_the_structure_of_openapi() {
    let document = parsed();
    has("root", &document);
    has("info", &document["info"]);
    has("components", &document["components"]);
    for server in document["servers"].as_array().unwrap() {
        has("server", server);
    }
    for (path, item) in fields(&document["paths"]) {
        assert!(path.starts_with('/'), "{path}");
        has("path", item);
        for operation in fields(item).values() {
            has("operation", operation);
            operation_is_one(operation);
        }
    }
    for response in fields(&document["components"]["responses"]).values() {
        has("response", response);
    }
    leads(&document, &document);
}

fn operation_is_one(operation: &Value) {
    let parameters = operation["parameters"].as_array();
    let mut seen = Vec::new();
    for parameter in parameters.into_iter().flatten() {
        has("parameter", parameter);
        let place = parameter["in"].as_str().unwrap();
        assert!(["query", "header"].contains(&place), "{parameter}");
        let name = (place, parameter["name"].as_str().unwrap());
        assert!(!seen.contains(&name), "{name:?} twice");
        seen.push(name);
    }
    if let Some(body) = operation.get("requestBody") {
        has("body", body);
    }
    let responses = fields(&operation["responses"]);
    assert!(!responses.is_empty());
    for (status, response) in responses {
        let number: u16 = status.parse().unwrap();
        assert!((100..600).contains(&number), "{status}");
        if response.get("$ref").is_none() {
            has("response", response);
        }
    }
}

/// By the specification's own schema, where Python has its validator: `pip install openapi-spec-validator`.
#[test]
fn a_validator_of_others_finds_nothing() {
    let python = |code: &str| {
        let mut command = Command::new("python3");
        command.args(["-c", code]).arg(file());
        command
    };
    let there = python("import openapi_spec_validator")
        .stderr(Stdio::null())
        .status();
    if !there.is_ok_and(|status| status.success()) {
        eprintln!("openapi_spec_validator is not installed: left out");
        return;
    }
    let code = "import json, sys\nfrom openapi_spec_validator import OpenAPIV31SpecValidator as Validator\n\
        found = list(Validator(json.load(open(sys.argv[1]))).iter_errors())\n[print(each.message, list(each.path)) for each in found]\n\
        sys.exit(bool(found))";
    let output = python(code).output().unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Whether a value is what a schema says; of the keywords that ours are made of, and of no other.
fn fits(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let schema = match schema {
        Value::Bool(true) => return Ok(()),
        Value::Bool(false) => return Err(format!("nothing is allowed: {value}")),
        schema => fields(schema),
    };
    let not = |why: &str| Err(format!("{why}: {value}"));
    for (keyword, says) in schema {
        let some = |all: &Value| {
            let all = all.as_array().unwrap();
            all.iter()
                .filter(|one| fits(document, one, value).is_ok())
                .count()
        };
        match keyword.as_str() {
            "description" | "title" | "default" | "format" | "examples" | "required"
            | "properties" => {}
            "$ref" => {
                let to = says.as_str().unwrap().strip_prefix('#').unwrap();
                fits(document, document.pointer(to).unwrap(), value)?;
            }
            "const" if says != value => return not(&format!("not {says}")),
            "enum" if !says.as_array().unwrap().contains(value) => {
                return not(&format!("none of {says}"));
            }
            "const" | "enum" => {}
            "type" if !is(says, value) => return not(&format!("no {says}")),
            "type" => {}
            "minimum" if value.as_f64() < says.as_f64() => return not("too small"),
            "maximum" if value.as_f64() > says.as_f64() => return not("too large"),
            "minimum" | "maximum" => {}
            "anyOf" if some(says) == 0 => return not("of no kind"),
            "oneOf" if some(says) != 1 => return not("not of one kind"),
            "anyOf" | "oneOf" => {}
            "items" | "prefixItems" | "minItems" | "maxItems" => {
                items(document, keyword, says, value)?;
            }
            "additionalProperties" => {
                let known = schema.get("properties").map(fields);
                let inner = value.as_object().into_iter().flatten();
                for (name, inner) in inner {
                    if !known.is_some_and(|known| known.contains_key(name)) {
                        fits(document, says, inner).map_err(|why| format!("{name}: {why}"))?;
                    }
                }
            }
            other => panic!("what does {other} mean?"),
        }
    }
    let Some(inner) = value.as_object() else {
        return Ok(());
    };
    for name in schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        if !inner.contains_key(name.as_str().unwrap()) {
            return not(&format!("without {name}"));
        }
    }
    for (name, says) in schema.get("properties").map(fields).into_iter().flatten() {
        if let Some(inner) = inner.get(name) {
            fits(document, says, inner).map_err(|why| format!("{name}: {why}"))?;
        }
    }
    Ok(())
}

fn items(document: &Value, keyword: &str, says: &Value, value: &Value) -> Result<(), String> {
    let all = value.as_array().map_or(&[][..], Vec::as_slice);
    let count = || says.as_u64().unwrap() as usize;
    match keyword {
        "items" => all.iter().try_for_each(|one| fits(document, says, one)),
        "prefixItems" => says
            .as_array()
            .unwrap()
            .iter()
            .zip(all)
            .try_for_each(|(says, one)| fits(document, says, one)),
        "minItems" if all.len() < count() => Err(format!("too few: {value}")),
        "maxItems" if all.len() > count() => Err(format!("too many: {value}")),
        _ => Ok(()),
    }
}

fn is(says: &Value, value: &Value) -> bool {
    let one = |kind: &Value| match kind.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("what is {other}?"),
    };
    match says {
        Value::Array(kinds) => kinds.iter().any(one),
        kind => one(kind),
    }
}

/// Questions with values that a scenario can answer.
fn example(path: &str) -> String {
    let query = match path {
        "/api/link" => "?a=tokyo&b=london&step=3",
        "/api/path" | "/api/series" => "?from=tokyo&to=london",
        "/api/node" => "?node=tokyo&step=3",
        "/api/track" => "?node=iridium-p01-s04",
        _ => "",
    };
    format!("{path}{query}")
}

/// Those that want a lab, or a run that has ended.
const OF_LABS: [&str; 5] = [
    "/api/routes",
    "/api/rules",
    "/api/networks",
    "/api/run",
    "/api/columns",
];

#[test]
fn questions_are_answered_as_it_says() {
    let (served, document) = (served(), parsed());
    let cookie = served.cookie();
    let mut answered = 0;
    for (path, item) in fields(&document["paths"]) {
        let Some(get) = item.get("get").filter(|get| get.get("x-socket").is_none()) else {
            continue;
        };
        let open = get["security"].as_array().is_some_and(Vec::is_empty);
        let stranger = served.get(path, "").status;
        assert_eq!(stranger, if open { 200 } else { 401 }, "{path}");
        if open {
            continue;
        }
        let reply = served.get(&example(path), &cookie);
        if OF_LABS.contains(&path.as_str()) {
            assert_eq!(reply.status, 400, "{path}");
            let refused = &document["components"]["responses"]["Refused400"];
            let schema = &refused["content"]["application/json"]["schema"];
            fits(&document, schema, &reply.json()).unwrap();
        } else {
            assert_eq!(reply.status, 200, "{path}");
            let schema = &get["responses"]["200"]["content"]["application/json"]["schema"];
            fits(&document, schema, &reply.json()).unwrap_or_else(|why| panic!("{path}: {why}"));
            answered += 1;
        }
        for parameter in get["parameters"].as_array().unwrap() {
            let name = parameter["name"].as_str().unwrap();
            if parameter["required"] == true && !OF_LABS.contains(&path.as_str()) {
                let without = example(path).replace(&format!("{name}="), "other=");
                let refused = served.get(&without, &cookie);
                assert_eq!(refused.status, 400, "{without}");
                assert_eq!(refused.error(), format!("which {name}?"));
            }
        }
    }
    assert_eq!(answered, 8);
    assert_eq!(served.get("/api/nothing", &cookie).status, 404);
}

#[test]
fn the_server_carries_out_the_orders_that_it_says_and_no_others() {
    // A changed scenario can run programs, as a shell can.
    let options = Options {
        write: true,
        shell: Some(ShellProgram {
            program: PathBuf::from("constel"),
            lab: "sky".to_owned(),
        }),
        ..Options::default()
    };
    let (served, document) = (served_with(options), parsed());
    let own = format!("{}{}", served.own(), served.cookie());
    let effects = json!({ "down": true });
    let examples = [
        json!({ "verb": "set-link", "a": "tokyo", "effects": effects }),
        json!({ "verb": "set-nodes", "nodes": ["tokyo"], "change": "fail" }),
        json!({ "verb": "set-station", "stations": ["tokyo"], "change": { "kind": "detach" } }),
        json!({ "verb": "apply", "text": "constel: 1", "file": "a.yaml", "folder": "/", "dry_run": true }),
        json!({ "verb": "set-member", "network": "n", "node": "a", "joined": true }),
        json!({ "verb": "set-delays", "network": "n" }),
        json!({ "verb": "enter", "node": "tokyo" }),
        json!({ "verb": "user-file", "node": "tokyo", "name": "x" }),
        json!({ "verb": "command", "node": "tokyo", "data": 1 }),
        json!({ "verb": "change-rules", "change": { "kind": "remove", "name": "x" } }),
        json!({ "verb": "capture", "of": "tokyo" }),
        json!({ "verb": "policy", "name": "balance" }),
        json!({ "verb": "confirm" }),
        json!({ "verb": "down" }),
        json!({ "capture": { "of": "tokyo", "for_s": 10 } }),
        json!({ "flow": { "tool": "ping", "from": "tokyo", "to": "london", "for_s": 30 } }),
    ];
    let order = &document["components"]["schemas"]["Order"];
    let mut carried = 0;
    for example in &examples {
        if example.get("verb").is_some() {
            serde_json::from_value::<Write>(example.clone()).unwrap();
        }
        let reply = served.post("/api/do", &own, &example.to_string());
        if fits(&document, order, example).is_ok() {
            carried += 1;
            // It would be, in a lab.
            assert_eq!(reply.status, 400, "{example}");
            assert!(reply.error().contains("no lab"), "{}", reply.error());
        } else {
            assert_eq!(reply.status, 403, "{example}");
        }
    }
    assert_eq!(carried, 9);
    // Every write of the API is among the examples.
    let schema: Value = serde_json::from_str(&constel_api::schema_json()).unwrap();
    let verbs = schema["$defs"]["Write"]["oneOf"].as_array().unwrap();
    assert_eq!(verbs.len() + 2, examples.len());
    let read = serde_json::to_string(&Read::State).unwrap();
    let reply = served.post("/api/do", &own, &read);
    assert_eq!(reply.status, 400);
    assert!(
        reply.error().contains("unknown variant"),
        "{}",
        reply.error()
    );
}

#[test]
fn a_socket_says_what_it_says() {
    use tungstenite::Message;
    let (served, document) = (served(), parsed());
    let mut socket = served.socket(&served.cookie());
    let talk = &document["paths"]["/api/socket"]["get"]["x-socket"];
    for (text, good) in [
        (r#"{"op": "step", "step": 3}"#, true),
        (r#"{"op": "step", "step": 3, "ahead": 2}"#, true),
        (r#"{"op": "step"}"#, false),
        (r#"{"op": "fly"}"#, false),
    ] {
        let ask: Value = serde_json::from_str(text).unwrap();
        let fit = fits(&document, &talk["browser"]["text"], &ask);
        assert_eq!(fit.is_ok(), good, "{text}: {fit:?}");
        socket.send(Message::text(text)).unwrap();
        match socket.read().unwrap() {
            Message::Binary(_) => assert!(good, "{text}"),
            Message::Text(told) => {
                assert!(!good, "{text}");
                let told: Value = serde_json::from_str(&told).unwrap();
                fits(&document, &talk["server"]["text"], &told).unwrap();
            }
            other => panic!("{other}"),
        }
    }
}
