//! Computing a step without the steps before it, or with as few of them as necessary.

use super::{Located, Stepper};
use crate::beams::Possible;
use crate::effort::{CutReason, Effort};
use crate::in_view::Stretch;
use crate::layout::Layout;
use crate::node::NodeId;
use crate::policy::memoryless;
use crate::snapshot::Snapshot;
use crate::spec::GslSpec;
use constel_orbit::DVec3;
use std::collections::BTreeSet;
use std::ops::Range;

/// The length of the stretches for which visible satellites are found together when only decisions matter,
/// nanoseconds.
const STRETCH_NS: u64 = 8_000_000_000;

/// With fewer steps than this in a stretch it is cheaper to place all satellites in each step.
const WORTH_STEPS: u64 = 16;

/// The first guess of the number of steps after which the past does not matter.
const FIRST_STEPS: u64 = 256;

/// The least distance of two instants at which the satellites that stations may use are found, nanoseconds.
const LOOK_AROUND_NS: u64 = 30_000_000_000;

/// Why a step was not computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepRefusal {
    /// The caller cancelled it.
    #[error("the caller cancelled the request")]
    Unwanted,
    /// It needs more work than the budget allows.
    #[error(
        "what stations use at lab time {} s depends on earlier choices ({key}), too far back: ask before \
         {} s, take a longer `step`, or neither make_before_break nor a policy with memory (without: {})", *.t_ns as f64 / 1e9, *.before_ns as f64 / 1e9, memoryless()
    )]
    TooFar {
        /// The requested lab time, nanoseconds.
        t_ns: u64,
        /// The time before which every step can be requested, nanoseconds.
        before_ns: u64,
        /// The key of the scenario by which stations remember.
        key: &'static str,
    },
    /// The scenario's random failures alone exceed the budget.
    #[error(
        "too many random failures and repairs happen before lab time {} s for one question: ask for an earlier time, or \
         give longer `mtbf` and `mttr`", *.t_ns as f64 / 1e9
    )]
    TooManyFailures {
        /// The requested lab time, nanoseconds.
        t_ns: u64,
    },
}

/// The satellites that stations may see in a stretch of lab time.
#[derive(Debug, Default)]
pub(super) struct Near {
    /// Satellites that any station may see, by rising index.
    satellites: Vec<usize>,
    /// Satellites that each terminal may see, by rising index.
    by_terminal: Vec<Vec<usize>>,
    /// The step at which the stretch ends, and the positions then.
    end_step: u64,
    end: Located,
}

impl Near {
    /// Returns the satellites that any station may see, by rising index.
    pub(super) fn satellites(&self) -> &[usize] {
        &self.satellites
    }

    /// Returns a terminal's satellites of a constellation, by their indices in it.
    pub(super) fn of(&self, terminal: usize, shell: Range<usize>) -> impl Iterator<Item = usize> {
        let all = &self.by_terminal[terminal];
        let first = all.partition_point(|i| *i < shell.start);
        let end = all.partition_point(|i| *i < shell.end);
        all[first..end].iter().map(move |i| i - shell.start)
    }

    /// Finds the satellites for the stretch from `from_ns`, when satellites are at `start`, to its end at
    /// `to_ns`, only for the terminals that are `wanted`.
    fn find(
        &mut self,
        layout: &Layout,
        (from_ns, to_ns): (u64, u64),
        start: &[DVec3],
        wanted: &[bool],
    ) {
        let stretch = Stretch {
            layout,
            from_ns,
            to_ns,
            start,
            end: &self.end.positions[..start.len()],
        };
        self.by_terminal
            .resize(layout.terminals().len(), Vec::new());
        let mut any = vec![false; start.len()];
        for (terminal, satellites) in self.by_terminal.iter_mut().enumerate() {
            satellites.clear();
            if !wanted[terminal] {
                continue;
            }
            stretch.may_see(terminal, |satellite| {
                satellites.push(satellite);
                any[satellite] = true;
            });
        }
        self.satellites.clear();
        let places = any.iter().enumerate().filter(|(_, near)| **near);
        self.satellites.extend(places.map(|(place, _)| place));
    }
}

