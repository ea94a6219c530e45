//! Scenarios and plans.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use constel_analysis::{
    ContactPlan, Coverage, Interval, LANES, Paths, Positions, Series, candidates, parse_pairs,
};
use constel_plan::{Document, Lab, PlanError};
use constel_scenario::{Diagnostics, DiskFiles, Files, Setting, set};
use constel_topology::NodeId;
use constel_units::TimeSpan;
use pyo3::prelude::*;

use crate::failure::{invalid, unreadable, usage};
use crate::table::{Column, Table};

/// A scenario, laid out.
#[pyclass(frozen, module = "constel._native")]
pub(crate) struct Scenario {
    lab: Lab,
    text: String,
}

/// Beginning, end and spacing of an interval, as texts with units; the whole of the scenario's time, and its step, unless given.
type Span = (Option<String>, Option<String>, Option<String>);

#[pymethods]
impl Scenario {
    /// Reads a file; others that it names are looked for beside it.
    #[staticmethod]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "arguments come from Python by value"
    )]
    fn load(py: Python<'_>, file: PathBuf) -> PyResult<Self> {
        let shown = file.display().to_string();
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let bytes = DiskFiles::beside(&file).read(&name);
        let bytes = bytes.map_err(|error| unreadable(&shown, error))?;
        let lab = py.detach(|| laid_out(&shown, &bytes, &file));
        Ok(Self {
            lab: lab.map_err(|found| invalid(&found))?,
            text: String::from_utf8_lossy(&bytes).into_owned(),
        })
    }

    /// Reads a text with values changed first (`KEY=VALUE`); other files are looked for in `folder`.
    #[staticmethod]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "arguments come from Python by value"
    )]
    fn of_text(
        py: Python<'_>,
        shown: &str,
        text: &str,
        folder: PathBuf,
        settings: Vec<String>,
    ) -> PyResult<Self> {
        let settings = read(&settings)?;
        let text = if settings.is_empty() {
            text.to_owned()
        } else {
            set(shown, text, &settings).map_err(|found| invalid(&found))?
        };
        let beside = folder.join("scenario.yaml");
        let lab = py.detach(|| laid_out(shown, text.as_bytes(), &beside));
        Ok(Self {
            lab: lab.map_err(|found| invalid(&found))?,
            text,
        })
    }

    /// The text, with what was set.
    #[getter]
    fn text(&self) -> &str {
        &self.text
    }

    #[getter]
    fn name(&self) -> String {
        self.lab.scenario.name.to_string()
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.lab.scenario.seed
    }

    #[getter]
    fn start(&self) -> String {
        self.lab.scenario.start.to_string()
    }

    #[getter]
    fn duration_ns(&self) -> i64 {
        self.lab.scenario.duration.ns()
    }

    #[getter]
    fn step_ns(&self) -> i64 {
        self.lab.scenario.step.ns()
    }

    /// Names of nodes, in their order.
    #[getter]
    fn nodes(&self) -> Vec<String> {
        let nodes = self.lab.layout.nodes().iter();
        nodes.map(|node| node.name.clone()).collect()
    }

    /// The plan of an instant.
    fn plan(&self, py: Python<'_>, at: &str) -> PyResult<Plan> {
        let at = span(at)?;
        let document = py.detach(|| Document::at(&self.lab, at)).map_err(usage)?;
        Ok(Plan(document))
    }

    /// `t_s, node, x_m, y_m, z_m` (ITRF); no position for a satellite whose orbit has none then.
    fn positions(&self, py: Python<'_>, over: Span) -> PyResult<Table> {
        let (lab, interval) = (&self.lab, self.interval(over)?);
        let found =
            py.detach(|| Positions::new(lab, interval, threads()).map(|p| positions(lab, &p)));
        found.map_err(usage)
    }

    /// `t_s, from_node, from_port, to_node, to_port, kind, delay_ns, rate_bps, loss_ratio`, the edges of every sample.
    fn edges(&self, py: Python<'_>, over: Span) -> PyResult<Table> {
        let (lab, interval) = (&self.lab, self.interval(over)?);
        py.detach(|| edges(lab, interval)).map_err(usage)
    }

    /// `from_s, to_s, kind, a_node, a_port, b_node, b_port, range_min_m, range_max_m, delay_min_ns, delay_max_ns`.
    fn contacts(&self, py: Python<'_>, over: Span) -> PyResult<Table> {
        let (lab, interval) = (&self.lab, self.interval(over)?);
        Ok(py.detach(|| contacts(lab, interval)))
    }

    /// `t_s, a_node, b_node, delay_ns, hops, changed` of the least-delay paths; and a row of figures for each pair.
    fn pairs(&self, py: Python<'_>, pairs: &str, over: Span) -> PyResult<(Table, Table)> {
        let (lab, interval) = (&self.lab, self.interval(over)?);
        let asked = parse_pairs(lab, pairs).map_err(usage)?;
        let made = py.detach(|| {
            let series = Series::new(lab, interval, asked, true, threads())?;
            Ok::<_, constel_analysis::SeriesError>((points(lab, &series), summaries(lab, &series)))
        });
        made.map_err(usage)
    }

    /// `t_s, a_node, b_node, delay_ns, hops, nodes` of the least-delay paths, `nodes` with blanks between.
    fn paths(&self, py: Python<'_>, pairs: &str, over: Span) -> PyResult<Table> {
        let (lab, interval) = (&self.lab, self.interval(over)?);
        let asked = parse_pairs(lab, pairs).map_err(usage)?;
        Ok(py.detach(|| Walks::new(lab, interval, &asked).table(lab)))
    }

    /// `t_s, station, satellite, range_m, elevation_deg, remaining_s` of what stations could use.
    fn candidates(&self, py: Python<'_>, over: Span) -> PyResult<Table> {
        let (lab, interval) = (&self.lab, self.interval(over)?);
        let found = py.detach(|| candidates(lab, interval));
        let rows = found.map_err(usage)?;
        let name = |id| lab.layout.node(id).name.as_str();
        Ok(Table::new(vec![
            Column::full(
                "t_s",
                rows.iter().map(|row| seconds(interval.at(row.sample))),
            ),
            Column::full("station", rows.iter().map(|row| name(row.station))),
            Column::full(
                "satellite",
                rows.iter().map(|row| name(row.candidate.satellite)),
            ),
            Column::full("range_m", rows.iter().map(|row| row.candidate.range_m)),
            Column::full(
                "elevation_deg",
                rows.iter().map(|row| row.candidate.elevation_deg()),
            ),
            Column::full(
                "remaining_s",
                rows.iter().map(|row| row.candidate.remaining_s),
            ),
        ]))
    }

    /// Coverage of stations and of flows.
    fn coverage(&self, py: Python<'_>, over: Span) -> PyResult<(Table, Table)> {
        let (lab, interval) = (&self.lab, self.interval(over)?);
        Ok(py.detach(|| {
            let found = Coverage::new(lab, interval, true, threads());
            (stations(&found), flows(&found))
        }))
    }
}

