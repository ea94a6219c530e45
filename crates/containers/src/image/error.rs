//! Errors of images: the image, the place in it, the fault, and a remedy.

use std::fmt;
use std::io;

use constel_units::shown::one_line;

use crate::image::digest::Digest;

/// The reason why an image cannot be read, kept or used. Its text has the source or image, the place in it, the fault and a
/// remedy.
#[derive(Debug)]
pub struct Error {
    of: String,
    at: String,
    fault: Box<Fault>,
}

impl Error {
    /// Returns an error of a source or image without a closer place.
    #[must_use]
    pub fn new(of: impl Into<String>, fault: Fault) -> Self {
        fault.of(of)
    }

    /// Returns the source, name or store that the error is about.
    #[must_use]
    pub fn of(&self) -> &str {
        &self.of
    }

    /// Returns the place in it: a layer, a document, an entry. Empty if there is no closer place.
    #[must_use]
    pub fn at(&self) -> &str {
        &self.at
    }

    /// Returns the fault.
    #[must_use]
    pub fn fault(&self) -> &Fault {
        &self.fault
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.of)?;
        if !self.at.is_empty() {
            write!(f, "{}: ", self.at)?;
        }
        write!(f, "{}", self.fault)?;
        match self.fault.remedy() {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&*self.fault)
    }
}

/// A fault, without its place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A system call failed.
    #[error("cannot {doing}: {source}")]
    Io {
        /// The operation that failed.
        doing: String,
        /// The system's error.
        source: io::Error,
    },
    /// The operation needs root: it sets owners, device nodes or overlay marks.
    #[error("cannot {doing} without the rights of root")]
    Unprivileged {
        /// The operation that failed.
        doing: String,
    },
    /// The path does not exist.
    #[error("there is no such file or folder")]
    NoSuchFile,
    /// The format is not one of the supported ones.
    #[error("it is no image: {0}")]
    Format(String),
    /// A document of the image cannot be parsed.
    #[error("{document} is malformed: {reason}")]
    Document {
        /// The document's name.
        document: String,
        /// The reason.
        reason: String,
    },
    /// No environment variable says where images are kept.
    #[error("neither XDG_CACHE_HOME nor HOME is set to an absolute path")]
    NoHome,
    /// A file that a document refers to is missing.
    #[error("{0} is missing")]
    Missing(String),
    /// The content does not match its digest.
    #[error("{what} has the digest {found}, its image says {expected}")]
    Digest {
        /// The content's name.
        what: String,
        /// The stated digest.
        expected: Digest,
        /// The computed digest.
        found: Digest,
    },
    /// The content does not have the stated length.
    #[error("{what} has {found} bytes, its image says {expected}")]
    Size {
        /// The content's name.
        what: String,
        /// The stated length, in bytes.
        expected: u64,
        /// The length read, in bytes.
        found: u64,
    },
    /// A text that is not a digest.
    #[error("'{0}' is no digest sha256:<64 hexadecimal digits>")]
    BadDigest(String),
    /// A media type that is not supported.
    #[error("its media type {0} is not supported")]
    MediaType(String),
    /// The image is for another platform.
    #[error("it is for {found}, and {wanted} is wanted")]
    Platform {
        /// The platform needed, as `linux/amd64`.
        wanted: String,
        /// The platforms available, as `linux/arm64, linux/s390x`.
        found: String,
    },
    /// The source has several images and the request does not choose one.
    #[error("it holds several images: {0}")]
    Several(String),
    /// No image of the source has the name.
    #[error("it holds no image '{wanted}', but {has}")]
    NotHeld {
        /// The requested name.
        wanted: String,
        /// The available names.
        has: String,
    },
    /// A bound of [`Limits`](crate::image::Limits) was exceeded.
    #[error("{what} would exceed {bound} ({limit})")]
    Limit {
        /// The quantity that grew too large.
        what: String,
        /// The bound with its unit.
        bound: String,
        /// The field of [`Limits`](crate::image::Limits) that sets it.
        limit: &'static str,
    },
    /// An entry of a layer was rejected.
    #[error("entry '{path}': {why}")]
    Entry {
        /// The entry's path, as written in the archive.
        path: String,
        /// The reason.
        why: EntryFault,
    },
    /// An archive or compressed stream is truncated or malformed.
    #[error("it is damaged: {0}")]
    Damaged(String),
    /// A text that is not a valid image name.
    #[error("'{name}' cannot name an image: {reason}")]
    BadName {
        /// The text.
        name: String,
        /// The reason.
        reason: &'static str,
    },
    /// The image has no name.
    #[error("it has no name")]
    NoName,
    /// The store has no image with this name.
    #[error("there is no such image{}", .nearest.as_ref().map_or_else(String::new, |n| format!("; did you mean '{n}'?")))]
    NoImage {
        /// The most similar name in the store.
        nearest: Option<String>,
    },
    /// A lab uses the image.
    #[error("it is in use")]
    InUse,
    /// The image has no folder at a place where every container has files of its machine.
    #[error("its {place} {how}")]
    Place {
        /// The place.
        place: String,
        /// The kind of file there instead.
        how: &'static str,
    },
    /// The image's files do not have its user or group.
    #[error("its {kind} '{name}' is not in its {file}")]
    NoAccount {
        /// `user` or `group`.
        kind: &'static str,
        /// The name.
        name: String,
        /// The file that was searched.
        file: &'static str,
    },
    /// A container engine is missing or refused the request.
    #[error("the engine {socket}: {reason}")]
    Engine {
        /// The engine's socket.
        socket: String,
        /// The engine's answer or the failure.
        reason: String,
    },
    /// A registry cannot be reached or refused the request.
    #[error("the registry {registry} {reason}")]
    Registry {
        /// The registry's host and port.
        registry: String,
        /// The registry's answer or the failure.
        reason: String,
    },
    /// The store was made by another version.
    #[error("it is a store of version {found}, this program writes version {ours}")]
    StoreVersion {
        /// The version of the store.
        found: u64,
        /// The version that this program uses.
        ours: u64,
    },
}

