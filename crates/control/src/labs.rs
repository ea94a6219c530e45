//! Labs of this host, whichever process runs them.

use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use constel_api::answers::{
    Applied, BoxShown, Capturing, CommandSent, DelaysSet, LabRow, LabState, LinkSet, LinkShown,
    ListedLab, Loads, MemberSet, NetworkShown, NodesSet, Paths, Routes, RulesChanged,
    ScenarioShown, Shown, StationsSet, UserFileSet, Version,
};
use constel_api::{
    ApplyOrder, CaptureOrder, CaptureStream, Client, ClientError, Events, NodeChange, RuleChange,
    SetLink, StationChange,
};
use constel_host::claim::{self, LabEntry, LabName, RuntimeDir};
use constel_host::clean::{Beyond, HostReport, clean_all, clean_lab};
use constel_link::Effects;
use constel_scenario::{TextFile, nearest};
use constel_units::files;

use crate::engines::Engines;
use crate::error::Error;
use crate::node::require_privilege;
use crate::scenario::Scenario;
use crate::staying;

/// The lab's own process takes it down; a large one needs a while.
const DOWN_WITHIN: Duration = Duration::from_secs(180);

/// How often a lab that goes down is looked after.
const DOWN_LOOK: Duration = Duration::from_millis(50);

/// All labs of this host, by name, living and dead.
///
/// # Errors
/// When the runtime folder cannot be read.
pub fn list() -> Result<Vec<ListedLab>, Error> {
    let labs = RuntimeDir::default().list()?;
    Ok(labs.iter().map(listed).collect())
}

fn listed(entry: &LabEntry) -> ListedLab {
    let record = entry.record.as_ref();
    let count = |n: Option<u64>| n.and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    ListedLab {
        lab: entry.lab.to_string(),
        state: state_of(entry),
        scenario: record.map(|record| record.scenario.clone()),
        pid: entry.pid(),
        nodes: count(record.map(|record| record.nodes)),
        edges: count(record.map(|record| record.edges)),
    }
}

fn state_of(entry: &LabEntry) -> LabState {
    match entry.state {
        claim::LabState::Starting => LabState::Starting,
        claim::LabState::Running => LabState::Running,
        claim::LabState::Stopping => LabState::Stopping,
        claim::LabState::Dead => LabState::Dead,
    }
}

/// The lab of that name, living or dead.
pub(crate) fn find(name: &str) -> Result<LabEntry, Error> {
    let runtime = RuntimeDir::default();
    let lab: LabName = name
        .parse()
        .map_err(|error: constel_host::Error| Error::BadLabName(error.to_string()))?;
    if let Some(entry) = runtime.find(&lab)? {
        return Ok(entry);
    }
    let labs = runtime.list()?;
    let nearest = nearest(name, labs.iter().map(|entry| entry.lab.as_str()));
    Err(Error::NoLab {
        lab: name.to_owned(),
        nearest: nearest.map(str::to_owned),
        others: !labs.is_empty(),
    })
}

/// Removes everything that crashed labs left behind, of one lab or of all, and nothing else. The `problems` of the report
/// list objects that could not be removed.
///
/// # Errors
/// [`Error::Unprivileged`], [`Error::NoLab`], [`Error::Alive`]; [`Error::Host`] if the host does not answer.
pub fn clean(lab: Option<&str>) -> Result<HostReport, Error> {
    require_privilege()?;
    let runtime = RuntimeDir::default();
    let Some(name) = lab else {
        return Ok(clean_all(&runtime, &Engines)?);
    };
    let lab = match find(name) {
        Ok(entry) if state_of(&entry) != LabState::Dead => {
            return Err(Error::Alive {
                lab: name.to_owned(),
                pid: entry.pid(),
            });
        }
        Ok(entry) => entry.lab,
        // It is gone from this machine, and an engine that did not answer then may still have a part of it.
        Err(error) => {
            let mut left = Engines.orphans().into_iter();
            left.find(|lab| lab.as_str() == name).ok_or(error)?
        }
    };
    let report = HostReport {
        labs: vec![clean_lab(&runtime, &lab, &Engines)?],
        settings: Vec::new(),
    };
    runtime.remove_if_empty()?;
    Ok(report)
}

