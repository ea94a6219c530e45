//! Container images: import, list, show and remove. [`constel_containers::image`] describes their format.

mod dockerfile;
mod place;

use std::ffi::OsStr;
use std::path::Path;

use constel_containers::image::{Config, ImportOptions, Source, Store};
use constel_lab::{ImportProgress, Progress};
use serde::Serialize;

use crate::error::Error;

pub use constel_containers::image::{Image, Imported, Layer, Pruned, Removed, Usage};

/// The images of a folder, of the user's own unless one is named.
#[derive(Debug, Clone)]
pub struct Images {
    store: Store,
}

/// All that a store has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listing {
    /// By name; those without one last.
    pub images: Vec<Image>,
    /// Disk space used.
    pub usage: Usage,
}

/// One image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// Names, origin and layers of the image.
    pub image: Image,
    /// The configuration of the image's programs.
    pub config: Config,
}

impl Images {
    /// Opens the images of a folder. Creates the folder if it does not exist.
    ///
    /// # Errors
    /// [`Error::Image`] if the folder cannot be used.
    pub fn open(folder: Option<&Path>) -> Result<Self, Error> {
        let store = match folder {
            Some(folder) => Store::open(folder)?,
            None => Store::open_default()?,
        };
        Ok(Self { store })
    }

    /// Imports an image from a [`Source`], and gives it a name. Default: the name of its source.
    ///
    /// # Errors
    /// [`Error::Image`].
    pub fn import(
        &self,
        source: &OsStr,
        name: Option<&str>,
        progress: &dyn Progress,
    ) -> Result<Imported, Error> {
        let parsed = Source::of(source).map_err(|fault| {
            constel_containers::image::Error::new(Path::new(source).display().to_string(), fault)
        })?;
        self.bring_in(&parsed, name, progress)
    }

    fn bring_in(
        &self,
        source: &Source,
        name: Option<&str>,
        progress: &dyn Progress,
    ) -> Result<Imported, Error> {
        let options = ImportOptions {
            name: name.map(str::to_owned),
            ..ImportOptions::default()
        };
        let told = ImportProgress::new(progress);
        Ok(self.store.import(source, &options, &told)?)
    }

    /// Builds a Dockerfile with buildah or BuildKit, whichever is installed, and imports its image.
    ///
    /// # Errors
    /// [`Error::NoBuilder`] if neither is installed, [`Error::NotBuilt`] if it fails, [`Error::Image`].
    pub fn build(
        &self,
        file: &Path,
        folder: &Path,
        name: Option<&str>,
        progress: &dyn Progress,
    ) -> Result<Imported, Error> {
        let built = dockerfile::build(file, folder)?;
        let name = name.map_or_else(|| dockerfile::name_of(folder), str::to_owned);
        let source = Source::Archive {
            path: built.archive(),
            image: None,
        };
        self.bring_in(&source, Some(&name), progress)
    }

    /// Returns all images with their disk space.
    ///
    /// # Errors
    /// [`Error::Image`] when the folder cannot be read.
    pub fn list(&self) -> Result<Listing, Error> {
        Ok(Listing {
            images: self.store.list()?,
            usage: self.store.usage()?,
        })
    }

    /// Returns an image by its name or by the first digits of its digest.
    ///
    /// # Errors
    /// [`Error::Image`] if there is no such image.
    pub fn show(&self, name: &str) -> Result<Shown, Error> {
        let image = self.store.find(name)?;
        let config = self.store.config(&image)?;
        Ok(Shown { image, config })
    }

    /// Removes a name. Also removes the image if this was its last name.
    ///
    /// # Errors
    /// [`Error::Image`] if there is no such image, or a lab uses it.
    pub fn remove(&self, name: &str) -> Result<Removed, Error> {
        Ok(self.store.remove(name)?)
    }

    /// Removes unused data.
    ///
    /// # Errors
    /// [`Error::Image`] if an object cannot be removed.
    pub fn prune(&self) -> Result<Pruned, Error> {
        Ok(self.store.prune()?)
    }
}
