//! Modulation and coding: how much a carrier carries.

/// A modulation with a code rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Modcod {
    /// As the standard calls it.
    pub name: &'static str,
    /// Bits per symbol that carry data.
    pub efficiency: f64,
    /// Symbol energy to noise it needs, dB, without fading.
    pub es_n0_db: f64,
}

/// DVB-S2 with long frames at quasi error-free: ETSI EN 302 307-1, table 13. In order of rate; MODCODs that
/// another one exceeds in both respects are left out.
pub const DVB_S2: [Modcod; 21] = {
    const fn m(name: &'static str, efficiency: f64, es_n0_db: f64) -> Modcod {
        Modcod {
            name,
            efficiency,
            es_n0_db,
        }
    }
    [
        m("QPSK 1/4", 0.490_243, -2.35),
        m("QPSK 1/3", 0.656_448, -1.24),
        m("QPSK 2/5", 0.789_412, -0.30),
        m("QPSK 1/2", 0.988_858, 1.00),
        m("QPSK 3/5", 1.188_304, 2.23),
        m("QPSK 2/3", 1.322_253, 3.10),
        m("QPSK 3/4", 1.487_473, 4.03),
        m("QPSK 4/5", 1.587_196, 4.68),
        m("QPSK 5/6", 1.654_663, 5.18),
        m("8PSK 3/5", 1.779_991, 5.50),
        m("8PSK 2/3", 1.980_636, 6.62),
        m("8PSK 3/4", 2.228_124, 7.91),
        m("16APSK 2/3", 2.637_201, 8.97),
        m("16APSK 3/4", 2.966_728, 10.21),
        m("16APSK 4/5", 3.165_623, 11.03),
        m("16APSK 5/6", 3.300_184, 11.61),
        m("32APSK 3/4", 3.703_295, 12.73),
        m("32APSK 4/5", 3.951_571, 13.64),
        m("32APSK 5/6", 4.119_540, 14.28),
        m("32APSK 8/9", 4.397_854, 15.69),
        m("32APSK 9/10", 4.453_027, 16.05),
    ]
};

/// The most efficient of `table` that `es_n0_db` is enough for, with `margin_db` to spare; `None` when the link
/// does not close.
#[must_use]
pub fn best(table: &[Modcod], es_n0_db: f64, margin_db: f64) -> Option<&Modcod> {
    let fits = table.iter().filter(|m| m.es_n0_db + margin_db <= es_n0_db);
    fits.max_by(|a, b| a.efficiency.total_cmp(&b.efficiency))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_signal_carries_more_and_none_beats_shannon() {
        for pair in DVB_S2.windows(2) {
            assert!(pair[0].efficiency < pair[1].efficiency && pair[0].es_n0_db < pair[1].es_n0_db);
        }
        for m in DVB_S2 {
            let shannon = (1.0 + 10_f64.powf(m.es_n0_db / 10.0)).log2();
            assert!(m.efficiency < shannon, "{}", m.name);
        }
    }

    #[test]
    fn the_best_that_closes_is_chosen() {
        let name = |es_n0, margin| best(&DVB_S2, es_n0, margin).map(|m| m.name);
        assert_eq!(name(30.0, 0.0), Some("32APSK 9/10"));
        assert_eq!(name(8.97, 0.0), Some("16APSK 2/3"));
        assert_eq!(name(8.97, 0.5), Some("8PSK 3/4"));
        assert_eq!(name(-2.36, 0.0), None);
    }
}
