//! Pictures as files: SVG as it is drawn; PDF and PNG are made from it, with the letters inside.

use std::path::Path;
use std::sync::Arc;

use constel_measure::plot::OWN_FONT;
pub use constel_measure::plot::{Look, Width};
use constel_units::files;
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{self, Tree, fontdb};

use crate::error::Error;

/// CSS pixels to an inch: the unit of a parsed SVG.
const PIXELS_PER_INCH: f32 = 96.0;

/// The format of a picture's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Scalable Vector Graphics.
    Svg,
    /// PDF of one page, as large as the picture, with its letters embedded.
    Pdf,
    /// Portable Network Graphics, with the dots per inch of the look.
    Png,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::Svg, Self::Pdf, Self::Png];

    /// The ending of a file's name.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Svg => "svg",
            Self::Pdf => "pdf",
            Self::Png => "png",
        }
    }

    /// Returns the format of a file by the ending of its name.
    #[must_use]
    pub fn of_file(path: &Path) -> Option<Self> {
        let ending = path.extension()?;
        let mut all = Self::ALL.into_iter();
        all.find(|format| ending.eq_ignore_ascii_case(format.extension()))
    }
}

/// Returns the default look with a style file applied.
///
/// # Errors
/// [`Error::NoDocument`] if the file cannot be read; [`Error::BadStyle`] for a line that is not valid.
pub fn styled(style: Option<&Path>) -> Result<Look, Error> {
    let mut look = Look::default();
    if let Some(path) = style {
        let text = files::read_text(path).map_err(|source| Error::NoDocument {
            path: path.to_owned(),
            source,
        })?;
        look.apply(&text).map_err(|source| Error::BadStyle {
            path: path.to_owned(),
            source,
        })?;
    }
    Ok(look)
}

/// Returns the bytes of a picture's file.
///
/// # Errors
/// [`Error::NoFont`] if the letters of a PDF or PNG are of a family that is not installed; [`Error::Picture`] if the
/// picture cannot be converted: a PNG that does not fit into memory.
pub fn encode(svg: &str, format: Format, look: &Look) -> Result<Vec<u8>, Error> {
    if format == Format::Svg {
        return Ok(svg.as_bytes().to_vec());
    }
    let bad = |why: String| Error::Picture(why);
    let mut options = usvg::Options {
        dpi: PIXELS_PER_INCH,
        ..usvg::Options::default()
    };
    options.fontdb = Arc::new(letters(&look.font)?);
    let tree = Tree::from_str(svg, &options).map_err(|error| bad(error.to_string()))?;
    if format == Format::Pdf {
        let page = svg2pdf::PageOptions {
            dpi: PIXELS_PER_INCH,
        };
        let pdf = svg2pdf::to_pdf(&tree, svg2pdf::ConversionOptions::default(), page);
        return pdf.map_err(|error| bad(error.to_string()));
    }
    let scale = look.dpi as f32 / PIXELS_PER_INCH;
    let size = tree.size();
    let dots = |length: f32| (length * scale).ceil() as u32;
    let (width, height) = (dots(size.width()), dots(size.height()));
    let mut map = Pixmap::new(width, height)
        .ok_or_else(|| bad(format!("{width} x {height} dots do not fit into memory")))?;
    resvg::render(
        &tree,
        Transform::from_scale(scale, scale),
        &mut map.as_mut(),
    );
    map.encode_png().map_err(|error| bad(error.to_string()))
}

/// Returns the letters of a family: those of the program, or those of the host.
fn letters(family: &str) -> Result<fontdb::Database, Error> {
    let mut letters = fontdb::Database::new();
    letters.load_font_data(dejavu::sans::regular().to_vec());
    if family == OWN_FONT {
        return Ok(letters);
    }
    letters.load_system_fonts();
    let wanted = match family {
        "serif" => fontdb::Family::Serif,
        "sans-serif" => fontdb::Family::SansSerif,
        "monospace" => fontdb::Family::Monospace,
        name => fontdb::Family::Name(name),
    };
    let query = fontdb::Query {
        families: &[wanted],
        ..fontdb::Query::default()
    };
    match letters.query(&query) {
        Some(_) => Ok(letters),
        None => Err(Error::NoFont(family.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_measure::plot::{Curve, Figure, Panel, Style};

    fn svg(look: &Look) -> String {
        let curve = Curve {
            name: "c".to_owned(),
            points: vec![(0.0, 0.0), (10.0, 5.0)],
            style: Style::Line,
        };
        let panel = Panel {
            label: "delay (ms)".to_owned(),
            curves: vec![curve],
            from_zero: true,
        };
        let figure = Figure {
            title: "t".to_owned(),
            time_label: "lab time (s)".to_owned(),
            begin_s: 0.0,
            panels: vec![panel],
            marks: Vec::new(),
            notes: Vec::new(),
        };
        figure.svg(look)
    }

    #[test]
    fn a_page_is_as_wide_as_was_wanted_and_has_its_letters() {
        let look = Look {
            width: "3.4in".parse().unwrap(),
            dpi: 100.0,
            ..Look::default()
        };
        let svg = svg(&look);
        assert_eq!(encode(&svg, Format::Svg, &look).unwrap(), svg.as_bytes());
        let pdf = encode(&svg, Format::Pdf, &look).unwrap();
        let text = String::from_utf8_lossy(&pdf);
        assert!(text.contains("/MediaBox [0 0 244.8"), "{}", &text[..800]);
        assert!(text.contains("DejaVuSans") && text.contains("/FontFile2"));
        let png = encode(&svg, Format::Png, &look).unwrap();
        assert!(png.starts_with(b"\x89PNG"));
        let width = u32::from_be_bytes(png[16..20].try_into().unwrap());
        assert_eq!(width, 340);
        // Letters leave ink: the picture without its texts has less.
        let ink = |svg: &str| {
            let png = encode(svg, Format::Png, &look).unwrap();
            let map = Pixmap::decode_png(&png).unwrap();
            map.pixels().iter().filter(|p| p.red() < 128).count()
        };
        let start = svg.find("<text").unwrap();
        let without: String = svg.lines().filter(|l| !l.starts_with("<text")).collect();
        assert!(start > 0 && ink(&svg) > ink(&without) + 200);
    }

    #[test]
    fn a_family_that_is_not_installed_is_refused_where_letters_are_needed() {
        let look = Look {
            font: "No Such Letters".to_owned(),
            ..Look::default()
        };
        let svg = svg(&look);
        assert!(encode(&svg, Format::Svg, &look).is_ok());
        let error = encode(&svg, Format::Pdf, &look).unwrap_err().to_string();
        assert!(
            error.contains("`No Such Letters`") && error.contains("fc-list"),
            "{error}"
        );
    }

    #[test]
    fn a_wrong_style_file_is_named_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.mplstyle");
        std::fs::write(&path, "font.size: 7\nfont.colour: red\n").unwrap();
        let error = styled(Some(&path)).unwrap_err().to_string();
        assert!(error.contains("a.mplstyle: line 2: unknown key"), "{error}");
        std::fs::write(&path, "font.size: 7\n").unwrap();
        assert_eq!(styled(Some(&path)).unwrap().font_pt, 7.0);
        assert_eq!(Format::of_file(Path::new("x/y.PDF")), Some(Format::Pdf));
        assert_eq!(Format::of_file(Path::new("x/y.txt")), None);
    }
}
