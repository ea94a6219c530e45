//! Builds of Dockerfiles by installed builders.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::place::{TempFolder, is_there, run};
use crate::error::Error;

/// An image that was built, as an archive that goes with this.
pub(super) struct Built {
    place: TempFolder,
}

impl Built {
    /// An OCI image layout as tar.
    pub(super) fn archive(&self) -> PathBuf {
        self.place.path().join("image.tar")
    }
}

/// Returns the name of an image that is built from a folder.
pub(super) fn name_of(folder: &Path) -> String {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    constel_scenario::slug(&name)
}

/// Builds an image with the first builder that is installed. The output of the builder goes to standard error.
pub(super) fn build(file: &Path, folder: &Path) -> Result<Built, Error> {
    if !file.is_file() {
        return Err(Error::NoFile(file.display().to_string()));
    }
    let builder = ["buildah", "buildctl"]
        .into_iter()
        .find(|name| is_there(name));
    let Some(builder) = builder else {
        return Err(Error::NoBuilder);
    };
    let built = Built {
        place: TempFolder::make("constel-build")?,
    };
    let archive = built.archive();
    match builder {
        "buildah" => {
            let tag = format!("localhost/constel-build:{}", std::process::id());
            let mut bud = Command::new(builder);
            bud.args(["bud", "--tag", &tag, "--file"])
                .arg(file)
                .arg(folder);
            run(bud)?;
            let mut push = Command::new(builder);
            push.args(["push", &tag]);
            push.arg(format!("oci-archive:{}", archive.display()));
            let pushed = run(push);
            let mut forget = Command::new(builder);
            forget.args(["rmi", &tag]);
            run(forget).and(pushed)?;
        }
        _ => {
            let own = file.parent().filter(|own| !own.as_os_str().is_empty());
            let own = own.unwrap_or(Path::new("."));
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let mut build = Command::new(builder);
            build.args(["build", "--frontend", "dockerfile.v0", "--local"]);
            build.arg(format!("context={}", folder.display()));
            build
                .arg("--local")
                .arg(format!("dockerfile={}", own.display()));
            build.arg("--opt").arg(format!("filename={name}"));
            build
                .arg("--output")
                .arg(format!("type=oci,dest={}", archive.display()));
            run(build)?;
        }
    }
    Ok(built)
}