impl Stepper {
    /// How many steps before a step its snapshot can depend on; `None`: no bound is known.
    #[must_use]
    pub fn look_back(&self) -> Option<u64> {
        // Antennas depend on each other, so the longest memory of one precedes the longest outage of another.
        let mut memory_ns = 0;
        for (rule, policy) in self.layout.spec().rules.iter().zip(&self.policies) {
            if rule.keeps_old() {
                return None;
            }
            memory_ns = memory_ns.max(policy.look_back_ns()?);
        }
        // The choice of one antenna depends on the links of others, and these on what they had before: the
        // chain has no end.
        if memory_ns > 0 && !self.antennas_by_themselves() {
            return None;
        }
        let ns = (memory_ns + self.outage_ns(|_| true)).max(self.acquisition_ns());
        Some(ns.div_ceil(self.layout.spec().step_ns))
    }

    /// Returns the longest change of satellite of some of the rules, nanoseconds.
    fn outage_ns(&self, some: impl Fn(&GslSpec) -> bool) -> u64 {
        let rules = self.layout.spec().rules.iter().filter(|rule| some(rule));
        rules.map(|rule| rule.outage_ns).max().unwrap_or(0)
    }

    /// Returns the longest acquisition time of lasers, nanoseconds.
    fn acquisition_ns(&self) -> u64 {
        let spec = self.layout.spec();
        let shells = spec.constellations.iter().map(|k| k.lasers.acquisition_ns);
        let across = spec.cross.iter().map(|c| c.acquisition_ns);
        shells.chain(across).max().unwrap_or(0)
    }

    /// Goes to `step`, whatever was computed before, and computes it, at any cost.
    #[must_use]
    pub fn at_step(&mut self, step: u64) -> Snapshot {
        self.try_step(step, &mut Effort::unlimited())
            .unwrap_or_else(|error| unreachable!("without a limit and wanted: {error}"))
    }

    /// Goes to `step`, whatever was computed before, and computes it with the result that stepping there from 0
    /// would have.
    ///
    /// If a step depends on a known number of steps before it, the method walks through these. If a policy
    /// remembers without a bound, but each antenna chooses by itself, the walk begins so far back that every
    /// possible state of the antennas has led to the same one, mostly after a few passes. Otherwise it begins
    /// at 0.
    ///
    /// # Errors
    /// When it needs more than `effort`, or the caller cancelled it. After an error the next call of
    /// [`advance`](Stepper::advance) is of no use; another call of this method is.
    pub fn try_step(
        &mut self,
        step: u64,
        effort: &mut Effort<'_>,
    ) -> Result<Snapshot, StepRefusal> {
        let t_ns = step.saturating_mul(self.layout.spec().step_ns);
        self.go_to(step, effort).map_err(|cut| match cut {
            Far::Cut(CutReason::Unwanted) => StepRefusal::Unwanted,
            Far::Failures => StepRefusal::TooManyFailures { t_ns },
            Far::Cut(CutReason::Exhausted { .. }) => StepRefusal::TooFar {
                t_ns,
                before_ns: self.before_ns(effort.limit()),
                key: if self.policies.iter().all(|policy| policy.memoryless()) {
                    "gsl.make_before_break"
                } else {
                    "gsl.policy"
                },
            },
        })?;
        Ok(self.advance())
    }

    /// Returns the time before which every step can be reached from the start with this budget.
    fn before_ns(&self, limit: u64) -> u64 {
        // Half of the budget may be spent first on the search for a shorter way, and satellites are placed at
        // the ends of stretches.
        let steps = limit / self.step_cost(self.layout.terminals().len()) / 15 * 8;
        steps.saturating_mul(self.layout.spec().step_ns)
    }

    fn go_to(&mut self, step: u64, effort: &mut Effort<'_>) -> Result<(), Far> {
        let gone = match self.look_back() {
            Some(steps) => self.walk(step.saturating_sub(steps)..step, effort),
            None => self.walk_from_any_past(step, effort),
        };
        // From here on steps are computed in full again, after errors too.
        self.near = None;
        self.now_known = false;
        self.later_known = false;
        gone
    }

