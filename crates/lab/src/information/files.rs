//! Files of nodes. They are replaced as a whole, so that a reader never sees a partial file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use constel_plan::information::{Event, names};
use constel_topology::NodeId;

use super::folder::{node_folder, staging};

/// The size from which an event file is rotated, bytes.
const EVENTS_BYTES: u64 = 64 << 10;

/// The files of all nodes of a lab.
pub(super) struct Files {
    root: PathBuf,
    /// The number of files written, which gives temporary names.
    written: u64,
}

impl Files {
    /// Uses an existing folder.
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            written: 0,
        }
    }

    fn place(&self, node: NodeId, name: &str) -> PathBuf {
        node_folder(&self.root, node).join(name)
    }

    /// Writes these bytes to a new file outside the nodes' folders.
    fn fresh(&mut self, bytes: &[u8]) -> io::Result<PathBuf> {
        self.written += 1;
        let path = staging(&self.root).join(self.written.to_string());
        let written = File::create(&path).and_then(|mut file| {
            file.write_all(bytes)?;
            file.set_permissions(fs::Permissions::from_mode(0o644))
        });
        if written.is_err() {
            drop(fs::remove_file(&path));
        }
        written.map(|()| path)
    }

    /// Rewrites a file in place: a program that watches the file itself is notified. A concurrent reader may see a
    /// partial file.
    pub(super) fn rewrite(&self, node: NodeId, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.place(node, name);
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        // Truncating last keeps the file from ever being empty.
        file.write_all(bytes)?;
        file.set_len(bytes.len() as u64)?;
        file.set_permissions(fs::Permissions::from_mode(0o644))
    }

    /// Puts a file into a node's folder atomically: a reader has either the whole old file or the whole new one.
    pub(super) fn put(&mut self, node: NodeId, name: &str, bytes: &[u8]) -> io::Result<()> {
        let fresh = self.fresh(bytes)?;
        fs::rename(&fresh, self.place(node, name))
    }

    /// Puts one file into several nodes' folders; they share it, and none of them can write it.
    pub(super) fn put_to_all(
        &mut self,
        nodes: &[NodeId],
        name: &str,
        bytes: &[u8],
    ) -> io::Result<()> {
        let fresh = self.fresh(bytes)?;
        // A hard link cannot replace a file, so that each link is made under a temporary name and then renamed.
        let staged = fresh.with_extension("link");
        for &node in nodes {
            fs::hard_link(&fresh, &staged)?;
            fs::rename(&staged, self.place(node, name))?;
        }
        fs::remove_file(&fresh)
    }

    /// Removes a file. Returns whether it existed.
    pub(super) fn remove(&mut self, node: NodeId, name: &str) -> io::Result<bool> {
        match fs::remove_file(self.place(node, name)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Appends an event. The two files together hold at least the last 64 KiB of a node's events, and at most twice
    /// that.
    pub(super) fn append(&mut self, node: NodeId, line: &[u8]) -> io::Result<()> {
        let path = self.place(node, names::EVENTS);
        let mut file = OpenOptions::new().append(true).create(true).open(&path)?;
        // The older file is replaced, so that at most two files exist.
        if file.metadata()?.len() + line.len() as u64 > EVENTS_BYTES {
            fs::rename(&path, self.place(node, names::OLDER_EVENTS))?;
            file = OpenOptions::new().append(true).create(true).open(&path)?;
        }
        file.write_all(line)
    }

    /// Returns a node's events after a number, as far as the files have them.
    pub(super) fn events_after(&self, node: NodeId, seq: u64) -> Vec<Event> {
        let files = [names::OLDER_EVENTS, names::EVENTS];
        let texts =
            files.map(|name| fs::read_to_string(self.place(node, name)).unwrap_or_default());
        let lines = texts.iter().flat_map(|text| text.lines());
        let events = lines.filter_map(|line| serde_json::from_str::<Event>(line).ok());
        events.filter(|event| event.seq > seq).collect()
    }
}
