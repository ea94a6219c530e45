//! The information of every node, and the decision which nodes must be informed of a change.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use constel_plan::information::{
    Change, Event, ExtraInformation, Foresight, InformationEvent, NodeInformation, OPENSN, Scope,
    Stamp, changes, names,
};
use constel_topology::{NodeId, Snapshot};
use serde::Serialize;

use super::News;
use super::clients::Clients;
use super::files::Files;
use crate::clock::LabClock;
use crate::failed::Failed;

/// The last numbers that one node received.
#[derive(Default)]
struct LastNumbers {
    /// The revision of its peers.
    revision: u64,
    /// The number of its last event.
    seq: u64,
}

/// The writer of the nodes' files.
pub(super) struct Keeper {
    telling: Arc<NodeInformation>,
    pub(super) files: Files,
    clock: Arc<LabClock>,
    failed: Arc<Failed>,
    /// The first error in informing nodes.
    pub(super) problem: Arc<Mutex<Option<String>>>,
    told: BTreeMap<NodeId, LastNumbers>,
    /// The topology in force, and below it the topology without links failed by command, which nodes see.
    planned: Option<Arc<Snapshot>>,
    known: Arc<Snapshot>,
    /// The revision of the whole topology.
    revision: u64,
    /// The nodes that receive the whole topology.
    of_all: Vec<NodeId>,
    /// The coming contacts and positions, if some nodes look ahead.
    ahead: Option<Ahead>,
}

/// The documents that look ahead.
struct Ahead {
    foresight: Foresight,
    /// The nodes that look ahead.
    nodes: Vec<NodeId>,
    revision: u64,
    /// The lab time from which they are written again, nanoseconds.
    next_ns: u64,
    /// The lab time between two documents, nanoseconds: half of what the nodes look ahead.
    every_ns: u64,
}

impl Ahead {
    /// Returns the documents of the nodes that look ahead, the farthest of them for all; `None` if no node does.
    fn of(telling: &NodeInformation) -> Option<Self> {
        let asked = |node: NodeId| Some((node, telling.asked(node)?));
        let wanted: Vec<_> = telling.asking().filter_map(asked).collect();
        let looks = |(node, asked): &(NodeId, &ExtraInformation)| asked.ahead_ns.map(|_| *node);
        let nodes: Vec<NodeId> = wanted.iter().filter_map(looks).collect();
        let ahead_ns = wanted
            .iter()
            .filter_map(|(_, asked)| asked.ahead_ns)
            .max()?;
        let lab = &telling.blueprint().lab;
        let all = wanted.iter();
        let mut all =
            all.filter(|(_, asked)| asked.ahead_ns.is_some() && asked.scope == Scope::All);
        let tracked = match all.next() {
            Some(_) => lab.layout.nodes().iter().map(|node| node.id).collect(),
            None => nodes.clone(),
        };
        Some(Self {
            foresight: Foresight::new(lab, ahead_ns, tracked),
            nodes,
            revision: 0,
            next_ns: 0,
            every_ns: ahead_ns / 2,
        })
    }
}

impl Keeper {
    /// Creates a keeper; no node has been informed yet.
    pub(super) fn new(
        telling: Arc<NodeInformation>,
        folder: &Path,
        clock: Arc<LabClock>,
        failed: Arc<Failed>,
    ) -> Self {
        let all = |node: &NodeId| {
            let asked = telling.asked(*node);
            asked.is_some_and(|asked| asked.scope == Scope::All)
        };
        Self {
            files: Files::new(folder),
            clock,
            failed,
            problem: Arc::default(),
            told: telling
                .asking()
                .map(|node| (node, LastNumbers::default()))
                .collect(),
            planned: None,
            known: Arc::default(),
            revision: 0,
            of_all: telling.asking().filter(all).collect(),
            ahead: Ahead::of(&telling),
            telling,
        }
    }

    /// Writes the files that never change, and the user's files from the scenario.
    pub(super) fn introduce(&mut self, lab: &str) -> io::Result<()> {
        let telling = Arc::clone(&self.telling);
        for node in telling.asking() {
            let files = &mut self.files;
            files.put(node, names::NODE, &document(&telling.node(node, lab)))?;
            files.put(node, names::PORTS, &document(&telling.ports(node)))?;
            // The event log exists from the start, so that a program can follow it before the first event.
            files.append(node, b"")?;
            let user = telling.asked(node).map(|asked| &asked.user);
            for (name, text) in user.into_iter().flatten() {
                files.put(node, &user_file(name), text.as_bytes())?;
            }
        }
        Ok(())
    }

