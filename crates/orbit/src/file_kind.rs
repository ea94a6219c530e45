//! Recognition of a file of satellites by its beginning, for messages about a file at the key of another format.

use std::fmt;

use constel_units::text::plain;

/// A format of files that have satellites, or that people take for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// Two-line elements.
    TwoLine,
    /// A message of CCSDS: OMM, OEM, OPM, OCM and others, by the three letters of its version's keyword.
    Message(&'static str),
    /// SP3 of the IGS.
    Sp3,
    /// STK's `.e`.
    Stk,
    /// Constel's CSV of positions.
    Positions,
    /// Modified ITC ephemeris, as operators publish it on Space-Track.
    Meme,
    /// Navigation messages in RINEX.
    Rinex,
    /// A scene for Cesium.
    Czml,
    /// A web page: often an error that was saved in place of a file.
    WebPage,
    /// JSON of no known form.
    Json,
    /// XML of no known form.
    Xml,
}

/// Messages of CCSDS in the keyword notation and in XML.
const MESSAGES: [&str; 7] = ["OMM", "OEM", "OPM", "OCM", "CDM", "TDM", "AEM"];
/// The beginning that is searched, bytes.
const BEGINNING: usize = 64 * 1024;

impl FileKind {
    /// Returns the kind of a text; `None` if nothing is known that begins like it.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        let mut end = text.len().min(BEGINNING);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let begin = plain(&text[..end]).to_ascii_uppercase();
        let begin = begin.trim_start();
        let mut lines = begin.lines().map(str::trim);
        let first = lines.find(|line| !line.is_empty() && !is_comment(line))?;
        let has = |word: &str| begin.contains(word);
        if let Some(rest) = first.strip_prefix("CCSDS_") {
            let message = MESSAGES.into_iter();
            let mut message = message.filter(|name| rest.starts_with(&format!("{name}_VERS")));
            return message.next().map(Self::Message);
        }
        match first.as_bytes() {
            [b'<', ..] => return Some(Self::of_xml(begin)),
            [b'{' | b'[', ..] if has("\"MEAN_MOTION\"") => return Some(Self::Message("OMM")),
            [b'{' | b'[', ..] if has("\"CZML\"") || has("\"DOCUMENT\"") => return Some(Self::Czml),
            [b'{' | b'[', ..] => return Some(Self::Json),
            [b'#', b'A'..=b'D', b'P' | b'V', ..] => return Some(Self::Sp3),
            _ => {}
        }
        if first.starts_with("STK.V.") {
            Some(Self::Stk)
        } else if first.starts_with("CREATED:") {
            Some(Self::Meme)
        } else if first.contains("RINEX VERSION") {
            Some(Self::Rinex)
        } else if first.contains(',') && first.contains("T_UTC") {
            Some(Self::Positions)
        } else if first.contains(',') && first.contains("MEAN_MOTION") {
            Some(Self::Message("OMM"))
        } else {
            has_two_lines(begin).then_some(Self::TwoLine)
        }
    }

    fn of_xml(begin: &str) -> Self {
        let opens = |name: &str| {
            let name = name.to_ascii_uppercase();
            begin.match_indices(&name).any(|(at, _)| {
                let before = begin[..at].chars().next_back();
                let after = begin[at + name.len()..].chars().next();
                // An element's name may have a prefix.
                matches!(before, Some('<' | ':')) && after.is_some_and(|c| !c.is_alphanumeric())
            })
        };
        if begin.starts_with("<!DOCTYPE HTML") || opens("html") {
            return Self::WebPage;
        }
        let message = MESSAGES.into_iter().find(|name| opens(name));
        message.map_or(Self::Xml, Self::Message)
    }

    /// Returns the key of a scenario that reads such files.
    #[must_use]
    pub fn key(self) -> Option<&'static str> {
        match self {
            Self::TwoLine => Some("tle"),
            Self::Message("OMM") => Some("omm"),
            Self::Message("OEM") | Self::Sp3 | Self::Stk | Self::Positions => Some("ephemeris"),
            _ => None,
        }
    }

    /// Returns the error of a file of this kind that was given to the key `given`, which reads `wanted`; `None` if that key
    /// reads such files, or may do so.
    #[must_use]
    pub fn refused_by(self, given: &str, wanted: &str) -> Option<String> {
        if self.key() == Some(given) || (given == "omm" && matches!(self, Self::Json | Self::Xml)) {
            return None;
        }
        let next = match (self, self.key()) {
            (_, Some("omm")) => "`omm` of a constellation reads this file".to_owned(),
            (_, Some(key)) => format!("`{key}` reads this file"),
            (Self::WebPage, None) => {
                "perhaps the site sent an error in place of the file: fetch it again".to_owned()
            }
            (Self::Json | Self::Xml, None) => {
                "`omm` of a constellation reads mean elements in this notation".to_owned()
            }
            _ => "Constel does not read such files: convert it to an OEM, or get the object's OMM or two-line elements".to_owned(),
        };
        Some(format!(
            "this is {self}, and `{given}` reads {wanted}; {next}"
        ))
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::TwoLine => "a file of two-line elements (TLE)",
            Self::Message("OMM") => "an Orbit Mean-Elements Message (OMM)",
            Self::Message("OEM") => "an Orbit Ephemeris Message (OEM)",
            Self::Message("OPM") => "an Orbit Parameter Message (OPM), which has one state only",
            Self::Message("OCM") => "an Orbit Comprehensive Message (OCM)",
            Self::Message(name) => return write!(f, "a message of CCSDS ({name})"),
            Self::Sp3 => "an ephemeris in SP3",
            Self::Stk => "an ephemeris of STK",
            Self::Positions => "a CSV file of positions",
            Self::Meme => "a Modified ITC ephemeris (MEME)",
            Self::Rinex => "a file of RINEX",
            Self::Czml => "a CZML scene",
            Self::WebPage => "a web page",
            Self::Json => "a JSON file",
            Self::Xml => "an XML file",
        };
        f.write_str(name)
    }
}

fn is_comment(line: &str) -> bool {
    line.split_ascii_whitespace().next() == Some("COMMENT")
}

/// Whether one of the first lines is an element line 1 and the next its line 2, of the same number.
fn has_two_lines(begin: &str) -> bool {
    const SEARCHED: usize = 20;
    let mut lines = begin
        .lines()
        .filter(|line| !line.trim().is_empty())
        .take(SEARCHED)
        .peekable();
    while let Some(line) = lines.next() {
        let number = |of: &str, first: &str| of.strip_prefix(first)?.get(..5).map(str::to_owned);
        let next = lines.peek().and_then(|next| number(next, "2 "));
        if next.is_some() && number(line, "1 ") == next {
            return true;
        }
    }
    false
}
