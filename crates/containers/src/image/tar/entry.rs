//! The metadata of a file in an archive.

/// The kind of file that an entry creates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File {
        /// The size in bytes, holes included.
        size: u64,
    },
    /// An additional name of a file.
    HardLink {
        /// The existing name.
        target: Vec<u8>,
    },
    /// A symbolic link.
    Symlink {
        /// The target of the link.
        target: Vec<u8>,
    },
    /// A folder.
    Folder,
    /// A character device.
    CharDevice {
        /// The major number: the driver.
        major: u32,
        /// The minor number: the device.
        minor: u32,
    },
    /// A block device.
    BlockDevice {
        /// The major number: the driver.
        major: u32,
        /// The minor number: the device.
        minor: u32,
    },
    /// A named pipe.
    Fifo,
}

/// Owner, permissions, times and attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// The mode bits below 0o10000.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Seconds since 1970, and nanoseconds.
    pub mtime: (i64, u32),
    /// Extended attributes, by name.
    pub xattrs: Vec<(String, Vec<u8>)>,
}

/// An entry without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The path, as written.
    pub path: Vec<u8>,
    /// The kind of file.
    pub kind: Kind,
    /// Owner, permissions, time and attributes.
    pub meta: Meta,
}
