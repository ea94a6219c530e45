//! A scenario run with other values and seeds than its file has; many times, stopped, killed, and gone on with.

use crate::support;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::host::{Host, LABS};
use support::{CONSTEL, constel, json, scenario, stderr, stdout, until, wait};

fn small(dir: &Path) -> PathBuf {
    let traffic = "traffic:\n  - {name: fetch, at: 0 s, for: 1 s, tcp: {from: east, to: west, congestion: cubic}}\n";
    let file = scenario::small(dir, "small.yaml", "{mode: computed}", traffic);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("duration: 60 s", "duration: 2 s")).unwrap();
    file
}

fn sweep(file: &Path, out: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(CONSTEL);
    command.arg("sweep").arg(file).arg("--out").arg(out);
    command
        .args(["--name", &format!("{LABS}sweep"), "--again", "0"])
        .args(more);
    command.stdin(Stdio::null());
    command
}

fn start(mut command: Command, log: &Path) -> Child {
    let log = fs::File::create(log).unwrap();
    command.stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

fn summaries(out: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![out.join("runs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.ends_with("summary.json") {
                found.push(path);
            } else if path.is_dir() {
                folders.push(path);
            }
        }
    }
    found.sort();
    found
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

#[test]
fn values_and_seeds_of_the_command_line_are_those_of_the_run() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let (file, results) = (small(dir.path()), dir.path().join("results"));
    let before = fs::read(&file).unwrap();
    let mut command = Command::new(CONSTEL);
    command.arg("run").arg(&file).arg("--results").arg(&results);
    command.args(["--name", &format!("{LABS}set"), "--seed", "42", "--json"]);
    command.args(["--set", "traffic[fetch].tcp.congestion=reno"]);
    command.args(["--set", "constellations.sat.gsl.link.rate=90 Mbit/s"]);
    let output = support::finish(command);
    assert!(
        matches!(output.status.code(), Some(0 | 3)),
        "{}",
        stderr(&output)
    );
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["seed"], 42);
    assert_eq!(summary["flows"][0]["status"], "ok", "{summary}");
    // The executed scenario is in the results, and runs again as it is; the user's file is not touched.
    let ran = fs::read_to_string(results.join("scenario.yaml")).unwrap();
    for changed in ["seed: 42\n", "congestion: reno}", "rate: 90 Mbit/s"] {
        assert!(ran.contains(changed), "{changed}\n{ran}");
    }
    assert_eq!(fs::read(&file).unwrap(), before);
    let same = json(&constel([
        "plan".as_ref(),
        file.as_os_str(),
        "--json".as_ref(),
    ]));
    let seeded = json(&constel([
        "plan".as_ref(),
        file.as_os_str(),
        "--json".as_ref(),
        "--set".as_ref(),
        "constellations.sat.walker.satellites=16".as_ref(),
    ]));
    let nodes = |plan: &Value| plan["nodes"].as_array().unwrap().len();
    assert_eq!((nodes(&same), nodes(&seeded)), (14, 18));
    host.assert_as_before("after a run with other values");
}

