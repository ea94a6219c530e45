//! The conversion of a tool's raw output to a row of the summary.

use std::path::Path;

use constel_api::summary::{ClientEnd, FlowStatus};
use constel_host::process::Exit;
use constel_measure::flows::{
    FlowError, Outcome, parse_ended_ping, parse_http, parse_iperf3, parse_ping, parse_received,
    parse_transfer, ping_replies, probe_rows, read_probe,
};
use constel_scenario::model::{Action, Ping, PingTool, TransferProtocol, Transport};
use constel_topology::NodeId;

use super::lost::{self, Probes};
use super::series::Trust;
use super::wall::WallClock;
use super::{Job, Ran, exit_words, output};
use crate::watch::paths::{Pair, Paths};
use crate::watch::summary::{ChangeRow, FlowRow, HandoverRow, rtt_of};
use constel_plan::Blueprint;

/// The end of a client's process.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// It could not be started.
    NotStarted(String),
    /// It ended by itself, as noticed at this lab time, nanoseconds.
    ByItself {
        /// The exit status.
        exit: Exit,
        /// The time at which the end was noticed.
        t_ns: u64,
    },
    /// It wrote more than is kept (1 GiB) and was killed, as noticed at this lab time, nanoseconds.
    Full {
        /// The exit status.
        exit: Exit,
        /// The time at which the end was noticed.
        t_ns: u64,
    },
    /// It was ended at the end of its time.
    AtItsTime,
    /// Its time was over while its node was down.
    NodeDown,
    /// It was removed from the scenario while the lab ran.
    Removed,
    /// The run ended before its time was over.
    CutShort,
}

impl Ended {
    /// Converts it to the form in the summary, for a flow whose time is over at `end_ns` of lab time.
    #[must_use]
    pub fn client_end(&self, end_ns: u64) -> ClientEnd {
        match self {
            Self::NotStarted(_) => ClientEnd::NotStarted,
            Self::ByItself { exit, t_ns } | Self::Full { exit, t_ns } => ClientEnd::ByItself {
                t_ns: *t_ns,
                exit: exit.shell_code(),
                early: *t_ns < end_ns,
            },
            Self::AtItsTime => ClientEnd::AtItsTime,
            Self::NodeDown => ClientEnd::NodeDown,
            Self::Removed => ClientEnd::Removed,
            Self::CutShort => ClientEnd::CutShort,
        }
    }
}

/// Counts the probes that each handover and each other change cost, with the scenario's pings.
pub(crate) fn charge(
    blueprint: &Blueprint,
    ran: &Ran,
    handovers: &mut [HandoverRow],
    changes: &mut [ChangeRow],
) {
    for (job, _) in &ran.jobs {
        let (Action::Ping(ping), Some(Pair { from, to, .. })) = (&job.flow.action, job.plan.ends)
        else {
            continue;
        };
        let Some(probes) = probes(job, ping, &ran.wall) else {
            continue;
        };
        let ends = [from, to].map(|id| blueprint.lab.layout.node(id).name.clone());
        lost::count(handovers, &ends, &probes);
        lost::count_changes(changes, &probes);
    }
}

/// Returns when a flow's probes were lost; `None` if that is not known.
fn probes(job: &Job, ping: &Ping, wall: &WallClock) -> Option<Probes> {
    if ping.tool != PingTool::Ping {
        let rows = probe_rows(output::lines(&job.out));
        return Probes::of_rows(rows.map_while(Result::ok));
    }
    let text = output::whole(&job.out).unwrap_or_default();
    let outcome = parse_ping(&text).unwrap_or_else(|_| parse_ended_ping(&text));
    // Probes in flight at the end are neither lost nor answered.
    let known = outcome.sent_packets? - outcome.in_flight_packets.unwrap_or(0);
    Probes::new(&ping_replies(&text), known, ping.interval.seconds(), wall)
}

