//! A bounded ring between two threads: one pushes, one pops, and neither ever waits.

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A counter in a cache line of its own, so that the two sides do not slow each other down.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart(AtomicUsize);

struct Shared<T> {
    places: Box<[UnsafeCell<MaybeUninit<T>>]>,
    /// Number of values popped so far; only the consumer writes it.
    popped: Apart,
    /// Number of values pushed so far; only the producer writes it.
    pushed: Apart,
}

// SAFETY: a place is written by the producer before it advances `pushed` (Release), read by the consumer after it has
// read that (Acquire), and written again only after `popped` shows that it was read: never by both at a time.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: values go from thread to thread, which is what `T: Send` allows.
unsafe impl<T: Send> Send for Shared<T> {}

impl<T> Shared<T> {
    fn place(&self, position: usize) -> *mut MaybeUninit<T> {
        self.places[position & (self.places.len() - 1)].get()
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        let (popped, pushed) = (*self.popped.0.get_mut(), *self.pushed.0.get_mut());
        let mut position = popped;
        while position != pushed {
            // SAFETY: pushed and not popped, and no other reference is left.
            unsafe { (*self.place(position)).assume_init_drop() };
            position = position.wrapping_add(1);
        }
    }
}

/// The pushing side.
pub(crate) struct Producer<T> {
    shared: Arc<Shared<T>>,
    pushed: usize,
    /// Last value read of the number of popped values.
    popped: usize,
}

/// The popping side.
pub(crate) struct Consumer<T> {
    shared: Arc<Shared<T>>,
    popped: usize,
    /// Last value read of the number of pushed values.
    pushed: usize,
}

impl<T> fmt::Debug for Producer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Consumer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").finish_non_exhaustive()
    }
}

/// Creates a ring with room for `room` values, rounded up to a power of two.
pub(crate) fn ring<T>(room: usize) -> (Producer<T>, Consumer<T>) {
    let place = |_| UnsafeCell::new(MaybeUninit::uninit());
    let shared = Arc::new(Shared {
        places: (0..room.next_power_of_two()).map(place).collect(),
        popped: Apart::default(),
        pushed: Apart::default(),
    });
    let producer = Producer {
        shared: shared.clone(),
        pushed: 0,
        popped: 0,
    };
    let consumer = Consumer {
        shared,
        popped: 0,
        pushed: 0,
    };
    (producer, consumer)
}

impl<T> Producer<T> {
    /// Returns how many values can be pushed, at least.
    pub(crate) fn room(&mut self) -> usize {
        let all = self.shared.places.len();
        // The counter is read again only if the ring may be full: the other side's cache line is expensive to read.
        if self.pushed.wrapping_sub(self.popped) > all / 2 {
            self.popped = self.shared.popped.0.load(Ordering::Acquire);
        }
        all - self.pushed.wrapping_sub(self.popped)
    }

    /// Pushes a value. Returns it if there is no room.
    pub(crate) fn push(&mut self, value: T) -> Result<(), T> {
        if self.room() == 0 {
            return Err(value);
        }
        // SAFETY: there is room, so this place was popped or never used, and only this side writes it.
        unsafe { (*self.shared.place(self.pushed)).write(value) };
        self.pushed = self.pushed.wrapping_add(1);
        self.shared.pushed.0.store(self.pushed, Ordering::Release);
        Ok(())
    }
}

impl<T> Consumer<T> {
    /// Returns whether there is a value.
    pub(crate) fn has_some(&mut self) -> bool {
        if self.popped == self.pushed {
            self.pushed = self.shared.pushed.0.load(Ordering::Acquire);
        }
        self.popped != self.pushed
    }

    /// Returns how many values there are, at least.
    pub(crate) fn waiting(&self) -> usize {
        let pushed = self.shared.pushed.0.load(Ordering::Acquire);
        pushed.wrapping_sub(self.popped)
    }

    /// Returns the next value without removing it.
    pub(crate) fn peek(&mut self) -> Option<&T> {
        if !self.has_some() {
            return None;
        }
        // SAFETY: pushed, and not popped as long as `self` is borrowed.
        Some(unsafe { (*self.shared.place(self.popped)).assume_init_ref() })
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        if !self.has_some() {
            return None;
        }
        // SAFETY: pushed, and read once: from here on the place counts as popped.
        let value = unsafe { (*self.shared.place(self.popped)).assume_init_read() };
        self.popped = self.popped.wrapping_add(1);
        self.shared.popped.0.store(self.popped, Ordering::Release);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// As a queue of bounded length would.
        #[test]
        fn is_a_bounded_queue(room in 1usize..9, pushes in prop::collection::vec(any::<bool>(), 0..200)) {
            let (mut producer, mut consumer) = ring(room);
            let most = room.next_power_of_two();
            let mut model = VecDeque::new();
            for (number, push) in pushes.into_iter().enumerate() {
                if push {
                    let fits = model.len() < most;
                    prop_assert_eq!(producer.push(number).is_ok(), fits);
                    if fits {
                        model.push_back(number);
                    }
                } else {
                    prop_assert_eq!(consumer.peek().copied(), model.front().copied());
                    prop_assert_eq!(consumer.pop(), model.pop_front());
                }
                prop_assert_eq!(consumer.has_some(), !model.is_empty());
                // It may not have been looked at lately, but never promises too much.
                prop_assert!(producer.room() <= most - model.len());
            }
        }
    }

    #[test]
    fn between_two_threads_nothing_is_lost_doubled_or_out_of_order() {
        let (mut producer, mut consumer) = ring::<Box<u64>>(64);
        const ALL: u64 = 200_000;
        let pushing = std::thread::spawn(move || {
            for number in 0..ALL {
                let mut value = Box::new(number);
                while let Err(back) = producer.push(value) {
                    value = back;
                    std::thread::yield_now();
                }
            }
        });
        for number in 0..ALL {
            let value = loop {
                match consumer.pop() {
                    Some(value) => break value,
                    None => std::thread::yield_now(),
                }
            };
            assert_eq!(*value, number);
        }
        pushing.join().unwrap();
        assert!(consumer.pop().is_none());
    }

    #[test]
    fn what_is_left_is_dropped_once() {
        let all = Arc::new(());
        let (mut producer, mut consumer) = ring(8);
        for _ in 0..5 {
            assert!(producer.push(all.clone()).is_ok());
        }
        drop(consumer.pop());
        assert_eq!(Arc::strong_count(&all), 5);
        drop((producer, consumer));
        assert_eq!(Arc::strong_count(&all), 1);
    }
}
