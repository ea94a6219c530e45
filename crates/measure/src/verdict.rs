//! Two separate results of a run.
//!
//! [`Verdict`] is the fidelity of the emulator: whether the measurements can be trusted. A run is trustworthy when
//! the host kept up: frames left on time, only drops that the scenario requested occurred, steps were ready before
//! their time, and the records are complete. A run with an affected flow is not trustworthy.
//!
//! [`Software`] is the outcome of the software in the lab: exit codes, signals, containers, daemons, tools without
//! a result.

use constel_link::{PlaneReport, StallStats};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The stalls of the link plane's thread: times at which it was ready to run and did not. They are counted apart
/// from the lateness that the link plane itself causes. A virtual machine can lose its processors for tens of
/// milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// The number of stalls of 0.2 ms or more.
    pub stalls: u64,
    /// The sum of all stalls, nanoseconds.
    pub stalled_ns: u64,
    /// The longest stall, nanoseconds.
    pub longest_stall_ns: u64,
    /// The part of the sum in which other tasks of this kernel held the processor, nanoseconds. The hypervisor
    /// caused the rest.
    pub in_run_queue_ns: u64,
    /// The time that the hypervisor reports to have taken from all processors during the run, nanoseconds (in steps
    /// of 10 ms).
    pub steal_ns: u64,
    /// The time for which the processor of the link plane's thread had less than half of its highest observed
    /// speed, nanoseconds. Possible causes are thermal or power limits of its host, or a core shared with others.
    /// With several threads or machines, the longest of these times.
    #[serde(default)]
    pub slow_ns: u64,
    /// The lowest speed of that processor divided by the highest. `None` if the link plane does not measure it.
    #[serde(default)]
    pub least_speed_ratio: Option<f64>,
    /// The share of lab time in which some program of the lab waited for a processor (`cpu.pressure` of its
    /// cgroup). Without cgroup2, or with containers of an engine, it is that of this machine
    /// (`/proc/pressure/cpu`). `None` if the kernel does not report it.
    #[serde(default)]
    pub processor_wait_ratio: Option<f64>,
}

/// The link plane's share of the values; the other fields come from the system.
impl From<StallStats> for Machine {
    fn from(seen: StallStats) -> Self {
        Self {
            stalls: seen.count,
            stalled_ns: seen.total_ns,
            longest_stall_ns: seen.longest_ns,
            in_run_queue_ns: seen.in_run_queue_ns,
            slow_ns: seen.slow_ns,
            least_speed_ratio: seen.least_speed_ratio,
            steal_ns: 0,
            processor_wait_ratio: None,
        }
    }
}

/// The measurements of a run about itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fidelity {
    /// Frames that left their edge.
    pub frames_released: u64,
    /// 99th percentile of release minus due time, nanoseconds.
    pub lateness_p99_ns: u64,
    /// Largest release minus due time, nanoseconds.
    pub lateness_max_ns: u64,
    /// 99th percentile of release minus due time without the machine's stalls of the link plane's thread,
    /// nanoseconds.
    #[serde(default)]
    pub own_lateness_p99_ns: u64,
    /// The machine's stalls of that thread.
    #[serde(default)]
    pub machine: Machine,
    /// Frames released before their time. This is always a defect of Constel.
    pub frames_early: u64,
    /// Frames lost to the emulator itself, by cause (`ring`, `pool`, ...).
    pub emulator_drops: Vec<(String, u64)>,
    /// Steps whose plan was applied later than the bound allows.
    pub steps_late: u64,
    /// The number of steps.
    pub steps: u64,
    /// The largest step lateness, nanoseconds.
    pub step_lateness_max_ns: u64,
    /// Flows whose measurements are affected, each with the reason.
    #[serde(default)]
    pub affected_flows: Vec<String>,
    /// Parts of the emulator that failed during the run, for example incomplete records. Failed software of the lab
    /// is in [`Software`].
    pub failures: Vec<String>,
}

/// The link plane's share; the other fields come from the system.
impl From<&PlaneReport> for Fidelity {
    fn from(plane: &PlaneReport) -> Self {
        let lateness = plane.lateness.unwrap_or_default();
        let drops = plane.emulator_drops.iter();
        Self {
            frames_released: lateness.count,
            lateness_p99_ns: lateness.p99_ns,
            lateness_max_ns: lateness.max_ns,
            own_lateness_p99_ns: plane.own_lateness.unwrap_or(lateness).p99_ns,
            machine: plane.stalls.unwrap_or_default().into(),
            frames_early: plane.early.unwrap_or(0),
            emulator_drops: drops
                .map(|(cause, count)| (cause.to_owned(), count))
                .collect(),
            ..Self::default()
        }
    }
}

