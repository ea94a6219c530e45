//! A tree of files in memory, made from stacked layers. The unpacked layers are compared with it, and it shows an image's files
//! without root.
//!
//! The rules of layers, which [`crate::image::Store`] follows on disk:
//! * Entries take effect in their order; a later one replaces an earlier one. A folder on a folder keeps its content.
//! * Whiteouts and opaque marks hide the content of the layers below, never that of their own layer, wherever they are in the
//!   archive.
//! * Paths go through symbolic links within the image, as in the running image. Missing folders are created, owned by root and
//!   with the permissions 0755.
//! * A hard link leads to the current file of its target, or to the file of the layers below if this layer hid that.

use std::collections::BTreeMap;

use crate::image::error::{EntryFault, Fault, shown};
use crate::image::path::{self, MOST_LINKS, Meaning, Parts};
use crate::image::tar::{Kind, Meta, Tape, TarReader};

/// A tree of files in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    nodes: BTreeMap<Parts, Node>,
    root: Meta,
    next_inode: u64,
}

/// One file, folder, link or device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The kind of file; a regular file's content is in `content`.
    pub kind: Kind,
    /// Owner, permissions, time and attributes. Hard links share them.
    pub meta: Meta,
    /// The bytes of a regular file.
    pub content: Vec<u8>,
    /// Hard links of one file have the same number.
    pub inode: u64,
    /// Whether the last layer created it.
    upper: bool,
}

impl Default for Tree {
    fn default() -> Self {
        Self {
            nodes: BTreeMap::new(),
            root: default_folder(),
            next_inode: 1,
        }
    }
}

/// Returns the metadata of folders that no entry describes.
pub(crate) fn default_folder() -> Meta {
    Meta {
        mode: 0o755,
        uid: 0,
        gid: 0,
        mtime: (0, 0),
        xattrs: Vec::new(),
    }
}

impl Tree {
    /// Returns all nodes except the root, by path.
    pub fn nodes(&self) -> impl Iterator<Item = (Vec<u8>, &Node)> {
        self.nodes
            .iter()
            .map(|(parts, node)| (path::joined(parts), node))
    }

    /// Returns the metadata of the root folder.
    #[must_use]
    pub fn root(&self) -> &Meta {
        &self.root
    }

    /// Adds a layer on top. After an error the tree is in an undefined state between the two.
    ///
    /// # Errors
    /// Those of [`TarReader`], and [`Fault::Entry`] for an invalid entry.
    pub fn apply<T: Tape>(&mut self, layer: &mut TarReader<T>) -> Result<(), Fault> {
        for node in self.nodes.values_mut() {
            node.upper = false;
        }
        let below = self.clone();
        while let Some(entry) = layer.next_entry()? {
            let refuse = |why| Fault::entry(&entry.path, why);
            match path::meaning(&entry.path).map_err(refuse)? {
                Meaning::Bookkeeping => {}
                Meaning::Root if entry.kind == Kind::Folder => self.root = entry.meta,
                Meaning::Root => return Err(refuse(EntryFault::RootNoFolder)),
                Meaning::Opaque { folder } => {
                    if let Some(at) = self.find_folder(folder).map_err(refuse)? {
                        self.hide(&at);
                    }
                }
                Meaning::Whiteout { folder, name } => {
                    if let Some(mut at) = self.find_folder(folder).map_err(refuse)? {
                        at.push(name);
                        self.hide(&at);
                        if self.nodes.get(&at).is_some_and(|n| !n.upper) && !self.holds_upper(&at) {
                            self.nodes.remove(&at);
                        }
                    }
                }
                Meaning::Node { folder, name } => match entry.kind {
                    Kind::HardLink { target } => {
                        self.link(&below, &entry.path, (folder, name), &target)?;
                    }
                    kind => {
                        check_kind(&entry.path, &kind)?;
                        let mut content = Vec::new();
                        if let Kind::File { size } = kind {
                            content = whole_content(layer, size)?;
                        }
                        let mut at = self.make_folder(folder).map_err(refuse)?;
                        at.push(name);
                        let node = self.fresh(kind, entry.meta, content);
                        self.put(at, node);
                    }
                },
            }
        }
        Ok(())
    }

    fn fresh(&mut self, kind: Kind, meta: Meta, content: Vec<u8>) -> Node {
        self.next_inode += 1;
        Node {
            kind,
            meta,
            content,
            inode: self.next_inode,
            upper: true,
        }
    }

    fn put(&mut self, at: Parts, node: Node) {
        let both_folders = node.kind == Kind::Folder
            && self.nodes.get(&at).is_some_and(|n| n.kind == Kind::Folder);
        if !both_folders {
            self.nodes.retain(|path, _| !path.starts_with(&at));
        }
        self.nodes.insert(at, node);
    }

