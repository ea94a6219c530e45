//! Pictures of repeats: one quantity, a line for each combination, with every run, the median and its interval.

use std::fmt::Write as _;

use super::ink::{Axis, Shape, escape, head, text_width, wrapped};
use super::{Look, PAD};

/// A median with its confidence interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// The label of the line.
    pub name: String,
    /// The median.
    pub median: f64,
    /// The ends of the interval; `None` for no interval.
    pub interval: Option<[f64; 2]>,
    /// The number of samples.
    pub n: usize,
    /// The samples, drawn as rings.
    pub samples: Vec<f64>,
}

/// A picture of one quantity.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The title, in words.
    pub title: String,
    /// The label of the axis: a quantity in words with its unit.
    pub label: String,
    /// The meaning of the interval, for the legend; `None` if no estimate has one.
    pub interval: Option<String>,
    /// The meaning of a ring, for the legend.
    pub sample: String,
    /// The estimates in order, one line each.
    pub estimates: Vec<Estimate>,
    /// The values that the quantity can have: an interval that exceeds them is drawn to the limit, with an arrow.
    pub bounds: [f64; 2],
    /// Sentences below the picture.
    pub notes: Vec<String>,
}

impl Group {
    /// Draws the picture.
    #[must_use]
    pub fn svg(&self, look: &Look) -> String {
        let (width, font) = (look.width.points(), look.font_pt);
        let names = self.estimates.iter().map(|e| text_width(&e.name, font));
        let longest = names.fold(0.0, f64::max);
        // Long names are above their lines.
        let above = longest > 0.4 * width;
        let left = if above {
            3.0 * PAD
        } else {
            longest + 3.0 * PAD
        };
        let counts = self.estimates.iter().map(|e| text_width(&counted(e), font));
        let right = width - 2.0 * PAD - counts.fold(0.0, f64::max) - font;
        let tall = if above { 3.2 * font } else { 2.2 * font };
        let [low, high] = self.bounds;
        let ends = self.estimates.iter().flat_map(|e| {
            let ends = e.interval.into_iter().flatten();
            ends.map(|end| end.clamp(low, high))
                .chain(e.samples.iter().copied())
                .chain([e.median])
        });
        let wanted = ((right - left) / (5.0 * font)).clamp(2.0, 8.0);
        let page = Page {
            axis: Axis::of_values(ends, wanted, false),
            look,
            left,
            right,
        };

        let mut body = String::new();
        let mut y = PAD;
        if look.title {
            for line in wrapped(&self.title, 1.2 * font, width - 2.0 * PAD) {
                y += 1.4 * font;
                let _ = writeln!(
                    body,
                    "<text x=\"{PAD}\" y=\"{y:.2}\" font-size=\"{:.2}\">{}</text>",
                    1.2 * font,
                    escape(&line)
                );
            }
            y += PAD;
        }
        let top = page.legend(&mut body, self, y);
        let foot = top + tall * self.estimates.len() as f64;
        page.scale(&mut body, &self.label, top, foot);
        for (number, estimate) in self.estimates.iter().enumerate() {
            let middle = top + tall * (number as f64 + if above { 0.65 } else { 0.42 });
            page.estimate(&mut body, estimate, self.bounds, middle);
            let (x, y, anchor) = if above {
                (page.left + PAD, middle - 0.9 * font, "start")
            } else {
                (page.left - PAD, middle + 0.35 * font, "end")
            };
            let _ = writeln!(
                body,
                "<text x=\"{x:.2}\" y=\"{y:.2}\" text-anchor=\"{anchor}\">{}</text>\n\
                 <text x=\"{:.2}\" y=\"{:.2}\">{}</text>",
                escape(&estimate.name),
                page.right + font,
                middle + 0.35 * font,
                counted(estimate)
            );
        }
        let mut y = foot + 3.0 * font;
        for line in self
            .notes
            .iter()
            .flat_map(|note| wrapped(note, 0.9 * font, width - 2.0 * PAD))
        {
            y += 1.3 * font;
            let _ = writeln!(
                body,
                "<text x=\"{PAD}\" y=\"{y:.2}\" font-size=\"{:.2}\">{}</text>",
                0.9 * font,
                escape(&line)
            );
        }
        let mut out = head(&self.title, look, y + PAD);
        out.push_str(&body);
        out.push_str("</svg>\n");
        out
    }
}

fn counted(estimate: &Estimate) -> String {
    format!("N = {}", estimate.n)
}

