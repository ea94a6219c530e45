//! `constel capture`: frames of a lab as they pass, into a file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use constel_api::CaptureOrder;
use constel_control::Lab;
use constel_exchange::pcapng::Block;
use serde::Serialize;

use crate::args::Capture;
use crate::exit::{Exit, Outcome};
use crate::{output, signals};

/// What `--json` prints.
#[derive(Serialize)]
struct Captured {
    of: String,
    interfaces: Vec<String>,
    frames: u64,
    /// Frames that came faster than they could be handed over; `None`: the lab ended before it could say.
    lost: Option<u64>,
}

/// Until a signal, the time or the number of frames given, or the lab's end.
pub(crate) fn run(args: &Capture) -> Outcome {
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
    let shown = args.write.display();
    let mut captured = Captured {
        of: capturing.of,
        interfaces: capturing.interfaces,
        frames: 0,
        lost: None,
    };
    let most = args.count.unwrap_or(u64::MAX);
    while let Some(block) = Block::read(&mut frames)? {
        captured.lost = block.lost().or(captured.lost);
        if block.is_packet() {
            if captured.frames == most {
                // It was told to end, and has not heard it yet.
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
    if args.json {
        output::json(&captured)?;
    } else {
        let lost = match captured.lost {
            Some(lost) => format!("{lost} came too fast and are not in it"),
            None => "the lab ended meanwhile".to_owned(),
        };
        output::tell(&format!("{} frames in {shown}, {lost}\n", captured.frames));
    }
    Ok(Exit::Done)
}

/// The file, or stdout for `-`.
fn open(path: &Path) -> anyhow::Result<Box<dyn Write>> {
    if path == Path::new("-") {
        return Ok(Box::new(BufWriter::new(io::stdout())));
    }
    let file = File::create(path);
    let file = file.with_context(|| format!("{} cannot be made", path.display()))?;
    Ok(Box::new(BufWriter::new(file)))
}
