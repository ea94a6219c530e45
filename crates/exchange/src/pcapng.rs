//! Captures as other tools read them: pcapng (draft-ietf-opsawg-pcapng), Ethernet, times in nanoseconds.
//!
//! Four kinds of blocks are all that a capture has; writing them here costs less than a library that reads all of them.

use std::io::{self, Read};

/// The direction of a frame, relative to the place of capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The frame was received.
    In,
    /// It went out.
    Out,
}

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
/// Shows the byte order.
const MAGIC: u32 = 0x1a2b_3c4d;
const ETHERNET: u16 = 1;
const END: u16 = 0;
const COMMENT: u16 = 1;
/// Options of interfaces.
const NAME: u16 = 2;
const RESOLUTION: u16 = 9;
/// Of packets.
const FLAGS: u16 = 2;
/// Of statistics.
const DROPPED: u16 = 5;
/// Longest value of an option.
const LONGEST: usize = u16::MAX as usize - 3;
/// Bytes of a block besides its body, and of a statistics block up to its option's value.
const FRAMING: u32 = 12;
const BEFORE_LOST: usize = 24;
/// Bytes of an interface's block up to its options, of which the name is the first.
const INTERFACE_OPTIONS: usize = 16;
/// Longest block that is read.
const BLOCK_MAX: u32 = 1 << 20;

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let len = body.len() as u32 + FRAMING;
    let mut block = Vec::with_capacity(len as usize);
    block.extend(kind.to_le_bytes());
    block.extend(len.to_le_bytes());
    block.extend(body);
    block.extend(len.to_le_bytes());
    block
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

fn option(to: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(LONGEST)];
    to.extend(code.to_le_bytes());
    to.extend((value.len() as u16).to_le_bytes());
    to.extend(value);
    pad(to);
}

fn end(to: &mut Vec<u8>) {
    option(to, END, &[]);
}

/// High and low half of a time.
fn time(to: &mut Vec<u8>, unix_ns: u64) {
    to.extend(((unix_ns >> 32) as u32).to_le_bytes());
    to.extend((unix_ns as u32).to_le_bytes());
}

/// Returns the beginning of a file: it names the interfaces, which are counted from 0.
#[must_use]
pub fn header(interfaces: &[String]) -> Vec<u8> {
    let mut section = Vec::new();
    section.extend(MAGIC.to_le_bytes());
    section.extend(1u16.to_le_bytes());
    section.extend(0u16.to_le_bytes());
    // The length of the section is unknown.
    section.extend(u64::MAX.to_le_bytes());
    let mut header = block(SECTION, &section);
    for interface in interfaces {
        let mut described = Vec::new();
        described.extend(ETHERNET.to_le_bytes());
        described.extend([0; 2]);
        // No limit to a packet's length.
        described.extend(0u32.to_le_bytes());
        option(&mut described, NAME, interface.as_bytes());
        option(&mut described, RESOLUTION, &[9]);
        end(&mut described);
        header.extend(block(INTERFACE, &described));
    }
    header
}

/// A frame that passed an interface at that time, nanoseconds since 1970.
#[must_use]
pub fn packet(
    interface: u32,
    unix_ns: u64,
    frame: &[u8],
    direction: Option<Direction>,
    comment: &str,
) -> Vec<u8> {
    let mut body = Vec::with_capacity(frame.len() + comment.len() + 48);
    body.extend(interface.to_le_bytes());
    time(&mut body, unix_ns);
    for len in [frame.len(), frame.len()] {
        body.extend((len as u32).to_le_bytes());
    }
    body.extend(frame);
    pad(&mut body);
    let flags: u32 = match direction {
        None => 0,
        Some(Direction::In) => 1,
        Some(Direction::Out) => 2,
    };
    option(&mut body, FLAGS, &flags.to_le_bytes());
    option(&mut body, COMMENT, comment.as_bytes());
    end(&mut body);
    block(PACKET, &body)
}

/// Returns the end of a file: the number of frames that were not captured.
#[must_use]
pub fn statistics(unix_ns: u64, lost: u64) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(0u32.to_le_bytes());
    time(&mut body, unix_ns);
    option(&mut body, DROPPED, &lost.to_le_bytes());
    end(&mut body);
    block(STATISTICS, &body)
}

/// One block of a file that this module writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// All of it.
    pub bytes: Vec<u8>,
}

