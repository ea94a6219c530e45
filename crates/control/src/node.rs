//! Programs in the nodes of a running lab.

use std::ffi::OsString;
use std::path::PathBuf;

use constel_api::answers::NodeAccess;
use constel_api::{ApiError, ErrorCode};
use constel_host::NetNs;
use constel_host::cgroup::LabCgroup;
use constel_host::enclosure::{Inside, View};
use constel_host::process::{
    CapabilitySet, Confinement, Entry, ExecContext, Exit, NODE_VARIABLE, run_inside,
};
use constel_lab::{own_folder, search_path};

use crate::error::Error;
use crate::labs::Lab;

/// Checks that this process has the privileges that labs need.
///
/// # Errors
/// [`Error::Unprivileged`] with the missing privilege and the remedy.
pub fn require_privilege() -> Result<(), Error> {
    require_outside()?;
    constel_host::probe::require_privilege().map_err(|error| Error::Unprivileged(error.to_string()))
}

/// Checks that this process is not a program of a node. Inside a node, the labs of the host and their owners are invisible.
///
/// # Errors
/// [`Error::Unprivileged`] with the name of the node.
pub(crate) fn require_outside() -> Result<(), Error> {
    let Some(node) = std::env::var_os(NODE_VARIABLE) else {
        return Ok(());
    };
    let node = node.to_string_lossy();
    Err(Error::Unprivileged(format!(
        "this is a program of the node '{node}': labs are made, entered and cleaned up from the host"
    )))
}

/// The open door of a node.
#[derive(Debug)]
pub struct OpenNode {
    pub(crate) entry: Entry,
}

impl Lab {
    /// Opens the door of a node.
    ///
    /// # Errors
    /// [`Error::Unprivileged`], [`Error::NoNode`], [`Error::ComingUp`], [`Error::NoAnswer`].
    pub fn enter(&self, node: &str) -> Result<OpenNode, Error> {
        require_privilege()?;
        let entrance = self.ask(|mut client| client.enter(node));
        let entrance = entrance.map_err(|error| match error {
            Error::Refused(ApiError {
                code: ErrorCode::NodeNotFound,
                nearest,
                ..
            }) => Error::NoNode {
                lab: self.name.clone(),
                node: node.to_owned(),
                nearest,
            },
            Error::Refused(refusal) if refusal.code == ErrorCode::ComingUp => {
                Error::ComingUp(self.name.clone())
            }
            other => other,
        })?;
        let Some(record) = &self.entry.record else {
            return Err(Error::ComingUp(self.name.clone()));
        };
        let lab = self.entry.lab.to_string();
        let owner = record.owner.clone();
        let groups = |paths: Vec<PathBuf>| paths.into_iter().map(LabCgroup::at).collect();
        let door = |entry| OpenNode { entry };
        match entrance {
            NodeAccess::Netns {
                node,
                netns,
                mounts,
                pids,
                cgroups,
            } => Ok(door(Entry {
                lab,
                node,
                owner,
                netns: NetNs::open(&netns)?,
                within: ExecContext::View(View::open(&mounts, &pids)?),
                cgroups: groups(cgroups),
                env: vec![("PATH".into(), search_path()), own_folder()],
            })),
            NodeAccess::Oci {
                node,
                netns,
                mounts,
                pids,
                first,
                cgroups,
                confinement,
                env,
                workdir,
            } => Ok(door(Entry {
                lab,
                node,
                owner,
                netns: NetNs::open(&netns)?,
                within: ExecContext::Container {
                    inside: Inside::open(&mounts, &pids, first)?,
                    confinement: confinement_of(confinement),
                    workdir,
                },
                cgroups: groups(cgroups),
                env: env
                    .into_iter()
                    .map(|(name, value)| (name.into(), value.into()))
                    .collect(),
            })),
            _ => {
                let error =
                    format!("the node '{node}' is of a kind that this version cannot enter");
                Err(Error::Refused(ApiError::new(ErrorCode::Unsupported, error)))
            }
        }
    }
}

fn confinement_of(said: constel_api::answers::Confinement) -> Confinement {
    Confinement {
        uid: said.uid,
        gid: said.gid,
        groups: said.groups,
        capabilities: CapabilitySet(said.capabilities),
        ambient: CapabilitySet(said.ambient),
        filtered: said.filtered,
        no_new_privileges: said.no_new_privileges,
        deaf: false,
    }
}

impl OpenNode {
    /// Opens a shell in the node. If programs come from the host, it is `callers`, which images need not have. The prompt is
    /// the node's name, unless the shell makes one itself from the machine's name, which is the node's. Otherwise as
    /// [`exec`](Self::exec).
    ///
    /// # Errors
    /// The reason why it did not run.
    pub fn shell(mut self, callers: OsString) -> Result<Exit, Error> {
        let prompt = format!("{}# ", self.entry.node);
        self.entry.env.push(("PS1".into(), prompt.into()));
        let shell = match self.entry.within {
            ExecContext::View(_) => callers,
            ExecContext::Container { .. } => "sh".into(),
        };
        Ok(run_inside(self.entry, &[shell])?)
    }

    /// Runs a command in the node with the streams of this process, and waits for its end. Signals to this process are
    /// forwarded to the command until then.
    ///
    /// # Errors
    /// The reason why it did not run.
    pub fn exec(self, command: &[OsString]) -> Result<Exit, Error> {
        Ok(run_inside(self.entry, command)?)
    }
}
