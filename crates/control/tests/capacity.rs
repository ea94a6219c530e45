//! Estimates of what labs take, beside what labs took: `benches/raw/capacity.json`, which `benches/run capacity` wrote.
//! The table of `docs/capacity.md` has both; `CONSTEL_BLESS=1 cargo test -p constel-control --test capacity` writes it.

use std::fs;
use std::path::{Path, PathBuf};

use constel_analysis::capacity::costs::MEMORY_ERROR_RATIO;
use constel_analysis::capacity::{Estimate, Load, MachineCapacity, Needs, Resource};
use constel_control::Scenario;
use constel_scenario::Setting;
use serde_json::Value;

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

fn raw(part: &str) -> Value {
    let text = fs::read_to_string(root(&format!("benches/raw/{part}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn load(row: &Value) -> Scenario {
    let settings = row["set"].as_array().unwrap().iter();
    let settings: Vec<Setting> = settings
        .map(|set| set.as_str().unwrap().parse().unwrap())
        .collect();
    let file = root(row["scenario"].as_str().unwrap());
    Scenario::load_with(&file, &settings).unwrap_or_else(|e| panic!("{e}"))
}

/// Processors of the routing daemons and the link plane after routes had converged.
fn busy(row: &Value, lab_s: f64) -> f64 {
    let of = |when: &str| -> f64 {
        let rows = row["daemons"].as_array().unwrap().iter();
        rows.filter(|d| d["when"] == when)
            .map(|d| d["cpu_total_s"].as_f64().unwrap())
            .sum()
    };
    (of("end") - of("routes-converged")) / lab_s
}

#[test]
fn labs_take_what_was_estimated() {
    let found = raw("capacity");
    let rows = found["rows"]["rows"].as_array().unwrap();
    let lab_s = found["rows"]["lab_seconds"].as_f64().unwrap();
    let mut table = "| lab | nodes | interfaces | memory, MB | estimated | open files | estimated | processes | estimated | up, s | processors of daemons |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n".to_owned();
    let mut wrong = Vec::new();
    for row in rows {
        let scenario = load(row);
        let needs = Needs::of(&scenario.lab, false);
        let number = |key: &str| row[key].as_f64().unwrap();
        let (took, estimated) = (number("memory_bytes"), needs.memory.whole());
        if (estimated / took - 1.0).abs() > MEMORY_ERROR_RATIO {
            let lab = row["lab"].as_str().unwrap();
            wrong.push(format!(
                "{lab}: took {:.0} MB, estimated {:.0} MB",
                took / 1e6,
                estimated / 1e6
            ));
        }
        // Resources that must not run out are never estimated too low.
        assert!(needs.descriptors.whole() >= number("descriptors"), "{row}");
        assert!(
            needs.processes.whole() * 1.1 >= number("processes") - 20.0,
            "{row}"
        );
        table += &format!(
            "| {} | {} | {} | {:.0} | {:.0} | {} | {:.0} | {} | {:.0} | {:.1} | {:.2} |\n",
            row["lab"].as_str().unwrap(),
            row["nodes"],
            row["ports"],
            took / 1e6,
            estimated / 1e6,
            row["descriptors"],
            needs.descriptors.whole(),
            row["processes"],
            needs.processes.whole(),
            row["times"]["bring_up_s"].as_f64().unwrap(),
            busy(row, lab_s),
        );
    }
    assert!(wrong.is_empty(), "{}\n{table}", wrong.join("\n"));
    assert!(rows.len() >= 8, "only {} labs", rows.len());

    let source = format!(
        "`benches/run capacity`, {}, {}, Linux {}, {}:\n\n{table}",
        found["date"].as_str().unwrap(),
        found["commit"].as_str().unwrap(),
        found["kernel"].as_str().unwrap(),
        found["processors"].as_str().unwrap(),
    );
    let tables = [("capacity", source), ("machines", machines(rows))];
    let page = root("docs/capacity.md");
    let mut text = fs::read_to_string(&page).unwrap();
    for (name, table) in &tables {
        let begin = format!("<!-- table {name} -->\n");
        let (before, rest) = text.split_once(&begin).unwrap();
        let (shown, after) = rest.split_once("<!-- end -->").unwrap();
        if std::env::var_os("CONSTEL_BLESS").is_none() {
            assert_eq!(
                shown, table,
                "docs/capacity.md: CONSTEL_BLESS=1 writes it anew"
            );
        }
        text = format!("{before}{begin}{table}<!-- end -->{after}");
    }
    if std::env::var_os("CONSTEL_BLESS").is_some() {
        fs::write(&page, text).unwrap();
    }
}

/// How many nodes like those of some labs fit into the memory of some machines.
fn machines(rows: &[Value]) -> String {
    let ways = [
        ("computed", "5280-computed"),
        ("BIRD, areas of 180", "shell1-bird"),
        ("BIRD, one area", "one-area-720"),
        ("FRR, IPv4 and IPv6", "iridium-frr"),
    ];
    let mut table = "| memory |".to_owned();
    table.extend(ways.iter().map(|(words, _)| format!(" {words} |")));
    table += "\n|---:|---:|---:|---:|---:|\n";
    for memory_gb in [2.0, 8.0, 24.0, 64.0, 256.0] {
        table += &format!("| {memory_gb} GB |");
        for (_, lab) in ways {
            let row = rows.iter().find(|row| row["lab"] == lab).unwrap();
            let scenario = load(row);
            let memory = Needs::of(&scenario.lab, false).memory;
            let room = (memory_gb - 1.0) * 1e9;
            let (mut least, mut most) = (0.0, 1_000.0);
            for _ in 0..60 {
                let middle = f64::midpoint(least, most);
                if memory.at(middle) <= room {
                    least = middle;
                } else {
                    most = middle;
                }
            }
            let nodes = least * scenario.lab.layout.nodes().len() as f64;
            table += &format!(" {:.0} |", (nodes / 10.0).floor() * 10.0);
        }
        table += "\n";
    }
    table
}

/// Against `benches/run throughput`: UDP over the relay, five links.
#[test]
fn frames_take_what_was_estimated() {
    let found = raw("throughput");
    let rows = found["rows"].as_array().unwrap().iter();
    let relayed =
        rows.filter(|row| row["path"] == "relay" && row["what"] == "udp" && row["hops"] == 5);
    let mut looked = 0;
    for row in relayed {
        let number = |key: &str| row[key].as_f64().unwrap();
        let load = Load::new(
            number("delivered_fps"),
            number("length_bytes"),
            number("hops"),
        );
        let measured = number("cpu_ns_per_frame") * number("delivered_fps") / 1e9;
        let ratio = load.processors() / measured;
        assert!((0.7..1.4).contains(&ratio), "{ratio}: {row}");
        let ratio = load.carrier() / (number("relay_cpu_percent") / 100.0);
        assert!((0.7..1.4).contains(&ratio), "{ratio}: {row}");
        looked += 1;
    }
    assert!(looked >= 2);
}

/// Labs that would not fit are named, with the nearest size that does.
#[test]
fn the_nearest_size_that_fits_is_named() {
    let scenario = Scenario::load(&root("experiments/opensn/shell1.yaml")).unwrap();
    let whole = Needs::of(&scenario.lab, true);
    let room = MachineCapacity {
        memory_bytes: (whole.memory.whole() / 2.0) as u64,
        descriptors: 1 << 20,
        processes: 1_000,
        processors: 64.0,
    };
    let estimate = Estimate::new(&scenario.lab, true, room);
    let short: Vec<Resource> = estimate
        .figures
        .iter()
        .filter(|f| !f.is_enough())
        .map(|f| f.what)
        .collect();
    assert_eq!(short, [Resource::Memory, Resource::Processes]);
    assert_eq!(estimate.hopeless().count(), 2);
    let said = &estimate.short[0];
    assert!(said.contains("of its 72 planes would fit ("), "{said}");
    // That number of nodes does fit.
    let scale = estimate.figures[0].fits.unwrap();
    assert!(whole.memory.at(scale) <= room.memory_bytes as f64);
    assert!(whole.memory.at(scale + 0.01) > room.memory_bytes as f64);
}