impl Scenario {
    fn interval(&self, over: Span) -> PyResult<Interval> {
        let lab = &self.lab;
        let given = |text: Option<String>| text.as_deref().map(span).transpose();
        let (from, to, every) = (given(over.0)?, given(over.1)?, given(over.2)?);
        let from = from.unwrap_or(TimeSpan::from_ns(0));
        let to = to.unwrap_or(lab.scenario.duration);
        Interval::new(lab, from, to, every).map_err(usage)
    }
}

/// A plan of an instant.
#[pyclass(frozen, module = "constel._native")]
pub(crate) struct Plan(Document);

#[pymethods]
impl Plan {
    /// The output of `constel plan --json`, byte for byte.
    #[getter]
    fn json(&self) -> PyResult<String> {
        printed(&self.0)
    }

    /// `node, kind, x_m, y_m, z_m, catalogue_name, norad_id`.
    fn nodes(&self) -> Table {
        let nodes = &self.0.nodes;
        let axis = |axis: usize| {
            let places = nodes
                .iter()
                .map(move |node| node.position_itrf_m.map(|m| m[axis]));
            Column::partly(["x_m", "y_m", "z_m"][axis], places)
        };
        let called = nodes
            .iter()
            .map(|node| node.catalogued.catalogue_name.as_deref());
        let number = nodes.iter().map(|node| node.catalogued.norad_id.map(whole));
        Table::new(vec![
            Column::full("node", nodes.iter().map(|node| node.name.as_str())),
            Column::full("kind", nodes.iter().map(|node| node.kind)),
            axis(0),
            axis(1),
            axis(2),
            Column::partly("catalogue_name", called),
            Column::partly("norad_id", number),
        ])
    }

