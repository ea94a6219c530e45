//! The utilisation of links: the difference of two samples of the edges' traffic.

use std::collections::BTreeMap;

use constel_api::answers::Loads;

use crate::views::LinkLoad;

/// Returns the load of links between two samples, each by the busier of its directions, in the order of their ports. Links
/// without traffic and links without a rate are left out. Returns `None` if the samples are too close.
pub(crate) fn between(before: &Loads, after: &Loads) -> Option<Vec<LinkLoad>> {
    let mut links: BTreeMap<(u32, u32), f64> = BTreeMap::new();
    for edge in after.since(before)? {
        let Some(load) = edge.load else { continue };
        let (from, to) = (edge.from.0, edge.to.0);
        let link = links.entry((from.min(to), from.max(to))).or_default();
        *link = link.max(load);
    }
    let load = |((a, b), load): ((u32, u32), f64)| LinkLoad { a, b, load };
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
        // The edges: a missing one, one that was created again, and one without a rate.
        let after = look(2.0, &[(7, 8, 99, rate), (1, 2, 20, rate), (5, 6, 10, None)]);
        assert_eq!(between(&before, &after).unwrap(), []);
        assert_eq!(between(&after, &before), None, "backwards");
        assert_eq!(between(&after, &after), None, "at once");
        let much = look(3.0, &[(7, 8, 1_000_000, rate)]);
        assert_eq!(between(&after, &much).unwrap()[0].load, 1.0);
    }
}
