//! A lab that runs in this process.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::SystemTime;

use constel_api::{Event, Next, Subscription};
use constel_host::claim::LabName;
use constel_lab::{ClusterPart, EngineError, EventLog, Options, Progress};
use constel_scenario::model::{Orbits, Scenario as Model};
use constel_units::Utc;

use crate::error::Error;
use crate::node::require_privilege;
use crate::scenario::Scenario;

pub use constel_lab::Finished;

/// Threads that bring labs up go as deep as a main thread may.
const STACK_BYTES: usize = 8 << 20;

/// The end of a lab for which no lab time is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum End {
    /// After the scenario's duration. A scenario without one is refused.
    #[default]
    Scenario,
    /// After the scenario's duration, if it has one; otherwise when the lab is taken down.
    ScenarioOrNever,
    /// When the lab is taken down.
    Never,
}

/// The options of a run. Default: the scenario's values.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Name of the lab. Default: the scenario's name.
    pub name: Option<String>,
    /// Folder for the results, which must not exist. Default: `results/<lab>-<UTC time>`.
    pub results: Option<PathBuf>,
    /// Lab time to run instead of the scenario's duration, nanoseconds.
    pub duration_ns: Option<NonZeroU64>,
    /// The end without `duration_ns`.
    pub end: End,
    /// Whether the scenario's traffic runs.
    pub traffic: bool,
    /// Whether to try even if [`Scenario::here`] reports that the lab will not fit.
    pub anyway: bool,
    /// Whether lab time begins only when a live policy has joined.
    pub await_policy: bool,
    /// How often a second the counters of all interfaces are written down; `None`: never.
    pub profile_hz: Option<NonZeroU32>,
    /// Ends the run when it is set, as [`Running::stop`] does; for handlers of signals.
    pub stop: Arc<AtomicBool>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            name: None,
            results: None,
            duration_ns: None,
            end: End::default(),
            traffic: true,
            anyway: false,
            await_policy: false,
            profile_hz: None,
            stop: Arc::default(),
        }
    }
}

impl RunOptions {
    /// Returns the lab time of a run of this scenario, nanoseconds; `None` without an end.
    ///
    /// # Errors
    /// [`Error::NoEnd`], [`Error::NeedsEnd`].
    pub(crate) fn lab_time_ns(&self, scenario: &Model) -> Result<Option<u64>, Error> {
        if let Some(ns) = self.duration_ns {
            return Ok(Some(ns.get()));
        }
        match (self.end, scenario.has_end) {
            (End::Scenario, false) => Err(Error::NoEnd),
            (End::Scenario | End::ScenarioOrNever, true) => {
                Ok(Some(scenario.duration.ns().unsigned_abs()))
            }
            (End::ScenarioOrNever | End::Never, _) => {
                let mut formations = scenario.constellations.iter();
                match formations.find(|own| matches!(own.orbits, Orbits::Formation(_))) {
                    Some(own) => Err(Error::NeedsEnd(own.name.to_string())),
                    None => Ok(None),
                }
            }
        }
    }
}

/// A progress listener that ignores everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quiet;

impl Progress for Quiet {
    fn stage(&self, _: &str, _: u64, _: u64, _: &str) {}
    fn say(&self, _: &str) {}
}

/// A lab of this process, from the reservation of its name on. Dropping it takes the lab down and waits for that.
#[derive(Debug)]
pub struct Running {
    name: LabName,
    results: PathBuf,
    duration_ns: Option<u64>,
    stop: Arc<AtomicBool>,
    events: Arc<EventLog>,
    thread: Option<JoinHandle<Result<Finished, EngineError>>>,
}

/// Events of a lab in their order, from its first to its last.
#[derive(Debug)]
pub struct EventStream(Subscription);

impl Iterator for EventStream {
    type Item = Event;

    /// Waits for the next event; `None` when the lab is down.
    fn next(&mut self) -> Option<Event> {
        match self.0.next(None) {
            Next::Event(event) => Some(event),
            Next::Nothing | Next::Ended => None,
        }
    }
}