/// The reason why an entry of a layer is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryFault {
    /// The path contains `..`.
    #[error("its path leads out of the image")]
    Escapes,
    /// The path has a byte or a length that is not valid.
    #[error("its path is not valid: {0}")]
    BadPath(&'static str),
    /// The entry is below a file.
    #[error("'{0}' is no folder")]
    NotAFolder(String),
    /// Symbolic links lead to each other.
    #[error("its path goes through more than 40 symbolic links")]
    LinkLoop,
    /// A hard link to a missing file or to a folder.
    #[error("it links to '{target}', which {reason}")]
    BadLink {
        /// The link's target.
        target: String,
        /// The reason.
        reason: &'static str,
    },
    /// The kind of entry does not exist in a file system.
    #[error("its type is unknown (0x{0:02x})")]
    UnknownType(u8),
    /// The entry is overlayfs's own whiteout device or has an attribute of overlayfs.
    #[error("it is a mark of overlayfs itself ({0})")]
    OverlayMark(String),
    /// The name is reserved for whiteouts.
    #[error("its name is reserved for whiteouts")]
    Reserved,
    /// The value of a field is out of range.
    #[error("its {0} is out of range")]
    OutOfRange(&'static str),
    /// The root of the image is not a folder.
    #[error("it makes the image's root something else than a folder")]
    RootNoFolder,
}

impl Fault {
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        |source| Self::from_io(doing.into(), source)
    }

    pub(crate) fn os(doing: impl Into<String>) -> impl FnOnce(rustix::io::Errno) -> Self {
        |errno| Self::from_io(doing.into(), errno.into())
    }

    /// Converts an I/O error; a fault that was wrapped in an [`io::Error`] is unwrapped.
    pub(crate) fn from_io(doing: String, source: io::Error) -> Self {
        if source.get_ref().is_some_and(|inner| inner.is::<Self>()) {
            let inner = source.into_inner().and_then(|e| e.downcast::<Self>().ok());
            return inner.map_or_else(|| Self::Damaged(doing), |fault| *fault);
        }
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::Unprivileged { doing },
            io::ErrorKind::UnexpectedEof => Self::Damaged("it ends too early".to_owned()),
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput
                if source.raw_os_error().is_none() =>
            {
                Self::Damaged(source.to_string())
            }
            _ => Self::Io { doing, source },
        }
    }

    pub(crate) fn entry(path: &[u8], why: EntryFault) -> Self {
        Self::Entry {
            path: shown(path),
            why,
        }
    }

    pub(crate) fn damaged(how: impl Into<String>) -> Self {
        Self::Damaged(how.into())
    }

    pub(crate) fn document(document: impl Into<String>, reason: impl fmt::Display) -> Self {
        Self::Document {
            document: document.into(),
            reason: reason.to_string(),
        }
    }

    pub(crate) fn of(self, of: impl Into<String>) -> Error {
        Located::from(self).of(of)
    }

    /// Returns what a user can do about the fault, if anything.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self {
            Self::Unprivileged { .. } => "run as root",
            Self::NoSuchFile => {
                "name a file or folder, docker-daemon:NAME for an engine's image, or docker://NAME for a registry's"
            }
            Self::Format(_) => {
                "give an OCI layout, the output of `docker save`, or a root file system as tar or folder"
            }
            Self::Missing(_) | Self::Digest { .. } | Self::Size { .. } | Self::Damaged(_) => {
                "fetch or save it again"
            }
            Self::Platform { .. } => "take an image for this machine's architecture",
            Self::Several(_) | Self::NotHeld { .. } => {
                "choose one, as oci:PATH:NAME or docker-archive:PATH:NAME"
            }
            Self::Limit { .. } => "raise the bound if the image is to be trusted",
            Self::Entry { .. } => "nothing was stored; build the image again without that entry",
            Self::Place { .. } => "build the image again with a folder there, or without an entry",
            Self::NoName => "give one with --name",
            Self::NoHome => "set one of them, or name the folder with --store",
            Self::NoImage { nearest: None } => {
                "`constel image list` names them all, `constel image import` fetches one, and `scenarios/images/make` in \
                 Constel's sources makes those of the examples"
            }
            Self::InUse => "take the lab that uses it down first",
            Self::NoAccount { .. } => "give a user by number",
            Self::Engine { .. } => {
                "where no engine has it, import what `docker save` wrote elsewhere"
            }
            Self::StoreVersion { .. } => "remove the folder and import again, or use another one",
            Self::Io { .. }
            | Self::Document { .. }
            | Self::BadDigest(_)
            | Self::MediaType(_)
            | Self::BadName { .. }
            | Self::NoImage { .. }
            | Self::Registry { .. } => return None,
        })
    }
}

