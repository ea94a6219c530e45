//! The start of one daemon: its folder, its files, its arguments.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use constel_host::process::Child;
use constel_routing::daemons::{
    Program, Software, ZAPI_SOCKET, bird_arguments, frr_arguments, programs,
};
use constel_topology::NodeId;

use crate::error::EngineError;
use crate::nodes::launcher::{Launcher, daemon_folder};

/// Folders whose paths are compiled into FRR's daemons: for persistent state, and for messages before the log file
/// is known. A node has its own folders in their place. The first is its daemons' folder itself, in which `vtysh`
/// finds their sockets.
pub(crate) const FRR_FOLDERS: [(&str, &str); 2] = [("", "/run/frr"), ("tmp", "/var/tmp")];

/// The folder in which `birdc` searches its daemon's socket. A node has its daemon's folder there.
pub(crate) const BIRD_FOLDER: &str = "/run/bird";

/// One daemon of one node, by its index among the node's programs.
pub(crate) type Key = (NodeId, usize);

/// The daemons of a lab before they run.
pub(crate) struct Crew {
    pub(crate) launcher: Arc<Launcher>,
    pub(crate) programs: Vec<Program>,
    software: Software,
    logs: PathBuf,
    /// Whether daemons receive events from their kernels.
    kernel_events: bool,
    /// The user and group that must own the folders of FRR's daemons.
    owner: Option<(u32, u32)>,
}

impl Crew {
    /// Creates the folder of the logs.
    ///
    /// # Errors
    /// When it cannot be created, or FRR is installed without its user.
    pub(crate) fn new(
        launcher: &Arc<Launcher>,
        spec: &constel_routing::daemons::Spec,
        kernel_events: bool,
        logs: PathBuf,
    ) -> Result<Self, EngineError> {
        make(&logs)?;
        let owner = match spec.software {
            Software::Bird => None,
            Software::Frr => Some(frr_user()?),
        };
        Ok(Self {
            launcher: Arc::clone(launcher),
            programs: programs(spec),
            software: spec.software,
            logs,
            kernel_events,
            owner,
        })
    }

    /// Returns a node's folder in the lab's runtime folder.
    pub(crate) fn folder(&self, node: NodeId) -> PathBuf {
        daemon_folder(&self.launcher.lab_dir, node)
    }

    /// Writes the configuration files of a node's programs, given by program names. Returns the programs' indices.
    pub(crate) fn write(
        &self,
        node: NodeId,
        files: &[(&str, String)],
    ) -> Result<Vec<usize>, EngineError> {
        let dir = self.folder(node);
        make(&dir)?;
        let name = &self.launcher.kernels.blueprint.lab.layout.node(node).name;
        link_by_name(&self.launcher.lab_dir, node, name)?;
        // FRR's daemons drop their privileges to this user and then create their sockets in the folder.
        if let Some((user, group)) = self.owner {
            let own = FRR_FOLDERS.map(|(name, _)| dir.join(name));
            for folder in &own {
                make(folder)?;
            }
            for folder in std::iter::once(&dir).chain(&own) {
                chown(folder, Some(user), Some(group)).map_err(|source| EngineError::Io {
                    what: format!("give {} to the user frr", folder.display()),
                    source,
                })?;
            }
        }
        let mut places = Vec::with_capacity(files.len());
        for (name, text) in files {
            places.extend(self.programs.iter().position(|p| p.name == *name));
            let file = dir.join(format!("{name}.conf"));
            fs::write(&file, text).map_err(|source| EngineError::Io {
                what: format!("write {}", file.display()),
                source,
            })?;
        }
        Ok(places)
    }

