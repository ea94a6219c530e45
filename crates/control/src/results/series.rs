//! Series of any length for pictures.

use std::collections::BTreeMap;

/// Maximum number of intervals of a curve. The minimum and the maximum of each interval are drawn.
pub(super) const PIECES: usize = 1_000;

/// A series of any length in bounded memory: the minimum and the maximum of each time interval. Intervals grow with the
/// series.
#[derive(Debug)]
pub(super) struct Series {
    piece_s: f64,
    /// The number of values.
    n: u64,
    pieces: BTreeMap<u64, [(f64, f64); 2]>,
}

impl Series {
    pub(super) fn new() -> Self {
        Self {
            piece_s: 1e-3,
            n: 0,
            pieces: BTreeMap::new(),
        }
    }

    pub(super) fn put(&mut self, t_s: f64, value: f64) {
        let point = (t_s, value);
        self.n += 1;
        self.join((t_s / self.piece_s) as u64, [point, point]);
        while self.pieces.len() > PIECES {
            self.piece_s *= 2.0;
            for (piece, extremes) in std::mem::take(&mut self.pieces) {
                self.join(piece / 2, extremes);
            }
        }
    }

    fn join(&mut self, piece: u64, [least, most]: [(f64, f64); 2]) {
        let known = self.pieces.entry(piece).or_insert([least, most]);
        if least.1 < known[0].1 {
            known[0] = least;
        }
        if most.1 > known[1].1 {
            known[1] = most;
        }
    }

    /// Returns its points in order of time, without duplicates.
    pub(super) fn points(&self) -> Vec<(f64, f64)> {
        let mut points: Vec<(f64, f64)> = self.pieces.values().flatten().copied().collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points.dedup();
        points
    }

    /// The number of values that were put in.
    pub(super) const fn count(&self) -> u64 {
        self.n
    }

    /// The length of its intervals, seconds.
    pub(super) const fn piece_s(&self) -> f64 {
        self.piece_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_series_keep_their_extremes() {
        let mut series = Series::new();
        for k in 0..100_000 {
            let value = if k == 77_777 {
                900.0
            } else {
                f64::from(k % 10)
            };
            series.put(f64::from(k) * 0.01, value);
        }
        assert!(series.pieces.len() <= PIECES && series.pieces.len() > PIECES / 4);
        let points = series.points();
        assert!(points.contains(&(777.77, 900.0)));
        assert!(points.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    }
}