/// A read-only handle of a living lab. Each request uses a connection of its own, so that threads may share the handle.
#[derive(Debug, Clone)]
pub struct Observer {
    pub(crate) name: String,
    pub(crate) entry: LabEntry,
}

impl Observer {
    /// The lab of that name.
    ///
    /// # Errors
    /// [`Error::BadLabName`], [`Error::NoLab`], [`Error::Dead`].
    pub fn attach(name: &str) -> Result<Self, Error> {
        let entry = find(name)?;
        if state_of(&entry) == LabState::Dead {
            return Err(Error::Dead(name.to_owned()));
        }
        Ok(Self {
            name: name.to_owned(),
            entry,
        })
    }

    /// The lab's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the lab has ended or is being taken down, when its socket goes before its name does.
    pub(crate) fn is_over(&self) -> bool {
        let lives = |state| matches!(state, LabState::Starting | LabState::Running);
        !find(&self.name).is_ok_and(|entry| lives(state_of(&entry)))
    }

    /// Sends one request.
    pub(crate) fn ask<T>(
        &self,
        question: impl FnOnce(Client) -> Result<T, ClientError>,
    ) -> Result<T, Error> {
        let answered = Client::connect(&self.entry.dir).and_then(question);
        answered.map_err(|error| match error {
            ClientError::Refused(refusal) => Error::Refused(refusal),
            source => Error::NoAnswer {
                lab: self.name.clone(),
                source,
            },
        })
    }

    /// The versions of its protocol and program.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::NoAnswer`].
    pub fn version(&self) -> Result<Version, Error> {
        self.ask(|mut client| client.version())
    }

    /// Returns the state of the lab.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::NoAnswer`].
    pub fn state(&self) -> Result<LabRow, Error> {
        self.ask(|mut client| client.state())
    }

    /// Returns the nodes, and the health of the link plane.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::NoAnswer`].
    pub fn show(&self) -> Result<Shown, Error> {
        self.ask(|mut client| client.show())
    }

    /// The scenario that it runs.
    ///
    /// # Errors
    /// [`Error::Refused`], of a box too; [`Error::NoAnswer`].
    pub fn scenario(&self) -> Result<ScenarioShown, Error> {
        self.ask(|mut client| client.scenario())
    }

    /// The link between two nodes.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::NoAnswer`].
    pub fn link(&self, a: &str, b: &str) -> Result<LinkShown, Error> {
        self.ask(|mut client| client.link(a, b))
    }

    /// A node's routes, as its kernel has them.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::NoAnswer`].
    pub fn routes(&self, node: &str) -> Result<Routes, Error> {
        self.ask(|mut client| client.routes(node))
    }

    /// Returns the paths from one node to another by the kernels' routing tables, over the edges of lab time `at_ns`.
    /// Default: now.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::NoAnswer`].
    pub fn path(&self, from: &str, to: &str, at_ns: Option<u64>) -> Result<Paths, Error> {
        self.ask(|mut client| client.path(from, to, at_ns))
    }

    /// Returns the traffic of every edge so far.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::NoAnswer`].
    pub fn loads(&self) -> Result<Loads, Error> {
        self.ask(|mut client| client.loads())
    }

    /// Returns the networks and their members.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::NoAnswer`].
    pub fn networks(&self) -> Result<Vec<NetworkShown>, Error> {
        self.ask(|mut client| client.networks())
    }

    /// Returns the interfaces and rules of a box, with their counters.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::NoAnswer`].
    pub fn rules(&self) -> Result<BoxShown, Error> {
        self.ask(|mut client| client.rules())
    }

    /// Returns all events so far. With `follow`, then each new one until the lab ends.
    ///
    /// # Errors
    /// [`Error::NoAnswer`].
    pub fn events(&self, follow: bool) -> Result<Events, Error> {
        self.ask(|client| client.events(follow))
    }
}

