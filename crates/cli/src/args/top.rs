//! `top`, `metrics`.

use std::net::SocketAddr;
use std::num::NonZeroU32;

use clap::Args;
use constel_units::TimeSpan;

/// `top`.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// The lab's name.
    pub(crate) lab: String,
    /// How long from look to look, 200 ms or more.
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    pub(crate) every: TimeSpan,
    /// End after so many looks at what links carry; unless given, when the lab ends, or at Ctrl-C.
    #[arg(long, value_name = "N")]
    pub(crate) looks: Option<NonZeroU32>,
    /// Rows of links, the busiest first.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) rows: usize,
    /// Print one JSON object a look, on a line, with all links that carried something.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `metrics`.
#[derive(Debug, Args)]
pub(crate) struct Metrics {
    /// The lab's name.
    pub(crate) lab: String,
    /// Serve them at `http://ADDRESS/metrics` until the lab ends, or Ctrl-C: an address of the loopback.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,
}
