//! Hypatia's (satgenpy's) text files: `tles.txt`, `isls.txt`, `ground_stations.basic.txt`,
//! `gsl_interfaces_info.txt` and `description.txt`.
//!
//! Out: a Walker shell as two-line elements whose mean motion makes SGP4 fly it at Constel's altitude and pace.
//! In: satellites that form a Walker pattern, which Hypatia's own generators always do; its `phase_diff` (every
//! second plane half a slot ahead) is Walker's `F = planes / 2` with slots numbered differently.

use std::fmt::Write;

use constel_orbit::{EARTH_EQUATORIAL_RADIUS_M, EARTH_J2, EARTH_MU_M3_PER_S2, ElementSet, tle};
use constel_units::Utc;

use crate::draft::{Draft, Shell, Station};
use crate::text::{Findings, ReadErrors, number, shown};

/// Catalogue numbers have five digits.
pub const MOST_SATELLITES: u32 = 99_999;
/// How far an element may be from the pattern's, degrees: four digits of an angle, and the rounding of F.
const TOLERANCE_DEG: f64 = 0.02;

/// The files of a network as texts; only `tles` must be there.
#[derive(Debug, Clone, Copy, Default)]
pub struct Files<'a> {
    /// `tles.txt`.
    pub tles: &'a str,
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
    let mut shell = fit(planes, per_plane, &sets, &mut draft).map_err(in_file("tles.txt"))?;
    // Epochs are written to 1e-8 of a day, 0.9 ms: the intended value is a whole millisecond.
    let epoch_ns = sets[0].epoch().unix_ns();
    draft.start =
        Utc::from_unix_ns(epoch_ns.saturating_add(500_000).div_euclid(1_000_000) * 1_000_000);
    if sets.iter().any(|s| s.epoch() != sets[0].epoch()) {
        draft.note("the epochs of the elements differ; the first one's is the start");
    }
    match files.isls {
        None => {
            shell.isl = false;
            draft.note("there is no isls.txt: no ISLs");
        }
        Some(text) => {
            let count = read_isls(text, planes * per_plane)
                .map_err(in_file("isls.txt"))?
                .len() as u32;
            shell.isl = count > 0;
            let grid = 2 * planes * per_plane;
            if count > 0 && count != grid {
                draft.note(format!(
                    "isls.txt has {count} links; the +Grid, which was taken, has {grid}"
                ));
            }
        }
    }
    if let Some(text) = files.stations {
        draft.stations = read_stations(text).map_err(in_file("ground_stations.txt"))?;
    }
    if let Some(text) = files.description {
        let lengths = read_description(text).map_err(in_file("description.txt"))?;
        let radius_m = EARTH_EQUATORIAL_RADIUS_M + shell.altitude_m;
        if let Some(max_gsl_m) = lengths.0 {
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
    draft.shells.push(shell);
    Ok(draft)
}

fn read_tles(text: &str) -> Result<(u32, u32, Vec<ElementSet>), ReadErrors> {
    let mut findings = Findings::default();
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let counts: Vec<Option<u32>> = first.split_whitespace().map(|w| w.parse().ok()).collect();
    let (planes, per_plane) = match counts[..] {
        [Some(planes @ 1..=10_000), Some(per_plane @ 1..=10_000)] => (planes, per_plane),
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

/// Smallest distance of two angles modulo `round`, degrees.
fn apart(a: f64, b: f64, round: f64) -> f64 {
    let d = (a - b).rem_euclid(round);
    d.min(round - d)
}

/// The Walker pattern the satellites form.
fn fit(
    planes: u32,
    per_plane: u32,
    sets: &[ElementSet],
    draft: &mut Draft,
) -> Result<Shell, ReadErrors> {
    let mut findings = Findings::default();
    let first = sets[0].elements();
    let u = |set: &ElementSet| set.elements().argument_of_perigee + set.elements().mean_anomaly;
    let plane = |p: u32| &sets[(p * per_plane) as usize];
    let slot_deg = 360.0 / f64::from(per_plane);
    let total = f64::from(planes) * f64::from(per_plane);
    let spread = match planes {
        1 => 360.0,
        _ => {
            (plane(1).elements().right_ascension - first.right_ascension).rem_euclid(360.0)
                * f64::from(planes)
        }
    };
    let star = (spread - 180.0).abs() < 1.0;
    let spread = if star { 180.0 } else { 360.0 };
    let lead = if planes > 1 {
        (u(plane(1)) - u(plane(0))).rem_euclid(slot_deg)
    } else {
        0.0
    };
    let phasing = (lead * total / 360.0).round();
    for (n, set) in sets.iter().enumerate() {
        let (p, s) = ((n as u32 / per_plane), (n as u32 % per_plane));
        let e = set.elements();
        let node = first.right_ascension + f64::from(p) * spread / f64::from(planes);
        let phase = u(&sets[0]) + f64::from(s) * slot_deg + f64::from(p) * phasing * 360.0 / total;
        let off = [
            (
                apart(e.inclination, first.inclination, 360.0),
                "inclination",
            ),
            (apart(e.right_ascension, node, 360.0), "right ascension"),
            // A plane may start at another slot: Hypatia's `phase_diff`.
            (apart(u(set), phase, slot_deg), "place in the orbit"),
            (
                (e.mean_motion - first.mean_motion).abs() * 100.0,
                "mean motion",
            ),
        ];
        for (off, what) in off {
            if off > TOLERANCE_DEG {
                let reason = format!(
                    "satellite {n} does not fit a Walker pattern: its {what} is off by {off:.3} deg; use the file as `tle:`"
                );
                findings.push(2 + 3 * n, reason);
            }
        }
        if e.eccentricity > 0.01 {
            findings.push(
                2 + 3 * n,
                format!(
                    "satellite {n} has eccentricity {}; use the file as `tle:`",
                    e.eccentricity
                ),
            );
        }
        if findings.is_full() {
            break;
        }
    }
    let turned = apart(u(&sets[0]), 0.0, slot_deg);
    if turned > TOLERANCE_DEG {
        draft.note(format!("all satellites were moved along their orbits by {turned:.3} deg, so that the first is at its node"));
    }
    let altitude_m = altitude_m(first.mean_motion, first.inclination);
    findings.or(Shell {
        star,
        altitude_m: altitude_m.round(),
        inclination_deg: first.inclination,
        planes,
        per_plane,
        phasing: phasing as u32 % planes,
        raan0_deg: first.right_ascension.rem_euclid(360.0),
        isl: true,
        min_elevation_deg: None,
    })
}

/// Revolutions a day of a two-line set (Kozai's mean motion: the mean anomaly's rate, J2 included) for a circular
/// orbit at a mean altitude.
pub fn mean_motion_rev_per_day(altitude_m: f64, inclination_deg: f64) -> f64 {
    let radius_m = EARTH_EQUATORIAL_RADIUS_M + altitude_m;
    let n = (EARTH_MU_M3_PER_S2 / radius_m.powi(3)).sqrt();
    let j2_rate = 1.5 * EARTH_J2 * (EARTH_EQUATORIAL_RADIUS_M / radius_m).powi(2) * n;
    let cos = inclination_deg.to_radians().cos();
    (n + 0.5 * j2_rate * (3.0 * cos * cos - 1.0)) * 86_400.0 / std::f64::consts::TAU
}

/// The inverse of [`mean_motion_rev_per_day`].
fn altitude_m(rev_per_day: f64, inclination_deg: f64) -> f64 {
    let (mut low, mut high) = (-6e6, 1e9);
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if mean_motion_rev_per_day(middle, inclination_deg) > rev_per_day {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
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

/// `tles.txt` of shells, one after another. With more than one shell the first line says that every satellite is
/// an orbit of its own, as others who feed Hypatia mixed sets do. `None` with more satellites than
/// [`MOST_SATELLITES`].
pub fn write_tles(name: &str, shells: &[Shell], epoch: Utc) -> Option<String> {
    let total: u64 = shells
        .iter()
        .map(|s| u64::from(s.planes) * u64::from(s.per_plane))
        .sum();
    if total > u64::from(MOST_SATELLITES) {
        return None;
    }
    let mut out = match shells {
        [one] => format!("{} {}\n", one.planes, one.per_plane),
        _ => format!("{total} 1\n"),
    };
    let mut number = 0;
    for shell in shells {
        let mean_motion = mean_motion_rev_per_day(shell.altitude_m, shell.inclination_deg);
        let spread = if shell.star { 180.0 } else { 360.0 };
        let count = f64::from(shell.planes) * f64::from(shell.per_plane);
        for p in 0..shell.planes {
            let node = shell.raan0_deg + f64::from(p) * spread / f64::from(shell.planes);
            for s in 0..shell.per_plane {
                let anomaly = f64::from(s) * 360.0 / f64::from(shell.per_plane)
                    + f64::from(p) * f64::from(shell.phasing) * 360.0 / count;
                let first = format!(
                    "1 {:05}U 00000ABC {}  .00000000  00000-0  00000+0 0    0",
                    number + 1,
                    tle_epoch(epoch)
                );
                let second = format!(
                    "2 {:05} {:8.4} {} 0000000   0.0000 {} {mean_motion:11.8}    0",
                    number + 1,
                    shell.inclination_deg,
                    angle(node),
                    angle(anomaly)
                );
                let _ = writeln!(
                    out,
                    "{name} {number}\n{first}{}\n{second}{}",
                    checksum(&first),
                    checksum(&second)
                );
                number += 1;
            }
        }
    }
    Some(out)
}

/// Degrees below 360 in eight columns; a value that rounds up to 360 becomes 0.
fn angle(degrees: f64) -> String {
    let text = format!("{:8.4}", degrees.rem_euclid(360.0));
    if text == "360.0000" {
        "  0.0000".to_owned()
    } else {
        text
    }
}

/// `YYDDD.DDDDDDDD`.
fn tle_epoch(at: Utc) -> String {
    let text = at.to_string();
    let year: i32 = text.get(..4).and_then(|y| y.parse().ok()).unwrap_or(2000);
    let january: Utc = format!("{year:04}-01-01T00:00:00Z").parse().unwrap_or(at);
    let days = (i128::from(at.unix_ns()) - i128::from(january.unix_ns())) as f64 / 86_400e9 + 1.0;
    format!("{:02}{days:012.8}", year.rem_euclid(100))
}

fn checksum(line: &str) -> u32 {
    line.chars()
        .map(|c| c.to_digit(10).unwrap_or(u32::from(c == '-')))
        .sum::<u32>()
        % 10
}

/// `isls.txt`.
pub fn write_isls(links: &[(u32, u32)]) -> String {
    links.iter().fold(String::new(), |mut out, (a, b)| {
        let _ = writeln!(out, "{a} {b}");
        out
    })
}

/// `ground_stations.basic.txt`.
pub fn write_stations(stations: &[Station]) -> String {
    stations
        .iter()
        .enumerate()
        .fold(String::new(), |mut out, (n, s)| {
            let _ = writeln!(
                out,
                "{n},{},{},{},{}",
                s.name.replace(',', ";"),
                s.latitude_deg,
                s.longitude_deg,
                s.altitude_m
            );
            out
        })
}

/// `gsl_interfaces_info.txt`: one interface of bandwidth 1.0 a node, satellites first.
pub fn write_gsl_interfaces(nodes: usize) -> String {
    (0..nodes).fold(String::new(), |mut out, n| {
        let _ = writeln!(out, "{n},1,1.0");
        out
    })
}

/// `description.txt`.
pub fn write_description(max_gsl_m: f64, max_isl_m: f64) -> String {
    format!("max_gsl_length_m={max_gsl_m:.10}\nmax_isl_length_m={max_isl_m:.10}\n")
}
