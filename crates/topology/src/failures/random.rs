//! Random times of failure and repair, each object's from a generator of its own.

/// Times of failure and repair, exponentially distributed; working at the start of the lab.
#[derive(Debug, Clone)]
pub(super) struct Process {
    key: u64,
    pub(super) mtbf_ns: f64,
    pub(super) mttr_ns: f64,
    random: SplitMix,
    broken: bool,
    /// The time of the next change of state, and the time of the last query.
    next_ns: f64,
    pub(super) asked_ns: u64,
}

impl Process {
    pub(super) fn new(key: u64, mtbf_ns: u64, mttr_ns: u64) -> Process {
        let mut process = Process {
            key,
            mtbf_ns: mtbf_ns as f64,
            mttr_ns: mttr_ns as f64,
            random: SplitMix(key),
            broken: false,
            next_ns: 0.0,
            asked_ns: 0,
        };
        process.restart();
        process
    }

    fn restart(&mut self) {
        self.random = SplitMix(self.key);
        self.broken = false;
        self.next_ns = self.random.exponential(self.mtbf_ns);
        self.asked_ns = 0;
    }

    pub(super) fn broken_at(&mut self, t_ns: u64) -> bool {
        if t_ns < self.asked_ns {
            self.restart();
        }
        self.asked_ns = t_ns;
        while self.next_ns <= t_ns as f64 {
            self.broken = !self.broken;
            let mean = if self.broken {
                self.mttr_ns
            } else {
                self.mtbf_ns
            };
            // At least a nanosecond, so that time advances.
            self.next_ns += self.random.exponential(mean).max(1.0);
        }
        self.broken
    }
}

/// Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
#[derive(Debug, Clone, Copy)]
pub(super) struct SplitMix(pub(super) u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 53 random bits in (0, 1].
    pub(super) fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 1.0) / (1u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.unit().ln()
    }
}

/// A number for the seed, a purpose (such as a failure's name) and an object: FNV-1a of the three, stirred.
pub fn key(seed: u64, failure: &str, object: &str) -> u64 {
    let bytes = seed.to_le_bytes();
    let parts = [&bytes[..], failure.as_bytes(), &[0], object.as_bytes()];
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in parts.into_iter().flatten() {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    SplitMix(hash).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_time_broken_is_that_of_repair() {
        let (mtbf, mttr) = (100_000_000_000, 25_000_000_000);
        let mut broken = 0;
        let total = 400_000;
        let mut process = Process::new(key(7, "f", "sat"), mtbf, mttr);
        for t in 0..total {
            broken += u32::from(process.broken_at(t * 1_000_000_000));
        }
        let share = f64::from(broken) / total as f64;
        assert!((share - 0.2).abs() < 0.01, "{share}");
        // Going back gives what was there before.
        let mut again = Process::new(key(7, "f", "sat"), mtbf, mttr);
        let states: Vec<bool> = (0..2000)
            .map(|t| again.broken_at(t * 1_000_000_000))
            .collect();
        for t in [1999_u64, 3, 700, 699, 0] {
            assert_eq!(process.broken_at(t * 1_000_000_000), states[t as usize]);
        }
    }

    #[test]
    fn keys_differ() {
        let all = [
            key(1, "a", "b"),
            key(2, "a", "b"),
            key(1, "ab", ""),
            key(1, "a", "c"),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(!all[i + 1..].contains(a));
        }
    }
}
