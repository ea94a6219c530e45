//! The installed packages, as recorded by dpkg.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::image::error::Fault;

/// Installed packages of a system with a given root folder.
pub(super) struct Packages {
    root: PathBuf,
    versions: BTreeMap<String, String>,
}

impl Packages {
    /// Reads the record of installed packages.
    ///
    /// # Errors
    /// [`Fault::NoPackages`] if the system has no record.
    pub(super) fn of(root: &Path) -> Result<Self, Fault> {
        let status = root.join("var/lib/dpkg/status");
        let text = match fs::read(&status) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Fault::NoPackages);
            }
            Err(error) => return Err(Fault::io(format!("read {}", status.display()))(error)),
        };
        let mut versions = BTreeMap::new();
        for paragraph in text.split("\n\n") {
            let field = |name: &str| {
                let mut lines = paragraph.lines();
                lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
            };
            if let (Some(package), Some(status), Some(version)) =
                (field("Package"), field("Status"), field("Version"))
                && status.ends_with(" installed")
            {
                versions.insert(package.to_owned(), version.to_owned());
            }
        }
        Ok(Self {
            root: root.to_owned(),
            versions,
        })
    }

    /// Returns the version of a package; `None` if it is not installed.
    pub(super) fn version(&self, package: &str) -> Option<&str> {
        self.versions.get(package).map(String::as_str)
    }

    /// Returns the paths of an installed package's files, absolute, as the package names them.
    ///
    /// # Errors
    /// If the record cannot be read.
    pub(super) fn files(&self, package: &str) -> Result<Vec<String>, Fault> {
        let lists = self.root.join("var/lib/dpkg/info");
        let reading = || Fault::io(format!("read {}", lists.display()));
        let mut files = Vec::new();
        // The list of a multi-arch package has the architecture in its name.
        let names = [
            format!("{package}.list"),
            format!("{package}:{}.list", debian()),
        ];
        for name in names {
            match fs::read_to_string(lists.join(name)) {
                Ok(text) => files.extend(text.lines().map(str::to_owned)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(reading()(error)),
            }
        }
        Ok(files)
    }

    /// Returns the packages that own these files, with their versions, and the files that no package owns. Files are named as
    /// in images: without a leading `/`, in `usr`.
    ///
    /// # Errors
    /// If the record cannot be read.
    pub(super) fn owners(
        &self,
        files: &BTreeSet<String>,
    ) -> Result<(BTreeMap<String, String>, BTreeSet<String>), Fault> {
        let (mut owners, mut left) = (BTreeMap::new(), files.clone());
        let lists = self.root.join("var/lib/dpkg/info");
        let reading = || Fault::io(format!("read {}", lists.display()));
        for entry in fs::read_dir(&lists).map_err(reading())? {
            let path = entry.map_err(reading())?.path();
            if path.extension().is_none_or(|extension| extension != "list") {
                continue;
            }
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let package = stem.split(':').next().unwrap_or_default();
            let Some(version) = self.version(package) else {
                continue;
            };
            let text = fs::read_to_string(&path).map_err(reading())?;
            for name in text.lines().map(in_image) {
                if files.contains(&name) {
                    left.remove(&name);
                    owners.insert(package.to_owned(), version.to_owned());
                }
            }
        }
        Ok((owners, left))
    }
}

/// Returns the path in the image of a path of the host: without a leading `/`, and with `bin`, `sbin` and `lib` below `usr`,
/// whether or not the host has them there.
pub(super) fn in_image(path: &str) -> String {
    let path = path.trim_start_matches('/');
    let merged = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];
    let first = path.split('/').next().unwrap_or_default();
    match merged.contains(&first) {
        true => format!("usr/{path}"),
        false => path.to_owned(),
    }
}

/// Returns Debian's name of this machine's architecture.
pub(super) fn debian() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "i386",
        "arm" => "armhf",
        "powerpc64" => "ppc64el",
        other => other,
    }
}

/// Returns the name of the folders of this machine's libraries.
pub(super) fn triplet() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "x86_64-linux-gnu",
        "aarch64" => "aarch64-linux-gnu",
        "x86" => "i386-linux-gnu",
        "arm" => "arm-linux-gnueabihf",
        "riscv64" => "riscv64-linux-gnu",
        "powerpc64" => "powerpc64le-linux-gnu",
        _ => "linux-gnu",
    }
}
