//! A run beside a measurement of a real network.

use std::path::Path;

use constel_measure::compare::{Distance, Series, SlotTimes};
use constel_measure::recording;
use constel_units::files;

use super::Run;
use crate::error::Error;

/// Reads a recording of another tool; [`recording`] has the formats.
///
/// # Errors
/// [`Error::NoDocument`], [`Error::BadRecording`].
pub fn read_recording(path: &Path) -> Result<Series, Error> {
    let text = files::read_text(path).map_err(|source| Error::NoDocument {
        path: path.to_owned(),
        source,
    })?;
    recording::read(&text).map_err(|errors| Error::BadRecording {
        path: path.to_owned(),
        errors,
    })
}

impl Run {
    /// Returns the samples of one flow, or of all flows if `flow` is `None`, at their instants in UTC. Throughput counts as
    /// that from network to terminal.
    ///
    /// # Errors
    /// [`Error::NoFlow`] if the flow has no samples, if none has, or if several flows have probes and `flow` is `None`;
    /// [`Error::NoDocument`], [`Error::BadDocument`], [`Error::BadRecording`].
    pub fn series(&self, flow: Option<&str>) -> Result<Series, Error> {
        let known = self.flows_with_samples();
        let no_flow = |flow: &str| Error::NoFlow {
            dir: self.dir().display().to_string(),
            flow: flow.to_owned(),
            known: known.clone(),
        };
        let wanted: Vec<String> = match flow {
            Some(flow) => vec![flow.to_owned()],
            None => known.clone(),
        };
        if wanted.is_empty() || !wanted.iter().all(|flow| known.contains(flow)) {
            return Err(no_flow(flow.unwrap_or("")));
        }
        let start_s = self
            .head()?
            .start
            .map_or(0.0, |utc| utc.unix_ns() as f64 / 1e9);
        let mut all = Series::default();
        for flow in wanted {
            let mut series = read_recording(&self.samples_file(&flow))?;
            series.shift(start_s);
            // Probes of two flows are two measurements: a comparison of their mixture would mean nothing.
            if !all.probes.is_empty() && !series.probes.is_empty() {
                return Err(no_flow("(several with probes: choose one)"));
            }
            all.extend(series);
        }
        Ok(all)
    }
}

/// Compares a run, or any recording, with a measurement. `measured` is a file that [`read_recording`] reads; `run` is
/// such a file or the folder of a run.
///
/// # Errors
/// As [`Run::series`] and [`read_recording`].
pub fn compare_with(
    run: &Path,
    flow: Option<&str>,
    measured: &Path,
    slots: Option<SlotTimes>,
) -> Result<Distance, Error> {
    let series = match Run::open(run) {
        Some(run) => run.series(flow)?,
        None => read_recording(run)?,
    };
    Ok(Distance::between(
        &series,
        &read_recording(measured)?,
        slots,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(flows: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let manifest = r#"{"lab":"l","scenario":"s","seed":1,"start":"2025-05-29T23:20:12Z"}"#;
        std::fs::write(dir.path().join("manifest.json"), manifest).unwrap();
        std::fs::create_dir(dir.path().join("flows")).unwrap();
        for (name, text) in flows {
            std::fs::write(dir.path().join(format!("flows/{name}.csv")), text).unwrap();
        }
        dir
    }

    const HEAD: &str = "t_s,rtt_us,owd_us,owd_back_us,throughput_bps,fate,path,marked\n";

    #[test]
    fn lab_time_becomes_utc_so_that_slots_agree() {
        let rows: String = (0..150)
            .map(|n| format!("{},{}000.0,,,,ok,1,\n", f64::from(n) / 10.0, 30 + n % 3))
            .collect();
        let dir = run(&[
            ("ping", &format!("{HEAD}{rows}")),
            ("bulk", &format!("{HEAD}1,,,,8000000,,1,\n")),
        ]);
        let series = Run::open(dir.path()).unwrap().series(None).unwrap();
        // 2025-05-29T23:20:12Z
        assert_eq!(series.probes[0].t_s, 1_748_560_812.0);
        assert_eq!(series.down_mbps, [(1_748_560_813.0, 8.0)]);
        let measured = dir.path().join("measured.csv");
        let rows: String = (0..150)
            .map(|n| format!("{},{}\n", 1_748_560_812.0 + f64::from(n) / 10.0, 31 + n % 3))
            .collect();
        std::fs::write(&measured, format!("unix_s,rtt_ms\n{rows}")).unwrap();
        let distance = compare_with(
            dir.path(),
            Some("ping"),
            &measured,
            Some(SlotTimes::default()),
        )
        .unwrap();
        assert!((distance.rtt_ms.unwrap().w1 - 1.0).abs() < 1e-9);
        // One slot on both sides, because both begin with a slot.
        assert_eq!(distance.slot_medians_ms.unwrap().run_count, 1);
    }

    #[test]
    fn flows_that_do_not_fit_are_refused() {
        let probes = format!("{HEAD}0,1000.0,,,,ok,1,\n");
        let dir = run(&[("a", &probes), ("b", &probes)]);
        let run = Run::open(dir.path()).unwrap();
        assert!(
            run.series(None)
                .unwrap_err()
                .to_string()
                .contains("choose one")
        );
        assert!(matches!(run.series(Some("c")), Err(Error::NoFlow { .. })));
        assert_eq!(run.series(Some("b")).unwrap().probes.len(), 1);
    }

    #[test]
    fn a_file_that_is_no_recording_names_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.csv");
        std::fs::write(&path, "t_s,rtt_ms\n0,1\n1,fast\n").unwrap();
        let error = read_recording(&path).unwrap_err().to_string();
        assert!(error.contains("x.csv:3: `fast` is no number"), "{error}");
    }
}