/// The measures of a picture, points.
struct Page<'a> {
    axis: Axis,
    look: &'a Look,
    left: f64,
    right: f64,
}

impl Page<'_> {
    fn x(&self, value: f64) -> f64 {
        self.left + self.axis.place(value) * (self.right - self.left)
    }

    /// Draws the legend, and returns the next free height.
    fn legend(&self, out: &mut String, group: &Group, top: f64) -> f64 {
        let (font, width) = (self.look.font_pt, self.look.width.points());
        let mut entries = vec![(Part::Median, "median".to_owned())];
        entries.extend(group.interval.clone().map(|words| (Part::Interval, words)));
        entries.push((Part::Sample, group.sample.clone()));
        let (mut x, mut y) = (PAD, top + 1.2 * font);
        for (part, words) in entries {
            let wide = 2.0 * font + PAD + text_width(&words, font) + 1.5 * font;
            if x > PAD && x + wide > width {
                (x, y) = (PAD, y + 1.45 * font);
            }
            let (at, middle) = (x + font, y - 0.35 * font);
            match part {
                Part::Median => self.median(out, at, middle),
                Part::Interval => self.bar(out, [x, x + 2.0 * font], middle, [false; 2]),
                Part::Sample => self.sample(out, at, middle),
            }
            let _ = writeln!(
                out,
                "<text x=\"{:.2}\" y=\"{y:.2}\">{}</text>",
                x + 2.0 * font + PAD,
                escape(&words)
            );
            x += wide;
        }
        y + 2.0 * PAD
    }

    /// Draws the axis and its grid.
    fn scale(&self, out: &mut String, label: &str, top: f64, foot: f64) {
        let font = self.look.font_pt;
        for (value, text) in &self.axis.ticks {
            let at = self.x(*value);
            if self.look.grid {
                let _ = writeln!(
                    out,
                    "<path d=\"M{at:.2} {top:.2}V{foot:.2}\" stroke=\"#e3e3e3\" stroke-width=\"0.5\"/>"
                );
            }
            let _ = writeln!(
                out,
                "<text x=\"{at:.2}\" y=\"{:.2}\" text-anchor=\"middle\">{text}</text>",
                foot + 1.3 * font
            );
        }
        let _ = writeln!(
            out,
            "<path d=\"M{:.2} {foot:.2}H{:.2}\" stroke=\"black\" stroke-width=\"0.7\"/>\n\
             <text x=\"{:.2}\" y=\"{:.2}\" text-anchor=\"middle\">{}</text>",
            self.left,
            self.right,
            f64::midpoint(self.left, self.right),
            foot + 2.7 * font,
            escape(label)
        );
    }

    fn estimate(&self, out: &mut String, estimate: &Estimate, bounds: [f64; 2], y: f64) {
        if let Some(ends) = estimate
            .interval
            .filter(|ends| ends.iter().all(|v| v.is_finite()))
        {
            let inside = ends.map(|end| end.clamp(bounds[0], bounds[1]));
            let clipped = [ends[0] < inside[0], ends[1] > inside[1]];
            self.bar(out, inside.map(|end| self.x(end)), y, clipped);
        }
        // Beside the bar, so that samples close together do not hide it.
        let beside = y + 1.3 * self.look.marker_pt;
        for sample in estimate.samples.iter().filter(|v| v.is_finite()) {
            self.sample(out, self.x(*sample), beside);
        }
        if estimate.median.is_finite() {
            self.median(out, self.x(estimate.median), y);
        }
    }

    /// Draws an interval: a bar with caps, or with an arrow at an end that continues.
    fn bar(&self, out: &mut String, ends: [f64; 2], y: f64, clipped: [bool; 2]) {
        let r = self.look.marker_pt;
        let mut path = format!("M{:.2} {y:.2}H{:.2}", ends[0], ends[1]);
        for ((end, clipped), inward) in ends.iter().zip(clipped).zip([r, -r]) {
            let _ = if clipped {
                write!(
                    path,
                    "M{:.2} {:.2}L{end:.2} {y:.2}L{:.2} {:.2}",
                    end + inward,
                    y - 0.7 * r,
                    end + inward,
                    y + 0.7 * r
                )
            } else {
                write!(path, "M{end:.2} {:.2}v{:.2}", y - 0.7 * r, 1.4 * r)
            };
        }
        let _ = writeln!(
            out,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{:.2}\"/>",
            self.look.colours[0],
            1.2 * self.look.line_pt
        );
    }

    fn median(&self, out: &mut String, x: f64, y: f64) {
        let _ = writeln!(
            out,
            "<path d=\"{}\" fill=\"{}\" stroke=\"white\" stroke-width=\"0.5\"/>",
            Shape::Diamond.path(x, y, 0.9 * self.look.marker_pt),
            self.look.colours[0]
        );
    }

    fn sample(&self, out: &mut String, x: f64, y: f64) {
        let _ = writeln!(
            out,
            "<circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"{:.2}\" fill=\"none\" stroke=\"#595959\" stroke-width=\"0.6\"/>",
            0.5 * self.look.marker_pt
        );
    }
}

