//! The files of an image that is assembled, and what their programs need beside them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ::tar::{Builder, EntryType, Header};

use super::elf;
use super::packages::{in_image, triplet};
use crate::error::Fault;

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    /// A folder with these rights.
    Folder(u32),
    /// A symbolic link.
    Link(String),
    /// A file of the host.
    Host(PathBuf),
    /// A file with this in it.
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
    /// None yet; those of the host are below `root`.
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

    /// Adds one, with the folders that it is in. What is there already stays.
    pub(super) fn add(&mut self, path: &str, item: Item) {
        for (at, _) in path.match_indices('/') {
            let folder = self.items.entry(path[..at].to_owned());
            folder.or_insert(Item::Folder(0o755));
        }
        self.items.entry(path.to_owned()).or_insert(item);
    }

    /// Files of the host that are among them, as the image names them.
    pub(super) fn of_host(&self) -> BTreeSet<String> {
        let host = |(path, item): (&String, &Item)| match item {
            Item::Host(_) => Some(path.clone()),
            _ => None,
        };
        self.items.iter().filter_map(host).collect()
    }

    /// Adds a file of the host, given by its absolute path, and all libraries that it and they need. A link becomes a link to
    /// the file that it leads to.
    ///
    /// # Errors
    /// [`Fault::NoLibrary`] when one is not there.
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
            // The loader takes a library's folder from the name by which it found it, and a program's from the kernel, which
            // has followed its links.
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

    /// Puts a path of the host into the image as far as it is a link. Gives the image's and the host's names of the file it leads
    /// to, unless that is in the image.
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

    /// Where a library is on the host. One that the image's loader would not find there is linked where it would.
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
        // Found by the host's cache of libraries, which images have none of.
        if asked != default && !["usr/lib", "usr/lib64"].contains(&in_image(folder).as_str()) {
            self.add(&default, Item::Link(format!("/{asked}")));
        }
        Ok(found)
    }

    /// Writes them as a layer: in the order of their names, of root, without times. The same files give the same bytes.
    ///
    /// # Errors
    /// When one cannot be read or written.
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
                    // What a package's programs may do beyond others is the scenario's to say, not a bit's.
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

/// Folders of libraries that the host's configuration names.
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
