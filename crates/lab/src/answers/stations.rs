//! Stations that users attach to satellites, detach, or give a policy while the lab runs.

use std::sync::Arc;

use constel_api::answers::StationsSet;
use constel_api::{ApiError, EventData, StationChange};
use constel_plan::{Blueprint, Lab};
use constel_scenario::raw::RawPolicy;
use constel_topology::{GslPolicy, Layout, NodeId, PlainPolicy};
use serde_json::Value;

use super::apply::bad;
use super::view::{View, find};

impl View {
    /// Changes how stations choose their satellites.
    ///
    /// # Errors
    /// As [`constel_api::LabWriter::set_station`].
    pub(super) fn change_stations(
        &self,
        names: &[String],
        change: &StationChange,
    ) -> Result<StationsSet, ApiError> {
        self.may_be_steered("station")?;
        let _turn = self.steering.turn();
        let stations = self.stations(names)?;
        let accepted = self.steering.lock().accepted.clone();
        let accepted = accepted.ok_or_else(ApiError::coming_up)?;
        let layout = &accepted.lab.layout;
        match change {
            StationChange::Attach { satellite, antenna } => {
                let satellite = satellite_of(&accepted, satellite)?;
                let antennas = stations
                    .iter()
                    .map(|station| self.antenna_for(layout, *station, satellite, *antenna));
                let antennas = antennas.collect::<Result<Vec<_>, _>>()?;
                let pointed = antennas.into_iter().map(|place| (place, Some(satellite)));
                self.steering.lock().pointed.extend(pointed);
            }
            StationChange::Detach { antenna } => {
                let mut dark = Vec::new();
                for station in &stations {
                    let own = antennas_of(layout, *station);
                    match antenna {
                        None => dark.extend(own),
                        Some(number) => dark.push(place_of(layout, *station, *number)?),
                    }
                }
                let dark = dark.into_iter().map(|place| (place, None));
                self.steering.lock().pointed.extend(dark);
            }
            StationChange::Policy { policy } => {
                let policy = policy.as_ref().map(|own| policy_of(own, &accepted));
                self.give_policy(&accepted, &stations, policy.transpose()?)?;
            }
        }
        self.steering.order();
        let name = |node: &NodeId| layout.node(*node).name.clone();
        let stations: Vec<String> = stations.iter().map(name).collect();
        let what = EventData::StationsSet {
            change: change.clone(),
            stations: stations.clone(),
        };
        self.log.emit(self.t_ns(), what);
        Ok(StationsSet {
            stations,
            from_ns: self.holds_from(accepted.lab.step_ns()),
        })
    }

    /// Gives stations a policy, or the one of the scenario, and has all their antennas follow it.
    fn give_policy(
        &self,
        accepted: &Blueprint,
        stations: &[NodeId],
        policy: Option<GslPolicy>,
    ) -> Result<(), ApiError> {
        {
            let mut inner = self.steering.lock();
            for station in stations {
                match policy {
                    Some(policy) => drop(inner.policies.insert(*station, policy)),
                    None => drop(inner.policies.remove(station)),
                }
                for place in antennas_of(&accepted.lab.layout, *station) {
                    inner.pointed.remove(&place);
                }
            }
        }
        let base = self.steering.lock().base.clone();
        let lab = Lab {
            layout: base.ok_or_else(ApiError::coming_up)?,
            ..accepted.lab.clone()
        };
        let blueprint = Blueprint::new(self.with_policies(lab));
        let blueprint = blueprint.map_err(|error| bad(error.to_string()))?;
        self.steering.lock().accepted = Some(Arc::new(blueprint));
        Ok(())
    }

    /// Returns the place of the antenna that is to use a satellite: the one of that number, or else the one that uses it now, or
    /// the first.
    fn antenna_for(
        &self,
        layout: &Layout,
        station: NodeId,
        satellite: NodeId,
        antenna: Option<usize>,
    ) -> Result<usize, ApiError> {
        if let Some(number) = antenna {
            return place_of(layout, station, number);
        }
        let pointed = self.steering.lock().pointed.clone();
        let mut own = antennas_of(layout, station);
        let at_it = own.find(|place| pointed.get(place) == Some(&Some(satellite)));
        match at_it {
            Some(place) => Ok(place),
            None => place_of(layout, station, 0),
        }
    }
}

/// Returns the places of a station's antennas, in their order.
fn antennas_of(layout: &Layout, station: NodeId) -> impl Iterator<Item = usize> + '_ {
    let terminals = layout.terminals_of(station.index() - layout.satellite_count());
    let terminals = terminals.iter();
    terminals.flat_map(|terminal| terminal.beams.clone())
}

fn place_of(layout: &Layout, station: NodeId, number: usize) -> Result<usize, ApiError> {
    let place = antennas_of(layout, station).nth(number);
    place.ok_or_else(|| {
        let count = antennas_of(layout, station).count();
        let name = &layout.node(station).name;
        bad(format!(
            "'{name}' has {count} antennas, numbered from 0: there is no antenna {number}"
        ))
    })
}

fn satellite_of(blueprint: &Blueprint, name: &str) -> Result<NodeId, ApiError> {
    let node = find(blueprint, name)?;
    let layout = &blueprint.lab.layout;
    match node.index() < layout.satellite_count() {
        true => Ok(node),
        false => Err(bad(format!("'{}' is no satellite", layout.node(node).name))),
    }
}

/// Reads a policy as scenarios have it.
fn policy_of(value: &Value, blueprint: &Blueprint) -> Result<GslPolicy, ApiError> {
    let start = blueprint.lab.scenario.start;
    let read: Option<RawPolicy> = serde_json::from_value(value.clone()).ok();
    let is_valid = |policy: &RawPolicy| match policy {
        RawPolicy::Plain(_) => true,
        RawPolicy::Hysteresis(gain) => (0.0..=90.0).contains(&gain.deg()),
        RawPolicy::Scheduler { slot } => slot.ns() >= blueprint.lab.scenario.step.ns(),
    };
    let policy = read.filter(is_valid).ok_or_else(|| {
        let words = PlainPolicy::ALL.iter().map(|policy| policy.word());
        let words: Vec<&str> = words.collect();
        bad(format!(
            "{value} is no policy: {}; or {{\"hysteresis\": \"5 deg\"}} of at most 90 deg, {{\"scheduler\": {{\"slot\": \"15 s\"}}}} of at least one step",
            words.join(", ")
        ))
    })?;
    Ok(policy.from_start(start))
}
