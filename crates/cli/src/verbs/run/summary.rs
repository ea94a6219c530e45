//! The text of a run's summary.

use constel_api::summary::{
    ChangeRow, DisjointRow, FlowRow, HandoverRow, MachineRow, StackRow, Summary,
};

use crate::output;

/// Formats the whole summary, with a table for each kind of row that exists.
pub(crate) fn summary_text(summary: &Summary) -> String {
    let (size, times) = (&summary.size, &summary.times);
    let mut text = format!(
        "\n{}: {} nodes, {} interfaces, {} edges; up in {:.1} s, down in {:.1} s, {} of lab time\n",
        summary.lab,
        size.nodes,
        size.ports,
        size.edges,
        times.bring_up_s,
        times.take_down_s,
        seconds(Some(summary.lab_time_ns)),
    );
    text.push_str(&routing(summary));
    let machines: Vec<Vec<String>> = summary.machines.iter().map(machine_cells).collect();
    text.push_str(&section(
        &["MACHINE", "NODES", "VERDICT", "ENDED"],
        &machines,
    ));
    let handovers: Vec<Vec<String>> = summary.handovers.iter().map(handover_cells).collect();
    let head = [
        "HANDOVER",
        "STATION",
        "FROM",
        "TO",
        "ROUTES CONVERGED AFTER",
    ];
    text.push_str(&section(&head, &handovers));
    text.push_str(&further(summary.further_handovers));
    let changes: Vec<Vec<String>> = summary.changes.iter().map(change_cells).collect();
    let head = [
        "CHANGE",
        "KIND",
        "CAUSE",
        "OBJECT",
        "ROUTES CONVERGED AFTER",
        "LOST",
    ];
    text.push_str(&section(&head, &changes));
    text.push_str(&further(summary.further_changes));
    let stacks: Vec<Vec<String>> = summary.stacks.iter().map(stack_cells).collect();
    let head = [
        "OWN STACK",
        "FIRST",
        "TIMES",
        "FOR",
        "CHANGED",
        "AT THE END",
    ];
    text.push_str(&section(&head, &stacks));
    let flows: Vec<Vec<String>> = summary.flows.iter().map(flow_cells).collect();
    let head = [
        "FLOW",
        "KIND",
        "RTT MIN/P50/MAX",
        "LOWER BOUND",
        "RATE",
        "LOSS",
        "HOPS",
        "HANDOVERS",
        "LATE SAMPLES",
        "STATUS",
    ];
    text.push_str(&section(&head, &flows));
    let ways = summary
        .flows
        .iter()
        .filter(|flow| flow.outcome.owd.is_some());
    let ways: Vec<Vec<String>> = ways.map(way_cells).collect();
    let head = [
        "ONE WAY",
        "MIN/P50/P95/MAX",
        "REVERSE",
        "SENT",
        "RECEIVED",
        "CPU CLIENT/SERVER",
    ];
    text.push_str(&section(&head, &ways));
    text.push_str(&fidelity(summary));
    text
}

/// Returns the line below a table that does not have all rows.
fn further(rows: u64) -> String {
    match rows {
        0 => String::new(),
        rows => format!("and {rows} more, in events.ndjson\n"),
    }
}

/// Formats a table below an empty line; empty without rows.
fn section(head: &[&str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        String::new()
    } else {
        format!("\n{}", output::table(head, rows))
    }
}

/// Formats the routing: its mode, the time of convergence, and the share of correct samples.
fn routing(summary: &Summary) -> String {
    let mut text = String::new();
    if let Some(first_s) = summary.convergence.first_s {
        text.push_str(&format!(
            "routes converged {first_s:.1} s after the edges were up\n"
        ));
    }
    if let Some(routing) = &summary.routing {
        text.push_str(&format!("routing: {routing}\n"));
    }
    if let Some(converged) = &summary.converged {
        text.push_str(&format!(
            "routes in lab time: {:.3} % correct, {:.3} % at the worst moment; all {} nodes had correct routes in \
             {} of {} samples\n",
            100.0 * converged.mean_right_ratio,
            100.0 * converged.least_right_ratio,
            converged.nodes,
            converged.complete,
            converged.samples
        ));
    }
    text.extend(summary.disjoint.iter().map(disjoint));
    text
}

