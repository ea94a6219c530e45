//! The turns of a live policy: one for each step, with a bound of time. Pure: instants and answers are arguments.

use constel_link::Tally;

/// The outcome of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome<D> {
    /// The policy decided.
    Decided(D),
    /// The decisions before hold, for this reason.
    Held(String),
    /// The policy left on purpose instead of an answer. The decisions before hold, and the turn does not count.
    Left,
}

/// The connection of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It is connected.
    There,
    /// It left on purpose.
    Left,
    /// The connection ended without notice.
    Lost,
}

/// The counts of a policy's turns.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    pub(crate) steps: u64,
    pub(crate) decided: u64,
    pub(crate) late: u64,
    pub(crate) refused: u64,
    /// Time from the state to its answer, of answers in time, nanoseconds.
    pub(crate) answer_ns: Tally,
}

/// A turn that waits for its answer, or has it.
#[derive(Debug)]
struct Open<D> {
    step: u64,
    from_ns: u64,
    outcome: Option<Outcome<D>>,
}

/// All turns of a policy.
#[derive(Debug)]
pub(crate) struct Turns<D> {
    within_ns: u64,
    open: Option<Open<D>>,
    counts: Counts,
}

impl<D> Turns<D> {
    /// Begins with no turn. An answer may take up to `within_ns`.
    pub(crate) fn new(within_ns: u64) -> Self {
        Self {
            within_ns,
            open: None,
            counts: Counts::default(),
        }
    }

    /// Returns the time for an answer, nanoseconds.
    pub(crate) fn within_ns(&self) -> u64 {
        self.within_ns
    }

    /// Returns the counts so far. A turn that is not over is not in them.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Opens the turn of a step. The turn before must be over.
    pub(crate) fn open(&mut self, step: u64, now_ns: u64) {
        self.open = Some(Open {
            step,
            from_ns: now_ns,
            outcome: None,
        });
    }

    /// Takes an answer for a step, already read: a decision, or the reason why it is refused. The first answer in time counts.
    ///
    /// # Errors
    /// The reason of a refusal. An answer that is too late is no error, because its sender could not know.
    pub(crate) fn answer(
        &mut self,
        step: u64,
        now_ns: u64,
        read: Result<D, String>,
    ) -> Result<(), String> {
        let within_ns = self.within_ns;
        let open = match &mut self.open {
            Some(open) if open.step == step => open,
            // The turn of an earlier step is over, and was counted as late.
            Some(open) if step < open.step => return Ok(()),
            None => return Ok(()),
            Some(open) => {
                let asked = open.step;
                return self.refuse(format!(
                    "an answer for step {step} before its state; step {asked} is due"
                ));
            }
        };
        if open.outcome.is_some() {
            return self.refuse(format!("a second answer for step {step}"));
        }
        let took_ns = now_ns.saturating_sub(open.from_ns);
        if took_ns > within_ns {
            return Ok(());
        }
        match read {
            Ok(decision) => {
                open.outcome = Some(Outcome::Decided(decision));
                self.counts.answer_ns.record(took_ns);
                Ok(())
            }
            Err(reason) => {
                open.outcome = Some(Outcome::Held(reason.clone()));
                self.refuse(reason)
            }
        }
    }

    /// Counts an answer that is refused, and takes the open turn from the policy if it has no outcome.
    ///
    /// # Errors
    /// Always: the reason.
    pub(crate) fn refuse(&mut self, reason: String) -> Result<(), String> {
        self.counts.refused += 1;
        if let Some(open) = &mut self.open {
            open.outcome
                .get_or_insert_with(|| Outcome::Held(reason.clone()));
        }
        Err(reason)
    }

    /// Returns the outcome of the open turn, once it is over: the policy has answered, or its time has passed, or it has left.
    pub(crate) fn close(&mut self, now_ns: u64, presence: Presence) -> Option<(u64, Outcome<D>)> {
        let open = self.open.as_ref()?;
        let is_late = now_ns.saturating_sub(open.from_ns) > self.within_ns;
        if open.outcome.is_none() && !is_late && presence == Presence::There {
            return None;
        }
        let open = self.open.take()?;
        let outcome = match (open.outcome, presence) {
            (Some(outcome), _) => outcome,
            (None, Presence::Left) => return Some((open.step, Outcome::Left)),
            (None, Presence::There | Presence::Lost) => {
                self.counts.late += 1;
                let within_ms = self.within_ns as f64 / 1e6;
                Outcome::Held(match is_late {
                    true => format!("no answer within {within_ms} ms"),
                    false => "the policy is no longer connected".to_owned(),
                })
            }
        };
        self.counts.steps += 1;
        self.counts.decided += u64::from(matches!(outcome, Outcome::Decided(_)));
        Some((open.step, outcome))
    }

