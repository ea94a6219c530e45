//! Files with holes, in the four formats of tar archives.

use ::tar::GnuSparseHeader;

use super::fields::{BLOCK, number, whole_number};
use super::pax::Records;
use crate::image::error::Fault;

/// A part of a file that is not a hole, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// The place of the list of holes in the POSIX format.
pub(super) enum Form {
    /// In the extended header (0.0 and 0.1).
    Listed(Vec<Segment>),
    /// At the begin of the content (1.0).
    InContent,
}

/// Returns the sparse format of a file; `None` for a file without holes.
pub(super) fn form(pax: &Records) -> Result<Option<Form>, ()> {
    let version = (pax.get("GNU.sparse.major"), pax.get("GNU.sparse.minor"));
    match version {
        (Some(b"1"), Some(b"0")) => return Ok(Some(Form::InContent)),
        (None, None) | (Some(b"0"), Some(b"0" | b"1")) => {}
        _ => return Err(()),
    }
    if let Some(map) = pax.get("GNU.sparse.map") {
        let numbers: Option<Vec<u64>> = map.split(|b| *b == b',').map(whole_number).collect();
        let numbers = numbers.filter(|n| n.len() % 2 == 0).ok_or(())?;
        return Ok(Some(Form::Listed(pairs(&numbers))));
    }
    let mut numbers = Vec::new();
    for (key, value) in pax.iter() {
        let expected = match numbers.len() % 2 {
            0 => "GNU.sparse.offset",
            _ => "GNU.sparse.numbytes",
        };
        match key {
            "GNU.sparse.offset" | "GNU.sparse.numbytes" if key == expected => {
                numbers.push(whole_number(value).ok_or(())?);
            }
            "GNU.sparse.offset" | "GNU.sparse.numbytes" => return Err(()),
            _ => {}
        }
    }
    let said = pax.get("GNU.sparse.size").is_some() || pax.get("GNU.sparse.realsize").is_some();
    match (numbers.len() % 2, said) {
        (0, true) => Ok(Some(Form::Listed(pairs(&numbers)))),
        (0, false) if numbers.is_empty() => Ok(None),
        _ => Err(()),
    }
}

fn pairs(numbers: &[u64]) -> Vec<Segment> {
    let pairs = numbers.chunks_exact(2);
    pairs
        .map(|pair| Segment {
            offset: pair[0],
            length: pair[1],
        })
        .collect()
}

/// Returns the size of a sparse file, holes included.
pub(super) fn size(pax: &Records) -> Option<u64> {
    let size = pax
        .get("GNU.sparse.realsize")
        .or(pax.get("GNU.sparse.size"));
    whole_number(size?)
}

/// Reads the map at the begin of a content: the number of pairs, then each number on a line, up to the end of a block. `None`
/// if the map is malformed or longer than `most` bytes.
pub(super) fn read_map(
    blocks: &mut dyn FnMut() -> Result<[u8; BLOCK as usize], Fault>,
    most: u64,
) -> Result<Option<Vec<Segment>>, Fault> {
    let mut numbers = Vec::new();
    let mut line = Vec::new();
    let mut taken = 0;
    loop {
        taken += BLOCK;
        if taken > most {
            return Ok(None);
        }
        for byte in blocks()? {
            if byte != b'\n' {
                line.push(byte);
                continue;
            }
            let Some(number) = whole_number(&line) else {
                return Ok(None);
            };
            line.clear();
            numbers.push(number);
            let expected = numbers[0].checked_mul(2).and_then(|n| n.checked_add(1));
            if expected == Some(numbers.len() as u64) {
                return Ok(Some(pairs(&numbers[1..])));
            }
        }
    }
}

/// Returns the segments of a block of GNU's old format.
pub(super) fn old_segments(headers: &[GnuSparseHeader]) -> Option<Vec<Segment>> {
    let used = headers.iter().take_while(|h| !h.is_empty());
    let part = |field: &[u8]| number(field).and_then(|n| u64::try_from(n).ok());
    let segment = |h: &GnuSparseHeader| {
        Some(Segment {
            offset: part(&h.offset)?,
            length: part(&h.numbytes)?,
        })
    };
    used.map(segment).collect()
}

/// Checks that segments are in order, lie within the file, and have the stored length in total.
pub(super) fn check(segments: &[Segment], stored: u64, size: u64) -> Option<()> {
    let mut end = 0u64;
    let mut sum = 0u64;
    for segment in segments {
        if segment.offset < end {
            return None;
        }
        end = segment.offset.checked_add(segment.length)?;
        sum = sum.checked_add(segment.length)?;
    }
    (end <= size && sum == stored).then_some(())
}
