//! Curves over a whole run, from the first node to the last: processors, memory, nodes created, daemons started,
//! nodes converged. They are written to `series.csv`, one row per second, and drawn in `series.svg`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use constel_host::limits::memory_bytes;
use constel_measure::plot::{Curve, Figure, Look, Mark, MarkKind, Panel, Style};
use constel_measure::results::Results;
use constel_measure::rotating::Rotating;

use crate::progress::Progress;
use crate::routing::start::runnable;
use crate::watch::converged::ConvergenceSample;

const EVERY: Duration = Duration::from_secs(1);

/// The file's first line. `load` is the number of tasks that run or wait for a processor.
pub(crate) const HEADER: &str = "t_s,stage,processor_ratio,memory_used_bytes,load,nodes_built,daemons_started,nodes_converged,routes_right_ratio\n";

/// Forwards progress, and records the data of the curves.
pub(crate) struct Recorder<'a> {
    inner: &'a dyn Progress,
    shared: Arc<Shared>,
}

/// The present values.
#[derive(Default)]
struct State {
    stage: String,
    counts: BTreeMap<String, u64>,
    looked: Option<ConvergenceSample>,
    marks: Vec<Mark>,
    file: Rest,
    picture: Thinned,
}

/// The destination of rows.
enum Rest {
    /// There is no file yet; the rows wait for it.
    Waiting(Vec<Row>),
    /// Each row is written at once.
    Written(Rotating),
    /// The file could not be written.
    Failed(io::Error),
}

impl Default for Rest {
    fn default() -> Self {
        Self::Waiting(Vec::new())
    }
}

impl Rest {
    fn put(&mut self, row: &Row) {
        match self {
            Rest::Waiting(rows) => rows.push(row.clone()),
            Rest::Written(file) => {
                if let Err(error) = file.write_all(csv(std::slice::from_ref(row)).as_bytes()) {
                    *self = Rest::Failed(error);
                }
            }
            Rest::Failed(_) => {}
        }
    }
}

/// The largest number of rows in the plot.
const DRAWN: usize = 4_096;

/// Rows spread evenly over a run of any length.
#[derive(Default)]
struct Thinned {
    rows: Vec<Row>,
    /// One row of every 2^`halvings` is kept.
    halvings: u32,
    seen: u64,
}

impl Thinned {
    fn put(&mut self, row: Row) {
        if self.seen.is_multiple_of(1 << self.halvings) {
            self.rows.push(row);
        }
        self.seen += 1;
        if self.rows.len() == DRAWN {
            // Every second row is dropped, and from now on only every second one is added.
            let mut odd = false;
            self.rows.retain(|_| {
                odd = !odd;
                odd
            });
            self.halvings += 1;
        }
    }
}

struct Shared {
    began: Instant,
    state: Mutex<State>,
    over: AtomicBool,
}

/// One row of the file.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    t_s: f64,
    stage: String,
    processor_ratio: f64,
    memory_used_bytes: u64,
    load: u32,
    built: u64,
    daemons: u64,
    looked: Option<ConvergenceSample>,
}

impl<'a> Recorder<'a> {
    /// Creates the recorder of a run that began at `began`.
    pub(crate) fn new(inner: &'a dyn Progress, began: Instant) -> Self {
        let shared = Shared {
            began,
            state: Mutex::new(State::default()),
            over: AtomicBool::new(false),
        };
        Self {
            inner,
            shared: Arc::new(shared),
        }
    }

    /// Starts a thread that takes a row every second.
    pub(crate) fn sample(&self) -> Sampler {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::spawn(move || {
            let mut before = processor_time();
            while !shared.over.load(Ordering::Acquire) {
                // `end` unparks the thread, so that it need not wait for the second to pass.
                std::thread::park_timeout(EVERY);
                let now = processor_time();
                shared.take(before, now);
                before = now;
            }
        });
        Sampler {
            shared: Arc::clone(&self.shared),
            thread: Some(thread),
        }
    }

    /// Records the latest sample of the kernels' routes.
    pub(crate) fn converged(&self, look: ConvergenceSample) {
        self.shared.lock().looked = Some(look);
    }
}

