//! How much of their rate links carry: the difference of two looks at what every edge has carried.

use std::collections::BTreeMap;

use constel_api::answers::Loads;

use crate::views::LinkLoad;

/// Looks that are nearer to each other than this say nothing, nanoseconds.
const LEAST_NS: u64 = 100_000_000;

/// The load of links between two looks, each by the busier of its directions, in the order of their ports; links that carried
/// nothing are left out, and so are those without a rate. `None` where the looks are too near to each other.
///
/// An edge that the first look has not seen had carried nothing, or did not exist, and its counters are of an earlier life: it
/// has a load from the next look on.
pub(crate) fn between(before: &Loads, after: &Loads) -> Option<Vec<LinkLoad>> {
    let took_ns = after.at_mono_ns.checked_sub(before.at_mono_ns)?;
    if took_ns < LEAST_NS {
        return None;
    }
    let edges = before.edges.iter();
    let known: BTreeMap<_, u64> = edges
        .map(|edge| ((edge.from, edge.to), edge.delivered_bytes))
        .collect();
    let mut links: BTreeMap<(u32, u32), f64> = BTreeMap::new();
    for edge in &after.edges {
        let then = known.get(&(edge.from, edge.to)).copied();
        let bytes = then.and_then(|then| edge.delivered_bytes.checked_sub(then));
        let (Some(bytes @ 1..), Some(rate_bps @ 1..)) = (bytes, edge.rate_bps) else {
            continue;
        };
        let load = 8e9 * bytes as f64 / (took_ns as f64 * rate_bps as f64);
        let (from, to) = (edge.from.0, edge.to.0);
        let link = links.entry((from.min(to), from.max(to))).or_default();
        *link = link.max(load);
    }
    let load = |((a, b), load): ((u32, u32), f64)| LinkLoad {
        a,
        b,
        // What was waiting for service when the first look came may leave faster than the mean.
        load: load.min(1.0),
    };
    Some(links.into_iter().map(load).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_api::answers::EdgeLoad;
    use constel_link::PortId;

    fn look(at_s: f64, edges: &[(u32, u32, u64, Option<u64>)]) -> Loads {
        let edge =
            |&(from, to, delivered_bytes, rate_bps): &(u32, u32, u64, Option<u64>)| EdgeLoad {
                from: PortId(from),
                to: PortId(to),
                delivered_bytes,
                rate_bps,
            };
        Loads {
            t_ns: None,
            at_mono_ns: (at_s * 1e9) as u64,
            edges: edges.iter().map(edge).collect(),
        }
    }

    #[test]
    fn the_busier_direction_is_a_links_load() {
        let rate = Some(8_000_000);
        let before = look(
            10.0,
            &[(1, 2, 1_000, rate), (2, 1, 0, rate), (3, 4, 7, rate)],
        );
        // In two seconds 8 Mbit/s carry 2 MB.
        let after = look(
            12.0,
            &[
                (1, 2, 501_000, rate),
                (2, 1, 1_500_000, rate),
                (3, 4, 7, rate),
            ],
        );
        let loads = between(&before, &after).unwrap();
        assert_eq!(
            loads,
            [LinkLoad {
                a: 1,
                b: 2,
                load: 0.75
            }]
        );
    }

    #[test]
    fn what_cannot_be_known_is_left_out() {
        let rate = Some(1_000);
        let before = look(1.0, &[(1, 2, 500, rate), (5, 6, 0, None)]);
        // An edge that was not there, one that began anew, and one without a rate.
        let after = look(2.0, &[(7, 8, 99, rate), (1, 2, 20, rate), (5, 6, 10, None)]);
        assert_eq!(between(&before, &after).unwrap(), []);
        assert_eq!(between(&after, &before), None, "backwards");
        assert_eq!(between(&after, &after), None, "at once");
        let much = look(3.0, &[(7, 8, 1_000_000, rate)]);
        assert_eq!(between(&after, &much).unwrap()[0].load, 1.0);
    }
}
