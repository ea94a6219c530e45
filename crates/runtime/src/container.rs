//! Nodes that are containers: what one is made of, and its life within a node's namespace.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use constel_host::enclosure::{Enclosure, Inside, Room, Shown, View};
use constel_host::process::{Child, Confinement, Spawn, Stdio};
use constel_host::{Error, NetNs, Result};

use crate::{Inner, Program};

/// What a container is made of.
#[derive(Debug, Clone)]
pub struct ContainerSpec {
    /// The image's layers, the highest first.
    pub layers: Vec<PathBuf>,
    /// Where what it writes is kept; `None`: in memory.
    pub state: Option<PathBuf>,
    /// What it sees of the host.
    pub shown: Vec<Shown>,
    /// Its own program with its arguments; not empty.
    pub argv: Vec<String>,
    /// Its environment.
    pub env: Vec<(OsString, OsString)>,
    /// Where programs begin; absolute, and made if it is not there.
    pub workdir: PathBuf,
    /// What they may do.
    pub confinement: Confinement,
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
            shown: &spec.shown,
            folders: std::slice::from_ref(&spec.workdir),
        };
        Ok(Self {
            room: enclosure.room(ns, &room)?,
            spec,
            inside: None,
        })
    }

    /// Starts its own program, whose `argv` is empty here. Those before must have ended.
    pub(crate) fn boot(&mut self, ns: &NetNs, program: &Program<'_>) -> Result<Child> {
        // Whoever enters from here on would find one that has ended.
        self.inside = None;
        let spec = &self.spec;
        let spawn = Spawn::new(program.lab, &spec.argv).node(program.node);
        let spawn = spawn.first_of(&self.room, program.node, &spec.confinement);
        let child = self.finish(spawn, ns, program).start()?;
        self.inside = Some(Arc::new(Inside::of(&self.room, &child)?));
        Ok(child)
    }

    /// Starts a program beside it.
    pub(crate) fn start(&self, ns: &NetNs, program: &Program<'_>) -> Result<Child> {
        let inside = self.inside(program.node)?;
        let spawn = Spawn::new(program.lab, program.argv).node(program.node);
        let spawn = spawn.beside(inside, &self.spec.confinement);
        self.finish(spawn, ns, program).start()
    }

    fn finish<'a>(&'a self, spawn: Spawn<'a>, ns: &'a NetNs, program: &Program<'a>) -> Spawn<'a> {
        let variables = self.spec.env.iter();
        let spawn = variables.fold(spawn, |spawn, (key, value)| spawn.env(key, value));
        let file = |path: &std::path::Path| match program.stdout == program.stderr {
            true => Stdio::Append(path.to_owned()),
            false => Stdio::Create(path.to_owned()),
        };
        let spawn = spawn
            .dir(&self.spec.workdir)
            .netns(ns)
            .stdout(file(program.stdout))
            .stderr(file(program.stderr));
        program.cgroups.iter().copied().fold(spawn, Spawn::cgroup)
    }

    /// The way in for other processes.
    pub(crate) fn inner(&self, name: &str) -> Result<(PathBuf, PathBuf, Inner)> {
        let inside = self.inside(name)?;
        let (mounts, pids) = inside.view().paths();
        let inner = Inner {
            first: inside.first_pid()?,
            confinement: self.spec.confinement.clone(),
            env: self.spec.env.clone(),
            workdir: self.spec.workdir.clone(),
        };
        Ok((mounts, pids, inner))
    }

    fn inside(&self, name: &str) -> Result<&Arc<Inside>> {
        self.inside.as_ref().ok_or_else(|| {
            Error::Conflict(format!(
                "the program of '{name}' does not run: nothing is to be entered"
            ))
        })
    }
}
