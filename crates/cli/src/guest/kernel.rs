//! The places of the guest's kernel.

use std::path::{Path, PathBuf};

use crate::guest::Error;

/// The variable that names a kernel.
const NAMED: &str = "CONSTEL_KERNEL";

/// Returns the path of the kernel: the one named by `CONSTEL_KERNEL`, or beside this program, or of the package.
///
/// # Errors
/// [`Error::NoKernel`] with all places where none is.
pub(crate) fn find() -> Result<PathBuf, Error> {
    if let Some(named) = std::env::var_os(NAMED) {
        return first_of(vec![named.into()]);
    }
    let own = std::env::current_exe().and_then(std::fs::canonicalize);
    first_of(places(own.ok().as_deref()))
}

/// A program in `target/PROFILE/` has it in `target/virtual/`, an installed one in `../lib/constel/`.
fn places(own: Option<&Path>) -> Vec<PathBuf> {
    let above = own.and_then(Path::parent).and_then(Path::parent);
    let beside = above
        .into_iter()
        .flat_map(|above| ["virtual/linux", "lib/constel/linux"].map(|place| above.join(place)));
    beside
        .chain([PathBuf::from("/usr/lib/constel/linux")])
        .collect()
}

fn first_of(places: Vec<PathBuf>) -> Result<PathBuf, Error> {
    let found = places.iter().find(|place| place.is_file()).cloned();
    found.ok_or(Error::NoKernel(places))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_looked_for_beside_the_program_and_in_the_package() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("target/ci/constel");
        let places = places(Some(&own));
        let kernel = dir.path().join("target/virtual/linux");
        assert_eq!(places[0], kernel);
        assert_eq!(places.last().unwrap(), Path::new("/usr/lib/constel/linux"));
        let missing = first_of(places[..2].to_vec()).unwrap_err().to_string();
        assert!(
            missing.contains("virtual/linux or ") && missing.contains("make virtual"),
            "{missing}"
        );
        std::fs::create_dir_all(kernel.parent().unwrap()).unwrap();
        std::fs::write(&kernel, "").unwrap();
        assert_eq!(first_of(places).unwrap(), kernel);
    }
}
