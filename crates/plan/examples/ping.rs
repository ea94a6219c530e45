//! Pings between two nodes of a scenario over the edges of its plan, in virtual time: topology, routes and link model of a
//! lab, without its kernels and programs. Writes one CSV file for each seed, from that of the scenario on, with the rows of
//! answered pings: `received_unix_s,sequence,rtt_ms`.
//!
//! With a second folder, it also writes the rates of the first node's access at the beginning of each step, as a flow alone on
//! the link has them: `unix_s,down_mbps,up_mbps`.
//!
//! `cargo run --example ping -- SCENARIO FROM TO INTERVAL_MS SEEDS FOLDER [RATES]`, for example
//! `ping experiments/access/victoria.yaml dish pop 100 20 /tmp/pings`

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use constel_link::access::{Direction, Terminal};
use constel_link::{
    CheckedEffects, DropCause, EdgeChange, EdgeTable, EdgeUpdate, EffectsChange, Frames, PortId,
    mac_of,
};
use constel_plan::Lab;
use constel_routing::{Graph, GroundTransit, Routes};
use constel_scenario::{DiskFiles, parse, resolve};
use constel_topology::{NodeId, Snapshot, Stepper};

/// A ping on the wire: 56 bytes of data below ICMP, IPv4 and Ethernet.
const LEN_BYTES: u32 = 98;
/// Time after the last ping in which answers are still received, nanoseconds.
const PATIENCE_NS: u64 = 10_000_000_000;

/// A step: its edges, and the routes to both ends.
struct Step {
    t_ns: u64,
    update: EdgeUpdate,
    routes: Routes,
}

/// A ping, or its answer.
#[derive(Clone, Copy)]
struct Ping {
    sequence: usize,
    sent_ns: u64,
    answer: bool,
}

/// Pings need no buffers, and lost ones are those that never arrive.
struct Plain;

impl Frames<Ping> for Plain {
    fn duplicate(&mut self, frame: &Ping) -> Option<Ping> {
        Some(*frame)
    }
    fn discard(&mut self, _: Ping, _: DropCause) {}
    fn flip_bit(&mut self, _: &mut Ping, _: u64) {}
}

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, from, to, interval, seeds, folder, rates_folder @ ..] = &arguments[..] else {
        return Err("ping SCENARIO FROM TO INTERVAL_MS SEEDS FOLDER [RATES]".into());
    };
    let number = |text: &String| text.parse::<u64>().map_err(|e| format!("{text}: {e}"));
    let interval_ns = number(interval)?.max(1) * 1_000_000;
    let text = std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
    let parsed = parse(path, &text).map_err(|e| e.to_string())?;
    let scenario = resolve(&parsed, &DiskFiles::beside(path)).map_err(|e| e.to_string())?;
    let lab = Lab::new(scenario).map_err(|e| e.to_string())?;
    let node = |name: &String| {
        let found = lab.layout.find(name).map(|node| node.id);
        found.ok_or_else(|| format!("no node {name}"))
    };
    let ends = [node(from)?, node(to)?];
    let steps = steps(&lab, ends);
    let write = |folder: &String, seed: u64, csv: String| {
        let file = Path::new(folder).join(format!("{seed}.csv"));
        std::fs::write(&file, csv).map_err(|e| format!("{}: {e}", file.display()))
    };
    let first = lab.scenario.seed;
    for seed in first..first + number(seeds)? {
        write(folder, seed, pings(&lab, &steps, ends, interval_ns, seed)?)?;
        for folder in rates_folder {
            write(folder, seed, rates(&lab, &steps, ends[0], seed))?;
        }
    }
    Ok(())
}

/// Returns the rows of the rates of a terminal's access. Steps without a link to a satellite have none.
fn rates(lab: &Lab, steps: &[Step], node: NodeId, seed: u64) -> String {
    let mut rows = String::from("unix_s,down_mbps,up_mbps\n");
    let start_s = lab.scenario.start.unix_ns() as f64 / 1e9;
    for step in steps {
        let rate = |direction: Direction| {
            step.update.changes.iter().find_map(|change| {
                let EdgeChange::Set {
                    from,
                    to,
                    impairment,
                } = change
                else {
                    return None;
                };
                let port = match direction {
                    Direction::Up => from,
                    Direction::Down => to,
                };
                let profile = usize::from(impairment.profile).checked_sub(1)?;
                let access = lab.profiles.get(profile)?.access.as_ref()?;
                let place = access.terminals.iter().find(|row| row.0 == *port)?;
                if lab.layout.port(*port).node != node {
                    return None;
                }
                let terminal = Terminal::new(seed, port.0).at(access.minute_ns, place.1);
                let (share, _) = access.parts.share(&terminal, direction, step.t_ns)?;
                Some(impairment.rate_bps?.get() as f64 * share / 1e6)
            })
        };
        if let (Some(down), Some(up)) = (rate(Direction::Down), rate(Direction::Up)) {
            let unix_s = start_s + step.t_ns as f64 / 1e9;
            // Writing to a String cannot fail.
            let _ = writeln!(rows, "{unix_s:.3},{down:.3},{up:.3}");
        }
    }
    rows
}