/// Returns the row of a flow that has ended.
pub(crate) fn row(
    blueprint: &Blueprint,
    job: &Job,
    ended: &Ended,
    trust: Trust,
    paths: &Paths,
) -> FlowRow {
    let (status, reason, mut outcome) = judge(job, ended);
    // With two clocks the difference of timestamps is no delay.
    if job.apart {
        (outcome.owd, outcome.owd_back) = (None, None);
    }
    let name = |node: NodeId| blueprint.lab.layout.node(node).name.clone();
    let followed = paths.flows.get(job.flow.name.as_str());
    FlowRow {
        name: job.flow.name.to_string(),
        kind: kind(&job.flow.action).to_owned(),
        from: name(job.plan.ends.map_or(job.client_node(), |ends| ends.from)),
        to: job.plan.ends.map(|ends| ends.far_name(blueprint)),
        at_ns: *job.time_ns().start(),
        status,
        reason,
        end: Some(ended.client_end(*job.time_ns().end())),
        outcome,
        samples: trust.samples,
        marked_samples: trust.marked,
        late_worst_ns: trust.worst_ns,
        trustworthy: trust.trustworthy,
        doubt: trust.doubt,
        changed_stacks: Vec::new(),
        handovers: followed.map_or(0, |seen| seen.handovers),
        paths: followed.map_or_else(Vec::new, |seen| seen.paths(blueprint)),
        unlisted_path_steps: followed.map_or(0, |seen| seen.unlisted_steps),
        path_rtt: followed.and_then(|seen| rtt_of(&seen.rtt_ns)),
        bound_rtt: followed.and_then(|seen| rtt_of(&seen.bound_rtt_ns)),
    }
}

fn kind(action: &Action) -> &'static str {
    match action {
        Action::Ping(_) => "ping",
        Action::Iperf3(iperf3) => match iperf3.transport {
            Transport::Tcp { .. } => "iperf3-tcp",
            Transport::Udp { .. } => "iperf3-udp",
        },
        Action::Http(_) => "http",
        Action::Transfer(transfer) => match transfer.over {
            TransferProtocol::Leotp(_) => "leotp",
            TransferProtocol::Tcp { .. } => "tcp",
            TransferProtocol::Vivace => "vivace",
        },
        Action::Run(_) => "run",
    }
}

/// Describes how a program ended, with its last output in this file, if there is any.
#[must_use]
pub fn exit_in_full(exit: Exit, err: &Path) -> String {
    let how = exit_words(exit);
    match output::last_words(err) {
        words if words.is_empty() => how,
        words => format!("{how}: {words}"),
    }
}

fn judge(job: &Job, ended: &Ended) -> (FlowStatus, Option<String>, Outcome) {
    let failed = |reason: String| (FlowStatus::Failed, Some(reason), Outcome::default());
    let by_rows = matches!(&job.flow.action, Action::Ping(ping) if ping.tool != PingTool::Ping);
    // The output of a user's command is not interpreted.
    let text = match &job.flow.action {
        Action::Run(_) => String::new(),
        // Probes are read row by row.
        _ if by_rows => String::new(),
        _ => match output::whole(&job.out) {
            Ok(text) => text,
            Err(error) => return failed(error.to_string()),
        },
    };
    let parsed: Result<Outcome, FlowError> = match &job.flow.action {
        Action::Ping(_) if by_rows => read_probe(output::lines(&job.out)),
        Action::Ping(_) => parse_ping(&text),
        Action::Iperf3(_) => parse_iperf3(&text),
        Action::Http(_) => parse_http(&text),
        Action::Transfer(_) if job.apart => parse_received(&text),
        Action::Transfer(_) => parse_transfer(&text, &output::end(&job.server_log())),
        Action::Run(_) => Ok(Outcome::default()),
    };
    match (ended, parsed) {
        (Ended::NotStarted(reason), _) => failed(reason.clone()),
        // The end of the process has priority over what its output contains.
        (Ended::Full { .. }, _) => failed(format!(
            "it was ended, since it wrote more than {} MiB",
            output::KEPT_BYTES >> 20
        )),
        (Ended::CutShort | Ended::Removed, parsed) => {
            let removed = "it was removed from the scenario while the lab ran";
            let reason = matches!(ended, Ended::Removed).then(|| removed.to_owned());
            let outcome = match &job.flow.action {
                Action::Ping(_) if by_rows => parsed.unwrap_or_default(),
                Action::Ping(_) => parse_ended_ping(&text),
                _ => Outcome::default(),
            };
            (FlowStatus::CutShort, reason, outcome)
        }
        (Ended::ByItself { exit, .. }, _)
            if matches!(job.flow.action, Action::Run(_)) && !exit.is_success() =>
        {
            failed(exit_in_full(*exit, &job.err))
        }
        // Probes are written one by one, so that those until an early end can be read.
        (Ended::ByItself { exit, .. }, Ok(outcome)) if by_rows && !exit.is_success() => {
            let reason = exit_in_full(*exit, &job.err);
            (FlowStatus::Failed, Some(reason), outcome)
        }
        (_, Ok(outcome)) => (FlowStatus::Ok, None, outcome),
        // The tool's own message says more than its exit code.
        (_, Err(error)) => {
            let words = output::last_words(&job.err);
            let words = if words.is_empty() {
                String::new()
            } else {
                format!("; its output: {words}")
            };
            failed(format!("{error}{words}"))
        }
    }
}
