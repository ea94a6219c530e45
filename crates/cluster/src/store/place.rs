//! The location of a store, as users write it: a cluster or a folder.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use crate::store::address::{Address, AddressError};
use crate::store::error::Result;
use crate::store::{Etcd, Folder, Store};

/// The location of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreLocation {
    /// An etcd cluster.
    Etcd(Address),
    /// A folder of this host.
    Folder(PathBuf),
}

/// The error for a text that is not the location of a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreLocationError {
    /// The text looks like a cluster and is invalid.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The text is neither a cluster nor a folder.
    #[error(
        "{0:?} is no store: write etcd://HOST:PORT[,HOST:PORT...], or the path of a folder with a / in it, such as /run/constel/store, for machines of one host"
    )]
    Neither(String),
}

impl StoreLocation {
    /// Opens the store for reading: a folder must contain a store already. Sends no request to a cluster yet.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::store::Error::Invalid): a file that the address names cannot be read, or there is no store in the
    /// folder.
    pub fn find(&self) -> Result<Arc<dyn Store>> {
        Ok(match self {
            Self::Etcd(address) => Arc::new(Etcd::new(address)?),
            Self::Folder(path) => Arc::new(Folder::find(path)?),
        })
    }

    /// Opens the store for joining: creates the folder if it does not exist. Sends no request to a cluster yet.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::store::Error::Invalid): a file that the address names cannot be read, or the folder cannot be
    /// created, or its content is not a store.
    pub fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(match self {
            Self::Etcd(address) => Arc::new(Etcd::new(address)?),
            Self::Folder(path) => Arc::new(Folder::open(path)?),
        })
    }
}

impl fmt::Display for StoreLocation {
    /// Leaves out passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Etcd(address) => address.fmt(f),
            Self::Folder(path) => path.display().fmt(f),
        }
    }
}

impl FromStr for StoreLocation {
    type Err = StoreLocationError;

    fn from_str(text: &str) -> std::result::Result<Self, StoreLocationError> {
        if text.contains("://") {
            return Ok(Self::Etcd(text.parse()?));
        }
        match text.contains('/') {
            true => Ok(Self::Folder(PathBuf::from(text))),
            false => Err(StoreLocationError::Neither(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_and_folders_are_told_apart() {
        let read = |text: &str| text.parse::<StoreLocation>();
        assert!(matches!(
            read("etcd://10.0.0.1:2379"),
            Ok(StoreLocation::Etcd(_))
        ));
        for folder in ["/run/s", "./s", "a/b"] {
            assert_eq!(read(folder), Ok(StoreLocation::Folder(folder.into())));
        }
        for (wrong, named) in [
            ("http://a:1", "etcd://"),
            ("s", "/run/constel/store"),
            ("", "no store"),
        ] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.contains(named), "{wrong}: {error}");
        }
        let shown = read("etcd://me:secret@h:1").unwrap().to_string();
        assert_eq!(shown, "etcd://me@h:1");
    }
}