#[test]
fn a_sweep_that_is_stopped_goes_on_where_it_was() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let (file, out, log) = (
        small(dir.path()),
        dir.path().join("out"),
        dir.path().join("log"),
    );
    let args = [
        "--seeds",
        "1..2",
        "--set",
        "traffic[0].tcp.congestion=cubic,reno",
    ];

    // Stopped in the middle of the second run.
    let mut child = start(sweep(&file, &out, &args), &log);
    until("the first run", || {
        (!summaries(&out).is_empty()).then_some(())
    });
    until("the second lab", || {
        fs::read_dir(out.join("runs/01-congestion-reno/seed-1/1")).ok()
    });
    signal(&child, Signal::INT);
    let status = wait(&mut child).unwrap();
    let said = fs::read_to_string(&log).unwrap();
    assert_eq!(status.code(), Some(130), "{said}");
    assert!(said.contains("resumes"), "{said}");
    host.assert_as_before("after a sweep was stopped");
    let first = out.join("runs/00-congestion-cubic/seed-1/1/summary.json");
    let made = fs::metadata(&first).unwrap().modified().unwrap();
    let table: Value = serde_json::from_slice(&fs::read(out.join("table.json")).unwrap()).unwrap();
    assert_eq!(table["runs"][0]["runs"], 1, "{table}");

    // Killed in the middle of another: the lab goes down by itself.
    let before = summaries(&out).len();
    let mut child = start(sweep(&file, &out, &args), &log);
    until("a lab", || {
        let listed = json(&constel(["list", "--json"]));
        let labs = listed.as_array().unwrap().iter();
        labs.into_iter()
            .any(|lab| {
                lab["lab"]
                    .as_str()
                    .unwrap()
                    .starts_with(&format!("{LABS}sweep"))
            })
            .then_some(())
    });
    signal(&child, Signal::KILL);
    wait(&mut child).unwrap();
    host.assert_as_before("after a sweep was killed");

    // And to its end.
    let output = support::finish(sweep(&file, &out, &[&args[..], &["--json"]].concat()));
    assert!(
        matches!(output.status.code(), Some(0 | 3)),
        "{}",
        stderr(&output)
    );
    let table: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(summaries(&out).len() > before);
    assert_eq!(
        fs::metadata(&first).unwrap().modified().unwrap(),
        made,
        "made once"
    );
    for (index, label) in ["congestion=cubic", "congestion=reno"].iter().enumerate() {
        let runs = &table["runs"][index];
        assert_eq!(
            (&runs["variant"], &runs["runs"], &runs["failed"]),
            (&(*label).into(), &2.into(), &0.into()),
            "{table}"
        );
    }
    let rows = table["rows"].as_array().unwrap();
    let rates: Vec<&Value> = rows
        .iter()
        .filter(|row| row["name"] == "throughput_mbps")
        .collect();
    assert_eq!(rates.len(), 2, "{table}");
    for row in rates {
        assert_eq!((&row["flow"], &row["n"]), (&"fetch".into(), &2.into()));
        assert!(
            row["mean"].as_f64() > Some(0.1) && row["ci95"].is_f64(),
            "{row}"
        );
    }
    for name in ["table.json", "table.csv", "table.svg", "sweep.json"] {
        assert!(fs::metadata(out.join(name)).unwrap().len() > 100, "{name}");
    }

    runs_are_compared(&out);

    // No run is left to do, and no other sweep's runs are mixed in.
    let output = support::finish(sweep(&file, &out, &[&args[..], &["--csv"]].concat()));
    assert!(
        stderr(&output).contains("4 of 4 runs are there already"),
        "{}",
        stderr(&output)
    );
    assert!(
        stdout(&output).starts_with("variant,flow,figure,n,"),
        "{}",
        stdout(&output)
    );
    let output = support::finish(sweep(
        &file,
        &out,
        &["--set", "traffic[0].tcp.congestion=bbr"],
    ));
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("its runs set other values"),
        "{}",
        stderr(&output)
    );
    host.assert_as_before("after sweeps");
}