    /// Walks to `step` from where the past has been forgotten by then; from the start where that is not known.
    fn walk_from_any_past(&mut self, step: u64, effort: &mut Effort<'_>) -> Result<(), Far> {
        if !self.antennas_by_themselves() || !self.beams.pointed.is_empty() {
            return self.walk(0..step, effort);
        }
        // Changes that began before are completed by then, and those that begin until then are known.
        let step_ns = self.layout.spec().step_ns;
        let changing = self.outage_ns(|_| true).div_ceil(step_ns);
        let turning = self.outage_ns(GslSpec::keeps_old).div_ceil(step_ns);
        let mut steps = FIRST_STEPS.max(2 * changing + 2);
        let all = self.layout.terminals().len();
        let walking = step.saturating_mul(self.step_cost(all));
        let mut possible = self.beams.unknown();
        while let Some(from) = step.checked_sub(steps).filter(|from| *from > 0) {
            if steps > step / 4 && walking <= effort.left() {
                break;
            }
            // Those of which all is known need no longer walk.
            let wanted = self.beams.open(&possible);
            self.pass(from..step, &wanted, effort, |stepper, effort| {
                effort.spend(possible.count() as u64 / 4)?;
                let any = stepper.next_step <= from + turning;
                stepper.decide_possible(&mut possible, any);
                Ok(())
            })?;
            if self.beams.know(&mut possible) {
                return Ok(());
            }
            steps = steps.saturating_mul(2);
        }
        self.walk(0..step, effort)
    }

    fn decide_possible(&mut self, possible: &mut Possible, any: bool) {
        self.find();
        let (beams, rules) = self.rules();
        beams.decide_possible(&rules, possible, any);
    }

    /// Walks through steps, from one at which antennas are assumed to choose for the first time.
    fn walk(&mut self, steps: Range<u64>, effort: &mut Effort<'_>) -> Result<(), Far> {
        self.beams.reset();
        // A request beyond the budget is refused at once, not after the whole budget is spent.
        let least = (steps.end - steps.start).saturating_mul(self.least_cost());
        if least > effort.left() {
            return Err(Far::Cut(CutReason::Exhausted {
                limit: effort.limit(),
            }));
        }
        let all = vec![true; self.layout.terminals().len()];
        self.pass(steps, &all, effort, |stepper, _| {
            stepper.decide();
            Ok(())
        })
    }

