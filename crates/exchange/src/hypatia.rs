//! Hypatia's (satgenpy's) text files: `tles.txt`, `isls.txt`, `ground_stations.basic.txt`,
//! `gsl_interfaces_info.txt` and `description.txt`.
//!
//! Out: a Walker shell as two-line elements whose mean motion makes SGP4 fly it at Constel's altitude and pace.
//! In: satellites that form a Walker pattern, as those of Hypatia's own generators do, become a shell; its `phase_diff`
//! (every second plane half a slot ahead) is Walker's `F = planes / 2` with slots numbered differently. Others, such as a
//! part of a constellation, fly by the elements of `tles.txt`, with the links of `isls.txt`.

mod pattern;
mod write;

use constel_orbit::{EARTH_EQUATORIAL_RADIUS_M, ElementSet, tle};
use constel_units::Utc;

use crate::draft::{Draft, Elements, Station};
use crate::text::{Findings, ReadErrors, number, shown};

pub use pattern::mean_motion_rev_per_day;
pub use write::{
    MOST_SATELLITES, write_description, write_gsl_interfaces, write_isls, write_stations,
    write_tles,
};

/// The files of a network as texts; only `tles` must be there.
#[derive(Debug, Clone, Copy, Default)]
pub struct Files<'a> {
    /// `tles.txt`.
    pub tles: &'a str,
    /// The path of `tles.txt` as the scenario names it, if its satellites form no pattern.
    pub tles_path: &'a str,
    /// `isls.txt`.
    pub isls: Option<&'a str>,
    /// `ground_stations.basic.txt` or `ground_stations.txt`.
    pub stations: Option<&'a str>,
    /// `gsl_interfaces_info.txt`.
    pub gsl_interfaces: Option<&'a str>,
    /// `description.txt`.
    pub description: Option<&'a str>,
}

/// Reads a network.
///
/// # Errors
/// Everything found wrong in the first file that has anything wrong, with its line and the file's name.
pub fn parse(files: &Files<'_>, name: &str) -> Result<Draft, ReadErrors> {
    let mut draft = Draft::new("a Hypatia network", name);
    let in_file = |file: &'static str| {
        move |mut errors: ReadErrors| {
            errors
                .0
                .iter_mut()
                .for_each(|e| e.reason = format!("{file}: {}", e.reason));
            errors
        }
    };
    let (planes, per_plane, sets) = read_tles(files.tles).map_err(in_file("tles.txt"))?;
    let satellites = planes * per_plane;
    let links = match files.isls {
        Some(text) => read_isls(text, satellites).map_err(in_file("isls.txt"))?,
        None => {
            draft.note("there is no isls.txt: no ISLs");
            Vec::new()
        }
    };
    match pattern::fit(planes, per_plane, &sets, &mut draft) {
        Ok(mut shell) => {
            shell.isl = !links.is_empty();
            let (count, grid) = (links.len() as u32, 2 * satellites);
            if shell.isl && count != grid {
                draft.note(format!(
                    "isls.txt has {count} links; the +Grid, which was taken, has {grid}"
                ));
            }
            draft.shells.push(shell);
        }
        Err(why) => {
            let file = files.tles_path.to_owned();
            draft.note(format!(
                "the satellites form no Walker pattern ({why}): they fly by the elements of {file}, which the scenario reads"
            ));
            draft.elements = Some(Elements {
                file,
                satellites,
                links,
            });
        }
    }
    // Epochs are written to 1e-8 of a day, 0.9 ms: the intended value is a whole millisecond.
    let epoch_ns = sets[0].epoch().unix_ns();
    draft.start =
        Utc::from_unix_ns(epoch_ns.saturating_add(500_000).div_euclid(1_000_000) * 1_000_000);
    if sets.iter().any(|s| s.epoch() != sets[0].epoch()) {
        draft.note("the epochs of the elements differ; the first one's is the start");
    }
    if let Some(text) = files.stations {
        draft.stations = read_stations(text).map_err(in_file("ground_stations.txt"))?;
    }
    if let Some(text) = files.description {
        let lengths = read_description(text).map_err(in_file("description.txt"))?;
        if let Some(max_gsl_m) = lengths.0 {
            // The longest link is one of the highest satellite.
            let altitudes_m = sets.iter().map(|set| {
                pattern::altitude_m(set.elements().mean_motion, set.elements().inclination)
            });
            let radius_m = EARTH_EQUATORIAL_RADIUS_M + altitudes_m.fold(f64::MIN, f64::max);
            let sin = (radius_m.powi(2) - EARTH_EQUATORIAL_RADIUS_M.powi(2) - max_gsl_m.powi(2))
                / (2.0 * EARTH_EQUATORIAL_RADIUS_M * max_gsl_m);
            let elevation = sin.clamp(-1.0, 1.0).asin().to_degrees();
            draft.min_elevation_deg = (elevation.clamp(0.0, 89.9) * 1e4).round() / 1e4;
            draft.note(format!(
                "min_elevation {} deg is where a ground link is {max_gsl_m} m long, the longest of description.txt",
                draft.min_elevation_deg
            ));
        }
        // Hypatia's way of saying "no limit" is a thousand kilometres times a thousand.
        draft.isl_max_range_m = lengths.1.filter(|m| *m < 1e9);
    }
    if let Some(text) = files.gsl_interfaces {
        let several = read_gsl_interfaces(text).map_err(in_file("gsl_interfaces_info.txt"))?;
        if several > 0 {
            draft.note(format!(
                "{several} nodes have several GSL interfaces; here every node has one"
            ));
        }
    }
    draft.note("Hypatia's files say nothing of rates and losses: 10 Mbit/s and 0 % were taken");
    draft.note("dynamic_state (forwarding tables) was not read: routes are computed");
    Ok(draft)
}

