//! The libraries that a program or library needs to run, read from its ELF file.

/// The dependencies of one file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Needs {
    /// The program interpreter (dynamic loader), absolute.
    pub(super) interpreter: Option<String>,
    /// Libraries, by name.
    pub(super) libraries: Vec<String>,
    /// Folders that the loader searches first; `$ORIGIN` is replaced by the file's own folder.
    pub(super) folders: Vec<String>,
}

const INTERPRETER: u64 = 3;
const DYNAMIC: u64 = 2;
const LOAD: u64 = 1;

/// Tags of the dynamic section.
const NEEDED: u64 = 1;
const STRINGS: u64 = 5;
const RPATH: u64 = 15;
const RUNPATH: u64 = 29;

/// Returns the dependencies of an ELF file; `None` for any other file, or a truncated one.
pub(super) fn needs(file: &[u8]) -> Option<Needs> {
    let file = Elf::open(file)?;
    let parts: Vec<Part> = (0..file.part_count()?)
        .map(|n| file.part(n))
        .collect::<Option<_>>()?;
    let mut needs = Needs::default();
    if let Some(part) = parts.iter().find(|part| part.kind == INTERPRETER) {
        needs.interpreter = Some(file.text(part.offset)?);
    }
    let Some(dynamic) = parts.iter().find(|part| part.kind == DYNAMIC) else {
        return Some(needs);
    };
    let width = file.word();
    let entry = |n: u64| {
        let at = dynamic.offset.checked_add(n * 2 * width)?;
        Some((file.number(at, width)?, file.number(at + width, width)?))
    };
    let count = dynamic.size / (2 * width);
    let entries: Vec<(u64, u64)> = (0..count)
        .map_while(entry)
        .take_while(|e| e.0 != 0)
        .collect();
    let strings = entries.iter().find(|(tag, _)| *tag == STRINGS)?.1;
    // DT_STRTAB is an address in memory; the loaded segment that has it gives the offset in the file.
    let holds = |part: &&Part| {
        let end = part.address.saturating_add(part.size);
        part.kind == LOAD && (part.address..end).contains(&strings)
    };
    let loaded = parts.iter().find(holds)?;
    let strings = loaded.offset.checked_add(strings - loaded.address)?;
    let text = |value: u64| file.text(strings.checked_add(value)?);
    let tagged = |tag: u64| entries.iter().filter(move |(found, _)| *found == tag);
    for (_, value) in tagged(NEEDED) {
        needs.libraries.push(text(*value)?);
    }
    // DT_RUNPATH replaces DT_RPATH if a file has both.
    let path = tagged(RUNPATH).next().or_else(|| tagged(RPATH).next());
    if let Some((_, value)) = path {
        let folders = text(*value)?;
        let folders = folders.split(':').filter(|folder| !folder.is_empty());
        needs.folders = folders.map(str::to_owned).collect();
    }
    Some(needs)
}

/// An ELF file of 32 or 64 bits, little-endian. These are all machines that Debian has packages for, except `s390x`.
struct Elf<'a> {
    bytes: &'a [u8],
    wide: bool,
}

/// A segment of the file, as it is loaded.
struct Part {
    kind: u64,
    offset: u64,
    address: u64,
    size: u64,
}

impl<'a> Elf<'a> {
    fn open(bytes: &'a [u8]) -> Option<Self> {
        let head = bytes.get(..6)?;
        let wide = match head {
            [0x7f, b'E', b'L', b'F', 1, 1] => false,
            [0x7f, b'E', b'L', b'F', 2, 1] => true,
            _ => return None,
        };
        Some(Self { bytes, wide })
    }

    /// Returns the number of bytes of an address.
    fn word(&self) -> u64 {
        if self.wide { 8 } else { 4 }
    }

    fn number(&self, at: u64, width: u64) -> Option<u64> {
        let at = usize::try_from(at).ok()?;
        let bytes = self.bytes.get(at..at.checked_add(width as usize)?)?;
        Some(
            bytes
                .iter()
                .rev()
                .fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
        )
    }

    fn text(&self, at: u64) -> Option<String> {
        let rest = self.bytes.get(usize::try_from(at).ok()?..)?;
        let end = rest.iter().take(4096).position(|byte| *byte == 0)?;
        String::from_utf8(rest[..end].to_vec()).ok()
    }

    fn part_count(&self) -> Option<u64> {
        self.number(if self.wide { 56 } else { 44 }, 2)
    }

    fn part(&self, n: u64) -> Option<Part> {
        let word = self.word();
        let (table, size) = match self.wide {
            true => (self.number(32, 8)?, self.number(54, 2)?),
            false => (self.number(28, 4)?, self.number(42, 2)?),
        };
        let at = table.checked_add(n.checked_mul(size)?)?;
        // The order of the fields differs between the two widths.
        let (offset, address, length) = match self.wide {
            true => (8, 16, 32),
            false => (4, 8, 16),
        };
        Some(Part {
            kind: self.number(at, 4)?,
            offset: self.number(at.checked_add(offset)?, word)?,
            address: self.number(at.checked_add(address)?, word)?,
            size: self.number(at.checked_add(length)?, word)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_itself_needs_a_loader_and_a_library() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        let needs = needs(&own).unwrap();
        assert!(needs.interpreter.unwrap().contains("ld"));
        assert!(needs.libraries.iter().any(|name| name.starts_with("libc.")));
    }

    #[test]
    fn whatever_is_cut_off_or_something_else_is_none() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        for length in (0..own.len().min(20_000)).step_by(37) {
            // Truncated files must not cause a panic; the result is irrelevant.
            let _ = needs(&own[..length]);
        }
        assert_eq!(needs(b"#!/bin/sh\n"), None);
        assert_eq!(needs(b""), None);
        let mut odd = own[..4096].to_vec();
        for at in 4..256 {
            odd[at] = 0xff;
            let _ = needs(&odd);
        }
    }
}
