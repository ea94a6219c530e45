//! Parts that all pictures have: numbers on axes, the widths of texts, markers, dashes.

use super::Look;

/// Advances of the letters from the space to `~` in DejaVu Sans, thousandths of the size of the letters. It is the widest of the
/// usual families, so that a text fits in any of them.
const ADVANCES: [u16; 95] = [
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636,
    636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632,
    575, 775, 752, 295, 295, 656, 557, 863, 748, 787, 603, 787, 695, 635, 611, 732, 684, 989, 685,
    611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579,
    278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838,
];

/// Returns the width of a text with letters of this size, in its unit.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    let advance = |c: char| {
        let at = u32::from(c).wrapping_sub(32) as usize;
        // Letters of other scripts may be as wide as they are high.
        f64::from(ADVANCES.get(at).copied().unwrap_or(1_000))
    };
    text.chars().map(advance).sum::<f64>() / 1_000.0 * size
}

/// Breaks a text into lines no wider than `width`, between words. A longer word has a line of its own.
pub(super) fn wrapped(text: &str, size: f64, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(&format!("{line} {word}"), size) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The numbers of an axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    pub(super) least: f64,
    pub(super) most: f64,
    /// Marked values, and their texts.
    pub(super) ticks: Vec<(f64, String)>,
}

/// Ticks of an axis are at least a twelfth of it apart: there are no more.
const TICKS: u32 = 14;

impl Axis {
    /// An axis of values with about `wanted` ticks, from a round number to a round number. It begins at 0 unless all values
    /// are in the upper half, and `from_zero` is false.
    pub(super) fn of_values(
        values: impl Iterator<Item = f64>,
        wanted: f64,
        from_zero: bool,
    ) -> Self {
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|v| v.is_finite()) {
            (least, most) = (least.min(value), most.max(value));
        }
        if least > most {
            (least, most) = (0.0, 0.0);
        }
        if from_zero || (least >= 0.0 && least < most / 2.0) {
            least = least.min(0.0);
            most = most.max(0.0);
        }
        let span = (most - least).max(most.abs() / 20.0).min(f64::MAX);
        let step = if span > 0.0 { span / wanted } else { 0.25 };
        let step = round_up(step).max(f64::MIN_POSITIVE);
        let begin = (least / step + 1e-9).floor() * step;
        let end = (most / step - 1e-9).ceil() * step;
        Self::between(begin, if end > begin { end } else { begin + step }, step)
    }

    /// An axis of lab time from `begin` to `end`.
    /// A beginning that is a little after a round number is moved there, so that the axis begins with a tick.
    pub(super) fn of_time(begin: f64, end: f64, wanted: f64) -> Self {
        let step = round_up((end - begin) / wanted);
        let round = (begin / step).floor() * step;
        let near = begin - round < (end - begin) / 30.0;
        Self::between(if near { round } else { begin }, end, step)
    }

    fn between(least: f64, most: f64, step: f64) -> Self {
        let first = (least / step - 1e-9).ceil();
        // Ticks are counted, because a number from 2^53 on does not change when one is added.
        let ticks = (0..=TICKS).map(|number| (first + f64::from(number)) * step);
        let ticks = ticks.take_while(|tick| tick.is_finite() && *tick <= most + step * 1e-6);
        let ticks = ticks.map(|tick| (tick, short(tick))).collect();
        Self { least, most, ticks }
    }

    /// The place of a value on the axis, 0 to 1; outside for values that it does not have.
    pub(super) fn place(&self, value: f64) -> f64 {
        (value - self.least) / (self.most - self.least)
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

/// Formats a value with as few digits as distinguish ticks. Zero has no sign.
pub(super) fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    match text.trim_end_matches('0').trim_end_matches('.') {
        "-0" => "0".to_owned(),
        text => text.to_owned(),
    }
}

/// Escapes text of an element. Control characters are not permitted in XML.
pub(super) fn escape(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Dash patterns of curves, in widths of the line; curves differ by them without any colour.
const DASHES: [&[f64]; 6] = [
    &[],
    &[5.0, 2.0],
    &[1.5, 1.5],
    &[6.0, 2.0, 1.5, 2.0],
    &[9.0, 3.0],
    &[3.0, 1.5, 1.0, 1.5, 1.0, 1.5],
];

/// Returns the attribute of the dashes of curve number `number`, or nothing for a solid line.
pub(super) fn dashes(number: usize, line_pt: f64) -> String {
    let pattern = DASHES[number % DASHES.len()];
    if pattern.is_empty() {
        return String::new();
    }
    let lengths = pattern
        .iter()
        .map(|d| format!("{:.1}", d * line_pt.max(0.5)));
    format!(
        " stroke-dasharray=\"{}\"",
        lengths.collect::<Vec<_>>().join(" ")
    )
}

/// The shapes of markers, one for each curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Circle,
    Square,
    Up,
    Diamond,
    Down,
    Plus,
    Cross,
}

