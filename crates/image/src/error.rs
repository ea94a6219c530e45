//! What can go wrong: of which image, where in it, what, and what to do about it.

use std::fmt;
use std::io;

use constel_units::shown::one_line;

use crate::digest::Digest;

/// Why an image cannot be read, kept or used. Its text names the source or image, the place in it, what is wrong, and
/// what to do.
#[derive(Debug)]
pub struct Error {
    of: String,
    at: String,
    fault: Box<Fault>,
}

impl Error {
    /// Of what was asked for, without a closer place.
    #[must_use]
    pub fn new(of: impl Into<String>, fault: Fault) -> Self {
        fault.of(of)
    }

    /// What was asked for: a source, a name or the store.
    #[must_use]
    pub fn of(&self) -> &str {
        &self.of
    }

    /// Where in it: a layer, a document, an entry. Empty where there is no closer place.
    #[must_use]
    pub fn at(&self) -> &str {
        &self.at
    }

    /// What is wrong.
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

/// What is wrong, without the place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The system refused.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was tried.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// Owners, device nodes and overlay's marks are root's to set.
    #[error("cannot {doing} without the rights of root")]
    Unprivileged {
        /// What was tried.
        doing: String,
    },
    /// There is nothing at the path.
    #[error("there is no such file or folder")]
    NoSuchFile,
    /// It is none of the formats that are known.
    #[error("it is no image: {0}")]
    Format(String),
    /// A document of the image cannot be read as what it should be.
    #[error("{document} is malformed: {reason}")]
    Document {
        /// Which one.
        document: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nothing says where images are kept.
    #[error("neither XDG_CACHE_HOME nor HOME is set to an absolute path")]
    NoHome,
    /// Something that a document names is not there.
    #[error("{0} is missing")]
    Missing(String),
    /// The content is not what its digest says.
    #[error("{what} has the digest {found}, its image says {expected}")]
    Digest {
        /// Which content.
        what: String,
        /// As stated.
        expected: Digest,
        /// As computed.
        found: Digest,
    },
    /// The content is not as long as stated.
    #[error("{what} has {found} bytes, its image says {expected}")]
    Size {
        /// Which content.
        what: String,
        /// As stated, in bytes.
        expected: u64,
        /// As read, in bytes.
        found: u64,
    },
    /// A text that is no digest.
    #[error("'{0}' is no digest sha256:<64 hexadecimal digits>")]
    BadDigest(String),
    /// A kind of content that cannot be used.
    #[error("its media type {0} is not supported")]
    MediaType(String),
    /// Made for another machine.
    #[error("it is for {found}, and {wanted} is wanted")]
    Platform {
        /// What was looked for, as `linux/amd64`.
        wanted: String,
        /// What there is, as `linux/arm64, linux/s390x`.
        found: String,
    },
    /// Which of its images is meant is not said.
    #[error("it holds several images: {0}")]
    Several(String),
    /// None of its images has the name.
    #[error("it holds no image '{wanted}', but {has}")]
    NotHeld {
        /// The name asked for.
        wanted: String,
        /// The names there are.
        has: String,
    },
    /// No image can be assembled by this name.
    #[error("there is no recipe '{name}', but {all}")]
    NoRecipe {
        /// The name.
        name: String,
        /// Those there are.
        all: String,
    },
    /// This host has no record of Debian packages.
    #[error("this host has no Debian packages (/var/lib/dpkg/status)")]
    NoPackages,
    /// Packages that a recipe takes programs from are not installed.
    #[error("packages are missing; install them: apt-get install {0}")]
    NotInstalled(String),
    /// A library that a program needs is not there.
    #[error("{by} needs the library {name}, which this host does not have")]
    NoLibrary {
        /// The library.
        name: String,
        /// Who needs it.
        by: String,
    },
    /// A bound of [`Limits`](crate::Limits) is exceeded.
    #[error("{what} would exceed {bound} ({limit})")]
    Limit {
        /// What grew too large.
        what: String,
        /// The bound with its unit.
        bound: String,
        /// The field of [`Limits`](crate::Limits) that sets it.
        limit: &'static str,
    },
    /// An entry of a layer that is not taken.
    #[error("entry '{path}': {why}")]
    Entry {
        /// Its path, as written in the archive.
        path: String,
        /// What is wrong with it.
        why: EntryFault,
    },
    /// An archive or compressed stream is cut off or not well-formed.
    #[error("it is damaged: {0}")]
    Damaged(String),
    /// A text that cannot name an image.
    #[error("'{name}' cannot name an image: {reason}")]
    BadName {
        /// The text.
        name: String,
        /// Why not.
        reason: &'static str,
    },
    /// Nothing names the image.
    #[error("it has no name")]
    NoName,
    /// The store has no image of this name.
    #[error("there is no such image{}", .nearest.as_ref().map_or_else(String::new, |n| format!("; did you mean '{n}'?")))]
    NoImage {
        /// What was perhaps meant.
        nearest: Option<String>,
    },
    /// A lab uses the image.
    #[error("it is in use")]
    InUse,
    /// Where every container has what is its machine's, the image has no folder.
    #[error("its {place} {how}")]
    Place {
        /// The place.
        place: String,
        /// What is there.
        how: &'static str,
    },
    /// The image's user or group is not in its files.
    #[error("its {kind} '{name}' is not in its {file}")]
    NoAccount {
        /// `user` or `group`.
        kind: &'static str,
        /// The name.
        name: String,
        /// The file that was searched.
        file: &'static str,
    },
    /// A container engine that is not there or refuses.
    #[error("the engine {socket}: {reason}")]
    Engine {
        /// Its socket.
        socket: String,
        /// What it did.
        reason: String,
    },
    /// A registry that cannot be reached or refuses.
    #[error("the registry {registry} {reason}")]
    Registry {
        /// Its host and port.
        registry: String,
        /// What it did.
        reason: String,
    },
    /// The store was made by another version.
    #[error("it is a store of version {found}, this program writes version {ours}")]
    StoreVersion {
        /// Of the store.
        found: u64,
        /// Of this program.
        ours: u64,
    },
}

/// What is wrong with an entry of a layer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryFault {
    /// `..` in its path.
    #[error("its path leads out of the image")]
    Escapes,
    /// A byte or length that no path can have.
    #[error("its path is none: {0}")]
    BadPath(&'static str),
    /// Something below a file.
    #[error("'{0}' is no folder")]
    NotAFolder(String),
    /// Symbolic links that lead to each other.
    #[error("its path goes through more than 40 symbolic links")]
    LinkLoop,
    /// A hard link to what is not there, or to a folder.
    #[error("it links to '{target}', which {reason}")]
    BadLink {
        /// The path linked to.
        target: String,
        /// Why it cannot be.
        reason: &'static str,
    },
    /// A kind of entry that no file system has.
    #[error("its type is unknown (0x{0:02x})")]
    UnknownType(u8),
    /// The device of overlay's own marks, or an attribute of overlay's own.
    #[error("it is a mark of overlayfs itself ({0})")]
    OverlayMark(String),
    /// A name that is reserved for whiteouts.
    #[error("its name is reserved for whiteouts")]
    Reserved,
    /// A field that does not fit.
    #[error("its {0} is out of range")]
    OutOfRange(&'static str),
    /// The root of the image as something else than a folder.
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

    /// A fault that travelled through [`io::Error`] is itself again.
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

    /// What to do about it, where that can be said.
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
            Self::Entry { .. } => "nothing was kept; make the image anew, without that entry",
            Self::Place { .. } => "make the image anew, with a folder there or nothing",
            Self::NoName => "give one with --name",
            Self::NoHome => "set one of them, or name the folder with --store",
            Self::NoImage { nearest: None } => "`constel image list` names them all",
            Self::InUse => "take the lab that uses it down first",
            Self::NoAccount { .. } => "give a user by number",
            Self::Engine { .. } => {
                "where no engine has it, import what `docker save` wrote elsewhere"
            }
            Self::StoreVersion { .. } => "remove the folder and import again, or use another one",
            Self::NoPackages => "import an image instead: constel image import",
            Self::NoLibrary { .. } => {
                "install the package that has it: apt-get --fix-broken install"
            }
            Self::Io { .. }
            | Self::NoRecipe { .. }
            | Self::NotInstalled(_)
            | Self::Document { .. }
            | Self::BadDigest(_)
            | Self::MediaType(_)
            | Self::BadName { .. }
            | Self::NoImage { .. }
            | Self::Registry { .. } => return None,
        })
    }
}

/// Longest text of an image or a registry that is shown, characters.
const SHOWN_CHARS: usize = 300;

/// Bytes of an image or a registry as text of one line.
pub(crate) fn shown(bytes: &[u8]) -> String {
    one_line(bytes, SHOWN_CHARS)
}

/// A fault with the place where it is; becomes an [`Error`] when what was asked for is known.
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

/// Says where a fault is.
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
            "x.tar: layer 2: entry 'a/../b': its path leads out of the image; nothing was kept; make the image anew, \
             without that entry"
        );
    }

    #[test]
    fn what_is_shown_cannot_move_a_cursor() {
        assert_eq!(shown(b"a\x1b[2J\nb\n"), "a\\u{1b}[2J\\nb");
        assert!(shown(&[b'x'; 5000]).len() == 303);
    }
}
