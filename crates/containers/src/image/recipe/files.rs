//! The files of an assembled image, and the libraries that its programs need.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ::tar::{Builder, EntryType, Header};

use super::elf;
use super::packages::{in_image, triplet};
use crate::image::error::Fault;

/// One file of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    /// A folder with these permissions.
    Folder(u32),
    /// A symbolic link.
    Link(String),
    /// A file of the host.
    Host(PathBuf),
    /// A file with this content.
    Made(Vec<u8>),
}

/// Files by their path in the image, without a leading `/`.
pub(super) struct Files {
    root: PathBuf,
    items: BTreeMap<String, Item>,
    /// Folders of libraries, absolute.
    folders: Vec<String>,
}

impl Files {
    /// Returns an empty set of files for a host whose root is `root`.
    pub(super) fn new(root: &Path) -> Self {
        let mut folders: Vec<String> = ["/lib", "/usr/lib"]
            .iter()
            .map(|folder| format!("{folder}/{}", triplet()))
            .chain(["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(str::to_owned))
            .collect();
        folders.extend(configured(root));
        Self {
            root: root.to_owned(),
            items: BTreeMap::new(),
            folders,
        }
    }

    /// Adds a file and the folders above it. An existing entry stays.
    pub(super) fn add(&mut self, path: &str, item: Item) {
        for (at, _) in path.match_indices('/') {
            let folder = self.items.entry(path[..at].to_owned());
            folder.or_insert(Item::Folder(0o755));
        }
        self.items.entry(path.to_owned()).or_insert(item);
    }

    /// Returns the host's files in the set, by their names in the image.
    pub(super) fn of_host(&self) -> BTreeSet<String> {
        let host = |(path, item): (&String, &Item)| match item {
            Item::Host(_) => Some(path.clone()),
            _ => None,
        };
        self.items.iter().filter_map(host).collect()
    }

    /// Adds a file of the host, given by its absolute path, and all libraries that it needs, recursively. A link becomes a link
    /// to the file that it leads to.
    ///
    /// # Errors
    /// [`Fault::NoLibrary`] if a library is missing.
    pub(super) fn add_host(&mut self, asked: &str) -> Result<(), Fault> {
        let mut left = vec![asked.to_owned()];
        while let Some(path) = left.pop() {
            let Some((name, real)) = self.place(&path)? else {
                continue;
            };
            let bytes =
                fs::read(self.root.join(&real)).map_err(Fault::io(format!("read /{real}")))?;
            self.add(&name, Item::Host(self.root.join(&real)));
            let Some(needs) = elf::needs(&bytes) else {
                continue;
            };
            left.extend(needs.interpreter);
            // The loader resolves `$ORIGIN` of a library by the name under which it found it, and that of a program by the path
            // from the kernel, which has followed its links.
            let own = match path == asked {
                true => Path::new("/").join(&real),
                false => PathBuf::from(&path),
            };
            let own = own.parent().unwrap_or(Path::new("/")).display().to_string();
            let first: Vec<String> = needs
                .folders
                .iter()
                .map(|folder| folder.replace("${ORIGIN}", &own).replace("$ORIGIN", &own))
                .collect();
            for library in needs.libraries {
                left.push(self.library(&library, &first, &real)?);
            }
        }
        Ok(())
    }

    /// Adds a path of the host as a link if it is one. Returns the names in the image and on the host of the file that it
    /// leads to, unless the image has that file already.
    fn place(&mut self, path: &str) -> Result<Option<(String, String)>, Fault> {
        let full = self.root.join(path.trim_start_matches('/'));
        let real = fs::canonicalize(&full).map_err(Fault::io(format!("find {path}")))?;
        let root = fs::canonicalize(&self.root).map_err(Fault::io("find the root".to_owned()))?;
        let real = real.strip_prefix(&root).map_err(|_| {
            Fault::Missing(format!("{path}, which leads out of {},", root.display()))
        })?;
        let real = real.to_string_lossy().into_owned();
        let (asked, name) = (in_image(path), in_image(&real));
        if asked != name {
            self.add(&asked, Item::Link(format!("/{name}")));
        }
        Ok((!self.items.contains_key(&name)).then_some((name, real)))
    }

    /// Returns the path of a library on the host. Links it to a default folder if the image's loader would not find it in the
    /// host's.
    fn library(&mut self, name: &str, first: &[String], by: &str) -> Result<String, Fault> {
        let there = |folder: &&String| {
            let path = self.root.join(folder.trim_start_matches('/')).join(name);
            path.is_file()
        };
        if name.starts_with('/') {
            return Ok(name.to_owned());
        }
        if let Some(folder) = first.iter().find(there) {
            return Ok(format!("{folder}/{name}"));
        }
        let Some(folder) = self.folders.iter().find(there) else {
            return Err(Fault::NoLibrary {
                name: name.to_owned(),
                by: format!("/{by}"),
            });
        };
        let found = format!("{folder}/{name}");
        let default = format!("usr/lib/{}/{name}", triplet());
        let asked = in_image(&found);
        // The host found it by its library cache (ld.so.cache), which images do not have.
        if asked != default && !["usr/lib", "usr/lib64"].contains(&in_image(folder).as_str()) {
            self.add(&default, Item::Link(format!("/{asked}")));
        }
        Ok(found)
    }

    /// Packs the files as a layer: sorted by name, owned by root, without times. The same files give the same bytes.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub(super) fn pack(&self, to: impl Write) -> Result<(), Fault> {
        let mut archive = Builder::new(to);
        let packing = |path: &str| Fault::io(format!("pack /{path}"));
        let root = header(EntryType::Directory, 0o755, 0);
        let mut root = root;
        root.as_old_mut().name[..2].copy_from_slice(b"./");
        root.set_cksum();
        archive.append(&root, io::empty()).map_err(packing(""))?;
        for (path, item) in &self.items {
            let wrong = || packing(path);
            match item {
                Item::Folder(mode) => {
                    let mut header = header(EntryType::Directory, *mode, 0);
                    let slashed = format!("{path}/");
                    archive
                        .append_data(&mut header, slashed, io::empty())
                        .map_err(wrong())?;
                }
                Item::Link(target) => {
                    let mut header = header(EntryType::Symlink, 0o777, 0);
                    archive
                        .append_link(&mut header, path, target)
                        .map_err(wrong())?;
                }
                Item::Made(bytes) => {
                    let mode = if bytes.starts_with(b"#!") {
                        0o755
                    } else {
                        0o644
                    };
                    let mut header = header(EntryType::Regular, mode, bytes.len() as u64);
                    archive
                        .append_data(&mut header, path, bytes.as_slice())
                        .map_err(wrong())?;
                }
                Item::Host(place) => {
                    let file = File::open(place).map_err(wrong())?;
                    let found = file.metadata().map_err(wrong())?;
                    // Setuid and setgid bits are removed: the scenario decides which privileges programs have.
                    let mode = found.permissions().mode() & 0o755;
                    let mut header = header(EntryType::Regular, mode, found.len());
                    archive
                        .append_data(&mut header, path, io::Read::take(file, found.len()))
                        .map_err(wrong())?;
                }
            }
        }
        let mut to = archive.into_inner().map_err(packing(""))?;
        to.flush().map_err(packing(""))
    }
}

fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

/// Returns the library folders that the host's configuration names.
fn configured(root: &Path) -> Vec<String> {
    let files = fs::read_dir(root.join("etc/ld.so.conf.d"))
        .into_iter()
        .flatten();
    let mut files: Vec<PathBuf> = files.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let texts = files
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok());
    let lines: Vec<String> = texts
        .flat_map(|text| {
            let lines = text.lines().map(str::trim);
            let lines = lines.filter(|line| line.starts_with('/'));
            lines.map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    lines
}