    /// Informs nodes as far as a message concerns them.
    pub(super) fn take(&mut self, news: News, clients: &mut Clients) {
        let told = match news {
            News::Topology(snapshot) => {
                let told = self.topology(&snapshot, snapshot.t_ns, clients);
                told.and(self.look_ahead(snapshot.t_ns, clients))
            }
            News::TopologyAndSay(snapshot, done) => {
                let told = self.topology(&snapshot, snapshot.t_ns, clients);
                let told = told.and(self.look_ahead(snapshot.t_ns, clients));
                // The waiting caller may have given up.
                let _ = done.send(());
                told
            }
            News::Failed => match self.planned.clone() {
                Some(planned) => {
                    let now_ns = self.clock.now_ns().unwrap_or(0);
                    self.topology(&planned, now_ns, clients)
                }
                None => Ok(()),
            },
            News::Clock => {
                let zero_ns = self.clock.zero_mono_ns().unwrap_or(0);
                self.everybody(&InformationEvent::Clock { zero_ns }, clients)
            }
            News::User {
                node,
                name,
                text,
                done,
            } => {
                let put = self.user(node, name, text.as_deref(), clients);
                drop(done.send(put.map_err(|error| error.to_string())));
                Ok(())
            }
            News::Command { node, data, done } => {
                let sent = self.event(node, InformationEvent::Command { data }, clients);
                drop(done.send(sent.map_err(|error| error.to_string())));
                Ok(())
            }
            News::Stop => Ok(()),
        };
        self.note(told);
    }

    /// Informs all nodes that the lab goes down.
    pub(super) fn stopping(&mut self, clients: &mut Clients) {
        let told = self.everybody(&InformationEvent::Stopping, clients);
        self.note(told);
    }

    /// Records the first error: a run whose nodes were not informed is not trustworthy.
    fn note(&self, told: io::Result<()>) {
        if let Err(error) = told {
            let mut problem = self.problem.lock().unwrap_or_else(|e| e.into_inner());
            problem.get_or_insert_with(|| error.to_string());
        }
    }

    fn everybody(&mut self, what: &InformationEvent, clients: &mut Clients) -> io::Result<()> {
        let telling = Arc::clone(&self.telling);
        let mut told = Ok(());
        for node in telling.asking() {
            // The failure of one node's file does not keep the event from the others.
            let one = self.event(node, what.clone(), clients);
            told = told.and(one.map(|_| ()));
        }
        told
    }

    /// Handles a topology that comes into force: informs the nodes whose links appeared or disappeared. An error
    /// for one node does not stop the others.
    fn topology(
        &mut self,
        planned: &Arc<Snapshot>,
        t_ns: u64,
        clients: &mut Clients,
    ) -> io::Result<()> {
        let first = self.planned.is_none();
        self.planned = Some(Arc::clone(planned));
        // Nodes must see a failed link as absent, as the routing does.
        let rest = self.failed.now().without(planned);
        let known = rest.map_or_else(|| Arc::clone(planned), Arc::new);
        let before = std::mem::replace(&mut self.known, known);
        let telling = Arc::clone(&self.telling);
        let layout = &telling.blueprint().lab.layout;
        let changed = changes(layout, &before, &self.known);
        let mut told = Ok(());
        // The whole topology is serialised once and shared, because it can be large and many nodes may have it.
        if (first || !changed.is_empty()) && !self.of_all.is_empty() {
            self.revision += 1;
            let revision = self.revision;
            let whole = telling.whole(&self.known, Stamp { revision, t_ns });
            let all = self.of_all.clone();
            told = self
                .files
                .put_to_all(&all, names::TOPOLOGY, &document(&whole));
            for node in all {
                let one = self.event(node, InformationEvent::Topology { revision }, clients);
                told = told.and(one.map(|_| ()));
            }
        }
        // At the first topology every node gets its files, also one without any link.
        let nothing = Change::default();
        for node in telling.asking() {
            let change = changed.get(&node);
            if change.is_none() && !first {
                continue;
            }
            let change = change.unwrap_or(&nothing);
            let one = self.neighbourhood(node, change, t_ns, clients);
            told = told.and(one);
        }
        told
    }

    /// Advances the documents that look ahead, and writes them if half of their time has passed.
    fn look_ahead(&mut self, now_ns: u64, clients: &mut Clients) -> io::Result<()> {
        let Some(mut ahead) = self.ahead.take() else {
            return Ok(());
        };
        // With every step, so that no step waits for many.
        ahead.foresight.advance(now_ns);
        let mut told = Ok(());
        if now_ns >= ahead.next_ns {
            ahead.next_ns = now_ns + ahead.every_ns;
            ahead.revision += 1;
            told = self.write_ahead(&ahead, now_ns, clients);
        }
        self.ahead = Some(ahead);
        told
    }

