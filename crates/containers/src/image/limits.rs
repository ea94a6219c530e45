//! Bounds on images.

/// Bounds on the data that is read and kept. Exceeding a bound ends the import with [`Fault::Limit`](crate::image::Fault::Limit), and
/// nothing is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of a manifest, an index or a configuration. Default: 4 MiB.
    pub document_bytes: u64,
    /// Layers of an image. Default: 500, as many as overlayfs stacks.
    pub layers: usize,
    /// Bytes of one layer's archive after decompression, holes included. Default: 32 GiB.
    pub layer_bytes: u64,
    /// Entries of one layer. Default: 2,000,000.
    pub entries: u64,
    /// The maximum ratio of a layer's size to its compressed size, for layers larger than
    /// [`ratio_from_bytes`](Self::ratio_from_bytes). Default: 200.
    pub ratio: u64,
    /// The size from which [`ratio`](Self::ratio) applies, in bytes. Default: 256 MiB.
    pub ratio_from_bytes: u64,
    /// Bytes of the extended headers of one entry: long names and attributes. Default: 1 MiB.
    pub header_bytes: u64,
    /// Bytes of the temporary file for an engine's answer or a compressed file. Default: 64 GiB.
    pub spool_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            document_bytes: 4 << 20,
            layers: 500,
            layer_bytes: 32 << 30,
            entries: 2_000_000,
            ratio: 200,
            ratio_from_bytes: 256 << 20,
            header_bytes: 1 << 20,
            spool_bytes: 64 << 30,
        }
    }
}
