//! The source of the view: a scenario, a running lab, a finished run or a box.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use constel_api::{ApiError, ErrorCode, Event};
use constel_control::results::Run;
use constel_control::{Error, Lab, Scenario};
use constel_link::PortId;
use constel_plan::Lab as Planned;

use crate::ahead::Ahead;
use crate::changes::is_by_hand;
use crate::live::Feed;
use crate::sky::Skies;
use crate::views::{
    ConstellationView, FlowView, MemberView, Mode, NetworkView, NodeView, Timeline, World,
};

/// The source of the view.
pub struct Source {
    pub(crate) of: Of,
    pub(crate) skies: Option<Skies>,
    name: String,
    file: String,
    warnings: Vec<String>,
}

pub(crate) enum Of {
    Plan(Option<Arc<Ahead>>),
    Lab {
        lab: Box<Lab>,
        feed: Option<Arc<Feed>>,
        /// Folder of its results. A box has none to show.
        results: Option<PathBuf>,
    },
    Run {
        run: Run,
        events: Vec<Event>,
    },
}

impl Source {
    /// A scenario, without a lab. No root is needed.
    #[must_use]
    pub fn plan(scenario: Scenario) -> Self {
        Self {
            name: scenario.lab.scenario.name.to_string(),
            file: scenario.file.clone(),
            warnings: scenario.age_warnings().collect(),
            skies: Some(Skies::new(scenario.lab)),
            of: Of::Plan(None),
        }
    }

    /// The scenario with which a new one begins. It has no file, by which the page knows that a scenario is to be built.
    ///
    /// # Errors
    /// If the scenario is not valid, which a test excludes.
    pub fn draft() -> Result<Self, Error> {
        let first = include_bytes!("first.yaml");
        Scenario::given("", first, Vec::new()).map(Self::plan)
    }

    /// A running lab or box.
    ///
    /// # Errors
    /// If it does not answer, or other files of its scenario have changed.
    pub fn lab(lab: Lab) -> Result<Self, Error> {
        let shown = match lab.scenario() {
            Ok(shown) => Some(shown),
            Err(Error::Refused(ApiError {
                code: ErrorCode::NotALab,
                ..
            })) => None,
            Err(error) => return Err(error),
        };
        let scenario = shown
            .as_ref()
            .map(|shown| Scenario::from_text(&shown.file, &shown.text, &shown.folder))
            .transpose()?;
        let (file, results) = match shown {
            Some(shown) => (shown.file, Some(shown.results)),
            None => (String::new(), None),
        };
        Ok(Self {
            name: lab.name().to_owned(),
            file,
            warnings: scenario.iter().flat_map(Scenario::age_warnings).collect(),
            skies: scenario.map(|scenario| Skies::new(scenario.lab)),
            of: Of::Lab {
                lab: Box::new(lab),
                feed: None,
                results,
            },
        })
    }

    /// Opens a run that has ended. The scenario is read from its results, and the files that the scenario names from their
    /// original paths.
    ///
    /// # Errors
    /// If documents are missing or invalid.
    pub fn run(run: Run) -> Result<Self, Error> {
        if run.head()?.is_box() {
            return Err(Error::NotShown(run.dir().to_owned()));
        }
        let manifest = run.manifest()?;
        let events = run.events()?.collect::<Result<Vec<_>, _>>()?;
        let path = run.dir().join("scenario.yaml");
        let text = constel_units::files::read_text(&path).map_err(|source| Error::NoDocument {
            path: path.clone(),
            source,
        })?;
        let file = manifest
            .inputs
            .first()
            .map_or_else(String::new, |input| input.path.clone());
        let folder = Path::new(&file)
            .parent()
            .unwrap_or(Path::new(""))
            .to_owned();
        let scenario = Scenario::from_text(&path.display().to_string(), &text, &folder)?;
        let mut warnings: Vec<String> = scenario.age_warnings().collect();
        // The first is the scenario itself, of which the results have the text.
        let now = scenario.lab.scenario.inputs.iter();
        for then in manifest.inputs.iter().skip(1) {
            if !now
                .clone()
                .any(|now| now.path == then.path && now.sha256 == then.sha256)
            {
                warnings.push(format!(
                    "{} is not what it was when this ran: the sky may be another",
                    then.path
                ));
            }
        }
        Ok(Self {
            name: manifest.lab,
            file: run.dir().display().to_string(),
            warnings,
            skies: Some(Skies::new(scenario.lab)),
            of: Of::Run { run, events },
        })
    }

