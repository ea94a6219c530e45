//! Paths of entries, and the names among them that are whiteouts.

use crate::image::error::{EntryFault, Fault};

/// Marks a folder that hides the content of the layers below.
pub(crate) const OPAQUE: &[u8] = b".wh..wh..opq";
const WHITEOUT: &[u8] = b".wh.";
/// AUFS's own bookkeeping; without meaning outside of AUFS.
const BOOKKEEPING: &[u8] = b".wh..wh.";

/// Maximum number of links in one path; more are a loop, as in the kernel.
pub(crate) const MOST_LINKS: u32 = 40;
const MOST_NAME: usize = 255;
const MOST_PATH: usize = 4095;

/// A path below the root, as its parts; the root itself has none. Parts are neither empty nor `.` nor `..`, and contain neither
/// `/` nor NUL.
pub(crate) type Parts = Vec<Vec<u8>>;

/// The meaning of an entry's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The root of the image.
    Root,
    /// A file in a folder.
    Node {
        /// The folder.
        folder: Parts,
        /// The file's name.
        name: Vec<u8>,
    },
    /// A whiteout: removes a file of the layers below from a folder.
    Whiteout {
        /// The folder.
        folder: Parts,
        /// The file's name.
        name: Vec<u8>,
    },
    /// An opaque mark: removes everything that the layers below have in a folder.
    Opaque {
        /// The folder.
        folder: Parts,
    },
    /// AUFS's bookkeeping, which is ignored.
    Bookkeeping,
}

/// Splits an entry's path into parts. A leading `/` is the image's root.
///
/// # Errors
/// [`EntryFault::Escapes`] for `..`, [`EntryFault::BadPath`] for an invalid path.
pub(crate) fn parts(path: &[u8]) -> Result<Parts, EntryFault> {
    if path.len() > MOST_PATH {
        return Err(EntryFault::BadPath("more than 4095 bytes"));
    }
    if path.contains(&0) {
        return Err(EntryFault::BadPath("it has a zero byte"));
    }
    let mut parts = Parts::new();
    for part in path.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return Err(EntryFault::Escapes),
            _ if part.len() > MOST_NAME => {
                return Err(EntryFault::BadPath("a part of it has more than 255 bytes"));
            }
            _ => parts.push(part.to_vec()),
        }
    }
    Ok(parts)
}

/// Returns the meaning of an entry's path.
///
/// # Errors
/// Those of [`parts`], and [`EntryFault::Reserved`] for a path below a whiteout's name, or for a reserved name that is not a
/// whiteout.
pub(crate) fn meaning(path: &[u8]) -> Result<Meaning, EntryFault> {
    let mut folder = parts(path)?;
    if folder
        .iter()
        .any(|p| p.starts_with(BOOKKEEPING) && p != OPAQUE)
    {
        return Ok(Meaning::Bookkeeping);
    }
    let Some(name) = folder.pop() else {
        return Ok(match path {
            b"" => return Err(EntryFault::BadPath("it is empty")),
            _ => Meaning::Root,
        });
    };
    if folder.iter().any(|part| part.starts_with(WHITEOUT)) {
        return Err(EntryFault::Reserved);
    }
    if name == OPAQUE {
        return Ok(Meaning::Opaque { folder });
    }
    match name.strip_prefix(WHITEOUT) {
        None => Ok(Meaning::Node { folder, name }),
        Some(b"" | b"." | b"..") => Err(EntryFault::Reserved),
        Some(hidden) => Ok(Meaning::Whiteout {
            folder,
            name: hidden.to_vec(),
        }),
    }
}

/// Returns the target of a hard link: a path within the image, never its root.
pub(crate) fn link_target(path: &[u8], target: &[u8]) -> Result<(Parts, Vec<u8>), Fault> {
    let bad = |reason| {
        let target = crate::image::error::shown(target);
        Fault::entry(path, EntryFault::BadLink { target, reason })
    };
    let mut folder = match parts(target) {
        Ok(folder) => folder,
        Err(EntryFault::Escapes) => return Err(bad("is out of the image")),
        Err(_) => return Err(bad("is no path")),
    };
    let name = folder.pop().ok_or_else(|| bad("is a folder"))?;
    Ok((folder, name))
}

/// Checks the target of a symbolic link: any text that the kernel accepts.
pub(crate) fn check_symlink(path: &[u8], target: &[u8]) -> Result<(), Fault> {
    let bad = |reason| {
        let target = crate::image::error::shown(target);
        Err(Fault::entry(path, EntryFault::BadLink { target, reason }))
    };
    match target {
        b"" => bad("is empty"),
        _ if target.len() > MOST_PATH => bad("has more than 4095 bytes"),
        _ if target.contains(&0) => bad("has a zero byte"),
        _ => Ok(()),
    }
}

/// Puts a symbolic link's target in front of the parts of a path that are still to walk, `..` among them; returns whether the
/// walk continues at the root.
pub(crate) fn through_link(target: &[u8], rest: &mut Vec<Vec<u8>>) -> bool {
    // `rest` is reversed: its last part comes next.
    for part in target.split(|b| *b == b'/').rev() {
        if !part.is_empty() && part != b"." {
            rest.push(part.to_vec());
        }
    }
    target.starts_with(b"/")
}

/// Joins parts to one path.
pub(crate) fn joined(parts: &[Vec<u8>]) -> Vec<u8> {
    parts.join(&b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_means_one_thing_or_is_refused() {
        let folder = vec![b"a".to_vec()];
        let name = b"b".to_vec();
        for (path, is) in [
            (
                &b"/a//./b/"[..],
                Meaning::Node {
                    folder: folder.clone(),
                    name: name.clone(),
                },
            ),
            (
                b"a/.wh.b",
                Meaning::Whiteout {
                    folder: folder.clone(),
                    name,
                },
            ),
            (b"a/.wh..wh..opq", Meaning::Opaque { folder }),
            (b"./", Meaning::Root),
            (b"/", Meaning::Root),
            (b".wh..wh.plnk/x", Meaning::Bookkeeping),
            (b".wh..wh.aufs", Meaning::Bookkeeping),
        ] {
            assert_eq!(
                meaning(path),
                Ok(is),
                "{}",
                crate::image::error::shown(path)
            );
        }
        assert_eq!(meaning(b"a/../b"), Err(EntryFault::Escapes));
        for path in [
            &b".wh.x/y"[..],
            b".wh.",
            b".wh...",
            b"a/.wh..",
            b".wh..wh..opq/x",
        ] {
            assert_eq!(
                meaning(path),
                Err(EntryFault::Reserved),
                "{}",
                crate::image::error::shown(path)
            );
        }
        for path in [&b""[..], b"a\0b", &[b'x'; 256], &b"x/".repeat(2048)] {
            assert!(matches!(meaning(path), Err(EntryFault::BadPath(_))));
        }
    }

    #[test]
    fn a_link_may_lead_anywhere_within() {
        let mut rest = vec![b"z".to_vec()];
        assert!(through_link(b"/usr/../lib", &mut rest));
        assert_eq!(joined(&rest), b"z/lib/../usr");
        assert!(link_target(b"l", b"../x").is_err());
        assert!(link_target(b"l", b"/").is_err());
        assert_eq!(link_target(b"l", b"/a/b").unwrap().1, b"b");
    }
}
