//! A changed scenario in a running lab: it is compared with the present one, and taken over if nothing else must be touched.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use constel_api::answers::{Applied, ChangeWord, ScenarioChange, ScenarioShown};
use constel_api::{ApiError, ApplyOrder, ErrorCode, EventData, NodeChange};
use constel_link::EffectsChange;
use constel_plan::{Blueprint, ChangeKind, Difference, Lab};
use constel_scenario::{DiskFiles, Scenario};
use constel_topology::{Layout, NodeId};

use super::view::View;
use crate::clock::mono_ns;
use crate::life::bring_up::may_fail;
use crate::life::preflight;
use crate::watch::paths::Followed;

/// How often a request that waits for prepared flows checks whether the lab ends.
const LOOK: Duration = Duration::from_millis(50);

impl View {
    /// Compares a changed scenario with the one that runs, and takes it over.
    ///
    /// # Errors
    /// As [`constel_api::LabWriter::apply`].
    pub(super) fn apply_scenario(&self, order: &ApplyOrder) -> Result<Applied, ApiError> {
        self.may_be_steered("apply")?;
        let _turn = self.steering.turn();
        let now_ns = self.clock.now_ns().ok_or_else(ApiError::coming_up)?;
        let (accepted, running, mut past) = {
            let inner = self.steering.lock();
            let running = inner.accepted.clone().zip(inner.running.clone());
            let (accepted, running) = running.ok_or_else(ApiError::coming_up)?;
            (accepted, running, inner.past.clone())
        };
        past.now_ns = now_ns;
        let files = DiskFiles::in_folder(&order.folder);
        let lab = accepted
            .lab
            .read_over(&order.file, order.text.as_bytes(), &files);
        let lab = lab.map_err(|errors| bad(format!("the scenario is not valid:\n{errors}")))?;
        let mut found = Difference::between(&running, &lab.scenario, &past);
        self.refuse_what_the_host_lacks(&lab, &mut found);
        let mut answer = Applied {
            applied: false,
            changes: found.changes.iter().map(row).collect(),
            from_ns: None,
        };
        if order.dry_run || answer.refused().next().is_some() {
            return Ok(answer);
        }
        answer.applied = true;
        if !found.changes.is_empty() {
            let file_form = Arc::clone(&lab.scenario);
            // Nodes that leave stay in the topology, as failed ones.
            let lab = match found.text_with_left(&accepted.lab.scenario, &file_form) {
                None => lab,
                Some(text) => {
                    let all = accepted.lab.read_over(&order.file, text.as_bytes(), &files);
                    all.map_err(|errors| bad(format!("the nodes that left do not fit:\n{errors}")))?
                }
            };
            let blueprint = self.blueprint_of(&accepted, lab, &found)?;
            let flows_only = found
                .changes
                .iter()
                .all(|change| change.key.starts_with("traffic."));
            let from_ns = self.carry_out(&accepted, blueprint, &found)?;
            answer.from_ns = (!flows_only).then_some(from_ns);
            for (names, change) in [
                (&found.leaving, NodeChange::Remove),
                (&found.returning, NodeChange::Add),
            ] {
                let names: Vec<String> = names.iter().map(ToString::to_string).collect();
                if !names.is_empty() {
                    self.change_nodes(&names, change, false)?;
                }
            }
            self.record(order, file_form, &found)?;
        }
        Ok(answer)
    }

    /// Refuses changes of topology and stations in labs that cannot have them now.
    pub(super) fn may_be_steered(&self, verb: &str) -> Result<(), ApiError> {
        if self.orders.is_some() {
            let error = format!("`{verb}` does not reach labs on several machines");
            return Err(ApiError::new(ErrorCode::Unsupported, error));
        }
        match self.clock.zero_mono_ns() {
            Some(_) => Ok(()),
            None => Err(ApiError::coming_up()),
        }
    }

    /// Marks changes as refused for which this host has no program, or the link driver no effect.
    fn refuse_what_the_host_lacks(&self, lab: &Lab, found: &mut Difference) {
        let programs = preflight::needs(lab, &found.added).err();
        let programs = programs.map(|error| error.to_string());
        let effects = preflight::lacks(self.steering.driver, &lab.profiles);
        for change in &mut found.changes {
            let why = match change.kind {
                ChangeKind::Added if change.key.starts_with("traffic.") => programs.clone(),
                _ if change.is_of_effect() && !effects.is_empty() => Some(effects.join("; ")),
                _ => None,
            };
            change.refused = change.refused.take().or(why);
        }
    }

    /// Returns the blueprint of a changed scenario, with the flows and the policies that the lab really has, and its layout
    /// without policies by command.
    fn blueprint_of(
        &self,
        accepted: &Blueprint,
        lab: Lab,
        found: &Difference,
    ) -> Result<(Arc<Blueprint>, Arc<Layout>), ApiError> {
        let scenario = Scenario {
            traffic: found.traffic.clone(),
            ..lab.scenario.as_ref().clone()
        };
        let lab = Lab {
            scenario: Arc::new(scenario),
            ..lab
        };
        let lab = may_fail(lab).map_err(|error| bad(error.to_string()))?;
        // A law over a constellation would have to compute all steps since lab time zero again.
        let layout = lab.layout.with_networks_of(&accepted.lab.layout);
        let base = Arc::new(layout);
        let lab = Lab {
            layout: Arc::clone(&base),
            ..lab
        };
        let blueprint = Blueprint::new(self.with_policies(lab));
        let blueprint = blueprint.map_err(|error| bad(error.to_string()))?;
        Ok((Arc::new(blueprint), base))
    }