impl Progress for Recorder<'_> {
    fn stage(&self, name: &str, done: u64, total: u64, note: &str) {
        self.shared.reached(name, done);
        self.inner.stage(name, done, total, note);
    }

    fn say(&self, line: &str) {
        self.inner.say(line);
    }
}

/// The thread that takes rows until it is finished or dropped.
pub(crate) struct Sampler {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Writes the rows so far, and each further row at once.
    pub(crate) fn write_to(&self, mut file: Rotating) {
        let mut state = self.shared.lock();
        // The recorder starts before the results folder exists, so that the first rows wait in memory.
        if let Rest::Waiting(rows) = &state.file {
            let written = file.write_all(csv(rows).as_bytes());
            state.file = written.map_or_else(Rest::Failed, |()| Rest::Written(file));
        }
    }

    /// Ends the thread, and draws the plot.
    ///
    /// # Errors
    /// When one of the files cannot be written.
    pub(crate) fn finish(mut self, title: &str, results: &Results) -> io::Result<()> {
        self.end();
        let mut state = self.shared.lock();
        let picture = Figure {
            title: title.to_owned(),
            time_label: "time since the beginning of the bring-up (s)".to_owned(),
            begin_s: 0.0,
            panels: panels(&state.picture.rows),
            marks: state.marks.clone(),
            notes: Vec::new(),
        };
        results.write("series.svg", picture.svg(&Look::default()).as_bytes())?;
        match std::mem::take(&mut state.file) {
            Rest::Failed(error) => Err(error),
            Rest::Waiting(_) | Rest::Written(_) => Ok(()),
        }
    }

    fn end(&mut self) {
        self.shared.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread only panics because of a defect; then the rows so far are used.
            drop(thread.join());
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn reached(&self, name: &str, done: u64) {
        let t_s = self.began.elapsed().as_secs_f64();
        let mut state = self.lock();
        // The first progress of a stage marks its beginning in the plot.
        if state.stage != name {
            name.clone_into(&mut state.stage);
            state.marks.push(Mark {
                t_s,
                name: name.to_owned(),
                kind: MarkKind::Stage,
            });
        }
        state.counts.insert(name.to_owned(), done);
    }

    fn take(&self, before: (u64, u64), now: (u64, u64)) {
        let t_s = self.began.elapsed().as_secs_f64();
        let used = memory_bytes("MemTotal:")
            .zip(memory_bytes("MemAvailable:"))
            .map_or(0, |(total, left)| total.saturating_sub(left));
        let mut state = self.lock();
        let count = |name: &str| state.counts.get(name).copied();
        // The ratio of two differences of /proc/stat is the busy share since the row before.
        let all = now.1.saturating_sub(before.1).max(1);
        // The names are those of the stages of the bring-up.
        let row = Row {
            t_s,
            stage: state.stage.clone(),
            processor_ratio: now.0.saturating_sub(before.0) as f64 / all as f64,
            memory_used_bytes: used,
            load: runnable(),
            built: count("nodes and ports").unwrap_or(0),
            daemons: count("daemons").unwrap_or(0),
            looked: state.looked,
        };
        state.file.put(&row);
        state.picture.put(row);
    }
}

fn csv(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        let looked = row.looked.map_or_else(
            || ",".to_owned(),
            |look| format!("{},{:.5}", look.nodes, look.right_ratio),
        );
        let _ = writeln!(
            text,
            "{:.2},{},{:.4},{},{},{},{},{looked}",
            row.t_s,
            row.stage,
            row.processor_ratio,
            row.memory_used_bytes,
            row.load,
            row.built,
            row.daemons
        );
    }
    text
}

