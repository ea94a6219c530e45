//! `constel run`: a scenario from start to summary.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use constel_host::claim::LabName;
use constel_host::probe::require_privilege;
use constel_lab::{EngineError, Options};
use constel_observe::verdict::Bounds;
use serde_json::Value;

use super::scenario;
use crate::args::Run;
use crate::exit::{Exit, Failure, Outcome};
use crate::{output, progress};

/// Stays in the foreground until the lab is down again.
pub(crate) fn run(args: &Run) -> Outcome {
    let loaded = scenario::load(&args.file, scenario::rendered)?;
    eprint!("{}", scenario::age_warnings(&loaded.lab));
    let name = args
        .name
        .clone()
        .unwrap_or_else(|| loaded.lab.scenario.name.to_string());
    let lab: LabName = name
        .parse()
        .map_err(|error| Failure::Usage(format!("{error}; --name gives the lab another name")))?;
    let duration_ns = match args.duration {
        None => None,
        Some(span) => match u64::try_from(span.ns()) {
            Ok(ns) if ns > 0 => Some(ns),
            _ => {
                return Err(Failure::Usage(format!(
                    "--for {span}: must be longer than nothing"
                )));
            }
        },
    };
    require_privilege().map_err(|error| Failure::Host(error.to_string()))?;
    let stop = Arc::new(AtomicBool::new(false));
    // `constel down` stops a run as well, but interrupts nobody.
    let signalled = Arc::new(AtomicBool::new(false));
    for signal in [
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
    ] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&signalled))?;
    }
    let options = Options {
        lab,
        scenario_file: loaded.file,
        scenario_text: loaded.text,
        results: args
            .results
            .clone()
            .unwrap_or_else(|| default_results(&name)),
        duration_ns,
        traffic: !args.no_traffic,
        stop,
    };
    let watcher = progress::for_stderr();
    let finished = match constel_lab::run(loaded.lab, &options, watcher.as_ref()) {
        Ok(finished) => finished,
        Err(EngineError::Interrupted) => {
            eprintln!("constel: stopped while coming up; the lab is down and the host as it was");
            return Ok(ended(&signalled, Exit::Done));
        }
        Err(error @ EngineError::Unable { .. }) => return Err(Failure::Host(error.to_string())),
        Err(error @ EngineError::Taken(_)) => return Err(Failure::Usage(error.to_string())),
        Err(error) => return Err(error.into()),
    };
    let summary = serde_json::to_value(&finished.summary)?;
    if args.json {
        output::json(&summary)?;
    } else {
        output::text(&summary_text(&summary))?;
        output::text(&format!("results: {}\n", finished.results.display()))?;
    }
    let trusted = finished.summary.verdict.trustworthy;
    Ok(ended(
        &signalled,
        if trusted {
            Exit::Done
        } else {
            Exit::NotTrustworthy
        },
    ))
}

/// A signal decides the exit code, whatever the run came to.
fn ended(signalled: &AtomicBool, otherwise: Exit) -> Exit {
    if signalled.load(Ordering::Acquire) {
        Exit::Interrupted
    } else {
        otherwise
    }
}

fn default_results(lab: &str) -> PathBuf {
    let stamp = chrono::Utc::now().format("%Y%m%dT%H%M%SZ");
    PathBuf::from("results").join(format!("{lab}-{stamp}"))
}

