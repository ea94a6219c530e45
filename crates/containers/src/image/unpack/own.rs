//! The files that a layer has made so far, by real path.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;

use crate::image::merged::split;
use crate::image::tar::Meta;

/// A file of this layer.
#[derive(Debug)]
pub(super) enum Made {
    /// A folder.
    Folder(Folder),
    /// A symbolic link with its target.
    Symlink(Vec<u8>),
    /// A file, device or pipe.
    Other,
    /// A mark that hides a file of the layers below.
    Whiteout,
}

/// A folder of this layer.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) meta: Meta,
    /// Whether an entry describes the folder; otherwise it was only made to hold something, or to have the metadata of one
    /// below.
    pub(super) explicit: bool,
    /// Whether it hides all content of the layers below.
    cut: bool,
}

/// All files that a layer has made.
#[derive(Debug)]
pub(super) struct Own {
    made: BTreeMap<Vec<u8>, Made>,
}

impl Own {
    /// Contains only the root, which has the empty path.
    pub(super) fn new(root: Meta) -> Self {
        let folder = Folder {
            meta: root,
            explicit: true,
            cut: false,
        };
        Self {
            made: BTreeMap::from([(Vec::new(), Made::Folder(folder))]),
        }
    }

    pub(super) fn set_root(&mut self, root: Meta) {
        if let Some(Made::Folder(folder)) = self.made.get_mut(&b""[..]) {
            folder.meta = root;
        }
    }

    pub(super) fn root_is_cut(&self) -> bool {
        self.is_cut(b"")
    }

    pub(super) fn get(&self, at: &[u8]) -> Option<&Made> {
        self.made.get(at)
    }

    pub(super) fn get_mut(&mut self, at: &[u8]) -> Option<&mut Made> {
        self.made.get_mut(at)
    }

    pub(super) fn insert(&mut self, at: Vec<u8>, made: Made) {
        self.made.insert(at, made);
    }

    /// Adds a folder to a folder of this layer.
    pub(super) fn insert_folder(&mut self, at: Vec<u8>, meta: Meta, explicit: bool) {
        let cut = self.is_cut(split(&at).0);
        let folder = Folder {
            meta,
            explicit,
            cut,
        };
        self.made.insert(at, Made::Folder(folder));
    }

    pub(super) fn remove(&mut self, at: &[u8]) -> Option<Made> {
        self.made.remove(at)
    }

    /// Returns whether the content of the layers below is hidden in a folder, which may be one of the layers below.
    pub(super) fn is_cut(&self, folder: &[u8]) -> bool {
        let mut at = folder;
        loop {
            match self.made.get(at) {
                Some(Made::Folder(folder)) => return folder.cut,
                Some(_) => return true,
                // The walk ends, because the root always exists.
                None => at = split(at).0,
            }
        }
    }

    /// Marks a folder and all folders in it as hiding the layers below; returns `false` if that changes nothing.
    pub(super) fn cut(&mut self, at: &[u8]) -> bool {
        let inside = prefix(at);
        for (path, made) in self.made.range_mut(inside.clone()..) {
            if !path.starts_with(&inside) {
                break;
            }
            if let Made::Folder(folder) = made {
                folder.cut = true;
            }
        }
        match self.made.get_mut(at) {
            Some(Made::Folder(folder)) => !std::mem::replace(&mut folder.cut, true),
            _ => false,
        }
    }

    fn below(&self, at: &[u8]) -> impl DoubleEndedIterator<Item = (&Vec<u8>, &Made)> {
        // All paths between `a/` and `a0` are inside `a`, because `0` follows `/`.
        let (begin, end) = match at {
            b"" => (Bound::Excluded(Vec::new()), Bound::Unbounded),
            _ => (
                Bound::Included(prefix(at)),
                Bound::Excluded([at, b"0"].concat()),
            ),
        };
        self.made.range((begin, end))
    }

    /// Returns the paths inside a path and the path itself, the content of a folder before the folder.
    pub(super) fn at_and_below(&self, at: &[u8]) -> Vec<Vec<u8>> {
        let inside = self.below(at).rev().map(|(path, _)| path.clone());
        inside.chain(std::iter::once(at.to_vec())).collect()
    }

    /// Returns whether an entry describes a folder or anything in it.
    pub(super) fn holds_explicit(&self, at: &[u8]) -> bool {
        let itself = self.made.get(at).is_some_and(is_explicit);
        itself || self.below(at).any(|(_, made)| is_explicit(made))
    }

    /// Returns the paths inside a folder that exist only because of the layers below: whiteouts, and folders that hold nothing
    /// else. The content of a folder comes before the folder.
    pub(super) fn only_for_below(&self, at: &[u8]) -> Vec<Vec<u8>> {
        let mut carrying: HashSet<&[u8]> = HashSet::new();
        let mut found = Vec::new();
        for (path, made) in self.below(at).rev() {
            if is_explicit(made) || carrying.contains(path.as_slice()) {
                carrying.insert(split(path).0);
            } else {
                found.push(path.clone());
            }
        }
        found
    }

    /// Returns all folders, by path.
    pub(super) fn folders(&mut self) -> Vec<(Vec<u8>, Meta)> {
        let folders = self.made.iter().filter_map(|(path, made)| match made {
            Made::Folder(folder) => Some((path.clone(), folder.meta.clone())),
            _ => None,
        });
        folders.collect()
    }
}

fn is_explicit(made: &Made) -> bool {
    match made {
        Made::Folder(folder) => folder.explicit,
        Made::Symlink(_) | Made::Other => true,
        Made::Whiteout => false,
    }
}

fn prefix(at: &[u8]) -> Vec<u8> {
    match at {
        b"" => Vec::new(),
        _ => [at, b"/"].concat(),
    }
}