    /// Returns a lab with the policies that stations have by command.
    pub(super) fn with_policies(&self, lab: Lab) -> Lab {
        let policies = self.steering.lock().policies.clone();
        let mut layout = lab.layout.as_ref().clone();
        for (station, policy) in policies {
            layout = layout.with_policy(&[station], policy);
        }
        Lab {
            layout: Arc::new(layout),
            ..lab
        }
    }

    /// Carries a difference out: flows first, because a server that does not listen is a reason to change nothing. Returns the
    /// lab time from which the topology has changed.
    fn carry_out(
        &self,
        accepted: &Blueprint,
        (blueprint, base): (Arc<Blueprint>, Arc<Layout>),
        found: &Difference,
    ) -> Result<u64, ApiError> {
        if let Some(part) = accepted.lab.layout.shape_differs(&blueprint.lab.layout) {
            let error =
                format!("{part} of the topology would change, which is fixed when the lab starts");
            return Err(ApiError::new(ErrorCode::Unsupported, error));
        }
        let followed = match found.added.is_empty() {
            true => Vec::new(),
            false => self.prepare_flows(found)?,
        };
        self.put_new_effects(accepted, &blueprint)?;
        self.steering.follow(followed);
        let removed = || found.removed.iter().map(ToString::to_string);
        self.nodes.end_flows(removed());
        self.steering.unfollow(removed());
        let step_ns = blueprint.lab.step_ns();
        {
            let mut inner = self.steering.lock();
            inner.accepted = Some(blueprint);
            inner.base = Some(base);
        }
        self.steering.order();
        Ok(self.holds_from(step_ns))
    }

    /// Returns the lab time by which an order to the step loop holds.
    pub(super) fn holds_from(&self, step_ns: u64) -> u64 {
        let now_ns = self.clock.now_ns().unwrap_or(0);
        // The next step may be planned already.
        (now_ns / step_ns + 2) * step_ns
    }

    /// Starts the servers of added flows, and waits until they listen.
    fn prepare_flows(&self, found: &Difference) -> Result<Vec<(String, Followed)>, ApiError> {
        let prepared = self.steering.add(found.added.clone());
        let prepared = prepared.ok_or_else(ApiError::coming_up)?;
        loop {
            match prepared.recv_timeout(LOOK) {
                Ok(ready) => {
                    return ready.map_err(|error| ApiError::new(ErrorCode::Failed, error));
                }
                Err(RecvTimeoutError::Timeout) if !self.stop.load(Ordering::Acquire) => {}
                Err(_) => return Err(ApiError::coming_up()),
            }
        }
    }

    /// Installs the effects of links that only the changed scenario has. Edges use them with the step that brings them.
    fn put_new_effects(&self, before: &Blueprint, after: &Blueprint) -> Result<(), ApiError> {
        let zero_ns = self.clock.zero_mono_ns().unwrap_or_else(mono_ns);
        let known = before.lab.profiles.len();
        let new = (1..).zip(after.lab.profiles.iter()).skip(known);
        let changes: Vec<EffectsChange> = new
            .map(|(number, effects)| EffectsChange::Profile {
                number,
                effects: Some(effects.clone().starting_later(zero_ns)),
            })
            .collect();
        if !changes.is_empty() {
            let links = self.held()?.links;
            let put = links.apply_effects(changes);
            put.map_err(|error| super::impair::refusal(&error))?;
        }
        Ok(())
    }

    /// Records the changed scenario: for later comparisons, for clients, in the results and as an event.
    fn record(
        &self,
        order: &ApplyOrder,
        file_form: Arc<Scenario>,
        found: &Difference,
    ) -> Result<(), ApiError> {
        let (copy, results) = {
            let mut inner = self.steering.lock();
            inner.count += 1;
            inner.running = Some(file_form);
            inner.past.now_has(found.traffic.clone());
            inner.past.left.clone_from(&found.left);
            inner.shown = ScenarioShown {
                file: order.file.clone(),
                folder: order.folder.clone(),
                text: order.text.clone(),
                results: inner.shown.results.clone(),
            };
            let copy = format!("scenario-{}.yaml", inner.count + 1);
            (copy, inner.shown.results.clone())
        };
        let what = EventData::ScenarioChanged {
            file: order.file.clone(),
            copy: copy.clone(),
            keys: found.changes.iter().map(|own| own.key.clone()).collect(),
        };
        self.log.emit(self.t_ns(), what);
        fs::write(results.join(&copy), &order.text).map_err(|error| {
            let error = format!(
                "the lab runs the changed scenario, but {copy} is not in its results: {error}"
            );
            ApiError::new(ErrorCode::Failed, error)
        })
    }

    /// Returns the stations of these names.
    pub(super) fn stations(&self, names: &[String]) -> Result<Vec<NodeId>, ApiError> {
        let blueprint = Arc::clone(&self.held()?.kernels.blueprint);
        let layout = &blueprint.lab.layout;
        let station = |name: &String| {
            let node = super::view::find(&blueprint, name)?;
            match layout.stations().any(|station| station.id == node) {
                true => Ok(node),
                false => Err(bad(format!(
                    "'{}' is no station: it chooses no satellites",
                    layout.node(node).name
                ))),
            }
        };
        names.iter().map(station).collect()
    }
}

pub(super) fn bad(error: String) -> ApiError {
    ApiError::new(ErrorCode::BadValue, error)
}

fn row(change: &constel_plan::ScenarioChange) -> ScenarioChange {
    ScenarioChange {
        key: change.key.clone(),
        change: match change.kind {
            ChangeKind::Added => ChangeWord::Added,
            ChangeKind::Removed => ChangeWord::Removed,
            ChangeKind::Changed => ChangeWord::Changed,
        },
        before: change.before.clone(),
        after: change.after.clone(),
        refused: change.refused.clone(),
    }
}
