//! `leotp mid`.

use crate::common::{Failure, ParamArgs, human_rate};
use leotp::rt::{DEFAULT_PORT, Mid, MidOptions, catch_signals, stop_requested};
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// UDP port of the LEOTP traffic.
    #[arg(long, default_value_t = DEFAULT_PORT)]
    port: u16,
    /// Completes the name of the nftables table, leotp_NAME; two Midnodes in one
    /// network namespace need two names, ports and marks.
    #[arg(long, default_value = "mid")]
    name: String,
    /// Mark of redirected packets.
    #[arg(long, default_value_t = MidOptions::default().mark)]
    mark: u32,
    /// Routing table of redirected packets.
    #[arg(long, default_value_t = MidOptions::default().table)]
    table: u32,
    /// Report every so many seconds on standard error; 0: never.
    #[arg(long, default_value_t = 0)]
    report: u64,
    /// Print counters as JSON on standard output at the end.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    params: ParamArgs,
}

pub(crate) fn run(a: &Args) -> Result<(), Failure> {
    catch_signals()?;
    let valid = !a.name.is_empty()
        && a.name.len() <= 32
        && a.name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !valid {
        return Err(Failure::Usage(String::from(
            "--name: 1 to 32 letters, digits or _",
        )));
    }
    let o = MidOptions {
        port: a.port,
        name: a.name.clone(),
        mark: a.mark,
        table: a.table,
        params: a.params.params()?,
        ..MidOptions::default()
    };
    let mut m = Mid::start(o)?;
    eprintln!(
        "midnode for UDP port {} (nftables table leotp_{})",
        a.port, a.name
    );
    let mut last = (Instant::now(), 0);
    while !stop_requested() {
        m.poll(Duration::from_millis(200))?;
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
    if a.json {
        let v = serde_json::json!({ "midnode": m.stats(), "cache": m.cache_stats(), "datagrams": m.io_stats(), "flows": m.flows(), "peak_rss_bytes": leotp::rt::peak_rss_bytes(), "cpu_s": leotp::rt::cpu_seconds() });
        println!("{v}");
    }
    Ok(())
}
