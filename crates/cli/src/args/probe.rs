//! `probe`, which flows of `ping` start in nodes.

use std::net::SocketAddr;

use clap::{Args, Subcommand};

/// The two ends of a flow of probes.
#[derive(Debug, Subcommand)]
pub(crate) enum Probe {
    /// Send probes; prints a CSV row for each probe, in lab time and microseconds.
    Ask(ProbeAsk),
    /// Answer all probes until a signal ends it.
    Answer {
        /// Address to answer at.
        at: SocketAddr,
    },
}

/// `probe ask`.
#[derive(Debug, Args)]
pub(crate) struct ProbeAsk {
    /// Address that answers.
    pub(crate) to: SocketAddr,
    /// Interval between two probes, nanoseconds.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) interval_ns: u64,
    /// Time until the end, nanoseconds.
    #[arg(long)]
    pub(crate) length_ns: u64,
    /// Payload of each probe, bytes.
    #[arg(long, value_parser = clap::value_parser!(u16).range(16..=65_000))]
    pub(crate) size: u16,
    /// `CLOCK_MONOTONIC` at lab time zero, nanoseconds.
    #[arg(long, default_value_t = 0)]
    pub(crate) zero_ns: u64,
    /// The other end is on another machine: no one-way delays.
    #[arg(long)]
    pub(crate) apart: bool,
}