    /// `from_node, from_port, to_node, to_port, kind, delay_ns, rate_bps, loss_ratio`.
    fn edges(&self) -> Table {
        let edges = &self.0.edges;
        Table::new(vec![
            Column::full(
                "from_node",
                edges.iter().map(|edge| edge.from_node.as_str()),
            ),
            Column::full("from_port", edges.iter().map(|edge| edge.from_port)),
            Column::full("to_node", edges.iter().map(|edge| edge.to_node.as_str())),
            Column::full("to_port", edges.iter().map(|edge| edge.to_port)),
            Column::full("kind", edges.iter().map(|edge| edge.kind)),
            Column::full("delay_ns", edges.iter().map(|edge| whole(edge.delay_ns))),
            Column::partly(
                "rate_bps",
                edges.iter().map(|edge| edge.rate_bps.map(whole)),
            ),
            Column::full("loss_ratio", edges.iter().map(|edge| edge.loss_ratio)),
        ])
    }
}

fn positions(lab: &Lab, found: &Positions) -> Table {
    let nodes = lab.layout.nodes();
    let samples =
        || (0..found.interval.samples()).flat_map(|s| nodes.iter().map(move |node| (s, node)));
    let axis = |name: &str, of: fn(&[f64; 3]) -> f64| {
        let values = found.itrf_m.iter().map(of);
        Column::partly(name, values.map(|m| m.is_finite().then_some(m)))
    };
    Table::new(vec![
        Column::full("t_s", samples().map(|(s, _)| seconds(found.interval.at(s)))),
        Column::full("node", samples().map(|(_, node)| node.name.as_str())),
        axis("x_m", |m| m[0]),
        axis("y_m", |m| m[1]),
        axis("z_m", |m| m[2]),
    ])
}

fn edges(lab: &Lab, interval: Interval) -> Result<Table, PlanError> {
    let mut seen: Vec<(u64, Document)> = Vec::new();
    for sample in 0..interval.samples() {
        let t_ns = interval.at(sample);
        // Lab time fits 63 bits: checked by `Interval`.
        seen.push((t_ns, Document::at(lab, TimeSpan::from_ns(t_ns as i64))?));
    }
    let rows = || {
        let samples = seen.iter();
        samples.flat_map(|(t_ns, plan)| plan.edges.iter().map(move |edge| (*t_ns, edge)))
    };
    Ok(Table::new(vec![
        Column::full("t_s", rows().map(|(t_ns, _)| seconds(t_ns))),
        Column::full("from_node", rows().map(|(_, edge)| edge.from_node.as_str())),
        Column::full("from_port", rows().map(|(_, edge)| edge.from_port)),
        Column::full("to_node", rows().map(|(_, edge)| edge.to_node.as_str())),
        Column::full("to_port", rows().map(|(_, edge)| edge.to_port)),
        Column::full("kind", rows().map(|(_, edge)| edge.kind)),
        Column::full("delay_ns", rows().map(|(_, edge)| whole(edge.delay_ns))),
        Column::partly("rate_bps", rows().map(|(_, edge)| edge.rate_bps.map(whole))),
        Column::full("loss_ratio", rows().map(|(_, edge)| edge.loss_ratio)),
    ]))
}

