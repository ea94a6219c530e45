//! The information path: nodes for which the scenario asks for it receive their own description, their links, and
//! changes.
//!
//! [`constel_plan::information`] defines the documents. This module writes them to files in a folder of the host for each
//! node, which the node sees read-only as `/run/constel`, and serves a socket. One thread does all of it: it gets
//! each topology at the moment at which it comes into force, determines the nodes whose links changed, and writes
//! only their files. No other thread waits for it.

mod clients;
mod files;
mod folder;
mod keeper;

use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use constel_plan::information::NodeInformation;
use constel_plan::{Blueprint, LocalNodes};
use constel_topology::{NodeId, Snapshot};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;

use crate::clock::LabClock;
use crate::error::EngineError;
use crate::failed::Failed;
pub(crate) use folder::{make_folder, node_folder, root};
use keeper::Keeper;

/// A message to the thread.
pub(crate) enum News {
    /// This topology is in force.
    Topology(Arc<Snapshot>),
    /// The first topology; the sender is notified when all nodes have it.
    TopologyAndSay(Arc<Snapshot>, Sender<()>),
    /// Links were failed or repaired by command.
    Failed,
    /// Lab time runs.
    Clock,
    /// A new file of the user, or its removal for `None`.
    User {
        node: NodeId,
        name: String,
        text: Option<String>,
        done: Sender<Result<(), String>>,
    },
    /// A command for the programs of a node.
    Command {
        node: NodeId,
        data: serde_json::Value,
        done: Sender<Result<u64, String>>,
    },
    /// The lab goes down.
    Stop,
}

/// The informant of a lab's nodes. Dropping it ends the thread.
pub(crate) struct Informant {
    telling: Arc<NodeInformation>,
    news: Sender<News>,
    bell: Arc<OwnedFd>,
    problem: Arc<Mutex<Option<String>>>,
    thread: Option<JoinHandle<()>>,
}

impl Informant {
    /// Starts the informant for this machine's nodes, for which `folder` was [made](make_folder); `None` when none
    /// of them receives information.
    ///
    /// # Errors
    /// When a file or socket cannot be created.
    pub(crate) fn start(
        (blueprint, ours): (&Arc<Blueprint>, &LocalNodes),
        lab: &str,
        folder: &Path,
        clock: &Arc<LabClock>,
        failed: &Arc<Failed>,
    ) -> Result<Option<Self>, EngineError> {
        let Some(telling) = NodeInformation::new(blueprint, ours) else {
            return Ok(None);
        };
        let wrong = |source: std::io::Error| EngineError::Io {
            what: "write information for nodes".to_owned(),
            source,
        };
        let telling = Arc::new(telling);
        // The eventfd wakes the thread, which otherwise waits in epoll.
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let bell = Arc::new(eventfd(0, flags).map_err(|e| wrong(e.into()))?);
        let (news, told) = channel();
        let (clock, failed) = (Arc::clone(clock), Arc::clone(failed));
        let mut keeper = Keeper::new(Arc::clone(&telling), folder, clock, failed);
        let problem = Arc::clone(&keeper.problem);
        // The files exist before the socket, so that a client never finds its folder empty.
        keeper.introduce(lab).map_err(wrong)?;
        let mut clients = clients::Clients::new(&telling, folder, &bell).map_err(wrong)?;
        let thread = std::thread::Builder::new().name("information".into());
        let thread = thread.spawn(move || {
            // All messages are handled before clients, so that an answer has the newest topology.
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

    /// Returns the nodes that receive information, and its documents.
    pub(crate) fn telling(&self) -> &NodeInformation {
        &self.telling
    }

    /// Sends a message. The thread may have ended by a panic; then the message is dropped.
    pub(crate) fn tell(&self, news: News) {
        drop(self.news.send(news));
        let _ = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
    }

    /// Sends the first topology, and returns when all nodes have it.
    pub(crate) fn begin(&self, snapshot: &Arc<Snapshot>) {
        let (done, told) = channel();
        self.tell(News::TopologyAndSay(Arc::clone(snapshot), done));
        let _ = told.recv();
    }

    /// Returns the first error in informing nodes, if any.
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
            // The panic message has been printed, and the nodes count as not informed.
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests;
