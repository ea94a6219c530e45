//! What ways cost, kept in as few bytes as hold it: two passes over the costs of all nodes are most of the work of a step.

use std::ops::{Add, BitOr, BitXor};

use crate::graph::UNREACHABLE;

/// A cost, a delay or a hop.
pub(crate) trait Cost:
    Copy + Ord + Add<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self> + Send + Sync
{
    /// Nothing, and one nanosecond.
    const ZERO: Self;
    const ONE: Self;
    /// Of a node that has no way.
    const UNREACHABLE: Self;
    /// More than any cost: nothing leads from here.
    const DEAD: Self;

    /// `None`: it may come to more than there is room for, together with a cost that has room.
    fn of(cost: u64) -> Option<Self>;

    /// The most that there is, where it would be more.
    fn plus(self, more: Self) -> Self;

    /// One where a cost and a way come to what has room and is at most `than`. Zero where they come to more, but where it
    /// is so much more that there is no telling: then one as well.
    fn at_most(self, way: Self, than: Self) -> Self;

    /// One where a cost has no room, as [`Cost::UNREACHABLE`] has none.
    fn has_no_room(self) -> Self;

    /// Costs as they are kept.
    fn kept(costs: Vec<Self>) -> Costs;
}

macro_rules! cost {
    ($bits:ty, $kind:ident, $longest_way:expr) => {
        impl Cost for $bits {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const UNREACHABLE: Self = Self::MAX;
            const DEAD: Self = Self::MAX - 1;

            #[inline]
            fn of(cost: u64) -> Option<Self> {
                let cost = Self::try_from(cost).ok()?;
                (cost <= $longest_way).then_some(cost)
            }

            #[inline]
            fn plus(self, more: Self) -> Self {
                self.saturating_add(more)
            }

            // Where it is no more, the difference less one has a sign.
            #[inline]
            fn at_most(self, way: Self, than: Self) -> Self {
                let whole = self.wrapping_add(way);
                whole.wrapping_sub(than).wrapping_sub(1) >> (Self::BITS - 1)
            }

            #[inline]
            fn has_no_room(self) -> Self {
                self >> (Self::BITS - 1)
            }

            fn kept(costs: Vec<Self>) -> Costs {
                Costs::$kind(costs)
            }
        }
    };
}

// With a way of a second at most, two seconds and a way never come to what means something else.
cost!(u32, Narrow, 1_000_000_000);
cost!(u64, Wide, u64::MAX / 4);

/// What it costs to get to a destination, by node.
#[derive(Debug, Clone)]
pub(crate) enum Costs {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

impl Costs {
    /// A node's; [`UNREACHABLE`] where there is no way.
    #[inline]
    pub(crate) fn of(&self, node: u32) -> u64 {
        let node = node as usize;
        match self {
            Self::Narrow(costs) => match costs.get(node) {
                Some(&cost) if cost != u32::UNREACHABLE => u64::from(cost),
                _ => UNREACHABLE,
            },
            Self::Wide(costs) => costs.get(node).copied().unwrap_or(UNREACHABLE),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Narrow(costs) => costs.len(),
            Self::Wide(costs) => costs.len(),
        }
    }

    /// With room for any, to be changed.
    pub(crate) fn wide(&mut self) -> &mut Vec<u64> {
        if let Self::Narrow(_) = self {
            *self = Self::Wide((0..self.len() as u32).map(|node| self.of(node)).collect());
        }
        match self {
            Self::Wide(costs) => costs,
            Self::Narrow(_) => unreachable!("just made wide"),
        }
    }
}

/// The same costs, however they are kept.
impl PartialEq for Costs {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && (0..self.len() as u32).all(|node| self.of(node) == other.of(node))
    }
}

impl Eq for Costs {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn narrow_costs_say_what_wide_ones_do() {
        let narrow = Costs::Narrow(vec![0, 7, u32::MAX]);
        let mut wide = narrow.clone();
        assert_eq!(wide.wide(), &[0, 7, UNREACHABLE]);
        assert_eq!(narrow, wide);
        assert_ne!(narrow, Costs::Wide(vec![0, 8, UNREACHABLE]));
        assert_ne!(narrow, Costs::Wide(vec![0, 7]));
        assert_eq!(
            (narrow.of(1), narrow.of(2), narrow.of(3)),
            (7, UNREACHABLE, UNREACHABLE)
        );
    }

    #[test]
    fn a_way_that_is_too_long_has_no_room() {
        assert_eq!(u32::of(1_000_000_000), Some(1_000_000_000));
        assert_eq!(u32::of(1_000_000_001), None);
        assert_eq!(u32::of(1 << 40), None);
        assert_eq!(u64::of(1 << 40), Some(1 << 40));
        assert_eq!(u32::UNREACHABLE.has_no_room(), 1);
        assert_eq!(u64::UNREACHABLE.has_no_room(), 1);
    }

    proptest! {
        #[test]
        fn no_way_that_is_at_most_so_long_is_missed(
            cost in 0..=i32::MAX as u32, way in 0..=1_000_000_000_u32, than in 0..=i32::MAX as u32,
        ) {
            let whole = u64::from(cost) + u64::from(way);
            let truth = whole <= u64::from(than);
            let narrow = cost.at_most(way, than) == 1;
            prop_assert!(narrow || !truth);
            if whole <= i32::MAX as u64 {
                prop_assert_eq!(narrow, truth);
            }
            let wide = u64::from(cost).at_most(u64::from(way), u64::from(than));
            prop_assert_eq!(wide == 1, truth);
        }
    }
}
