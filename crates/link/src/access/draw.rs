//! Random numbers of a terminal, as functions of their purpose and position.

use crate::rng::splitmix64;
use crate::types::Nanos;

/// Purpose of a number. Each has numbers of its own, so that a part's draws do not depend on the other parts.
/// Changing these values would change the random numbers of existing seeds.
#[derive(Clone, Copy, Debug)]
pub(super) enum For {
    Load = 1,
    Step = 2,
    LongStep = 3,
    Handover = 4,
    HandoverLength = 5,
    Relink = 6,
    RelinkLength = 7,
    RelinkStart = 8,
    Blockage = 9,
    UpGrant = 10,
    DownGrant = 11,
    UpTransmission = 12,
    DownTransmission = 13,
    UpRate = 14,
    DownRate = 15,
    Phase = 16,
    LoadChange = 17,
    StepChange = 18,
    StepChangeStart = 19,
    LaterStep = 20,
    LaterLongStep = 21,
    Hold = 22,
    Partial = 23,
    PartialState = 24,
}

/// A terminal: its random numbers, and its place in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terminal {
    key: u64,
    /// Instant of a full minute of UTC on the clock of all instants.
    pub(super) minute_ns: Nanos,
    /// Local mean solar time at that instant, hours, 0 to 24.
    pub(super) hour: f64,
}

impl Terminal {
    /// Returns the terminal with this number in a lab with this seed. Minutes of UTC begin at instant 0, at midnight of
    /// the terminal's local mean solar time.
    #[must_use]
    pub fn new(lab_seed: u64, number: u32) -> Terminal {
        let mut state = lab_seed;
        let mut key = splitmix64(&mut state) ^ u64::from(number);
        Terminal {
            key: splitmix64(&mut key),
            minute_ns: 0,
            hour: 0.0,
        }
    }

    /// Returns the terminal with another place in time: a minute of UTC begins at `minute_ns`, when its local mean
    /// solar time is `hour` (any number of hours from midnight).
    #[must_use]
    pub fn at(mut self, minute_ns: Nanos, hour: f64) -> Terminal {
        self.minute_ns = minute_ns;
        self.hour = hour.rem_euclid(24.0);
        self
    }

    fn bits(&self, purpose: For, index: u64) -> u64 {
        let mut state = self.key ^ (purpose as u64).wrapping_mul(0xd134_2543_de82_ef95);
        let mut mixed = splitmix64(&mut state) ^ index;
        splitmix64(&mut mixed)
    }

    /// Returns a uniform number within 0..1, both ends excluded.
    pub(super) fn unit(&self, purpose: For, index: u64) -> f64 {
        crate::rng::unit_of(self.bits(purpose, index))
    }

    /// Returns a normal number with mean 0 and deviation 1 (Box and Muller 1958).
    pub(super) fn normal(&self, purpose: For, index: u64) -> f64 {
        let bits = self.bits(purpose, index);
        let mut state = bits;
        let radius = (-2.0 * crate::rng::unit_of(bits).ln()).sqrt();
        let turn = std::f64::consts::TAU * crate::rng::unit_of(splitmix64(&mut state));
        radius * turn.cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purposes_terminals_and_indices_have_numbers_of_their_own() {
        let one = Terminal::new(1, 1);
        let all = [
            one.bits(For::Load, 0),
            one.bits(For::Load, 1),
            one.bits(For::Step, 0),
            Terminal::new(1, 2).bits(For::Load, 0),
            Terminal::new(2, 1).bits(For::Load, 0),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b), "{all:?}");
        }
        assert_eq!(Terminal::new(1, 1).bits(For::Load, 0), all[0]);
    }

    #[test]
    fn neighbouring_indices_are_independent() {
        let terminal = Terminal::new(9, 4);
        let n = 100_000;
        let z: Vec<f64> = (0..=n).map(|i| terminal.normal(For::Load, i)).collect();
        let mean = z.iter().sum::<f64>() / z.len() as f64;
        let square = z.iter().map(|z| z * z).sum::<f64>() / z.len() as f64;
        let lag = z.windows(2).map(|w| w[0] * w[1]).sum::<f64>() / n as f64;
        // Four deviations of each mean over 100,000 numbers.
        assert!(mean.abs() < 0.013, "{mean}");
        assert!((square - 1.0).abs() < 0.018, "{square}");
        assert!(lag.abs() < 0.013, "{lag}");
    }
}
