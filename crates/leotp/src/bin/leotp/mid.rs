//! `leotp mid`.

use crate::common::{Failure, ParamArgs, human_rate};
use crate::trace::TraceArgs;
use leotp::rt::{DEFAULT_PORT, Mid, MidOptions, catch_signals, stop_requested};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// UDP port of the LEOTP traffic, or first and last of several: 5047-5060.
    #[arg(long, value_name = "PORT", default_value_t = Ports(DEFAULT_PORT, DEFAULT_PORT))]
    port: Ports,
    /// Completes the name of the nftables table, leotp_NAME; two Midnodes in one
    /// network namespace need two names, ports and marks.
    #[arg(long, default_value = "mid", value_parser = table_name)]
    name: String,
    /// Mark of redirected packets.
    #[arg(long, default_value_t = MidOptions::default().mark)]
    mark: u32,
    /// Routing table of redirected packets.
    #[arg(long, default_value_t = MidOptions::default().table)]
    table: u32,
    /// Keep blocks that do not fit in the cache in this folder, over restarts too.
    #[arg(long, value_name = "DIR", requires = "cache_size")]
    disk_cache: Option<PathBuf>,
    /// Largest size of that cache, bytes.
    #[arg(long, value_name = "BYTES", requires = "disk_cache")]
    cache_size: Option<u64>,
    /// Report every this many seconds on standard error; 0: never.
    #[arg(long, default_value_t = 0)]
    report: u64,
    /// Print counters as JSON on standard output at the end.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    params: ParamArgs,
}

/// A range of ports, both ends included.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports(pub(crate) u16, pub(crate) u16);

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == self.1 {
            return write!(f, "{}", self.0);
        }
        write!(f, "{}-{}", self.0, self.1)
    }
}

impl FromStr for Ports {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let (first, last) = s.split_once('-').unwrap_or((s, s));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if 0 < first && first <= last => Ok(Self(first, last)),
            _ => Err(String::from("a port is 1 to 65535, a range FIRST-LAST")),
        }
    }
}

/// Checks the second part of the name of an nftables table.
pub(crate) fn table_name(s: &str) -> Result<String, String> {
    let good = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if (1..=32).contains(&s.len()) && s.bytes().all(good) {
        return Ok(s.to_owned());
    }
    Err(String::from("1 to 32 letters, digits or _"))
}

pub(crate) fn run(a: &Args) -> Result<(), Failure> {
    catch_signals()?;
    let o = MidOptions {
        ports: (a.port.0, a.port.1),
        name: a.name.clone(),
        mark: a.mark,
        table: a.table,
        disk_cache: a.disk_cache.clone().zip(a.cache_size),
        params: a.params.params()?,
        ..MidOptions::default()
    };
    let mut trace = a.trace.open()?;
    let mut m = Mid::start(o)?;
    eprintln!(
        "midnode for UDP port {} (nftables table leotp_{})",
        a.port, a.name
    );
    let mut last = (Instant::now(), 0);
    while !stop_requested() {
        // A signal ends the wait early; this bounds it for a signal that arrives just before.
        m.poll(trace.wait(Duration::from_secs(1)))?;
        trace.write(m.flow_states())?;
        if a.report > 0 && last.0.elapsed().as_secs() >= a.report {
            let s = m.stats();
            let rate = (s.bytes_out - last.1) as f64 * 8.0 / last.0.elapsed().as_secs_f64();
            eprintln!(
                "{} flows, {}, {} repairs, {} cache hits, {} dropped",
                m.flows(),
                human_rate(rate),
                s.repairs,
                s.cache_hits,
                s.dropped
            );
            last = (Instant::now(), s.bytes_out);
        }
    }
    m.flush_cache();
    if a.json {
        let v = serde_json::json!({ "midnode": m.stats(), "cache": m.cache_stats(), "datagrams": m.io_stats(), "flows": m.flows(), "peak_rss_bytes": leotp::rt::peak_rss_bytes(), "cpu_s": leotp::rt::cpu_seconds() });
        println!("{v}");
    }
    Ok(())
}
