//! Files in the store, cut into pieces that fit into a transaction.

use std::io;
use std::path::{Component, Path};

use super::model::File;
use crate::store::{Error, LeaseId, Result, Store, Txn};

/// Maximum size of a piece: four of them, as base64, fit into one transaction.
const PIECE_BYTES: usize = 512 << 10;

/// Maximum size of one lab's files or one part's results in the store.
pub(super) const MOST_BYTES: u64 = 64 << 20;

fn key(prefix: &str, file: usize, piece: usize) -> String {
    format!("{prefix}{file:06}/{piece:06}")
}

/// Stores a file under a lease.
///
/// # Errors
/// If the store cannot be reached.
pub(crate) fn put(
    store: &dyn Store,
    prefix: &str,
    file: usize,
    bytes: &[u8],
    lease: LeaseId,
) -> Result<()> {
    // etcd refuses requests above 1.5 MiB.
    for (piece, part) in bytes.chunks(PIECE_BYTES).enumerate() {
        let txn = Txn::new().put_leased(key(prefix, file, piece), part, lease);
        store.commit(&txn)?;
    }
    Ok(())
}

/// Returns a stored file.
///
/// # Errors
/// If the store cannot be reached, a piece is missing, or `length` is more than [`MOST_BYTES`].
pub(crate) fn get(store: &dyn Store, prefix: &str, file: usize, length: u64) -> Result<Vec<u8>> {
    if length > MOST_BYTES {
        return Err(Error::Answer(format!(
            "a file below {prefix} has {length} bytes, more than {MOST_BYTES}"
        )));
    }
    let mut bytes = Vec::new();
    let mut piece = 0;
    while (bytes.len() as u64) < length {
        let place = key(prefix, file, piece);
        let Some(entry) = store.get(&place)? else {
            return Err(Error::Answer(format!(
                "key {place} is missing from the store"
            )));
        };
        bytes.extend(entry.value);
        piece += 1;
    }
    Ok(bytes)
}

/// Checks that files fit into the bound of one lab's files or one part's results.
///
/// # Errors
/// If they have more than [`MOST_BYTES`] together.
pub(crate) fn check(files: &[File]) -> Result<()> {
    let sizes = files.iter().map(|file| file.bytes);
    match sizes.fold(0_u64, u64::saturating_add) {
        0..=MOST_BYTES => Ok(()),
        bytes => Err(Error::Answer(format!(
            "{} files have {bytes} bytes, more than {MOST_BYTES}",
            files.len()
        ))),
    }
}

/// Deletes all keys below a prefix.
///
/// # Errors
/// If the store cannot be reached.
pub(crate) fn clear(store: &dyn Store, prefix: &str) -> Result<()> {
    for (key, _) in store.list(prefix)?.entries {
        store.delete(&key)?;
    }
    Ok(())
}

/// Writes a file into a folder. `path` must stay below the folder.
///
/// # Errors
/// If the path leaves the folder, or the disk refuses the file.
pub fn write_below(folder: &Path, path: &str, bytes: &[u8]) -> io::Result<()> {
    // Paths come from other machines. `..` or an absolute path would write outside the results.
    let below = Path::new(path)
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if !below || path.is_empty() {
        let error = format!("{path:?} is no file of a folder");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
    }
    let place = folder.join(path);
    if let Some(parent) = place.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::write(place, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Embedded;
    use std::time::Duration;

    #[test]
    fn files_come_back_as_they_were() {
        let store = Embedded::new();
        let lease = store.grant(Duration::from_secs(60)).unwrap().id;
        let large: Vec<u8> = (0..PIECE_BYTES * 2 + 7).map(|n| n as u8).collect();
        put(&store, "x/", 0, &large, lease).unwrap();
        put(&store, "x/", 1, b"", lease).unwrap();
        assert_eq!(get(&store, "x/", 0, large.len() as u64).unwrap(), large);
        assert_eq!(get(&store, "x/", 1, 0).unwrap(), b"");
        assert!(get(&store, "x/", 1, 1).is_err(), "never half a file");
        let error = get(&store, "x/", 0, MOST_BYTES + 1).unwrap_err();
        assert!(error.to_string().contains("more than"), "{error}");
        let file = |bytes| File {
            path: "x".to_owned(),
            bytes,
        };
        assert!(check(&[file(MOST_BYTES - 1), file(1)]).is_ok());
        for more in [2, u64::MAX] {
            assert!(check(&[file(MOST_BYTES - 1), file(more)]).is_err());
        }
        clear(&store, "x/").unwrap();
        assert!(get(&store, "x/", 0, 1).is_err());
    }

    #[test]
    fn nobody_writes_beside_the_folder() {
        let place = tempfile::tempdir().unwrap();
        write_below(place.path(), "flows/a.out", b"1").unwrap();
        assert_eq!(
            std::fs::read(place.path().join("flows/a.out")).unwrap(),
            b"1"
        );
        for path in ["../a", "/tmp/a", "a/../../b", "", "."] {
            assert!(write_below(place.path(), path, b"1").is_err(), "{path}");
        }
    }
}
