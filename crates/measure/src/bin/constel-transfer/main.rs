//! `constel-transfer`: serve a measured stream, fetch it.

#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use constel_measure::transfer::report::Measure;
use constel_measure::transfer::{
    FetchLimits, TransferError, over_leotp, over_tcp, over_vivace, split,
};
use leotp::core::Params;
use leotp::rt::{InterceptOptions, cpu_seconds};

/// Bulk transfers over LEOTP, TCP and PCC Vivace, all measured in the same way at both ends: the one-way delay of
/// each record, the throughput, and the data sent. Prints one line of JSON at the end.
#[derive(Parser)]
#[command(version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Serve data until SIGTERM or SIGINT, then print what was sent.
    #[command(subcommand)]
    Serve(Serve),
    /// Download, then print what was received.
    #[command(subcommand)]
    Fetch(Fetch),
    /// Split TCP connections that pass this router (needs CAP_NET_ADMIN), then print what was passed on.
    Split(SplitArgs),
}

#[derive(Subcommand)]
enum Serve {
    /// Over LEOTP.
    Leotp {
        #[command(flatten)]
        common: ServeArgs,
        #[command(flatten)]
        params: LeotpArgs,
    },
    /// Over TCP.
    Tcp {
        #[command(flatten)]
        common: ServeArgs,
        /// Congestion control.
        #[arg(long, default_value = "cubic")]
        congestion: String,
    },
    /// Over UDP with PCC Vivace.
    Vivace {
        #[command(flatten)]
        common: ServeArgs,
        /// The seed of the order in which rates are probed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
}

#[derive(Subcommand)]
enum Fetch {
    /// Over LEOTP.
    Leotp {
        #[command(flatten)]
        common: FetchArgs,
        #[command(flatten)]
        params: LeotpArgs,
    },
    /// Over TCP.
    Tcp {
        #[command(flatten)]
        common: FetchArgs,
    },
    /// Over UDP with PCC Vivace.
    Vivace {
        #[command(flatten)]
        common: FetchArgs,
    },
}

#[derive(Args)]
struct SplitArgs {
    /// TCP ports of the servers, first and last.
    #[arg(long, value_name = "FIRST-LAST", value_parser = parse_ports)]
    ports: (u16, u16),
    /// Congestion control on both sides; default: that of the network namespace.
    #[arg(long)]
    congestion: Option<String>,
}

fn parse_ports(s: &str) -> Result<(u16, u16), String> {
    let (first, last) = s.split_once('-').unwrap_or((s, s));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if 0 < first && first <= last => Ok((first, last)),
        _ => Err("a port is 1 to 65535, a range FIRST-LAST".to_owned()),
    }
}

#[derive(Args)]
struct ServeArgs {
    /// Address and port to listen on.
    #[arg(long, value_name = "ADDR:PORT")]
    listen: SocketAddr,
    /// Length of the stream, bytes; default: endless.
    #[arg(long)]
    bytes: Option<u64>,
}

#[derive(Args)]
struct FetchArgs {
    /// Address and port of the server.
    #[arg(value_name = "ADDR:PORT")]
    remote: SocketAddr,
    /// Seconds after which the transfer ends, however much has arrived.
    #[arg(long, default_value_t = 10.0)]
    time: f64,
    /// Bytes to fetch; default: as many as the time allows.
    #[arg(long)]
    bytes: Option<u64>,
    /// Length of the report's intervals, milliseconds.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    interval_ms: u64,
    /// Write each record's times to this file, CSV.
    #[arg(long, value_name = "FILE")]
    records: Option<PathBuf>,
    /// The server is on another machine, whose clock differs: measure no one-way delays.
    #[arg(long)]
    apart: bool,
}

#[derive(Args)]
struct LeotpArgs {
    /// faithful: the protocol of the paper. authors-constants: with five constants of the authors' program. beyond: with Constel's changes.
    #[arg(long, default_value = "faithful", value_parser = Params::VARIANTS)]
    variant: String,
    /// Set a protocol parameter, for example --set cache_bytes=1048576 (repeatable).
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
}

impl LeotpArgs {
    fn params(&self) -> Result<Params, TransferError> {
        // clap rejects other names.
        let base = Params::variant(&self.variant).unwrap_or_default();
        let params = base.with_settings(&self.set);
        Ok(params.map_err(leotp::rt::RunError::from)?)
    }
}

impl FetchArgs {
    fn goal(&self) -> FetchLimits {
        FetchLimits {
            bytes: self.bytes,
            // A time that a Duration cannot hold means no limit.
            time: Duration::try_from_secs_f64(self.time).unwrap_or(Duration::MAX),
        }
    }

    fn measure(&self) -> Measure<'_> {
        Measure {
            interval_ns: self.interval_ms.saturating_mul(1_000_000),
            records: self.records.as_deref(),
            apart: self.apart,
        }
    }
}

/// Prints the line that the program which started the server waits for.
fn listening(at: SocketAddr) -> impl FnOnce() {
    move || eprintln!("listening on {at}")
}

fn serve(verb: Serve) -> Result<String, TransferError> {
    let sent = match verb {
        Serve::Leotp { common: c, params } => {
            over_leotp::serve(c.listen, c.bytes, params.params()?, listening(c.listen))?
        }
        Serve::Tcp {
            common: c,
            congestion,
        } => over_tcp::serve(c.listen, c.bytes, &congestion, listening(c.listen))?,
        Serve::Vivace { common: c, seed } => {
            over_vivace::serve(c.listen, c.bytes, seed, listening(c.listen))?
        }
    };
    Ok(with_cpu(serde_json::json!(sent)))
}

fn fetch(verb: Fetch) -> Result<String, TransferError> {
    let received = match verb {
        Fetch::Leotp { common: c, params } => {
            over_leotp::fetch(c.remote, c.goal(), params.params()?, c.measure())?
        }
        Fetch::Tcp { common: c } => over_tcp::fetch(c.remote, c.goal(), c.measure())?,
        Fetch::Vivace { common: c } => over_vivace::fetch(c.remote, c.goal(), c.measure())?,
    };
    let line = with_cpu(serde_json::json!(received));
    if received.damaged > 0 {
        println!("{line}");
        return Err(TransferError::Damaged(received.damaged, received.records));
    }
    Ok(line)
}

/// Returns the line to print: the result with the processor time that this end used, seconds.
fn with_cpu(mut result: serde_json::Value) -> String {
    result["cpu_s"] = cpu_seconds().into();
    result.to_string()
}

fn split_tcp(args: SplitArgs) -> Result<String, TransferError> {
    let options = InterceptOptions {
        ports: args.ports,
        name: "split".to_owned(),
        congestion: args.congestion,
        ..InterceptOptions::default()
    };
    let (first, last) = args.ports;
    let done = split::run(&options, || eprintln!("splitting TCP ports {first}-{last}"))?;
    Ok(done.to_string())
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = leotp::rt::catch_signals()
        .map_err(TransferError::from)
        .and_then(|()| match cli.verb {
            Verb::Serve(verb) => serve(verb),
            Verb::Fetch(verb) => fetch(verb),
            Verb::Split(args) => split_tcp(args),
        });
    match result {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("constel-transfer: {error}");
            ExitCode::FAILURE
        }
    }
}