    fn link(
        &mut self,
        below: &Self,
        path: &[u8],
        (folder, name): (Parts, Vec<u8>),
        target: &[u8],
    ) -> Result<(), Fault> {
        let bad = |reason| {
            let target = shown(target);
            Fault::entry(path, EntryFault::BadLink { target, reason })
        };
        let refuse = |why| Fault::entry(path, why);
        let (target_folder, target_name) = path::link_target(path, target)?;
        let at_of = |tree: &Self| -> Result<Option<Parts>, Fault> {
            let found = tree.find_folder(target_folder.clone()).map_err(refuse)?;
            Ok(found.map(|mut at| {
                at.push(target_name.clone());
                at
            }))
        };
        let now = at_of(self)?.filter(|at| self.nodes.contains_key(at));
        let node = match &now {
            Some(target_at) => {
                let mut node = self.nodes[target_at].clone();
                if node.kind == Kind::Folder {
                    return Err(bad("is a folder"));
                }
                if !node.upper {
                    // Other hard links to it, in the layers below, keep their content.
                    node = self.fresh(node.kind, node.meta, node.content);
                    self.nodes.insert(target_at.clone(), node.clone());
                }
                node
            }
            None => {
                let hidden = at_of(below)?.and_then(|at| below.nodes.get(&at));
                let hidden = hidden.ok_or_else(|| bad("is not there"))?.clone();
                if hidden.kind == Kind::Folder {
                    return Err(bad("is a folder"));
                }
                self.fresh(hidden.kind, hidden.meta, hidden.content)
            }
        };
        let mut at = self.make_folder(folder).map_err(refuse)?;
        at.push(name);
        if now.is_some_and(|target| target.starts_with(&at)) {
            return Err(bad("is what it would replace"));
        }
        self.put(at, node);
        Ok(())
    }

    /// Removes the content of the layers below from a folder.
    fn hide(&mut self, folder: &Parts) {
        let lower: Vec<Parts> = self
            .nodes
            .iter()
            .filter(|(path, node)| {
                path.len() > folder.len() && path.starts_with(folder) && !node.upper
            })
            .map(|(path, _)| path.clone())
            .collect();
        for path in lower.iter().rev() {
            if !self.holds_upper(path) {
                self.nodes.remove(path);
            }
        }
    }

    fn holds_upper(&self, folder: &Parts) -> bool {
        let within = self
            .nodes
            .range(folder.clone()..)
            .skip_while(|(p, _)| *p == folder);
        let mut within = within.take_while(|(path, _)| path.starts_with(folder));
        within.any(|(_, node)| node.upper)
    }

    fn find_folder(&self, folder: Parts) -> Result<Option<Parts>, EntryFault> {
        let mut at = Parts::new();
        let mut rest: Parts = folder.into_iter().rev().collect();
        let mut links = 0;
        while let Some(part) = rest.pop() {
            if !self.step(&mut at, part, &mut rest, &mut links)?.is_folder() {
                return Ok(None);
            }
        }
        Ok(Some(at))
    }

    fn make_folder(&mut self, folder: Parts) -> Result<Parts, EntryFault> {
        let mut at = Parts::new();
        let mut rest: Parts = folder.into_iter().rev().collect();
        let mut links = 0;
        while let Some(part) = rest.pop() {
            match self.step(&mut at, part, &mut rest, &mut links)? {
                Met::Folder => {}
                Met::Nothing(child) => {
                    let mut made = self.fresh(Kind::Folder, default_folder(), Vec::new());
                    made.upper = false;
                    self.nodes.insert(child.clone(), made);
                    at = child;
                }
                Met::Other(child) => {
                    return Err(EntryFault::NotAFolder(shown(&path::joined(&child))));
                }
            }
        }
        Ok(at)
    }

    fn step(
        &self,
        at: &mut Parts,
        part: Vec<u8>,
        rest: &mut Parts,
        links: &mut u32,
    ) -> Result<Met, EntryFault> {
        if part == b".." {
            at.pop();
            return Ok(Met::Folder);
        }
        let mut child = at.clone();
        child.push(part);
        match self.nodes.get(&child).map(|n| &n.kind) {
            None => Ok(Met::Nothing(child)),
            Some(Kind::Folder) => {
                *at = child;
                Ok(Met::Folder)
            }
            Some(Kind::Symlink { target }) => {
                *links += 1;
                if *links > MOST_LINKS {
                    return Err(EntryFault::LinkLoop);
                }
                if path::through_link(target, rest) {
                    at.clear();
                }
                Ok(Met::Folder)
            }
            Some(_) => Ok(Met::Other(child)),
        }
    }
}

/// The result of a step along a path.
enum Met {
    Folder,
    Nothing(Parts),
    Other(Parts),
}

impl Met {
    fn is_folder(&self) -> bool {
        matches!(self, Self::Folder)
    }
}

/// Checks that a kind of file can be created.
pub(crate) fn check_kind(path: &[u8], kind: &Kind) -> Result<(), Fault> {
    match kind {
        Kind::CharDevice { major: 0, minor: 0 } => {
            let what = EntryFault::OverlayMark("character device 0:0".to_owned());
            Err(Fault::entry(path, what))
        }
        Kind::Symlink { target } => path::check_symlink(path, target),
        _ => Ok(()),
    }
}

fn whole_content<T: Tape>(layer: &mut TarReader<T>, size: u64) -> Result<Vec<u8>, Fault> {
    let mut content = Vec::new();
    // A hole needs no space in an archive but memory here.
    const MOST: u64 = 16 << 20;
    let fits = |end: u64| match end > MOST {
        true => Err(Fault::Limit {
            what: "a file in memory".to_owned(),
            bound: format!("{MOST} bytes"),
            limit: "a bound of trees in memory",
        }),
        false => Ok(end as usize),
    };
    fits(size)?;
    layer.content(|offset, part| {
        content.resize(fits(offset)?, 0);
        content.extend_from_slice(part);
        Ok(())
    })?;
    content.resize(fits(size)?, 0);
    Ok(content)
}
