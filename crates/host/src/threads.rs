//! Joining of threads.

use std::panic::resume_unwind;
use std::thread::ScopedJoinHandle;

/// Returns the result of a thread, once it has ended; its panic is raised in the caller.
pub fn result_of<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    let ended = thread.join();
    ended.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Returns the results of all threads: all have ended before a panic of one is raised in the caller.
pub fn results_of<'s, T>(threads: impl IntoIterator<Item = ScopedJoinHandle<'s, T>>) -> Vec<T>
where
    T: 's,
{
    let ended = threads.into_iter().map(ScopedJoinHandle::join);
    let ended: Vec<_> = ended.collect();
    let ended = ended.into_iter();
    ended
        .map(|ended| ended.unwrap_or_else(|panic| resume_unwind(panic)))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn results_come_in_order_and_a_panic_is_the_callers() {
        let numbers = thread::scope(|scope| results_of((0..5).map(|n| scope.spawn(move || n))));
        assert_eq!(numbers, [0, 1, 2, 3, 4]);
        let ended = AtomicBool::new(false);
        let panic = catch_unwind(AssertUnwindSafe(|| {
            thread::scope(|scope| {
                let first = scope.spawn(|| resume_unwind(Box::new("the first")));
                let second = scope.spawn(|| {
                    thread::sleep(Duration::from_millis(20));
                    ended.store(true, Ordering::Release);
                });
                results_of([first, second])
            })
        }));
        let panic = panic.unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"the first"));
        assert!(ended.load(Ordering::Acquire));
        let alone = catch_unwind(|| {
            thread::scope(|scope| result_of(scope.spawn(|| resume_unwind(Box::new(7)))))
        });
        assert_eq!(alone.unwrap_err().downcast_ref(), Some(&7));
    }
}
