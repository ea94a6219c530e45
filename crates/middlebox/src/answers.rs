//! The answers of a box on its socket.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use constel_api::answers::{
    BoxShown, Capturing, CommandSent, DelaysSet, LabRow, LabState, LinkSet, LinkShown, MemberSet,
    NetworkShown, NodeAccess, Paths, Routes, RulesChanged, Shown, UserFileSet, WireShown,
};
use constel_api::{
    ApiError, CaptureOrder, CaptureSource, ErrorCode, EventData, LabReader, LabWriter, RuleChange,
    SetLink, Subscription,
};
use constel_drivers::Links;
use constel_drivers::relay::{ExternalCounts, RelayHandle};
use constel_lab::EventLog;

use crate::live::Live;
use crate::machines::Machines;
use constel_lab::wires::Wire;

/// The state of a box that its socket can read and change.
pub(crate) struct View {
    pub(crate) lab: String,
    pub(crate) scenario: String,
    pub(crate) exclusive: bool,
    pub(crate) wires: Vec<Wire>,
    pub(crate) log: Arc<EventLog>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) now: Mutex<Now>,
}

/// The changing part of a [`View`].
#[derive(Default)]
pub(crate) struct Now {
    pub(crate) state: LabState,
    /// The instant since which frames are let in.
    pub(crate) since: Option<Instant>,
    /// The instant by which a user must confirm the box.
    pub(crate) confirm_until: Option<Instant>,
    pub(crate) running: Option<Running>,
}

/// The parts that exist while the box runs.
#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) live: Arc<Live>,
    pub(crate) handle: RelayHandle,
    /// The machines of the box, if the lab made them.
    pub(crate) machines: Option<Arc<Machines>>,
}

impl View {
    pub(crate) fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn running(&self) -> Result<Running, ApiError> {
        self.now().running.clone().ok_or_else(ApiError::coming_up)
    }

    pub(crate) fn t_ns(&self) -> Option<u64> {
        self.now()
            .since
            .map(|since| since.elapsed().as_nanos() as u64)
    }

    /// Adds an event to the log.
    pub(crate) fn emit(&self, what: EventData) {
        self.log.emit(self.t_ns().map(|t| t as i64), what);
    }

    /// Returns the box with all its counters.
    ///
    /// # Errors
    /// [`ErrorCode::ComingUp`], [`ErrorCode::Failed`].
    pub(crate) fn shown(&self) -> Result<BoxShown, ApiError> {
        let running = self.running()?;
        let failed = |error: constel_drivers::DriverError| {
            ApiError::new(ErrorCode::Failed, error.to_string())
        };
        let shown = running.live.shown().map_err(failed)?;
        let counts = running.handle.externals().map_err(failed)?;
        let until = self.now().confirm_until;
        Ok(BoxShown {
            lab: self.state(),
            mode: if self.exclusive {
                "exclusive"
            } else {
                "shared"
            }
            .to_owned(),
            seed: shown.seed,
            interfaces: wires_shown(&self.wires, &counts),
            rules: shown.rules,
            unmatched: shown.unmatched,
            removed: shown.removed,
            confirm_within_s: until.map(|until| {
                until
                    .saturating_duration_since(Instant::now())
                    .as_secs_f64()
            }),
            relay: running.handle.snapshot().ok(),
        })
    }
}

fn wires_shown(wires: &[Wire], counts: &[ExternalCounts]) -> Vec<WireShown> {
    let shown = wires.iter().zip(counts).map(|(wire, counts)| WireShown {
        name: wire.name.clone(),
        mac: constel_link::rules::words::mac_text(wire.mac),
        mtu: wire.mtu,
        sent: counts.sent,
        refused: counts.refused,
    });
    shown.collect()
}

fn not_a_lab() -> ApiError {
    let error = "this is a box: it has rules, and neither nodes nor links";
    ApiError::new(ErrorCode::NotALab, error)
}

