//! Small scenarios made for a purpose.

use std::fs;
use std::path::{Path, PathBuf};

/// 24 satellites in 4 planes; links so fast that only distance delays.
/// Facts that the tests rely on, found in its plans (and asserted at their use): `hobart` and
/// `chatham` are three hops apart, `hobart` hands over at 7 s lab time and the path has three hops before and
/// after; from `ross` to `weddell` one path of four hops, and to `michigan` one of six, is the shortest for more
/// than a minute while its delay grows by 3.5 ms.
pub(crate) fn sky(dir: &Path, duration_s: u32, outage: &str) -> PathBuf {
    let text = format!(
        "constel: 1
name: truth
seed: 7
start: 2026-11-21T00:00:00Z
duration: {duration_s} s
step: 1 s
constellations:
  sat:
    walker: {{pattern: delta, inclination: 60 deg, satellites: 24, planes: 4, phasing: 1, altitude: 1400 km}}
    isl: {{pattern: plus-grid, link: {{rate: 10 Gbit/s, queue: 256 KiB}}}}
    gsl: {{min_elevation: 5 deg, policy: nearest, handover: {{outage: {outage}}}, link: {{rate: 10 Gbit/s, queue: 256 KiB}}}}
ground:
  stations:
    hobart: {{latitude: -48 deg, longitude: 148 deg}}
    chatham: {{latitude: -42 deg, longitude: -124 deg}}
    ross: {{latitude: -60 deg, longitude: -140 deg}}
    weddell: {{latitude: -60 deg, longitude: -20 deg}}
    michigan: {{latitude: 48 deg, longitude: -84 deg}}
routing: {{mode: computed}}
"
    );
    write(dir, "sky.yaml", &text)
}

/// Six satellites in two planes close together, two stations below, in a mode of routing, with traffic.
pub(crate) fn small(dir: &Path, name: &str, routing: &str, traffic: &str) -> PathBuf {
    let text = format!(
        "constel: 1
name: small
seed: 3
start: 2026-11-21T00:00:00Z
duration: 60 s
step: 1 s
constellations:
  sat:
    walker: {{pattern: delta, inclination: 60 deg, satellites: 12, planes: 2, phasing: 0, altitude: 1400 km}}
    isl: {{pattern: plus-grid, link: {{rate: 100 Mbit/s, queue: 256 KiB}}}}
    gsl: {{min_elevation: 5 deg, policy: nearest, link: {{rate: 100 Mbit/s, queue: 256 KiB}}}}
ground:
  stations:
    west: {{latitude: -48 deg, longitude: 148 deg}}
    east: {{latitude: -42 deg, longitude: -124 deg}}
routing: {routing}
{traffic}"
    );
    write(dir, name, &text)
}

/// Writes a file and gives its path.
pub(crate) fn write(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, text).unwrap();
    path
}