impl Shape {
    /// The shape of curve number `number`.
    pub(super) const fn of(number: usize) -> Self {
        match number % 6 {
            0 => Self::Circle,
            1 => Self::Square,
            2 => Self::Up,
            3 => Self::Diamond,
            4 => Self::Down,
            _ => Self::Plus,
        }
    }

    /// Returns the outline around a point, `r` from its middle to its edge.
    pub(super) fn path(self, x: f64, y: f64, r: f64) -> String {
        match self {
            Self::Circle => format!(
                "M{:.2} {y:.2}a{r:.2} {r:.2} 0 1 0 {:.2} 0a{r:.2} {r:.2} 0 1 0 {:.2} 0z",
                x - r,
                2.0 * r,
                -2.0 * r
            ),
            Self::Square => {
                let side = 1.8 * r;
                let (left, top) = (x - side / 2.0, y - side / 2.0);
                format!("M{left:.2} {top:.2}h{side:.2}v{side:.2}h{:.2}z", -side)
            }
            Self::Up => format!(
                "M{:.2} {:.2}h{:.2}L{x:.2} {:.2}z",
                x - r,
                y + 0.8 * r,
                2.0 * r,
                y - r
            ),
            Self::Down => format!(
                "M{:.2} {:.2}h{:.2}L{x:.2} {:.2}z",
                x - r,
                y - 0.8 * r,
                2.0 * r,
                y + r
            ),
            Self::Diamond => format!(
                "M{:.2} {y:.2}L{x:.2} {:.2}L{:.2} {y:.2}L{x:.2} {:.2}z",
                x - r,
                y - r,
                x + r,
                y + r
            ),
            Self::Plus => format!(
                "M{:.2} {y:.2}h{:.2}M{x:.2} {:.2}v{:.2}",
                x - r,
                2.0 * r,
                y - r,
                2.0 * r
            ),
            Self::Cross => format!(
                "M{:.2} {:.2}l{:.2} {:.2}m0 {:.2}l{:.2} {:.2}",
                x - r,
                y - r,
                2.0 * r,
                2.0 * r,
                -2.0 * r,
                -2.0 * r,
                2.0 * r
            ),
        }
    }
}

/// Returns the head of a picture with its background; texts are read by screen readers.
pub(super) fn head(title: &str, look: &Look, height: f64) -> String {
    let width = look.width.points();
    // The height has the unit of the width, as the ratio of the two.
    let tall = format!("{:.3}pt", height);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{}\" height=\"{tall}\" viewBox=\"0 0 {width:.2} {height:.2}\" \
         font-family=\"{}\" font-size=\"{}\">\n<title>{}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        look.width.text(),
        families(&look.font),
        look.font_pt,
        escape(title)
    )
}

/// Returns the family, and those that viewers may have in its place.
fn families(font: &str) -> String {
    let family = escape(font);
    if font == super::look::OWN_FONT {
        format!("'{family}', Verdana, Arial, sans-serif")
    } else if matches!(font, "serif" | "sans-serif" | "monospace") {
        family
    } else {
        format!("'{family}', sans-serif")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_are_text() {
        let shown = escape("a\u{1b}[2J<b>\n&");
        assert_eq!(shown, "a\u{fffd}[2J&lt;b&gt;\u{fffd}&amp;");
    }

    #[test]
    fn ticks_are_round_and_zero_has_no_sign() {
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
            [2.50, 1000.0, 0.0, -0.0, -1e-9].map(short),
            ["2.5", "1000", "0", "0", "0"]
        );
        let axis = Axis::of_time(0.000_165, 14.0, 8.0);
        let texts: Vec<&str> = axis.ticks.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, ["0", "2", "4", "6", "8", "10", "12", "14"]);
    }

    #[test]
    fn values_far_from_zero_have_an_axis_of_their_own() {
        let far = Axis::of_values([51.6, 78.9].into_iter(), 4.0, false);
        assert_eq!((far.least, far.most), (50.0, 80.0));
        let near = Axis::of_values([5.0, 78.9].into_iter(), 4.0, false);
        assert_eq!((near.least, near.most), (0.0, 80.0));
        let zero = Axis::of_values([51.6, 78.9].into_iter(), 4.0, true);
        assert_eq!((zero.least, zero.most), (0.0, 80.0));
        let none = Axis::of_values([f64::NAN].into_iter(), 4.0, true);
        assert!(none.most > none.least && none.ticks.len() > 1);
        let one = Axis::of_values([29.0, 29.0].into_iter(), 4.0, false);
        assert!(one.least <= 29.0 && one.most > 29.0, "{one:?}");
    }

    #[test]
    fn texts_are_broken_between_words() {
        let lines = wrapped("one two three four", 10.0, text_width("one two", 10.0));
        assert_eq!(lines, ["one two", "three", "four"]);
        assert!((text_width("0000", 10.0) - 25.44).abs() < 1e-9);
    }
}
