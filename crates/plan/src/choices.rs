//! The satellites that stations use over time, if a file fixes them in advance: `ground.choices`.

use std::collections::BTreeMap;

use constel_scenario::{Diagnostics, TextFile};
use constel_topology::{Chosen, Constellation, NodeId, Station};

use crate::table::Rows;

/// The columns, in this order.
const COLUMNS: &str = "t_s,station,satellites";

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
    let mut rows = Rows::new(file, COLUMNS);
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
