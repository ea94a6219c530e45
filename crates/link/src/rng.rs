//! The generator behind random impairments: xoshiro256** (Blackman and Vigna, "Scrambled linear pseudorandom number
//! generators", 2018), seeded by splitmix64. Each edge has its own, so that an edge's draws never depend on the traffic
//! of another.

/// Random numbers of one edge, or of one port of a medium.
#[derive(Clone, Debug)]
pub struct Rng {
    s: [u64; 4],
}

/// Returns the next number of the splitmix64 generator with this state.
pub(crate) fn splitmix64(state: &mut u64) -> u64 {
    // The increment is 2^64 divided by the golden ratio; the factors are Stafford's variant 13 of MurmurHash3.
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns the uniform number within 0..1, both ends excluded, of 64 random bits: an odd multiple of 2^-53.
pub(crate) fn unit_of(bits: u64) -> f64 {
    ((bits >> 12) as f64 + 0.5) / 4_503_599_627_370_496.0
}

impl Rng {
    /// Returns the generator of life number `life` (0 for the first) of the edge `from -> to` in a lab with this seed.
    /// Every life has its own sequence, so a link that comes and goes does not lose the same frames each time.
    #[must_use]
    pub fn for_edge(lab_seed: u64, from: u32, to: u32, life: u32) -> Rng {
        let mut state = lab_seed;
        let mut mix = splitmix64(&mut state);
        for word in [(u64::from(from) << 32) | u64::from(to), u64::from(life)] {
            state = mix ^ word;
            mix = splitmix64(&mut state);
        }
        Rng {
            s: std::array::from_fn(|_| splitmix64(&mut state)),
        }
    }

    /// Returns the generator's state, for another implementation that continues the sequence.
    pub(crate) fn state(&self) -> [u64; 4] {
        self.s
    }

    /// Returns a further generator of the same edge and life. Each law has its own, so that a law's draws do not depend
    /// on which other laws are in force.
    pub(crate) fn stream(&self, number: u64) -> Rng {
        // All words of the state enter, so that generators of different edges do not meet.
        let mut state = self.s[0] ^ number.wrapping_mul(0xd134_2543_de82_ef95);
        let mut mix = splitmix64(&mut state);
        for word in &self.s[1..] {
            state = mix ^ word;
            mix = splitmix64(&mut state);
        }
        Rng {
            s: std::array::from_fn(|_| splitmix64(&mut state)),
        }
    }

    /// Returns a uniform number within 0..1, both ends excluded.
    pub fn unit(&mut self) -> f64 {
        unit_of(self.next_u64())
    }

    /// Returns a normal number with mean 0 and deviation 1 (Box and Muller 1958). It takes two draws; the second number
    /// of the pair is not kept, so the state stays that of the generator alone.
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.unit().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Returns 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let result = self.s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = self.s[1] << 17;
        self.s[2] ^= self.s[0];
        self.s[3] ^= self.s[1];
        self.s[1] ^= self.s[2];
        self.s[0] ^= self.s[3];
        self.s[2] ^= t;
        self.s[3] = self.s[3].rotate_left(45);
        result
    }

    /// Returns true with this probability (exact to 2^-64): always at 1, never at 0.
    pub fn chance(&mut self, ratio: f64) -> bool {
        let draw = self.next_u64();
        // The factor is 2^64 as f64. The cast saturates, so 1.0 needs its own test.
        ratio >= 1.0 || draw < (ratio * 18_446_744_073_709_551_616.0) as u64
    }
}

/// Returns the state of the xoshiro256** generator that decides which frames an edge's Bernoulli law loses, one draw
/// per frame. It is for drivers whose model is not this crate's code. Arguments as in [`crate::Edge::new`].
#[must_use]
pub fn loss_generator(lab_seed: u64, from: u32, to: u32, life: u32) -> [u64; 4] {
    Rng::for_edge(lab_seed, from, to, life).state()
}

/// Returns the threshold below which a draw of [`loss_generator`] means that the frame is lost; `None`: all frames are
/// lost.
#[must_use]
pub fn loss_threshold(ratio: f64) -> Option<u64> {
    (ratio < 1.0).then_some((ratio * 18_446_744_073_709_551_616.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_published_algorithm() {
        // First outputs of xoshiro256** from state 1, 2, 3, 4, worked out by hand from the paper:
        // 2*5 = 10, rotl 7 = 1280, *9 = 11520; then s[1] becomes 0.
        let mut rng = Rng { s: [1, 2, 3, 4] };
        assert_eq!(rng.next_u64(), 11_520);
        assert_eq!(rng.next_u64(), 0);
        assert_eq!(rng.next_u64(), 1_509_978_240);
    }

    #[test]
    fn edges_and_lives_differ_and_repeat() {
        let draw = |seed, from, to, life| {
            let mut rng = Rng::for_edge(seed, from, to, life);
            [rng.next_u64(), rng.next_u64()]
        };
        let all = [
            draw(1, 0, 1, 0),
            draw(1, 1, 0, 0),
            draw(2, 0, 1, 0),
            draw(1, 0, 1, 1),
        ];
        for (i, a) in all.iter().enumerate() {
            for b in &all[i + 1..] {
                assert_ne!(a, b);
            }
        }
        assert_eq!(draw(1, 0, 1, 0), all[0]);
    }

    #[test]
    fn chance_keeps_its_probability() {
        let mut rng = Rng::for_edge(7, 0, 1, 0);
        let n = 1_000_000;
        for ratio in [0.0001, 0.01, 0.3] {
            let hits = (0..n).filter(|_| rng.chance(ratio)).count() as f64;
            let sd = (f64::from(n) * ratio * (1.0 - ratio)).sqrt();
            assert!(
                (hits - f64::from(n) * ratio).abs() < 4.0 * sd,
                "{ratio}: {hits}"
            );
        }
        assert!((0..1000).all(|_| rng.chance(1.0)));
        assert!(!(0..1000).any(|_| rng.chance(0.0)));
    }
}