/// Formats a pair's disjoint paths in a line each, and the steps with fewer.
fn disjoint(pair: &DisjointRow) -> String {
    let counts = &pair.steps_by_paths[..];
    let fewer = &counts[..counts.len().saturating_sub(1)];
    let [a, b] = &pair.between;
    let mut text = format!(
        "disjoint paths {}, {a} to {b}: {} of {} steps had fewer than {}\n",
        pair.name,
        fewer.iter().sum::<usize>(),
        counts.iter().sum::<usize>(),
        fewer.len(),
    );
    for (number, path) in (1..).zip(&pair.paths) {
        let delay = path.delay_ns.as_ref();
        text.push_str(&format!(
            "  path {number}: one-way delay {} to {}, changed in {} steps\n",
            output::or_dash(delay.map(|delay| output::ms(delay.min))),
            output::or_dash(delay.map(|delay| output::ms(delay.max))),
            path.changes
        ));
    }
    text
}

/// Formats whether the emulator kept up.
fn fidelity(summary: &Summary) -> String {
    let fidelity = &summary.fidelity;
    let mut text = format!(
        "\nlink plane: {} frames, lateness p99 {} ({}) max {}\n",
        fidelity.frames_released,
        output::ms(fidelity.lateness_p99_ns as f64),
        summary.bounds.lateness_in_words(),
        output::ms(fidelity.lateness_max_ns as f64),
    );
    let machine = &fidelity.machine;
    if machine.stalls > 0 {
        text.push_str(&format!(
            "this machine kept the link plane from running {} times, {} in all, longest {}\n",
            machine.stalls,
            output::ms(machine.stalled_ns as f64),
            output::ms(machine.longest_stall_ns as f64),
        ));
    }
    if let Some(slowness) = machine.slowness_in_words() {
        text.push_str(&format!("{slowness}\n"));
    }
    text + &results(summary)
}

/// Formats the two results of a run: its software, and whether its figures are trustworthy.
pub(crate) fn results(summary: &Summary) -> String {
    let mut text = String::new();
    let mut list = |head: &str, reasons: &mut dyn Iterator<Item = &String>| {
        text.push_str(&format!("{head}\n"));
        reasons.for_each(|reason| text.push_str(&format!("  - {reason}\n")));
    };
    let software = &summary.software;
    if software.failed {
        let mut reasons = software.failures.iter().map(|failure| &failure.reason);
        list("software: FAILED", &mut reasons);
    }
    let verdict = &summary.verdict;
    let head = match verdict.trustworthy {
        true => "verdict: trustworthy",
        false => "verdict: NOT trustworthy",
    };
    list(head, &mut verdict.reasons.iter());
    text
}

fn seconds(ns: Option<u64>) -> String {
    output::or_dash(ns.map(|ns| format!("{:.1} s", ns as f64 / 1e9)))
}

fn machine_cells(row: &MachineRow) -> Vec<String> {
    let figures = row.trustworthy.map(|good| match good {
        true => "trustworthy",
        false => "NOT trustworthy",
    });
    vec![
        row.machine.clone(),
        row.nodes.to_string(),
        output::or_dash(figures),
        output::or_dash(row.failure.as_ref()),
    ]
}

fn handover_cells(row: &HandoverRow) -> Vec<String> {
    vec![
        seconds(Some(row.t_ns)),
        row.station.clone(),
        output::or_dash(row.from.as_ref()),
        output::or_dash(row.to.as_ref()),
        seconds(row.converged_after_ns),
    ]
}

fn change_cells(row: &ChangeRow) -> Vec<String> {
    let first = output::or_dash(row.objects.first());
    let what = match row.objects.len() {
        0 | 1 => first,
        n => format!("{first} and {} more", n - 1),
    };
    vec![
        seconds(Some(row.t_ns)),
        row.kind.as_str().to_owned(),
        row.cause.clone(),
        what,
        seconds(row.converged_after_ns),
        output::or_dash(row.lost_probes),
    ]
}

