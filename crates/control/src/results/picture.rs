//! Pictures of flows: measurements over lab time, and the values from geometry.

use std::path::{Path, PathBuf};

use constel_measure::plot::{Curve, Figure, Mark, MarkKind, Panel, Style};

use super::Run;
use super::marks::LAB_TIME;
use super::samples::Table;
use super::series::{PIECES, Series};
use crate::error::Error;

/// The quantity of a flow's picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Round-trip times.
    RoundTrip,
    /// One-way delays.
    OneWay,
    /// Throughput of the payload.
    Throughput,
}

impl Run {
    /// The flows that have samples, by name.
    #[must_use]
    pub fn flows_with_samples(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir().join("flows")).into_iter();
        let names = entries.flatten().filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            let flow = name.strip_suffix(".csv")?;
            // Single records of a transfer are another table.
            (!flow.ends_with(".records")).then(|| flow.to_owned())
        });
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    /// Returns the path of a flow's samples.
    pub(super) fn samples_file(&self, flow: &str) -> PathBuf {
        self.dir().join("flows").join(format!("{flow}.csv"))
    }

    /// Returns the picture of a flow: its samples over lab time, late ones among them, and the delays that geometry gives its
    /// path. Marks are changes of its path, handovers of its ends, failures, and changes by hand. Without `only` the
    /// picture has a panel for each quantity that was measured.
    ///
    /// # Errors
    /// [`Error::NoFlow`] when it has no samples; [`Error::NoDocument`] or [`Error::BadDocument`] when they cannot be read.
    pub fn picture(&self, flow: &str, only: Option<Quantity>) -> Result<Figure, Error> {
        let known = self.flows_with_samples();
        if !known.iter().any(|name| name == flow) {
            return Err(Error::NoFlow {
                dir: self.dir().display().to_string(),
                flow: flow.to_owned(),
                known,
            });
        }
        let measured = Measured::read(self.dir(), flow)?;
        let geometry = Geometry::read(self.dir(), flow)?;
        let begin_s = measured.begin_s.min(geometry.begin_s);
        let begin_s = if begin_s.is_finite() { begin_s } else { 0.0 };
        let panels = [
            (Quantity::RoundTrip, measured.round_trips(&geometry)),
            (Quantity::OneWay, measured.one_ways()),
            (Quantity::Throughput, measured.throughputs()),
        ];
        let chosen = |quantity| only.is_none_or(|only| only == quantity);
        let panels = panels.into_iter().filter(|(quantity, _)| chosen(*quantity));
        let mut marks = geometry.changes;
        marks.extend(self.marks(&self.ends(flow))?);
        Ok(Figure {
            title: self.titled(&format!("Flow {flow}")),
            time_label: LAB_TIME.to_owned(),
            begin_s,
            panels: panels.filter_map(|(_, panel)| panel).collect(),
            marks,
            notes: measured.thinned().into_iter().collect(),
        })
    }

    /// Returns the nodes at the ends of a flow; none for a run that did not finish.
    fn ends(&self, flow: &str) -> Vec<String> {
        let flows = self.summary().map(|summary| summary.flows);
        let flows = flows.unwrap_or_default().into_iter();
        flows
            .filter(|row| row.name == flow)
            .flat_map(|row| [Some(row.from), row.to])
            .flatten()
            .collect()
    }

    /// Returns the path of a flow's picture, without the ending of its format.
    #[must_use]
    pub fn picture_stem(&self, flow: &str) -> PathBuf {
        self.dir().join("flows").join(flow)
    }
}

pub(super) fn curve(name: &str, series: &Series, style: Style) -> Option<Curve> {
    let points = series.points();
    (!points.is_empty()).then(|| Curve {
        name: name.to_owned(),
        points,
        style,
    })
}

fn panel(label: &str, curves: impl IntoIterator<Item = Option<Curve>>) -> Panel {
    Panel {
        label: label.to_owned(),
        curves: curves.into_iter().flatten().collect(),
        from_zero: false,
    }
}

/// Returns the samples that met late frames of the emulation.
fn late(series: &Series) -> Option<Curve> {
    curve(&counted("emulation late", series), series, Style::Dots)
}

/// Returns the name of a curve with the number of its values.
fn counted(name: &str, series: &Series) -> String {
    format!("{name}, N = {}", series.count())
}

/// Returns a curve in which each value holds until the next one. Geometry changes in steps, and a slope between two paths
/// would be the delay of neither.
fn held(curve: Curve) -> Curve {
    let mut points: Vec<(f64, f64)> = Vec::with_capacity(2 * curve.points.len());
    for &(t_s, value) in &curve.points {
        if let Some(&(_, before)) = points.last() {
            points.push((t_s, before));
        }
        points.push((t_s, value));
    }
    Curve { points, ..curve }
}

