//! The start of programs in nodes: namespaces, marks, mounts and search path in one place.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use constel_containers::runtime::Program;
use constel_host::cgroup::LabCgroup;
use constel_host::enclosure::NODE_FOLDER;
use constel_host::process::{Child, find_command};
use constel_topology::NodeId;

use crate::error::EngineError;
use crate::nodes::cgroups::Cgroups;
use crate::nodes::images::Images;
use crate::nodes::kernels::Kernels;

/// The folders of daemons, which are not in every user's `PATH`.
const SYSTEM_FOLDERS: &str =
    "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin:/usr/lib/frr";

/// Returns the search path for programs in nodes: the folder of this program (with `leotp` and others), then the
/// caller's path, then the system's folders.
pub fn search_path() -> OsString {
    let own = constel_host::sealed::own_program().unwrap_or_default();
    let own = own.parent().unwrap_or(Path::new("")).as_os_str().to_owned();
    let callers = std::env::var_os("PATH").unwrap_or_default();
    let mut path = own;
    if !path.is_empty() && !callers.is_empty() {
        path.push(":");
    }
    path.push(callers);
    if !path.is_empty() {
        path.push(":");
    }
    path.push(SYSTEM_FOLDERS);
    path
}

/// Returns the path of the nodes' `/etc/hosts` in a lab's runtime folder.
pub(crate) fn hosts_file(lab_dir: &Path) -> PathBuf {
    lab_dir.join("hosts")
}

/// Returns the path of the containers' `/etc/resolv.conf` in a lab's runtime folder.
pub(crate) fn resolver_file(lab_dir: &Path) -> PathBuf {
    lab_dir.join("resolv.conf")
}

/// Returns the path of the list of the nodes' namespaces in a lab's runtime folder: a JSON object from node name to
/// path, as `/proc/<engine>/fd/<n>`.
pub(crate) fn namespaces_file(lab_dir: &Path) -> PathBuf {
    lab_dir.join("netns.json")
}

/// Returns the folder of the routing daemons' run-time files, one folder for each node.
pub(crate) fn daemons_folder(lab_dir: &Path) -> PathBuf {
    lab_dir.join("n")
}

/// Returns a node's folder in it, named by its number: daemons bind sockets there, and the kernel limits the path
/// of a socket to 107 bytes, which the names of a lab and a satellite together would exceed.
pub(crate) fn daemon_folder(lab_dir: &Path, node: NodeId) -> PathBuf {
    daemons_folder(lab_dir).join(node.0.to_string())
}

/// Returns the folder of the data of flows' servers, one folder for each.
pub(crate) fn servers_folder(lab_dir: &Path) -> PathBuf {
    lab_dir.join("flows")
}

/// The starter of programs in the nodes of one lab.
pub(crate) struct Launcher {
    pub(crate) lab: String,
    pub(crate) lab_dir: PathBuf,
    pub(crate) kernels: Arc<Kernels>,
    pub(crate) cgroups: Arc<Cgroups>,
    pub(crate) images: Arc<Images>,
}

