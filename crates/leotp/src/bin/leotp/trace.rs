//! State of the flows over time, as JSON lines.

use crate::common::Failure;
use serde::Serialize;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[derive(clap::Args)]
pub(crate) struct TraceArgs {
    /// Write the state of every flow to this file again and again, one JSON object a line.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Milliseconds between two lines of a flow.
    #[arg(long, value_name = "MS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    trace_every: u64,
}

pub(crate) struct Trace {
    file: Option<BufWriter<File>>,
    every: Duration,
    next: Instant,
}

#[derive(Serialize)]
struct Line<T> {
    /// Wall clock, s since 1970: the same for all nodes of a host.
    t_s: f64,
    #[serde(flatten)]
    state: T,
}

impl TraceArgs {
    pub(crate) fn open(&self) -> Result<Trace, Failure> {
        let create = |p: &PathBuf| {
            File::create(p)
                .map(BufWriter::new)
                .map_err(|e| Failure::Io(format!("create {}", p.display()), e))
        };
        let file = self.trace.as_ref().map(create).transpose()?;
        Ok(Trace {
            file,
            every: Duration::from_millis(self.trace_every),
            next: Instant::now(),
        })
    }
}

impl Trace {
    /// At most `most`, but not beyond the next line.
    pub(crate) fn wait(&self, most: Duration) -> Duration {
        if self.file.is_none() {
            return most;
        }
        self.next
            .saturating_duration_since(Instant::now())
            .min(most)
    }

    /// Writes the lines when they are due.
    pub(crate) fn write<T: Serialize>(
        &mut self,
        states: impl Iterator<Item = T>,
    ) -> Result<(), Failure> {
        let now = Instant::now();
        let Some(file) = self.file.as_mut().filter(|_| now >= self.next) else {
            return Ok(());
        };
        self.next = now + self.every;
        let t_s = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0.0, |d| d.as_secs_f64());
        for state in states {
            serde_json::to_writer(&mut *file, &Line { t_s, state })
                .map_err(std::io::Error::from)
                .and_then(|()| file.write_all(b"\n"))
                .map_err(|e| Failure::Io(String::from("write the trace"), e))?;
        }
        Ok(())
    }
}
