//! `link`.

use clap::{Args, Subcommand};
use constel_link::Effects;
use constel_units::{DataRate, DataSize, Ratio, TimeSpan};

/// `link`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Link {
    /// The change.
    #[command(subcommand)]
    pub(crate) change: Option<LinkChange>,
    /// Name of the lab.
    #[arg(required = true)]
    pub(crate) lab: Option<String>,
    /// Node at one end.
    #[arg(required = true)]
    pub(crate) a: Option<String>,
    /// Node at the other end.
    #[arg(required = true)]
    pub(crate) b: Option<String>,
    /// Store of a lab on several machines: `etcd://HOST:PORT`, or the path of a folder. The command runs on the machine that
    /// has the node.
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<constel_cluster::store::StoreLocation>,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A change by hand. It applies to both directions, in addition to the scenario's effects, and holds until it is reset,
/// whatever the orbits do.
#[derive(Debug, Subcommand)]
pub(crate) enum LinkChange {
    /// Show the link, as without a verb.
    Show(LinkShow),
    /// Change the given effects; others keep their values.
    Set(Box<LinkSet>),
    /// Break the link; frames in flight still arrive.
    Fail(LinkFails),
    /// Undo `fail`; changes by `set` remain.
    Heal(LinkHeals),
}

/// `link show`.
#[derive(Debug, Args)]
pub(crate) struct LinkShow {
    /// Name of the lab.
    pub(crate) lab: String,
    /// Node at one end.
    pub(crate) a: String,
    /// Node at the other end.
    pub(crate) b: String,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A lab's link.
#[derive(Debug, Args)]
pub(crate) struct LinkEnds {
    /// Name of the lab.
    pub(crate) lab: String,
    /// Node at one end; or both ends, as A-B; or, with `set`, a port as NODE/PORT for all edges that leave it, through
    /// handovers.
    pub(crate) a: String,
    /// Node at the other end.
    pub(crate) b: Option<String>,
    /// Store of a lab on several machines: `etcd://HOST:PORT`, or the path of a folder. All machines make the change at one lab
    /// time, two seconds from now.
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<constel_cluster::store::StoreLocation>,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A link that fails.
#[derive(Debug, Args)]
pub(crate) struct LinkFails {
    #[command(flatten)]
    pub(crate) own: LinkHeals,
    /// Heal the link after this time.
    #[arg(long = "for", value_name = "DURATION", conflicts_with = "store")]
    pub(crate) duration: Option<TimeSpan>,
}

/// A link that heals.
#[derive(Debug, Args)]
pub(crate) struct LinkHeals {
    #[command(flatten)]
    pub(crate) ends: LinkEnds,
    /// Return when the change is in force, without waiting for computed routes to follow.
    #[arg(long)]
    pub(crate) no_wait: bool,
}

/// `link set`.
#[derive(Debug, Args)]
pub(crate) struct LinkSet {
    #[command(flatten)]
    pub(crate) ends: LinkEnds,
    /// First remove all changes and failures that were set by hand.
    #[arg(long)]
    pub(crate) reset: bool,
    /// End the change after this time; what was set by hand before is in force again.
    #[arg(long = "for", value_name = "DURATION", conflicts_with_all = ["reset", "store"])]
    pub(crate) duration: Option<TimeSpan>,
    /// Propagation delay, instead of the one by geometry; it no longer follows the orbits.
    #[arg(long, value_name = "TIME")]
    pub(crate) delay: Option<TimeSpan>,
    /// Delay in addition to the one by geometry or by `--delay`.
    #[arg(long, value_name = "TIME")]
    pub(crate) extra_delay: Option<TimeSpan>,
    /// Data rate, instead of the scenario's.
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<DataRate>,
    /// Data rate that changes over time: `square:HIGH,LOW,HIGH_FOR,LOW_FOR`, `sine:MEAN,AMPLITUDE,PERIOD`,
    /// `v-curve:HIGH,LOW,RAMP,EVERY,AT`, `csv:FILE`, `mahimahi:FILE`.
    #[arg(long, value_name = "LAW", conflicts_with = "rate")]
    pub(crate) rate_law: Option<String>,
    /// Queue limit, bytes.
    #[arg(long, value_name = "SIZE")]
    pub(crate) queue: Option<DataSize>,
    /// Queue discipline: `drop-tail`, `codel`, `fq-codel`, `pie`, `red:MIN,MAX,PROBABILITY` (sizes),
    /// `drd:MIN,MAX` (frames), `ce-threshold:TIME` (marks, never drops).
    #[arg(long, value_name = "DISCIPLINE")]
    pub(crate) aqm: Option<String>,
    /// Mark ECN-capable packets instead of dropping them.
    #[arg(long, requires = "aqm")]
    pub(crate) ecn: bool,
    /// Queue limit in frames, in addition to the limit in bytes.
    #[arg(long, value_name = "N")]
    pub(crate) queue_frames: Option<u64>,
    /// Link-layer overhead per frame; it only increases the time of service.
    #[arg(long, value_name = "SIZE")]
    pub(crate) overhead: Option<DataSize>,
    /// Independent loss probability of each frame.
    #[arg(long, value_name = "RATIO", group = "loss_law")]
    pub(crate) loss: Option<Ratio>,
    /// Independent error probability of each bit; a frame with a wrong bit is lost.
    #[arg(long, value_name = "RATIO", group = "loss_law")]
    pub(crate) bit_errors: Option<Ratio>,
    /// Bursty loss (Gilbert-Elliott): probabilities good to bad, bad to good, loss in good, loss in bad.
    #[arg(long, value_name = "RATIO", num_args = 4, group = "loss_law")]
    pub(crate) gilbert_elliott: Option<Vec<Ratio>>,
    /// Four-state loss: probabilities p13, p31, p32, p23, p14.
    #[arg(long, value_name = "RATIO", num_args = 5, group = "loss_law")]
    pub(crate) four_state: Option<Vec<Ratio>>,
    /// Lose the last BURST of every EVERY frames.
    #[arg(long, value_names = ["EVERY", "BURST"], num_args = 2, group = "loss_law")]
    pub(crate) periodic: Option<Vec<u64>>,
    /// Recorded losses: 0 (arrived) or 1 (lost) in each line.
    #[arg(long, value_name = "FILE", group = "loss_law")]
    pub(crate) loss_trace: Option<std::path::PathBuf>,
    /// Lose exactly these frames from now on, counted from 1: `17` or `3,10-12`.
    #[arg(long, value_name = "FRAMES", group = "loss_law")]
    pub(crate) drop: Option<String>,
    /// Recorded delays, instead of those by geometry: milliseconds in each line.
    #[arg(long, value_name = "FILE", group = "recordings", conflicts_with_all = ["delay", "jitters"], requires = "trace_interval")]
    pub(crate) delay_trace: Option<std::path::PathBuf>,
    /// Interval between two lines of the recording.
    #[arg(long, value_name = "TIME", requires = "recordings")]
    pub(crate) trace_interval: Option<TimeSpan>,
    /// Jitter: standard deviation (for `uniform`: half of the width).
    #[arg(long, value_name = "TIME", group = "jitters")]
    pub(crate) jitter: Option<TimeSpan>,
    /// Jitter by measured quantiles at equal steps of probability, from minimum to maximum: `0s,1ms,8ms`.
    #[arg(
        long,
        value_name = "TIMES",
        group = "jitters",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub(crate) jitter_quantiles: Option<Vec<TimeSpan>>,
    /// Recorded jitter: milliseconds in each line.
    #[arg(long, value_name = "FILE", groups = ["jitters", "recordings"], requires = "trace_interval")]
    pub(crate) jitter_trace: Option<std::path::PathBuf>,
    /// Distribution of the jitter.
    #[arg(long, value_enum, requires = "jitter", default_value = "normal")]
    pub(crate) jitter_law: JitterName,
    /// Time in which the jitter's correlation halves. Default: independent jitter.
    #[arg(
        long,
        value_name = "TIME",
        requires = "jitters",
        conflicts_with = "jitter_trace"
    )]
    pub(crate) jitter_half_life: Option<TimeSpan>,
    /// Treatment of a frame that would arrive before an earlier one.
    #[arg(long, value_enum, requires = "jitters", default_value = "hold")]
    pub(crate) jitter_order: OrderName,
    /// Probability that a frame is held back, so that others overtake it.
    #[arg(long, value_name = "RATIO", requires = "reorder_by")]
    pub(crate) reorder: Option<Ratio>,
    /// Time for which such frames are held back.
    #[arg(long, value_name = "TIME", requires = "reorder")]
    pub(crate) reorder_by: Option<TimeSpan>,
    /// Probability that a frame arrives twice.
    #[arg(long, value_name = "RATIO")]
    pub(crate) duplicate: Option<Ratio>,
    /// Probability that one bit of a frame is flipped.
    #[arg(long, value_name = "RATIO")]
    pub(crate) corrupt: Option<Ratio>,
    /// All effects as one JSON document, in the form of the lab's interface (`docs/reference/api.schema.json`), instead of
    /// flags; `-` is standard input.
    #[arg(long, value_name = "JSON")]
    pub(crate) effects: Option<String>,
}

