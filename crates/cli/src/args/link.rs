//! `link`.

use clap::{Args, Subcommand};
use constel_units::{DataRate, DataSize, Ratio, TimeSpan};

/// `link`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Link {
    /// What to change.
    #[command(subcommand)]
    pub(crate) change: Option<LinkChange>,
    /// The lab's name.
    #[arg(required = true)]
    pub(crate) lab: Option<String>,
    /// One end's node.
    #[arg(required = true)]
    pub(crate) a: Option<String>,
    /// The other end's node.
    #[arg(required = true)]
    pub(crate) b: Option<String>,
    /// Of a lab on several machines, which share this store: `etcd://HOST:PORT`, or the path of a folder. What is asked is run on the
    /// machine that has the node.
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<constel_store::Place>,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A change by hand. It holds in both directions, on top of what the scenario says, whatever the
/// orbits do, until it is reset.
#[derive(Debug, Subcommand)]
pub(crate) enum LinkChange {
    /// Change nothing: show the link, as without a verb.
    Show(LinkShow),
    /// Change what is named; the rest stays as set before.
    Set(Box<LinkSet>),
    /// Break the link: what arrives or waits is dropped, what is in flight still arrives.
    Fail(LinkFail),
    /// Undo `fail`; what `set` changed stays.
    Heal(LinkFail),
}

