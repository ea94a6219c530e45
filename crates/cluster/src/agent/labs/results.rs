//! The results of a part: files below its folder, and their way into the store.

use std::fs;
use std::path::Path;

use super::model::File;
use super::pieces;
use crate::store::{LeaseId, Result, Store};

/// Stores the files below a folder under a lease. Returns them, and a failure if they are too large.
///
/// # Errors
/// If the store cannot be reached.
pub(super) fn put_all(
    store: &dyn Store,
    prefix: &str,
    folder: &Path,
    lease: LeaseId,
) -> Result<(Vec<File>, Option<String>)> {
    let (mut files, mut all) = (Vec::new(), 0);
    for path in files_below(folder) {
        let Ok(bytes) = constel_units::files::read(&folder.join(&path), pieces::MOST_BYTES) else {
            continue;
        };
        all += bytes.len() as u64;
        if all > pieces::MOST_BYTES {
            let most = pieces::MOST_BYTES >> 20;
            let text = format!(
                "its results exceed {most} MiB, the most that the store transfers: {path} and all files after it are missing"
            );
            return Ok((files, Some(text)));
        }
        pieces::put(store, prefix, files.len(), &bytes, lease)?;
        files.push(File {
            path,
            bytes: bytes.len() as u64,
        });
    }
    Ok((files, None))
}

/// Returns the plain files below a folder by their relative paths, sorted. Logs of daemons come last: there is one for each
/// node, so if the total is too large, the other files still fit. Returns nothing if there is no folder.
fn files_below(folder: &Path) -> Vec<String> {
    fn look(root: &Path, at: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(at).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let path = entry.path();
            if kind.is_dir() {
                look(root, &path, found);
            } else if kind.is_file()
                && let Some(text) = path.strip_prefix(root).ok().and_then(Path::to_str)
            {
                found.push(text.to_owned());
            }
        }
    }
    let mut found = Vec::new();
    look(folder, folder, &mut found);
    found.sort_by_cached_key(|path| (path.starts_with("daemons/"), path.clone()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_part_left_is_found_below_its_folder() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("flows")).unwrap();
        fs::write(place.path().join("summary.json"), "{}").unwrap();
        fs::write(place.path().join("flows/a.out"), "").unwrap();
        fs::create_dir(place.path().join("daemons")).unwrap();
        fs::write(place.path().join("daemons/a.log"), "").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", place.path().join("link")).unwrap();
        let found = files_below(place.path());
        assert_eq!(found, ["flows/a.out", "summary.json", "daemons/a.log"]);
        assert_eq!(files_below(&place.path().join("nowhere")), [""; 0]);
    }
}
