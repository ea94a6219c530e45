//! The files of the host that programs in nodes see.
//!
//! Programs see the host's files, except for the places that each node has for itself. Containers see the files of
//! their image instead. From the hidden places they see only: the results, the folders of routing daemons and
//! servers, and the folders of the scenario and of programs.

use std::ffi::OsStr;
use std::fs;
use std::iter;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use constel_containers::runtime::container::ContainerSpec;
use constel_containers::runtime::netns::NodeEnvironment;
use constel_host::enclosure::{Enclosure, NODE_FOLDER, Shown};
use constel_plan::information::{FOLDER, NodeInformation, OPENSN, OPENSN_FOLDER};
use constel_plan::{Blueprint, LocalNodes};
use constel_scenario::model::{Mount, Software, StatePlace};

use crate::error::EngineError;
use crate::information::{make_folder, node_folder};
use crate::nodes::images::Images;
use crate::nodes::kept;
use crate::nodes::launcher::{
    daemon_folder, daemons_folder, hosts_file, resolver_file, search_path, servers_folder,
};
use crate::routing::daemons::{BIRD_FOLDER, FRR_FOLDERS};
use crate::routing::router::Router;

/// The folders from which nodes see some files; absolute.
#[derive(Debug, Clone)]
pub(crate) struct Folders {
    /// The lab's runtime folder.
    pub(crate) lab: PathBuf,
    /// The run's results.
    pub(crate) results: PathBuf,
    /// The scenario's folder.
    pub(crate) scenario: PathBuf,
}

impl Folders {
    /// Returns the folder in the results for files of a node's programs.
    fn of_node(&self, node: &str) -> PathBuf {
        self.results.join("nodes").join(node)
    }
}

/// Creates the enclosure of the lab, and determines what its nodes see.
///
/// # Errors
/// When the lab cannot be enclosed or its folders cannot be created; [`EngineError::Unable`] when something that
/// the scenario mounts does not exist.
pub(crate) fn make(
    lab: &str,
    (blueprint, ours): (&Arc<Blueprint>, &LocalNodes),
    folders: Folders,
    images: &Arc<Images>,
) -> Result<(Arc<NodeEnvironment>, Arc<Enclosure>), EngineError> {
    for folder in [daemons_folder(&folders.lab), servers_folder(&folders.lab)] {
        fs::create_dir_all(&folder).map_err(|source| EngineError::Io {
            what: format!("make {}", folder.display()),
            source,
        })?;
    }
    let telling = NodeInformation::new(blueprint, ours);
    let info = telling.as_ref().map(|telling| {
        // The nodes' folders need mount points for these two, which are below the path of the information folder.
        let seen = [daemons_folder(&folders.lab), servers_folder(&folders.lab)];
        make_folder(&folders.lab, telling, &seen)
    });
    let info = info.transpose()?;
    let told = Arc::new(told_to(blueprint, telling, info));
    let scenario = &blueprint.lab.scenario;
    check_mounts(&scenario.mounts, &folders.scenario)?;
    let enclosure = Arc::new(Enclosure::new(lab, shown_to_all(&folders))?);
    let container_of = container_of(blueprint, &folders, images, Arc::clone(&told));
    let daemons = Router::of(scenario).daemons();
    let daemons = daemons.map(|daemons| daemons.software);
    let mounts = scenario.mounts.clone();
    let blueprint = Arc::clone(blueprint);
    // Called once for each node that is created.
    let shown_to = move |node: &str| {
        let own = folders.of_node(node);
        let mut shown = vec![(own, NODE_FOLDER)];
        let node_id = blueprint.lab.layout.find(node).map(|node| node.id);
        let place = node_id.map(|node| daemon_folder(&folders.lab, node));
        match (daemons, place) {
            (Some(Software::Frr), Some(place)) => {
                shown.extend(FRR_FOLDERS.map(|(name, at)| (place.join(name), at)));
            }
            // `birdc` searches the socket of its daemon in this folder.
            (Some(Software::Bird), Some(place)) => shown.push((place, BIRD_FOLDER)),
            (None, _) | (_, None) => {}
        }
        for (folder, _) in &shown {
            make_own(folder)?;
        }
        let writable = |(source, target): (PathBuf, &str)| Shown {
            source,
            target: target.into(),
            read_only: false,
        };
        let mounted = mounted(&mounts, node, &folders);
        let writable = shown.into_iter().map(writable);
        let told = told(node).map(|told| told.folder);
        Ok(writable.chain(told).chain(mounted).collect())
    };
    let quarters = NodeEnvironment {
        enclosure: Arc::clone(&enclosure),
        shown_to: Box::new(shown_to),
        container_of: Box::new(container_of),
    };
    Ok((Arc::new(quarters), enclosure))
}

/// Returns the scenario's `mounts` for a node.
fn mounted<'a>(
    mounts: &'a [Mount],
    node: &'a str,
    folders: &'a Folders,
) -> impl Iterator<Item = Shown> + 'a {
    let mine = mounts.iter().filter(move |mount| {
        let nodes = mount.nodes.as_ref();
        nodes.is_none_or(|nodes| nodes.iter().any(|name| name.as_str() == node))
    });
    mine.map(|mount| Shown {
        source: folders.scenario.join(&mount.host),
        target: PathBuf::from(&mount.at),
        read_only: mount.read_only,
    })
}

/// The information files that a node sees.
struct InformationFiles {
    folder: Shown,
    /// The part of them that OpenSN's images expect at another path; only for containers, because hosts have no
    /// such folder.
    opensn: Option<Shown>,
}

