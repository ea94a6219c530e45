//! Curves over time as a static SVG picture: panels one above the other, one axis of time for all.

use std::fmt::Write as _;

/// One curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// What it is, for the legend.
    pub name: String,
    /// (seconds, value), in order of time. Values that are no numbers leave gaps.
    pub points: Vec<(f64, f64)>,
}

/// Curves that share an axis of values, which begins at 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// What the values are, with their unit.
    pub label: String,
    /// Drawn in order.
    pub curves: Vec<Curve>,
}

/// A moment worth a line.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// When, seconds.
    pub t_s: f64,
    /// What began then.
    pub name: String,
}

const WIDTH: f64 = 900.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 46.0;
const PANEL: f64 = 170.0;
const GAP: f64 = 34.0;
const BOTTOM: f64 = 44.0;
const COLOURS: [&str; 6] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
];

/// Draws. Time begins at 0 and ends with the last point or mark.
#[must_use]
pub fn svg(title: &str, panels: &[Panel], marks: &[Mark]) -> String {
    let points = panels
        .iter()
        .flat_map(|p| &p.curves)
        .flat_map(|c| &c.points);
    let last = points.map(|p| p.0).chain(marks.iter().map(|m| m.t_s));
    let end_s = last.filter(|t| t.is_finite()).fold(1.0, f64::max);
    let height = TOP + panels.len() as f64 * (PANEL + GAP) - GAP + BOTTOM;
    let x = |t_s: f64| LEFT + t_s / end_s * (WIDTH - LEFT - RIGHT);
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"18\" font-size=\"15\">{}</text>",
        escape(title)
    );
    for (number, panel) in panels.iter().enumerate() {
        let top = TOP + number as f64 * (PANEL + GAP);
        draw_panel(&mut out, panel, top, &x);
    }
    let foot = height - BOTTOM;
    for mark in marks.iter().filter(|m| m.t_s.is_finite()) {
        let at = x(mark.t_s);
        let _ = writeln!(
            out,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{foot:.1}\" stroke=\"#999\" \
             stroke-dasharray=\"3 3\"/>\n<text x=\"{:.1}\" y=\"{:.1}\" fill=\"#555\" font-size=\"10\">{}</text>",
            at + 2.0,
            TOP - 4.0,
            escape(&mark.name)
        );
    }
    let step = round_up(end_s / 10.0);
    let mut tick = 0.0;
    while tick <= end_s {
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{tick}</text>",
            x(tick),
            foot + 16.0
        );
        tick += step;
    }
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">seconds</text>\n</svg>",
        f64::midpoint(LEFT, WIDTH - RIGHT),
        foot + 34.0
    );
    out
}

fn draw_panel(out: &mut String, panel: &Panel, top: f64, x: &impl Fn(f64) -> f64) {
    let values = panel.curves.iter().flat_map(|c| &c.points).map(|p| p.1);
    let most = values.filter(|v| v.is_finite()).fold(0.0, f64::max);
    let step = round_up(if most > 0.0 { most / 4.0 } else { 0.25 });
    let most = (most / step).ceil().max(1.0) * step;
    let y = |value: f64| top + PANEL - value / most * PANEL;
    for line in 0..=(most / step).round() as u32 {
        let value = f64::from(line) * step;
        let at = y(value);
        let _ = writeln!(
            out,
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\n\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0,
            short(value)
        );
    }
    let _ = writeln!(
        out,
        "<text transform=\"translate(16 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        top + PANEL / 2.0,
        escape(&panel.label)
    );
    for (curve, colour) in panel.curves.iter().zip(COLOURS.iter().cycle()) {
        let mut pen = 'M';
        let mut path = String::new();
        for (t_s, value) in &curve.points {
            if t_s.is_finite() && value.is_finite() {
                let _ = write!(path, "{pen}{:.1} {:.1}", x(*t_s), y(*value));
                pen = 'L';
            } else {
                pen = 'M';
            }
        }
        let _ = writeln!(
            out,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>"
        );
    }
    for ((number, curve), colour) in panel.curves.iter().enumerate().zip(COLOURS.iter().cycle()) {
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"{colour}\">{}</text>",
            WIDTH - RIGHT - 4.0,
            top + 14.0 + 14.0 * number as f64,
            escape(&curve.name)
        );
    }
}

/// The next of 1, 2, 5, 10, 20, ... from `value` upwards.
fn round_up(value: f64) -> f64 {
    let scale = 10f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|s| s * scale);
    steps
        .into_iter()
        .find(|s| *s >= value * (1.0 - 1e-9))
        .unwrap_or(10.0 * scale)
}

/// As few digits as tell grid lines apart.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grid_lines_are_round() {
        for (value, expected) in [
            (0.03, 0.05),
            (1.0, 1.0),
            (1.1, 2.0),
            (237.0, 500.0),
            (6.0, 10.0),
        ] {
            assert!(
                (round_up(value) - expected).abs() < 1e-12 * expected.max(1.0),
                "{value}"
            );
        }
        assert_eq!(
            (short(2.50), short(1000.0), short(0.0)),
            ("2.5".into(), "1000".into(), "0".into())
        );
    }

    #[test]
    fn curves_stay_within_their_panel_and_gaps_are_gaps() {
        let curve = Curve {
            name: "a <b>".into(),
            points: vec![(0.0, 0.0), (5.0, f64::NAN), (10.0, 7.0), (20.0, 3.0)],
        };
        let panels = [Panel {
            label: "x & y".into(),
            curves: vec![curve],
        }];
        let marks = [Mark {
            t_s: 4.0,
            name: "begin".into(),
        }];
        let picture = svg("t", &panels, &marks);
        assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
        assert!(picture.contains("a &lt;b&gt;") && picture.contains("x &amp; y"));
        let path = picture
            .split("d=\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap();
        assert_eq!(path.matches('M').count(), 2, "{path}");
        // Value 7 of at most 8, at half of the time.
        assert!(
            path.contains(&format!(
                "M{:.1} {:.1}",
                f64::midpoint(LEFT, WIDTH - RIGHT),
                TOP + PANEL / 8.0
            )),
            "{path}"
        );
    }

    #[test]
    fn nothing_to_draw_is_no_trouble() {
        assert!(svg("empty", &[], &[]).contains("</svg>"));
        let empty = Panel {
            label: "none".into(),
            curves: vec![Curve {
                name: "c".into(),
                points: vec![],
            }],
        };
        assert!(!svg("empty", &[empty], &[]).contains("NaN"));
    }
}
