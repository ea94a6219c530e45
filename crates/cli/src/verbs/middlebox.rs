//! `constel box`, and `constel run` of a scenario with `box`: a network between two interfaces.

mod change;
mod files;
mod show;
mod top;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use constel_api::summary::FlowRow;
use constel_control::{BoxFinished, BoxOptions, BoxSource, Lab};
use constel_scenario::model::{BoxForm, BoxRouter, BoxScenario};
use constel_units::TimeSpan;

use crate::args::{BoxVerb, Middlebox, Run};
use crate::exit::{Exit, Failure, Outcome};
use crate::{output, progress, signals};

pub(super) use files::checked;

pub(crate) fn run(args: Middlebox) -> Outcome {
    match args.verb {
        None => start(args),
        Some(BoxVerb::Show(args)) => show::run(&args),
        Some(BoxVerb::Top(args)) => top::run(&args),
        Some(BoxVerb::Export(args)) => files::export(&args),
        Some(BoxVerb::Add(args)) => change::add(&args),
        Some(BoxVerb::Edit(args)) => change::edit(&args),
        Some(BoxVerb::Move(args)) => change::reorder(&args),
        Some(BoxVerb::Remove(args)) => change::remove(&args),
        Some(BoxVerb::Replace(args)) => change::replace(&args),
        Some(BoxVerb::Confirm(args)) => {
            Lab::attach(&args.lab)?.confirm()?;
            Ok(Exit::Done)
        }
        Some(BoxVerb::Check(args)) => files::check(&args),
        Some(BoxVerb::Import(args)) => files::import(&args),
    }
}

/// Runs in the foreground until the box has ended.
fn start(args: Middlebox) -> Outcome {
    let form = form(&args)?;
    let against = form.refusals(&args.interfaces);
    if !against.is_empty() {
        return Err(Failure::Usage(against.join("\n")));
    }
    let options = BoxOptions {
        source: BoxSource::Interfaces(args.interfaces, form, args.rules),
        name: args.name,
        results: args.results,
        duration: args
            .duration
            .map(|span| longer("--for", span))
            .transpose()?,
        traffic: true,
        exclusive: args.exclusive,
        confirm_within: args
            .confirm_within
            .map(|span| longer("--confirm-within", span))
            .transpose()?,
        stop: Arc::new(AtomicBool::new(false)),
    };
    through(options, args.json)
}

/// Returns how the flags connect the interfaces.
fn form(args: &Middlebox) -> Result<BoxForm, Failure> {
    if args.hub {
        return Ok(BoxForm::Hub);
    }
    if args.address.is_empty() {
        return Ok(BoxForm::Pairs);
    }
    let usage =
        |flag: &str, text: &str, reason: &str| Failure::Usage(format!("{flag} {text}: {reason}"));
    let mut router = BoxRouter::default();
    for text in &args.address {
        let form = "INTERFACE=ADDRESS/LENGTH is expected, such as `eth1=10.0.1.254/24`";
        let (at, own) = text
            .split_once('=')
            .ok_or_else(|| usage("--address", text, form))?;
        let own = constel_scenario::address(own);
        let (address, length) = own.map_err(|reason| usage("--address", text, reason))?;
        router.addresses.push((at.to_owned(), address, length));
    }
    for text in &args.route {
        let form = "NETWORK=ADDRESS is expected, such as `10.0.9.0/24=10.0.1.9`";
        let (to, via) = text
            .split_once('=')
            .ok_or_else(|| usage("--route", text, form))?;
        let to = constel_scenario::network(to);
        let (to, length) = to.map_err(|reason| usage("--route", text, reason))?;
        let via = via.parse().map_err(|_| usage("--route", text, form))?;
        router.routes.push((to, length, via));
    }
    Ok(BoxForm::Router(router))
}