/// The measurements of a flow, milliseconds and Mbit/s.
struct Measured {
    begin_s: f64,
    rtt: Series,
    owd: Series,
    back: Series,
    /// Lab times of lost probes, seconds.
    lost: Vec<f64>,
    marked: Series,
    throughput: Series,
    marked_throughput: Series,
}

impl Measured {
    /// The panel of round-trip times; `None` if none was measured.
    fn round_trips(&self, geometry: &Geometry) -> Option<Panel> {
        let curves = [
            curve(&counted("measured", &self.rtt), &self.rtt, Style::Line),
            curve("path", &geometry.path, Style::Dashed).map(held),
            curve("shortest path", &geometry.shortest, Style::Dashed).map(held),
            late(&self.marked),
            self.losses(),
        ];
        (self.rtt.count() > 0).then(|| panel("round-trip time (ms)", curves))
    }

    /// The panel of one-way delays; `None` if none was measured.
    fn one_ways(&self) -> Option<Panel> {
        let curves = [
            curve(&counted("forward", &self.owd), &self.owd, Style::Line),
            curve(&counted("reverse", &self.back), &self.back, Style::Line),
            self.losses(),
        ];
        (self.owd.count() + self.back.count() > 0).then(|| panel("one-way delay (ms)", curves))
    }

    /// The panel of throughput; `None` if none was measured.
    fn throughputs(&self) -> Option<Panel> {
        let throughput = &self.throughput;
        let curves = [
            curve(&counted("measured", throughput), throughput, Style::Line),
            late(&self.marked_throughput),
        ];
        (throughput.count() > 0).then(|| Panel {
            from_zero: true,
            ..panel("throughput (Mbit/s)", curves)
        })
    }

    fn losses(&self) -> Option<Curve> {
        (!self.lost.is_empty()).then(|| Curve {
            name: format!("lost, N = {}", self.lost.len()),
            points: self.lost.iter().map(|t_s| (*t_s, 0.0)).collect(),
            style: Style::Rug,
        })
    }

    /// A note on curves that show the extremes of intervals in place of every value.
    fn thinned(&self) -> Option<String> {
        let all = [&self.rtt, &self.owd, &self.back, &self.throughput];
        let thinned = all
            .into_iter()
            .filter(|s| s.count() as usize > s.points().len() && s.count() as usize > PIECES);
        let longest_s = thinned.map(Series::piece_s).fold(0.0, f64::max);
        (longest_s > 0.0).then(|| {
            format!(
                "Curves of more than {PIECES} values show the least and the greatest value of each interval of {longest_s:.3} s."
            )
        })
    }

    fn read(dir: &Path, flow: &str) -> Result<Self, Error> {
        let mut table = Table::open(dir.join("flows").join(format!("{flow}.csv")))?;
        let mut seen = Self {
            begin_s: f64::INFINITY,
            rtt: Series::new(),
            owd: Series::new(),
            back: Series::new(),
            lost: Vec::new(),
            marked: Series::new(),
            throughput: Series::new(),
            marked_throughput: Series::new(),
        };
        let columns = [
            "t_s",
            "rtt_us",
            "owd_us",
            "owd_back_us",
            "throughput_bps",
            "fate",
            "marked",
        ];
        while let Some([t_s, rtt, owd, back, bps, fate, marked]) = table.next(columns)? {
            let Ok(t_s) = t_s.parse::<f64>() else {
                continue;
            };
            seen.begin_s = seen.begin_s.min(t_s);
            let ms = |cell: &str| cell.parse::<f64>().ok().map(|us| us / 1e3);
            let series = [&mut seen.rtt, &mut seen.owd, &mut seen.back];
            for (series, cell) in series.into_iter().zip([&rtt, &owd, &back]) {
                ms(cell).into_iter().for_each(|ms| series.put(t_s, ms));
            }
            let mbps = bps.parse::<f64>().ok().map(|bps| bps / 1e6);
            mbps.into_iter()
                .for_each(|mbps| seen.throughput.put(t_s, mbps));
            if matches!(fate.as_str(), "lost" | "unsent") {
                seen.lost.push(t_s);
            }
            if marked == "1" {
                ms(&rtt).into_iter().for_each(|ms| seen.marked.put(t_s, ms));
                mbps.into_iter()
                    .for_each(|mbps| seen.marked_throughput.put(t_s, mbps));
            }
        }
        Ok(seen)
    }
}

/// The delay of the flow's path from geometry, milliseconds, and the times at which the path changed.
struct Geometry {
    begin_s: f64,
    path: Series,
    shortest: Series,
    changes: Vec<Mark>,
}