fn contacts(lab: &Lab, interval: Interval) -> Table {
    let plan = ContactPlan::new(lab, interval, threads());
    let rows: Vec<_> = plan.rows(lab).collect();
    Table::new(vec![
        Column::full("from_s", rows.iter().map(|row| row.from_s)),
        Column::full("to_s", rows.iter().map(|row| row.to_s)),
        Column::full("kind", rows.iter().map(|row| row.kind)),
        Column::full("a_node", rows.iter().map(|row| row.a_node)),
        Column::full("a_port", rows.iter().map(|row| row.a_port)),
        Column::full("b_node", rows.iter().map(|row| row.b_node)),
        Column::full("b_port", rows.iter().map(|row| row.b_port)),
        Column::full("range_min_m", rows.iter().map(|row| row.range_min_m)),
        Column::full("range_max_m", rows.iter().map(|row| row.range_max_m)),
        Column::full(
            "delay_min_ns",
            rows.iter().map(|row| whole(row.delay_min_ns)),
        ),
        Column::full(
            "delay_max_ns",
            rows.iter().map(|row| whole(row.delay_max_ns)),
        ),
    ])
}

fn points(lab: &Lab, series: &Series) -> Table {
    let pairs = &series.pairs;
    let place = |at: usize| (at / pairs.len().max(1), pairs[at % pairs.len().max(1)]);
    let rows = || series.points.iter().enumerate();
    let name = |id| lab.layout.node(id).name.as_str();
    let delay = rows().map(|(_, point)| point.delay_ns.map(|ns| whole(NonZeroU64::get(ns))));
    let hops = rows().map(|(_, point)| point.delay_ns.map(|_| i64::from(point.hops)));
    Table::new(vec![
        Column::full(
            "t_s",
            rows().map(|(at, _)| seconds(series.interval.at(place(at).0 as u64))),
        ),
        Column::full("a_node", rows().map(|(at, _)| name(place(at).1.0))),
        Column::full("b_node", rows().map(|(at, _)| name(place(at).1.1))),
        Column::partly("delay_ns", delay),
        Column::partly("hops", hops),
        Column::full("changed", rows().map(|(_, point)| point.changed)),
    ])
}

fn summaries(lab: &Lab, series: &Series) -> Table {
    let (pairs, of) = (&series.pairs, &series.summaries);
    let name = |id| lab.layout.node(id).name.as_str();
    Table::new(vec![
        Column::full("a_node", pairs.iter().map(|pair| name(pair.0))),
        Column::full("b_node", pairs.iter().map(|pair| name(pair.1))),
        Column::full("samples", of.iter().map(|s| whole(s.samples))),
        Column::full("with_path", of.iter().map(|s| whole(s.with_path))),
        Column::partly("delay_min_ns", of.iter().map(|s| s.delay_min_ns.map(whole))),
        Column::partly("delay_mean_ns", of.iter().map(|s| s.delay_mean_ns)),
        Column::partly("delay_max_ns", of.iter().map(|s| s.delay_max_ns.map(whole))),
        Column::partly("hops_min", of.iter().map(|s| s.hops_min.map(i64::from))),
        Column::partly("hops_max", of.iter().map(|s| s.hops_max.map(i64::from))),
        Column::full("changes", of.iter().map(|s| whole(s.changes))),
    ])
}

/// Least-delay paths, node by node, at every sample.
struct Walks {
    interval: Interval,
    /// Sample, place of the pair, delay in nanoseconds, nodes with blanks between and how many links.
    rows: Vec<(u64, usize, Option<i64>, String, i64)>,
    pairs: Vec<(NodeId, NodeId)>,
}

impl Walks {
    fn new(lab: &Lab, interval: Interval, pairs: &[(NodeId, NodeId)]) -> Self {
        let mut walks = Self {
            interval,
            rows: Vec::new(),
            pairs: pairs.to_vec(),
        };
        let (mut paths, mut first) = (Paths::default(), 0);
        interval.visit(lab, |sample, snapshot| {
            paths.load(&lab.layout, snapshot);
            if paths.lanes() == LANES || sample + 1 == interval.samples() {
                walks.take(lab, &mut paths, first);
                paths.clear();
                first = sample + 1;
            }
        });
        walks.rows.sort_by_key(|row| (row.0, row.1));
        walks
    }

