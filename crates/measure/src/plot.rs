//! Static SVG plots: curves over time, panels one above the other, one time axis for all; and [intervals].

pub mod intervals;

use std::fmt::Write as _;

/// One curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// The name in the legend.
    pub name: String,
    /// Points (seconds, value) in order of time. Values that are not finite leave gaps.
    pub points: Vec<(f64, f64)>,
    /// The style.
    pub style: Style,
}

/// The style of a curve.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Style {
    /// A line from point to point.
    #[default]
    Line,
    /// A dashed line, for computed values next to measured ones.
    Dashed,
    /// Separate points.
    Dots,
}

/// Curves that share an axis of values, which begins at 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// The label of the axis, with the unit.
    pub label: String,
    /// The curves, in drawing order.
    pub curves: Vec<Curve>,
}

/// An instant that is marked by a vertical line.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// The time, seconds.
    pub t_s: f64,
    /// The event that began then.
    pub name: String,
}

const WIDTH: f64 = 900.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 46.0;
const PANEL: f64 = 170.0;
const GAP: f64 = 34.0;
const BOTTOM: f64 = 44.0;
/// Ticks of time are at most a tenth of its length apart, and grid lines a quarter of the largest value: there are no more.
const TICKS: u32 = 10;
const LINES: u32 = 5;

const COLOURS: [&str; 6] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
];

/// Draws the plot. Time begins at `begin_s` and ends with the last point or mark.
#[must_use]
pub fn svg(title: &str, begin_s: f64, panels: &[Panel], marks: &[Mark]) -> String {
    let points = panels
        .iter()
        .flat_map(|p| &p.curves)
        .flat_map(|c| &c.points);
    let last = points.map(|p| p.0).chain(marks.iter().map(|m| m.t_s));
    let last = last.filter(|t| t.is_finite());
    let end_s = last.fold(begin_s + 1.0, f64::max);
    let height = TOP + panels.len() as f64 * (PANEL + GAP) - GAP + BOTTOM;
    let x = |t_s: f64| LEFT + (t_s - begin_s) / (end_s - begin_s) * (WIDTH - LEFT - RIGHT);
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
    let step = round_up((end_s - begin_s) / 10.0);
    let first = (begin_s / step - 1e-9).ceil();
    // Ticks are counted from zero, because a number from 2^53 on does not change when one is added.
    for number in 0..=TICKS {
        let tick = (first + f64::from(number)) * step;
        if tick > end_s || !tick.is_finite() {
            break;
        }
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            x(tick),
            foot + 16.0,
            short(tick)
        );
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
    for line in 0..=(most / step).round().min(f64::from(LINES)) as u32 {
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
            if !t_s.is_finite() || !value.is_finite() {
                pen = 'M';
            } else if curve.style == Style::Dots {
                // A line of length zero, whose round ends form a dot.
                let _ = write!(path, "M{:.1} {:.1}h0", x(*t_s), y(*value));
            } else {
                let _ = write!(path, "{pen}{:.1} {:.1}", x(*t_s), y(*value));
                pen = 'L';
            }
        }
        let drawn = match curve.style {
            Style::Line => "stroke-width=\"1.5\"",
            Style::Dashed => "stroke-width=\"1.5\" stroke-dasharray=\"6 4\"",
            Style::Dots => "stroke-width=\"4\" stroke-linecap=\"round\"",
        };
        let _ = writeln!(
            out,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" {drawn}/>"
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

/// Returns the next of 1, 2, 5, 10, 20, ... from `value` upwards.
fn round_up(value: f64) -> f64 {
    let scale = 10f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|s| s * scale);
    steps
        .into_iter()
        .find(|s| *s >= value * (1.0 - 1e-9))
        .unwrap_or(10.0 * scale)
}

/// Formats a value with as few digits as distinguish grid lines.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Escapes text of an element. Control characters are not permitted in XML.
fn escape(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of others: at 5e15 s, a tenth of a second does not change the number of a tick.
    #[test]
    fn a_plot_of_any_numbers_ends() {
        let numbers = [
            0.0,
            5e15,
            9e15,
            1e300,
            f64::MAX,
            f64::MIN_POSITIVE,
            5e-324,
            f64::NAN,
            f64::INFINITY,
        ];
        for t_s in numbers.into_iter().flat_map(|t_s| [t_s, -t_s]) {
            for value in numbers {
                let panels = [Panel {
                    label: "a".to_owned(),
                    curves: vec![Curve {
                        name: "c".to_owned(),
                        points: vec![(t_s, value)],
                        style: Style::Line,
                    }],
                }];
                let picture = svg("t", t_s, &panels, &[]);
                assert!(picture.lines().count() < 40, "{t_s} {value}: {picture}");
            }
        }
    }

    #[test]
    fn names_of_others_are_text() {
        let shown = escape("a\u{1b}[2J<b>\n&");
        assert_eq!(shown, "a\u{fffd}[2J&lt;b&gt;\u{fffd}&amp;");
    }

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
            style: Style::Line,
        };
        let panels = [Panel {
            label: "x & y".into(),
            curves: vec![curve],
        }];
        let marks = [Mark {
            t_s: 4.0,
            name: "begin".into(),
        }];
        let picture = svg("t", 0.0, &panels, &marks);
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
    fn time_may_begin_late_and_dots_stand_alone() {
        let curve = Curve {
            name: "c".into(),
            points: vec![(1_000.0, 1.0), (1_005.0, 1.0), (1_010.0, 1.0)],
            style: Style::Dots,
        };
        let panel = Panel {
            label: "x".into(),
            curves: vec![curve],
        };
        let picture = svg("t", 1_000.0, &[panel], &[]);
        assert_eq!(picture.matches("h0").count(), 3, "{picture}");
        assert!(picture.contains(&format!("M{LEFT:.1} ")), "{picture}");
        assert!(picture.contains(">1000</text>") && picture.contains(">1010</text>"));
        assert!(!picture.contains(">999</text>"));
    }

    #[test]
    fn nothing_to_draw_is_no_trouble() {
        assert!(svg("empty", 0.0, &[], &[]).contains("</svg>"));
        let empty = Panel {
            label: "none".into(),
            curves: vec![Curve {
                name: "c".into(),
                points: vec![],
                style: Style::Dots,
            }],
        };
        assert!(!svg("empty", 0.0, &[empty], &[]).contains("NaN"));
    }
}
