//! The scenario of the constellation that a network uses: its satellites, and the network's members as
//! stations.

use std::collections::BTreeSet;

use super::{Addresses, Failure, Mode, Name, PathFunctions, Scenario, Station, Terminal};

impl Scenario {
    /// Returns a scenario of equal time and step with this constellation alone; the nodes on the ground that
    /// `members` names are its stations. No program runs there, and no part breaks. `None` when the scenario has no such
    /// constellation, or the constellation has no links to the ground.
    #[must_use]
    pub fn beneath(&self, constellation: &Name, members: &BTreeSet<&str>) -> Option<Scenario> {
        let mut all = self.constellations.iter().chain(&self.beneath);
        let own = all.find(|k| k.name == *constellation)?.clone();
        let terminals = vec![Terminal {
            constellations: None,
            antennas: 1,
            min_elevation: None,
            rule: Some(own.gsl.as_ref()?.rule),
        }];
        let hosts = self.hosts.iter().map(|host| {
            let at = (host.latitude, host.longitude, host.altitude);
            Station::at(host.name.clone(), at, Vec::new())
        });
        let stations = self.stations.iter().cloned().chain(hosts);
        let mut stations: Vec<Station> = stations
            .filter(|station| members.contains(station.name.as_str()))
            .map(|station| Station {
                terminals: terminals.clone(),
                gateway: false,
                feeder: false,
                ..station
            })
            .collect();
        stations.sort_by(|a, b| a.name.cmp(&b.name));
        let mut routing = self.routing.clone();
        routing.mode = Mode::None;
        Some(Scenario {
            constellations: vec![own],
            beneath: Vec::new(),
            stations,
            hosts: Vec::new(),
            cables: Vec::new(),
            choices: None,
            link_choices: None,
            sampling: None,
            networks: Vec::new(),
            cross_shell: Vec::new(),
            failures: Vec::<Failure>::new(),
            routing,
            addresses: Addresses::default(),
            transport: PathFunctions::default(),
            mounts: Vec::new(),
            information: Vec::new(),
            images: Vec::new(),
            node_rules: Vec::new(),
            traffic: Vec::new(),
            expect: Vec::new(),
            deferred: Vec::new(),
            ..self.clone()
        })
    }
}