/// A pair's disjoint paths in a line each, and the steps that had fewer.
fn disjoint(pair: &Value) -> String {
    let counts = pair["steps_by_paths"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let steps = |counts: &[Value]| counts.iter().filter_map(Value::as_u64).sum::<u64>();
    let fewer = &counts[..counts.len().saturating_sub(1)];
    let mut text = format!(
        "disjoint paths {}, {} to {}: {} of {} steps had fewer than {}\n",
        output::cell(&pair["name"]),
        output::cell(&pair["between"][0]),
        output::cell(&pair["between"][1]),
        steps(fewer),
        steps(&counts),
        fewer.len(),
    );
    for (number, path) in (1..).zip(pair["paths"].as_array().into_iter().flatten()) {
        let delay = &path["delay_ns"];
        let ms = |key: &str| delay[key].as_f64().map_or("-".to_owned(), output::ms);
        text.push_str(&format!(
            "  path {number}: one way {} to {}, {} steps changed it\n",
            ms("min"),
            ms("max"),
            path["changes"]
        ));
    }
    text
}

/// A summary for people.
pub(crate) fn summary_text(summary: &Value) -> String {
    let times = &summary["times"];
    let mut text = format!(
        "\n{}: {} nodes, {} interfaces, {} edges; up in {:.1} s, down in {:.1} s, {} of lab time\n",
        output::cell(&summary["lab"]),
        summary["size"]["nodes"],
        summary["size"]["ports"],
        summary["size"]["edges"],
        times["bring_up_s"].as_f64().unwrap_or(f64::NAN),
        times["take_down_s"].as_f64().unwrap_or(f64::NAN),
        seconds(&summary["lab_time_ns"]),
    );
    if let Some(first) = summary["convergence"]["first_s"].as_f64() {
        text.push_str(&format!(
            "routes stood {first:.1} s after the edges were up\n"
        ));
    }
    if let Some(routing) = summary["routing"].as_str() {
        text.push_str(&format!("routing: {routing}\n"));
    }
    let converged = &summary["converged"];
    if let Some(mean) = converged["mean_right_ratio"].as_f64() {
        text.push_str(&format!(
            "routes in lab time: {:.3} % led where they should, {:.3} % at the worst moment; all {} nodes were \
             right at {} of {} looks\n",
            100.0 * mean,
            100.0 * converged["least_right_ratio"].as_f64().unwrap_or(f64::NAN),
            converged["nodes"],
            converged["complete"],
            converged["looks"]
        ));
    }
    for pair in summary["disjoint"].as_array().into_iter().flatten() {
        text.push_str(&disjoint(pair));
    }
    let handovers = summary["handovers"].as_array().cloned().unwrap_or_default();
    let rows: Vec<Vec<String>> = handovers.iter().map(handover_cells).collect();
    if !rows.is_empty() {
        text.push('\n');
        text.push_str(&output::table(
            &["HANDOVER", "STATION", "FROM", "TO", "ROUTES STOOD AFTER"],
            &rows,
        ));
    }
    let changes = summary["changes"].as_array().cloned().unwrap_or_default();
    let rows: Vec<Vec<String>> = changes.iter().map(change_cells).collect();
    if !rows.is_empty() {
        text.push('\n');
        let head = [
            "CHANGE",
            "KIND",
            "CAUSE",
            "WHAT",
            "ROUTES STOOD AFTER",
            "LOST",
        ];
        text.push_str(&output::table(&head, &rows));
    }
    let flows = summary["flows"].as_array().cloned().unwrap_or_default();
    let rows: Vec<Vec<String>> = flows.iter().map(flow_cells).collect();
    if !rows.is_empty() {
        text.push('\n');
        let head = [
            "FLOW",
            "KIND",
            "RTT MIN/P50/MAX",
            "BOUND",
            "RATE",
            "LOSS",
            "HOPS",
            "HANDOVERS",
            "STATUS",
        ];
        text.push_str(&output::table(&head, &rows));
    }
    let fidelity = &summary["fidelity"];
    let bound =
        serde_json::from_value(summary["bounds"].clone()).map(|b: Bounds| b.lateness_in_words());
    text.push_str(&format!(
        "\nlink plane: {} frames, lateness p99 {}{} max {}\n",
        fidelity["frames_released"],
        output::ms(fidelity["lateness_p99_ns"].as_f64().unwrap_or(f64::NAN)),
        // Results of an earlier version have none.
        bound.map_or_else(|_| String::new(), |bound| format!(" ({bound})")),
        output::ms(fidelity["lateness_max_ns"].as_f64().unwrap_or(f64::NAN)),
    ));
    let machine = &fidelity["machine"];
    if machine["stalls"].as_u64().is_some_and(|n| n > 0) {
        text.push_str(&format!(
            "this machine kept the link plane from running {} times, {} in all, longest {}\n",
            machine["stalls"],
            output::ms(machine["stalled_ns"].as_f64().unwrap_or(f64::NAN)),
            output::ms(machine["longest_stall_ns"].as_f64().unwrap_or(f64::NAN)),
        ));
    }
    if summary["verdict"]["trustworthy"] == true {
        text.push_str("verdict: trustworthy\n");
    } else {
        text.push_str("verdict: NOT trustworthy\n");
        for reason in summary["verdict"]["reasons"]
            .as_array()
            .into_iter()
            .flatten()
        {
            text.push_str(&format!("  - {}\n", output::cell(reason)));
        }
    }
    text
}

fn seconds(ns: &Value) -> String {
    ns.as_f64()
        .map_or_else(|| "-".to_owned(), |ns| format!("{:.1} s", ns / 1e9))
}

fn handover_cells(row: &Value) -> Vec<String> {
    vec![
        seconds(&row["t_ns"]),
        output::cell(&row["station"]),
        output::cell(&row["from"]),
        output::cell(&row["to"]),
        seconds(&row["routes_stood_after_ns"]),
    ]
}

fn change_cells(row: &Value) -> Vec<String> {
    let objects = row["objects"].as_array().cloned().unwrap_or_default();
    let first = output::cell(objects.first().unwrap_or(&Value::Null));
    let what = match objects.len() {
        0 | 1 => first,
        n => format!("{first} and {} more", n - 1),
    };
    vec![
        seconds(&row["t_ns"]),
        output::cell(&row["kind"]),
        output::cell(&row["cause"]),
        what,
        seconds(&row["routes_stood_after_ns"]),
        output::cell(&row["lost_probes"]),
    ]
}

fn flow_cells(flow: &Value) -> Vec<String> {
    let ms = |value: &Value| {
        value
            .as_f64()
            .map_or_else(|| "-".to_owned(), |ns| format!("{:.1}", ns / 1e6))
    };
    let rtt = &flow["rtt"];
    let rtt = if rtt.is_null() {
        "-".to_owned()
    } else {
        format!(
            "{}/{}/{} ms",
            ms(&rtt["min_ns"]),
            ms(&rtt["p50_ns"]),
            ms(&rtt["max_ns"])
        )
    };
    let bound = &flow["bound_rtt"]["min_ns"];
    let hops: Vec<String> = flow["paths"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|path| Some((path.as_array()?.len().saturating_sub(1)).to_string()))
        .collect();
    let status = match flow["reason"].as_str() {
        Some(reason) => format!("{}: {reason}", output::cell(&flow["status"])),
        None => output::cell(&flow["status"]),
    };
    vec![
        output::cell(&flow["name"]),
        output::cell(&flow["kind"]),
        rtt,
        if bound.is_null() {
            "-".to_owned()
        } else {
            format!("{} ms", ms(bound))
        },
        flow["throughput_bps"]
            .as_f64()
            .map_or_else(|| "-".to_owned(), output::rate),
        flow["loss_ratio"]
            .as_f64()
            .map_or_else(|| "-".to_owned(), |loss| format!("{:.2} %", loss * 100.0)),
        if hops.is_empty() {
            "-".to_owned()
        } else {
            hops.join(",")
        },
        flow["handovers"].to_string(),
        status,
    ]
}
