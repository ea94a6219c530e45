//! Checks whether a scenario is valid, and whether its satellites can provide what it requires.

use constel_analysis::capacity::Estimate;
use constel_analysis::{Coverage, warnings};
use constel_api::manifest::DataAge;
use constel_lab::bounds;
use constel_plan::{Document, LeftOut, SortedShell};
use constel_scenario::Diagnostic;
use constel_units::TimeSpan;
use serde::Serialize;

use crate::doctor::Finding;
use crate::error::Error;
use crate::scenario::Scenario;

/// The result of `check` for a valid scenario.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    /// Always true: a scenario that is not good has no such document.
    pub ok: bool,
    /// Always empty.
    pub errors: Vec<Diagnostic>,
    /// Satellites.
    pub satellites: usize,
    /// Ground stations.
    pub stations: usize,
    /// Nodes that only have cables.
    pub hosts: usize,
    /// Directed edges at lab time zero.
    pub edges_at_0s: usize,
    /// The scenario's own traffic.
    pub flows: usize,
    /// Shells found in element files.
    pub shells: Vec<SortedShell>,
    /// Objects of element files that are in no shell, and why.
    pub left_out: Vec<LeftOut>,
    /// How old the data of files is.
    pub data_ages: Vec<DataAge>,
    /// How late frames may be at the 99th percentile, nanoseconds.
    pub max_lateness_ns: u64,
    /// Values that are valid but probably a mistake.
    pub warnings: Vec<String>,
    /// Dark times of stations, and flows without a path.
    pub sky: Coverage,
}

impl Scenario {
    /// Returns the host resources that the lab will need, with or without its traffic, and which of them this machine lacks
    /// now.
    #[must_use]
    pub fn here(&self, traffic: bool) -> Estimate {
        Estimate::new(&self.lab, traffic, constel_lab::room(&self.lab))
    }

    /// Tests whether this machine's firewall lets it reach nodes by `management`, over a link that exists for the test only;
    /// `None` if the scenario has no network with it. Needs root.
    #[must_use]
    pub fn management_here(&self) -> Option<Finding> {
        let name = self.lab.scenario.name.as_str();
        self.lab.management(name).map(|_| crate::doctor::reach())
    }

    /// Checks the scenario over its whole duration. Changes nothing, and takes seconds for large constellations.
    ///
    /// # Errors
    /// [`Error::Unplannable`] if there is no plan for one of its times.
    pub fn check(&self) -> Result<Check, Error> {
        let lab = &self.lab;
        let unplannable = |error: &dyn std::fmt::Display| Error::Unplannable(error.to_string());
        let document = Document::at(lab, TimeSpan::from_ns(0)).map_err(|e| unplannable(&e))?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let sky = Coverage::bounded(lab, threads).map_err(|e| unplannable(&e))?;
        let satellites = lab.layout.satellite_count();
        let stations = lab.layout.stations().count();
        Ok(Check {
            ok: true,
            errors: Vec::new(),
            satellites,
            stations,
            hosts: lab.layout.nodes().len() - satellites - stations,
            edges_at_0s: document.edges.len(),
            flows: lab.scenario.traffic.len(),
            shells: lab.shells.to_vec(),
            left_out: lab.left_out.to_vec(),
            data_ages: constel_lab::data_ages(lab),
            warnings: warnings(lab, &sky.flows),
            max_lateness_ns: bounds(&lab.scenario).lateness_p99_ns,
            sky,
        })
    }
}
