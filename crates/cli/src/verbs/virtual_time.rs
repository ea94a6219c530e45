//! `constel run --time virtual`: the same command in a guest kernel whose clock waits.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use constel_analysis::switches_that_do_not_learn;
use constel_control::Scenario;
use constel_link::DriverKind;
use constel_scenario::model::ClockTime;

use super::scenario;
use crate::args::{Demo, Run, Time};
use crate::exit::{Exit, Failure, Outcome};
use crate::guest::{Guest, GuestCommand};
use crate::{output, signals};

/// Memory of a guest beside what its lab needs: the kernel, and files that programs write.
const BESIDE_BYTES: f64 = 768e6;

/// A lab's own estimate is of the engine's share as well, and may be off by some.
const SPARE: f64 = 1.5;

/// Flags that have no meaning in a guest, or another one. A value follows each.
const OUTSIDE: [&str; 3] = ["--time", "--results", "--ends-with"];

/// A command that runs a scenario in a guest.
struct Wanted<'a> {
    loaded: &'a Scenario,
    name: Option<&'a str>,
    results: Option<&'a Path>,
    input: &'a str,
    traffic: bool,
    anyway: bool,
    ends_with: Option<u32>,
}

/// Returns whether a run is in virtual time: by its flag, else by its scenario. Standard input and pipes can be read only once, so
/// that a scenario from there needs the flag.
pub(crate) fn is_wanted(args: &Run) -> bool {
    if let Some(time) = args.time {
        return time == Time::Virtual;
    }
    if !args.file.is_file() {
        return false;
    }
    let settings = args.changes.settings();
    let named = |text: &str| text.contains("virtual");
    // Most scenarios do not have the word, and need not be read twice.
    let may_be = settings.iter().any(|set| named(&set.to_string()))
        || fs::read_to_string(&args.file).is_ok_and(|text| named(&text));
    // An error is reported by the run.
    may_be
        && scenario::read(&args.file, &settings)
            .is_ok_and(|loaded| loaded.lab.scenario.clock_time == ClockTime::Virtual)
}

/// `run`: the scenario in a guest. Returns the exit code that it had there.
pub(crate) fn run(args: &Run) -> Outcome {
    if scenario::read_box(&args.file, &args.changes.settings())?.is_some() {
        let why =
            "a box joins interfaces of this host, which keep its time; leave out `--time virtual`";
        return Err(Failure::Usage(why.to_owned()));
    }
    let loaded = scenario::load(&args.file, &args.changes)?;
    let mut reasons = Vec::new();
    if args.await_policy {
        reasons.push(
            "--await-policy waits for a program of this host, which cannot reach the guest"
                .to_owned(),
        );
    }
    if args.web {
        reasons.push("--web serves people, whose time does not wait; `constel web RESULTS` shows the run afterwards".to_owned());
    }
    if args.on.machines.is_some() {
        reasons.push("a lab on several machines keeps their time; leave out --machines".to_owned());
    }
    reasons.extend(refusals(&loaded));
    if !reasons.is_empty() {
        let reasons = reasons.join("\nconstel: virtual time: ");
        return Err(Failure::Usage(format!("virtual time: {reasons}")));
    }
    // The guest's driver.
    let netem = DriverKind::Netem;
    if let Some(warning) = switches_that_do_not_learn(&loaded.lab.scenario, netem) {
        output::tell(&format!("constel: warning: virtual time: {warning}\n"));
    }
    in_guest(&Wanted {
        loaded: &loaded,
        name: args.name.as_deref(),
        results: args.results.as_deref(),
        input: if args.file == Path::new("-") {
            &loaded.text
        } else {
            ""
        },
        traffic: !args.no_traffic,
        anyway: args.anyway,
        ends_with: args.ends_with,
    })
}

/// `demo`, the same.
pub(crate) fn demo(args: &Demo) -> Outcome {
    in_guest(&Wanted {
        loaded: &Scenario::demo()?,
        name: args.name.as_deref(),
        results: args.results.as_deref(),
        input: "",
        traffic: true,
        anyway: false,
        ends_with: None,
    })
}

