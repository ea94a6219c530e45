//! A static map as SVG: the whole Earth in plate carree, with land and a graticule.

use std::fmt::Write;

use constel_orbit::{DVec3, Geodetic};

use crate::xml::escaped;

/// The content of a map, all in ITRF, metres.
#[derive(Debug, Clone, Default)]
pub struct Map {
    /// Written above the map.
    pub title: String,
    /// Satellites by group (a shell); each group has a colour of its own.
    pub shells: Vec<Shell>,
    /// Stations.
    pub stations: Vec<MapPoint>,
    /// Links between satellites.
    pub isls: Vec<(DVec3, DVec3)>,
    /// Links to the ground.
    pub gsls: Vec<(DVec3, DVec3)>,
    /// Paths drawn on top, node by node.
    pub paths: Vec<Vec<DVec3>>,
}

/// Satellites drawn alike.
#[derive(Debug, Clone)]
pub struct Shell {
    /// For the legend.
    pub name: String,
    /// The satellites' positions; points that are not finite are left out.
    pub satellites: Vec<DVec3>,
}

/// A named point.
#[derive(Debug, Clone)]
pub struct MapPoint {
    /// Written next to it.
    pub name: String,
    /// Where.
    pub position_itrf_m: DVec3,
}

/// Pixels to a degree.
const SCALE: f64 = 4.0;
const TOP: f64 = 40.0;
const COLORS: [&str; 6] = [
    "#1f77b4", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#17becf",
];
/// Lines are cut into pieces no longer than this, metres, so that they bend as they should in the projection.
const PIECE_M: f64 = 150e3;
/// Land at 1:110 million: rings of points in tenths of a degree (for the source see `data/land.py`).
const LAND: &str = include_str!("../data/land.txt");
/// Size of the letters of a station's name, pixels: height, and width a letter.
const LETTER: (f64, f64) = (11.0, 6.1);

impl Map {
    /// The map as an SVG document.
    pub fn svg(&self) -> String {
        let (width, height) = (360.0 * SCALE, 180.0 * SCALE + TOP + 30.0);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"10\" y=\"25\" font-size=\"18\">{}</text>\n",
            escaped(&self.title)
        );
        land(&mut out);
        graticule(&mut out);
        lines(&mut out, "isl", "#8fa3b8", "0.5", &self.isls);
        lines(&mut out, "gsl", "#1a9850", "1.2", &self.gsls);
        for (n, shell) in self.shells.iter().enumerate() {
            let color = COLORS[n % COLORS.len()];
            let _ = writeln!(out, "<g class=\"shell\" fill=\"{color}\">");
            for (x, y) in shell.satellites.iter().filter_map(|p| pixel(*p)) {
                let _ = writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"1.8\"/>");
            }
            out.push_str("</g>\n");
        }
        for path in &self.paths {
            let hops: Vec<(DVec3, DVec3)> = path.windows(2).map(|w| (w[0], w[1])).collect();
            lines(&mut out, "path", "#d62728", "2.5", &hops);
        }
        self.named(&mut out);
        self.legend(&mut out);
        out.push_str("</svg>\n");
        out
    }

    /// Stations and their names; where names would lie upon one another, those at the end of a path are written,
    /// then as many as there is room for.
    fn named(&self, out: &mut String) {
        let at_end = |p: &MapPoint| {
            let ends = self
                .paths
                .iter()
                .flat_map(|path| [path.first(), path.last()]);
            ends.flatten().any(|end| *end == p.position_itrf_m)
        };
        let mut places: Vec<(&MapPoint, (f64, f64))> = self
            .stations
            .iter()
            .filter_map(|s| Some((s, pixel(s.position_itrf_m)?)))
            .collect();
        places.sort_by_key(|(place, _)| !at_end(place));
        // A white rim keeps names legible over lines.
        out.push_str(
            "<g class=\"station\" stroke=\"white\" stroke-width=\"2.5\" paint-order=\"stroke\" \
             stroke-linejoin=\"round\">\n",
        );
        for (_, (x, y)) in &places {
            let _ = writeln!(
                out,
                "<path d=\"M{x:.1} {:.1}l4 7h-8z\" fill=\"#d62728\" stroke-width=\"1\"/>",
                y - 4.0
            );
        }
        let mut taken: Vec<[f64; 4]> = Vec::new();
        for (place, (x, y)) in places {
            let width = LETTER.1 * place.name.chars().count() as f64;
            let free = [(x + 6.0, y + 4.0), (x - 6.0 - width, y + 4.0)]
                .into_iter()
                .chain([y - 7.0, y + 15.0].map(|y| (x - width / 2.0, y)))
                .map(|(x, y)| [x, y - LETTER.0, x + width, y])
                .find(|own| {
                    let apart = |other: &[f64; 4]| {
                        own[2] < other[0]
                            || other[2] < own[0]
                            || own[3] < other[1]
                            || other[3] < own[1]
                    };
                    own[0] >= 0.0 && own[2] <= 360.0 * SCALE && taken.iter().all(apart)
                });
            if let Some(own) = free {
                taken.push(own);
                let (x, y) = (own[0], own[3]);
                let name = escaped(&place.name);
                let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\">{name}</text>");
            }
        }
        out.push_str("</g>\n");
    }

    /// Draws the legend of the colours.
    fn legend(&self, out: &mut String) {
        let shells = self.shells.iter().enumerate().map(|(n, shell)| {
            let text = format!("{} ({})", escaped(&shell.name), shell.satellites.len());
            (COLORS[n % COLORS.len()], text)
        });
        let lines = [
            ("#8fa3b8", "inter-satellite link", self.isls.len()),
            ("#1a9850", "ground link", self.gsls.len()),
            ("#d62728", "path", self.paths.len()),
        ];
        let lines = lines.into_iter().filter(|(_, _, count)| *count > 0);
        let lines = lines.map(|(color, what, count)| (color, format!("{what} ({count})")));
        let mut x = 10.0;
        for (color, text) in shells.chain(lines) {
            let y = 180.0 * SCALE + TOP + 20.0;
            let _ = writeln!(
                out,
                "<rect x=\"{x}\" y=\"{}\" width=\"9\" height=\"9\" fill=\"{color}\"/><text x=\"{}\" y=\"{y}\">{text}</text>",
                y - 8.5,
                x + 13.0
            );
            x += 40.0 + LETTER.1 * text.chars().count() as f64;
        }
    }
}

