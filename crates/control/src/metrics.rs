//! Metrics of a running lab: the traffic of its edges by name, also in the text format of Prometheus and others.

mod openmetrics;

use std::sync::Arc;
use std::time::Duration;

use constel_api::answers::{Loads, Shown};
use constel_link::PortId;
use constel_topology::Layout;
use serde::Serialize;

use crate::error::Error;
use crate::labs::Observer;
use crate::scenario::Scenario;

pub use openmetrics::CONTENT_TYPE;

/// An edge that carried something.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BusyEdge {
    /// Source of the edge: `NODE/PORT`.
    pub from: String,
    /// Destination of the edge: `NODE/PORT`.
    pub to: String,
    /// Throughput of frames that arrived, bit/s.
    pub carried_bps: f64,
    /// The part of its service rate that this is, at most 1; `None` where service takes no time.
    pub load: Option<f64>,
}

/// A lab at one moment.
#[derive(Debug, Clone, Serialize)]
pub struct LabSnapshot {
    /// Nodes, and the link plane's health.
    pub shown: Shown,
    /// Traffic of the edges since the previous sample, busiest first. Empty in the first sample.
    pub busy: Vec<BusyEdge>,
}

/// Takes samples of a running lab, one after another.
#[derive(Debug)]
pub struct Meter {
    lab: Observer,
    layout: Arc<Layout>,
    before: Option<Loads>,
}

impl Meter {
    /// Shortest interval between samples.
    pub const LEAST: Duration = Duration::from_millis(200);

    /// Attaches to a lab. Lays out its scenario again to get the names of its ports.
    ///
    /// # Errors
    /// If the lab does not answer, is a box, or files of its scenario have changed.
    pub fn attach(name: &str) -> Result<Self, Error> {
        let lab = Observer::attach(name)?;
        let shown = lab.scenario()?;
        let scenario = Scenario::from_text(&shown.file, &shown.text, &shown.folder)?;
        Ok(Self {
            lab,
            layout: scenario.lab.layout,
            before: None,
        })
    }

    /// Takes a sample.
    ///
    /// # Errors
    /// If the lab does not answer because it has ended.
    pub fn look(&mut self) -> Result<LabSnapshot, Error> {
        let (shown, loads) = (self.lab.show()?, self.lab.loads()?);
        let before = self.before.as_ref();
        let rates = before.and_then(|before| loads.since(before));
        let mut busy: Vec<BusyEdge> = rates
            .into_iter()
            .flatten()
            .map(|rate| BusyEdge {
                from: port_name(&self.layout, rate.from),
                to: port_name(&self.layout, rate.to),
                carried_bps: rate.carried_bps,
                load: rate.load,
            })
            .collect();
        // Equal ones stay in the order of their ports.
        busy.sort_by(|a, b| b.carried_bps.total_cmp(&a.carried_bps));
        self.before = Some(loads);
        Ok(LabSnapshot { shown, busy })
    }

    /// Returns whether the lab has ended, or is being taken down and answers no more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.lab.is_over()
    }
}

/// A running lab or box as OpenMetrics text.
#[derive(Debug)]
pub enum Exporter {
    /// Edges by their ends.
    Lab(Meter),
    /// Rules by name and direction.
    Box(Observer),
}

impl Exporter {
    /// Attaches to a lab or box.
    ///
    /// # Errors
    /// As [`Meter::attach`].
    pub fn attach(name: &str) -> Result<Self, Error> {
        let observer = Observer::attach(name)?;
        // A lab has no rules.
        match observer.rules() {
            Ok(_) => Ok(Self::Box(observer)),
            Err(_) => Meter::attach(name).map(Self::Lab),
        }
    }

    /// Returns whether the lab or box has ended, or is being taken down.
    #[must_use]
    pub fn is_over(&self) -> bool {
        match self {
            Self::Lab(meter) => meter.is_over(),
            Self::Box(observer) => observer.is_over(),
        }
    }

    /// Returns all metrics as text.
    ///
    /// # Errors
    /// If the lab does not answer because it has ended.
    pub fn text(&self) -> Result<String, Error> {
        match self {
            Self::Lab(meter) => {
                let (shown, loads) = (meter.lab.show()?, meter.lab.loads()?);
                let name = |port| port_name(&meter.layout, port);
                Ok(openmetrics::text(&shown, &loads, name))
            }
            Self::Box(observer) => Ok(openmetrics::box_text(&observer.rules()?)),
        }
    }
}

fn port_name(layout: &Layout, port: PortId) -> String {
    let port = layout.port(port);
    format!("{}/{}", layout.node(port.node).name, port.name)
}