    fn take(&mut self, lab: &Lab, paths: &mut Paths, first: u64) {
        for (place, &(from, to)) in self.pairs.iter().enumerate() {
            paths.aim(place, to);
            let rows = &mut self.rows;
            paths.trace(from, |run, delays, nodes| {
                let names = nodes
                    .iter()
                    .map(|&node| lab.layout.nodes()[node as usize].name.as_str());
                let names = names.collect::<Vec<_>>().join(" ");
                let links = i64::try_from(nodes.len().saturating_sub(1)).unwrap_or(i64::MAX);
                for lane in run {
                    // Whole and below 2^53.
                    let delay = (!nodes.is_empty()).then(|| delays[lane] as i64);
                    rows.push((first + lane as u64, place, delay, names.clone(), links));
                }
            });
        }
    }

    fn table(&self, lab: &Lab) -> Table {
        let rows = || self.rows.iter();
        let name = |id| lab.layout.node(id).name.as_str();
        Table::new(vec![
            Column::full("t_s", rows().map(|row| seconds(self.interval.at(row.0)))),
            Column::full("a_node", rows().map(|row| name(self.pairs[row.1].0))),
            Column::full("b_node", rows().map(|row| name(self.pairs[row.1].1))),
            Column::partly("delay_ns", rows().map(|row| row.2)),
            Column::partly("hops", rows().map(|row| row.2.map(|_| row.4))),
            Column::partly("nodes", rows().map(|row| row.2.map(|_| row.3.as_str()))),
        ])
    }
}

fn stations(found: &Coverage) -> Table {
    let rows = &found.stations;
    Table::new(vec![
        Column::full("station", rows.iter().map(|row| row.station.as_str())),
        Column::full("dark_s", rows.iter().map(|row| row.dark_s)),
        Column::full("longest_dark_s", rows.iter().map(|row| row.longest_dark_s)),
        Column::partly("first_dark_s", rows.iter().map(|row| row.first_dark_s)),
        Column::full("handovers", rows.iter().map(|row| whole(row.handovers))),
        Column::partly(
            "in_view_min",
            rows.iter().map(|row| row.in_view_min.map(i64::from)),
        ),
        Column::partly("in_view_mean", rows.iter().map(|row| row.in_view_mean)),
        Column::partly(
            "in_view_max",
            rows.iter().map(|row| row.in_view_max.map(i64::from)),
        ),
    ])
}

fn flows(found: &Coverage) -> Table {
    let rows = &found.flows;
    Table::new(vec![
        Column::full("flow", rows.iter().map(|row| row.flow.as_str())),
        Column::full("from", rows.iter().map(|row| row.from.as_str())),
        Column::full("to", rows.iter().map(|row| row.to.as_str())),
        Column::full("requested_s", rows.iter().map(|row| row.requested_s)),
        Column::full("path_s", rows.iter().map(|row| row.path_s)),
        Column::partly("path_ratio", rows.iter().map(|row| row.path_ratio)),
        Column::partly(
            "first_without_s",
            rows.iter().map(|row| row.first_without_s),
        ),
    ])
}

fn laid_out(shown: &str, bytes: &[u8], beside: &Path) -> Result<Lab, Diagnostics> {
    Lab::read(shown, bytes, &DiskFiles::beside(beside))
}

fn read(settings: &[String]) -> PyResult<Vec<Setting>> {
    settings
        .iter()
        .map(|text| text.parse().map_err(usage))
        .collect()
}

fn span(text: &str) -> PyResult<TimeSpan> {
    text.parse().map_err(usage)
}

/// As the command line prints documents.
fn printed(document: &impl serde::Serialize) -> PyResult<String> {
    let text = serde_json::to_string_pretty(document).map_err(usage)?;
    Ok(text + "\n")
}

fn threads() -> usize {
    available_parallelism().map_or(1, usize::from)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Times, rates and counts are below 2^63.
fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
