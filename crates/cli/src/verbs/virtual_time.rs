//! `constel run --time virtual`: the same command in a guest kernel whose clock waits.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use constel_control::Scenario;
use constel_virtual::{Guest, Order};

use super::scenario;
use crate::args::Run;
use crate::exit::{Exit, Failure, Outcome};
use crate::signals;

/// Memory of a guest beside what its lab needs: the kernel, and files that programs write.
const BESIDE_BYTES: f64 = 768e6;

/// A lab's own estimate is of the engine's share as well, and may be off by some.
const SPARE: f64 = 1.5;

/// Flags that have no meaning in a guest, or another: each with whether a value follows.
const OUTSIDE: [&str; 3] = ["--time", "--results", "--ends-with"];

/// Runs the scenario in a guest, and gives the exit code that it had there.
pub(crate) fn run(args: &Run) -> Outcome {
    if scenario::read_box(&args.file, &args.changes.settings())?.is_some() {
        return Err(Failure::Usage(
            "a box joins interfaces of this host, which keep its time; leave out `--time virtual`"
                .to_owned(),
        ));
    }
    let loaded = scenario::load(&args.file, &args.changes)?;
    let reasons = refusals(args, &loaded);
    if !reasons.is_empty() {
        return Err(Failure::Usage(format!(
            "virtual time: {}",
            reasons.join("\nconstel: virtual time: ")
        )));
    }
    let kernel =
        constel_virtual::find_kernel().map_err(|error| Failure::Host(error.to_string()))?;
    let name = args
        .name
        .clone()
        .unwrap_or_else(|| loaded.lab.scenario.name.to_string());
    let results = args
        .results
        .clone()
        .unwrap_or_else(|| constel_control::default_results(&name));
    let results = std::path::absolute(results)?;
    if fs::read_dir(&results).is_ok_and(|mut there| there.next().is_some()) {
        return Err(Failure::Usage(format!(
            "{} is there already; --results names another folder",
            results.display()
        )));
    }
    let memory_bytes = memory(args, &loaded)?;
    fs::create_dir_all(&results)?;
    let order = Order {
        arguments: arguments(std::env::args().skip(1), &results),
        input: if args.file == Path::new("-") {
            loaded.text.clone()
        } else {
            String::new()
        },
        folder: std::env::current_dir()?,
        environment: std::env::vars()
            .filter(|(key, _)| key != "TMPDIR")
            .collect(),
        shared: vec![results.clone()],
        memory_bytes,
        starts_at_s: u64::try_from(loaded.lab.scenario.start.unix_ns() / 1_000_000_000)
            .unwrap_or(0),
    };
    let stop: Arc<AtomicBool> = Arc::default();
    signals::set(&[&stop])?;
    if let Some(pid) = args.ends_with {
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
        "--results".to_owned(),
        results.to_string_lossy().into_owned(),
    ]);
    kept
}

/// All reasons why a scenario cannot run in a guest.
fn refusals(args: &Run, loaded: &Scenario) -> Vec<String> {
    let lab = &loaded.lab;
    let mut reasons = Vec::new();
    let mut refuse = |reason: String| reasons.push(reason);
    if args.web {
        refuse("--web serves people, whose time does not wait; `constel web RESULTS` shows the run afterwards".to_owned());
    }
    if args.on.machines.is_some() {
        refuse("a lab on several machines keeps their time; leave out --machines".to_owned());
    }
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
fn memory(args: &Run, loaded: &Scenario) -> Result<u64, Failure> {
    let estimate = loaded.here(!args.no_traffic);
    let needed = estimate.needs.memory.at(1.0) * SPARE + BESIDE_BYTES;
    let there = estimate.room.memory_bytes as f64;
    if needed > there && !args.anyway {
        return Err(Failure::Host(format!(
            "virtual time: the guest needs {:.1} GB of memory, and {:.1} are free; `--anyway` tries",
            needed / 1e9,
            there / 1e9
        )));
    }
    Ok(needed as u64)
}
