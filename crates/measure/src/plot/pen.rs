//! Curves as ink: lines, markers, and strokes on an axis.

use std::fmt::Write as _;

use super::ink::Shape;

/// Distance of the markers of one curve, points.
pub(super) const MARKERS_PT: f64 = 60.0;

/// Chooses points for markers: the first from `begin` on, and then each time after [`MARKERS_PT`].
pub(super) fn spread(places: &[Option<(f64, f64)>], begin: f64) -> Vec<(f64, f64)> {
    let mut next = begin;
    let mut chosen = Vec::new();
    for place in places.iter().flatten() {
        if place.0 >= next {
            chosen.push(*place);
            next = begin + (((place.0 - begin) / MARKERS_PT).floor() + 1.0) * MARKERS_PT;
        }
    }
    if chosen.is_empty() {
        chosen.extend(places.iter().flatten().last());
    }
    chosen
}

/// The ink of a curve.
pub(super) struct Ink<'a> {
    pub(super) colour: &'a str,
    pub(super) dashes: String,
    pub(super) width: f64,
    pub(super) shape: Option<Shape>,
    pub(super) radius: f64,
}

impl Ink<'_> {
    pub(super) fn line(&self, out: &mut String, places: &[(f64, f64)]) {
        let mut path = String::new();
        for (number, (x, y)) in places.iter().enumerate() {
            let pen = if number == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{pen}{x:.2} {y:.2}");
        }
        match places {
            [] => return,
            // A line of length zero, whose round ends form a dot.
            [_] => path.push_str("h0"),
            _ => {}
        }
        let _ = writeln!(
            out,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{:.2}\" stroke-linecap=\"{}\" \
             stroke-linejoin=\"round\"{}/>",
            self.colour,
            self.width,
            if places.len() == 1 { "round" } else { "butt" },
            self.dashes
        );
    }

    pub(super) fn marker(&self, out: &mut String, shape: Shape, places: &[(f64, f64)]) {
        let path: String = places
            .iter()
            .map(|(x, y)| shape.path(*x, *y, self.radius))
            .collect();
        if !path.is_empty() {
            let _ = writeln!(
                out,
                "<path d=\"{path}\" fill=\"white\" stroke=\"{}\" stroke-width=\"0.8\"/>",
                self.colour
            );
        }
    }

    pub(super) fn rug(&self, out: &mut String, times: &[f64], foot: f64, tall: f64) {
        let path: String = times
            .iter()
            .map(|x| format!("M{x:.2} {foot:.2}v{:.2}", -tall))
            .collect();
        if !path.is_empty() {
            let _ = writeln!(
                out,
                "<path d=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-width=\"0.8\"/>",
                self.colour
            );
        }
    }
}
