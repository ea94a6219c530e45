//! Static SVG pictures for screens and papers: curves over time, panels one above the other, one time axis for all; and
//! [intervals]. Every picture is readable in grey: curves differ by dashes and markers too.

mod ink;
pub mod intervals;
mod look;
mod page;
mod pen;

pub use look::{Look, OWN_FONT, StyleError, Width, WidthError};

use std::fmt::Write as _;

use ink::{Shape, escape, head, wrapped};
use page::Page;

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
    /// A black or grey dashed line, for computed values next to measured ones.
    Dashed,
    /// Separate points.
    Dots,
    /// Short strokes on the axis of time, for instants without a value. The points' values are not used.
    Rug,
}

/// Curves that share an axis of values.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// The label of the axis: a quantity in words with its unit, as `delay (ms)`.
    pub label: String,
    /// The curves, in drawing order.
    pub curves: Vec<Curve>,
    /// Whether the axis begins at 0 whatever the values are.
    pub from_zero: bool,
}

/// The kind of an event that is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MarkKind {
    /// A station changed its satellite.
    Handover,
    /// A flow took another path.
    Path,
    /// A person or a program changed the network while it ran.
    ByHand,
    /// A failure of the scenario began or ended.
    Failure,
    /// A stage of a run began.
    Stage,
}

impl MarkKind {
    /// The marker, its dashes, and the words for one and for several.
    const fn drawn(self) -> (Shape, &'static str, [&'static str; 2]) {
        match self {
            Self::Handover => (Shape::Down, "3 2", ["handover", "handovers"]),
            Self::Path => (Shape::Diamond, "1 2", ["change of path", "changes of path"]),
            Self::ByHand => (Shape::Square, "none", ["change by hand", "changes by hand"]),
            Self::Failure => (
                Shape::Cross,
                "6 2 1 2",
                ["failure or repair", "failures and repairs"],
            ),
            Self::Stage => (Shape::Up, "2 3", ["stage", "stages"]),
        }
    }
}

/// An instant that is marked by a vertical line.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// The time, seconds.
    pub t_s: f64,
    /// The event that began then.
    pub name: String,
    /// The kind of the event.
    pub kind: MarkKind,
}

/// A picture of curves over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The title, in words.
    pub title: String,
    /// The label of the axis of time, with its unit.
    pub time_label: String,
    /// The beginning of the axis of time, seconds. It ends with the last point or mark.
    pub begin_s: f64,
    /// The panels, from the top. Those without values are not drawn.
    pub panels: Vec<Panel>,
    /// The events.
    pub marks: Vec<Mark>,
    /// Sentences below the picture.
    pub notes: Vec<String>,
}

/// More marks than this are not numbered and described one by one: the kinds are counted.
const MOST_NUMBERED: usize = 12;

/// Space between the parts of a picture, points.
const PAD: f64 = 4.0;

/// Marks closer than this part of the width share a line and a number.
const TOGETHER: f64 = 0.012;

impl Figure {
    /// Draws the picture.
    #[must_use]
    pub fn svg(&self, look: &Look) -> String {
        let panels: Vec<&Panel> = self.panels.iter().filter(|p| p.has_values()).collect();
        let page = Page::of(self, &panels, look);
        let mut body = String::new();
        let mut y = PAD;
        if look.title {
            for line in wrapped(&self.title, look.font_pt * 1.2, page.width - 2.0 * PAD) {
                y += look.font_pt * 1.4;
                let _ = writeln!(
                    body,
                    "<text x=\"{:.2}\" y=\"{y:.2}\" font-size=\"{:.2}\">{}</text>",
                    PAD,
                    look.font_pt * 1.2,
                    escape(&line)
                );
            }
            y += PAD;
        }
        let groups = page.groups(&self.marks);
        for (number, (panel, axis)) in panels.iter().zip(&page.axes).enumerate() {
            y = page.legend(&mut body, panel, y);
            if number == 0 {
                y = page.mark_heads(&mut body, &groups, y);
            }
            page.panel(&mut body, panel, axis, &groups, y);
            y += page.tall
                + if number + 1 < panels.len() {
                    2.5 * PAD
                } else {
                    0.0
                };
        }
        y = page.time_axis(&mut body, &self.time_label, y);
        y = page.key(&mut body, &groups, &self.notes, y);
        let mut out = head(&self.title, look, y + PAD);
        out.push_str(&body);
        out.push_str("</svg>\n");
        out
    }
}

impl Panel {
    fn has_values(&self) -> bool {
        self.curves.iter().any(Curve::has_values)
    }
}

impl Curve {
    fn has_values(&self) -> bool {
        let mut points = self.points.iter();
        points.any(|(t_s, value)| t_s.is_finite() && value.is_finite())
    }
}

#[cfg(test)]
mod tests;