/// A handle to read and change a living lab.
#[derive(Debug, Clone)]
pub struct Lab(Observer);

impl Deref for Lab {
    type Target = Observer;

    fn deref(&self) -> &Observer {
        &self.0
    }
}

impl Lab {
    /// The lab of that name.
    ///
    /// # Errors
    /// As [`Observer::attach`].
    pub fn attach(name: &str) -> Result<Self, Error> {
        Observer::attach(name).map(Self)
    }

    /// Returns a read-only handle of the same lab.
    #[must_use]
    pub fn observer(&self) -> Observer {
        self.0.clone()
    }

    /// Sets effects on both directions of a link, or on the egress of a port. Returns when they are in force. If the request
    /// asks for it, computed routes have followed by then.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::NoAnswer`].
    pub fn set_link(&self, order: SetLink) -> Result<LinkSet, Error> {
        self.ask(|mut client| client.set_link(order))
    }

    /// Fails, stops or pauses nodes, or undoes it. With `wait` it returns when computed routes avoid links that failed.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::NoAnswer`].
    pub fn set_nodes(
        &self,
        nodes: Vec<String>,
        change: NodeChange,
        wait: bool,
    ) -> Result<NodesSet, Error> {
        self.ask(|mut client| client.set_nodes(nodes, change, wait))
    }

    /// Compares a changed scenario with the one that the lab runs and, unless a change is refused, has the lab run the changed
    /// one. With `dry_run` nothing is changed. Other files of the scenario are looked for beside its file.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::NoAnswer`]; [`Error::Process`] if the working folder is gone.
    pub fn apply(&self, scenario: &Scenario, dry_run: bool) -> Result<Applied, Error> {
        let folder = Path::new(&scenario.file).parent().unwrap_or(Path::new(""));
        let folder = std::path::absolute(Path::new(".").join(folder)).map_err(Error::Process)?;
        let order = ApplyOrder {
            text: scenario.text.clone(),
            file: scenario.file.clone(),
            folder,
            dry_run,
        };
        self.apply_order(order)
    }

    /// As [`Self::apply`], for a scenario as text.
    ///
    /// # Errors
    /// [`Error::Refused`], also if the scenario is not valid; [`Error::NoAnswer`].
    pub fn apply_order(&self, order: ApplyOrder) -> Result<Applied, Error> {
        self.ask(|mut client| client.apply(order))
    }

    /// Changes how stations choose their satellites.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::NoAnswer`].
    pub fn set_station(
        &self,
        stations: Vec<String>,
        change: StationChange,
    ) -> Result<StationsSet, Error> {
        self.ask(|mut client| client.set_station(stations, change))
    }

    /// Brings a member into its network, or takes it out: it keeps its port, and has no edges there. Returns when that is in force and
    /// computed routes have followed.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::NoAnswer`].
    pub fn set_member(&self, network: &str, node: &str, joined: bool) -> Result<MemberSet, Error> {
        self.ask(|mut client| client.set_member(network, node, joined))
    }

    /// Sets the delays of a file on the edges of a network, all at one instant. The file is a matrix or a table like those
    /// of `law: {matrix: ...}`, with delays only. An edge whose cell is empty or missing keeps its delay.
    ///
    /// # Errors
    /// [`Error::Scenario`] if the file is wrong, with the line of each mistake; [`Error::Refused`], [`Error::NoAnswer`].
    pub fn set_delays(&self, network: &str, file: &Path) -> Result<DelaysSet, Error> {
        let shown = self.networks()?.into_iter().find(|n| n.network == network);
        // If the node belongs to no network, the lab reports that.
        let members = shown.map_or_else(Vec::new, |n| n.members);
        let members: Vec<String> = members.into_iter().map(|member| member.node).collect();
        let text = files::read_text(file).map_err(|source| Error::NoDocument {
            path: file.to_owned(),
            source,
        })?;
        let file = TextFile::alone(&file.display().to_string(), &text);
        let edges = constel_plan::read_delays(&file, &members).map_err(Error::Scenario)?;
        let mut square = vec![vec![None; members.len()]; members.len()];
        for (from, to, delay_ns) in edges {
            square[from][to] = Some(delay_ns);
        }
        self.ask(|mut client| client.set_delays(network, Some(square)))
    }

