//! The look of a picture: its width, letters, lines and colours; and the style files that change them.

use std::str::FromStr;

use thiserror::Error;

/// Points in an inch. Pictures are drawn in points.
const POINTS_PER_INCH: f64 = 72.0;

/// The narrowest and the widest picture, points. A narrower one has no room for an axis and its labels.
const WIDTHS_PT: (f64, f64) = (100.0, 4_000.0);

/// The family of letters that every output has, because the program contains it.
pub const OWN_FONT: &str = "DejaVu Sans";

/// The look of a picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// The width.
    pub width: Width,
    /// Whether the title is drawn. In a paper the caption replaces it.
    pub title: bool,
    /// The family of the letters.
    pub font: String,
    /// The size of the letters, points.
    pub font_pt: f64,
    /// The width of curves, points.
    pub line_pt: f64,
    /// The size of markers, points.
    pub marker_pt: f64,
    /// Whether there are grid lines.
    pub grid: bool,
    /// Colours of curves, in order, as `#rrggbb`. Never empty.
    pub colours: Vec<String>,
    /// Dots per inch of a PNG.
    pub dpi: f64,
}

impl Default for Look {
    /// Returns the look for a page of text: 6.5 in wide, letters of 8 points, the colours of Okabe and Ito, which people
    /// with any colour vision distinguish.
    fn default() -> Self {
        let colours = [
            "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
        ];
        Self {
            width: Width {
                points: 6.5 * POINTS_PER_INCH,
                text: "6.5in".to_owned(),
            },
            title: true,
            font: OWN_FONT.to_owned(),
            font_pt: 8.0,
            line_pt: 1.0,
            marker_pt: 4.0,
            grid: true,
            colours: colours.map(str::to_owned).to_vec(),
            dpi: 300.0,
        }
    }
}

/// The width of a picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Width {
    points: f64,
    /// The text with the unit, which SVG has too.
    text: String,
}

impl Width {
    /// The width in points.
    #[must_use]
    pub const fn points(&self) -> f64 {
        self.points
    }

    /// Returns the width in the user's unit.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl FromStr for Width {
    type Err = WidthError;

    /// Parses a number with one of the units `in`, `cm`, `mm`, `pt` and `px` (96 to an inch).
    fn from_str(text: &str) -> Result<Self, WidthError> {
        let bad = || WidthError(text.to_owned());
        let text = text.trim();
        let unit_at = text.find(|c: char| c.is_ascii_alphabetic());
        let (number, unit) = text.split_at(unit_at.ok_or_else(bad)?);
        let per_inch = match unit {
            "in" => 1.0,
            "cm" => 2.54,
            "mm" => 25.4,
            "pt" => POINTS_PER_INCH,
            "px" => 96.0,
            _ => return Err(bad()),
        };
        let number: f64 = number.trim().parse().map_err(|_| bad())?;
        let points = number / per_inch * POINTS_PER_INCH;
        if !(WIDTHS_PT.0..=WIDTHS_PT.1).contains(&points) {
            return Err(bad());
        }
        let text = format!("{number}{unit}");
        Ok(Self { points, text })
    }
}

/// A text that is not a width.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{0}` is not a width of a picture: write a number with `in`, `cm`, `mm`, `pt` or `px`, from 1.4in to 55in, for example `3.4in`"
)]
pub struct WidthError(String);

/// A line of a style file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {reason}")]
pub struct StyleError {
    /// The line, from 1 on.
    pub line: usize,
    /// The reason, with the accepted values.
    pub reason: String,
}

/// The keys of a style file. The names are matplotlib's, so that one file serves both.
const KEYS: [&str; 7] = [
    "font.family",
    "font.size",
    "lines.linewidth",
    "lines.markersize",
    "axes.grid",
    "axes.prop_cycle",
    "savefig.dpi",
];

impl Look {
    /// Applies a style file: lines `key: value` as in matplotlib's style files (`.mplstyle`), of the keys `font.family`,
    /// `font.size`, `lines.linewidth`, `lines.markersize`, `axes.grid`, `axes.prop_cycle` (`cycler(color=[...])`) and
    /// `savefig.dpi`. Empty lines and comments (`#`) are skipped.
    ///
    /// # Errors
    /// When a key is not one of these, or a value is not valid.
    pub fn apply(&mut self, style: &str) -> Result<(), StyleError> {
        for (at, line) in style.lines().enumerate() {
            let line = uncommented(line).trim();
            if line.is_empty() {
                continue;
            }
            self.set(line).map_err(|reason| StyleError {
                line: at + 1,
                reason,
            })?;
        }
        Ok(())
    }

