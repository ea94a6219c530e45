//! Changes of the scenario of a running lab, as the threads of the lab share them: the scenario that it runs, the flows that
//! come and go, and the orders to the step loop.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use constel_api::answers::ScenarioShown;
use constel_link::DriverKind;
use constel_plan::{Blueprint, Past};
use constel_scenario::Scenario;
use constel_scenario::model::Flow;
use constel_topology::{GslPolicy, Layout, NodeId};

use crate::watch::paths::Followed;

/// The scenario of a running lab, and its changes.
pub(crate) struct Steering {
    inner: Mutex<Inner>,
    /// Held by the request that changes the scenario: one at a time.
    turn: Mutex<()>,
    /// The link driver, whose effects changed links may use.
    pub(crate) driver: DriverKind,
}

#[derive(Default)]
pub(crate) struct Inner {
    /// The scenario for clients.
    pub(crate) shown: ScenarioShown,
    /// The scenario in the form of its file, with which changed ones are compared.
    pub(crate) running: Option<Arc<Scenario>>,
    /// The latest blueprint that was accepted; the step loop takes it over with its next step.
    pub(crate) accepted: Option<Arc<Blueprint>>,
    /// The layout of that blueprint without policies by command.
    pub(crate) base: Option<Arc<Layout>>,
    /// The flows that the lab had and has.
    pub(crate) past: Past,
    /// How many changed scenarios the lab has accepted.
    pub(crate) count: usize,
    /// Policies of stations by command, in place of the scenario's.
    pub(crate) policies: BTreeMap<NodeId, GslPolicy>,
    /// Antennas that are pointed by command, by their places in the topology.
    pub(crate) pointed: BTreeMap<usize, Option<NodeId>>,
    /// The order that the step loop has not carried out yet; later ones replace it.
    order: Option<StepOrder>,
    /// Flows that the step loop follows from now on, by name.
    followed: Vec<(String, Followed)>,
    /// Flows that it no longer follows.
    ended: Vec<String>,
    /// The thread that runs flows which come later, while lab time runs.
    coming: Option<Sender<Added>>,
}

/// A change that holds from the step on that is planned next.
#[derive(Clone)]
pub(crate) struct StepOrder {
    pub(crate) blueprint: Arc<Blueprint>,
    pub(crate) pointed: BTreeMap<usize, Option<NodeId>>,
}

/// Flows that are ready to begin, with the paths to follow; or the reason why they are not.
pub(crate) type Prepared = Result<Vec<(String, Followed)>, String>;

/// Flows that were added to a running lab.
pub(crate) struct Added {
    pub(crate) flows: Vec<Flow>,
    /// Receives whether they are ready: their servers listen, and their paths can be followed.
    pub(crate) ready: SyncSender<Prepared>,
}

impl Steering {
    /// Creates the state of a lab that comes up.
    pub(crate) fn new(shown: ScenarioShown, driver: DriverKind, end_ns: Option<u64>) -> Self {
        let inner = Inner {
            shown,
            past: Past::begun_with(&[], end_ns),
            ..Inner::default()
        };
        Self {
            inner: Mutex::new(inner),
            turn: Mutex::default(),
            driver,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for other requests that change the scenario, and excludes them until the result is dropped.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the scenario with which lab time starts, and its flows.
    pub(crate) fn begin(&self, blueprint: &Arc<Blueprint>, flows: &[Flow]) {
        let mut inner = self.lock();
        inner.running = Some(Arc::clone(&blueprint.lab.scenario));
        inner.base = Some(Arc::clone(&blueprint.lab.layout));
        inner.accepted = Some(Arc::clone(blueprint));
        inner.past.now_has(flows.to_vec());
    }

    /// Opens the way for added flows, until [`Steering::close`] is called.
    pub(crate) fn open(&self, coming: Sender<Added>) {
        self.lock().coming = Some(coming);
    }

    /// Closes the way for added flows.
    pub(crate) fn close(&self) {
        self.lock().coming = None;
    }

    /// Has flows prepared. Returns the channel with the result; `None` if lab time does not run.
    pub(crate) fn add(&self, flows: Vec<Flow>) -> Option<Receiver<Prepared>> {
        let (ready, prepared) = sync_channel(1);
        let inner = self.lock();
        let sent = inner.coming.as_ref()?.send(Added { flows, ready });
        sent.ok().map(|()| prepared)
    }

    /// Has the step loop follow the paths of flows.
    pub(crate) fn follow(&self, flows: Vec<(String, Followed)>) {
        self.lock().followed.extend(flows);
    }

    /// Has the step loop end the paths of flows.
    pub(crate) fn unfollow(&self, flows: impl IntoIterator<Item = String>) {
        self.lock().ended.extend(flows);
    }

    /// Has the step loop take over the accepted blueprint and the pointed antennas.
    pub(crate) fn order(&self) {
        let mut inner = self.lock();
        inner.order = inner.accepted.clone().map(|blueprint| StepOrder {
            blueprint,
            pointed: inner.pointed.clone(),
        });
    }

    /// Returns the order since the last call.
    pub(crate) fn take_order(&self) -> Option<StepOrder> {
        self.lock().order.take()
    }

    /// Returns the flows to follow since the last call, and those to follow no longer.
    pub(crate) fn take_followed(&self) -> (Vec<(String, Followed)>, Vec<String>) {
        let mut inner = self.lock();
        (
            std::mem::take(&mut inner.followed),
            std::mem::take(&mut inner.ended),
        )
    }
}
