//! Measures the cost of planning the steps of a scenario, part by part, without a lab. In the same run it measures
//! the cost of computing the routes of every tenth step from scratch. Prints one line of JSON.
//!
//! `cargo build --release --example step_cost && target/release/examples/step_cost scenarios/starlink-gen2.yaml 60`

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;
use std::time::Instant;

use constel_plan::{Blueprint, FailedEdges, Lab, Planner, destinations};
use constel_routing::{Graph, GroundTransit, Routes};
use constel_scenario::model::Mode;
use constel_scenario::{DiskFiles, parse, resolve};

/// Returns the processor time that the process has used, milliseconds.
fn processor_ms() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The fields after the process name, which may contain anything; user and system time are the 12th and 13th
    // from there, in hundredths of a second.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks.filter_map(|t| t.parse::<f64>().ok()).sum::<f64>() * 10.0
}

/// The times of one part of a step, milliseconds.
#[derive(Default)]
struct Times(Vec<f64>);

impl Times {
    fn add(&mut self, since: Instant) {
        self.0.push(since.elapsed().as_secs_f64() * 1e3);
    }

    fn last(&self) -> f64 {
        self.0.last().copied().unwrap_or(0.0)
    }

    fn quantiles(&mut self) -> String {
        self.0.sort_by(f64::total_cmp);
        let at = |q: f64| self.0[((self.0.len() - 1) as f64 * q).round() as usize];
        format!(
            "{{\"p50\": {:.2}, \"p99\": {:.2}, \"most\": {:.2}}}",
            at(0.5),
            at(0.99),
            at(1.0)
        )
    }
}

fn main() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1);
    let usage = "step_cost SCENARIO STEPS";
    let path = arguments.next().ok_or(usage)?;
    let steps: usize = arguments
        .next()
        .and_then(|n| n.parse().ok())
        .filter(|n| *n > 0)
        .ok_or(usage)?;
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    let parsed = parse(&path, &text).map_err(|e| e.to_string())?;
    let scenario = resolve(&parsed, &DiskFiles::beside(&path)).map_err(|e| e.to_string())?;
    let lab = Lab::new(scenario).map_err(|e| e.to_string())?;
    let nodes = lab.layout.nodes().len();
    let Mode::Computed(computed) = &lab.scenario.routing.mode else {
        return Err(format!("{path}: its routes are not computed"));
    };
    let goals = destinations(&lab.layout, computed);
    let layout = Arc::clone(&lab.layout);
    let blueprint = Blueprint::new(lab).map_err(|e| e.to_string())?;
    let mut planner = Planner::new(Arc::new(blueprint));
    let failed = FailedEdges::default();

    let began = Instant::now();
    let first = planner.first(&failed);
    planner.installed(first, &failed);
    let first_ms = began.elapsed().as_secs_f64() * 1e3;

    let [mut edges, mut routes, mut kept, mut whole, mut scratch] =
        [(); 5].map(|()| Times::default());
    let (mut changed_edges, mut changed_routes) = (0, 0);
    // A hash of all plans: a faster version must still plan the same.
    let mut plans = DefaultHasher::new();
    let mut taken_ms = 0.0;
    for n in 0..steps {
        let before_ms = processor_ms();
        let stepping = Instant::now();
        let mut step = planner.advance();
        edges.add(stepping);
        let routing = Instant::now();
        planner.route(&mut step, &failed);
        routes.add(routing);
        changed_edges += step.plan.edges.len() + step.plan.gliding.len();
        changed_routes += step.route_changes().unwrap_or(0);
        let (plan, snapshot) = (step.plan.clone(), Arc::clone(&step.snapshot));
        let keeping = Instant::now();
        planner.installed(step, &failed);
        kept.add(keeping);
        let planned = edges.last() + routes.last() + kept.last();
        whole.0.push(planned);
        taken_ms += processor_ms() - before_ms;
        if n % 10 == 0 {
            let plainly = Instant::now();
            let graph = Graph::new(&layout, &snapshot, GroundTransit::Never);
            std::hint::black_box(Routes::compute(&graph, &goals));
            scratch.add(plainly);
        }
        plans.write(&serde_json::to_vec(&plan).map_err(|e| e.to_string())?);
    }
    println!(
        "{{\"scenario\": \"{path}\", \"nodes\": {nodes}, \"steps\": {steps}, \"first_ms\": {first_ms:.1}, \
         \"edges_ms\": {}, \"routes_ms\": {}, \"kept_ms\": {}, \"whole_ms\": {}, \
         \"processor_ms\": {:.1}, \"routes_from_scratch_ms\": {}, \
         \"changed_edges\": {:.1}, \"changed_routes\": {:.1}, \"plans\": \"{:016x}\"}}",
        edges.quantiles(),
        routes.quantiles(),
        kept.quantiles(),
        whole.quantiles(),
        taken_ms / steps as f64,
        scratch.quantiles(),
        changed_edges as f64 / steps as f64,
        changed_routes as f64 / steps as f64,
        plans.finish(),
    );
    Ok(())
}
