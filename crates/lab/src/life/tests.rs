//! Whole runs without a kernel: nodes, ports and links of memory, as any user.

mod policy;
mod steered;

use std::cell::RefCell;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use constel_api::EventData;
use constel_containers::runtime::NodeRuntime;
use constel_containers::runtime::memory::MemoryRuntime;
use constel_drivers::memory::{Call, Memory};
use constel_drivers::{Chosen, DriverKind, Plane, PlaneConfig};
use constel_host::claim::{Claim, RuntimeDir};
use constel_link::PortId;
use constel_plan::{Blueprint, Lab, LocalNodes};
use constel_topology::Port;

use crate::clock::mono_ns;
use crate::error::EngineError;
use crate::life::options::{Finished, Options};
use crate::life::run::run_on;
use crate::life::site::{Ground, Site};
use crate::life::together::ClusterPart;
use crate::nodes::cgroups::Cgroups;
use crate::nodes::images::Images;
use crate::nodes::ports::{PortHand, PortMaker};
use crate::progress::Progress;
use crate::routing::forwarding::Forwarding;
use crate::testing::{Silent, blueprint, computed_iridium, lab, on_two_machines, told};
use crate::watch::event_log::EventLog;

/// A machine of memory; clones share it.
#[derive(Clone, Default)]
struct Paper {
    runtime: MemoryRuntime,
    planes: Rc<RefCell<Vec<Memory>>>,
    /// Calls of the link plane that fail.
    failing: Vec<(Call, usize)>,
    processes_ended: Rc<RefCell<usize>>,
    init_ended: bool,
}

impl Site for Paper {
    fn make_room(&self, _: &Blueprint) -> Result<Cgroups, EngineError> {
        Ok(Cgroups::default())
    }

    fn hurried(
        &self,
        work: &mut dyn FnMut() -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        work()
    }

    fn plane(&self, config: &PlaneConfig) -> Result<Box<dyn Plane>, EngineError> {
        let plane = Memory::new(DriverKind::Relay, config.ports, config.seed, mono_ns);
        for &(call, n) in &self.failing {
            plane.fail_at(call, n);
        }
        self.planes.borrow_mut().push(plane.clone());
        Ok(Box::new(plane))
    }

    fn images(
        &self,
        blueprint: &Blueprint,
        ours: &LocalNodes,
        progress: &dyn Progress,
    ) -> Result<Arc<Images>, EngineError> {
        Ok(Arc::new(Images::hold(
            (&blueprint.lab, ours),
            Path::new(""),
            progress,
        )?))
    }

    fn runtime(
        &self,
        _: &Arc<Blueprint>,
        _: &LocalNodes,
        _: &Arc<Images>,
    ) -> Result<Box<dyn NodeRuntime>, EngineError> {
        Ok(Box::new(self.runtime.clone()))
    }

    fn ports<'a>(
        &self,
        plane: &'a dyn Plane,
        _: bool,
        _: Option<Arc<Forwarding>>,
    ) -> Box<dyn PortMaker + 'a> {
        Box::new(PaperPorts(plane))
    }

    fn end_processes(&self) -> Result<(), EngineError> {
        *self.processes_ended.borrow_mut() += 1;
        Ok(())
    }

    fn init_ended(&self) -> Result<Option<String>, EngineError> {
        Ok(self.init_ended.then(|| "the lab's init ended".to_owned()))
    }
}

/// Ports that only the plane knows.
struct PaperPorts<'a>(&'a dyn Plane);

impl PortMaker for PaperPorts<'_> {
    fn hand(&self) -> Box<dyn PortHand + '_> {
        Box::new(PaperHand)
    }

    fn prepare(&self, _: &[Port], _: bool) -> Result<(), EngineError> {
        Ok(())
    }

    fn attach(&self, ports: &[PortId]) -> Result<(), EngineError> {
        Ok(self.0.attach(ports)?)
    }

    fn wait_removed(&self, _: &[PortId]) -> Result<(), EngineError> {
        Ok(())
    }
}

struct PaperHand;

impl PortHand for PaperHand {
    fn add(&mut self, _: &Blueprint, _: &Port, _: BorrowedFd<'_>) -> Result<(), EngineError> {
        Ok(())
    }

    fn make(&mut self) -> Result<(), EngineError> {
        Ok(())
    }
}

/// Requests a stop as soon as a stage of this name begins.
struct StopAt<'a>(&'a str, Arc<AtomicBool>);

impl Progress for StopAt<'_> {
    fn stage(&self, name: &str, _: u64, _: u64, _: &str) {
        if name == self.0 {
            self.1.store(true, Ordering::Release);
        }
    }

    fn say(&self, _: &str) {}
}

/// Runs two seconds of Iridium with computed routes on this machine, in this folder.
fn run(
    paper: &Paper,
    folder: &Path,
    stop: &Arc<AtomicBool>,
    progress: &dyn Progress,
) -> (Result<Finished, EngineError>, Arc<EventLog>) {
    run_part(paper, folder, stop, progress, None)
}

/// Runs it as one of several machines.
fn run_part(
    paper: &Paper,
    folder: &Path,
    stop: &Arc<AtomicBool>,
    progress: &dyn Progress,
    together: Option<ClusterPart>,
) -> (Result<Finished, EngineError>, Arc<EventLog>) {
    let lasts = (&*computed_iridium(), Some(2_000_000_000));
    run_text(paper, folder, stop, progress, together, lasts)
}

