//! Layers as overlayfs shows them, and trees in memory in the same words.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use constel_containers::image::Tree;
use constel_containers::image::tar::{Kind, Meta};
use rustix::fs::{AtFlags, FileType};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

/// The object at a path, as text that can be compared.
pub(crate) type Listing = BTreeMap<String, String>;

/// A stack of layers, mounted nowhere: it is gone with its descriptor, whatever happens.
pub(crate) fn mount(lower_dirs: &[PathBuf], empty: &Path) -> OwnedFd {
    let context = rustix::mount::fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).unwrap();
    for folder in lower_dirs {
        rustix::mount::fsconfig_set_string(&context, "lowerdir+", folder).unwrap();
    }
    // One layer alone is no stack.
    rustix::mount::fsconfig_set_string(&context, "lowerdir+", empty).unwrap();
    rustix::mount::fsconfig_create(&context).unwrap();
    rustix::mount::fsmount(
        &context,
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::empty(),
    )
    .unwrap()
}

/// Everything below a mounted stack.
pub(crate) fn listing(mounted: &OwnedFd) -> Listing {
    let root = PathBuf::from(format!("/proc/self/fd/{}", mounted.as_raw_fd()));
    let mut listing = Listing::new();
    let mut names = BTreeMap::new();
    walk(&root, "", &mut listing, &mut names);
    add_links(&mut listing, names);
    listing
}

fn walk(root: &Path, path: &str, listing: &mut Listing, names: &mut BTreeMap<u64, Vec<String>>) {
    let at = root.join(path);
    // The root is reached through a link of /proc.
    let follow = match path {
        "" => AtFlags::empty(),
        _ => AtFlags::SYMLINK_NOFOLLOW,
    };
    let stat = rustix::fs::statat(rustix::fs::CWD, &at, follow).unwrap();
    let kind = FileType::from_raw_mode(stat.st_mode);
    let (major, minor) = (
        rustix::fs::major(stat.st_rdev),
        rustix::fs::minor(stat.st_rdev),
    );
    let what = match kind {
        FileType::Directory => "folder".to_owned(),
        FileType::Symlink => format!("link to {}", std::fs::read_link(&at).unwrap().display()),
        FileType::RegularFile => {
            names.entry(stat.st_ino).or_default().push(path.to_owned());
            format!("file {}", content(&std::fs::read(&at).unwrap()))
        }
        FileType::CharacterDevice => format!("char {major}:{minor}"),
        FileType::BlockDevice => format!("block {major}:{minor}"),
        FileType::Fifo => "fifo".to_owned(),
        other => format!("{other:?}"),
    };
    let mode = match kind {
        FileType::Symlink => 0,
        _ => stat.st_mode & 0o7777,
    };
    let time = (stat.st_mtime as i64, stat.st_mtime_nsec as u32);
    let xattrs = if path.is_empty() {
        Vec::new()
    } else {
        xattrs(&at)
    };
    listing.insert(
        path.to_owned(),
        described(&what, mode, (stat.st_uid, stat.st_gid), time, &xattrs),
    );
    if kind == FileType::Directory {
        for entry in std::fs::read_dir(&at).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let inner = if path.is_empty() {
                name
            } else {
                format!("{path}/{name}")
            };
            walk(root, &inner, listing, names);
        }
    }
}

fn xattrs(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut buffer = vec![0; 4096];
    let n = rustix::fs::llistxattr(path, &mut buffer).unwrap();
    let names = buffer[..n].split(|b| *b == 0).filter(|n| !n.is_empty());
    let mut found: Vec<(String, Vec<u8>)> = names
        .map(|name| {
            let mut value = vec![0; 4096];
            let n = rustix::fs::lgetxattr(path, name, &mut value).unwrap();
            (
                String::from_utf8(name.to_vec()).unwrap(),
                value[..n].to_vec(),
            )
        })
        .collect();
    found.sort();
    found
}

fn described(
    what: &str,
    mode: u32,
    owner: (u32, u32),
    time: (i64, u32),
    xattrs: &[(String, Vec<u8>)],
) -> String {
    format!(
        "{what} {mode:o} {}:{} {}.{:09} {xattrs:?}",
        owner.0, owner.1, time.0, time.1
    )
}

fn content(bytes: &[u8]) -> String {
    format!(
        "{} {}",
        bytes.len(),
        constel_containers::image::Digest::of(bytes).short()
    )
}

/// Names of one file are represented by the first of them.
fn add_links(listing: &mut Listing, names: BTreeMap<u64, Vec<String>>) {
    for mut of_one in names.into_values() {
        of_one.sort();
        for name in &of_one {
            let entry = listing.get_mut(name).unwrap();
            entry.push_str(&format!(" = {}", of_one[0]));
        }
    }
}

/// Everything in a tree in memory.
pub(crate) fn listing_of_tree(tree: &Tree) -> Listing {
    let mut listing = Listing::new();
    let mut names: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let owner = |meta: &Meta| (meta.uid, meta.gid);
    let root = tree.root();
    listing.insert(
        String::new(),
        described("folder", root.mode, owner(root), root.mtime, &[]),
    );
    for (path, node) in tree.nodes() {
        let path = String::from_utf8(path).unwrap();
        let what = match &node.kind {
            Kind::Folder => "folder".to_owned(),
            Kind::Symlink { target } => format!("link to {}", String::from_utf8_lossy(target)),
            Kind::File { .. } => {
                names.entry(node.inode).or_default().push(path.clone());
                format!("file {}", content(&node.content))
            }
            Kind::CharDevice { major, minor } => format!("char {major}:{minor}"),
            Kind::BlockDevice { major, minor } => format!("block {major}:{minor}"),
            Kind::Fifo => "fifo".to_owned(),
            Kind::HardLink { .. } => unreachable!("a tree has files, not links to them"),
        };
        let mode = match node.kind {
            Kind::Symlink { .. } => 0,
            _ => node.meta.mode,
        };
        let meta = &node.meta;
        listing.insert(
            path,
            described(&what, mode, owner(meta), meta.mtime, &meta.xattrs),
        );
    }
    add_links(&mut listing, names);
    listing
}