    fn set(&mut self, line: &str) -> Result<(), String> {
        let (key, value) = line
            .split_once(':')
            .ok_or_else(|| format!("`{line}` is not `key: value`"))?;
        let (key, value) = (key.trim(), value.trim());
        match key {
            "font.family" => value.clone_into(&mut self.font),
            "font.size" => self.font_pt = number(key, value, 3.0, 40.0)?,
            "lines.linewidth" => self.line_pt = number(key, value, 0.1, 10.0)?,
            "lines.markersize" => self.marker_pt = number(key, value, 0.5, 30.0)?,
            "savefig.dpi" => self.dpi = number(key, value, 36.0, 1_200.0)?,
            "axes.grid" => {
                self.grid = match value {
                    "True" | "true" => true,
                    "False" | "false" => false,
                    _ => return Err(format!("{key}: `{value}` is not `True` or `False`")),
                }
            }
            "axes.prop_cycle" => self.colours = colours(key, value)?,
            _ => {
                return Err(format!("unknown key `{key}`; keys are {}", KEYS.join(", ")));
            }
        }
        Ok(())
    }
}

/// Removes a comment. A `#` before a hexadecimal digit begins a colour.
fn uncommented(line: &str) -> &str {
    let begins = |(at, _): &(usize, &str)| {
        let next = line[at + 1..].chars().next();
        *at == 0 || next.is_none_or(|c| !c.is_ascii_hexdigit())
    };
    let mut signs = line.match_indices('#');
    signs.find(begins).map_or(line, |(at, _)| &line[..at])
}

fn number(key: &str, value: &str, least: f64, most: f64) -> Result<f64, String> {
    let number = value.parse().ok();
    number
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| format!("{key}: `{value}` is not a number from {least} to {most}"))
}

/// Reads the colours of `cycler(color=['#000000', 'd55e00'])`, with or without `#` and quotes.
fn colours(key: &str, value: &str) -> Result<Vec<String>, String> {
    let bad =
        || format!("{key}: `{value}` is not `cycler(color=[...])` of six hexadecimal digits each");
    let inner = value
        .strip_prefix("cycler(")
        .and_then(|v| v.strip_suffix(')'));
    let inner = inner.unwrap_or(value).trim();
    let list = ["color=", "'color',", "\"color\","]
        .iter()
        .find_map(|head| inner.strip_prefix(head))
        .ok_or_else(bad)?
        .trim();
    let list = list.strip_prefix('[').and_then(|l| l.strip_suffix(']'));
    let found: Option<Vec<String>> = list
        .ok_or_else(bad)?
        .split(',')
        .map(|one| {
            let digits = one.trim().trim_matches(['\'', '"']).trim_start_matches('#');
            let valid = digits.len() == 6 && digits.bytes().all(|b| b.is_ascii_hexdigit());
            valid.then(|| format!("#{}", digits.to_ascii_lowercase()))
        })
        .collect();
    found.ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_have_units() {
        for (text, points) in [
            ("3.4in", 244.8),
            ("8.636 cm", 244.8),
            ("86.36mm", 244.8),
            ("244.8pt", 244.8),
            ("326.4px", 244.8),
        ] {
            let width: Width = text.parse().unwrap();
            assert!((width.points() - points).abs() < 1e-9, "{text}: {width:?}");
        }
        assert_eq!("8.6 cm".parse::<Width>().unwrap().text(), "8.6cm");
        for text in [
            "3.4", "in", "-3in", "3.4 inch", "0.1in", "1e9in", "nan in", "",
        ] {
            let error = text.parse::<Width>().unwrap_err().to_string();
            assert!(error.contains("`3.4in`"), "{text}: {error}");
        }
    }

    #[test]
    fn a_style_file_of_matplotlib_changes_the_look() {
        let mut look = Look::default();
        let style = "# for a paper\nfont.family: serif\nfont.size: 7  # points\nlines.linewidth: 0.8\n\n\
                     axes.grid: False\naxes.prop_cycle: cycler(color=['#000000', 'D55E00'])\nsavefig.dpi: 600\n";
        look.apply(style).unwrap();
        assert_eq!((look.font.as_str(), look.font_pt), ("serif", 7.0));
        assert_eq!((look.line_pt, look.grid, look.dpi), (0.8, false, 600.0));
        assert_eq!(look.colours, ["#000000", "#d55e00"]);
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (style, part) in [
            (
                "font.size: 8\nfont.colour: red",
                "line 2: unknown key `font.colour`; keys are font.family,",
            ),
            (
                "font.size: large",
                "line 1: font.size: `large` is not a number from 3 to 40",
            ),
            ("axes.grid: yes", "`True` or `False`"),
            (
                "axes.prop_cycle: cycler(color=['red'])",
                "six hexadecimal digits",
            ),
            ("font.size", "`key: value`"),
        ] {
            let error = Look::default().apply(style).unwrap_err().to_string();
            assert!(error.contains(part), "{style}: {error}");
        }
    }
}