/// Runs the lab of a text for this lab time, nanoseconds, or until it is stopped.
fn run_text(
    paper: &Paper,
    folder: &Path,
    stop: &Arc<AtomicBool>,
    progress: &dyn Progress,
    together: Option<ClusterPart>,
    (text, duration_ns): (&str, Option<u64>),
) -> (Result<Finished, EngineError>, Arc<EventLog>) {
    let options = Options {
        together,
        duration_ns,
        stop: Arc::clone(stop),
        ..options(text, folder)
    };
    run_with(paper, folder, lab(text), &options, progress)
}

/// The options of two seconds of lab time, without traffic.
fn options(text: &str, folder: &Path) -> Options {
    Options {
        lab: "paper".parse().unwrap(),
        scenario_file: "scenarios/test.yaml".to_owned(),
        scenario_text: text.to_owned(),
        results: folder.join("results"),
        duration_ns: Some(2_000_000_000),
        traffic: false,
        anyway: false,
        profile_hz: None,
        await_policy: false,
        together: None,
        stop: Arc::default(),
        events: Arc::default(),
    }
}

fn run_with(
    paper: &Paper,
    folder: &Path,
    lab: Lab,
    options: &Options,
    progress: &dyn Progress,
) -> (Result<Finished, EngineError>, Arc<EventLog>) {
    let driver = Chosen {
        kind: DriverKind::Relay,
        why: "a test".to_owned(),
    };
    let runtime = RuntimeDir::at(folder.join("run"));
    let ground: &Ground<'_> = &|_: &Claim, _: &Path| -> Box<dyn Site> { Box::new(paper.clone()) };
    let ran = run_on(ground, &runtime, lab, &driver, options, progress);
    assert_eq!(paper.runtime.alive(), 0, "no node is left");
    assert!(runtime.list().unwrap().is_empty(), "the name is free");
    (ran, Arc::clone(&options.events))
}

#[test]
fn a_run_comes_up_steps_and_goes_down() {
    let (paper, folder) = (Paper::default(), tempfile::tempdir().unwrap());
    let (ran, events) = run(&paper, folder.path(), &Arc::default(), &Silent);
    let finished = ran.unwrap();
    let summary = &finished.summary;
    assert_eq!((summary.size.nodes, summary.size.ports), (80, 344));
    assert!(summary.convergence.first_s.is_some(), "every route stands");
    assert!(summary.lab_time_ns >= 2_000_000_000);
    assert!(!summary.interrupted);
    assert_eq!(summary.fidelity.failures, [""; 0]);
    for name in [
        "manifest.json",
        "scenario.yaml",
        "events.ndjson",
        "summary.json",
        "series.csv",
    ] {
        assert!(finished.results.join(name).exists(), "{name}");
    }
    assert!(
        !finished.results.join("nodes").exists(),
        "no node kept anything"
    );
    let plane = &paper.planes.borrow()[0];
    assert_eq!(plane.attached().len(), 344);
    assert_eq!(*paper.processes_ended.borrow(), 1);
    let happened = told(&mut events.follow());
    let has = |wanted: fn(&EventData) -> bool| happened.iter().any(|event| wanted(&event.what));
    assert!(has(|what| matches!(what, EventData::Running { .. })));
    assert!(has(|what| matches!(what, EventData::Finished { .. })));
}

#[test]
fn drivers_that_cannot_cross_refuse_a_lab_on_several_machines() {
    let (paper, folder) = (Paper::default(), tempfile::tempdir().unwrap());
    let together = on_two_machines(&blueprint(&computed_iridium()));
    let stop = Arc::default();
    let (ran, _) = run_part(&paper, folder.path(), &stop, &Silent, Some(together));
    let error = ran.unwrap_err().to_string();
    assert!(
        error.contains("only the driver relay carries frames"),
        "{error}"
    );
}

#[test]
fn what_fails_on_the_way_up_or_in_lab_time_leaves_nothing() {
    let stages = [
        (Call::Start, 1, "Start"),
        (Call::Submit, 1, "Submit"),
        // The third update belongs to a step of lab time.
        (Call::Submit, 3, "Submit"),
    ];
    for (call, n, words) in stages {
        let folder = tempfile::tempdir().unwrap();
        let paper = Paper {
            failing: vec![(call, n)],
            ..Paper::default()
        };
        let (ran, _) = run(&paper, folder.path(), &Arc::default(), &Silent);
        let error = ran.err().map(|error| error.to_string());
        assert!(
            error.as_ref().is_some_and(|e| e.contains(words)),
            "{error:?}"
        );
    }
    let (paper, folder) = (Paper::default(), tempfile::tempdir().unwrap());
    paper.runtime.fail_at_node(37);
    let (ran, _) = run(&paper, folder.path(), &Arc::default(), &Silent);
    assert!(ran.unwrap_err().to_string().contains("node 37"));
}

#[test]
fn a_run_that_is_told_to_stop_early_says_so() {
    let (paper, folder) = (Paper::default(), tempfile::tempdir().unwrap());
    let stop = Arc::<AtomicBool>::default();
    let progress = StopAt("nodes and ports", Arc::clone(&stop));
    let (ran, _) = run(&paper, folder.path(), &stop, &progress);
    assert!(matches!(ran, Err(EngineError::Interrupted)), "{ran:?}");
    assert_eq!(
        *paper.processes_ended.borrow(),
        1,
        "whatever it had started"
    );
}

#[test]
fn a_lab_whose_init_ended_is_not_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let paper = Paper {
        init_ended: true,
        ..Paper::default()
    };
    let (ran, _) = run(&paper, folder.path(), &Arc::default(), &Silent);
    let summary = ran.unwrap().summary;
    assert_eq!(summary.fidelity.failures, ["the lab's init ended"]);
    assert!(!summary.verdict.trustworthy);
}
