//! What programs in nodes see of the host.
//!
//! All see its files, but for the places that are each node's own. Of what lies hidden there they see what they are
//! given: the results, what routing daemons and servers keep, the folders of the scenario and of programs.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use constel_host::enclosure::{Enclosure, NODE_FOLDER, Shown};
use constel_information::{FOLDER, Telling};
use constel_plan::Blueprint;
use constel_runtime::netns::Quarters;
use constel_scenario::model::{Mount, Software};

use crate::error::EngineError;
use crate::information::{make_folder, node_folder};
use crate::nodes::launcher::{
    daemon_folder, daemons_folder, hosts_file, search_path, servers_folder,
};
use crate::routing::daemons::FRR_FOLDERS;
use crate::routing::router::Router;

/// Folders of a lab that its nodes see in part; absolute.
#[derive(Debug, Clone)]
pub(crate) struct Folders {
    /// The lab's runtime folder.
    pub(crate) lab: PathBuf,
    /// The run's results.
    pub(crate) results: PathBuf,
    /// Where the scenario lies.
    pub(crate) scenario: PathBuf,
}

impl Folders {
    /// What a node's programs keep for the results.
    fn kept(&self, node: &str) -> PathBuf {
        self.results.join("nodes").join(node)
    }
}

/// Encloses the lab, and says what its nodes see.
///
/// # Errors
/// When the lab cannot be enclosed or its folders cannot be made, [`EngineError::Unable`] when something that the
/// scenario mounts is not there.
pub(crate) fn make(
    lab: &str,
    blueprint: &Arc<Blueprint>,
    folders: Folders,
) -> Result<(Quarters, Arc<Enclosure>), EngineError> {
    for folder in [daemons_folder(&folders.lab), servers_folder(&folders.lab)] {
        fs::create_dir_all(&folder).map_err(|source| EngineError::Io {
            what: format!("make {}", folder.display()),
            source,
        })?;
    }
    let telling = Telling::new(blueprint);
    let info = telling.as_ref().map(|telling| {
        let seen = [daemons_folder(&folders.lab), servers_folder(&folders.lab)];
        make_folder(&folders.lab, telling, &seen)
    });
    let info = info.transpose()?;
    let scenario = &blueprint.lab.scenario;
    check_mounts(&scenario.mounts, &folders.scenario)?;
    let enclosure = Arc::new(Enclosure::new(lab, shown_to_all(&folders))?);
    let frr = Router::of(scenario)
        .daemons()
        .is_some_and(|daemons| daemons.software == Software::Frr);
    let mounts = scenario.mounts.clone();
    let blueprint = Arc::clone(blueprint);
    let shown_to = move |node: &str| {
        let own = folders.kept(node);
        let mut shown = vec![(own, NODE_FOLDER)];
        if frr {
            let node = blueprint.lab.layout.find(node).map(|node| node.id);
            let place = node.map(|node| daemon_folder(&folders.lab, node));
            let own = |place: PathBuf| FRR_FOLDERS.map(|(name, at)| (place.join(name), at));
            shown.extend(place.into_iter().flat_map(own));
        }
        for (folder, _) in &shown {
            fs::create_dir_all(folder).map_err(|source| {
                constel_host::Error::os(format!("make {}", folder.display()), source)
            })?;
        }
        let told = blueprint.lab.layout.find(node).zip(info.as_ref());
        let told = told.filter(|(node, _)| {
            let telling = telling.as_ref();
            telling.is_some_and(|telling| telling.asked(node.id).is_some())
        });
        let told = told.map(|(node, info)| Shown {
            source: node_folder(info, node.id),
            target: FOLDER.into(),
            read_only: true,
        });
        let writable = |(source, target): (PathBuf, &str)| Shown {
            source,
            target: target.into(),
            read_only: false,
        };
        let mounted = mounts.iter().filter(|mount| {
            let nodes = mount.nodes.as_ref();
            nodes.is_none_or(|nodes| nodes.iter().any(|name| name.as_str() == node))
        });
        let mounted = mounted.map(|mount| Shown {
            source: folders.scenario.join(&mount.host),
            target: PathBuf::from(&mount.at),
            read_only: mount.read_only,
        });
        let writable = shown.into_iter().map(writable);
        Ok(writable.chain(told).chain(mounted).collect())
    };
    let quarters = Quarters {
        enclosure: Arc::clone(&enclosure),
        shown_to: Box::new(shown_to),
    };
    Ok((quarters, enclosure))
}

/// What every node sees, outer folders before those in them.
fn shown_to_all(folders: &Folders) -> Vec<Shown> {
    let hosts = Shown {
        source: hosts_file(&folders.lab),
        target: "/etc/hosts".into(),
        read_only: true,
    };
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
            hosts,
        ])
        .collect();
    shown.sort_by(|a, b| a.target.cmp(&b.target));
    // Of two that show the same the writable one.
    shown.dedup_by(|later, kept| {
        let same = later.target == kept.target;
        kept.read_only &= !same || later.read_only;
        same
    });
    shown
}

/// Removes the folders of nodes that kept nothing.
pub(crate) fn forget_empty(results: &Path) {
    let folder = results.join("nodes");
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        // Of a folder that holds something the kernel refuses it.
        drop(fs::remove_dir(entry.path()));
    }
    drop(fs::remove_dir(folder));
}

/// Refuses what cannot be mounted, all of it at once.
fn check_mounts(mounts: &[Mount], folder: &Path) -> Result<(), EngineError> {
    let wrong = |mount: &Mount| {
        let (source, target) = (folder.join(&mount.host), Path::new(&mount.at));
        let Ok(found) = fs::metadata(&source) else {
            return Some(format!("{} is not there", source.display()));
        };
        let made = constel_host::enclosure::is_own(target);
        match fs::metadata(target) {
            Ok(place) if place.is_dir() != found.is_dir() && !made => Some(format!(
                "{} cannot be seen as {}: one is a folder, the other is none",
                source.display(),
                target.display()
            )),
            Err(_) if !made => Some(format!(
                "{} cannot be seen as {}, which is not there",
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