impl LinkSet {
    /// Returns the effects whose flag has the whole value.
    pub(crate) fn effects(&self) -> Effects {
        Effects {
            rate_bps: self.rate.map(DataRate::bps),
            queue_bytes: self.queue.map(DataSize::bytes),
            queue_frames: self.queue_frames,
            duplicate_ratio: self.duplicate.map(Ratio::get),
            corrupt_ratio: self.corrupt.map(Ratio::get),
            ..Effects::default()
        }
    }
}

/// The effect of jitter on the order of frames.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum OrderName {
    /// It arrives together with the earlier frame: the mean delay grows with the frame rate.
    Hold,
    /// It overtakes the earlier frame.
    Overtake,
    /// Overtaking never occurs: the delay changes slowly, with the law's mean and spread.
    Smooth,
}

/// Distributions of jitter.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum JitterName {
    /// Uniform.
    Uniform,
    /// Normal.
    Normal,
    /// Pareto, tail index 3.
    Pareto,
    /// A quarter normal, three quarters Pareto.
    ParetoNormal,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of effects has a row for each; no row may be without a flag.
    #[test]
    fn every_effect_has_a_flag() {
        let command = LinkSet::augment_args(clap::Command::new("set"));
        let flags: Vec<&str> = command
            .get_arguments()
            .filter_map(clap::Arg::get_long)
            .collect();
        for field in Effects::FIELDS {
            let flag = match field.name {
                // `link down` and `link up` are commands of their own.
                "down" => continue,
                // It needs the terminals and their places in time, which the plan has; as JSON it can be set.
                "access" => continue,
                // Each law of loss has a flag; this is the plainest.
                "loss" => "loss".to_owned(),
                _ => field.key.replace('_', "-"),
            };
            assert!(
                flags.contains(&flag.as_str()),
                "no --{flag} for `{}`",
                field.name
            );
        }
    }
}
