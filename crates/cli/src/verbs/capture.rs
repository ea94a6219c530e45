//! `constel capture`: writes a lab's frames to a file.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use constel_api::CaptureOrder;
use constel_cluster::store::StoreLocation;
use constel_control::Lab;
use constel_exchange::pcapng::Block;
use serde::Serialize;

use super::there::{Far, cut_off};
use crate::args::Capture;
use crate::exit::{Exit, Failure, Outcome};
use crate::{output, signals};

/// The JSON output.
#[derive(Serialize)]
struct Captured {
    of: String,
    interfaces: Vec<String>,
    frames: u64,
    /// Frames that were lost because they arrived too fast; `None`: the lab ended before it could report them.
    lost: Option<u64>,
}

/// Captures until a signal, the given time or number of frames, or the lab's end.
pub(crate) fn run(args: &Capture) -> Outcome {
    if let Some(store) = &args.store {
        return elsewhere(args, store);
    }
    let stop = Arc::new(AtomicBool::new(false));
    signals::set(&[&stop])?;
    let lab = Lab::attach(&args.lab)?;
    let order = CaptureOrder {
        of: args.of.clone(),
        filter: args.filter.clone(),
    };
    let (capturing, mut frames) = lab.capture(order, &stop)?;
    let mut out = open(&args.write)?;
    if let Some(within) = args.duration {
        let (stop, within) = (
            Arc::clone(&stop),
            Duration::from_nanos(within.ns().unsigned_abs()),
        );
        std::thread::spawn(move || {
            std::thread::sleep(within);
            stop.store(true, Ordering::Release);
        });
    }
    let mut captured = Captured {
        of: capturing.of,
        interfaces: capturing.interfaces,
        frames: 0,
        lost: None,
    };
    keep(args, &mut frames, &mut out, &mut captured, &stop)?;
    let lost = match captured.lost {
        Some(lost) => format!("{lost} more were lost because they arrived too fast"),
        None => "the lab ended during the capture".to_owned(),
    };
    tell(args, &captured, &lost)
}

/// Captures on the machine that has the node; the file is transferred at the end.
fn elsewhere(args: &Capture, store: &StoreLocation) -> Outcome {
    if args.duration.is_none() && args.count.is_none() {
        let error = "with --store a capture is transferred at its end: give --for or --count";
        return Err(Failure::Usage(error.to_owned()));
    }
    let node = args.of.split('/').next().unwrap_or_default();
    let far = Far::of(store, &args.lab, node)?;
    let mut out = open(&args.write)?;
    let flags = [
        args.duration.map(|within| format!("--for={within}")),
        args.count.map(|count| format!("--count={count}")),
        args.filter
            .as_ref()
            .map(|filter| format!("--filter={filter}")),
    ];
    let verb = ["capture".to_owned(), "--write=-".to_owned()].into_iter();
    let verb: Vec<String> = verb.chain(flags.into_iter().flatten()).collect();
    let said = match far.run(&verb, std::slice::from_ref(&args.of))? {
        Ok(said) => said,
        Err(exit) => return Ok(exit),
    };
    let mut blocks = said.stdout.as_slice();
    let mut interfaces = Vec::new();
    while let Some(block) = Block::read(&mut blocks)? {
        interfaces.extend(block.interface());
    }
    let mut captured = Captured {
        of: args.of.clone(),
        interfaces,
        frames: 0,
        lost: None,
    };
    let over = AtomicBool::new(false);
    keep(
        args,
        &mut said.stdout.as_slice(),
        &mut out,
        &mut captured,
        &over,
    )?;
    let lost = match (said.cut, captured.lost) {
        (true, _) => cut_off(),
        (false, Some(lost)) => format!("{lost} more were lost because they arrived too fast"),
        (false, None) => "the lab ended during the capture".to_owned(),
    };
    tell(args, &captured, &lost)
}

/// Writes frames until the requested number is reached.
fn keep(
    args: &Capture,
    mut frames: &mut dyn Read,
    out: &mut dyn Write,
    captured: &mut Captured,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let shown = args.write.display();
    let most = args.count.unwrap_or(u64::MAX);
    while let Some(block) = Block::read(&mut frames)? {
        captured.lost = block.lost().or(captured.lost);
        if block.is_packet() {
            if captured.frames == most {
                // The lab was requested to stop, but has not handled it yet.
                continue;
            }
            captured.frames += 1;
        }
        let written = out.write_all(&block.bytes).and_then(|()| out.flush());
        written.with_context(|| format!("{shown} cannot be written"))?;
        if captured.frames == most {
            stop.store(true, Ordering::Release);
        }
    }
    Ok(())
}

fn tell(args: &Capture, captured: &Captured, lost: &str) -> Outcome {
    if args.json {
        output::json(captured)?;
    } else {
        let shown = args.write.display();
        output::tell(&format!("{} frames in {shown}, {lost}\n", captured.frames));
    }
    Ok(Exit::Done)
}

/// Opens the file, or stdout for `-`.
fn open(path: &Path) -> anyhow::Result<Box<dyn Write>> {
    if path == Path::new("-") {
        return Ok(Box::new(BufWriter::new(io::stdout())));
    }
    let file = File::create(path);
    let file = file.with_context(|| format!("{} cannot be made", path.display()))?;
    Ok(Box::new(BufWriter::new(file)))
}
