//! The page of a picture over time: where its panels, legends, marks and texts are.

use std::fmt::Write as _;

use super::ink::{self, Axis, Shape, dashes, escape, text_width, wrapped};
use super::pen::{Ink, MARKERS_PT, spread};
use super::{Figure, Look, MOST_NUMBERED, Mark, MarkKind, PAD, Panel, Style, TOGETHER};

/// Marks that share a line.
pub(super) struct Group<'a> {
    x: f64,
    marks: Vec<&'a Mark>,
}

/// The measures of a picture, points.
pub(super) struct Page<'a> {
    look: &'a Look,
    pub(super) width: f64,
    left: f64,
    right: f64,
    /// The height of a panel.
    pub(super) tall: f64,
    time: Axis,
    /// The axes of the panels' values.
    pub(super) axes: Vec<Axis>,
}

impl<'a> Page<'a> {
    pub(super) fn of(figure: &Figure, panels: &[&Panel], look: &'a Look) -> Self {
        let (width, font) = (look.width.points(), look.font_pt);
        let tall = (width * if panels.len() > 1 { 0.26 } else { 0.38 }).clamp(70.0, 400.0);
        let values = |panel: &&Panel| {
            let drawn = panel.curves.iter().filter(|c| c.style != Style::Rug);
            let values = drawn.flat_map(|c| &c.points).map(|p| p.1);
            let wanted = (tall / (3.0 * font)).clamp(2.0, 6.0);
            Axis::of_values(values, wanted, panel.from_zero)
        };
        let axes: Vec<Axis> = panels.iter().map(values).collect();
        let texts = axes.iter().flat_map(|axis| &axis.ticks);
        let widest = texts.map(|(_, text)| text_width(text, font));
        let left = PAD + 1.3 * font + PAD + widest.fold(0.0, f64::max) + PAD;
        let right = width - PAD - font;
        let points = panels
            .iter()
            .flat_map(|p| &p.curves)
            .flat_map(|c| &c.points);
        let last = points
            .map(|p| p.0)
            .chain(figure.marks.iter().map(|m| m.t_s));
        let last = last.filter(|t| t.is_finite());
        let end_s = last.fold(figure.begin_s + 1.0, f64::max);
        let wanted = ((right - left) / (5.0 * font)).clamp(2.0, 10.0);
        Self {
            look,
            width,
            left,
            right,
            tall,
            time: Axis::of_time(figure.begin_s, end_s, wanted),
            axes,
        }
    }

    fn x(&self, t_s: f64) -> f64 {
        self.left + self.time.place(t_s) * (self.right - self.left)
    }

