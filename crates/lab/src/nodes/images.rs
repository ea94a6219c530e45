//! The images of a lab's nodes: held as long as the lab exists, and the specifications of containers.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

use constel_api::manifest::UsedImage;
use constel_containers::image::{Added, Digest, Held, ImportOptions, Source, Store, User};
use constel_containers::runtime::container::ContainerSpec;
use constel_host::enclosure::Shown;
use constel_host::process::{CapabilitySet, Confinement};
use constel_plan::{Lab, LocalNodes};
use constel_scenario::model::{Container, Health, NamedImage, Seccomp};

use crate::error::EngineError;
use crate::nodes::importing::ImportProgress;
use crate::nodes::launcher::own_folder;
use crate::progress::Progress;

/// The search path of programs in images that define none.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Images that stay in the user's store as long as this value exists.
#[derive(Default)]
pub(crate) struct Images {
    /// The images, by the scenario's names for them.
    held: BTreeMap<String, Held>,
    /// The users of programs, by image and by the scenario's name of the user. They are kept because the look-up
    /// reads files.
    users: BTreeMap<(String, Option<String>), User>,
    /// The store of the images, if there are any.
    store: Option<Store>,
}

impl Images {
    /// Holds every image of this machine's nodes, and checks that each node can be created from its image. Only images
    /// that the scenario names with a `source` are imported.
    ///
    /// # Errors
    /// [`EngineError::Unable`] with everything that is missing: images, programs, users, mounted folders. `folder`
    /// is the folder of the scenario.
    pub(crate) fn hold(
        (lab, ours): (&Lab, &LocalNodes),
        folder: &Path,
        progress: &dyn Progress,
    ) -> Result<Self, EngineError> {
        let mut images = Self::default();
        if ours.containers(lab).next().is_none() {
            return Ok(images);
        }
        let store = Store::open_default().map_err(|error| unable(vec![error.to_string()]))?;
        let mut wrong = Vec::new();
        let mut note = |error: String| {
            if !wrong.contains(&error) {
                wrong.push(error);
            }
        };
        let mut looked: Vec<&Container> = Vec::new();
        for (_, container) in ours.containers(lab) {
            // Most nodes of a lab have the same container, which is checked once.
            if looked.contains(&container) {
                continue;
            }
            looked.push(container);
            if !images.held.contains_key(&container.image) {
                let scenario = &lab.scenario;
                let mut named = scenario.images.iter();
                let named = named.find(|image| image.name.as_str() == container.image);
                let found = match named {
                    Some(image) => {
                        named_image(&store, scenario.name.as_str(), image, folder, progress)
                    }
                    None => store.hold(&container.image).map_err(|e| e.to_string()),
                };
                match found {
                    Ok(image) => drop(images.held.insert(container.image.clone(), image)),
                    Err(error) => {
                        note(error);
                        continue;
                    }
                }
            }
            let image = &images.held[&container.image];
            if argv(container, image).is_empty() {
                let image = &container.image;
                note(format!(
                    "the image {image} names no program: give `command`"
                ));
            }
            let health = container.health.as_ref();
            if health.is_some_and(|health| health_check(health, image).is_none()) {
                let image = &container.image;
                note(format!(
                    "the image {image} has no health check: give `health.command`"
                ));
            }
            // The user is looked up in the image's files once, and not at each start.
            match image.user(container.user.as_deref()) {
                Ok(user) => drop(images.users.insert(key(container), user)),
                Err(error) => note(error.to_string()),
            }
            for mount in &container.mounts {
                // The paths of mounts are relative to the scenario's folder.
                let source = folder.join(&mount.host);
                if !source.exists() {
                    note(format!(
                        "{} does not exist and cannot be mounted",
                        source.display()
                    ));
                }
            }
        }
        // All errors are reported together.
        match wrong.is_empty() {
            true => {
                images.store = Some(store);
                Ok(images)
            }
            false => Err(unable(wrong)),
        }
    }

    /// Returns a text that identifies this image with the program that is added to it.
    ///
    /// # Errors
    /// When the image is not held.
    pub(crate) fn fingerprint(&self, image: &str, added: &[u8]) -> Result<String, EngineError> {
        let held = self.held(image)?;
        let (id, added) = (held.image().id.hex(), Digest::of(added).hex());
        Ok(format!("{}-{}", &id[..32], &added[..16]))
    }

