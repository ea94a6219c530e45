//! A batch of frames that the relay's thread sends at a time: single frames, and joined ones of TCP streams.

use constel_link::{Delivery, Nanos, PortId};

use super::gro::{Joined, Segment};
use super::layout::SlotRef;
use super::passed::Mark;

/// With fewer frames than this, joining costs more than it saves.
const JOINED_MIN: u16 = 3;

/// Properties of a frame in the batch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    pub(super) class: u8,
    /// When it came in, if that is known.
    pub(super) entered: Option<Nanos>,
    /// Mark by which it is recognised if its node forwards it.
    pub(super) mark: Option<Mark>,
}

/// A frame of the batch.
#[derive(Clone, Copy, Debug)]
struct Item {
    delivery: Delivery<SlotRef>,
    known: Known,
    /// The stream that it belongs to, if it may be joined with others.
    stream: Option<usize>,
}

#[derive(Debug)]
struct Stream {
    joined: Joined,
    edge: (PortId, PortId),
    /// Place of its first frame in the batch.
    first: usize,
    /// Whether the next frame of the edge may join it too.
    open: bool,
}

/// Frames in the order in which they came out of the table. Frames of an edge stay in order: only consecutive frames of
/// an edge are joined.
#[derive(Debug, Default)]
pub(super) struct TxBatch {
    items: Vec<Item>,
    streams: Vec<Stream>,
    sendings: usize,
}

/// How the frame at a place of the batch is sent.
pub(super) enum Sending<'a> {
    /// It is sent alone.
    Alone(Delivery<SlotRef>),
    /// It is the first of several frames that are sent as one.
    Joined(&'a Joined, Delivery<SlotRef>),
    /// It was sent together with another.
    Done,
}

impl TxBatch {
    pub(super) fn clear(&mut self) {
        self.items.clear();
        self.streams.clear();
        self.sendings = 0;
    }

    /// Returns the number of frames.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns the approximate number of sendings.
    pub(super) fn sendings(&self) -> usize {
        self.sendings
    }

    /// Adds a frame; `segment` if it may be joined with others.
    pub(super) fn push(
        &mut self,
        delivery: Delivery<SlotRef>,
        known: Known,
        segment: Option<Segment>,
    ) {
        let edge = (delivery.from, delivery.to);
        let open = |s: &Stream| s.open && s.edge == edge;
        // The last stream of the edge, because only consecutive frames may be joined.
        let found = self.streams.iter().rposition(open);
        let continued = found.zip(segment.as_ref()).filter(|&(place, segment)| {
            let stream = &mut self.streams[place];
            stream.open = stream.joined.take(segment);
            stream.open
        });
        let stream = match (continued, segment) {
            (Some((place, _)), _) => Some(place),
            (None, segment) => {
                if let Some(place) = found {
                    self.streams[place].open = false;
                }
                self.sendings += 1;
                segment.map(|first| {
                    self.streams.push(Stream {
                        joined: Joined::new(first),
                        edge,
                        first: self.items.len(),
                        open: true,
                    });
                    self.streams.len() - 1
                })
            }
        };
        self.items.push(Item {
            delivery,
            known,
            stream,
        });
    }

    /// Returns how the frame at this place is sent.
    pub(super) fn sending(&self, place: usize) -> Sending<'_> {
        let item = self.items[place];
        let stream = item.stream.map(|stream| &self.streams[stream]);
        match stream.filter(|stream| stream.joined.frames() >= JOINED_MIN) {
            None => Sending::Alone(item.delivery),
            Some(stream) if stream.first == place => Sending::Joined(&stream.joined, item.delivery),
            Some(_) => Sending::Done,
        }
    }

    /// Returns the frames that are joined to the one at this place, beginning with itself.
    pub(super) fn joined_at(&self, place: usize) -> impl Iterator<Item = SlotRef> + Clone {
        let stream = self.items[place].stream;
        let of_it = move |item: &&Item| item.stream == stream;
        let frames = self.items[place..].iter().filter(of_it);
        frames.map(|item| item.delivery.frame)
    }

    /// Returns all frames with their properties.
    pub(super) fn frames(&self) -> impl Iterator<Item = (&Delivery<SlotRef>, &Known)> {
        self.items.iter().map(|item| (&item.delivery, &item.known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::gro::tests::segment;
    use crate::relay::layout::FLAG_CSUM;

    fn push(batch: &mut TxBatch, to: u32, slot: u32, sequence: Option<u32>) {
        let frame = SlotRef {
            slot,
            len: 100,
            flags: FLAG_CSUM,
            csum_start: 34,
            csum_offset: 16,
        };
        let delivery = Delivery {
            from: PortId(0),
            to: PortId(to),
            due_ns: u64::from(slot),
            len_bytes: 100,
            frame,
        };
        batch.push(delivery, Known::default(), sequence.map(segment));
    }

    /// Slots in the order they are sent in; those that go as one together.
    fn sent(batch: &TxBatch) -> Vec<Vec<u32>> {
        let of = |place| match batch.sending(place) {
            Sending::Alone(delivery) => vec![delivery.frame.slot],
            Sending::Joined(_, _) => batch.joined_at(place).map(|f| f.slot).collect(),
            Sending::Done => Vec::new(),
        };
        let all = (0..batch.len()).map(of);
        all.filter(|slots| !slots.is_empty()).collect()
    }

    #[test]
    fn streams_are_joined_edge_by_edge() {
        let mut batch = TxBatch::default();
        for n in 0..3 {
            push(&mut batch, 1, n, Some(n));
            push(&mut batch, 2, 10 + n, Some(n));
            push(&mut batch, 3, 20 + n, None);
        }
        assert_eq!((batch.len(), batch.sendings()), (9, 5));
        let expected = [
            vec![0, 1, 2],
            vec![10, 11, 12],
            vec![20],
            vec![21],
            vec![22],
        ];
        assert_eq!(sent(&batch), expected);
        assert_eq!(batch.frames().map(|(d, ..)| d.due_ns).max(), Some(22));
        batch.clear();
        assert_eq!((batch.len(), sent(&batch).len()), (0, 0));
    }

    #[test]
    fn what_comes_in_between_keeps_its_place() {
        let mut batch = TxBatch::default();
        for n in 0..4 {
            push(&mut batch, 1, n, Some(n));
        }
        push(&mut batch, 1, 9, None);
        for n in 4..6 {
            push(&mut batch, 1, n, Some(n));
        }
        // Too few behind it to be worth it.
        assert_eq!(sent(&batch), [vec![0, 1, 2, 3], vec![9], vec![4], vec![5]]);
    }
}