fn panels(rows: &[Row]) -> Vec<Panel> {
    // Values before the first sample are NaN, which is a gap in the curve.
    let curve = |name: &str, get: &dyn Fn(&Row) -> Option<f64>| Curve {
        name: name.to_owned(),
        points: rows
            .iter()
            .map(|row| (row.t_s, get(row).unwrap_or(f64::NAN)))
            .collect(),
        style: Style::Line,
    };
    let panel = |label: &str, curves: Vec<Curve>| Panel {
        label: label.to_owned(),
        curves,
        from_zero: true,
    };
    vec![
        panel(
            "nodes",
            vec![
                curve("built", &|row| Some(row.built as f64)),
                curve("daemons started", &|row| Some(row.daemons as f64)),
                curve("converged", &|row| row.looked.map(|look| look.nodes as f64)),
            ],
        ),
        panel(
            "correct routes (%)",
            vec![curve("all nodes, to sampled destinations", &|row| {
                row.looked.map(|look| 100.0 * look.right_ratio)
            })],
        ),
        panel(
            "processors busy (%)",
            vec![curve("whole machine", &|row| {
                Some(100.0 * row.processor_ratio)
            })],
        ),
        panel(
            "memory used (GiB)",
            vec![curve("whole machine", &|row| {
                Some(row.memory_used_bytes as f64 / f64::from(1 << 30))
            })],
        ),
        panel(
            "tasks ready to run",
            vec![curve("whole machine", &|row| Some(f64::from(row.load)))],
        ),
    ]
}

/// Returns the time of all processors so far: the busy time, and the total. The unit cancels out.
fn processor_time() -> (u64, u64) {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    parse_processor_time(&text).unwrap_or((0, 0))
}

/// Parses the first line: `cpu user nice system idle iowait irq softirq steal ...`.
fn parse_processor_time(text: &str) -> Option<(u64, u64)> {
    let fields: Vec<u64> = text
        .lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_ascii_whitespace()
        .take(8)
        .map(|field| field.parse().ok())
        .collect::<Option<_>>()?;
    let all: u64 = fields.iter().sum();
    // Idle and iowait are fields 3 and 4; guest times after field 7 are already part of `user`.
    Some((all - fields.get(3)? - fields.get(4)?, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Silent;

    impl Progress for Silent {
        fn stage(&self, _: &str, _: u64, _: u64, _: &str) {}
        fn say(&self, _: &str) {}
    }

    #[test]
    fn processor_time_is_read() {
        let text = "cpu  10 0 20 60 10 0 5 5 0 0\ncpu0 1 2 3 4\n";
        assert_eq!(parse_processor_time(text), Some((40, 110)));
        assert_eq!(parse_processor_time("cpu x"), None);
    }

    #[test]
    fn rows_say_what_was_reached_and_marks_where_stages_began() {
        let recorder = Recorder::new(&Silent, Instant::now());
        recorder.stage("nodes and ports", 3, 4, "");
        recorder.stage("nodes and ports", 4, 4, "");
        recorder.shared.take((0, 0), (50, 100));
        recorder.stage("daemons", 2, 4, "");
        let look = ConvergenceSample {
            nodes: 1,
            right_ratio: 0.25,
        };
        recorder.converged(look);
        recorder.shared.take((50, 100), (50, 200));
        let state = recorder.shared.lock();
        let names: Vec<&str> = state.marks.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["nodes and ports", "daemons"]);
        let rows = &state.picture.rows;
        assert_eq!(
            (rows[0].built, rows[0].daemons, rows[0].looked),
            (4, 0, None)
        );
        assert_eq!(
            (rows[1].built, rows[1].daemons, rows[1].looked),
            (4, 2, Some(look))
        );
        assert!((rows[0].processor_ratio - 0.5).abs() < 1e-9 && rows[1].processor_ratio == 0.0);
        let text = csv(rows);
        assert_eq!(text.lines().count(), 2);
        let cells = |line: &str| line.split(',').count();
        assert!(text.lines().all(|line| cells(line) == cells(HEADER)));
    }

    #[test]
    fn rows_are_in_the_file_at_once_and_few_are_drawn() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("series.csv");
        let recorder = Recorder::new(&Silent, Instant::now());
        let sampler = Sampler {
            shared: Arc::clone(&recorder.shared),
            thread: None,
        };
        recorder.shared.take((0, 0), (1, 2));
        sampler.write_to(Rotating::create_new(&path, None, HEADER).unwrap());
        for _ in 1..6_000 {
            recorder.shared.take((0, 0), (1, 2));
        }
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(HEADER));
        assert_eq!(text.lines().count(), 6_001);
        let state = recorder.shared.lock();
        let drawn = &state.picture.rows;
        assert!((DRAWN / 2..DRAWN).contains(&drawn.len()), "{}", drawn.len());
        let apart = |two: &[Row]| two[1].t_s >= two[0].t_s;
        assert!(drawn.windows(2).all(apart));
    }
}
