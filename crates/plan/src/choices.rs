//! Choices over time: satellites of stations (`ground.choices`), and links that are switched (`links.choices`), read from files; and the rows of
//! such files, for the record of a live policy.

use std::collections::BTreeMap;

use constel_scenario::{Diagnostics, TextFile};
use constel_topology::{Chosen, Constellation, Layout, NodeId, Station, Switched};

use crate::live::RouteChoice;
use crate::table::Rows;

/// The columns of `ground.choices`, in this order.
pub const STATION_COLUMNS: &str = "t_s,station,satellites";

/// The columns of `links.choices`, in this order.
pub const LINK_COLUMNS: &str = "t_s,a,b,up";

/// The largest number of satellites in a row: one for each antenna of a station, and as many alternatives.
const MOST_SATELLITES: usize = 1_000;

/// Reads a file of choices into the stations.
///
/// # Errors
/// All errors in the file, each with its line.
pub(crate) fn read(
    file: &TextFile,
    constellations: &[Constellation],
    stations: &mut [Station],
) -> Result<(), Diagnostics> {
    let satellites = constellations.iter().flat_map(|k| &k.satellites);
    let satellites = satellites.map(|s| s.name.as_str()).zip(0..).collect();
    let mut rows = Rows::new(file, STATION_COLUMNS);
    let mut places: BTreeMap<String, &mut Station> = stations
        .iter_mut()
        .map(|station| (station.name.clone(), station))
        .collect();
    while let Some((line, [t_s, name, wanted])) = rows.next() {
        let t_ns = rows.time_ns(line, &t_s);
        let wanted = wanted_of(&mut rows, line, &wanted, &satellites);
        let Some(station) = places.get_mut(&name) else {
            let message = format!("no station is called `{name}`");
            let known = places.keys().map(String::as_str);
            rows.unknown(line, "unknown-station", message, &name, known);
            continue;
        };
        let (Some(t_ns), Some(satellites)) = (t_ns, wanted) else {
            continue;
        };
        if station.choices.last().is_some_and(|last| last.t_ns >= t_ns) {
            let message = format!("rows of `{name}` must be in order of time");
            rows.wrong(line, "order", message);
            continue;
        }
        station.choices.push(Chosen { t_ns, satellites });
    }
    rows.errors.or(())
}

/// Returns the satellites that a cell names. `known` maps names to node numbers.
fn wanted_of(
    rows: &mut Rows<'_, 3>,
    line: usize,
    text: &str,
    known: &BTreeMap<&str, u32>,
) -> Option<Vec<NodeId>> {
    let mut wanted = Vec::new();
    for name in text.split_whitespace() {
        let Some(number) = known.get(name) else {
            let message = format!("no satellite is called `{name}`");
            rows.unknown(
                line,
                "unknown-satellite",
                message,
                name,
                known.keys().copied(),
            );
            return None;
        };
        wanted.push(NodeId(*number));
    }
    if wanted.len() > MOST_SATELLITES {
        let many = wanted.len();
        let message = format!("{many} satellites in a row; at most {MOST_SATELLITES}");
        rows.wrong(line, "out-of-range", message);
        return None;
    }
    Some(wanted)
}

/// Reads a file of links that are switched; `names` are those of all nodes, in the order of their numbers.
///
/// # Errors
/// All errors in the file, each with its line.
pub(crate) fn read_links<'n>(
    file: &TextFile,
    names: impl Iterator<Item = &'n str>,
) -> Result<Vec<Switched>, Diagnostics> {
    let numbers: BTreeMap<&str, NodeId> = names.zip((0..).map(NodeId)).collect();
    let mut rows = Rows::new(file, LINK_COLUMNS);
    let mut switched: Vec<Switched> = Vec::new();
    while let Some((line, [t_s, a, b, up])) = rows.next() {
        let t_ns = rows.time_ns(line, &t_s);
        let mut named = |name: &str| {
            let found = numbers.get(name).copied();
            if found.is_none() {
                let message = format!("no node is called `{name}`");
                rows.unknown(line, "unknown-node", message, name, numbers.keys().copied());
            }
            found
        };
        let ends = (named(&a), named(&b));
        let up = match up.as_str() {
            "1" => true,
            "0" => false,
            _ => {
                let message = format!("`up` is `{up}`, neither 1 (on) nor 0 (off)");
                rows.wrong(line, "bad-value", message);
                continue;
            }
        };
        let (Some(t_ns), (Some(a), Some(b))) = (t_ns, ends) else {
            continue;
        };
        if a == b {
            rows.wrong(line, "bad-value", "a link joins two nodes".to_owned());
        } else if switched.last().is_some_and(|last| last.t_ns > t_ns) {
            rows.wrong(line, "order", "rows must be in order of time".to_owned());
        } else {
            switched.push(Switched { t_ns, a, b, up });
        }
    }
    rows.errors.or(switched)
}

/// Returns a lab time in seconds, exactly.
fn seconds(t_ns: u64) -> String {
    let (whole, rest) = (t_ns / 1_000_000_000, t_ns % 1_000_000_000);
    match rest {
        0 => whole.to_string(),
        rest => format!("{whole}.{rest:09}")
            .trim_end_matches('0')
            .to_owned(),
    }
}

/// Returns a row of `ground.choices`.
#[must_use]
pub fn station_row(layout: &Layout, station: NodeId, chosen: &Chosen) -> String {
    let satellites = chosen.satellites.iter();
    let satellites: Vec<&str> = satellites.map(|node| name(layout, *node)).collect();
    let (t_s, station) = (seconds(chosen.t_ns), name(layout, station));
    format!("{t_s},{station},{}", satellites.join(" "))
}

/// Returns a row of `links.choices`.
#[must_use]
pub fn link_row(layout: &Layout, switched: &Switched) -> String {
    let Switched { t_ns, a, b, up } = *switched;
    let (a, b) = (name(layout, a), name(layout, b));
    format!("{},{a},{b},{}", seconds(t_ns), u8::from(up))
}

/// Returns a row of `routing.choices`.
#[must_use]
pub fn route_row(layout: &Layout, t_ns: u64, route: &RouteChoice) -> String {
    let next = route.next.map_or("", |next| name(layout, next));
    let (node, to) = (name(layout, route.node), name(layout, route.destination));
    format!("{},{node},{to},{next}", seconds(t_ns))
}

fn name(layout: &Layout, node: NodeId) -> &str {
    &layout.node(node).name
}

#[cfg(test)]
mod tests {
    use super::seconds;
    use proptest::prelude::*;

    proptest! {
        /// The reader's arithmetic gives the same nanosecond back, for steps of a millisecond within ten days.
        #[test]
        fn times_are_read_back_exactly(step in 0_u64..864_000_000) {
            let t_ns = step * 1_000_000;
            let read = seconds(t_ns).parse::<f64>().unwrap();
            prop_assert_eq!((read * 1e9).round() as u64, t_ns);
        }
    }
}