    /// Returns an image as a file that container engines can load, under this name, with one more program in it.
    ///
    /// # Errors
    /// When it is not held, or cannot be written.
    pub(crate) fn save(
        &self,
        image: &str,
        name: &str,
        (path, program): (&str, &[u8]),
        progress: &dyn Progress,
    ) -> Result<File, EngineError> {
        let held = self.held(image)?;
        let store = self.store.as_ref().ok_or_else(|| not_held(image))?;
        let told = ImportProgress::new(progress);
        let saved = store.save(held, name, Added { path, program }, &told);
        saved.map_err(|error| unable(vec![error.to_string()]))
    }

    fn held(&self, image: &str) -> Result<&Held, EngineError> {
        self.held.get(image).ok_or_else(|| not_held(image))
    }

    /// Returns the specification of a node's container, with the folders `shown` of the host.
    ///
    /// # Errors
    /// When the container was not checked by `hold`.
    pub(crate) fn spec(
        &self,
        node: &str,
        container: &Container,
        state: Option<PathBuf>,
        shown: Vec<Shown>,
    ) -> constel_host::Result<ContainerSpec> {
        let (image, user) = self.of(container)?;
        let config = image.config();
        Ok(ContainerSpec {
            layers: image.lower_dirs().to_vec(),
            state,
            files_bytes: container.files_bytes,
            shown,
            argv: argv(container, image),
            env: environment(node, container, image, user),
            workdir: container.workdir.as_ref().unwrap_or(&config.workdir).into(),
            confinement: confinement(container, user),
        })
    }

    /// Returns the user of a container's programs.
    ///
    /// # Errors
    /// As [`Images::spec`].
    pub(crate) fn user(&self, container: &Container) -> constel_host::Result<&User> {
        Ok(self.of(container)?.1)
    }

    /// Returns the signal that ends a container's program: the scenario's, or else the image's.
    ///
    /// # Errors
    /// As [`Images::spec`].
    pub(crate) fn stop_signal(&self, container: &Container) -> constel_host::Result<i32> {
        let image = self.of(container)?.0.config().stop_signal;
        Ok(container.stop_signal.unwrap_or(image))
    }

    /// Returns the command that checks the health of a container's program; `None` without checks.
    ///
    /// # Errors
    /// As [`Images::spec`].
    pub(crate) fn health_check<'a>(
        &'a self,
        container: &'a Container,
    ) -> constel_host::Result<Option<&'a [String]>> {
        let image = self.of(container)?.0;
        let Some(health) = &container.health else {
            return Ok(None);
        };
        Ok(health_check(health, image))
    }

    /// Returns the images of this machine's nodes, by the scenario's names for them.
    pub(crate) fn used(&self, lab: &Lab, ours: &LocalNodes) -> Vec<UsedImage> {
        let used = self.held.iter().map(|(name, held)| {
            let image = held.image();
            let of = ours.containers(lab).filter(|(_, c)| c.image == *name);
            UsedImage {
                name: name.clone(),
                id: image.id.to_string(),
                manifest: image.manifest.map(|digest| digest.to_string()),
                source: image.source.clone(),
                nodes: of.count(),
            }
        });
        used.collect()
    }

    /// Returns the digests of the configurations of the held images, by the scenario's names for them.
    pub(crate) fn ids(&self) -> BTreeMap<String, String> {
        let ids = self.held.iter();
        ids.map(|(name, held)| (name.clone(), held.image().id.to_string()))
            .collect()
    }

    fn of(&self, container: &Container) -> constel_host::Result<(&Held, &User)> {
        let image = self.held.get(&container.image);
        image.zip(self.users.get(&key(container))).ok_or_else(|| {
            let image = &container.image;
            constel_host::Error::Invalid(format!("the image {image} was not looked at before"))
        })
    }
}

fn not_held(image: &str) -> EngineError {
    unable(vec![format!("the image {image} was not looked at before")])
}

