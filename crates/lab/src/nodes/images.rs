//! The images of a lab's nodes: held as long as it lives, and what a container is made of.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use constel_host::enclosure::Shown;
use constel_host::process::{CapabilitySet, Confinement};
use constel_image::{Fault, Held, ImportOptions, Recipe, Source, Store, User};
use constel_plan::Lab;
use constel_runtime::container::ContainerSpec;
use constel_scenario::model::{Container, Seccomp};

use crate::error::EngineError;
use crate::nodes::importing::ImportProgress;
use crate::nodes::launcher::own_folder;
use crate::progress::Progress;

/// Where programs are looked for in images that do not say.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Images that stay in the user's store while this is kept.
#[derive(Default)]
pub(crate) struct Images {
    /// By the names that the scenario has for them.
    held: BTreeMap<String, Held>,
    /// Whom programs run as, by image and the scenario's word: looking it up reads files.
    users: BTreeMap<(String, Option<String>), User>,
}

impl Images {
    /// Holds every image that the lab's nodes are made of, and checks that each node can be made of its own. Of those that
    /// are not there `constel/RECIPE` are assembled from the packages of this host; nothing else is fetched or made.
    ///
    /// # Errors
    /// [`EngineError::Unable`] with all that is not there: images, programs, users, what is mounted. `folder` is where the
    /// scenario lies.
    pub(crate) fn hold(
        lab: &Lab,
        folder: &Path,
        progress: &dyn Progress,
    ) -> Result<Self, EngineError> {
        let mut images = Self::default();
        if lab.containers().next().is_none() {
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
        for (_, container) in lab.containers() {
            // Most nodes of a lab are alike.
            if looked.contains(&container) {
                continue;
            }
            looked.push(container);
            if !images.held.contains_key(&container.image) {
                match hold(&store, &container.image, progress) {
                    Ok(image) => drop(images.held.insert(container.image.clone(), image)),
                    Err(error) => {
                        note(error.to_string());
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
            match image.user(container.user.as_deref()) {
                Ok(user) => drop(images.users.insert(key(container), user)),
                Err(error) => note(error.to_string()),
            }
            for mount in &container.mounts {
                let source = folder.join(&mount.host);
                if !source.exists() {
                    note(format!(
                        "{} is not there, and is to be mounted",
                        source.display()
                    ));
                }
            }
        }
        match wrong.is_empty() {
            true => Ok(images),
            false => Err(unable(wrong)),
        }
    }

    /// What a node's container is made of, whose user it is, and `shown` of the host.
    ///
    /// # Errors
    /// When the container is none of those that were looked at.
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
            shown,
            argv: argv(container, image),
            env: environment(node, container, image, user),
            workdir: container.workdir.as_ref().unwrap_or(&config.workdir).into(),
            confinement: confinement(container, user),
        })
    }

    /// Whom a container's programs run as.
    ///
    /// # Errors
    /// As [`Images::spec`].
    pub(crate) fn user(&self, container: &Container) -> constel_host::Result<&User> {
        Ok(self.of(container)?.1)
    }

    fn of(&self, container: &Container) -> constel_host::Result<(&Held, &User)> {
        let image = self.held.get(&container.image);
        image.zip(self.users.get(&key(container))).ok_or_else(|| {
            let image = &container.image;
            constel_host::Error::Invalid(format!("the image {image} was not looked at before"))
        })
    }
}

/// Holds an image, which is assembled before if it is one of ours that is not there.
fn hold(store: &Store, name: &str, progress: &dyn Progress) -> Result<Held, constel_image::Error> {
    let missing = match store.hold(name) {
        Err(error) if matches!(error.fault(), Fault::NoImage { .. }) => error,
        other => return other,
    };
    let Some(recipe) = Recipe::of_image(name) else {
        return Err(missing);
    };
    progress.say(&format!(
        "{name} is not there yet: it is assembled from packages of this host"
    ));
    let options = ImportOptions {
        name: Some(name.to_owned()),
        ..ImportOptions::default()
    };
    let told = ImportProgress::new(progress);
    store.import(&Source::Packages(recipe), &options, &told)?;
    store.hold(name)
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

/// The program and its arguments: what the scenario says goes before what the image says.
fn argv(container: &Container, image: &Held) -> Vec<String> {
    let config = image.config();
    let entrypoint = container.entrypoint.as_ref().unwrap_or(&config.entrypoint);
    let arguments = match (&container.command, &container.entrypoint) {
        (Some(command), _) => command.as_slice(),
        // They are another program's.
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
    // Files that the first group may not read are not to be had by leaving it.
    let mut groups = vec![user.gid];
    groups.extend(user.groups.iter().filter(|group| **group != user.gid));
    Confinement {
        uid: user.uid,
        gid: user.gid,
        groups,
        capabilities: CapabilitySet(default & !container.capabilities_dropped | added),
        ambient: CapabilitySet(added),
        filtered: container.seccomp == Seccomp::Default,
        no_new_privileges: container.no_new_privileges,
    }
}
