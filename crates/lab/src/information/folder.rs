//! The folder of the host in which the nodes' folders lie: a tmpfs of the lab's, which goes with the lab's runtime folder.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use constel_host::enclosure::{Memory, mount_memory};
use constel_information::{FOLDER, OPENSN, Telling, names};
use constel_topology::NodeId;

use crate::error::EngineError;

/// Room for what is put in while the lab runs.
const SPARE_BYTES: u64 = 64 << 20;

/// Room for a node's documents and events: a page each at least, twice while one is replaced.
const NODE_BYTES: u64 = 256 << 10;

/// Where it lies in the lab's runtime folder.
pub(crate) fn root(lab_dir: &Path) -> PathBuf {
    lab_dir.join("info")
}

/// Where files are written before they take their places.
pub(super) fn staging(root: &Path) -> PathBuf {
    root.join("new")
}

/// A node's folder, below the lab's [`make_folder`].
pub(crate) fn node_folder(root: &Path, node: NodeId) -> PathBuf {
    root.join("n").join(node.0.to_string())
}

/// Makes it, with a folder for each node that asks. Some of the host's folders are seen by nodes at the same place, which may be
/// below the one where they see theirs: `shown` are these.
///
/// # Errors
/// When it cannot be mounted or made.
pub(crate) fn make_folder(
    lab_dir: &Path,
    telling: &Telling,
    shown: &[PathBuf],
) -> Result<PathBuf, EngineError> {
    let root = root(lab_dir);
    let user = telling.asking().filter_map(|node| telling.asked(node));
    let user = user.flat_map(|asked| asked.user.values());
    let user: u64 = user.map(|text| 2 * (text.len() as u64 + 4096)).sum();
    let nodes = telling.asking().count() as u64;
    let most_bytes = SPARE_BYTES + nodes * NODE_BYTES + user;
    let wrong = |source| EngineError::Io {
        what: format!("make {}", root.display()),
        source,
    };
    fs::create_dir_all(&root).map_err(wrong)?;
    let memory = Memory {
        bytes: most_bytes,
        files: None,
        programs: false,
    };
    mount_memory(&root, memory)?;
    make_nodes(&root, telling, shown).map_err(wrong)?;
    Ok(root)
}

/// The folders in it.
pub(super) fn make_nodes(root: &Path, telling: &Telling, shown: &[PathBuf]) -> std::io::Result<()> {
    fs::create_dir_all(staging(root))?;
    for node in telling.asking() {
        let folder = node_folder(root, node);
        fs::create_dir_all(folder.join(names::USER))?;
        let mut made = vec![folder.clone(), folder.join(names::USER)];
        if telling.asked(node).is_some_and(|asked| asked.opensn) {
            fs::create_dir_all(folder.join(OPENSN))?;
            made.push(folder.join(OPENSN));
        }
        for folder in made {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
        }
        for within in shown
            .iter()
            .filter_map(|path| path.strip_prefix(FOLDER).ok())
        {
            fs::create_dir_all(folder.join(within))?;
        }
    }
    Ok(())
}
