//! A plan's contents: edges at an instant, the shortest path through them, and its delay. Worked out here from
//! what `constel plan` prints, not by the code under test.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::Path;

use serde_json::Value;

use super::{constel, json};

/// Speed of light in vacuum.
const METRES_PER_NS: f64 = 0.299_792_458;

/// A plan at an instant.
pub(crate) struct Sky {
    edges: BTreeMap<(String, String), i64>,
    ground: Vec<String>,
    positions: BTreeMap<String, [f64; 3]>,
}

impl Sky {
    /// `constel plan FILE --at T --json`.
    pub(crate) fn at(file: &Path, t_ns: i64) -> Sky {
        let at = format!("{t_ns}ns");
        let plan = json(&constel([
            "plan".as_ref(),
            file.as_os_str(),
            "--at".as_ref(),
            at.as_ref(),
            "--json".as_ref(),
        ]));
        let name = |value: &Value| value.as_str().unwrap().to_owned();
        let rows = |key: &str| plan[key].as_array().unwrap().clone();
        Sky {
            edges: rows("edges")
                .iter()
                .map(|edge| {
                    let ends = (name(&edge["from_node"]), name(&edge["to_node"]));
                    (ends, edge["delay_ns"].as_i64().unwrap())
                })
                .collect(),
            ground: rows("nodes")
                .iter()
                .filter(|node| node["kind"] == "ground")
                .map(|node| name(&node["name"]))
                .collect(),
            positions: rows("nodes")
                .iter()
                .map(|node| {
                    let axis = |n: usize| node["position_itrf_m"][n].as_f64().unwrap();
                    (name(&node["name"]), [axis(0), axis(1), axis(2)])
                })
                .collect(),
        }
    }

    /// The shortest path by delay, stations only at its ends (Dijkstra).
    pub(crate) fn path(&self, from: &str, to: &str) -> Vec<String> {
        let mut best: BTreeMap<&str, (i64, &str)> = BTreeMap::from([(from, (0, from))]);
        let mut open = BinaryHeap::from([Reverse((0, from))]);
        while let Some(Reverse((so_far, at))) = open.pop() {
            if so_far > best[at].0 || (at != from && self.ground.iter().any(|g| g == at)) {
                continue;
            }
            for ((_, next), delay) in self
                .edges
                .range((at.to_owned(), String::new())..)
                .take_while(|((start, _), _)| start == at)
            {
                let total = so_far + delay;
                if best.get(next.as_str()).is_none_or(|known| total < known.0) {
                    best.insert(next, (total, at));
                    open.push(Reverse((total, next)));
                }
            }
        }
        let mut path = vec![to.to_owned()];
        let mut at = to;
        while at != from {
            at = best
                .get(at)
                .unwrap_or_else(|| panic!("no path from {from} to {to}"))
                .1;
            path.push(at.to_owned());
        }
        path.reverse();
        path
    }

    /// Sum of the delays along a path; `None` when one of its edges is not there.
    pub(crate) fn delay_ns(&self, path: &[String]) -> Option<i64> {
        path.windows(2)
            .map(|hop| self.edges.get(&(hop[0].clone(), hop[1].clone())))
            .sum()
    }

    /// The delay by the distance between the ends of each hop, at the speed of light.
    pub(crate) fn light_ns(&self, path: &[String]) -> f64 {
        let distance = |hop: &[String]| {
            let (a, b) = (self.positions[&hop[0]], self.positions[&hop[1]]);
            (0..3).map(|n| (a[n] - b[n]).powi(2)).sum::<f64>().sqrt()
        };
        path.windows(2).map(distance).sum::<f64>() / METRES_PER_NS
    }
}
