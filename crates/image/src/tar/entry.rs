//! What an archive says of a file.

/// What an entry makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A regular file of so many bytes, holes included.
    File {
        /// Bytes.
        size: u64,
    },
    /// A further name of a file.
    HardLink {
        /// The name it has already.
        target: Vec<u8>,
    },
    /// A symbolic link.
    Symlink {
        /// Where it leads.
        target: Vec<u8>,
    },
    /// A folder.
    Folder,
    /// A device of characters.
    CharDevice {
        /// Its driver.
        major: u32,
        /// Which of them.
        minor: u32,
    },
    /// A device of blocks.
    BlockDevice {
        /// Its driver.
        major: u32,
        /// Which of them.
        minor: u32,
    },
    /// A named pipe.
    Fifo,
}

/// Owner, rights, times and attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// Bits below 0o10000.
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
    /// Its path, as written.
    pub path: Vec<u8>,
    /// What it makes.
    pub kind: Kind,
    /// Of whom, and so on.
    pub meta: Meta,
}
