//! Pictures of flows: measurements over lab time, and the values from geometry.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use constel_measure::plot::{Curve, Mark, Panel, Style, svg};

use super::Run;
use super::samples::Table;
use crate::error::Error;

/// Maximum number of intervals of a curve. The minimum and the maximum of each interval are drawn.
const PIECES: usize = 1_000;

/// Changes of the path are marked where there are not more than this.
const MARKED_CHANGES: usize = 40;

/// A series of any length in bounded memory: the minimum and the maximum of each time interval. Intervals grow with the
/// series.
#[derive(Debug)]
pub(super) struct Series {
    piece_s: f64,
    pieces: BTreeMap<u64, [(f64, f64); 2]>,
}

impl Series {
    pub(super) fn new() -> Self {
        Self {
            piece_s: 1e-3,
            pieces: BTreeMap::new(),
        }
    }

    pub(super) fn put(&mut self, t_s: f64, value: f64) {
        let point = (t_s, value);
        self.join((t_s / self.piece_s) as u64, [point, point]);
        while self.pieces.len() > PIECES {
            self.piece_s *= 2.0;
            for (piece, extremes) in std::mem::take(&mut self.pieces) {
                self.join(piece / 2, extremes);
            }
        }
    }

    fn join(&mut self, piece: u64, [least, most]: [(f64, f64); 2]) {
        let known = self.pieces.entry(piece).or_insert([least, most]);
        if least.1 < known[0].1 {
            known[0] = least;
        }
        if most.1 > known[1].1 {
            known[1] = most;
        }
    }

    /// Returns its points in order of time, without duplicates.
    pub(super) fn points(&self) -> Vec<(f64, f64)> {
        let mut points: Vec<(f64, f64)> = self.pieces.values().flatten().copied().collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points.dedup();
        points
    }
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

    /// Draws a flow: its samples over lab time, marked ones among them, the delays that geometry gives its path beneath,
    /// and where the path changed. An SVG picture.
    ///
    /// # Errors
    /// [`Error::NoFlow`] when it has no samples; [`Error::NoDocument`] when they cannot be read.
    pub fn picture(&self, flow: &str) -> Result<String, Error> {
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
        let title = match self.head() {
            Ok(manifest) => format!("{}: {flow}", manifest.lab),
            Err(_) => flow.to_owned(),
        };
        let mut panels = Vec::new();
        let delays = [
            curve("round trip", &measured.rtt, Style::Line),
            curve("one way", &measured.owd, Style::Line),
            curve("one way back", &measured.back, Style::Line),
        ];
        let mut delays: Vec<Curve> = delays.into_iter().flatten().collect();
        if !measured.rtt.pieces.is_empty() {
            let path = curve("path, there and back", &geometry.path, Style::Dashed);
            let shortest = curve("shortest path", &geometry.shortest, Style::Dashed);
            delays.extend(path.into_iter().chain(shortest).map(held));
        }
        delays.extend(curve("marked", &measured.marked, Style::Dots));
        delays.extend(curve("lost", &measured.lost, Style::Dots));
        if !delays.is_empty() {
            panels.push(Panel {
                label: "delay, ms".to_owned(),
                curves: delays,
            });
        }
        let throughput = [
            curve("throughput", &measured.throughput, Style::Line),
            curve("marked", &measured.marked_throughput, Style::Dots),
        ];
        let throughput: Vec<Curve> = throughput.into_iter().flatten().collect();
        if !throughput.is_empty() {
            panels.push(Panel {
                label: "throughput, Mbit/s".to_owned(),
                curves: throughput,
            });
        }
        Ok(svg(&title, begin_s, &panels, &geometry.changes))
    }

    /// Returns the path of a flow's picture.
    #[must_use]
    pub fn picture_file(&self, flow: &str) -> PathBuf {
        self.dir().join("flows").join(format!("{flow}.svg"))
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
    lost: Series,
    marked: Series,
    throughput: Series,
    marked_throughput: Series,
}

impl Measured {
    fn read(dir: &Path, flow: &str) -> Result<Self, Error> {
        let mut table = Table::open(dir.join("flows").join(format!("{flow}.csv")))?;
        let mut seen = Self {
            begin_s: f64::INFINITY,
            rtt: Series::new(),
            owd: Series::new(),
            back: Series::new(),
            lost: Series::new(),
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
                seen.lost.put(t_s, 0.0);
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
            // One entry more than the maximum marks that there are too many to draw.
            if latest.as_ref().is_some_and(|latest| *latest != path)
                && seen.changes.len() <= MARKED_CHANGES
            {
                let name = match path.as_str() {
                    "" => "no path".to_owned(),
                    path => format!("path {path}"),
                };
                seen.changes.push(Mark { t_s, name });
            }
            latest = Some(path);
        }
        if seen.changes.len() > MARKED_CHANGES {
            seen.changes.clear();
        }
        Ok(seen)
    }
}

#[cfg(test)]
mod tests {
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
    fn long_series_keep_their_extremes() {
        let mut series = Series::new();
        for k in 0..100_000 {
            let value = if k == 77_777 {
                900.0
            } else {
                f64::from(k % 10)
            };
            series.put(f64::from(k) * 0.01, value);
        }
        assert!(series.pieces.len() <= PIECES && series.pieces.len() > PIECES / 4);
        let points = series.points();
        assert!(points.contains(&(777.77, 900.0)));
        assert!(points.windows(2).all(|pair| pair[0].0 <= pair[1].0));
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
        let picture = run.picture("ping").unwrap();
        for words in [
            "round trip",
            "one way back",
            "path, there and back",
            "shortest path",
            "marked",
            "lost",
            ">path 2<",
            ">no path<",
            "delay, ms",
        ] {
            assert!(picture.contains(words), "{words}: {picture}");
        }
        assert!(!picture.contains("throughput"), "{picture}");
        let error = run.picture("pin").unwrap_err().to_string();
        assert!(error.contains("with samples: ping"), "{error}");
    }
}
