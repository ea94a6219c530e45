//! `constel import trace`: a recording of a real network as the files that a link replays.

use std::path::{Path, PathBuf};

use constel_control::results::read_recording;
use constel_measure::recording::{Replay, Way};

use super::export;
use crate::args::{ImportTrace, TraceWay};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Shortest interval of a trace of delays, seconds: that of the scenario's `delay_trace`.
const LEAST_INTERVAL_S: f64 = 1e-4;
/// Longest such interval.
const MOST_INTERVAL_S: f64 = 3_600.0;

/// Writes the files beside each other and prints the keys of a link that replay them.
pub(super) fn run(args: &ImportTrace) -> Outcome {
    let interval_s = args.interval.seconds();
    if !(LEAST_INTERVAL_S..=MOST_INTERVAL_S).contains(&interval_s) {
        return Err(Failure::Usage(
            "`--interval` is from 100 us to 1 h".to_owned(),
        ));
    }
    let series = read_recording(&args.file)?;
    let way = match args.way {
        TraceWay::Up => Way::Up,
        TraceWay::Down => Way::Down,
    };
    let replay = Replay::of(&series, way, interval_s)
        .map_err(|why| Failure::Usage(format!("{}: {why}", args.file.display())))?;
    let mut keys = String::from("link:\n");
    if let Some(text) = &replay.rates {
        let file = written(&args.out, ".rate.csv", text)?;
        keys.push_str(&format!("  rate_law: {{csv: {{file: {file}}}}}\n"));
    }
    if let Some(text) = &replay.delays {
        let file = written(&args.out, ".delay.txt", text)?;
        let interval = args.interval;
        keys.push_str(&format!(
            "  delay_trace: {{file: {file}, interval: {interval}}}\n"
        ));
    }
    if let Some(text) = &replay.losses {
        let file = written(&args.out, ".loss.txt", text)?;
        keys.push_str(&format!("  loss_law: {{trace: {{file: {file}}}}}\n"));
    }
    output::text(&keys)?;
    for note in &replay.notes {
        output::tell(&format!("constel: note: {note}\n"));
    }
    Ok(Exit::Done)
}

/// Writes a file, which must not exist. Returns its name in quotes, as a scenario in the same folder has it.
fn written(prefix: &Path, suffix: &str, text: &str) -> Result<String, Failure> {
    let mut path = prefix.as_os_str().to_owned();
    path.push(suffix);
    let path = PathBuf::from(path);
    export::put_bytes(Some(&path), text.as_bytes())?;
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    Ok(format!("'{}'", name.replace('\'', "''")))
}
