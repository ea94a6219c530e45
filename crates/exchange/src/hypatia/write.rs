//! Out: a network as Hypatia's files.

use std::fmt::Write;

use constel_units::Utc;

use super::pattern::mean_motion_rev_per_day;
use crate::draft::{Shell, Station};

/// Catalogue numbers have five digits.
pub const MOST_SATELLITES: u32 = 99_999;

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
