//! Programs in the nodes of a running lab.

use std::ffi::OsString;

use constel_api::answers::Entrance;
use constel_api::{ApiError, ErrorCode};
use constel_host::NetNs;
use constel_host::cgroup::LabCgroup;
use constel_host::enclosure::View;
use constel_host::process::{Entry, Exit, NODE_VARIABLE, run_inside};
use constel_lab::{own_folder, search_path};

use crate::error::Error;
use crate::labs::Lab;

/// Whether this process may do what labs need.
///
/// # Errors
/// [`Error::Unprivileged`] with what is missing and what to do.
pub fn require_privilege() -> Result<(), Error> {
    require_outside()?;
    constel_host::probe::require_privilege().map_err(|error| Error::Unprivileged(error.to_string()))
}

/// Whether this process is no program of a node: there the labs of the host, and who runs them, are not to be seen.
///
/// # Errors
/// [`Error::Unprivileged`] naming the node.
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
pub struct Door {
    pub(crate) entry: Entry,
}

impl Lab {
    /// Opens the door of a node.
    ///
    /// # Errors
    /// [`Error::Unprivileged`], [`Error::NoNode`], [`Error::ComingUp`], [`Error::NoAnswer`].
    pub fn enter(&self, node: &str) -> Result<Door, Error> {
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
        let Entrance::Netns {
            node,
            netns,
            mounts,
            pids,
            cgroups,
        } = entrance
        else {
            let error = format!("the node '{node}' is of a kind that this version cannot enter");
            return Err(Error::Refused(ApiError::new(ErrorCode::Unsupported, error)));
        };
        let entry = Entry {
            lab: self.entry.lab.to_string(),
            netns: NetNs::open(&netns)?,
            view: View::open(&mounts, &pids)?,
            cgroups: cgroups.into_iter().map(LabCgroup::at).collect(),
            env: vec![("PATH".into(), search_path()), own_folder()],
            owner: record.owner.clone(),
            node,
        };
        Ok(Door { entry })
    }
}

impl Door {
    /// Runs a command inside, with the streams and the terminal of this process, and waits for its end. Signals that
    /// this process gets meanwhile are the command's.
    ///
    /// # Errors
    /// What kept it from running.
    pub fn exec(self, command: &[OsString]) -> Result<Exit, Error> {
        Ok(run_inside(self.entry, command)?)
    }
}
