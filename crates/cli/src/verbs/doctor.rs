//! `constel doctor`: what this host can do, found out by trying.

use std::ffi::OsStr;

use constel_engine::search_path;
use constel_host::process::find_command;
use serde_json::{Value, json};

use crate::args::Json;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Software that shipped scenarios run, with the Debian package of each.
const SOFTWARE: &[(&str, &str)] = &[
    ("bird", "bird2"),
    ("iperf3", "iperf3"),
    ("ping", "iputils-ping"),
    ("nginx", "nginx-light"),
    ("curl", "curl"),
];

/// Exit 0 when every required thing works, 5 otherwise.
pub(crate) fn run(args: &Json) -> Outcome {
    let mut items = Vec::new();
    for item in constel_host::probe::probe() {
        items.push(json!({
            "area": "host", "name": item.name, "ok": item.ok, "required": item.required,
            "detail": item.detail, "remedy": item.remedy,
        }));
    }
    let relay = constel_drivers::probe();
    for item in &relay.features {
        items.push(json!({
            "area": "driver relay", "name": item.name, "ok": item.works, "required": true,
            "detail": item.detail, "remedy": if item.works { "" } else { item.remedy },
        }));
    }
    let path = search_path();
    for (program, package) in SOFTWARE {
        let found = find_command(OsStr::new(program), &path);
        let ok = found.is_ok();
        items.push(json!({
            "area": "software", "name": program, "ok": ok, "required": false,
            "detail": found.map_or_else(|_| "not found".to_owned(), |path| path.display().to_string()),
            "remedy": if ok { String::new() } else { format!("apt-get install {package}") },
        }));
    }
    let able = items
        .iter()
        .all(|item| item["ok"] == true || item["required"] == false);
    if args.json {
        output::json(
            &json!({"able": able, "drivers": {"relay": relay.relay}, "runtimes": {"netns": able}, "items": items}),
        )?;
    } else {
        let rows: Vec<Vec<String>> = items.iter().map(cells).collect();
        output::text(&output::table(
            &["", "AREA", "NAME", "FOUND", "TO DO"],
            &rows,
        ))?;
    }
    if able {
        Ok(Exit::Done)
    } else {
        Err(Failure::Host(
            "this host cannot run labs yet; the table says what to do".to_owned(),
        ))
    }
}

fn cells(item: &Value) -> Vec<String> {
    let mark = match (item["ok"] == true, item["required"] == true) {
        (true, _) => "ok",
        (false, true) => "FAIL",
        (false, false) => "miss",
    };
    let mut row = vec![mark.to_owned()];
    row.extend(["area", "name", "detail", "remedy"].map(|key| output::cell(&item[key])));
    row
}