    /// Joins marks that are too close to be told apart.
    pub(super) fn groups<'m>(&self, marks: &'m [Mark]) -> Vec<Group<'m>> {
        let mut sorted: Vec<&Mark> = marks.iter().filter(|m| m.t_s.is_finite()).collect();
        sorted.sort_by(|a, b| a.t_s.total_cmp(&b.t_s).then(a.kind.cmp(&b.kind)));
        let mut groups: Vec<Group> = Vec::new();
        for mark in sorted {
            let x = self.x(mark.t_s);
            match groups.last_mut() {
                Some(group) if x - group.x < self.width * TOGETHER => group.marks.push(mark),
                _ => groups.push(Group {
                    x,
                    marks: vec![mark],
                }),
            }
        }
        groups
    }

    /// Draws the legend of a panel above it, and returns the next free height. One curve alone needs none if the label of the
    /// axis has its name.
    pub(super) fn legend(&self, out: &mut String, panel: &Panel, top: f64) -> f64 {
        let font = self.look.font_pt;
        let sample = 2.6 * font;
        let (mut x, mut y) = (self.left, top + 1.2 * font);
        let drawn = panel.curves.iter().enumerate();
        for (number, curve) in drawn.filter(|(_, curve)| curve.has_values()) {
            let wide = sample + PAD + text_width(&curve.name, font) + 1.5 * font;
            if x > self.left && x + wide > self.width {
                (x, y) = (self.left, y + 1.45 * font);
            }
            let middle = y - 0.35 * font;
            let ink = self.ink(panel, number);
            let ends = [(x, middle), (x + sample, middle)];
            let at = x + sample / 2.0;
            match curve.style {
                Style::Line | Style::Dashed => {
                    ink.line(out, &ends);
                    if let Some(shape) = ink.shape {
                        ink.marker(out, shape, &[(at, middle)]);
                    }
                }
                Style::Dots => ink.marker(out, ink.shape.unwrap_or(Shape::Cross), &[(at, middle)]),
                Style::Rug => ink.rug(
                    out,
                    &[at - 3.0, at, at + 3.0],
                    middle + font * 0.35,
                    font * 0.7,
                ),
            }
            let _ = writeln!(
                out,
                "<text x=\"{:.2}\" y=\"{y:.2}\">{}</text>",
                x + sample + PAD,
                escape(&curve.name)
            );
            x += wide;
        }
        y + PAD
    }

    /// The ink of curve number `number` of a panel.
    fn ink(&self, panel: &Panel, number: usize) -> Ink<'_> {
        let style = panel.curves[number].style;
        let before = panel.curves[..number].iter();
        let alike = before.filter(|curve| curve.style == style).count();
        let lines = panel
            .curves
            .iter()
            .filter(|c| c.style == Style::Line)
            .count();
        let line_pt = self.look.line_pt;
        let (colour, dashes, width, shape) = match style {
            // The first curve is wide, so that it is visible below another at the same values; markers are where the other
            // curves have none.
            Style::Line => (
                self.look.colours[alike % self.look.colours.len()].as_str(),
                dashes(alike, line_pt),
                if alike == 0 && lines > 1 {
                    1.6 * line_pt
                } else {
                    line_pt
                },
                (lines > 1).then(|| Shape::of(alike)),
            ),
            Style::Dashed => (
                ["#000000", "#767676"][alike % 2],
                dashes(alike + 1, line_pt),
                line_pt,
                None,
            ),
            Style::Dots => (
                "#000000",
                String::new(),
                line_pt,
                Some(if alike == 0 {
                    Shape::Cross
                } else {
                    Shape::of(alike)
                }),
            ),
            Style::Rug => ("#000000", String::new(), line_pt, None),
        };
        Ink {
            colour,
            dashes,
            width,
            shape,
            radius: self.look.marker_pt / 2.0,
        }
    }

    /// Draws the heads of the marks above the first panel: a marker for each kind, with a number if there are few.
    pub(super) fn mark_heads(&self, out: &mut String, groups: &[Group], top: f64) -> f64 {
        if groups.is_empty() {
            return top;
        }
        let font = self.look.font_pt;
        let numbered = groups.len() <= MOST_NUMBERED;
        // Numbers that would touch are on two heights.
        let close = |pair: &[Group]| pair[1].x - pair[0].x < 1.6 * font;
        let levels = if groups.windows(2).any(close) { 2 } else { 1 };
        let foot =
            top + if numbered {
                f64::from(levels) * font
            } else {
                0.0
            } + 2.2 * self.look.marker_pt;
        for (number, group) in groups.iter().enumerate() {
            let kinds = group.kinds();
            let wide = 1.3 * self.look.marker_pt;
            for (place, kind) in kinds.iter().enumerate() {
                let x = group.x + (place as f64 - (kinds.len() - 1) as f64 / 2.0) * wide;
                self.mark_head(out, *kind, x, foot - 0.8 * self.look.marker_pt);
            }
            if numbered {
                let level = number % levels as usize;
                let _ = writeln!(
                    out,
                    "<text x=\"{:.2}\" y=\"{:.2}\" text-anchor=\"middle\" font-size=\"{:.2}\">{}</text>",
                    group.x,
                    foot - 1.8 * self.look.marker_pt - level as f64 * font,
                    0.9 * font,
                    number + 1
                );
            }
        }
        foot
    }

    fn mark_head(&self, out: &mut String, kind: MarkKind, x: f64, y: f64) {
        let filled = if kind == MarkKind::ByHand {
            "black"
        } else {
            "white"
        };
        let _ = writeln!(
            out,
            "<path d=\"{}\" fill=\"{filled}\" stroke=\"black\" stroke-width=\"0.7\"/>",
            kind.drawn().0.path(x, y, self.look.marker_pt / 2.0)
        );
    }

    pub(super) fn panel(
        &self,
        out: &mut String,
        panel: &Panel,
        axis: &Axis,
        groups: &[Group],
        top: f64,
    ) {
        let (font, foot) = (self.look.font_pt, top + self.tall);
        let y = |value: f64| foot - axis.place(value) * self.tall;
        for (value, text) in &axis.ticks {
            let at = y(*value);
            if self.look.grid {
                self.grid(out, (self.left, at), (self.right, at));
            }
            let _ = writeln!(
                out,
                "<text x=\"{:.2}\" y=\"{:.2}\" text-anchor=\"end\">{text}</text>",
                self.left - PAD,
                at + 0.35 * font
            );
        }
        for (t_s, _) in self.time.ticks.iter().filter(|_| self.look.grid) {
            self.grid(out, (self.x(*t_s), top), (self.x(*t_s), foot));
        }
        for group in groups {
            for mark in &group.marks {
                let _ = writeln!(
                    out,
                    "<path d=\"M{:.2} {top:.2}V{foot:.2}\" fill=\"none\" stroke=\"#555555\" stroke-width=\"0.6\" \
                     stroke-dasharray=\"{}\"/>",
                    group.x,
                    mark.kind.drawn().1
                );
            }
        }
        let _ = writeln!(
            out,
            "<text transform=\"translate({:.2} {:.2}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            PAD + font,
            top + self.tall / 2.0,
            escape(&panel.label)
        );
        let lines = panel
            .curves
            .iter()
            .filter(|c| c.style == Style::Line)
            .count();
        for (number, curve) in panel.curves.iter().enumerate() {
            let ink = self.ink(panel, number);
            let finite = |(t_s, value): &(f64, f64)| {
                let place = (self.x(*t_s), y(*value));
                (place.0.is_finite() && place.1.is_finite()).then_some(place)
            };
            let places: Vec<Option<(f64, f64)>> = curve.points.iter().map(finite).collect();
            match curve.style {
                Style::Line | Style::Dashed => {
                    for piece in places.split(Option::is_none) {
                        let piece: Vec<(f64, f64)> = piece.iter().flatten().copied().collect();
                        ink.line(out, &piece);
                    }
                    if let Some(shape) = ink.shape {
                        let begin = self.left + (number as f64 + 0.5) / lines as f64 * MARKERS_PT;
                        ink.marker(out, shape, &spread(&places, begin));
                    }
                }
                Style::Dots => {
                    let places: Vec<(f64, f64)> = places.into_iter().flatten().collect();
                    ink.marker(out, ink.shape.unwrap_or(Shape::Cross), &places);
                }
                Style::Rug => {
                    let times = curve.points.iter().map(|(t_s, _)| self.x(*t_s));
                    let times: Vec<f64> = times.filter(|x| x.is_finite()).collect();
                    ink.rug(out, &times, foot, 0.8 * font);
                }
            }
        }
        let _ = writeln!(
            out,
            "<path d=\"M{:.2} {top:.2}V{foot:.2}H{:.2}\" fill=\"none\" stroke=\"black\" stroke-width=\"0.7\"/>",
            self.left, self.right
        );
    }

    fn grid(&self, out: &mut String, from: (f64, f64), to: (f64, f64)) {
        let _ = writeln!(
            out,
            "<path d=\"M{:.2} {:.2}L{:.2} {:.2}\" stroke=\"#e3e3e3\" stroke-width=\"0.5\"/>",
            from.0, from.1, to.0, to.1
        );
    }

    /// Draws the numbers of the axis of time and its label below the last panel, and returns the next free height.
    pub(super) fn time_axis(&self, out: &mut String, label: &str, foot: f64) -> f64 {
        let font = self.look.font_pt;
        for (t_s, text) in &self.time.ticks {
            let _ = writeln!(
                out,
                "<text x=\"{:.2}\" y=\"{:.2}\" text-anchor=\"middle\">{text}</text>",
                self.x(*t_s),
                foot + 1.3 * font
            );
        }
        let y = foot + 2.7 * font;
        let _ = writeln!(
            out,
            "<text x=\"{:.2}\" y=\"{y:.2}\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(self.left, self.right),
            escape(label)
        );
        y + PAD
    }

    /// Draws the texts of the marks and the notes, and returns the next free height. Few marks have a line each, with their
    /// numbers; of many the kinds are counted.
    pub(super) fn key(
        &self,
        out: &mut String,
        groups: &[Group],
        notes: &[String],
        top: f64,
    ) -> f64 {
        let mut y = top;
        if groups.len() <= MOST_NUMBERED {
            for (number, group) in groups.iter().enumerate() {
                let lead = (number + 1).to_string();
                y = self.key_line(out, y, &lead, &group.kinds(), &group.text());
            }
        } else {
            let mut kinds: Vec<MarkKind> = groups
                .iter()
                .flat_map(|group| &group.marks)
                .map(|mark| mark.kind)
                .collect();
            kinds.sort_unstable();
            for same in kinds.chunk_by(|a, b| a == b) {
                let [one, several] = same[0].drawn().2;
                let words = if same.len() == 1 { one } else { several };
                y = self.key_line(out, y, "", &same[..1], &format!("{} {words}", same.len()));
            }
        }
        for note in notes {
            y = self.key_line(out, y, "", &[], note);
        }
        y
    }

    /// Draws a number, the markers of kinds, and a text in as many lines as it needs.
    fn key_line(
        &self,
        out: &mut String,
        top: f64,
        lead: &str,
        kinds: &[MarkKind],
        text: &str,
    ) -> f64 {
        let font = 0.9 * self.look.font_pt;
        let wide = 1.5 * self.look.marker_pt;
        let numbers = PAD + 1.6 * font;
        let indent =
            numbers + PAD + wide * kinds.len() as f64 + if kinds.is_empty() { 0.0 } else { PAD };
        let mut y = top;
        for (number, part) in wrapped(text, font, self.width - indent - PAD)
            .iter()
            .enumerate()
        {
            y += 1.3 * font;
            if number == 0 {
                for (place, kind) in kinds.iter().enumerate() {
                    let x = numbers + PAD + wide * (place as f64 + 0.5);
                    self.mark_head(out, *kind, x, y - 0.35 * font);
                }
                let _ = writeln!(
                    out,
                    "<text x=\"{numbers:.2}\" y=\"{y:.2}\" text-anchor=\"end\" font-size=\"{font:.2}\">{lead}</text>"
                );
            }
            let _ = writeln!(
                out,
                "<text x=\"{indent:.2}\" y=\"{y:.2}\" font-size=\"{font:.2}\">{}</text>",
                escape(part)
            );
        }
        y
    }
}

impl Group<'_> {
    /// Returns the kinds of its marks, each once.
    fn kinds(&self) -> Vec<MarkKind> {
        let mut kinds: Vec<MarkKind> = self.marks.iter().map(|m| m.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    /// Returns the times and the events of the marks.
    fn text(&self) -> String {
        let mut text = String::new();
        let mut latest = None;
        for mark in &self.marks {
            let at = ink::short(mark.t_s);
            let lead = if text.is_empty() { "" } else { "; " };
            if latest.as_ref() == Some(&at) {
                let _ = write!(text, "{lead}{}", mark.name);
            } else {
                let _ = write!(text, "{lead}{at} s: {}", mark.name);
            }
            latest = Some(at);
        }
        text
    }
}
