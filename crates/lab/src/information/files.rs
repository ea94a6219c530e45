//! Files of nodes: replaced whole, so that no reader ever sees half of one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use constel_information::{Event, names};
use constel_topology::NodeId;

use super::folder::{node_folder, staging};

/// A file of events that would become longer is put aside.
const EVENTS_BYTES: u64 = 64 << 10;

/// The files of all nodes of a lab.
pub(super) struct Files {
    root: PathBuf,
    /// How many were written: names for those that have no place yet.
    written: u64,
}

impl Files {
    /// In a folder that was made.
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            written: 0,
        }
    }

    fn place(&self, node: NodeId, name: &str) -> PathBuf {
        node_folder(&self.root, node).join(name)
    }

    /// A file that is nowhere yet, with this in it.
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

    /// Writes a file anew where it lies: whoever watches the file itself hears of it, and who reads it meanwhile may see half.
    pub(super) fn rewrite(&self, node: NodeId, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.place(node, name);
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        // In this order a file that has grown is never empty.
        file.write_all(bytes)?;
        file.set_len(bytes.len() as u64)?;
        file.set_permissions(fs::Permissions::from_mode(0o644))
    }

    /// Puts a file into a node's folder, in one instant: whoever opens it has all of the old one or all of the new one.
    pub(super) fn put(&mut self, node: NodeId, name: &str, bytes: &[u8]) -> io::Result<()> {
        let fresh = self.fresh(bytes)?;
        fs::rename(&fresh, self.place(node, name))
    }

    /// The same for several nodes, which share the file: none of them can write it.
    pub(super) fn put_to_all(
        &mut self,
        nodes: &[NodeId],
        name: &str,
        bytes: &[u8],
    ) -> io::Result<()> {
        let fresh = self.fresh(bytes)?;
        let staged = fresh.with_extension("link");
        for &node in nodes {
            fs::hard_link(&fresh, &staged)?;
            fs::rename(&staged, self.place(node, name))?;
        }
        fs::remove_file(&fresh)
    }

    /// Takes a file away; says whether it was there.
    pub(super) fn remove(&mut self, node: NodeId, name: &str) -> io::Result<bool> {
        match fs::remove_file(self.place(node, name)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Appends an event. The files together hold at least the last 64 KiB of a node's events, and at most twice that.
    pub(super) fn append(&mut self, node: NodeId, line: &[u8]) -> io::Result<()> {
        let path = self.place(node, names::EVENTS);
        let mut file = OpenOptions::new().append(true).create(true).open(&path)?;
        if file.metadata()?.len() + line.len() as u64 > EVENTS_BYTES {
            fs::rename(&path, self.place(node, names::OLDER_EVENTS))?;
            file = OpenOptions::new().append(true).create(true).open(&path)?;
        }
        file.write_all(line)
    }

    /// A node's events after a number, as far as the files have them.
    pub(super) fn events_after(&self, node: NodeId, seq: u64) -> Vec<Event> {
        let files = [names::OLDER_EVENTS, names::EVENTS];
        let texts =
            files.map(|name| fs::read_to_string(self.place(node, name)).unwrap_or_default());
        let lines = texts.iter().flat_map(|text| text.lines());
        let events = lines.filter_map(|line| serde_json::from_str::<Event>(line).ok());
        events.filter(|event| event.seq > seq).collect()
    }
}