impl Scenario {
    /// Starts a lab in threads of this process. Errors show in [`Running::wait`], except for those that are known before
    /// anything is created.
    ///
    /// # Errors
    /// [`Error::BadLabName`], [`Error::Unprivileged`], [`Error::NoEnd`], [`Error::NeedsEnd`], [`Error::Thread`].
    pub fn start(self, options: RunOptions, progress: Arc<dyn Progress>) -> Result<Running, Error> {
        let asked = options.name.clone();
        let name = asked.unwrap_or_else(|| self.lab.scenario.name.to_string());
        let name: LabName = name
            .parse()
            .map_err(|error: constel_host::Error| Error::BadLabName(error.to_string()))?;
        require_privilege()?;
        self.start_as(name, options, None, progress)
    }

    /// This machine's part of a lab on several, under a name that the lab has on this machine.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub(crate) fn start_as(
        self,
        name: LabName,
        options: RunOptions,
        together: Option<ClusterPart>,
        progress: Arc<dyn Progress>,
    ) -> Result<Running, Error> {
        let duration_ns = options.lab_time_ns(&self.lab.scenario)?;
        let results = options
            .results
            .unwrap_or_else(|| default_results(name.as_str()));
        let (stop, events) = (options.stop, Arc::<EventLog>::default());
        let options = Options {
            lab: name.clone(),
            scenario_file: self.file,
            scenario_text: self.text,
            results: results.clone(),
            duration_ns,
            traffic: options.traffic,
            anyway: options.anyway,
            await_policy: options.await_policy,
            profile_hz: options.profile_hz,
            together,
            stop: Arc::clone(&stop),
            events: Arc::clone(&events),
        };
        let lab = self.lab;
        let thread = std::thread::Builder::new()
            .name("lab".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                // Followers must not wait for a lab that has ended, whatever the reason.
                let _closed = Closing(Arc::clone(&options.events));
                constel_lab::run(lab, &options, progress.as_ref())
            })
            .map_err(Error::Thread)?;
        Ok(Running {
            name,
            results,
            duration_ns,
            stop,
            events,
            thread: Some(thread),
        })
    }
}

/// Ends the streams of an event log when it goes.
struct Closing(Arc<EventLog>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Running {
    /// The lab's name; [`Lab::attach`](crate::Lab::attach) finds it by that.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Returns the folder for the results, as requested.
    #[must_use]
    pub fn results(&self) -> &Path {
        &self.results
    }

    /// Returns the lab time of the run, nanoseconds; `None` without an end.
    #[must_use]
    pub fn duration_ns(&self) -> Option<u64> {
        self.duration_ns
    }

    /// Returns all events from the first one, as they occur. Any number of readers may follow, at any time. A reader that
    /// starts late or falls far behind gets the name of the file with the missed events
    /// ([`Happening::Older`](constel_api::EventData::Older)).
    #[must_use]
    pub fn events(&self) -> EventStream {
        EventStream(self.events.follow())
    }

    /// Requests that the lab be taken down, and returns at once.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Waits until the lab is down again.
    ///
    /// # Errors
    /// [`Error::Run`] with the reason why it did not run, which is [`EngineError::Interrupted`] if it was stopped while it
    /// started.
    pub fn wait(mut self) -> Result<Finished, Error> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => Ok(outcome?),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            // Only this and `drop` take the thread, and both end the handle.
            None => Err(EngineError::Interrupted.into()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.stop();
            drop(thread.join());
        }
    }
}

/// Returns the folder that receives a run's results unless another is named: `results/<lab>-<UTC time>`.
pub fn default_results(lab: &str) -> PathBuf {
    let stamp = format!("{:.0}", Utc::from(SystemTime::now())).replace(['-', ':'], "");
    PathBuf::from("results").join(format!("{lab}-{stamp}"))
}
