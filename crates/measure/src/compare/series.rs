//! Series of probes and rates over time.

/// A probe that was sent and perhaps answered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probe {
    /// Instant of sending, seconds since the Unix epoch or since any other full minute.
    pub t_s: f64,
    /// Round-trip time in milliseconds; `None`: lost.
    pub rtt_ms: Option<f64>,
}

/// A value at an instant (seconds, as [`Probe::t_s`]).
pub type Values = Vec<(f64, f64)>;

/// Everything that was measured between two ends.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// Probes in the order of sending.
    pub probes: Vec<Probe>,
    /// One-way delays in milliseconds, from terminal to network.
    pub up_ms: Values,
    /// One-way delays in milliseconds, from network to terminal.
    pub down_ms: Values,
    /// Throughput in Mbit/s, from network to terminal.
    pub down_mbps: Values,
    /// Throughput in Mbit/s, from terminal to network.
    pub up_mbps: Values,
}

impl Series {
    /// Returns the round-trip times of answered probes, with the instants of sending.
    #[must_use]
    pub fn rtts(&self) -> Values {
        let answered = self.probes.iter().filter_map(|p| Some((p.t_s, p.rtt_ms?)));
        answered.collect()
    }

    /// Moves all instants `by_s` later.
    pub fn shift(&mut self, by_s: f64) {
        self.probes.iter_mut().for_each(|probe| probe.t_s += by_s);
        for values in [
            &mut self.up_ms,
            &mut self.down_ms,
            &mut self.down_mbps,
            &mut self.up_mbps,
        ] {
            values.iter_mut().for_each(|value| value.0 += by_s);
        }
    }

    /// Appends everything of another series.
    pub fn extend(&mut self, other: Series) {
        self.probes.extend(other.probes);
        self.up_ms.extend(other.up_ms);
        self.down_ms.extend(other.down_ms);
        self.down_mbps.extend(other.down_mbps);
        self.up_mbps.extend(other.up_mbps);
    }

    /// Returns the part from `begin_s` up to `end_s`.
    #[must_use]
    pub fn between(&self, begin_s: f64, end_s: f64) -> Series {
        let within = |t: f64| (begin_s..end_s).contains(&t);
        let cut = |values: &Values| values.iter().copied().filter(|v| within(v.0)).collect();
        Series {
            probes: self
                .probes
                .iter()
                .copied()
                .filter(|p| within(p.t_s))
                .collect(),
            up_ms: cut(&self.up_ms),
            down_ms: cut(&self.down_ms),
            down_mbps: cut(&self.down_mbps),
            up_mbps: cut(&self.up_mbps),
        }
    }
}
