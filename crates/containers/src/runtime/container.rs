//! Nodes that are containers: their components, and their life within a node's namespace.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use constel_host::enclosure::{Enclosure, Inside, Room, Shown, View};
use constel_host::process::{Child, Confinement, Spawn};
use constel_host::template::{UNPRIVILEGED, settle};
use constel_host::{Error, NetNs, Result};

use crate::runtime::{Inner, Program};

/// The components of a container.
#[derive(Debug, Clone)]
pub struct ContainerSpec {
    /// The image's layers, the highest first.
    pub layers: Vec<PathBuf>,
    /// Folder for the files that it writes. `None`: in memory.
    pub state: Option<PathBuf>,
    /// How many bytes of files it may keep in memory; `None`: as many as the lab.
    pub files_bytes: Option<u64>,
    /// Parts of the host that it sees.
    pub shown: Vec<Shown>,
    /// Program of the container with its arguments. Not empty.
    pub argv: Vec<String>,
    /// Its environment.
    pub env: Vec<(OsString, OsString)>,
    /// Working directory of programs. An absolute path, which is created if it does not exist.
    pub workdir: PathBuf,
    /// Restrictions of its programs.
    pub confinement: Confinement,
}

impl ContainerSpec {
    /// Starts a program beside the first of a container.
    pub(crate) fn beside(
        &self,
        inside: &Inside,
        ns: &NetNs,
        program: &Program<'_>,
    ) -> Result<Child> {
        let spawn = Spawn::new(program.lab, program.argv).node(program.node);
        let spawn = spawn.beside(inside, &self.confinement);
        self.finish(spawn, ns, program).start()
    }

    /// Returns the access for other processes.
    pub(crate) fn inner(&self, inside: &Inside) -> Result<(PathBuf, PathBuf, Inner)> {
        let (mounts, pids) = inside.view().paths();
        let inner = Inner {
            first: inside.first_pid()?,
            confinement: self.confinement.clone(),
            env: self.env.clone(),
            workdir: self.workdir.clone(),
            cgroups: Vec::new(),
        };
        Ok((mounts, pids, inner))
    }

    fn finish<'a>(&'a self, spawn: Spawn<'a>, ns: &'a NetNs, program: &Program<'a>) -> Spawn<'a> {
        let variables = self.env.iter();
        let spawn = variables.fold(spawn, |spawn, (key, value)| spawn.env(key, value));
        let spawn = spawn
            .dir(&self.workdir)
            .netns(ns)
            .stdout(program.file(program.stdout))
            .stderr(program.file(program.stderr));
        program.cgroups.iter().copied().fold(spawn, Spawn::cgroup)
    }
}

/// A container of a node, from the first start of its program on.
#[derive(Debug)]
pub(crate) struct Container {
    spec: ContainerSpec,
    room: View,
    /// Once its program runs; the last one that ran.
    inside: Option<Arc<Inside>>,
}

impl Container {
    /// Makes its files; nothing runs yet.
    pub(crate) fn new(
        enclosure: &Enclosure,
        ns: &NetNs,
        name: &str,
        spec: ContainerSpec,
    ) -> Result<Self> {
        let room = Room {
            name,
            layers: &spec.layers,
            state: spec.state.as_deref(),
            files_bytes: spec.files_bytes,
            shown: &spec.shown,
            folders: std::slice::from_ref(&spec.workdir),
        };
        settle(ns, &UNPRIVILEGED)?;
        Ok(Self {
            room: enclosure.room(ns, &room)?,
            spec,
            inside: None,
        })
    }

    /// Starts its own program. `argv` of `program` is empty here. Earlier programs must have ended.
    pub(crate) fn boot(&mut self, ns: &NetNs, program: &Program<'_>) -> Result<Child> {
        // A process that enters from here on must not find the old program, which has ended.
        self.inside = None;
        let spec = &self.spec;
        let spawn = Spawn::new(program.lab, &spec.argv).node(program.node);
        let spawn = spawn.first_of(&self.room, program.node, &spec.confinement);
        let child = spec.finish(spawn, ns, program).start()?;
        self.inside = Some(Arc::new(Inside::of(&self.room, &child)?));
        Ok(child)
    }

    /// Starts a program beside it.
    pub(crate) fn start(&self, ns: &NetNs, program: &Program<'_>) -> Result<Child> {
        let inside = self.inside(program.node)?;
        self.spec.beside(inside, ns, program)
    }

    /// Returns the access for other processes.
    pub(crate) fn inner(&self, name: &str) -> Result<(PathBuf, PathBuf, Inner)> {
        self.spec.inner(self.inside(name)?)
    }

    fn inside(&self, name: &str) -> Result<&Arc<Inside>> {
        self.inside.as_ref().ok_or_else(|| {
            Error::Conflict(format!(
                "the program of '{name}' does not run: nothing is to be entered"
            ))
        })
    }
}
