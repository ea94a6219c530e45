//! Eight instants in parallel: the compiler turns a loop over them into vector instructions.

use std::ops::{Deref, DerefMut};

/// How many instants are looked at together.
pub const LANES: usize = 8;

/// Nanoseconds at each of [`LANES`] instants. Whole numbers below 2^53, so sums are exact; infinite where there is
/// no way. (Doubles, because every x86-64 adds and compares two of them at once; unsigned 64-bit integers have to
/// wait for AVX-512.)
///
/// Aligned so that they are one line of the cache, not halves of two.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(align(64))]
pub(super) struct Times(pub(super) [f64; LANES]);

impl Deref for Times {
    type Target = [f64; LANES];

    #[inline(always)]
    fn deref(&self) -> &[f64; LANES] {
        &self.0
    }
}

impl DerefMut for Times {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [f64; LANES] {
        &mut self.0
    }
}

/// All instants, as bits.
pub(super) const ALL: u32 = (1 << LANES) - 1;

/// No way at any instant.
pub(super) const NEVER: Times = Times([f64::INFINITY; LANES]);

/// No delay at any instant.
pub(super) const NOTHING: Times = Times([0.0; LANES]);

/// `fn NAME as ONCE, FOUR(..)`: NAME has the effect of ONCE, with instructions for four doubles at once if the
/// processor has them. ONCE must always be inlined, so that it is compiled for both.
macro_rules! twice {
    ($(#[$doc:meta])* fn $name:ident as $once:ident, $four:ident(&self $(, $argument:ident: $type:ty)*) -> $result:ty) => {
        $(#[$doc])*
        fn $name(&self $(, $argument: $type)*) -> $result {
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                #[allow(unsafe_code, reason = "the one way to what only some processors have")]
                // SAFETY: the processor has AVX2.
                return unsafe { self.$four($($argument),*) };
            }
            self.$once($($argument),*)
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2")]
        fn $four(&self $(, $argument: $type)*) -> $result {
            self.$once($($argument),*)
        }
    };
}
pub(super) use twice;

/// `least = min(least, a + b)`.
#[inline(always)]
pub(super) fn lower(least: &mut Times, a: &Times, b: &Times) {
    for lane in 0..LANES {
        let sum = a[lane] + b[lane];
        least[lane] = if sum < least[lane] { sum } else { least[lane] };
    }
}

/// `most = max(most, known - (a + b))`: positive where `a + b` is less than `known`.
#[inline(always)]
pub(super) fn excess(most: &mut Times, known: &Times, a: &Times, b: &Times) {
    for lane in 0..LANES {
        // Not a number, where neither way exists, compares as false.
        let over = known[lane] - (a[lane] + b[lane]);
        most[lane] = if over > most[lane] { over } else { most[lane] };
    }
}

/// Whether any is more than 0.
#[inline(always)]
pub(super) fn any_positive(times: &Times) -> bool {
    times.iter().fold(0, |any, t| any | u64::from(*t > 0.0)) != 0
}

/// The lanes in which `a + b` is `sum`, as bits; two of them infinite are the same.
#[inline(always)]
pub(super) fn equal(a: &Times, b: &Times, sum: &Times) -> u32 {
    // Neither is ever negative or no number: equal ones have equal bits. Mostly all lanes are, or none.
    let mut differ = [0; LANES];
    for lane in 0..LANES {
        differ[lane] = (a[lane] + b[lane]).to_bits() ^ sum[lane].to_bits();
    }
    if differ.iter().fold(0, |any, bits| any | bits) == 0 {
        return ALL;
    }
    (0..LANES).fold(0, |set, lane| set | (u32::from(differ[lane] == 0) << lane))
}

/// Replaces `least` by `a + b` and `by` by `from` in the lanes where the sum is smaller, or equal and `from` is
/// before `by`.
#[inline(always)]
pub(super) fn choose(least: &mut Times, by: &mut [u32; LANES], a: &Times, b: &Times, from: u32) {
    for lane in 0..LANES {
        let sum = a[lane] + b[lane];
        if sum < least[lane] || (sum == least[lane] && from < by[lane]) {
            (least[lane], by[lane]) = (sum, from);
        }
    }
}