    /// Starts the background work of the server, until `stop`.
    ///
    /// # Errors
    /// When there can be no thread.
    pub(crate) fn begin(&mut self, stop: &Arc<AtomicBool>) -> std::io::Result<()> {
        match (&mut self.of, &self.skies) {
            (Of::Plan(ahead), Some(skies)) => {
                *ahead = Some(Ahead::begin(skies.lab.clone(), Arc::clone(stop))?);
            }
            (Of::Lab { lab, feed, .. }, _) => {
                *feed = Some(Feed::begin(lab.as_ref().clone(), Arc::clone(stop))?);
            }
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn mode(&self) -> Mode {
        match (&self.of, &self.skies) {
            (_, None) => Mode::Box,
            (Of::Plan(_), _) => Mode::Plan,
            (Of::Lab { .. }, _) => Mode::Lab,
            (Of::Run { .. }, _) => Mode::Run,
        }
    }

    /// The lab, or the scenario.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether a text names a node.
    pub(crate) fn has_node(&self, text: &str) -> bool {
        self.skies
            .as_ref()
            .is_some_and(|skies| skies.find(text).is_ok())
    }

    /// Events of a plan or a run, from a place of their list on.
    pub(crate) fn timeline(&self, from: usize) -> Timeline {
        match &self.of {
            Of::Plan(Some(ahead)) => ahead.timeline(from),
            Of::Run { events, .. } => {
                let last = events.iter().rev().find_map(|event| event.t_ns);
                Timeline {
                    events: events.get(from..).unwrap_or_default().to_vec(),
                    until_ns: last.unwrap_or(0) as f64,
                    complete: true,
                }
            }
            Of::Lab {
                feed: Some(feed), ..
            } => feed.timeline(from),
            Of::Plan(None) | Of::Lab { feed: None, .. } => Timeline {
                events: Vec::new(),
                until_ns: 0.0,
                complete: false,
            },
        }
    }

    /// Returns the changes by hand of a lab or a run; a plan has none.
    pub(crate) fn by_hand(&self) -> Vec<Event> {
        match &self.of {
            Of::Run { events, .. } => {
                let own = events.iter().filter(|event| is_by_hand(event));
                own.cloned().collect()
            }
            Of::Lab {
                feed: Some(feed), ..
            } => feed.by_hand(),
            Of::Plan(_) | Of::Lab { feed: None, .. } => Vec::new(),
        }
    }

    /// All that no step changes.
    pub(crate) fn world(&self, may_write: bool, may_shell: bool) -> World {
        let mut world = World {
            constel: env!("CARGO_PKG_VERSION").to_owned(),
            mode: self.mode(),
            name: self.name.clone(),
            file: self.file.clone(),
            description: String::new(),
            start_ms: 0.0,
            step_ns: 1e9,
            duration_ns: 0.0,
            max_lateness_ns: 0.0,
            networks: Vec::new(),
            may_write: may_write && matches!(self.of, Of::Lab { .. }),
            may_shell: may_shell && self.mode() == Mode::Lab,
            nodes: Vec::new(),
            link_kinds: Vec::new(),
            constellations: Vec::new(),
            flows: Vec::new(),
            warnings: self.warnings.clone(),
        };
        if let Some(skies) = &self.skies {
            describe(&mut world, &skies.lab);
            let management = match &self.of {
                // The subnet of a running lab follows from the lab's name.
                Of::Lab { .. } => skies.lab.management(&self.name),
                Of::Plan(_) | Of::Run { .. } => None,
            };
            if let Some(management) = management {
                for (node, address) in management.nodes {
                    world.nodes[node.index()].management = Some(address.to_string());
                }
            }
        }
        world
    }
}

fn describe(world: &mut World, lab: &Planned) {
    let (layout, scenario) = (&lab.layout, &lab.scenario);
    world.description = scenario.description.clone();
    world.start_ms = scenario.start.unix_ns() as f64 / 1e6;
    world.step_ns = lab.step_ns() as f64;
    world.duration_ns = scenario.duration.ns() as f64;
    world.max_lateness_ns = scenario.max_lateness.ns() as f64;
    world.networks = networks(lab);
    world.nodes = nodes(lab);
    world.link_kinds = layout
        .edge_classes()
        .iter()
        .map(|class| class.name.to_owned())
        .collect();
    world.constellations = constellations(lab);
    world.flows = flows(lab);
}

fn networks(lab: &Planned) -> Vec<NetworkView> {
    let layout = &lab.layout;
    let (away, _) = lab.absent_at_start();
    let member = |port: &PortId| MemberView {
        node: layout.port(*port).node.index(),
        port: port.0,
        away: !away.is_in(*port),
    };
    let networks = layout.spec().networks.iter().enumerate();
    let network = |(place, network): (usize, &constel_topology::Network)| NetworkView {
        name: network.name.clone(),
        members: layout.network_ports(place).iter().map(member).collect(),
    };
    networks.map(network).collect()
}

fn nodes(lab: &Planned) -> Vec<NodeView> {
    let node = |node: &constel_topology::Node| {
        let called = lab.catalogue.of(node.id);
        NodeView {
            name: node.name.clone(),
            kind: node.class.name.to_owned(),
            catalogue_name: called.and_then(|called| called.catalogue_name.clone()),
            norad_id: called.and_then(|called| called.norad_id),
            constellation: node.seat.map(|seat| seat.constellation),
            seat: node.seat.map(|seat| [seat.shell, seat.plane, seat.slot]),
            management: None,
        }
    };
    lab.layout.nodes().iter().map(node).collect()
}

fn constellations(lab: &Planned) -> Vec<ConstellationView> {
    let (layout, scenario) = (&lab.layout, &lab.scenario);
    let spec = layout.spec();
    let constellation = |(place, constellation): (usize, &constel_topology::Constellation)| {
        let stations = 0..spec.stations.len();
        let masks = stations.filter_map(|station| layout.lowest_mask_deg(station, place));
        ConstellationView {
            name: scenario
                .constellations
                .get(place)
                .map_or_else(String::new, |k| k.name.to_string()),
            satellites: constellation.satellites.len(),
            mask_deg: masks.reduce(f64::min),
        }
    };
    spec.constellations
        .iter()
        .enumerate()
        .map(constellation)
        .collect()
}

fn flows(lab: &Planned) -> Vec<FlowView> {
    let flow = |flow: &constel_scenario::model::Flow| {
        let (from, to) = flow.action.ends()?;
        Some(FlowView {
            name: flow.name.to_string(),
            from: from.to_string(),
            to: to.to_string(),
        })
    };
    lab.scenario.traffic.iter().filter_map(flow).collect()
}