/// A kind of reason against a run's measurements. A statement depends on some kinds and not on others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// Frames were released before their time.
    Early,
    /// Frames left late.
    Late,
    /// The emulator lost frames.
    Lost,
    /// The topology changed late.
    Steps,
    /// Programs waited for a processor.
    Processor,
    /// The measurements of one flow are affected.
    Flow,
    /// A part of the emulator failed, or its records are not complete.
    Records,
}

/// A failure of software in a lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SoftwareFailure {
    /// The node.
    pub node: String,
    /// The flow; absent for daemons, helpers and containers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// The failure, such as ``flow `fsw`: exit code 7``.
    pub reason: String,
}

/// The outcome of a lab's software, independent of the emulator's fidelity.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Software {
    /// Whether any software failed.
    pub failed: bool,
    /// The first 1,000 failures; empty without failures.
    pub failures: Vec<SoftwareFailure>,
}

impl Software {
    /// The number of failures that are kept.
    pub const KEPT: usize = 1_000;

    /// Adds a failure.
    pub fn fail(&mut self, failure: SoftwareFailure) {
        self.failed = true;
        if self.failures.len() < Self::KEPT {
            self.failures.push(failure);
        }
    }
}

/// The bounds of a scenario, or the defaults.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bounds {
    /// Allowed 99th percentile of release lateness, nanoseconds. A scenario may set its own.
    pub lateness_p99_ns: u64,
    /// The lateness from which a step counts as late, nanoseconds.
    pub step_lateness_ns: u64,
    /// Allowed share of lab time in which programs waited for a processor.
    pub processor_wait_ratio: f64,
}

impl Default for Bounds {
    /// 1 ms for frames (a LEO hop is 2-20 ms) and 100 ms for steps: delays change linearly between steps, so a late
    /// step costs at most 100 ms of a change in slope, which is nanoseconds of delay. If programs waited for a
    /// processor half of the time, their results are not determined by the network alone.
    fn default() -> Self {
        Self {
            lateness_p99_ns: 1_000_000,
            step_lateness_ns: 100_000_000,
            processor_wait_ratio: 0.5,
        }
    }
}

impl Bounds {
    /// Returns the defaults with this bound for the lateness of frames.
    #[must_use]
    pub fn with_lateness(lateness_p99_ns: u64) -> Self {
        Self {
            lateness_p99_ns,
            ..Self::default()
        }
    }

    /// Returns the lateness bound of frames in words: `stated bound 5 ms` if it is not the default.
    #[must_use]
    pub fn lateness_in_words(&self) -> String {
        let stated = self.lateness_p99_ns != Self::default().lateness_p99_ns;
        let stated = if stated { "stated " } else { "" };
        format!("{stated}bound {} ms", self.lateness_p99_ns as f64 / 1e6)
    }
}

/// The verdict, with all reasons against the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// Whether the measurements may be used.
    pub trustworthy: bool,
    /// The reasons against; empty when trustworthy.
    pub reasons: Vec<String>,
}

impl Machine {
    /// Describes how slow the processor was; `None` if it was not slow.
    #[must_use]
    pub fn slowness_in_words(&self) -> Option<String> {
        let least = self.least_speed_ratio.filter(|_| self.slow_ns > 0)?;
        Some(format!(
            "this machine's processor had less than half its speed for {:.0} ms in all, {:.0} % of it at worst",
            self.slow_ns as f64 / 1e6,
            100.0 * least,
        ))
    }
}

impl Fidelity {
    /// Judges against `bounds`. Lists all reasons, not only the first.
    pub fn judge(&self, bounds: Bounds) -> Verdict {
        let doubts = self.doubts(bounds);
        let reasons: Vec<String> = doubts.into_iter().map(|(_, reason)| reason).collect();
        Verdict {
            trustworthy: reasons.is_empty(),
            reasons,
        }
    }

    /// Returns every reason against the run's measurements, with its kind.
    #[must_use]
    pub fn doubts(&self, bounds: Bounds) -> Vec<(Doubt, String)> {
        let mut doubts = self.of_the_host(bounds);
        let flows = self.affected_flows.iter().cloned();
        doubts.extend(flows.map(|flow| (Doubt::Flow, flow)));
        let failures = self.failures.iter().cloned();
        doubts.extend(failures.map(|failure| (Doubt::Records, failure)));
        doubts
    }

