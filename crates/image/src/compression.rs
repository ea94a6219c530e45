//! Streams as they are stored: plain, gzip or zstd, told apart by their first bytes.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::error::Fault;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// Frames that carry no content: 0x184D2A50 to 0x184D2A5F, little-endian.
const SKIPPABLE: &[u8] = &[0x2a, 0x4d, 0x18];
const OTHERS: [(&[u8], &str); 3] = [
    (&[0xfd, b'7', b'z', b'X', b'Z'], "xz"),
    (b"BZh", "bzip2"),
    (b"PK\x03\x04", "zip"),
];

/// How a stream is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Plain,
    Gzip,
    Zstd,
}

/// Looks at the first bytes, and takes none.
pub(crate) fn form_of(head: &[u8]) -> Result<Form, Fault> {
    if head.starts_with(GZIP) {
        return Ok(Form::Gzip);
    }
    if head.starts_with(ZSTD) || is_skippable(head) {
        return Ok(Form::Zstd);
    }
    match OTHERS.iter().find(|(magic, _)| head.starts_with(magic)) {
        Some((_, name)) => Err(Fault::Format(format!(
            "compression by {name} is not supported"
        ))),
        None => Ok(Form::Plain),
    }
}

fn is_skippable(head: &[u8]) -> bool {
    head.len() >= 4 && head[0] & 0xf0 == 0x50 && &head[1..4] == SKIPPABLE
}

/// What is stored, decompressed.
pub(crate) enum Decompressed<R: Read> {
    Plain(BufReader<R>),
    Gzip(Box<MultiGzDecoder<BufReader<R>>>),
    Zstd(Box<ZstdFrames<BufReader<R>>>),
}

impl<R: Read> Decompressed<R> {
    pub(crate) fn new(stored: R) -> Result<Self, Fault> {
        let mut stored = BufReader::with_capacity(1 << 16, stored);
        let doing = "read the first bytes";
        let form = form_of(stored.fill_buf().map_err(Fault::io(doing))?)?;
        Ok(match form {
            Form::Plain => Self::Plain(stored),
            Form::Gzip => Self::Gzip(Box::new(MultiGzDecoder::new(stored))),
            Form::Zstd => Self::Zstd(Box::new(ZstdFrames::new(stored))),
        })
    }

    /// What it reads from.
    pub(crate) fn stored(&mut self) -> &mut R {
        match self {
            Self::Plain(stored) => stored.get_mut(),
            Self::Gzip(decoder) => decoder.get_mut().get_mut(),
            Self::Zstd(frames) => frames.stored.get_mut(),
        }
    }

    pub(crate) fn into_stored(self) -> R {
        match self {
            Self::Plain(stored) => stored.into_inner(),
            Self::Gzip(decoder) => decoder.into_inner().into_inner(),
            Self::Zstd(frames) => frames.stored.into_inner(),
        }
    }
}

impl<R: Read> Read for Decompressed<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stored) => stored.read(into),
            Self::Gzip(decoder) => decoder.read(into),
            Self::Zstd(frames) => frames.read(into),
        }
    }
}

/// Zstandard's frames one after the other, those without content left out.
pub(crate) struct ZstdFrames<R> {
    stored: R,
    decoder: FrameDecoder,
    in_frame: bool,
}

impl<R: BufRead> ZstdFrames<R> {
    fn new(stored: R) -> Self {
        Self {
            stored,
            decoder: FrameDecoder::new(),
            in_frame: false,
        }
    }

    /// Begins the next frame with content; `false` at the end.
    fn next_frame(&mut self) -> io::Result<bool> {
        loop {
            let mut magic = [0; 4];
            let ended = self.stored.fill_buf()?.is_empty();
            if ended {
                return Ok(false);
            }
            // A buffer may end within the magic number.
            self.stored.read_exact(&mut magic)?;
            if is_skippable(&magic) {
                let mut length = [0; 4];
                self.stored.read_exact(&mut length)?;
                let length = u64::from(u32::from_le_bytes(length));
                let skipped = io::copy(&mut (&mut self.stored).take(length), &mut io::sink())?;
                if skipped < length {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                continue;
            }
            let mut with_magic = magic.chain(&mut self.stored);
            self.decoder.reset(&mut with_magic).map_err(invalid)?;
            self.in_frame = true;
            return Ok(true);
        }
    }
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.in_frame && !self.next_frame()? {
                return Ok(0);
            }
            while self.decoder.can_collect() < into.len() && !self.decoder.is_finished() {
                let some = BlockDecodingStrategy::UptoBlocks(1);
                let decoded = self.decoder.decode_blocks(&mut self.stored, some);
                decoded.map_err(invalid)?;
            }
            let n = self.decoder.read(into)?;
            if n > 0 {
                return Ok(n);
            }
            self.in_frame = false;
        }
    }
}

fn invalid(error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("zstd: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        ruzstd::encoding::compress_to_vec(bytes, level)
    }

    fn plain(stored: &[u8]) -> Result<Vec<u8>, Fault> {
        let mut bytes = Vec::new();
        let mut from = Decompressed::new(stored)?;
        from.read_to_end(&mut bytes).map_err(Fault::io("read"))?;
        Ok(bytes)
    }

    #[test]
    fn every_form_comes_back_whole_also_in_parts() {
        let text: Vec<u8> = (0..300_000u32)
            .flat_map(|i| (i / 7).to_le_bytes())
            .collect();
        let (a, b) = text.split_at(500_000);
        assert_eq!(plain(&text).unwrap(), text);
        assert_eq!(plain(&gzip(&text)).unwrap(), text);
        assert_eq!(plain(&[gzip(a), gzip(b)].concat()).unwrap(), text);
        assert_eq!(plain(&zstd(&text)).unwrap(), text);
        let skip = [&[0x5c, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        let framed = [&skip[..], &zstd(a), &skip, &zstd(b), &skip].concat();
        assert_eq!(plain(&framed).unwrap(), text);
        assert_eq!(plain(b"").unwrap(), b"");
    }

    #[test]
    fn a_stream_cut_off_is_no_shorter_stream() {
        let text = vec![7; 100_000];
        for stored in [gzip(&text), zstd(&text)] {
            for cut in [5, stored.len() / 2, stored.len() - 1] {
                let error = plain(&stored[..cut]).unwrap_err();
                assert!(matches!(error, Fault::Damaged(_)), "{error:?} at {cut}");
            }
        }
        let error = plain(b"\xfd7zXZ\0").unwrap_err();
        assert!(error.to_string().contains("by xz"), "{error}");
    }
}