impl LabReader for View {
    fn state(&self) -> LabRow {
        let (state, running) = {
            let now = self.now();
            (now.state, now.running.clone())
        };
        let machines = running
            .as_ref()
            .and_then(|running| running.machines.as_ref());
        let nodes = machines.map_or(0, |machines| machines.names().len());
        let rules = running.map(|running| running.live.len());
        LabRow {
            lab: self.lab.clone(),
            state,
            scenario: self.scenario.clone(),
            pid: std::process::id(),
            nodes,
            // With the two edges of frames that match no rule.
            edges: rules.map_or(0, |rules| 2 * (rules + 1)),
            t_ns: self.t_ns(),
        }
    }

    fn show(&self) -> Shown {
        let running = self.now().running.clone();
        Shown {
            lab: self.state(),
            node_list: None,
            management: None,
            relay: running.and_then(|running| running.handle.snapshot().ok()),
        }
    }

    fn link(&self, _: &str, _: &str) -> Result<LinkShown, ApiError> {
        Err(not_a_lab())
    }

    fn routes(&self, _: &str) -> Result<Routes, ApiError> {
        Err(not_a_lab())
    }

    fn path(
        &self,
        _: &str,
        _: &str,
        _: Option<u64>,
        _: &(dyn Fn() -> bool + Sync),
    ) -> Result<Paths, ApiError> {
        Err(not_a_lab())
    }

    fn networks(&self) -> Result<Vec<NetworkShown>, ApiError> {
        Err(not_a_lab())
    }

    fn rules(&self) -> Result<BoxShown, ApiError> {
        self.shown()
    }

    fn follow(&self) -> Subscription {
        self.log.follow()
    }
}

impl LabWriter for View {
    fn capture(
        &self,
        order: &CaptureOrder,
    ) -> Result<(Capturing, Box<dyn CaptureSource>), ApiError> {
        let names: Vec<&str> = self.wires.iter().map(|wire| wire.name.as_str()).collect();
        self.running()?.live.capture(order, &names)
    }

    fn set_member(&self, _: &str, _: &str, _: bool) -> Result<MemberSet, ApiError> {
        Err(not_a_lab())
    }

    fn set_delays(&self, _: &str, _: Option<&[Vec<Option<u64>>]>) -> Result<DelaysSet, ApiError> {
        Err(not_a_lab())
    }

    fn set_link(&self, _: &SetLink) -> Result<LinkSet, ApiError> {
        Err(not_a_lab())
    }

    fn enter(&self, node: &str) -> Result<NodeAccess, ApiError> {
        let machines = self.running()?.machines;
        machines.ok_or_else(not_a_lab)?.enter(node)
    }

    fn user_file(&self, _: &str, _: &str, _: Option<String>) -> Result<UserFileSet, ApiError> {
        Err(not_a_lab())
    }

    fn command(&self, _: &str, _: serde_json::Value) -> Result<CommandSent, ApiError> {
        Err(not_a_lab())
    }

    fn change_rules(&self, change: RuleChange) -> Result<RulesChanged, ApiError> {
        let running = self.running()?;
        let (word, rule) = match &change {
            RuleChange::Add { rule, .. } => ("add", rule["name"].as_str().map(str::to_owned)),
            RuleChange::Edit { name, .. } => ("edit", Some(name.clone())),
            RuleChange::Move { name, .. } => ("move", Some(name.clone())),
            RuleChange::Remove { name } => ("remove", Some(name.clone())),
            RuleChange::Replace { .. } => ("replace", None),
        };
        let changed = running.live.change(change)?;
        self.emit(EventData::RulesChanged {
            change: word.to_owned(),
            rule,
            rules: changed.rules.len(),
        });
        Ok(changed)
    }

    fn confirm(&self) -> Result<(), ApiError> {
        if self.now().confirm_until.take().is_some() {
            self.emit(EventData::Confirmed);
        }
        Ok(())
    }

    fn down(&self) {
        self.stop.store(true, Ordering::Release);
    }
}