    /// Returns the time that the open turn still has, nanoseconds.
    pub(crate) fn left_ns(&self, now_ns: u64) -> u64 {
        let Some(open) = &self.open else { return 0 };
        (open.from_ns + self.within_ns + 1).saturating_sub(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WITHIN_NS: u64 = 100;

    fn held(outcome: &Option<(u64, Outcome<u32>)>) -> &str {
        match outcome {
            Some((_, Outcome::Held(why))) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_answer_counts_until_the_bound_and_not_later() {
        for (at_ns, in_time) in [(0, true), (100, true), (101, false)] {
            let mut turns = Turns::new(WITHIN_NS);
            turns.open(7, 1_000);
            assert_eq!(turns.close(1_000, Presence::There), None);
            assert_eq!(turns.answer(7, 1_000 + at_ns, Ok(5)), Ok(()));
            let outcome = turns.close(1_101, Presence::There);
            match in_time {
                true => assert_eq!(outcome, Some((7, Outcome::Decided(5)))),
                false => assert!(held(&outcome).contains("no answer within")),
            }
            let counts = turns.counts();
            let late = u64::from(!in_time);
            assert_eq!(
                (counts.steps, counts.decided, counts.late),
                (1, 1 - late, late)
            );
            // An answer after that changes nothing.
            assert_eq!(turns.answer(7, 1_200, Ok(6)), Ok(()));
            assert_eq!(turns.close(1_300, Presence::There), None);
        }
    }

    #[test]
    fn wrong_answers_are_refused_and_hold() {
        let mut turns = Turns::new(WITHIN_NS);
        turns.open(1, 0);
        assert!(turns.answer(1, 5, Err("no such node".to_owned())).is_err());
        // Corrected too late: the turn is lost.
        assert!(
            turns
                .answer(1, 6, Ok(3))
                .unwrap_err()
                .contains("second answer")
        );
        assert_eq!(held(&turns.close(7, Presence::There)), "no such node");
        turns.open(2, 10);
        assert!(
            turns
                .answer(3, 11, Ok(1))
                .unwrap_err()
                .contains("before its state")
        );
        assert!(held(&turns.close(12, Presence::There)).contains("step 2 is due"));
        turns.open(3, 20);
        assert!(held(&turns.close(21, Presence::Lost)).contains("no longer connected"));
        // One that leaves on purpose does not owe an answer.
        turns.open(4, 30);
        assert_eq!(turns.close(31, Presence::Left), Some((4, Outcome::Left)));
        let counts = turns.counts();
        assert_eq!((counts.steps, counts.refused, counts.late), (3, 3, 1));
    }

    #[derive(Debug, Clone)]
    enum Act {
        Answer { step: u64, good: bool },
        Pass(u64),
        Goes(Presence),
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let act = prop_oneof![
            6 => (0_u64..12, any::<bool>()).prop_map(|(step, good)| Act::Answer { step, good }),
            6 => (0_u64..150).prop_map(Act::Pass),
            1 => prop_oneof![Just(Presence::Left), Just(Presence::Lost)].prop_map(Act::Goes),
        ];
        prop::collection::vec(act, 0..80)
    }

    proptest! {
        /// Each step has one outcome, within the bound, and a decision is always an answer to that step in its time.
        #[test]
        fn each_turn_has_one_outcome(acts in acts()) {
            let mut turns: Turns<u64> = Turns::new(WITHIN_NS);
            let (mut now_ns, mut step, mut presence) = (0, 0, Presence::There);
            let (mut from_ns, mut answers, mut outcomes) = (0, Vec::new(), 0);
            turns.open(step, now_ns);
            for act in acts {
                match act {
                    Act::Answer { step, good } => {
                        let read = good.then_some(step).ok_or_else(|| "wrong".to_owned());
                        if good {
                            answers.push((step, now_ns));
                        }
                        let _ = turns.answer(step, now_ns, read);
                    }
                    Act::Pass(ns) => now_ns += ns,
                    Act::Goes(how) => presence = how,
                }
                let may_wait = turns.left_ns(now_ns) > 0;
                match turns.close(now_ns, presence) {
                    None => prop_assert!(may_wait && presence == Presence::There),
                    Some((of, outcome)) => {
                        prop_assert_eq!(of, step);
                        outcomes += u64::from(outcome != Outcome::Left);
                        if let Outcome::Decided(decided) = outcome {
                            prop_assert_eq!(decided, step);
                            let in_time = |(of, at_ns): &(u64, u64)| *of == step && (from_ns..=from_ns + WITHIN_NS).contains(at_ns);
                            prop_assert!(answers.iter().any(in_time));
                        }
                        step += 1;
                        from_ns = now_ns;
                        turns.open(step, now_ns);
                    }
                }
            }
            let counts = turns.counts();
            prop_assert_eq!(counts.steps, outcomes);
            prop_assert!(counts.decided + counts.late + counts.refused >= counts.steps);
            prop_assert_eq!(counts.decided, counts.answer_ns.count());
        }
    }
}
