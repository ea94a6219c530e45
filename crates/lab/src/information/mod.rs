//! The information path: nodes that ask are told who they are, what they are linked with, and what changes.
//!
//! [`constel_information`] says what they are told. Here it becomes files in a folder of the host for each node, which the node
//! sees as `/run/constel` and cannot write, and a socket. One thread does all of it: it is given each topology in the moment
//! in which that takes force, finds out whose links came or went, and writes for these nodes only. Nobody waits for it.

mod clients;
mod files;
mod folder;
mod keeper;

use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use constel_information::Telling;
use constel_plan::{Blueprint, Ours};
use constel_topology::{NodeId, Snapshot};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;

use crate::clock::LabClock;
use crate::error::EngineError;
use crate::failed::Failed;
pub(crate) use folder::{make_folder, node_folder, root};
use keeper::Keeper;

/// What the thread is told.
pub(crate) enum News {
    /// This topology is in force.
    Topology(Arc<Snapshot>),
    /// The same; whoever waits goes on when all nodes know.
    TopologyAndSay(Arc<Snapshot>, Sender<()>),
    /// Links were failed or healed by hand.
    Failed,
    /// Lab time runs.
    Clock,
    /// A file of the user's, or that it goes.
    User {
        node: NodeId,
        name: String,
        text: Option<String>,
        done: Sender<Result<(), String>>,
    },
    /// Something for the programs of a node.
    Command {
        node: NodeId,
        data: serde_json::Value,
        done: Sender<Result<u64, String>>,
    },
    /// The lab goes down.
    Stop,
}

/// Tells the nodes of a lab. Dropping it ends the thread.
pub(crate) struct Informant {
    telling: Arc<Telling>,
    news: Sender<News>,
    bell: Arc<OwnedFd>,
    problem: Arc<Mutex<Option<String>>>,
    thread: Option<JoinHandle<()>>,
}

impl Informant {
    /// For those nodes of a lab that are here, of which `folder` was [made](make_folder); `None` when none of them asks.
    ///
    /// # Errors
    /// When a file or socket cannot be made.
    pub(crate) fn start(
        (blueprint, ours): (&Arc<Blueprint>, &Ours),
        lab: &str,
        folder: &Path,
        clock: &Arc<LabClock>,
        failed: &Arc<Failed>,
    ) -> Result<Option<Self>, EngineError> {
        let Some(telling) = Telling::new(blueprint, ours) else {
            return Ok(None);
        };
        let wrong = |source: std::io::Error| EngineError::Io {
            what: "tell nodes of themselves".to_owned(),
            source,
        };
        let telling = Arc::new(telling);
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let bell = Arc::new(eventfd(0, flags).map_err(|e| wrong(e.into()))?);
        let (news, told) = channel();
        let (clock, failed) = (Arc::clone(clock), Arc::clone(failed));
        let mut keeper = Keeper::new(Arc::clone(&telling), folder, clock, failed);
        let problem = Arc::clone(&keeper.problem);
        keeper.introduce(lab).map_err(wrong)?;
        let mut clients = clients::Clients::new(&telling, folder, &bell).map_err(wrong)?;
        let thread = std::thread::Builder::new().name("information".into());
        let thread = thread.spawn(move || {
            while let Some(ready) = clients.wait() {
                for news in told.try_iter() {
                    if matches!(news, News::Stop) {
                        keeper.stopping(&mut clients);
                        return;
                    }
                    keeper.take(news, &mut clients);
                }
                clients.serve(ready, &keeper);
            }
        });
        Ok(Some(Self {
            telling,
            news,
            bell,
            problem,
            thread: Some(thread.map_err(wrong)?),
        }))
    }

    /// What nodes are told.
    pub(crate) fn telling(&self) -> &Telling {
        &self.telling
    }

    /// Leaves a message; the thread may have ended by a panic, which nobody has to hear of here.
    pub(crate) fn tell(&self, news: News) {
        drop(self.news.send(news));
        let _ = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
    }

    /// The first topology: returns when all nodes know of it.
    pub(crate) fn begin(&self, snapshot: &Arc<Snapshot>) {
        let (done, told) = channel();
        self.tell(News::TopologyAndSay(Arc::clone(snapshot), done));
        let _ = told.recv();
    }

    /// The first thing that could not be told, if any.
    pub(crate) fn problem(&self) -> Option<String> {
        self.problem
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .clone()
    }
}

impl Drop for Informant {
    fn drop(&mut self) {
        self.tell(News::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic of it has been printed, and shows as nodes that were not told.
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests;
