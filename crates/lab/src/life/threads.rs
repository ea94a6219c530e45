//! How many threads the relay has in a lab, and why.

use constel_drivers::relay::Relay;
use constel_plan::Lab;
use constel_scenario::model::Threads;

/// Machines of up to so many processors have one unless more are asked for: the lab's programs need the others.
const SMALL: usize = 3;
/// Unless more are asked for there are no more than this.
const AUTO_MAX: usize = 4;

/// The number of threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RelayThreads {
    pub(crate) count: usize,
    pub(crate) why: String,
}

impl RelayThreads {
    /// For this lab on this machine; `several`: it is one machine's part of a lab.
    pub(crate) fn of(lab: &Lab, several: bool) -> RelayThreads {
        RelayThreads::on(
            lab.scenario.threads,
            Relay::processors().len().max(1),
            (lab.stacks(), several),
            Relay::threads_max(),
        )
    }

    fn on(
        asked: Threads,
        processors: usize,
        (stacks, several): (usize, bool),
        most: usize,
    ) -> RelayThreads {
        let count = match asked {
            Threads::Count(count) => {
                let count = usize::from(count);
                let all = count > 1 && count == processors;
                let why = if all {
                    "as the scenario asks; the last one shares a processor while one is enough for both"
                } else {
                    "as the scenario asks"
                };
                let why = why.to_owned();
                return RelayThreads { count, why };
            }
            Threads::Auto if several => {
                return RelayThreads {
                    count: 1,
                    why: "a lab on several machines has one on each".to_owned(),
                };
            }
            Threads::Auto if processors <= SMALL => 1,
            Threads::Auto => (processors / 4 + 1).min(AUTO_MAX).min(most),
        };
        if stacks < count {
            return RelayThreads {
                count: stacks.max(1),
                why: format!("`auto`: nodes with a stack: {stacks}"),
            };
        }
        RelayThreads {
            count,
            why: format!("`auto`: processors: {processors}"),
        }
    }
}

/// Why the relay cannot have so many threads here, if it cannot.
pub(crate) fn refusal(asked: Threads) -> Option<String> {
    let most = Relay::threads_max();
    match asked {
        Threads::Count(count) if usize::from(count) > most => Some(format!(
            "`links.threads` is {count}; on this machine 1 to {most} are allowed, or `auto`: it has no more processors for the lab"
        )),
        Threads::Count(_) | Threads::Auto => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_machines_have_one_and_none_gives_all() {
        let auto = |processors| RelayThreads::on(Threads::Auto, processors, (100, false), 8).count;
        let counts: Vec<usize> = (1..=5).map(auto).collect();
        assert_eq!(counts, [1, 1, 1, 2, 2]);
        assert_eq!((auto(8), auto(12), auto(128)), (3, 4, 4));
        let of = |asked, stacks, several| RelayThreads::on(asked, 64, (stacks, several), 8).count;
        assert_eq!(of(Threads::Auto, 2, false), 2);
        assert_eq!(of(Threads::Auto, 0, false), 1);
        assert_eq!(of(Threads::Auto, 100, true), 1);
        assert_eq!(of(Threads::Count(7), 2, false), 7);
        let shares = |count| {
            let asked = RelayThreads::on(Threads::Count(count), 2, (100, false), 8);
            asked.why.contains("shares a processor")
        };
        assert_eq!([1, 2, 3].map(shares), [false, true, false]);
    }

    #[test]
    fn more_than_there_are_processors_are_refused_with_what_is_allowed() {
        assert_eq!(refusal(Threads::Auto), None);
        assert_eq!(refusal(Threads::Count(1)), None);
        let most = Relay::threads_max();
        let why = refusal(Threads::Count(most as u8 + 1)).unwrap();
        assert!(why.contains(&format!("1 to {most} are allowed")), "{why}");
    }
}
