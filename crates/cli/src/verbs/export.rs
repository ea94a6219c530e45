//! `constel plan --export`: writes the lab in other tools' formats.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::SystemTime;

use anyhow::Context;
use constel_analysis::exports::{self, ExportError};
use constel_analysis::parse_pairs;
use constel_exchange::ephemeris::Ephemeris;
use constel_exchange::{csv, oem};
use constel_plan::Lab;
use constel_units::TimeSpan;

use super::over;
use crate::args::{Format, IntervalArgs, Plan};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Writes the export to stdout, a file or a folder.
pub(crate) fn run(lab: &Lab, format: Format, args: &Plan) -> Outcome {
    let over = &args.over;
    if args.json {
        return Err(Failure::Usage(
            "an export has its own format: leave --json out".to_owned(),
        ));
    }
    let map = format == Format::Svg;
    let instant = map || matches!(format, Format::Dot | Format::Drawio | Format::Graphml);
    if instant && (over.from.is_some() || over.to.is_some() || over.every.is_some()) {
        return Err(Failure::Usage(
            "a map or a graph shows one instant: take --at".to_owned(),
        ));
    }
    if !instant && args.at != TimeSpan::from_ns(0) {
        return Err(Failure::Usage(
            "--at goes with --export svg, dot, drawio and graphml".to_owned(),
        ));
    }
    if !map && over.paths.is_some() {
        return Err(Failure::Usage("--paths goes with --export svg".to_owned()));
    }
    match format {
        Format::Svg => {
            let pairs = match &over.paths {
                Some(pairs) => {
                    parse_pairs(lab, pairs).map_err(|e| Failure::Usage(e.to_string()))?
                }
                None => Vec::new(),
            };
            put(
                over.out.as_deref(),
                &exports::svg(lab, args.at, &pairs).map_err(failure)?,
            )?;
        }
        Format::Dot | Format::Drawio | Format::Graphml => {
            let graph = exports::graph(lab, args.at).map_err(failure)?;
            let text = match format {
                Format::Dot => graph.dot(),
                Format::Drawio => graph.drawio(),
                _ => graph.graphml(),
            };
            put(over.out.as_deref(), &text)?;
        }
        Format::Czml => {
            let mut text = Vec::new();
            exports::czml(
                lab,
                over::interval(lab, over)?,
                over::threads(over),
                &mut text,
            )
            .map_err(failure)?;
            put_bytes(over.out.as_deref(), &text)?;
        }
        Format::Oem | Format::Csv => {
            let objects = objects(lab, over)?;
            let text = match format {
                Format::Oem => oem::write(&objects, SystemTime::now().into(), "CONSTEL"),
                _ => csv::write(&objects),
            };
            put(over.out.as_deref(), &text)?;
        }
        Format::Hypatia => folder(
            over.out.as_deref(),
            &exports::hypatia(lab).map_err(failure)?,
        )?,
        Format::Starperf => folder(
            over.out.as_deref(),
            &exports::starperf(lab).map_err(failure)?,
        )?,
    }
    Ok(Exit::Done)
}

/// Returns the satellites that can be exported; prints warnings about samples that cannot.
fn objects(lab: &Lab, over: &IntervalArgs) -> Result<Vec<Ephemeris>, Failure> {
    /// More lines would hide the others.
    const SHOWN: usize = 10;
    let found = exports::ephemerides(lab, over::interval(lab, over)?).map_err(failure)?;
    for lost in found.left_out.iter().take(SHOWN) {
        output::tell(&format!("constel: warning: {lost}\n"));
    }
    if let Some(more @ 1..) = found.left_out.len().checked_sub(SHOWN) {
        output::tell(&format!(
            "constel: warning: the same of {more} other satellites\n"
        ));
    }
    if found.objects.is_empty() {
        return Err(Failure::Failed(anyhow::anyhow!(
            "no satellite has two samples in a row with a position, so the file would be empty: choose other --from and --to, or \
             a smaller --every"
        )));
    }
    Ok(found.objects)
}

fn failure(error: ExportError) -> Failure {
    match error {
        ExportError::Io(error) => Failure::Failed(error.into()),
        other => Failure::Usage(other.to_string()),
    }
}

fn put(out: Option<&Path>, text: &str) -> Result<(), Failure> {
    put_bytes(out, text.as_bytes())
}

/// Writes to a new file, or to stdout.
pub(crate) fn put_bytes(out: Option<&Path>, bytes: &[u8]) -> Result<(), Failure> {
    match out {
        None => io::stdout().lock().write_all(bytes)?,
        Some(path) => {
            let file = File::create_new(path)
                .with_context(|| format!("cannot create {}", path.display()))?;
            let mut file = BufWriter::new(file);
            file.write_all(bytes)
                .and_then(|()| file.flush())
                .with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

/// Writes files to a folder, which is created if necessary; nothing is overwritten.
fn folder(out: Option<&Path>, files: &[(&str, String)]) -> Result<(), Failure> {
    let Some(out) = out else {
        return Err(Failure::Usage(
            "this format has several files: give a folder with --out DIR".to_owned(),
        ));
    };
    fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    for (name, text) in files {
        put(Some(&out.join(name)), text)?;
    }
    Ok(())
}