/// Repeats against repeats, a run against itself, and against one whose packets took 50 ms longer.
fn runs_are_compared(out: &Path) {
    let compare = |a: &Path, b: &Path| {
        let words = ["results", "compare", "--json"].map(OsStr::new);
        json(&constel(
            words.into_iter().chain([a.as_os_str(), b.as_os_str()]),
        ))
    };
    let [cubic, reno] =
        ["00-congestion-cubic", "01-congestion-reno"].map(|name| out.join("runs").join(name));
    let comparison = compare(&cubic, &reno);
    assert_eq!(comparison["runs"], serde_json::json!([2, 2]));
    assert_eq!(comparison["seeds"], serde_json::json!([[1, 2], [1, 2]]));
    let rate = comparison["rows"].as_array().unwrap().iter();
    let rate: Vec<&Value> = rate
        .filter(|row| row["name"] == "throughput_mbps")
        .collect();
    assert_eq!(rate.len(), 1, "{comparison}");
    assert!(
        rate[0]["noise"] == "repeats" && rate[0]["differs"].is_boolean(),
        "{comparison}"
    );

    let run = cubic.join("seed-1/1");
    let later = out.join("later");
    fs::create_dir_all(later.join("flows")).unwrap();
    for name in ["manifest.json", "summary.json"] {
        fs::copy(run.join(name), later.join(name)).unwrap();
    }
    let series = fs::read_to_string(run.join("flows/fetch.csv")).unwrap();
    let place = series
        .lines()
        .next()
        .unwrap()
        .split(',')
        .position(|name| name == "owd_us")
        .unwrap();
    let mut moved = 0;
    let shifted = series.lines().map(|line| {
        let mut cells: Vec<String> = line.split(',').map(str::to_owned).collect();
        if let Ok(us) = cells[place].parse::<f64>() {
            cells[place] = (us + 50_000.0).to_string();
            moved += 1;
        }
        cells.join(",") + "\n"
    });
    let shifted: String = shifted.collect();
    assert!(moved >= 5, "{series}");
    fs::write(later.join("flows/fetch.csv"), shifted).unwrap();
    let differing = |comparison: &Value| -> Vec<String> {
        let rows = comparison["rows"].as_array().unwrap().iter();
        let rows = rows.filter(|row| row["differs"] == true);
        rows.map(|row| row["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let same = compare(&run, &run);
    assert!(
        same["rows"]
            .as_array()
            .unwrap()
            .iter()
            .any(|row| row["noise"] == "time"),
        "{same}"
    );
    assert_eq!(differing(&same), [""; 0]);
    let comparison = compare(&run, &later);
    assert_eq!(differing(&comparison), ["owd_mean_ms"], "{comparison}");

    let none = constel([
        "results".as_ref(),
        "compare".as_ref(),
        run.as_os_str(),
        later.join("flows").as_os_str(),
    ]);
    assert_eq!(none.status.code(), Some(2), "{}", stderr(&none));
    assert!(
        stderr(&none).contains("no run that came to its end"),
        "{}",
        stderr(&none)
    );
    fs::remove_dir_all(later).unwrap();
    a_run_is_packed(&run);
}

/// A bundle has the run and its scenario, which is good where it is unpacked and is what ran.
fn a_run_is_packed(run: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let pack = |out: &Path| {
        let words = ["results", "pack", "--json", "--out"].map(OsStr::new);
        constel(words.into_iter().chain([out.as_os_str(), run.as_os_str()]))
    };
    let [one, two] = ["one.tar.gz", "two.tar.gz"].map(|name| dir.path().join(name));
    let packed = json(&pack(&one));
    assert_eq!(pack(&one).status.code(), Some(2), "never over another file");
    pack(&two);
    assert!(
        fs::read(&one).unwrap() == fs::read(&two).unwrap(),
        "the same bytes"
    );
    let untar = Command::new("tar")
        .arg("xzf")
        .arg(&one)
        .arg("-C")
        .arg(dir.path())
        .status();
    assert!(untar.unwrap().success());
    let inner = |name: &str| dir.path().join(packed[name].as_str().unwrap());
    assert_eq!(
        fs::read(inner("scenario")).unwrap(),
        fs::read(run.join("scenario.yaml")).unwrap()
    );
    let check = constel(["check".as_ref(), inner("scenario").as_os_str()]);
    assert_eq!(check.status.code(), Some(0), "{}", stderr(&check));
    let words = ["results", "compare", "--json"].map(OsStr::new);
    let results = inner("results");
    let comparison = json(&constel(
        words
            .into_iter()
            .chain([run.as_os_str(), results.as_os_str()]),
    ));
    assert!(
        comparison["rows"]
            .as_array()
            .unwrap()
            .iter()
            .all(|row| row["difference"] == 0.0)
    );
}

#[test]
fn a_sweep_that_cannot_be_is_refused_before_its_first_run() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let (file, out) = (small(dir.path()), dir.path().join("out"));
    for (more, code, said) in [
        (
            &[
                "--set",
                "traffic[0].tcp.congestion=1.5 GHz,bbr",
                "--set",
                "routing.mode=computd",
            ][..],
            4,
            "computd",
        ),
        (&["--set", "nothing.here=1"], 4, "unknown key `nothing`"),
        (&["--set", "seed=1,2"], 2, "given with --seeds"),
        (&["--seeds", "1,1"], 2, "given twice"),
        (&["--seeds", "3..1"], 2, "is empty"),
        (&["--choices", "no-such-file"], 4, "no-such-file"),
    ] {
        let output = support::finish(sweep(&file, &out, more));
        assert_eq!(
            output.status.code(),
            Some(code),
            "{more:?}: {}",
            stderr(&output)
        );
        assert!(
            stderr(&output).contains(said),
            "{more:?}: {}",
            stderr(&output)
        );
        assert!(!out.exists(), "{more:?}");
    }
    fs::create_dir(&out).unwrap();
    fs::write(out.join("mine"), "").unwrap();
    let output = support::finish(sweep(&file, &out, &[]));
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("not a sweep's"),
        "{}",
        stderr(&output)
    );
    host.assert_as_before("after sweeps that cannot be");
}

#[test]
fn the_shipped_comparison_is_good() {
    let scenarios = support::workspace().join("scenarios");
    let choices = fs::read_to_string(scenarios.join("choices/comparison.yaml")).unwrap();
    let choices = constel_scenario::Setting::choices("comparison.yaml", &choices).unwrap();
    let names: Vec<&str> = choices.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["bbr", "cubic", "leotp", "leotp-beyond"]);
    for (name, settings) in choices {
        let mut args = vec![
            "check".to_owned(),
            scenarios.join("comparison.yaml").display().to_string(),
        ];
        args.extend(
            settings
                .iter()
                .flat_map(|set| ["--set".to_owned(), set.to_string()]),
        );
        let output = constel(args);
        assert_eq!(output.status.code(), Some(0), "{name}: {}", stderr(&output));
        assert!(
            stdout(&output).contains("every flow a path"),
            "{name}: {}",
            stdout(&output)
        );
    }
}

