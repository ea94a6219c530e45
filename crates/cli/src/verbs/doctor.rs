//! `constel doctor`: what this host can do, found out by trying.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use constel_drivers::{DriverKind, DriverReport};
use constel_host::process::find_command;
use constel_lab::search_path;
use serde_json::{Value, json};

use crate::args::Json;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Software that shipped scenarios run, with the Debian package of each.
const SOFTWARE: &[(&str, &str)] = &[
    ("bird", "bird2"),
    ("zebra", "frr"),
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
    let reports = DriverKind::ALL.map(constel_drivers::probe);
    let chosen = constel_drivers::choose(None);
    for report in &reports {
        for item in &report.features {
            // One driver is enough; without any, the reference says what to do.
            let required = chosen.is_err() && report.driver == DriverKind::Relay;
            let detail = item.detail.lines().next().unwrap_or_default();
            items.push(json!({
                "area": format!("driver {}", report.driver), "name": item.name, "ok": item.works,
                "required": required && !item.name.contains("optional"),
                "detail": detail, "remedy": if item.works { "" } else { item.remedy },
            }));
        }
    }
    let (in_use, why) = match &chosen {
        Ok(chosen) => (chosen.kind.name(), chosen.why.clone()),
        Err(error) => ("none", error.to_string()),
    };
    items.push(json!({
        "area": "driver", "name": "links.driver: auto", "ok": chosen.is_ok(), "required": true,
        "detail": format!("{in_use}: {why}"), "remedy": "",
    }));
    let map = constel_drivers::forward::probe();
    items.push(json!({
        "area": "routing", "name": map.name, "ok": map.works, "required": false,
        "detail": if map.works { "optional" } else { map.detail.lines().next().unwrap_or_default() },
        "remedy": if map.works { "" } else { map.remedy },
    }));
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
        let works = |report: &DriverReport| (report.driver.name().to_owned(), report.works);
        let drivers: BTreeMap<String, bool> = reports.iter().map(works).collect();
        output::json(
            &json!({"able": able, "drivers": drivers, "driver": {"name": in_use, "why": why}, "runtimes": {"netns": able}, "items": items}),
        )?;
    } else {
        let rows: Vec<Vec<String>> = items.iter().map(cells).collect();
        let table = output::table(&["", "AREA", "NAME", "FOUND"], &rows);
        let advice: String = items.iter().filter_map(advice).collect();
        output::text(&(table + &advice))?;
    }
    if able {
        Ok(Exit::Done)
    } else {
        Err(Failure::Host(
            "this host cannot run labs yet; what to do is said below the table".to_owned(),
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
    row.extend(["area", "name"].map(|key| output::cell(&item[key])));
    // Errors are long, and a column is as wide as its longest cell.
    row.push(if item["ok"] == true {
        output::cell(&item["detail"])
    } else {
        "see below".to_owned()
    });
    row
}

/// What is wrong and what to do, for what does not work.
fn advice(item: &Value) -> Option<String> {
    let text = |key: &str| output::cell(&item[key]);
    (item["ok"] != true).then(|| {
        let (area, name) = (text("area"), text("name"));
        let mut lines = format!("\n{area}, {name}:\n  found: {}\n", text("detail"));
        if item["remedy"] != "" {
            lines.push_str(&format!("  to do: {}\n", text("remedy")));
        }
        lines
    })
}