/// Runs the box of a scenario.
pub(super) fn of_scenario(args: &Run, scenario: BoxScenario) -> Outcome {
    let web = "`constel web NAME` shows a box while it runs";
    for (flag, given, instead) in [
        ("--web", args.web, web),
        (
            "--profile",
            args.profile.is_some(),
            "`constel box top NAME` and `rules.json` of the results have a box's counters",
        ),
        ("--anyway", args.anyway, "a box is not refused for its size"),
        (
            "--await-policy",
            args.await_policy,
            "a box has no stations, links and routes to decide",
        ),
        (
            "--ends-with",
            args.ends_with.is_some(),
            "`constel down NAME` stops a box",
        ),
        (
            "--machines",
            args.on.machines.is_some(),
            "a box runs on one machine",
        ),
    ] {
        if given {
            return Err(Failure::Usage(format!(
                "{flag} is for labs with nodes: {instead}"
            )));
        }
    }
    let options = BoxOptions {
        source: BoxSource::Scenario(Box::new(scenario), args.file.clone()),
        name: args.name.clone(),
        results: args.results.clone(),
        duration: args
            .duration
            .map(|span| longer("--for", span))
            .transpose()?,
        traffic: !args.no_traffic,
        exclusive: false,
        confirm_within: None,
        stop: Arc::new(AtomicBool::new(false)),
    };
    through(options, args.json)
}

fn through(options: BoxOptions, json: bool) -> Outcome {
    let stop = Arc::clone(&options.stop);
    // `constel down` also stops a box, but that is no interruption.
    let signalled = Arc::new(AtomicBool::new(false));
    signals::set(&[&stop, &signalled])?;
    let progress = progress::for_stderr();
    let finished = constel_control::run_box(options, progress.as_ref())?;
    let told = if json {
        output::json(&finished.summary)
    } else {
        output::text(&ended(&finished))
    };
    if signalled.load(Ordering::Acquire) {
        return Ok(Exit::Interrupted);
    }
    told?;
    if finished.unconfirmed {
        let text = "constel: the box was not confirmed in time: it was stopped, and the interfaces are as before\n";
        output::tell(text);
        return Err(Failure::Failed(anyhow::anyhow!("not confirmed")));
    }
    Ok(Exit::of_run(&finished.summary))
}

fn longer(flag: &str, span: TimeSpan) -> Result<Duration, Failure> {
    let ns = u64::try_from(span.ns()).ok().filter(|ns| *ns > 0);
    ns.map(Duration::from_nanos)
        .ok_or_else(|| Failure::Usage(format!("{flag} {span}: must be longer than nothing")))
}

fn flow_cells(flow: &FlowRow) -> Vec<String> {
    let took = flow.outcome.took_ns;
    let status = match &flow.reason {
        Some(reason) => format!("{}: {reason}", flow.status.as_str()),
        None => flow.status.as_str().to_owned(),
    };
    vec![
        flow.name.clone(),
        flow.from.clone(),
        took.map_or_else(|| "-".to_owned(), |ns| format!("{:.2} s", ns as f64 / 1e9)),
        status,
    ]
}

fn ended(finished: &BoxFinished) -> String {
    let summary = &finished.summary;
    let counters = &summary.relay.totals.counters;
    let mut text = format!(
        "box {}: {:.1} s, {} frames in, {} out, {} dropped by rules\n",
        summary.lab,
        summary.lab_time_ns as f64 / 1e9,
        counters.offered,
        counters.delivered,
        counters.dropped(),
    );
    let rows: Vec<Vec<String>> = summary.flows.iter().map(flow_cells).collect();
    if !rows.is_empty() {
        text.push_str(&output::table(
            &["COMMAND", "MACHINE", "TOOK", "STATUS"],
            &rows,
        ));
    }
    let lateness = summary.fidelity.lateness_p99_ns as f64;
    text.push_str(&format!("lateness p99 {}\n", output::ms(lateness)));
    text.push_str(&super::run::results_text(summary));
    text.push_str(&format!("results: {}\n", finished.results.display()));
    text
}