/// A program that fails is a result: its run is not made again for that.
#[test]
fn a_run_whose_software_fails_is_made_once() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let rest = "links: {max_lateness: 10 ms}\n\
                traffic:\n  - {name: crash, at: 0 s, for: 1 s, run: {node: west, command: [sh, -c, 'exit 7']}}\n";
    let file = scenario::small(dir.path(), "crash.yaml", "{mode: computed}", rest);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("duration: 60 s", "duration: 2 s")).unwrap();
    let out = dir.path().join("out");
    let mut command = Command::new(CONSTEL);
    command.arg("sweep").arg(&file).arg("--out").arg(&out);
    command.args(["--name", "cli-test-crash", "--again", "2", "--json"]);
    command.args(["--seeds", "1..1"]);
    let output = support::finish(command);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let table: Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs = &table["runs"][0];
    assert_eq!(
        (&runs["software_failed"], &runs["failed"]),
        (&1.into(), &0.into()),
        "{runs}"
    );
    let read = |path: &PathBuf| serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let made: Vec<Value> = summaries(&out).iter().map(read).collect();
    // Only a host that did not keep up is a reason for another attempt.
    for summary in &made {
        let reasons = summary["verdict"]["reasons"].to_string();
        assert!(!reasons.contains("crash"), "{reasons}");
        assert_eq!(
            summary["software"]["failures"][0]["flow"], "crash",
            "{summary}"
        );
    }
    let trusted = |summary: &&Value| summary["verdict"]["trustworthy"] == true;
    assert!(made.iter().filter(trusted).count() <= 1, "{}", made.len());
    host.assert_as_before("after a crash");
}
