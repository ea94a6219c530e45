//! Streams as they are stored: plain, gzip or zstd, recognised by their first bytes.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::image::error::Fault;
use crate::image::limits::Limits;

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

/// Returns the form of a stream by its first bytes; does not consume them.
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

/// A limit on the decompressed size of a stream. Every decompression has one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound {
    most_bytes: u64,
    /// The name of the field of [`Limits`] that sets the limit.
    limit: &'static str,
    ratio: u64,
    ratio_from_bytes: u64,
}

impl Bound {
    /// Returns the bound of one layer.
    pub(crate) fn of_layer(limits: &Limits) -> Self {
        Self {
            most_bytes: limits.layer_bytes,
            limit: "layer_bytes",
            ratio: limits.ratio,
            ratio_from_bytes: limits.ratio_from_bytes,
        }
    }

    /// Returns the bound of an archive that holds a whole image.
    pub(crate) fn of_archive(limits: &Limits) -> Self {
        Self {
            most_bytes: limits.spool_bytes,
            limit: "spool_bytes",
            ..Self::of_layer(limits)
        }
    }

    fn check(&self, bytes: u64, stored: u64) -> io::Result<()> {
        let exceeds = |bound: String, limit| {
            let what = "what it decompresses to".to_owned();
            Err(io::Error::other(Fault::Limit { what, bound, limit }))
        };
        if bytes > self.most_bytes {
            return exceeds(format!("{} bytes", self.most_bytes), self.limit);
        }
        let by_ratio = self.ratio.saturating_mul(stored);
        if bytes > self.ratio_from_bytes.max(by_ratio) {
            let bound = format!("{} times its {stored} bytes", self.ratio);
            return exceeds(bound, "ratio");
        }
        Ok(())
    }
}

/// A stored stream, decompressed within a [`Bound`].
pub(crate) struct Decompressed<R: Read> {
    decoder: Decoder<Counted<R>>,
    bytes: u64,
    bound: Bound,
}

enum Decoder<R: Read> {
    Plain(BufReader<R>),
    Gzip(Box<MultiGzDecoder<BufReader<R>>>),
    Zstd(Box<ZstdFrames<BufReader<R>>>),
}

/// Counts the bytes that are read through it.
struct Counted<R> {
    inner: R,
    bytes: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(into)?;
        self.bytes += n as u64;
        Ok(n)
    }
}

impl<R: Read> Decompressed<R> {
    pub(crate) fn new(stored: R, bound: Bound) -> Result<Self, Fault> {
        let stored = Counted {
            inner: stored,
            bytes: 0,
        };
        let mut stored = BufReader::with_capacity(1 << 16, stored);
        let doing = "read the first bytes";
        let form = form_of(stored.fill_buf().map_err(Fault::io(doing))?)?;
        let decoder = match form {
            Form::Plain => Decoder::Plain(stored),
            Form::Gzip => Decoder::Gzip(Box::new(MultiGzDecoder::new(stored))),
            Form::Zstd => Decoder::Zstd(Box::new(ZstdFrames::new(stored))),
        };
        Ok(Self {
            decoder,
            bytes: 0,
            bound,
        })
    }

    /// Returns the number of stored bytes that were read.
    fn stored_bytes(&self) -> u64 {
        match &self.decoder {
            Decoder::Plain(stored) => stored.get_ref().bytes,
            Decoder::Gzip(decoder) => decoder.get_ref().get_ref().bytes,
            Decoder::Zstd(frames) => frames.stored.get_ref().bytes,
        }
    }

    /// Returns the underlying stream.
    pub(crate) fn into_stored(self) -> R {
        let stored = match self.decoder {
            Decoder::Plain(stored) => stored,
            Decoder::Gzip(decoder) => decoder.into_inner(),
            Decoder::Zstd(frames) => frames.stored,
        };
        stored.into_inner().inner
    }
}

impl<R: Read> Read for Decompressed<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = match &mut self.decoder {
            Decoder::Plain(stored) => stored.read(into),
            Decoder::Gzip(decoder) => decoder.read(into),
            Decoder::Zstd(frames) => frames.read(into),
        }?;
        self.bytes += n as u64;
        self.bound.check(self.bytes, self.stored_bytes())?;
        Ok(n)
    }
}

/// The zstandard frames of a stream in their order; frames without content are skipped.
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

    /// Starts the next frame with content; returns `false` at the end.
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
        let bound = Bound::of_layer(&Limits::default());
        let mut from = Decompressed::new(stored, bound)?;
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