    /// Starts one daemon, whose configuration must be written.
    pub(crate) fn start(&self, (node, place): Key) -> Result<Child, EngineError> {
        let program = &self.programs[place];
        let dir = self.folder(node);
        let file = dir.join(format!("{}.conf", program.name));
        let name = &self.launcher.kernels.blueprint.lab.layout.node(node).name;
        let (arguments, log) = match self.software {
            Software::Bird => (
                bird_arguments(&file, &dir.join("bird.ctl")),
                format!("{name}.log"),
            ),
            Software::Frr => (
                frr_arguments(program, &file, &dir),
                format!("{name}.{}.log", program.name),
            ),
        };
        if program.first {
            // The socket of a killed daemon would look like that of the new one.
            self.forget_socket(node)?;
        }
        let mut argv = vec![program.name.to_owned()];
        argv.extend(
            arguments
                .into_iter()
                .map(|word| word.to_string_lossy().into_owned()),
        );
        let log = self.logs.join(log);
        self.launcher
            .start_daemon(node, &argv, &log, self.kernel_events)
    }

    fn forget_socket(&self, node: NodeId) -> Result<(), EngineError> {
        let socket = self.folder(node).join(ZAPI_SOCKET);
        match fs::remove_file(&socket) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(EngineError::Io {
                what: format!("remove {}", socket.display()),
                source,
            }),
            _ => Ok(()),
        }
    }

    /// Returns whether a daemon can be started: the daemon that it needs must listen. FRR's daemons that do not
    /// find zebra retry only after 10 s.
    pub(crate) fn ready(&self, (node, place): Key) -> bool {
        // Only programs that depend on the first one have to wait.
        let waits = self.programs.iter().any(|p| p.first) && !self.programs[place].first;
        !waits || self.folder(node).join(ZAPI_SOCKET).exists()
    }
}

/// Creates `nodes/NAME`, a link to a node's folder for users.
fn link_by_name(lab_dir: &Path, node: NodeId, name: &str) -> Result<(), EngineError> {
    let names = lab_dir.join("nodes");
    make(&names)?;
    let link = names.join(name);
    let to = daemon_folder(Path::new(".."), node);
    symlink(&to, &link).map_err(|source| EngineError::Io {
        what: format!("make {}", link.display()),
        source,
    })
}

/// Returns the user and group numbers of `frr`.
fn frr_user() -> Result<(u32, u32), EngineError> {
    let users = fs::read_to_string("/etc/passwd").map_err(|source| EngineError::Io {
        what: "read /etc/passwd".to_owned(),
        source,
    })?;
    let mut lines = users.lines().filter_map(|line| line.strip_prefix("frr:"));
    let numbers = lines.next().and_then(|line| {
        // The fields of /etc/passwd are name, password, user, group, ...
        let mut fields = line.split(':').skip(1);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    });
    let numbers = numbers.ok_or_else(|| EngineError::Unable {
        what: "FRR's daemons run as the user frr, which this host does not have".to_owned(),
        remedy: "install: apt-get install frr".to_owned(),
    })?;
    // Each node's own folders are mounted over these two, which therefore must exist.
    let missing = FRR_FOLDERS.iter().find(|(_, at)| !Path::new(at).is_dir());
    if let Some((_, at)) = missing {
        return Err(EngineError::Unable {
            what: format!("FRR's daemons need the folder {at}, which this host does not have"),
            remedy: format!("mkdir {at} (nothing is written there: each node gets its own)"),
        });
    }
    Ok(numbers)
}

pub(crate) fn make(dir: &Path) -> Result<(), EngineError> {
    fs::create_dir_all(dir).map_err(|source| EngineError::Io {
        what: format!("make {}", dir.display()),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_host::claim::{LabName, RuntimeDir};
    use std::os::unix::net::SocketAddr;

    #[test]
    fn every_socket_of_the_longest_names_can_be_bound() {
        let lab: LabName = "l".repeat(31).parse().unwrap();
        // More nodes than ports can be numbered.
        let dir = daemon_folder(&RuntimeDir::default().lab_dir(&lab), NodeId(1 << 24));
        for socket in ["bird.ctl", ZAPI_SOCKET, "bfdd.sock", "ospf6d.vty"] {
            let path = dir.join(socket);
            assert!(
                SocketAddr::from_pathname(&path).is_ok(),
                "{}",
                path.display()
            );
        }
    }
}
