//! Messages as CSV (RFC 4180): a header of keywords and one message a line, as catalogues publish them.

use csv::{ReaderBuilder, StringRecord, Trim};

use super::{Record, Records};

/// Reads the messages of a CSV text.
///
/// # Errors
/// When the header is not that of messages; the error has its line.
pub(super) fn records(text: &str) -> Result<Records, (usize, String)> {
    // One line at a time: no value of a message spans lines, and an open quotation mark must not swallow all that follows.
    let mut lines = (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty());
    let none = || (1, "no element sets".to_owned());
    let (first, header) = lines.next().ok_or_else(none)?;
    let keys = cells(header).map_err(|reason| (first, reason))?;
    if !keys.iter().any(|k| k.eq_ignore_ascii_case("MEAN_MOTION")) {
        let reason = "this is no orbit mean-elements message: neither JSON, XML nor keywords, and as CSV its first line has \
                      no column \"MEAN_MOTION\"";
        return Err((first, reason.to_owned()));
    }
    let mut records = Records::default();
    for (number, line) in lines {
        match cells(line) {
            Ok(values) if values.len() == keys.len() => {
                let mut record = Record::new(number);
                for (key, value) in keys.iter().zip(&values) {
                    record.put(key, value);
                }
                records.good.push(record);
            }
            Ok(values) => {
                let (have, want) = (values.len(), keys.len());
                records.error(number, format!("{have} values, but {want} columns"));
            }
            Err(reason) => records.error(number, reason),
        }
    }
    Ok(records)
}

/// The cells of a line.
fn cells(line: &str) -> Result<StringRecord, String> {
    // A quotation mark within a value is doubled, so a line in which all are closed has an even number.
    if line.bytes().filter(|byte| *byte == b'"').count() % 2 == 1 {
        return Err("a quotation mark is not closed".to_owned());
    }
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .trim(Trim::All)
        .buffer_capacity(line.len().clamp(64, 8192))
        .from_reader(line.as_bytes());
    let mut record = StringRecord::new();
    reader
        .read_record(&mut record)
        .map_err(|error| error.to_string())?;
    Ok(record)
}