/// Formats the changes that programs of a node made to the node's own stack.
fn stack_cells(row: &StackRow) -> Vec<String> {
    let first = output::or_dash(row.changed.first());
    let what = match row.changed.len() {
        0 | 1 => first,
        n => format!("{first} and {} more", n - 1),
    };
    let end = match (row.left.first(), row.restored) {
        (None, _) => "as it was made".to_owned(),
        (Some(left), true) => left.clone(),
        (Some(left), false) => format!("{left} (restore: false)"),
    };
    vec![
        row.node.clone(),
        format!("{:.1} s", row.first_ns as f64 / 1e9),
        row.times.to_string(),
        seconds(Some(row.changed_ns)),
        what,
        end,
    ]
}

/// Formats one-way delays, and the overhead of a transfer.
fn way_cells(flow: &FlowRow) -> Vec<String> {
    let outcome = &flow.outcome;
    let ms = |ns: u64| format!("{:.3}", ns as f64 / 1e6);
    let delays = |owd: constel_measure::flows::Owd| {
        let [min, p50, p95, max] = [owd.min_ns, owd.p50_ns, owd.p95_ns, owd.max_ns].map(ms);
        format!("{min}/{p50}/{p95}/{max} ms")
    };
    let cpu = outcome.client_cpu_s.zip(outcome.server_cpu_s);
    vec![
        flow.name.clone(),
        output::or_dash(outcome.owd.map(delays)),
        output::or_dash(outcome.owd_back.map(delays)),
        output::or_dash(outcome.sent_bytes.map(output::size)),
        output::or_dash(outcome.received_bytes.map(output::size)),
        output::or_dash(cpu.map(|(client, server)| format!("{client:.2}/{server:.2} s"))),
    ]
}

/// Returns the decimals of a flow's round-trip times in milliseconds, as its tool measures them. Probes measure microseconds.
fn decimals(flow: &FlowRow) -> usize {
    match (flow.outcome.rtt_resolution_ns, flow.outcome.owd_back) {
        (None, Some(_)) => 3,
        (None, None) => 1,
        (Some(1_000_000..), _) => 0,
        (Some(100_000..), _) => 1,
        (Some(10_000..), _) => 2,
        (Some(_), _) => 3,
    }
}

fn flow_cells(flow: &FlowRow) -> Vec<String> {
    let outcome = &flow.outcome;
    let decimals = decimals(flow);
    let ms = |ns: u64| format!("{:.decimals$}", ns as f64 / 1e6);
    let rtt = outcome.rtt.map(|rtt| {
        let [min, p50, max] = [rtt.min_ns, rtt.p50_ns, rtt.max_ns].map(ms);
        let steps = outcome.rtt_resolution_ns;
        let steps = steps.map(|ns| format!(" (in steps of {})", output::ms(ns as f64)));
        format!("{min}/{p50}/{max} ms{}", steps.unwrap_or_default())
    });
    let bound = flow.bound_rtt.map(|rtt| format!("{} ms", ms(rtt.min_ns)));
    let hops = flow.paths.iter().map(|path| path.len().saturating_sub(1));
    let hops: Vec<String> = hops.map(|hops| hops.to_string()).collect();
    let status = match &flow.reason {
        Some(reason) => format!("{}: {reason}", flow.status.as_str()),
        None => flow.status.as_str().to_owned(),
    };
    vec![
        flow.name.clone(),
        flow.kind.clone(),
        output::or_dash(rtt),
        output::or_dash(bound),
        output::or_dash(outcome.throughput_bps.map(output::rate)),
        output::or_dash(
            outcome
                .loss_ratio
                .map(|loss| format!("{:.2} %", loss * 100.0)),
        ),
        if hops.is_empty() {
            "-".to_owned()
        } else {
            hops.join(",")
        },
        flow.handovers.to_string(),
        if flow.trustworthy.is_some() && flow.samples > 0 {
            format!("{}/{}", flow.marked_samples, flow.samples)
        } else {
            "-".to_owned()
        },
        {
            let changed = flow.changed_stacks.first();
            let changed = changed.map(|node| format!(", {node} changed its own stack"));
            let doubt = (flow.trustworthy == Some(false)).then_some(", affected");
            format!(
                "{status}{}{}",
                doubt.unwrap_or_default(),
                changed.unwrap_or_default()
            )
        },
    ]
}