    fn write_ahead(&mut self, ahead: &Ahead, t_ns: u64, clients: &mut Clients) -> io::Result<()> {
        let revision = ahead.revision;
        let stamp = Stamp { revision, t_ns };
        let foresight = &ahead.foresight;
        let of_all = self.of_all.iter().filter(|node| ahead.nodes.contains(node));
        let of_all: Vec<NodeId> = of_all.copied().collect();
        let mut told = Ok(());
        if !of_all.is_empty() {
            let nodes = self.telling.blueprint().lab.layout.nodes().iter();
            let nodes: Vec<NodeId> = nodes.map(|node| node.id).collect();
            let orbit = document(&foresight.orbit(Scope::All, &nodes, stamp));
            let contacts = document(&foresight.contacts(None, stamp));
            let put = self.files.put_to_all(&of_all, names::ORBIT, &orbit);
            let put = put.and_then(|()| self.files.put_to_all(&of_all, names::CONTACTS, &contacts));
            told = told.and(put);
        }
        for node in &ahead.nodes {
            if !of_all.contains(node) {
                let orbit = document(&foresight.orbit(Scope::Neighbourhood, &[*node], stamp));
                let contacts = document(&foresight.contacts(Some(*node), stamp));
                let put = self.files.put(*node, names::ORBIT, &orbit);
                let put = put.and_then(|()| self.files.put(*node, names::CONTACTS, &contacts));
                told = told.and(put);
            }
            let one = self.event(*node, InformationEvent::Ahead { revision }, clients);
            told = told.and(one.map(|_| ()));
        }
        told
    }

    fn neighbourhood(
        &mut self,
        node: NodeId,
        change: &Change,
        t_ns: u64,
        clients: &mut Clients,
    ) -> io::Result<()> {
        let Some(told) = self.told.get_mut(&node) else {
            return Ok(());
        };
        told.revision += 1;
        let revision = told.revision;
        let (telling, known) = (Arc::clone(&self.telling), Arc::clone(&self.known));
        let stamp = Stamp { revision, t_ns };
        let peers = document(&telling.peers(node, &known, stamp));
        self.files.put(node, names::PEERS, &peers)?;
        // The OpenSN files are rewritten in place: its programs watch the file and not the folder.
        if telling.asked(node).is_some_and(|asked| asked.opensn) {
            let told = document(&telling.opensn(node, &known));
            let name = &telling.blueprint().lab.layout.node(node).name;
            for file in [format!("{OPENSN}/{name}"), format!("{OPENSN}/{name}.json")] {
                self.files.rewrite(node, &file, &told)?;
            }
        }
        // Nodes with the whole topology share one file, which was written before.
        if !self.of_all.contains(&node) {
            let near = document(&telling.neighbourhood(node, &known, stamp));
            self.files.put(node, names::TOPOLOGY, &near)?;
        }
        let (added, removed) = telling.met(change);
        let what = InformationEvent::Peers {
            revision,
            added,
            removed,
        };
        self.event(node, what, clients).map(|_| ())
    }

    fn user(
        &mut self,
        node: NodeId,
        name: String,
        text: Option<&str>,
        clients: &mut Clients,
    ) -> io::Result<()> {
        let what = match text {
            Some(text) => {
                self.files.put(node, &user_file(&name), text.as_bytes())?;
                InformationEvent::User { name }
            }
            None if self.files.remove(node, &user_file(&name))? => {
                InformationEvent::UserGone { name }
            }
            None => {
                let error = format!("the node has no file '{name}' of yours");
                return Err(io::Error::new(io::ErrorKind::NotFound, error));
            }
        };
        self.event(node, what, clients).map(|_| ())
    }

    /// Adds an event of a node and returns its number.
    fn event(
        &mut self,
        node: NodeId,
        what: InformationEvent,
        clients: &mut Clients,
    ) -> io::Result<u64> {
        let told = self.told.entry(node).or_default();
        told.seq += 1;
        let seq = told.seq;
        let t_ns = self.clock.now_ns();
        let event = Event { seq, t_ns, what };
        let mut line = serde_json::to_vec(&event)?;
        line.push(b'\n');
        // Followers get the event even if the file could not be written; the error is reported after.
        let kept = self.files.append(node, &line);
        clients.tell(node, &event);
        kept.map(|()| seq)
    }

    /// Returns a node's links at this moment.
    pub(super) fn links(&self, node: NodeId) -> constel_plan::information::Links {
        let now_ns = self.clock.now_ns().unwrap_or(0);
        self.telling.links(node, &self.known, now_ns)
    }
}

/// Returns the path of a user's file in the node's folder.
fn user_file(name: &str) -> String {
    format!("{}/{name}", names::USER)
}

/// Returns a document as it is written to its file, indented for people.
fn document(value: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).unwrap_or_default();
    text.push(b'\n');
    text
}
