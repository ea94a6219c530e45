//! `probe`: what flows of `ping` start in nodes.

use std::net::SocketAddr;

use clap::{Args, Subcommand};

/// The two ends of a flow of probes.
#[derive(Debug, Subcommand)]
pub(crate) enum Probe {
    /// Ask: a row of CSV for each probe, in lab time and microseconds.
    Ask(ProbeAsk),
    /// Answer whatever is asked here, until a signal comes.
    Answer {
        /// Where.
        at: SocketAddr,
    },
}

/// `probe ask`.
#[derive(Debug, Args)]
pub(crate) struct ProbeAsk {
    /// Who answers.
    pub(crate) to: SocketAddr,
    /// Nanoseconds from one probe to the next.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) interval_ns: u64,
    /// Nanoseconds after which it ends.
    #[arg(long)]
    pub(crate) length_ns: u64,
    /// Bytes of payload in each.
    #[arg(long, value_parser = clap::value_parser!(u16).range(16..=65_000))]
    pub(crate) size: u16,
    /// `CLOCK_MONOTONIC` at lab time zero, nanoseconds.
    #[arg(long, default_value_t = 0)]
    pub(crate) zero_ns: u64,
    /// Who answers is on another machine: no delays of one way.
    #[arg(long)]
    pub(crate) apart: bool,
}
