//! A static map as SVG: the whole Earth in plate carree, with a graticule instead of coastlines.

use std::fmt::Write;

use constel_orbit::{DVec3, Geodetic};

/// What is drawn, all in ITRF, metres.
#[derive(Debug, Clone, Default)]
pub struct Map {
    /// Written above the map.
    pub title: String,
    /// Satellites by group (a shell); each group has a colour of its own.
    pub shells: Vec<Shell>,
    /// Stations.
    pub stations: Vec<Place>,
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
    /// Where they are; points that are not finite are left out.
    pub satellites: Vec<DVec3>,
}

/// A named point.
#[derive(Debug, Clone)]
pub struct Place {
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
/// Pieces a line is cut into, so that it bends as it should in the projection.
const PIECES: u32 = 8;

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
        graticule(&mut out);
        lines(&mut out, "isl", "#9ab", "0.5", &self.isls);
        lines(&mut out, "gsl", "#2a2", "1", &self.gsls);
        for (n, shell) in self.shells.iter().enumerate() {
            let color = COLORS[n % COLORS.len()];
            let _ = writeln!(out, "<g class=\"shell\" fill=\"{color}\">");
            for (x, y) in shell.satellites.iter().filter_map(|p| pixel(*p)) {
                let _ = writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"1.8\"/>");
            }
            let _ = writeln!(
                out,
                "</g>\n<text x=\"{}\" y=\"{}\" fill=\"{color}\">{} ({})</text>",
                10 + 220 * n,
                180.0 * SCALE + TOP + 20.0,
                escaped(&shell.name),
                shell.satellites.len()
            );
        }
        for path in &self.paths {
            let hops: Vec<(DVec3, DVec3)> = path.windows(2).map(|w| (w[0], w[1])).collect();
            lines(&mut out, "path", "#d62728", "2.5", &hops);
        }
        let _ = writeln!(out, "<g class=\"station\">");
        for station in &self.stations {
            if let Some((x, y)) = pixel(station.position_itrf_m) {
                let _ = writeln!(
                    out,
                    "<path d=\"M{x:.1} {:.1}l4 7h-8z\" fill=\"#d62728\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                    y - 4.0,
                    x + 6.0,
                    y + 4.0,
                    escaped(&station.name)
                );
            }
        }
        out.push_str("</g>\n</svg>\n");
        out
    }
}

fn graticule(out: &mut String) {
    let _ = writeln!(
        out,
        "<g class=\"graticule\" stroke=\"#ddd\" fill=\"#999\" font-size=\"9\">"
    );
    for longitude in (-180..=180).step_by(30) {
        let x = f64::from(longitude + 180) * SCALE;
        let _ = writeln!(
            out,
            "<line x1=\"{x}\" y1=\"{TOP}\" x2=\"{x}\" y2=\"{}\"/>",
            180.0 * SCALE + TOP
        );
        let _ = writeln!(
            out,
            "<text stroke=\"none\" x=\"{}\" y=\"{}\">{longitude}\u{b0}</text>",
            x + 2.0,
            TOP - 3.0
        );
    }
    for latitude in (-90..=90).step_by(30) {
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

/// Longitude and latitude, degrees; `None` for what is nowhere.
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
        let points: Vec<(f64, f64)> = (0..=PIECES)
            .filter_map(|n| degrees(a.lerp(*b, f64::from(n) / f64::from(PIECES))))
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

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