/// Plans all steps once: they do not depend on the seed of the links.
fn steps(lab: &Lab, ends: [NodeId; 2]) -> Vec<Step> {
    let step_ns = lab.scenario.step.ns().unsigned_abs();
    let duration_ns = lab.scenario.duration.ns().unsigned_abs();
    let count = duration_ns.div_ceil(step_ns);
    let mut stepper = Stepper::new(Arc::clone(&lab.layout), Arc::clone(&lab.sky));
    let mut before = BTreeSet::new();
    let steps = (0..count).map(|_| {
        let snapshot = stepper.advance();
        let graph = Graph::new(&lab.layout, &snapshot, GroundTransit::Never);
        let (update, now) = changes(&snapshot, &before);
        before = now;
        Step {
            t_ns: snapshot.t_ns,
            update,
            routes: Routes::compute(&graph, &ends),
        }
    });
    steps.collect()
}

type Edges = BTreeSet<(PortId, PortId)>;

fn changes(snapshot: &Snapshot, before: &Edges) -> (EdgeUpdate, Edges) {
    let now: Edges = snapshot.edges.iter().map(|e| (e.from, e.to)).collect();
    let gone = before.difference(&now);
    let gone = gone.map(|&(from, to)| EdgeChange::Remove { from, to });
    let set = snapshot.edges.iter().map(|edge| EdgeChange::Set {
        from: edge.from,
        to: edge.to,
        impairment: edge.impairment,
    });
    let changes = gone.chain(set).collect();
    (EdgeUpdate { changes }, now)
}

/// Runs all pings and returns the rows of those that were answered.
fn pings(
    lab: &Lab,
    steps: &[Step],
    ends: [NodeId; 2],
    interval_ns: u64,
    seed: u64,
) -> Result<String, String> {
    let ports = u32::try_from(lab.layout.ports().len()).map_err(|e| e.to_string())?;
    let mut table: EdgeTable<Ping> = EdgeTable::new(ports, seed);
    let profiles = (1..).zip(lab.profiles.iter());
    let profiles = profiles.map(|(number, effects)| EffectsChange::Profile {
        number,
        effects: Some(effects.clone()),
    });
    let profiles = CheckedEffects::new(profiles.collect(), ports).map_err(|e| e.to_string())?;
    let made = table.apply_effects(0, &profiles, &mut Plain);
    made.map_err(|e| e.to_string())?;
    let end_ns = steps.last().map_or(0, |step| step.t_ns);
    let (mut coming, mut sequence, mut routes) = (steps.iter().peekable(), 0, None);
    let mut rows = String::from("received_unix_s,sequence,rtt_ms\n");
    let start_s = lab.scenario.start.unix_ns() as f64 / 1e9;
    loop {
        // At one instant a step comes first, then frames that arrive, then the next ping.
        let step_ns = coming.peek().map_or(u64::MAX, |step| step.t_ns);
        let sent_ns = sequence as u64 * interval_ns;
        let sent_ns = if sent_ns < end_ns { sent_ns } else { u64::MAX };
        let due_ns = table.next_event().unwrap_or(u64::MAX);
        let now = step_ns.min(sent_ns).min(due_ns);
        if now > end_ns + PATIENCE_NS {
            return Ok(rows);
        }
        if now == step_ns {
            let Some(step) = coming.next() else { continue };
            let update = step
                .update
                .clone()
                .check(ports)
                .map_err(|e| e.to_string())?;
            let applied = table.apply(now, &update, &mut Plain);
            applied.map_err(|e| e.to_string())?;
            routes = Some(&step.routes);
            continue;
        }
        let (ping, at, here) = if now == due_ns {
            // An event may be the end of a service, after which no frame comes out.
            let Some(delivery) = table.pop_due(now, &mut Plain) else {
                continue;
            };
            (
                delivery.frame,
                delivery.due_ns,
                lab.layout.port(delivery.to).node,
            )
        } else {
            sequence += 1;
            let ping = Ping {
                sequence,
                sent_ns,
                answer: false,
            };
            (ping, sent_ns, ends[0])
        };
        let mut ping = ping;
        if ping.answer && here == ends[0] {
            let received_s = start_s + at as f64 / 1e9;
            let rtt_ms = (at - ping.sent_ns) as f64 / 1e6;
            // Writing to a String cannot fail.
            let _ = writeln!(rows, "{received_s:.6},{},{rtt_ms:.3}", ping.sequence);
            continue;
        }
        ping.answer |= here == ends[1];
        let goal = ends[usize::from(!ping.answer)];
        if let Some(hop) = routes.and_then(|routes| routes.next_hop(here, goal)) {
            table.arrive(
                at,
                hop.port,
                mac_of(hop.far_port),
                LEN_BYTES,
                ping,
                &mut Plain,
            );
        }
    }
}
