//! Labs for the tests of this crate.

use std::net::UdpSocket;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use constel_api::{Event, Next, Subscription};
use constel_cluster::crossing::{Crossing, Endpoint, LabTime, Machine, Wire};
use constel_plan::{Blueprint, Lab};

use crate::answers::by_hand::ManualChange;
use crate::answers::orders::ScheduledChange;
use crate::clock::mono_ns;
use crate::error::EngineError;
use crate::life::losses::Change;
use crate::life::together::{ClusterPart, Gate, PartReady};
use crate::progress::Progress;

/// Progress without an observer.
pub(crate) struct Silent;

impl Progress for Silent {
    fn stage(&self, _: &str, _: u64, _: u64, _: &str) {}
    fn say(&self, _: &str) {}
}

/// Returns the lab of a scenario's text.
pub(crate) fn lab(text: &str) -> Lab {
    // The folder is that of the shipped scenarios, whose data the text may name.
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/test.yaml");
    let parsed = constel_scenario::parse(path, text).unwrap_or_else(|e| panic!("{e}"));
    let files = constel_scenario::DiskFiles::beside(path);
    let scenario = constel_scenario::resolve(&parsed, &files).unwrap_or_else(|e| panic!("{e}"));
    Lab::new(scenario).unwrap_or_else(|e| panic!("{e}"))
}

/// Returns the text of a shipped scenario.
pub(crate) fn shipped(name: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/");
    std::fs::read_to_string(format!("{root}{name}.yaml")).unwrap()
}

/// Returns the text of the shipped Iridium scenario with computed routes.
pub(crate) fn computed_iridium() -> String {
    let text = shipped("iridium").replace("mode: bird", "mode: computed");
    text.replace("  ospf: {hello: 1 s, dead: 4 s}\n", "")
}

/// Returns the blueprint of a scenario's text.
pub(crate) fn blueprint(text: &str) -> Blueprint {
    Blueprint::new(lab(text)).unwrap_or_else(|e| panic!("{e}"))
}

/// Returns the shipped Iridium lab.
pub(crate) fn iridium() -> Blueprint {
    blueprint(&shipped("iridium"))
}

/// Returns all events that a follower gets without waiting.
pub(crate) fn told(events: &mut Subscription) -> Vec<Event> {
    let next = || match events.next(Some(Duration::ZERO)) {
        Next::Event(event) => Some(event),
        Next::Nothing | Next::Ended => None,
    };
    std::iter::from_fn(next).collect()
}

/// Returns the part of machine `own`, which has every second node; the others are on `other`.
pub(crate) fn on_two_machines(blueprint: &Blueprint) -> ClusterPart {
    let socket = || UdpSocket::bind("127.0.0.1:0").unwrap();
    let (ours, theirs) = (socket(), socket());
    let machine = |name: &str, socket: &UdpSocket| Machine {
        name: name.to_owned(),
        address: Endpoint::Udp(socket.local_addr().unwrap()),
        token: 1,
    };
    ClusterPart {
        lab: "lab".to_owned(),
        here: 0,
        machines: vec![machine("own", &ours), machine("other", &theirs)],
        machine_of: (0..blueprint.lab.layout.nodes().len())
            .map(|n| n % 2)
            .collect(),
        number: 1,
        session: 1,
        workers: NonZeroU32::MIN,
        ahead_ns: 1_000_000,
        key: None,
        wire: Wire::Udp(ours),
        time: LabTime::new(0),
        gate: Arc::new(OpenGate),
    }
}

/// This gate never waits.
pub(crate) struct OpenGate;

impl Gate for OpenGate {
    fn standing(&self, _: &PartReady, _: &AtomicBool) -> Result<u64, EngineError> {
        Ok(mono_ns() + 100_000_000)
    }

    fn crossing(&self, _: &Arc<Crossing>) {}

    fn changes(&self) -> Vec<Change> {
        Vec::new()
    }

    fn took(&self, _: usize, _: Option<&str>) {}

    fn order(&self, _: u64, _: &ManualChange) {}

    fn set_together(&self, _: usize, within: Duration) -> Option<ScheduledChange> {
        std::thread::sleep(within);
        None
    }

    fn doubts(&self) -> Vec<String> {
        Vec::new()
    }
}
