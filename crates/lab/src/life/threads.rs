//! The number of the relay's threads in a lab, and the reason for it.

use constel_drivers::relay::Relay;
use constel_plan::Lab;
use constel_scenario::model::Threads;

/// The number of processors up to which `auto` gives one thread: the lab's programs need the others.
const SMALL: usize = 3;
/// The largest number of threads that `auto` gives.
const AUTO_MAX: usize = 4;

/// The number of threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RelayThreads {
    pub(crate) count: usize,
    pub(crate) why: String,
}

impl RelayThreads {
    /// Returns the number for this lab on this machine; `several` for one machine's part of a lab.
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
        // `auto` gives one thread per four processors and one more, because the lab's programs need most of the
        // processors.
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
        // A thread serves whole nodes, so that more threads than nodes with a stack would be idle.
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

/// Returns the reason why the relay cannot have this many threads here, if there is one.
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