    /// Returns the reasons that concern the host, with a possible cause.
    fn of_the_host(&self, bounds: Bounds) -> Vec<(Doubt, String)> {
        let mut doubts = Vec::new();
        let ms = |ns: u64| ns as f64 / 1e6;
        if self.frames_early > 0 {
            let early = format!(
                "{} frames were released before their time",
                self.frames_early
            );
            doubts.push((Doubt::Early, early));
        }
        if self.lateness_p99_ns > bounds.lateness_p99_ns {
            let late = format!(
                "frames left late: 99th percentile {:.3} ms, {} ({:.3} ms without the {} times this machine kept the link plane from running, {:.1} ms in all, longest {:.1} ms)",
                ms(self.lateness_p99_ns),
                bounds.lateness_in_words(),
                ms(self.own_lateness_p99_ns),
                self.machine.stalls,
                ms(self.machine.stalled_ns),
                ms(self.machine.longest_stall_ns),
            );
            doubts.push((Doubt::Late, late));
        }
        for (cause, count) in self.emulator_drops.iter().filter(|(_, count)| *count > 0) {
            let lost = format!("the emulator itself lost {count} frames (cause: {cause})");
            doubts.push((Doubt::Lost, lost));
        }
        if self.steps_late > 0 {
            let steps = format!(
                "{} of {} steps were applied more than {:.0} ms late (worst {:.1} ms)",
                self.steps_late,
                self.steps,
                ms(bounds.step_lateness_ns),
                ms(self.step_lateness_max_ns)
            );
            doubts.push((Doubt::Steps, steps));
        }
        if let Some(ratio) = self.machine.processor_wait_ratio
            && ratio > bounds.processor_wait_ratio
        {
            let waited = format!(
                "programs had to wait for a processor in {:.0} % of lab time (bound {:.0} %): what nodes did was late, whatever the links did",
                100.0 * ratio,
                100.0 * bounds.processor_wait_ratio,
            );
            doubts.push((Doubt::Processor, waited));
        }
        // A slow processor is not a fault in itself, but a possible cause of the lateness or loss above.
        if let Some((kind, _)) = doubts.last() {
            let kind = *kind;
            doubts.extend(self.machine.slowness_in_words().map(|slow| (kind, slow)));
        }
        doubts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clean_run_is_trusted_and_every_fault_is_named() {
        let clean = Fidelity {
            frames_released: 10,
            lateness_p99_ns: 20_000,
            machine: Machine {
                processor_wait_ratio: Some(0.4),
                ..Default::default()
            },
            ..Default::default()
        };
        assert!(clean.judge(Bounds::default()).trustworthy);
        let bad = Fidelity {
            lateness_p99_ns: 2_000_000,
            frames_early: 1,
            emulator_drops: vec![("ring".into(), 3), ("pool".into(), 0)],
            steps_late: 1,
            steps: 9,
            machine: Machine {
                processor_wait_ratio: Some(0.6),
                ..Default::default()
            },
            affected_flows: vec!["flow `a` is affected".into()],
            failures: vec!["events.ndjson is not complete".into()],
            ..Default::default()
        };
        let verdict = bad.judge(Bounds::default());
        assert!(!verdict.trustworthy);
        assert_eq!(verdict.reasons.len(), 7);
        let kinds: Vec<Doubt> = bad.doubts(Bounds::default()).iter().map(|d| d.0).collect();
        let expected = [
            Doubt::Early,
            Doubt::Late,
            Doubt::Lost,
            Doubt::Steps,
            Doubt::Processor,
            Doubt::Flow,
            Doubt::Records,
        ];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn software_that_fails_is_counted_and_kept_up_to_a_bound() {
        let mut software = Software::default();
        assert!(!software.failed);
        for _ in 0..=Software::KEPT {
            software.fail(SoftwareFailure {
                node: "a".into(),
                flow: None,
                reason: "bird ended: exit code 1".into(),
            });
        }
        assert!(software.failed);
        assert_eq!(software.failures.len(), Software::KEPT);
    }

    #[test]
    fn a_slow_processor_explains_and_does_not_condemn() {
        let slow = |lateness_p99_ns| Fidelity {
            lateness_p99_ns,
            machine: Machine {
                slow_ns: 412_000_000,
                least_speed_ratio: Some(0.05),
                ..Default::default()
            },
            ..Default::default()
        };
        assert!(slow(20_000).judge(Bounds::default()).trustworthy);
        let reasons = slow(2_000_000).judge(Bounds::default()).reasons;
        assert_eq!(reasons.len(), 2);
        assert_eq!(
            reasons[1],
            "this machine's processor had less than half its speed for 412 ms in all, 5 % of it at worst"
        );
    }

    #[test]
    fn the_stated_bound_decides_in_both_directions() {
        let run = Fidelity {
            lateness_p99_ns: 3_900_000,
            ..Default::default()
        };
        assert!(run.judge(Bounds::with_lateness(5_000_000)).trustworthy);
        assert!(run.judge(Bounds::with_lateness(3_900_000)).trustworthy);
        let reason = |bounds| run.judge(bounds).reasons.concat();
        let stated = reason(Bounds::with_lateness(3_899_999));
        assert!(
            stated.contains("3.900 ms, stated bound 3.899999 ms ("),
            "{stated}"
        );
        let default = reason(Bounds::default());
        assert!(default.contains("3.900 ms, bound 1 ms ("), "{default}");
    }
}
