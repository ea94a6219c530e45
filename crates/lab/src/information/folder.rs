//! The folder of the host with the nodes' folders: a tmpfs of the lab, which is removed with the lab's runtime
//! folder.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use constel_host::enclosure::{Memory, mount_memory};
use constel_plan::information::{FOLDER, NodeInformation, OPENSN, names};
use constel_topology::NodeId;

use crate::error::EngineError;

/// The space for files that are added while the lab runs.
const SPARE_BYTES: u64 = 64 << 20;

/// The space for a node's documents and events: at least a page for each, twice during a replacement.
const NODE_BYTES: u64 = 256 << 10;

/// Returns its path in the lab's runtime folder.
pub(crate) fn root(lab_dir: &Path) -> PathBuf {
    lab_dir.join("info")
}

/// Returns the folder of files that are being written.
pub(super) fn staging(root: &Path) -> PathBuf {
    root.join("new")
}

/// Returns a node's folder in the folder of [`make_folder`].
pub(crate) fn node_folder(root: &Path, node: NodeId) -> PathBuf {
    root.join("n").join(node.0.to_string())
}

/// Creates the folder, with a folder for each node that receives information. Nodes see some of the host's folders
/// at their own path, which may be below the path of this folder; `shown` lists them.
///
/// # Errors
/// When it cannot be mounted or created.
pub(crate) fn make_folder(
    lab_dir: &Path,
    telling: &NodeInformation,
    shown: &[PathBuf],
) -> Result<PathBuf, EngineError> {
    let root = root(lab_dir);
    let user = telling.asking().filter_map(|node| telling.asked(node));
    let user = user.flat_map(|asked| asked.user.values());
    // Each file of the user counts twice, because it exists twice while it is replaced.
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

/// Creates the folders in it.
pub(super) fn make_nodes(
    root: &Path,
    telling: &NodeInformation,
    shown: &[PathBuf],
) -> std::io::Result<()> {
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
        // A mount point inside the node's folder must exist before the folder is mounted read-only in the node.
        for within in shown
            .iter()
            .filter_map(|path| path.strip_prefix(FOLDER).ok())
        {
            fs::create_dir_all(folder.join(within))?;
        }
    }
    Ok(())
}