    /// Removes the delays of [`Lab::set_delays`].
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::NoAnswer`].
    pub fn reset_delays(&self, network: &str) -> Result<DelaysSet, Error> {
        self.ask(|mut client| client.set_delays(network, None))
    }

    /// Breaks a link: arriving and waiting frames are dropped, and frames in flight still arrive.
    ///
    /// # Errors
    /// As [`Self::set_link`].
    pub fn fail(&self, a: &str, b: Option<&str>) -> Result<LinkSet, Error> {
        self.set_link(SetLink::new(a, b, Effects::failed(true)))
    }

    /// Undoes [`Self::fail`]; other effects stay.
    ///
    /// # Errors
    /// As [`Self::set_link`].
    pub fn heal(&self, a: &str, b: Option<&str>) -> Result<LinkSet, Error> {
        self.set_link(SetLink::new(a, b, Effects::failed(false)))
    }

    /// Sets a user file of a node, which the node sees as `/run/constel/user/NAME`. Without a text, removes the file.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::NoAnswer`].
    pub fn user_file(
        &self,
        node: &str,
        name: &str,
        text: Option<String>,
    ) -> Result<UserFileSet, Error> {
        self.ask(|mut client| client.user_file(node, name, text))
    }

    /// Sends data to the programs of a node that read its information stream.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::NoAnswer`].
    pub fn command(&self, node: &str, data: serde_json::Value) -> Result<CommandSent, Error> {
        self.ask(|mut client| client.command(node, data))
    }

    /// Changes the rules of a box in one instant.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::NoAnswer`].
    pub fn change_rules(&self, change: RuleChange) -> Result<RulesChanged, Error> {
        self.ask(|mut client| client.change_rules(change))
    }

    /// Shows frames as they pass, until `stop` is true or the lab ends.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::NoAnswer`].
    pub fn capture<'a>(
        &self,
        order: CaptureOrder,
        stop: &'a AtomicBool,
    ) -> Result<(Capturing, CaptureStream<'a>), Error> {
        self.ask(|client| client.capture(order, stop))
    }

    /// Lets a box go on that would take itself down.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::NoAnswer`].
    pub fn confirm(&self) -> Result<(), Error> {
        self.ask(|mut client| client.confirm())
    }

    /// Has the lab taken down by its own process, and waits until it is gone. A lab of `constel up` is gone when its process has
    /// removed its record.
    ///
    /// # Errors
    /// [`Error::DiedGoingDown`]; [`Error::NotDown`] after three minutes; [`Error::NoAnswer`].
    pub fn down(&self) -> Result<(), Error> {
        let record = match self.entry.pid() {
            Some(other) if other != std::process::id() => staying::of_process(&self.name, other)?,
            _ => None,
        };
        self.ask(|mut client| client.down())?;
        let end = Instant::now() + DOWN_WITHIN;
        let wait = || match Instant::now() > end {
            true => Err(Error::NotDown {
                lab: self.name.clone(),
                within: DOWN_WITHIN,
            }),
            false => {
                std::thread::sleep(DOWN_LOOK);
                Ok(())
            }
        };
        let runtime = RuntimeDir::default();
        let this = |now: &LabEntry| now.pid() == self.entry.pid();
        while let Some(now) = runtime.find(&self.entry.lab)?.filter(this) {
            if state_of(&now) == LabState::Dead {
                return Err(Error::DiedGoingDown(self.name.clone()));
            }
            wait()?;
        }
        // Another lab of this name could otherwise start before, and lose its record to this one's process.
        if let Some(record) = record {
            while !record.is_over()? {
                wait()?;
            }
        }
        Ok(())
    }
}