fn read_tles(text: &str) -> Result<(u32, u32, Vec<ElementSet>), ReadErrors> {
    let mut findings = Findings::default();
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let counts: Vec<Option<u32>> = first.split_whitespace().map(|w| w.parse().ok()).collect();
    let (planes, per_plane) = match counts[..] {
        // For several shells each satellite is announced as an orbit of its own.
        [
            Some(planes @ 1..=MOST_SATELLITES),
            Some(per_plane @ 1..=10_000),
        ] => (planes, per_plane),
        _ => {
            findings.push(
                1,
                format!(
                    "`{}` is not a number of orbits and of satellites per orbit",
                    shown(first)
                ),
            );
            return findings.or((0, 0, Vec::new()));
        }
    };
    let sets = match tle::parse(rest) {
        Ok(sets) => sets,
        Err(errors) => {
            for error in errors.0 {
                findings.push(error.line + 1, error.reason.to_string());
            }
            Vec::new()
        }
    };
    let count = sets.len() as u64;
    if !sets.is_empty() && count != u64::from(planes) * u64::from(per_plane) {
        findings.push(
            1,
            format!("{planes} orbits of {per_plane} are announced, {count} satellites follow"),
        );
    }
    findings.or((planes, per_plane, sets))
}

fn read_isls(text: &str, satellites: u32) -> Result<Vec<(u32, u32)>, ReadErrors> {
    let mut findings = Findings::default();
    let mut links = Vec::new();
    for (n, line) in text
        .lines()
        .enumerate()
        .filter(|(_, l)| !l.trim().is_empty())
    {
        let ends: Vec<Option<u32>> = line.split_whitespace().map(|w| w.parse().ok()).collect();
        match ends[..] {
            [Some(a), Some(b)] if a < satellites && b < satellites && a != b => links.push((a, b)),
            _ => findings.push(n + 1, format!("`{}` is not two satellites", shown(line))),
        }
        if findings.is_full() {
            break;
        }
    }
    findings.or(links)
}

fn read_stations(text: &str) -> Result<Vec<Station>, ReadErrors> {
    let mut findings = Findings::default();
    let mut stations = Vec::new();
    for (n, line) in text
        .lines()
        .enumerate()
        .filter(|(_, l)| !l.trim().is_empty())
    {
        let fields: Vec<&str> = line.split(',').collect();
        // With the position in Cartesian coordinates there are three more.
        if fields.len() != 5 && fields.len() != 8 {
            findings.push(n + 1, format!("{} fields, not 5 or 8", fields.len()));
        } else if fields[0].trim().parse() != Ok(stations.len()) {
            findings.push(
                n + 1,
                format!(
                    "number `{}` where {} follows",
                    shown(fields[0]),
                    stations.len()
                ),
            );
        } else {
            match (number(fields[2]), number(fields[3]), number(fields[4])) {
                (Ok(latitude_deg), Ok(longitude_deg), Ok(altitude_m)) => {
                    stations.push(Station {
                        name: fields[1].trim().to_owned(),
                        latitude_deg,
                        longitude_deg,
                        altitude_m,
                    });
                }
                (a, b, c) => {
                    for reason in [a, b, c].into_iter().filter_map(Result::err) {
                        findings.push(n + 1, reason);
                    }
                }
            }
        }
        if findings.is_full() {
            break;
        }
    }
    findings.or(stations)
}

/// Longest ground link and longest ISL, metres.
fn read_description(text: &str) -> Result<(Option<f64>, Option<f64>), ReadErrors> {
    let mut findings = Findings::default();
    let mut lengths = (None, None);
    for (n, line) in text
        .lines()
        .enumerate()
        .filter(|(_, l)| !l.trim().is_empty())
    {
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        match (key.trim(), number(value)) {
            ("max_gsl_length_m", Ok(v)) if v > 0.0 => lengths.0 = Some(v),
            ("max_isl_length_m", Ok(v)) if v > 0.0 => lengths.1 = Some(v),
            ("max_gsl_length_m" | "max_isl_length_m", Ok(v)) => {
                findings.push(n + 1, format!("{v} m is no length"))
            }
            ("max_gsl_length_m" | "max_isl_length_m", Err(reason)) => findings.push(n + 1, reason),
            _ => findings.push(n + 1, format!("`{}` is no known property", shown(line))),
        }
        if findings.is_full() {
            break;
        }
    }
    findings.or(lengths)
}

/// How many nodes have several interfaces.
fn read_gsl_interfaces(text: &str) -> Result<usize, ReadErrors> {
    let mut findings = Findings::default();
    let mut several = 0;
    for (n, line) in text
        .lines()
        .enumerate()
        .filter(|(_, l)| !l.trim().is_empty())
    {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        match (
            fields.len(),
            fields.first().and_then(|f| f.parse::<u32>().ok()),
            fields.get(1).and_then(|f| f.parse::<u32>().ok()),
        ) {
            (3, Some(_), Some(interfaces)) if number(fields[2]).is_ok() => {
                several += usize::from(interfaces > 1)
            }
            _ => findings.push(
                n + 1,
                format!("`{}` is not node,interfaces,bandwidth", shown(line)),
            ),
        }
        if findings.is_full() {
            break;
        }
    }
    findings.or(several)
}
