//! Programs in the nodes of a running lab.

use std::convert::Infallible;
use std::ffi::OsString;

use constel_api::answers::Entrance;
use constel_api::{ApiError, ErrorCode};
use constel_host::NetNs;
use constel_host::cgroup::LabCgroup;
use constel_host::ident::ProcessIdent;
use constel_host::process::{Entry, enter_and_exec};
use constel_lab::{node_mounts, search_path};

use crate::error::Error;
use crate::labs::Lab;

/// Whether this process may do what labs need.
///
/// # Errors
/// [`Error::Unprivileged`] with what is missing and what to do.
pub fn require_privilege() -> Result<(), Error> {
    constel_host::probe::require_privilege().map_err(|error| Error::Unprivileged(error.to_string()))
}

/// The open door of a node.
#[derive(Debug)]
pub struct Door {
    lab: Lab,
    node: String,
    netns: NetNs,
    owner: ProcessIdent,
    hosts: std::path::PathBuf,
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
        let Entrance::Netns { node, netns, hosts } = entrance else {
            let error = format!("the node '{node}' is of a kind that this version cannot enter");
            return Err(Error::Refused(ApiError::new(ErrorCode::Unsupported, error)));
        };
        Ok(Door {
            lab: self.clone(),
            netns: NetNs::open(&netns)?,
            node,
            owner: record.owner.clone(),
            hosts,
        })
    }
}

impl Door {
    /// Becomes a command inside: standard streams, terminal, working directory and exit code of this process are the
    /// command's own from here on.
    ///
    /// # Errors
    /// Returns only if that failed. The process may be inside the node then, and should end.
    pub fn exec(self, command: &[OsString]) -> Result<Infallible, Error> {
        let cgroup = LabCgroup::open(&self.lab.entry.lab)?;
        let mounts = node_mounts(&self.hosts);
        let env = [(OsString::from("PATH"), search_path())];
        let inside = Entry {
            lab: self.lab.entry.lab.as_str(),
            node: &self.node,
            owner: &self.owner,
            netns: &self.netns,
            cgroup: cgroup.as_ref(),
            mounts: &mounts,
            env: &env,
        };
        Ok(enter_and_exec(&inside, command)?)
    }
}