fn land(out: &mut String) {
    let _ = write!(
        out,
        "<path class=\"land\" fill=\"#efece3\" stroke=\"#cfc9b8\" stroke-width=\"{}\" transform=\"translate(0 {TOP}) scale({})\" d=\"",
        5.0 / SCALE,
        SCALE / 10.0
    );
    for ring in LAND.lines() {
        let mut numbers = ring.splitn(3, ' ');
        let mut next = || numbers.next().unwrap_or_default();
        let _ = writeln!(out, "M{} {}l{}z", next(), next(), next());
    }
    out.push_str("\"/>\n");
}

fn graticule(out: &mut String) {
    let _ = writeln!(
        out,
        "<g class=\"graticule\" stroke=\"#d8d8d8\" fill=\"#888\" font-size=\"9\">"
    );
    for longitude in (-180..=180).step_by(30) {
        let x = f64::from(longitude + 180) * SCALE;
        let _ = writeln!(
            out,
            "<line x1=\"{x}\" y1=\"{TOP}\" x2=\"{x}\" y2=\"{}\"/>",
            180.0 * SCALE + TOP
        );
        let anchor = match longitude {
            -180 => "start",
            180 => "end",
            _ => "middle",
        };
        let _ = writeln!(
            out,
            "<text stroke=\"none\" text-anchor=\"{anchor}\" x=\"{x}\" y=\"{}\">{longitude}\u{b0}</text>",
            TOP - 3.0
        );
    }
    for latitude in (-60..=60).step_by(30) {
        let y = f64::from(90 - latitude) * SCALE + TOP;
        let _ = writeln!(
            out,
            "<line x1=\"0\" y1=\"{y}\" x2=\"{}\" y2=\"{y}\"/>",
            360.0 * SCALE
        );
        let _ = writeln!(
            out,
            "<text stroke=\"none\" x=\"2\" y=\"{}\">{latitude}\u{b0}</text>",
            y - 2.0
        );
    }
    out.push_str("</g>\n");
}

/// Returns longitude and latitude, degrees; `None` for a position that is not finite.
fn degrees(p: DVec3) -> Option<(f64, f64)> {
    if !p.is_finite() || p.length() < 1e5 {
        return None;
    }
    let g = Geodetic::from_itrf_m(p);
    Some((g.longitude_rad.to_degrees(), g.latitude_rad.to_degrees()))
}

fn to_pixel((longitude, latitude): (f64, f64)) -> (f64, f64) {
    ((longitude + 180.0) * SCALE, (90.0 - latitude) * SCALE + TOP)
}

fn pixel(p: DVec3) -> Option<(f64, f64)> {
    degrees(p).map(to_pixel)
}

/// Lines that bend with the projection and are cut where they leave the map at the date line.
fn lines(out: &mut String, class: &str, color: &str, width: &str, lines: &[(DVec3, DVec3)]) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "<path class=\"{class}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{width}\" d=\""
    );
    for (a, b) in lines {
        // Lengths are finite if both ends have a position; conversions saturate.
        let pieces = ((a.distance(*b) / PIECE_M).ceil() as u32).clamp(1, 100);
        let points: Vec<(f64, f64)> = (0..=pieces)
            .filter_map(|n| degrees(a.lerp(*b, f64::from(n) / f64::from(pieces))))
            .collect();
        let mut last: Option<(f64, f64)> = None;
        for point in points {
            let jump = last.is_some_and(|l: (f64, f64)| (l.0 - point.0).abs() > 180.0);
            if let (true, Some(l)) = (jump, last) {
                // Over the edge on one side, in again on the other, at the latitude in between.
                let side = if l.0 > 0.0 { 180.0 } else { -180.0 };
                let beyond = point.0 + 2.0 * side;
                let share = if beyond == l.0 {
                    0.0
                } else {
                    (side - l.0) / (beyond - l.0)
                };
                let latitude = l.1 + (point.1 - l.1) * share;
                let (x, y) = to_pixel((side, latitude));
                let _ = write!(out, "L{x:.1} {y:.1}");
                let (x, y) = to_pixel((-side, latitude));
                let _ = write!(out, "M{x:.1} {y:.1}");
            }
            let (x, y) = to_pixel(point);
            let _ = write!(
                out,
                "{}{x:.1} {y:.1}",
                if last.is_none() { 'M' } else { 'L' }
            );
            last = Some(point);
        }
        out.push('\n');
    }
    out.push_str("\"/>\n");
}