impl Block {
    /// The next one; `None` at the end, also in the middle of a block.
    ///
    /// # Errors
    /// When it cannot be read, or is no block.
    pub fn read(from: &mut impl Read) -> io::Result<Option<Block>> {
        let mut bytes = vec![0; 8];
        if !whole(from, &mut bytes)? {
            return Ok(None);
        }
        let len = word(&bytes, 4);
        if !(FRAMING..=BLOCK_MAX).contains(&len) || !len.is_multiple_of(4) {
            let error = format!("a block of {len} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        bytes.resize(len as usize, 0);
        Ok(whole(from, &mut bytes[8..])?.then_some(Block { bytes }))
    }

    /// Whether it is a frame.
    #[must_use]
    pub fn is_packet(&self) -> bool {
        word(&self.bytes, 0) == PACKET
    }

    /// Returns the name of an interface, if this is an interface block.
    #[must_use]
    pub fn interface(&self) -> Option<String> {
        let option = self.bytes.get(INTERFACE_OPTIONS..)?;
        let named = word(&self.bytes, 0) == INTERFACE && option.get(..2)? == NAME.to_le_bytes();
        let len = usize::from(u16::from_le_bytes(option.get(2..4)?.try_into().ok()?));
        named.then(|| String::from_utf8_lossy(option.get(4..4 + len).unwrap_or_default()).into())
    }

    /// Returns the number of frames that were not captured, if the block has it.
    #[must_use]
    pub fn lost(&self) -> Option<u64> {
        let value = self.bytes.get(BEFORE_LOST..BEFORE_LOST + 8)?;
        let value = <[u8; 8]>::try_from(value).ok()?;
        (word(&self.bytes, 0) == STATISTICS).then_some(u64::from_le_bytes(value))
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
    word.map_or(0, u32::from_le_bytes)
}

/// False when there was less.
fn whole(from: &mut impl Read, to: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(to) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        done => done.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_laid_out_as_the_draft_has_them() {
        let text = header(&["eth1".to_owned(), "eth2".to_owned()]);
        assert_eq!(
            text[..12],
            [0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a]
        );
        assert_eq!(
            text[28..32],
            [1, 0, 0, 0],
            "an interface behind the section"
        );
        assert_eq!(text[36..40], [1, 0, 0, 0], "Ethernet");
        assert_eq!(text[44..52], [2, 0, 4, 0, b'e', b't', b'h', b'1']);
        assert_eq!(text[52..60], [9, 0, 1, 0, 9, 0, 0, 0], "nanoseconds");
        let second = 28 + word(&text, 32) as usize;
        assert_eq!(word(&text, second), INTERFACE);
        let packet = packet(1, 0x1_0000_0002, &[7; 61], Some(Direction::Out), "lost: x");
        assert_eq!(word(&packet, 4) as usize, packet.len());
        assert_eq!(packet[packet.len() - 4..], packet[4..8]);
        assert_eq!(packet[8..12], [1, 0, 0, 0], "the second interface");
        assert_eq!(packet[12..20], [1, 0, 0, 0, 2, 0, 0, 0], "high half first");
        assert_eq!(packet[20..28], [61, 0, 0, 0, 61, 0, 0, 0]);
        assert_eq!(packet[28..89], [7; 61]);
        assert_eq!(packet[89..92], [0; 3], "padded to 32 bits");
        assert_eq!(packet[92..100], [2, 0, 4, 0, 2, 0, 0, 0], "outbound");
        assert_eq!(packet[100..104], [1, 0, 7, 0]);
        assert_eq!(&packet[104..111], b"lost: x");
        let end = statistics(5, 9);
        assert_eq!(end[..4], [5, 0, 0, 0]);
        assert_eq!(end[20..32], [5, 0, 8, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn what_is_written_is_read_back_block_by_block() {
        let mut text = header(&["a".to_owned()]);
        text.extend(packet(0, 1, &[1; 60], None, ""));
        text.extend(statistics(2, 77));
        let mut from = &text[..];
        let blocks = std::iter::from_fn(|| Block::read(&mut from).unwrap());
        let blocks: Vec<Block> = blocks.collect();
        let names: Vec<_> = blocks.iter().map(Block::interface).collect();
        assert_eq!(names, [None, Some("a".to_owned()), None, None]);
        let kinds: Vec<_> = blocks
            .iter()
            .map(|block| (block.is_packet(), block.lost()))
            .collect();
        assert_eq!(
            kinds,
            [
                (false, None),
                (false, None),
                (true, None),
                (false, Some(77))
            ]
        );
        let cut = text.len() - 1;
        let mut from = &text[..cut];
        let blocks = std::iter::from_fn(|| Block::read(&mut from).unwrap());
        assert_eq!(blocks.count(), 3, "half a block is none");
        assert!(Block::read(&mut &[0u8; 20][..]).is_err());
    }
}