/// Returns a function from node names to the information files that each sees.
fn told_to(
    blueprint: &Arc<Blueprint>,
    telling: Option<NodeInformation>,
    info: Option<PathBuf>,
) -> impl Fn(&str) -> Option<InformationFiles> + Send + Sync + use<> {
    let blueprint = Arc::clone(blueprint);
    move |name| {
        let node = blueprint.lab.layout.find(name)?.id;
        let telling = telling.as_ref()?;
        let asked = telling.asked(node)?;
        let folder = node_folder(info.as_ref()?, node);
        let at = |source: PathBuf, target: &str| Shown {
            source,
            target: target.into(),
            read_only: true,
        };
        Some(InformationFiles {
            opensn: asked.opensn.then(|| at(folder.join(OPENSN), OPENSN_FOLDER)),
            folder: at(folder, FOLDER),
        })
    }
}

/// Returns a function from node names to the specifications of containers. The list `shown` in it has everything
/// that a container sees of the host.
fn container_of<T>(
    blueprint: &Arc<Blueprint>,
    folders: &Folders,
    images: &Arc<Images>,
    told: Arc<T>,
) -> impl Fn(&str) -> constel_host::Result<Option<ContainerSpec>> + use<T>
where
    T: Fn(&str) -> Option<InformationFiles>,
{
    let (blueprint, folders, images) = (blueprint.clone(), folders.clone(), images.clone());
    move |name| {
        let lab = &blueprint.lab;
        let node = lab.layout.find(name).map(|node| node.id.index());
        let software = node.and_then(|node| lab.software.get(node));
        let Some(container) = software.and_then(|software| software.container.as_ref()) else {
            return Ok(None);
        };
        // The node sees neither its logs nor its state: both are Constel's.
        let results = folders.of_node(name);
        let state = results.join("state");
        let state = (container.state == StatePlace::Disk).then_some(state);
        for folder in state.iter().chain([&results]) {
            make_own(folder)?;
        }
        let own = kept::make(&folders.lab, name)?;
        // The program of the container may run as another user, who must be able to write there.
        let user = images.user(container)?;
        chown(&own, Some(user.uid), Some(user.gid)).map_err(|source| {
            constel_host::Error::os(format!("give {} to its user", own.display()), source)
        })?;
        let at = |source: PathBuf, target: &str, read_only| Shown {
            source,
            target: target.into(),
            read_only,
        };
        let mut shown = vec![
            at(hosts_file(&folders.lab), "/etc/hosts", true),
            at(resolver_file(&folders.lab), "/etc/resolv.conf", true),
            at(own, NODE_FOLDER, false),
        ];
        shown.extend(
            told(name)
                .into_iter()
                .flat_map(|told| iter::once(told.folder).chain(told.opensn)),
        );
        shown.extend(mounted(&lab.scenario.mounts, name, &folders));
        let volumes = container.mounts.iter();
        shown.extend(volumes.map(|mount| {
            at(
                folders.scenario.join(&mount.host),
                &mount.at,
                mount.read_only,
            )
        }));
        images.spec(name, container, state, shown).map(Some)
    }
}

fn make_own(folder: &Path) -> constel_host::Result<()> {
    fs::create_dir_all(folder)
        .map_err(|source| constel_host::Error::os(format!("make {}", folder.display()), source))
}

/// Returns the files of the host that every node sees; outer folders come before those in them.
fn shown_to_all(folders: &Folders) -> Vec<Shown> {
    // A bare Debian has no such file; names of nodes are then unknown in nodes without containers.
    let hosts = Shown::instead_of("/etc/hosts", hosts_file(&folders.lab));
    let in_place = |path: PathBuf| Shown::in_place(path, false);
    let path = search_path();
    let programs = std::env::split_paths::<OsStr>(path.as_ref());
    let mut shown: Vec<Shown> = std::env::current_dir()
        .into_iter()
        .chain([folders.scenario.clone(), folders.results.clone()])
        .map(in_place)
        .chain(programs.map(|folder| Shown::in_place(folder, true)))
        .filter(|shown| shown.is_hidden() && shown.source.is_dir())
        .chain([
            in_place(daemons_folder(&folders.lab)),
            in_place(servers_folder(&folders.lab)),
        ])
        .chain(hosts)
        .collect();
    shown.sort_by(|a, b| a.target.cmp(&b.target));
    // If a folder occurs twice, the writable entry counts.
    shown.dedup_by(|later, kept| {
        let same = later.target == kept.target;
        kept.read_only &= !same || later.read_only;
        same
    });
    shown
}

/// Refuses mounts that are not possible, and reports all of them at once.
fn check_mounts(mounts: &[Mount], folder: &Path) -> Result<(), EngineError> {
    let wrong = |mount: &Mount| {
        let (source, target) = (folder.join(&mount.host), Path::new(&mount.at));
        let Ok(found) = fs::metadata(&source) else {
            return Some(format!("{} does not exist", source.display()));
        };
        // Places below these folders are created in the enclosure, so that they need not exist on the host.
        let made = constel_host::enclosure::is_own(target);
        match fs::metadata(target) {
            Ok(place) if place.is_dir() != found.is_dir() && !made => Some(format!(
                "{} cannot be mounted at {}: one is a folder, the other is not",
                source.display(),
                target.display()
            )),
            Err(_) if !made => Some(format!(
                "{} cannot be mounted at {}, which does not exist",
                source.display(),
                target.display()
            )),
            _ => None,
        }
    };
    let wrong: Vec<String> = mounts.iter().filter_map(wrong).collect();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(EngineError::Unable {
        what: wrong.join("\n  "),
        remedy: "correct `mounts`; places below /tmp, /run and /dev/shm need not exist".to_owned(),
    })
}
