//! Measures the relay and its baselines in one run.
//!
//!     cargo run --release -p constel-drivers --example relay_bench -- [--json] [--seconds N] [--rounds N]
//!         [--only accuracy|rate|handover|throughput|forwarding|hops|idle-hops|isolation|hostile|overload|tcp|square|update]
//!         [--load idle|busy] [--hops N] [--path NAME] [--rtt-ms N] [--controls reno,cubic,bbr] [--seed N] [--nice]
//!         [--lead-us N] [--threads N] [--stack-time deducted|added]
//!
//! Everything happens in namespaces created here. Delay, rate, isolation and updates are measured in rounds, each of
//! which goes through all cases. The median of the rounds is reported, with the least and the greatest value beside it,
//! so that a moment in which the machine stalled decides no case. `benches/README.md` has the results.

#[path = "../../tests/support/hostile.rs"]
mod hostile_node;
#[path = "../../tests/support/mod.rs"]
mod support;

mod accuracy;
mod common;
mod forwarding;
mod handover;
mod hops;
mod hostile;
mod idle_hops;
mod isolation;
mod overload;
mod rate;
mod redirect;
mod spread;
mod square;
mod tcp;
mod throughput;
mod transit;
mod update;
#[path = "../../tests/support/victim.rs"]
mod victim;
mod witness;

use constel_drivers::relay::Priority;

use common::Options;

fn main() {
    let mut options = Options {
        json: false,
        seconds: None,
        rounds: 5,
        only: None,
        load: None,
        hops: None,
        path: None,
        rtt_ms: None,
        controls: ["reno", "cubic", "bbr"].map(String::from).into(),
        seed: 1,
        priority: Priority::RealTime,
        lead_ns: 80_000,
        threads: 1,
        deduct_stacks: true,
    };
    let mut args = std::env::args().skip(1);
    let fail = |text: String| -> ! {
        eprintln!("relay_bench: {text}");
        std::process::exit(2);
    };
    while let Some(arg) = args.next() {
        let mut value = || {
            args.next()
                .unwrap_or_else(|| fail(format!("{arg} needs a value")))
        };
        match arg.as_str() {
            "--json" => options.json = true,
            "--seconds" => match value().parse() {
                Ok(seconds) if seconds > 0.0 => options.seconds = Some(seconds),
                _ => fail("--seconds needs a positive number".into()),
            },
            "--rounds" => match value().parse() {
                Ok(rounds @ 1..=100) => options.rounds = rounds,
                _ => fail("--rounds needs a number from 1 to 100".into()),
            },
            "--only" => options.only = Some(value()),
            "--load" => match value() {
                load if load == "idle" || load == "busy" => options.load = Some(load),
                _ => fail("--load needs idle or busy".into()),
            },
            "--rtt-ms" => match value().parse() {
                Ok(ms) => options.rtt_ms = Some(ms),
                Err(_) => fail("--rtt-ms needs a number".into()),
            },
            "--controls" => options.controls = value().split(',').map(String::from).collect(),
            "--seed" => match value().parse() {
                Ok(seed) => options.seed = seed,
                Err(_) => fail("--seed needs a number".into()),
            },
            "--hops" => match value().parse() {
                Ok(hops @ 1..=100) => options.hops = Some(hops),
                _ => fail("--hops needs a number from 1 to 100".into()),
            },
            "--threads" => match value().parse() {
                Ok(threads @ 1..=8) => options.threads = threads,
                _ => fail("--threads needs a number from 1 to 8".into()),
            },
            "--stack-time" => match value().as_str() {
                word @ ("deducted" | "added") => options.deduct_stacks = word == "deducted",
                _ => fail("--stack-time needs deducted or added".into()),
            },
            "--path" => options.path = Some(value()),
            "--nice" => options.priority = Priority::Nice,
            "--lead-us" => match value().parse::<u64>() {
                Ok(us) => options.lead_ns = us * 1000,
                Err(_) => fail("--lead-us needs a number".into()),
            },
            other => fail(format!("unknown argument {other}")),
        }
    }
    type Bench = fn(&Options) -> Vec<serde_json::Value>;
    let benches: [(&str, Bench); 13] = [
        ("accuracy", accuracy::accuracy),
        ("rate", rate::rate),
        ("handover", handover::handover),
        ("throughput", throughput::throughput),
        ("forwarding", forwarding::forwarding),
        ("hops", hops::hops),
        ("idle-hops", idle_hops::idle_hops),
        ("isolation", isolation::isolation),
        ("hostile", hostile::hostile),
        ("overload", overload::overload),
        ("tcp", tcp::tcp_truth),
        ("square", square::square),
        ("update", update::updates),
    ];
    if let Some(only) = &options.only
        && !benches.iter().any(|(name, _)| name == only)
    {
        fail(format!("--only {only}: there is no such bench"));
    }
    let _stamped = support::stamps_begin();
    let mut results = Vec::new();
    for (name, bench) in benches {
        if options.only.as_deref().is_none_or(|only| only == name) {
            results.extend(bench(&options));
        }
    }
    if options.json {
        println!("{}", serde_json::to_string_pretty(&results).unwrap());
    }
}
