//! Two results of a run that never mix.
//!
//! [`Verdict`] is the fidelity of the emulator: may the figures be trusted? A run is trustworthy when the host kept up: frames
//! left on time, nothing was dropped that the scenario did not ask for, steps were ready before their time, and the records
//! are complete. A run with an affected flow is not trustworthy.
//!
//! [`Software`] is the outcome of what ran in the lab: exit codes, signals, containers, daemons, tools without a result.

use constel_link::StallStats;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Times at which the link plane's thread wanted to run and did not: told apart from its own
/// lateness. A virtual machine's processors may be taken away for tens of milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// Such times of 0.2 ms or more.
    pub stalls: u64,
    /// All together, nanoseconds.
    pub stalled_ns: u64,
    /// The longest, nanoseconds.
    pub longest_stall_ns: u64,
    /// Of all together, what other tasks of this kernel held the processor, nanoseconds. The rest
    /// is the hypervisor's.
    pub in_run_queue_ns: u64,
    /// What the hypervisor says it took of all processors meanwhile, nanoseconds (in steps of
    /// 10 ms).
    pub steal_ns: u64,
    /// For how long the processor of the link plane's thread had less than half of the most speed that was seen of it,
    /// nanoseconds: its host holds it down for heat or power, or lends half of its core to others. With several threads or
    /// machines, where that was longest.
    #[serde(default)]
    pub slow_ns: u64,
    /// The least speed of that processor against the most. `None` where the link plane does not look.
    #[serde(default)]
    pub least_speed_ratio: Option<f64>,
    /// Share of lab time in which some program of the lab waited for a processor (`cpu.pressure` of its
    /// cgroup); of this machine, where there is no cgroup2 or containers are an engine's
    /// (`/proc/pressure/cpu`). `None` where the kernel does not tell.
    #[serde(default)]
    pub processor_wait_ratio: Option<f64>,
}

/// What the link plane knows; the rest is for whoever looks at the system.
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

/// What the run measured of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fidelity {
    /// Frames that left their edge.
    pub frames_released: u64,
    /// 99th percentile of release minus due time, nanoseconds.
    pub lateness_p99_ns: u64,
    /// Largest release minus due time, nanoseconds.
    pub lateness_max_ns: u64,
    /// 99th percentile of release minus due time without what the machine did to the link plane's
    /// thread, nanoseconds.
    #[serde(default)]
    pub own_lateness_p99_ns: u64,
    /// What the machine did to it.
    #[serde(default)]
    pub machine: Machine,
    /// Frames released before their time. Always a defect of ours.
    pub frames_early: u64,
    /// Frames lost to the emulator itself, by cause (`ring`, `pool`, ...).
    pub unintended_drops: Vec<(String, u64)>,
    /// Steps whose plan was applied later than the bound after its time.
    pub steps_late: u64,
    /// Steps in all.
    pub steps: u64,
    /// Largest step lateness, nanoseconds.
    pub step_lateness_max_ns: u64,
    /// Flows whose own figures are affected, each with the reason.
    #[serde(default)]
    pub affected_flows: Vec<String>,
    /// Parts of the emulator that failed while the run went on, such as records that are not complete. Software of the lab
    /// that failed is in [`Software`].
    pub failures: Vec<String>,
}

/// What may be wrong with a run's figures, by kind: a statement needs some of them and not others.
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
    /// Figures of one flow are affected.
    Flow,
    /// A part of the emulator failed, or its records are not complete.
    Records,
}

/// What failed of the software in a lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SoftwareFailure {
    /// The node.
    pub node: String,
    /// The flow; absent for daemons, helpers and containers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// What failed and how, such as ``flow `fsw`: exit code 7``.
    pub reason: String,
}

/// How the software of a lab ended, whatever the fidelity of the emulator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Software {
    /// Whether any of it failed.
    pub failed: bool,
    /// What failed; empty when nothing did. The first 1,000.
    pub failures: Vec<SoftwareFailure>,
}

impl Software {
    /// So many failures are kept.
    pub const KEPT: usize = 1_000;

    /// Adds a failure.
    pub fn fail(&mut self, failure: SoftwareFailure) {
        self.failed = true;
        if self.failures.len() < Self::KEPT {
            self.failures.push(failure);
        }
    }
}

/// What a scenario or the defaults allow.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bounds {
    /// Allowed 99th percentile of release lateness, nanoseconds; a scenario may state another than the default.
    pub lateness_p99_ns: u64,
    /// A step counts as late past this, nanoseconds.
    pub step_lateness_ns: u64,
    /// Allowed share of lab time in which programs waited for a processor.
    pub processor_wait_ratio: f64,
}

impl Default for Bounds {
    /// 1 ms for frames (a LEO hop is 2-20 ms), 100 ms for steps (a delay glides between steps, so a
    /// late step costs at most 100 ms of a slope change: nanoseconds of delay). Programs that waited
    /// for a processor half of the time were not held up by the network alone.
    fn default() -> Self {
        Self {
            lateness_p99_ns: 1_000_000,
            step_lateness_ns: 100_000_000,
            processor_wait_ratio: 0.5,
        }
    }
}

impl Bounds {
    /// The defaults, with this bound for the lateness of frames.
    #[must_use]
    pub fn with_lateness(lateness_p99_ns: u64) -> Self {
        Self {
            lateness_p99_ns,
            ..Self::default()
        }
    }

    /// The bound of the lateness of frames in words: `stated bound 5 ms` where it is not the default.
    #[must_use]
    pub fn lateness_in_words(&self) -> String {
        let stated = self.lateness_p99_ns != Self::default().lateness_p99_ns;
        let stated = if stated { "stated " } else { "" };
        format!("{stated}bound {} ms", self.lateness_p99_ns as f64 / 1e6)
    }
}

/// The answer, with every reason against.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// Whether the figures may be used.
    pub trustworthy: bool,
    /// Why not; empty when trustworthy.
    pub reasons: Vec<String>,
}

impl Machine {
    /// How slow the processor was, in words; `None`: it was not.
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
    /// Judges against `bounds`; lists all reasons, not the first.
    pub fn judge(&self, bounds: Bounds) -> Verdict {
        let doubts = self.doubts(bounds);
        let reasons: Vec<String> = doubts.into_iter().map(|(_, reason)| reason).collect();
        Verdict {
            trustworthy: reasons.is_empty(),
            reasons,
        }
    }

    /// Returns every reason against the run's figures, with its kind.
    #[must_use]
    pub fn doubts(&self, bounds: Bounds) -> Vec<(Doubt, String)> {
        let mut doubts = self.of_the_host(bounds);
        let flows = self.affected_flows.iter().cloned();
        doubts.extend(flows.map(|flow| (Doubt::Flow, flow)));
        let failures = self.failures.iter().cloned();
        doubts.extend(failures.map(|failure| (Doubt::Records, failure)));
        doubts
    }

    /// Reasons that the host is behind, with what may have slowed it.
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
        for (cause, count) in self.unintended_drops.iter().filter(|(_, count)| *count > 0) {
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
        // No fault in itself, but what may be behind what was late or lost.
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
            unintended_drops: vec![("ring".into(), 3), ("pool".into(), 0)],
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