/// An entry of the legend.
enum Part {
    Median,
    Interval,
    Sample,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(estimates: Vec<Estimate>) -> Group {
        Group {
            title: "a & b".into(),
            label: "rate (Mbit/s)".into(),
            interval: Some("95 % interval".into()),
            sample: "a run".into(),
            estimates,
            bounds: [0.0, f64::INFINITY],
            notes: vec!["a note".into()],
        }
    }

    fn estimate(name: &str, median: f64, interval: Option<[f64; 2]>) -> Estimate {
        Estimate {
            name: name.into(),
            median,
            interval,
            n: 7,
            samples: vec![median, f64::NAN],
        }
    }

    /// The ends of the bar that is drawn for the only estimate, and its path.
    fn bar(picture: &str) -> (f64, f64, String) {
        // The first bar is that of the legend.
        let mut path = picture
            .split("<path d=\"")
            .filter(|p| p.contains("stroke-width=\"1.20\""));
        let path = path.nth(1).unwrap().split('"').next().unwrap();
        let (from, rest) = path[1..].split_once(' ').unwrap();
        let to = rest.split_once('H').unwrap().1.split('M').next().unwrap();
        (from.parse().unwrap(), to.parse().unwrap(), path.to_owned())
    }

    #[test]
    fn an_interval_is_drawn_where_it_is() {
        let picture = group(vec![
            estimate("<a>", 4.0, Some([2.0, 6.0])),
            estimate("b", 12.0, None),
            estimate("c", f64::NAN, None),
        ])
        .svg(&Look::default());
        assert!(picture.contains("&lt;a&gt;") && picture.contains("a &amp; b"));
        assert_eq!(picture.matches(">N = 7<").count(), 3);
        // The axis begins at 0 and ends at 12: 2 to 6 is a third of it, and so are the ticks of 0 and 4.
        let tick = |text: &str| -> f64 {
            let text = format!("text-anchor=\"middle\">{text}</text>");
            let (head, _) = picture.split_once(&text).unwrap();
            let x = head.rsplit("x=\"").next().unwrap();
            x.split('"').next().unwrap().parse().unwrap()
        };
        let (from, to, _) = bar(&picture);
        let unit = (tick("4") - tick("0")) / 4.0;
        assert!((to - from - 4.0 * unit).abs() < 0.02, "{from} {to} {unit}");
        assert!((from - tick("2")).abs() < 0.02);
        assert!(!picture.contains("NaN"));
        assert!(group(vec![]).svg(&Look::default()).ends_with("</svg>\n"));
    }

    #[test]
    fn an_interval_beyond_what_is_possible_ends_with_an_arrow() {
        let [whole, clipped] = [[1.0, 6.0], [-3.0, 6.0]].map(|interval| {
            let picture = group(vec![estimate("a", 4.0, Some(interval))]).svg(&Look::default());
            bar(&picture)
        });
        assert_eq!(whole.2.matches('v').count(), 2, "{}", whole.2);
        assert_eq!(clipped.2.matches('v').count(), 1, "{}", clipped.2);
        assert_eq!(clipped.2.matches('L').count(), 2, "{}", clipped.2);
    }

    #[test]
    fn long_names_are_above_their_lines_in_a_narrow_picture() {
        let look = Look {
            width: "3.4in".parse().unwrap(),
            ..Look::default()
        };
        let name = "traffic[download].tcp.congestion=cubic, links.loss=1 %";
        let picture = group(vec![estimate(name, 4.0, None)]).svg(&look);
        assert!(
            picture.contains(&format!("text-anchor=\"start\">{name}<")),
            "{picture}"
        );
        let short = group(vec![estimate("cubic", 4.0, None)]).svg(&look);
        assert!(short.contains("text-anchor=\"end\">cubic<"), "{short}");
    }
}