    /// Walks through steps, of which the last ones matter for lasers and all for antennas of the terminals that are `wanted`.
    fn pass(
        &mut self,
        steps: Range<u64>,
        wanted: &[bool],
        effort: &mut Effort<'_>,
        mut decide: impl FnMut(&mut Self, &mut Effort<'_>) -> Result<(), CutReason>,
    ) -> Result<(), Far> {
        let step_ns = self.layout.spec().step_ns;
        let lasers_from = steps
            .end
            .saturating_sub(self.acquisition_ns().div_ceil(step_ns));
        let failures = self.failures.pass_until(steps.start * step_ns, effort);
        failures.map_err(|cut| match cut {
            CutReason::Exhausted { .. } => Far::Failures,
            CutReason::Unwanted => Far::Cut(cut),
        })?;
        self.next_step = steps.start;
        self.near = None;
        self.now_known = false;
        self.later_known = false;
        self.isl_started = false;
        let terminals = wanted.iter().filter(|wanted| **wanted).count();
        while self.next_step < steps.end {
            self.look_near(lasers_from, wanted, effort)?;
            effort.spend(self.step_cost(terminals))?;
            self.locate();
            decide(self, effort)?;
            if self.next_step >= lasers_from {
                self.reach(&mut Vec::new());
            }
            self.go_on();
        }
        Ok(())
    }

    /// Finds the satellites that stations may see in the stretch that begins with the next step, if there is one before
    /// step `until`.
    fn look_near(
        &mut self,
        until: u64,
        wanted: &[bool],
        effort: &mut Effort<'_>,
    ) -> Result<(), CutReason> {
        let step_ns = self.layout.spec().step_ns;
        let step = self.next_step;
        if self.near.as_ref().is_some_and(|near| step < near.end_step) {
            return Ok(());
        }
        let before = self.near.take();
        let end_step = until.min(step + STRETCH_NS / step_ns);
        if end_step < step + WORTH_STEPS {
            if before.is_some() {
                self.now_known = false;
                self.later_known = false;
            }
            return Ok(());
        }
        effort.spend(2 * self.layout.satellite_count() as u64)?;
        let mut near = before.unwrap_or_default();
        // The end of the stretch before is the start of this one.
        if near.end_step == step && !near.end.positions.is_empty() {
            std::mem::swap(&mut self.now, &mut near.end);
        } else {
            self.now
                .locate(&self.layout, &*self.sky, step * step_ns, None);
        }
        near.end
            .locate(&self.layout, &*self.sky, end_step * step_ns, None);
        near.end_step = end_step;
        let satellites = self.layout.satellite_count();
        let span = (step * step_ns, end_step * step_ns);
        let start = &self.now.positions[..satellites];
        near.find(&self.layout, span, start, wanted);
        self.near = Some(near);
        self.now_known = true;
        self.later_known = false;
        Ok(())
    }

    /// Returns the cost of the next step with this number of terminals that matter, in satellites placed.
    fn step_cost(&self, terminals: usize) -> u64 {
        let all = self.layout.satellite_count();
        let placed = self.near.as_ref().map_or(all, |near| near.satellites.len());
        (1 + placed + 4 * terminals) as u64
    }

    /// Returns the least cost of a step.
    fn least_cost(&self) -> u64 {
        (1 + 4 * self.layout.terminals().len()) as u64
    }

    /// Returns, for each terminal in their order, the satellites that it may use at some time from `from_ns` to
    /// `to_ns`: those that rise above its mask, and some more; a longer time gives more of these. It computes
    /// about `looks` positions of satellites, independent of the time.
    ///
    /// # Errors
    /// When the caller cancelled it, or it needs more than `effort`.
    pub fn may_use(
        &self,
        (from_ns, to_ns): (u64, u64),
        looks: u64,
        effort: &mut Effort<'_>,
    ) -> Result<Vec<BTreeSet<NodeId>>, CutReason> {
        let layout: &Layout = &self.layout;
        let (satellites, terminals) = (layout.satellite_count(), layout.terminals().len());
        let mut used = vec![BTreeSet::new(); terminals];
        let serving = (0..satellites).filter(|i| layout.serves_ground(*i)).count();
        let cost = (satellites + serving * terminals).max(1) as u64;
        let most = (looks / cost).max(1);
        let stretch_ns = (to_ns - from_ns).div_ceil(most).max(LOOK_AROUND_NS);
        let (mut start, mut end) = (Located::default(), Located::default());
        let mut at_ns = from_ns;
        end.locate(layout, &*self.sky, at_ns, None);
        while at_ns < to_ns && used.iter().any(|of| of.len() < serving) {
            effort.spend(cost)?;
            std::mem::swap(&mut start, &mut end);
            let end_ns = at_ns.saturating_add(stretch_ns).min(to_ns);
            end.locate(layout, &*self.sky, end_ns, None);
            let stretch = Stretch {
                layout,
                from_ns: at_ns,
                to_ns: end_ns,
                start: &start.positions[..satellites],
                end: &end.positions[..satellites],
            };
            for (terminal, used) in used.iter_mut().enumerate() {
                stretch.may_see(terminal, |satellite| {
                    used.insert(NodeId(satellite as u32));
                });
            }
            at_ns = end_ns;
        }
        Ok(used)
    }
}

/// Why a walk ended early.
enum Far {
    Cut(CutReason),
    Failures,
}

impl From<CutReason> for Far {
    fn from(cut: CutReason) -> Self {
        Self::Cut(cut)
    }
}
