//! `top`, `metrics`.

use std::net::SocketAddr;
use std::num::NonZeroU32;

use clap::Args;
use constel_units::TimeSpan;

/// `top`.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Name of the lab.
    pub(crate) lab: String,
    /// Sampling interval, 200 ms or more.
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    pub(crate) every: TimeSpan,
    /// End after this number of samples. Default: until the lab ends, or Ctrl-C.
    #[arg(long, value_name = "N")]
    pub(crate) samples: Option<NonZeroU32>,
    /// Number of rows, the busiest links first.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) rows: usize,
    /// Print one JSON object per sample and line, with all links that carried traffic.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `metrics`.
#[derive(Debug, Args)]
pub(crate) struct Metrics {
    /// Name of the lab.
    pub(crate) lab: String,
    /// Serve the counters at `http://ADDRESS/metrics` until the lab ends, or Ctrl-C; only loopback addresses.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,
}
