//! Time that a lone frame takes over many hops beyond the links' delays: with the time of nodes' stacks added to the
//! links or deducted from them, without stacks, and over bare veth pairs, whose links have no delay.

use constel_link::Quantiles;
use serde_json::{Value, json};

use crate::common::*;
use crate::spread::{Errors, in_rounds};

/// Frames a second: each finds the path idle.
const FPS: u64 = 200;
const BYTES: usize = 106;

/// Kind of nodes on the path.
#[derive(Clone, Copy)]
struct Case {
    hops: usize,
    name: &'static str,
    path: Path,
    deducted: bool,
}

const LINKS: Path = Path::Relay {
    delay_ns: MS,
    gso: false,
    gro: true,
};

const ARMS: [(&str, Path, bool); 4] = [
    ("veth", Path::Veth { gso: false }, false),
    ("stacks, added", LINKS, false),
    ("stacks, deducted", LINKS, true),
    (
        "forward",
        Path::Forward {
            delay_ns: MS,
            gso: false,
            gro: true,
        },
        true,
    ),
];

pub(crate) fn idle_hops(options: &Options) -> Vec<Value> {
    say(
        options,
        &format!(
            "\nOne way over idle links of 1 ms beyond their delays, {} rounds in turn, us",
            options.rounds
        ),
    );
    let counts = options.hops.map_or(vec![1, 5, 20], |hops| vec![hops]);
    let cases: Vec<Case> = counts
        .into_iter()
        .flat_map(|hops| {
            ARMS.map(|(name, path, deducted)| Case {
                hops,
                name,
                path,
                deducted,
            })
        })
        .filter(|case| options.takes(case.name))
        .collect();
    let measured = in_rounds(options.rounds, &cases, |case| one(options, case));
    let rows = cases.iter().zip(&measured).map(|(case, rounds)| {
        let beyond: Vec<Quantiles> = rounds.iter().map(|round| round.0).collect();
        let beyond = Errors::of(&beyond);
        let (lost, early) = rounds
            .iter()
            .fold((0, 0), |sum, r| (sum.0 + r.1, sum.1 + r.2));
        say(
            options,
            &format!(
                "{:>3} {:>17} | p50 {:>22} p99 {:>24} | lost {lost} early {early}",
                case.hops,
                case.name,
                beyond.p50_ns.in_us(),
                beyond.p99_ns.in_us(),
            ),
        );
        json!({
            "what": "idle-hops", "hops": case.hops, "by": case.name, "rounds": rounds.len(),
            "beyond": beyond, "lost": lost, "early": early,
        })
    });
    rows.collect()
}

/// Time beyond the links' delays; lost frames, and early frames.
fn one(options: &Options, case: &Case) -> (Quantiles, u64, u64) {
    let options = &Options {
        deduct_stacks: case.deducted,
        ..options.clone()
    };
    let row = Row::of(options, case.hops, case.path).unwrap();
    let delay_ns = case.path.delay_ns() * case.hops as u64;
    let sockets = row.sockets();
    let flow = flow(&sockets, BYTES, FPS, options.seconds_or(SHORT_S), delay_ns);
    (
        flow.errors.quantiles(),
        flow.sent - flow.received,
        flow.early,
    )
}
