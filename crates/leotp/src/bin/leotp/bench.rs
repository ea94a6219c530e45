//! `leotp bench`: throughput over a path, reported as iperf3 reports it.

use crate::common::{Failure, ParamArgs, human_bytes, human_rate};
use crate::get::resolve;
use crate::trace::TraceArgs;
use leotp::core::{Available, Source};
use leotp::rt::{DEFAULT_PORT, Fetch, FetchOptions, Publisher, catch_signals, stop_requested};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Flow id of the endless test flow.
const FLOW: u64 = 0xbe0c_4a11;

#[derive(clap::Subcommand)]
pub(crate) enum Verb {
    /// Serve an endless flow for measurements.
    Server(ServerArgs),
    /// Fetch from a bench server and report.
    Client(ClientArgs),
}

#[derive(clap::Args)]
pub(crate) struct ServerArgs {
    /// Address and port to listen on (repeatable; default: every address, port 5047).
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Vec<SocketAddr>,
    /// Print counters as JSON on standard output at the end.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    params: ParamArgs,
}

#[derive(clap::Args)]
pub(crate) struct ClientArgs {
    /// The bench server, HOST or HOST:PORT (default 5047).
    remote: String,
    /// Seconds to measure.
    #[arg(short, long, default_value_t = 10)]
    time: u64,
    /// Seconds between lines.
    #[arg(short, long, default_value_t = 1)]
    interval: u64,
    /// Report as JSON on standard output instead of lines.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    params: ParamArgs,
}

/// A source of bytes that cost no computation.
struct Endless;

impl Source for Endless {
    fn available(&self) -> Available {
        Available {
            end: leotp::wire::META_BASE >> 1,
            finished: false,
        }
    }
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> bool {
        buf.fill(offset as u8);
        true
    }
    fn meta(&self) -> Option<Vec<u8>> {
        None
    }
}

pub(crate) fn run(v: &Verb) -> Result<(), Failure> {
    catch_signals()?;
    match v {
        Verb::Server(a) => server(a),
        Verb::Client(a) => client(a),
    }
}

fn server(a: &ServerArgs) -> Result<(), Failure> {
    let mut listen = a.listen.clone();
    if listen.is_empty() {
        listen = vec![
            SocketAddr::from(([0, 0, 0, 0], DEFAULT_PORT)),
            SocketAddr::from(([0u16; 8], DEFAULT_PORT)),
        ];
    }
    let mut p = Publisher::bind(&listen, a.params.params()?)?;
    p.publish(FLOW, Box::new(Endless));
    for l in p.locals() {
        eprintln!("bench server on {l}");
    }
    while !stop_requested() {
        p.poll(Duration::from_millis(200))?;
    }
    if a.json {
        println!(
            "{}",
            serde_json::json!({ "producer": p.stats(), "datagrams": p.io_stats(), "peak_rss_bytes": leotp::rt::peak_rss_bytes(), "cpu_s": leotp::rt::cpu_seconds() })
        );
    }
    Ok(())
}

fn client(a: &ClientArgs) -> Result<(), Failure> {
    let options = FetchOptions {
        params: a.params.params()?,
        ..FetchOptions::new(resolve(&a.remote)?, FLOW)
    };
    let mut trace = a.trace.open()?;
    let mut f = Fetch::open(options)?;
    let began = Instant::now();
    let mut last = (began, 0u64, f.stats());
    let mut total = 0u64;
    let mut intervals = Vec::new();
    if !a.json {
        println!(
            "{:<16} {:>12} {:>16} {:>9} {:>9} {:>10} {:>10}",
            "interval", "transfer", "rate", "repairs", "timeouts", "hopRTT", "duplicates"
        );
    }
    while began.elapsed() < Duration::from_secs(a.time) && !stop_requested() {
        if let Some(b) = f.poll(trace.wait(Duration::from_millis(50)))? {
            total += b.len() as u64;
        }
        trace.write(std::iter::once_with(|| f.consumer().state()))?;
        let dt = last.0.elapsed();
        if dt >= Duration::from_secs(a.interval.max(1)) {
            let s = f.stats();
            let (from, to) = (
                (last.0 - began).as_secs_f64(),
                began.elapsed().as_secs_f64(),
            );
            let rate = (total - last.1) as f64 * 8.0 / dt.as_secs_f64();
            let hop = f.consumer().cc().hop_rtt_ns().unwrap_or(0.0) / 1e6;
            if a.json {
                intervals.push(serde_json::json!({ "from_s": from, "to_s": to, "bytes": total - last.1, "rate_bps": rate, "repairs": s.repairs - last.2.repairs, "timeouts": s.timeouts - last.2.timeouts, "hop_rtt_ms": hop }));
            } else {
                println!(
                    "{:<16} {:>12} {:>16} {:>9} {:>9} {:>7.2} ms {:>10}",
                    format!("{from:.1}-{to:.1} s"),
                    human_bytes(total - last.1),
                    human_rate(rate),
                    s.repairs - last.2.repairs,
                    s.timeouts - last.2.timeouts,
                    hop,
                    human_bytes(s.duplicate_bytes - last.2.duplicate_bytes)
                );
            }
            last = (Instant::now(), total, s);
        }
    }
    let s = began.elapsed().as_secs_f64();
    let rate = total as f64 * 8.0 / s;
    if a.json {
        let v = serde_json::json!({ "seconds": s, "bytes": total, "rate_bps": rate, "intervals": intervals, "consumer": f.stats(), "datagrams": f.io_stats(), "peak_rss_bytes": leotp::rt::peak_rss_bytes(), "cpu_s": leotp::rt::cpu_seconds() });
        println!("{v}");
    } else {
        println!(
            "{:<16} {:>12} {:>16}   ({:.2} s CPU)",
            format!("0.0-{s:.1} s"),
            human_bytes(total),
            human_rate(rate),
            leotp::rt::cpu_seconds()
        );
    }
    if total == 0 && !stop_requested() {
        return Err(Failure::Nothing(format!(
            "nothing came from {}; does `leotp bench server` run there?",
            a.remote
        )));
    }
    Ok(())
}