/// `link show`.
#[derive(Debug, Args)]
pub(crate) struct LinkShow {
    /// The lab's name.
    pub(crate) lab: String,
    /// One end's node.
    pub(crate) a: String,
    /// The other end's node.
    pub(crate) b: String,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A lab's link.
#[derive(Debug, Args)]
pub(crate) struct LinkEnds {
    /// The lab's name.
    pub(crate) lab: String,
    /// One end's node; both ends, as A-B; or, with `set`, a port as NODE/PORT: what leaves it, through handovers.
    pub(crate) a: String,
    /// The other end's node.
    pub(crate) b: Option<String>,
    /// Of a lab on several machines, which share this store: `etcd://HOST:PORT`, or the path of a folder. All of them make the change at
    /// one lab time, two seconds from now.
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<constel_store::Place>,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A lab's link, to be failed or healed.
#[derive(Debug, Args)]
pub(crate) struct LinkFail {
    #[command(flatten)]
    pub(crate) ends: LinkEnds,
    /// Return once that is in force, without waiting for computed routes to follow.
    #[arg(long)]
    pub(crate) no_wait: bool,
}

/// `link set`.
#[derive(Debug, Args)]
pub(crate) struct LinkSet {
    #[command(flatten)]
    pub(crate) ends: LinkEnds,
    /// First take away everything that was set or failed by hand.
    #[arg(long)]
    pub(crate) reset: bool,
    /// Propagation delay, instead of the geometry's: it no longer follows the orbits.
    #[arg(long, value_name = "TIME")]
    pub(crate) delay: Option<TimeSpan>,
    /// Delay on top of the geometry's, or of `--delay`'s.
    #[arg(long, value_name = "TIME")]
    pub(crate) extra_delay: Option<TimeSpan>,
    /// Rate, instead of the scenario's.
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<DataRate>,
    /// Rate that changes in time: `square:HIGH,LOW,HIGH_FOR,LOW_FOR`, `sine:MEAN,AMPLITUDE,PERIOD`,
    /// `v-curve:HIGH,LOW,RAMP,EVERY,AT`, `csv:FILE`, `mahimahi:FILE`.
    #[arg(long, value_name = "LAW", conflicts_with = "rate")]
    pub(crate) rate_law: Option<String>,
    /// Bytes that may wait for service.
    #[arg(long, value_name = "SIZE")]
    pub(crate) queue: Option<DataSize>,
    /// Queue discipline: `drop-tail`, `codel`, `fq-codel`, `pie`, `red:MIN,MAX,PROBABILITY` (sizes),
    /// `drd:MIN,MAX` (frames), `ce-threshold:TIME` (marks, never drops).
    #[arg(long, value_name = "DISCIPLINE")]
    pub(crate) aqm: Option<String>,
    /// Mark instead of dropping, where senders understand it.
    #[arg(long, requires = "aqm")]
    pub(crate) ecn: bool,
    /// Frames that may wait for service, on top of the limit in bytes.
    #[arg(long, value_name = "N")]
    pub(crate) queue_frames: Option<u64>,
    /// Link-layer framing of each frame, for service only.
    #[arg(long, value_name = "SIZE")]
    pub(crate) overhead: Option<DataSize>,
    /// Independent loss of each frame.
    #[arg(long, value_name = "RATIO", group = "loss_law")]
    pub(crate) loss: Option<Ratio>,
    /// Each bit is wrong with this chance, by itself; a frame with any wrong bit is lost.
    #[arg(long, value_name = "RATIO", group = "loss_law")]
    pub(crate) bit_errors: Option<Ratio>,
    /// Bursty loss: good to bad, bad to good, loss in good, loss in bad.
    #[arg(long, value_name = "RATIO", num_args = 4, group = "loss_law")]
    pub(crate) gilbert_elliott: Option<Vec<Ratio>>,
    /// Four-state loss: p13, p31, p32, p23, p14.
    #[arg(long, value_name = "RATIO", num_args = 5, group = "loss_law")]
    pub(crate) four_state: Option<Vec<Ratio>>,
    /// The last BURST of every EVERY frames.
    #[arg(long, value_names = ["EVERY", "BURST"], num_args = 2, group = "loss_law")]
    pub(crate) periodic: Option<Vec<u64>>,
    /// A recording of losses: 0 (arrived) or 1 (lost) in each line.
    #[arg(long, value_name = "FILE", group = "loss_law")]
    pub(crate) loss_trace: Option<std::path::PathBuf>,
    /// Exactly these frames from now on, counted from 1: `17` or `3,10-12`.
    #[arg(long, value_name = "FRAMES", group = "loss_law")]
    pub(crate) drop: Option<String>,
    /// A recording of delays, instead of the geometry's: milliseconds in each line.
    #[arg(long, value_name = "FILE", group = "recordings", conflicts_with_all = ["delay", "jitters"], requires = "trace_interval")]
    pub(crate) delay_trace: Option<std::path::PathBuf>,
    /// Time from one line of the recording to the next.
    #[arg(long, value_name = "TIME", requires = "recordings")]
    pub(crate) trace_interval: Option<TimeSpan>,
    /// Jitter: standard deviation (of `uniform`: half of the width).
    #[arg(long, value_name = "TIME", group = "jitters")]
    pub(crate) jitter: Option<TimeSpan>,
    /// Jitter by measured quantiles at equal steps of probability, the least first, the greatest
    /// last: `0s,1ms,8ms`.
    #[arg(
        long,
        value_name = "TIMES",
        group = "jitters",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub(crate) jitter_quantiles: Option<Vec<TimeSpan>>,
    /// A recording of jitter: milliseconds in each line.
    #[arg(long, value_name = "FILE", groups = ["jitters", "recordings"], requires = "trace_interval")]
    pub(crate) jitter_trace: Option<std::path::PathBuf>,
    /// Distribution of the jitter.
    #[arg(long, value_enum, requires = "jitter", default_value = "normal")]
    pub(crate) jitter_law: JitterName,
    /// Time in which the jitter's correlation halves; none unless given.
    #[arg(
        long,
        value_name = "TIME",
        requires = "jitters",
        conflicts_with = "jitter_trace"
    )]
    pub(crate) jitter_half_life: Option<TimeSpan>,
    /// What happens where a frame would arrive before one that was sent earlier.
    #[arg(long, value_enum, requires = "jitters", default_value = "hold")]
    pub(crate) jitter_order: OrderName,
    /// Frames held back so that others overtake them.
    #[arg(long, value_name = "RATIO", requires = "reorder_by")]
    pub(crate) reorder: Option<Ratio>,
    /// How long those are held back.
    #[arg(long, value_name = "TIME", requires = "reorder")]
    pub(crate) reorder_by: Option<TimeSpan>,
    /// Frames that arrive twice.
    #[arg(long, value_name = "RATIO")]
    pub(crate) duplicate: Option<Ratio>,
    /// Frames of which one bit is flipped.
    #[arg(long, value_name = "RATIO")]
    pub(crate) corrupt: Option<Ratio>,
    /// All of it as one JSON document, in the form of the lab's interface (`docs/reference/api.schema.json`), instead of flags; `-` is standard input.
    #[arg(long, value_name = "JSON")]
    pub(crate) effects: Option<String>,
}

/// What jitter does to the order of frames.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum OrderName {
    /// It arrives with that one: the more frames a second, the larger the mean delay.
    Hold,
    /// It overtakes.
    Overtake,
    /// It does not happen: the delay changes slowly, with the law's mean and spread.
    Smooth,
}

/// Distributions of jitter.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum JitterName {
    /// Evenly spread.
    Uniform,
    /// Normal.
    Normal,
    /// Pareto, tail index 3.
    Pareto,
    /// A quarter normal, three quarters Pareto.
    ParetoNormal,
}