/// Holds an image that has a name in the scenario: by its digest, or else imported from its source.
fn named_image(
    store: &Store,
    scenario: &str,
    image: &NamedImage,
    folder: &Path,
    progress: &dyn Progress,
) -> Result<Held, String> {
    let of = |error: constel_containers::image::Error| format!("`images.{}`: {error}", image.name);
    let wanted = image.digest.as_ref();
    let is_wanted =
        |digest: &dyn std::fmt::Display| wanted.is_some_and(|w| *w == digest.to_string());
    // The digest is that of the configuration or that of the manifest; both identify the image.
    if wanted.is_some() {
        let all = store.list().map_err(of)?;
        let found = all.iter().find(|found| {
            is_wanted(&found.id) || found.manifest.as_ref().is_some_and(|m| is_wanted(m))
        });
        if let Some(found) = found {
            return store.hold(&found.id.to_string()).map_err(of);
        }
    }
    let Some(source) = &image.source else {
        return Err(format!(
            "`images.{}`: no image of the digest {} is there, and no `source` is given",
            image.name,
            wanted.map_or("-", String::as_str)
        ));
    };
    let parsed = source.parse::<Source>();
    let parsed =
        parsed.map_err(|fault| of(constel_containers::image::Error::new(source, fault)))?;
    // The prefix keeps the images of different scenarios apart.
    let name = format!("lab/{scenario}/{}", image.name);
    progress.say(&format!("{name} comes from {source}"));
    let options = ImportOptions {
        name: Some(name.clone()),
        ..ImportOptions::default()
    };
    let told = ImportProgress::new(progress);
    let came = store.import(&parsed.beneath(folder), &options, &told);
    let came = came.map_err(of)?.image;
    let manifest = came.manifest.as_ref().is_some_and(|m| is_wanted(m));
    match wanted {
        Some(wanted) if !is_wanted(&came.id) && !manifest => Err(format!(
            "`images.{}`: {source} is the image {}, and {wanted} is wanted",
            image.name, came.id
        )),
        _ => store.hold(&name).map_err(of),
    }
}

/// Returns the command of the health check, from the scenario or else from the image.
fn health_check<'a>(health: &'a Health, image: &'a Held) -> Option<&'a [String]> {
    let images = image.config().healthcheck.as_ref();
    let images = images.map(|check| check.test.as_slice());
    health.command.as_deref().or(images)
}

fn key(container: &Container) -> (String, Option<String>) {
    (container.image.clone(), container.user.clone())
}

fn unable(wrong: Vec<String>) -> EngineError {
    EngineError::Unable {
        what: wrong.join("\n  "),
        remedy:
            "`constel image list` names the images there are, `constel image import` brings others"
                .to_owned(),
    }
}

/// Returns the program and its arguments: the scenario's, or else the image's.
fn argv(container: &Container, image: &Held) -> Vec<String> {
    let config = image.config();
    let entrypoint = container.entrypoint.as_ref().unwrap_or(&config.entrypoint);
    let arguments = match (&container.command, &container.entrypoint) {
        (Some(command), _) => command.as_slice(),
        // The image's arguments belong to another program.
        (None, Some(_)) => &[],
        (None, None) => &config.cmd,
    };
    entrypoint.iter().chain(arguments).cloned().collect()
}

fn environment(
    node: &str,
    container: &Container,
    image: &Held,
    user: &User,
) -> Vec<(OsString, OsString)> {
    // Later entries override earlier ones: defaults, the image's variables, the scenario's variables.
    let mut all: BTreeMap<OsString, OsString> = BTreeMap::new();
    let text = |(name, value): (&str, &str)| (name.into(), value.into());
    all.extend(
        [
            ("PATH", SEARCH_PATH),
            ("HOSTNAME", node),
            ("HOME", &user.home),
        ]
        .map(text),
    );
    all.extend([own_folder()]);
    let said = image.config().env.iter().chain(&container.env);
    all.extend(said.map(|(name, value)| text((name.as_str(), value.as_str()))));
    all.into_iter().collect()
}

fn confinement(container: &Container, user: &User) -> Confinement {
    let default = CapabilitySet::default_of_containers().0;
    let added = container.capabilities_added;
    // The first group is kept in the list: files that it may not read must not become readable by leaving it.
    let mut groups = vec![user.gid];
    groups.extend(user.groups.iter().filter(|group| **group != user.gid));
    Confinement {
        uid: user.uid,
        gid: user.gid,
        groups,
        capabilities: CapabilitySet(default & !container.capabilities_dropped | added),
        // Only added capabilities are ambient, so that a program of another user than root gets them too.
        ambient: CapabilitySet(added),
        filtered: container.seccomp == Seccomp::Default,
        no_new_privileges: container.no_new_privileges,
        deaf: !container.kernel_events,
    }
}