impl Launcher {
    /// Starts a routing daemon as [`Launcher::start`] does, with all output in one file, in the daemons' share of
    /// the processors, and with or without `kernel_events`.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn start_daemon(
        &self,
        node: NodeId,
        argv: &[String],
        log: &Path,
        kernel_events: bool,
    ) -> Result<Child, EngineError> {
        let mut program = self.program(node, argv, (log, log));
        if let Some(sharing) = &self.cgroups.sharing {
            // A process can be in only one cgroup of a hierarchy.
            let elsewhere = |group: &&LabCgroup| !group.path().starts_with(sharing.path());
            program.cgroups.retain(elsewhere);
        }
        program.cgroups.extend(&self.cgroups.sharing);
        program.kernel_events = kernel_events;
        Ok(self.kernels.node(node).start(program)?)
    }

    /// Starts a host tool `argv` in the network of `node`; the two files may be the same.
    ///
    /// # Errors
    /// When the command does not exist or cannot be started.
    pub(crate) fn start(
        &self,
        node: NodeId,
        argv: &[String],
        out: &Path,
        err: &Path,
    ) -> Result<Child, EngineError> {
        let program = self.program(node, argv, (out, err));
        Ok(self.kernels.node(node).start(program)?)
    }

    /// Starts the main program of a node's image, with all output appended to one file; `None` if the node has
    /// none.
    ///
    /// # Errors
    /// When its container cannot be created, or the program does not exist.
    pub(crate) fn boot(&self, node: NodeId, log: &Path) -> Result<Option<Child>, EngineError> {
        let mut program = self.program(node, &[], (log, log));
        if let Some(sharing) = &self.cgroups.sharing {
            // A node with a processor limit has its own cgroup within that one.
            let limited = |group: &&LabCgroup| group.path().starts_with(sharing.path());
            if !program.cgroups.iter().any(limited) {
                program.cgroups.push(sharing);
            }
        }
        Ok(self.kernels.node(node).boot(program)?)
    }

    /// Starts a command of the user, in the node's container if it has one. With `again` its output is appended.
    ///
    /// # Errors
    /// As [`Launcher::start`].
    pub(crate) fn start_command(
        &self,
        node: NodeId,
        argv: &[String],
        (out, err): (&Path, &Path),
        again: bool,
    ) -> Result<Child, EngineError> {
        let mut program = self.program(node, argv, (out, err));
        // Commands of the scenario are those of the image; daemons and servers are the host's.
        program.of_image = true;
        // After a restart the output of the earlier process must stay.
        program.append = again;
        Ok(self.kernels.node(node).start(program)?)
    }

    fn program<'a>(
        &'a self,
        node: NodeId,
        argv: &'a [String],
        (stdout, stderr): (&'a Path, &'a Path),
    ) -> Program<'a> {
        // The node's stack is watched before the program can change it.
        self.kernels.entered(node);
        let name = &self.kernels.blueprint.lab.layout.node(node).name;
        Program {
            lab: &self.lab,
            node: name,
            argv,
            search_path: search_path(),
            env: vec![own_folder()],
            stdout,
            stderr,
            cgroups: self.cgroups.of(name),
            kernel_events: true,
            of_image: false,
            append: false,
        }
    }
}

/// Returns the environment variable for the folder of files that a program keeps for the results.
pub fn own_folder() -> (OsString, OsString) {
    ("CONSTEL_NODE_DIR".into(), NODE_FOLDER.into())
}

/// Returns an error for those of Constel's own programs that are missing.
pub(crate) fn missing_own(programs: &[&str]) -> Option<EngineError> {
    let path = search_path();
    let missing: Vec<&str> = programs
        .iter()
        .copied()
        .filter(|program| find_command(OsStr::new(program), &path).is_err())
        .collect();
    (!missing.is_empty()).then(|| EngineError::Unable {
        what: format!(
            "the scenario runs {}, which is not beside this program",
            missing.join(" and ")
        ),
        remedy: "build everything: make build".to_owned(),
    })
}

/// Returns an error for the programs (with their Debian packages) that this host lacks.
pub(crate) fn missing_programs<'a>(
    needed: impl IntoIterator<Item = &'a (&'static str, &'static str)>,
) -> Option<EngineError> {
    let path = search_path();
    let mut missing: Vec<_> = needed
        .into_iter()
        .filter(|(program, _)| find_command(OsStr::new(program), &path).is_err())
        .collect();
    // Several flows may need the same program, which is named once.
    missing.sort_unstable();
    missing.dedup();
    if missing.is_empty() {
        return None;
    }
    let programs: Vec<_> = missing.iter().map(|(program, _)| *program).collect();
    let packages: Vec<_> = missing.iter().map(|(_, package)| *package).collect();
    Some(EngineError::Unable {
        what: format!(
            "the scenario runs {}, which this host does not have",
            programs.join(", ")
        ),
        remedy: format!("install: apt-get install {}", packages.join(" ")),
    })
}