impl Geometry {
    fn read(dir: &Path, flow: &str) -> Result<Self, Error> {
        let mut table = Table::open(dir.join("paths.csv"))?;
        let mut seen = Self {
            begin_s: f64::INFINITY,
            path: Series::new(),
            shortest: Series::new(),
            changes: Vec::new(),
        };
        let mut latest: Option<String> = None;
        let columns = ["t_s", "flow", "path", "path_rtt_us", "shortest_rtt_us"];
        while let Some([t_s, name, path, rtt, shortest]) = table.next(columns)? {
            let (true, Ok(t_s)) = (name == flow, t_s.parse::<f64>()) else {
                continue;
            };
            seen.begin_s = seen.begin_s.min(t_s);
            for (series, cell) in [(&mut seen.path, rtt), (&mut seen.shortest, shortest)] {
                let us = cell.parse::<f64>().ok();
                us.into_iter().for_each(|us| series.put(t_s, us / 1e3));
            }
            if latest.as_ref().is_some_and(|latest| *latest != path) {
                let name = match path.as_str() {
                    "" => "no path".to_owned(),
                    path => format!("path {path}"),
                };
                let kind = MarkKind::Path;
                seen.changes.push(Mark { t_s, name, kind });
            }
            latest = Some(path);
        }
        Ok(seen)
    }
}

#[cfg(test)]
mod tests {
    use constel_measure::plot::Look;

    use super::*;

    #[test]
    fn geometry_holds_until_it_changes() {
        let mut bound = Series::new();
        [(8.0, 52.0), (9.0, 79.0), (10.0, 79.0)]
            .into_iter()
            .for_each(|(t_s, ms)| bound.put(t_s, ms));
        let drawn = held(curve("shortest path", &bound, Style::Dashed).unwrap());
        let corner = [(8.0, 52.0), (9.0, 52.0), (9.0, 79.0)];
        assert_eq!(
            drawn.points[..3],
            corner,
            "no slope from one path to the next"
        );
        assert_eq!(drawn.points.len(), 5);
    }

    /// Wherever the bound changes, the line that is drawn is at no instant above what held then.
    #[test]
    fn a_held_curve_is_what_held_at_every_instant() {
        let mut seed = 46_u64;
        let mut random = |below: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for _ in 0..50 {
            let mut t_s = 0.0;
            let mut given = Vec::new();
            for _ in 0..1 + random(40) {
                given.push((t_s, 50.0 + random(50) as f64));
                t_s += 1.0 + random(3) as f64;
            }
            let mut bound = Series::new();
            given.iter().for_each(|&(t_s, ms)| bound.put(t_s, ms));
            let drawn = held(curve("shortest path", &bound, Style::Dashed).unwrap());
            for pair in drawn.points.windows(2) {
                let ((from_s, before), (to_s, after)) = (pair[0], pair[1]);
                assert!(from_s == to_s || before == after, "a slope: {pair:?}");
                if from_s < to_s {
                    let last = given.iter().rev().find(|(t_s, _)| *t_s <= from_s);
                    assert_eq!(last.unwrap().1, before, "{pair:?}");
                }
            }
        }
    }

    #[test]
    fn a_flow_is_drawn_over_its_geometry() {
        let dir = tempfile::tempdir().unwrap();
        let flows = dir.path().join("flows");
        std::fs::create_dir(&flows).unwrap();
        std::fs::write(dir.path().join("manifest.json"), "{}").unwrap();
        let samples = "t_s,rtt_us,owd_us,owd_back_us,throughput_bps,fate,path,marked\n\
            10.0,50000.000,25000.000,25000.000,,ok,1,0\n10.1,,,,,lost,1,0\n10.2,90000.000,,,,ok,2,1\n";
        std::fs::write(flows.join("ping.csv"), samples).unwrap();
        std::fs::write(flows.join("bulk.records.csv"), "").unwrap();
        let paths = "t_s,flow,path,path_rtt_us,shortest_rtt_us\n10,ping,1,49000.000,49000.000\n\
            10,other,1,1.000,1.000\n11,ping,2,60000.000,49500.000\n12,ping,,,\n";
        std::fs::write(dir.path().join("paths.csv"), paths).unwrap();
        let run = Run::open(dir.path()).unwrap();
        assert_eq!(run.flows_with_samples(), ["ping"]);
        let picture = run.picture("ping", None).unwrap().svg(&Look::default());
        for words in [
            ">measured, N = 2<",
            ">forward, N = 1<",
            ">reverse, N = 1<",
            ">path<",
            ">shortest path<",
            ">emulation late, N = 1<",
            ">lost, N = 1<",
            ">11 s: path 2<",
            ">12 s: no path<",
            ">round-trip time (ms)<",
            ">one-way delay (ms)<",
            ">lab time (s)<",
        ] {
            assert!(picture.contains(words), "{words}: {picture}");
        }
        assert!(!picture.contains("throughput"), "{picture}");
        let none = run.picture("ping", Some(Quantity::Throughput)).unwrap();
        assert!(none.panels.is_empty());
        let error = run.picture("pin", None).unwrap_err().to_string();
        assert!(error.contains("with samples: ping"), "{error}");
    }
}
