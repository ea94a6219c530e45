//! Converts the bytes of a file to text: one place for byte order marks, encodings and line ends.
//!
//! Windows tools write a byte order mark before UTF-8, PowerShell writes UTF-16, old Mac tools end lines with a carriage
//! return. Every reader of a text format gets its text from [`decode`] or [`plain`], so no format has rules of its own.

use std::borrow::Cow;

use thiserror::Error;

/// The error of a file that is not text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TextError {
    /// A byte that is not valid in UTF-8.
    #[error("this byte is not UTF-8 text")]
    Utf8 {
        /// Offset of the byte in the file, from 0.
        offset: usize,
    },
    /// A compressed file, or one of another binary format.
    #[error("this is {what}, not text: {next}")]
    Binary {
        /// The format, with its article.
        what: &'static str,
        /// The next step.
        next: &'static str,
    },
    /// A half of a surrogate pair, or an odd byte at the end, after a UTF-16 byte order mark.
    #[error("this is not UTF-16 text, as its byte order mark says")]
    Utf16 {
        /// Offset of the byte in the file, from 0.
        offset: usize,
    },
}

impl TextError {
    /// Returns the offset of the first wrong byte, from 0.
    pub fn offset(self) -> usize {
        match self {
            Self::Utf8 { offset } | Self::Utf16 { offset } => offset,
            Self::Binary { .. } => 0,
        }
    }
}

const UNPACK: &str = "unpack it first";
const AS_CSV: &str = "save it as CSV first";

/// The first bytes of files that people have in place of texts.
const BINARY: [(&[u8], &str, &str); 9] = [
    (b"\x1f\x8b", "a gzip file", UNPACK),
    (b"PK\x03\x04", "a zip archive, as of a spreadsheet", UNPACK),
    (b"BZh", "a bzip2 file", UNPACK),
    (b"\xfd7zXZ", "an xz file", UNPACK),
    (b"\x28\xb5\x2f\xfd", "a zstd file", UNPACK),
    (b"\x1f\x9d", "a file of compress (.Z)", UNPACK),
    (b"PAR1", "a Parquet file", AS_CSV),
    (b"\x93NUMPY", "a NumPy file", AS_CSV),
    (b"\x89HDF", "an HDF5 file", AS_CSV),
];

/// Returns the reason if invalid bytes are those of a known binary format.
fn binary(bytes: &[u8]) -> Option<TextError> {
    let mut known = BINARY.iter();
    let (_, what, next) = known.find(|(begin, _, _)| bytes.starts_with(begin))?;
    Some(TextError::Binary { what, next })
}

/// Returns the text of a file: UTF-8, or UTF-16 with a byte order mark. The mark is removed, and every line ends with `
/// `.
///
/// # Errors
/// [`TextError`] with the place of the first wrong byte.
pub fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, TextError> {
    match bytes {
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes),
        _ => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(plain(text)),
            Err(error) => Err(binary(bytes).unwrap_or(TextError::Utf8 {
                offset: error.valid_up_to(),
            })),
        },
    }
}

/// The share of bytes, as a divisor, that may be invalid in a file of records: text in another encoding has its accents
/// and dashes, and a file that is no text has more.
const MOST_INVALID: usize = 20;

/// Returns the text of a file of records as [`decode`] does, but with U+FFFD for each sequence that is invalid in UTF-8. A
/// name in Latin-1 then spoils only its own record.
///
/// # Errors
/// [`TextError`] for files that are no text at all: with NUL bytes, with more than one invalid byte in 20, or with
/// invalid UTF-16.
pub fn decode_records(bytes: &[u8]) -> Result<Cow<'_, str>, TextError> {
    let error = match decode(bytes) {
        Err(error @ TextError::Utf8 { .. }) => error,
        other => return other,
    };
    let invalid: usize = bytes.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    if bytes.contains(&0) || invalid > bytes.len() / MOST_INVALID {
        return Err(error);
    }
    Ok(Cow::Owned(
        plain(&String::from_utf8_lossy(bytes)).into_owned(),
    ))
}

/// Returns a text without a byte order mark before it, every line ended with `
/// `.
pub fn plain(text: &str) -> Cow<'_, str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.contains('\r') {
        Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Whether a cell of a table has no value: it is empty, or `NA` or `NaN`, as R, pandas and NumPy write a missing number, in
/// any letter case.
#[must_use]
pub fn is_missing(cell: &str) -> bool {
    ["", "na", "nan"]
        .iter()
        .any(|word| cell.eq_ignore_ascii_case(word))
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<Cow<'_, str>, TextError> {
    let pairs = bytes.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return Err(TextError::Utf16 {
            offset: 2 + bytes.len() - 1,
        });
    }
    let units = pairs.map(|pair| unit([pair[0], pair[1]]));
    let mut text = String::with_capacity(bytes.len() / 2);
    let mut offset = 2;
    for character in char::decode_utf16(units) {
        match character {
            Ok(character) => {
                text.push(character);
                offset += 2 * character.len_utf16();
            }
            Err(_) => return Err(TextError::Utf16 { offset }),
        }
    }
    Ok(Cow::Owned(plain(&text).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_text_in_every_encoding_and_with_every_line_end() {
        let want = "1 é\n2 \u{1f6f0}\n";
        let wide = |order: fn(u16) -> [u8; 2]| -> Vec<u8> {
            let units = format!("\u{feff}{want}");
            units.encode_utf16().flat_map(order).collect()
        };
        for bytes in [
            want.as_bytes().to_vec(),
            format!("\u{feff}{want}").into_bytes(),
            want.replace('\n', "\r\n").into_bytes(),
            want.replace('\n', "\r").into_bytes(),
            wide(u16::to_le_bytes),
            wide(u16::to_be_bytes),
        ] {
            assert_eq!(decode(&bytes).as_deref(), Ok(want), "{bytes:?}");
        }
    }

    #[test]
    fn invalid_bytes_are_replaced_in_text_and_refused_in_what_is_none() {
        let latin = b"1 first record of a file\r\n2 caf\xe9 and more words of it\r\n";
        assert_eq!(
            decode_records(latin).as_deref(),
            Ok("1 first record of a file\n2 caf\u{fffd} and more words of it\n")
        );
        assert_eq!(decode_records(b"plain"), decode(b"plain"));
        for binary in [
            &b"\x1f\x8b\x08\0\0\0\0\0"[..],
            b"\x89PNG\xff\xfe",
            b"ab\xff",
        ] {
            assert_eq!(decode_records(binary), decode(binary));
            assert!(decode_records(binary).is_err());
        }
    }

    #[test]
    fn binary_files_are_named() {
        for (begin, what, _) in BINARY {
            let file = [begin, &[0xff, 0, 7]].concat();
            let error = decode(&file).unwrap_err();
            assert_eq!(decode_records(&file), Err(error));
            assert!(
                error
                    .to_string()
                    .starts_with(&format!("this is {what}, not text"))
            );
            assert_eq!(error.offset(), 0);
        }
        // A text may begin like one.
        assert_eq!(decode(b"BZhang,1").as_deref(), Ok("BZhang,1"));
    }

    #[test]
    fn what_is_no_text_is_placed() {
        assert_eq!(decode(b"ab\xff"), Err(TextError::Utf8 { offset: 2 }));
        assert_eq!(
            decode(&[0xff, 0xfe, b'a', 0, b'b']),
            Err(TextError::Utf16 { offset: 4 })
        );
        assert_eq!(
            decode(&[0xfe, 0xff, 0, b'a', 0xd8, 0, 0, b'b']),
            Err(TextError::Utf16 { offset: 4 })
        );
    }
}
