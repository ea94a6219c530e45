//! Durations and lateness of frames by edge, for frames steered between interfaces of the host.

use constel_link::{Histogram, Nanos, PortId};

/// Times of the frames of an edge.
#[derive(Clone, Debug)]
pub struct EdgeTimes {
    /// The port at which the edge begins.
    pub from: PortId,
    /// Time from the arrival of a frame until it was sent, nanoseconds.
    pub inside: Histogram,
    /// Time from its due time until it was sent.
    pub lateness: Histogram,
}

/// Times by the port at which edges begin, each of which has one edge. Memory is allocated with the first frame: 10 KiB
/// if frames take 100 ms.
#[derive(Debug, Default)]
pub(crate) struct Times(Vec<Option<Box<EdgeTimes>>>);

impl Times {
    /// Records a frame that came in at one instant, was due at another and was sent at a third.
    pub(crate) fn note(&mut self, from: PortId, (came, due, sent): (Nanos, Nanos, Nanos)) {
        let place = from.0 as usize;
        if self.0.len() <= place {
            self.0.resize_with(place + 1, || None);
        }
        let times = self.0[place].get_or_insert_with(|| {
            Box::new(EdgeTimes {
                from,
                inside: Histogram::growing(),
                lateness: Histogram::growing(),
            })
        });
        times.inside.record(sent.saturating_sub(came));
        times.lateness.record(sent.saturating_sub(due));
    }

    /// Returns up to `most` edges from a place on, and the place of the next call if there are more.
    pub(crate) fn some(&self, start: usize, most: usize) -> (Vec<EdgeTimes>, Option<usize>) {
        let mut found = Vec::new();
        for (place, times) in self.0.iter().enumerate().skip(start) {
            if found.len() == most {
                return (found, Some(place));
            }
            found.extend(times.as_deref().cloned());
        }
        (found, None)
    }

    /// Resets the times of edges from these ports.
    pub(crate) fn forget(&mut self, ports: &[PortId]) {
        for port in ports {
            if let Some(times) = self.0.get_mut(port.0 as usize) {
                *times = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_edge_has_its_own_and_they_are_read_in_parts() {
        let mut times = Times::default();
        for from in [3, 40, 41] {
            for n in 0..10 {
                times.note(PortId(from), (1000, 2000 + n, 2500));
            }
        }
        let (first, more) = times.some(0, 2);
        assert_eq!(first.iter().map(|t| t.from.0).collect::<Vec<_>>(), [3, 40]);
        let (rest, over) = times.some(more.unwrap(), 2);
        assert_eq!((rest.len(), rest[0].from, over), (1, PortId(41), None));
        let (inside, late) = (rest[0].inside.quantiles(), rest[0].lateness.quantiles());
        assert_eq!((inside.count, inside.max_ns, late.max_ns), (10, 1500, 500));
        times.forget(&[PortId(41), PortId(9999)]);
        assert_eq!(times.some(0, 9).0.len(), 2);
    }
}