fn in_guest(wanted: &Wanted<'_>) -> Outcome {
    let kernel = crate::guest::find_kernel().map_err(|error| Failure::Host(error.to_string()))?;
    let scenario = &wanted.loaded.lab.scenario;
    let name = wanted
        .name
        .map_or_else(|| scenario.name.to_string(), str::to_owned);
    let results = wanted
        .results
        .map_or_else(|| constel_control::default_results(&name), Path::to_owned);
    let results = std::path::absolute(results)?;
    if fs::read_dir(&results).is_ok_and(|mut there| there.next().is_some()) {
        let why = "is there already; --results names another folder";
        return Err(Failure::Usage(format!("{} {why}", results.display())));
    }
    let memory_bytes = memory(wanted)?;
    fs::create_dir_all(&results)?;
    let order = GuestCommand {
        arguments: arguments(std::env::args().skip(1), &results),
        input: wanted.input.to_owned(),
        folder: std::env::current_dir()?,
        environment: std::env::vars()
            .filter(|(key, _)| key != "TMPDIR")
            .collect(),
        shared: vec![results.clone()],
        seed: scenario.seed,
        memory_bytes,
        starts_at_ns: u64::try_from(scenario.start.unix_ns()).unwrap_or(0),
    };
    let stop: Arc<AtomicBool> = Arc::default();
    signals::set(&[&stop])?;
    if let Some(pid) = wanted.ends_with {
        let stop = Arc::clone(&stop);
        constel_control::when_ended(pid, move || stop.store(true, Ordering::Release))?;
    }
    let guest = Guest::start(&kernel, &order, io::stdout(), io::stderr())?;
    let ended = guest.wait(&stop);
    // A run that was refused in the guest leaves no folder here.
    drop(fs::remove_dir(&results));
    Ok(Exit::Command(ended?))
}

/// The command as the guest has it: without what is this side's, and with the results by their absolute path.
fn arguments(own: impl Iterator<Item = String>, results: &Path) -> Vec<String> {
    let mut kept = Vec::new();
    let mut own = own.peekable();
    while let Some(argument) = own.next() {
        if OUTSIDE.contains(&argument.as_str()) {
            own.next();
        } else if !OUTSIDE.iter().any(|flag| {
            argument
                .strip_prefix(flag)
                .is_some_and(|rest| rest.starts_with('='))
        }) {
            kept.push(argument);
        }
    }
    kept.extend([
        // The guest's own clock; the scenario may name virtual time.
        "--time".to_owned(),
        "real".to_owned(),
        "--results".to_owned(),
        results.to_string_lossy().into_owned(),
    ]);
    kept
}

/// Returns all reasons why a scenario cannot run in a guest.
fn refusals(loaded: &Scenario) -> Vec<String> {
    let lab = &loaded.lab;
    let mut reasons = Vec::new();
    let mut refuse = |reason: String| reasons.push(reason);
    for host in &lab.scenario.hosts {
        if let Some(interface) = &host.attach {
            refuse(format!(
                "`{}` is attached to {interface}, an interface of this host",
                host.name
            ));
        }
    }
    let by_engine = lab
        .containers()
        .filter(|(_, container)| container.by_engine)
        .count();
    if by_engine > 0 {
        refuse(format!(
            "{by_engine} nodes have `runtime: docker`, whose engine runs on this host; `runtime: oci` runs them in the guest"
        ));
    }
    reasons
}

/// Returns the memory of the guest in bytes.
fn memory(wanted: &Wanted<'_>) -> Result<u64, Failure> {
    let estimate = wanted.loaded.here(wanted.traffic);
    let needed = estimate.needs.memory.at(1.0) * SPARE + BESIDE_BYTES;
    let there = estimate.room.memory_bytes as f64;
    if needed > there && !wanted.anyway {
        return Err(Failure::Host(format!(
            "virtual time: the guest needs {:.1} GB of memory, and {:.1} are free; `--anyway` tries",
            needed / 1e9,
            there / 1e9
        )));
    }
    Ok(needed as u64)
}