/// Maximum length of a text of an image or a registry in messages, characters.
const SHOWN_CHARS: usize = 300;

/// Converts bytes of an image or a registry to one line of text.
pub(crate) fn shown(bytes: &[u8]) -> String {
    one_line(bytes, SHOWN_CHARS)
}

/// A fault with the place where it is; becomes an [`Error`] when the image or source is known.
#[derive(Debug)]
pub(crate) struct Located {
    at: String,
    fault: Fault,
}

impl From<Fault> for Located {
    fn from(fault: Fault) -> Self {
        Self {
            at: String::new(),
            fault,
        }
    }
}

impl Located {
    pub(crate) fn of(self, of: impl Into<String>) -> Error {
        Error {
            of: of.into(),
            at: self.at,
            fault: Box::new(self.fault),
        }
    }
}

/// Adds the place to a fault.
pub(crate) trait At<T> {
    fn at(self, place: impl FnOnce() -> String) -> Result<T, Located>;
}

impl<T> At<T> for Result<T, Fault> {
    fn at(self, place: impl FnOnce() -> String) -> Result<T, Located> {
        self.map_err(|fault| Located { at: place(), fault })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_survives_the_way_through_io() {
        let fault = Fault::entry(b"../x", EntryFault::Escapes);
        let back = Fault::io("read")(io::Error::other(fault));
        assert!(
            matches!(
                back,
                Fault::Entry {
                    why: EntryFault::Escapes,
                    ..
                }
            ),
            "{back}"
        );
    }

    #[test]
    fn an_error_says_of_what_where_what_and_what_to_do() {
        let fault: Result<(), Fault> = Err(Fault::entry(b"a/../b", EntryFault::Escapes));
        let error = fault.at(|| "layer 2".to_owned()).unwrap_err().of("x.tar");
        assert_eq!(
            error.to_string(),
            "x.tar: layer 2: entry 'a/../b': its path leads out of the image; nothing was stored; build the image again \
             without that entry"
        );
    }

    #[test]
    fn what_is_shown_cannot_move_a_cursor() {
        assert_eq!(shown(b"a\x1b[2J\nb\n"), "a\\u{1b}[2J\\nb");
        assert!(shown(&[b'x'; 5000]).len() == 303);
    }
}
