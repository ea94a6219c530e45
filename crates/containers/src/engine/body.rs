//! The body of an answer: finds its end, and detects truncation.

use std::io::{self, BufRead, Read};

/// Maximum length of a chunk's header and of a trailer line, bytes.
const MOST_LINE: u64 = 4096;

/// The rest of an answer.
#[derive(Debug)]
pub(crate) enum Body<R> {
    /// A known number of bytes remains.
    Counted(R, u64),
    /// A chunked body.
    Chunked(R, Chunk),
    /// The body ends when the engine closes the connection.
    UntilClosed(R),
}

/// The state of a reader of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chunk {
    /// Before the first chunk.
    First,
    /// Within a chunk, with the number of bytes left.
    Within(u64),
    /// After the last chunk.
    Over,
}

impl<R: BufRead> Read for Body<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Counted(from, left) => counted(from, left, to),
            Self::UntilClosed(from) => from.read(to),
            Self::Chunked(from, at) => loop {
                match at {
                    Chunk::Over => return Ok(0),
                    Chunk::Within(left) if *left > 0 => return counted(from, left, to),
                    _ => *at = next(from, *at == Chunk::First)?,
                }
            },
        }
    }
}

fn counted(from: &mut impl Read, left: &mut u64, to: &mut [u8]) -> io::Result<usize> {
    let most = usize::try_from(*left).unwrap_or(usize::MAX).min(to.len());
    if most == 0 {
        return Ok(0);
    }
    match from.read(&mut to[..most])? {
        0 => Err(cut("its answer ends too early")),
        n => {
            *left -= n as u64;
            Ok(n)
        }
    }
}

/// Reads up to the next chunk's content.
fn next(from: &mut impl BufRead, first: bool) -> io::Result<Chunk> {
    if !first && !line(from)?.is_empty() {
        return Err(cut("a chunk of its answer is longer than it says"));
    }
    let head = line(from)?;
    let digits = head.split(|byte| *byte == b';').next().unwrap_or_default();
    let digits = std::str::from_utf8(digits).unwrap_or_default().trim();
    // `from_str_radix` would accept a sign.
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let size = u64::from_str_radix(digits, 16).ok().filter(|_| plain);
    let size = size.ok_or_else(|| cut("a chunk of its answer has no length"))?;
    if size > 0 {
        return Ok(Chunk::Within(size));
    }
    // Trailers after the last chunk are ignored.
    for _ in 0..64 {
        if line(from)?.is_empty() {
            return Ok(Chunk::Over);
        }
    }
    Err(cut("its answer does not end"))
}

/// Reads a line, without its end.
fn line(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    from.take(MOST_LINE).read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(cut("its answer ends within a line, or has one without end"));
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(line)
}

fn cut(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunked(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        Body::Chunked(bytes, Chunk::First).read_to_end(&mut all)?;
        Ok(all)
    }

    #[test]
    fn chunks_are_put_together() {
        let answer =
            b"4\r\nWiki\r\n5;x=y\r\npedia\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\nnext";
        assert_eq!(chunked(answer).unwrap(), b"Wikipedia0123456789");
        assert_eq!(chunked(b"0\r\n\r\n").unwrap(), b"");
    }

    #[test]
    fn chunks_that_lie_are_refused() {
        let odd: [&[u8]; 9] = [
            b"",
            b"4\r\nWi",
            b"4\r\nWiki",
            b"4\r\nWikipedia\r\n0\r\n\r\n",
            b"-4\r\nWiki\r\n0\r\n\r\n",
            b"+4\r\nWiki\r\n0\r\n\r\n",
            b"\r\n\r\n",
            b"FFFFFFFFFFFFFFFFF\r\n",
            b"0\r\n",
        ];
        for answer in odd {
            assert!(chunked(answer).is_err(), "{answer:?}");
        }
        assert!(chunked(&b"1".repeat(1 << 16)).is_err());
        assert!(chunked(&[b"0\r\n".as_slice(), &b"x: y\r\n".repeat(1000)].concat()).is_err());
        // A stated length must not allocate memory.
        assert!(chunked(b"FFFFFFFFFFFFFFFF\r\nx").is_err());
    }

    #[test]
    fn a_counted_body_has_its_length() {
        let read = |bytes: &[u8], length| {
            let mut all = Vec::new();
            Body::Counted(bytes, length)
                .read_to_end(&mut all)
                .map(|_| all)
        };
        assert_eq!(read(b"abcdef", 3).unwrap(), b"abc");
        assert!(read(b"ab", 3).is_err());
    }
}
