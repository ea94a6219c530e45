//! `leotp`: serve a file, get it, help it on its way, measure.

#![deny(unsafe_code)]

mod bench;
mod common;
mod gateway;
mod get;
mod mid;
mod serve;
mod trace;

use clap::{Parser, Subcommand};

/// LEOTP: reliable transfer over lossy, moving, many-hop networks.
#[derive(Parser)]
#[command(version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Serve a file, or standard input as it arrives.
    Serve(serve::Args),
    /// Fetch a flow into a file or to standard output.
    Get(get::Args),
    /// Be a transparent Midnode on this router (needs CAP_NET_ADMIN).
    Mid(mid::Args),
    /// Carry passing TCP connections over LEOTP to another gateway (needs CAP_NET_ADMIN).
    Gateway(gateway::Args),
    /// Measure a path, as iperf3 does.
    #[command(subcommand)]
    Bench(bench::Verb),
}

fn main() -> std::process::ExitCode {
    let cli = Cli::parse();
    let result = match cli.verb {
        Verb::Serve(a) => serve::run(&a),
        Verb::Get(a) => get::run(&a),
        Verb::Mid(a) => mid::run(&a),
        Verb::Gateway(a) => gateway::run(&a),
        Verb::Bench(v) => bench::run(&v),
    };
    match result {
        Ok(()) if leotp::rt::stop_requested() => std::process::ExitCode::from(130),
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(e @ common::Failure::Help(_)) => {
            use std::io::Write;
            // An error here only means that the reader, such as `head`, has closed the pipe.
            let _ = write!(std::io::stdout(), "{e}");
            std::process::ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("leotp: {e}");
            std::process::ExitCode::from(e.code())
        }
    }
}
