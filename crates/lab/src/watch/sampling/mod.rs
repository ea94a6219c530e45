//! The sampling of interfaces, edges and used resources while a lab runs, as columns: files of 64-bit integers, little-endian. One
//! thread samples at whole multiples of the interval from lab time zero on, and once more at the end.

mod columns;
mod edges;
mod interfaces;
mod usage;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use constel_drivers::Links;
use constel_scenario::model::Sampling;

use crate::clock::LabClock;
use crate::error::EngineError;
use crate::nodes::cgroups::Cgroups;
use crate::nodes::kernels::Kernels;
use edges::Edges;
use interfaces::Interfaces;
use usage::Usages;

/// The samplers of a lab, and their files.
pub(crate) struct Sampler {
    every: Duration,
    interfaces: Option<Interfaces>,
    edges: Option<Edges>,
    usage: Option<Usages>,
}

impl Sampler {
    /// Creates the folders `interfaces`, `edges` and `usage` of the results, and opens sockets in the sampled nodes.
    ///
    /// # Errors
    /// The refusal of the host.
    pub(crate) fn begin(
        wanted: &Sampling,
        kernels: &Arc<Kernels>,
        groups: &Arc<Cgroups>,
        links: &Arc<dyn Links>,
        results: &Path,
    ) -> Result<Self, EngineError> {
        let interfaces = (!wanted.interfaces.is_empty())
            .then(|| Interfaces::begin(wanted, kernels, results))
            .transpose()?;
        let layout = &kernels.blueprint.lab.layout;
        let edges = (!wanted.edges.is_empty())
            .then(|| Edges::begin(wanted, layout, Arc::clone(links), results))
            .transpose()?;
        let usage = (!wanted.usage.is_empty())
            .then(|| Usages::begin(wanted, kernels, groups, results))
            .transpose()?;
        Ok(Self {
            every: Duration::from_nanos(wanted.every.ns().unsigned_abs()),
            interfaces,
            edges,
            usage: usage.flatten(),
        })
    }

    /// Samples from lab time zero until `over` is set, and once more then.
    ///
    /// # Errors
    /// When a kernel or the link plane does not answer, or the files cannot be written.
    pub(crate) fn run(mut self, clock: &LabClock, over: &AtomicBool) -> Result<(), EngineError> {
        let mut next_ns = 0;
        loop {
            // The flag is read before the sample, so that the last sample is taken after the end.
            let last = over.load(Ordering::Acquire);
            if let Some(t_ns) = clock.now_ns() {
                if t_ns >= next_ns || last {
                    self.look(t_ns)?;
                    // Missed instants are skipped: the next one is the next whole multiple.
                    let every_ns = self.every.as_nanos() as u64;
                    next_ns = (t_ns / every_ns + 1) * every_ns;
                }
                if last {
                    return self.finish();
                }
                let left =
                    Duration::from_nanos(next_ns.saturating_sub(clock.now_ns().unwrap_or(next_ns)));
                clock.sleep(left.min(OFTEN));
            } else if last {
                return self.finish();
            } else {
                clock.sleep(Duration::from_millis(1));
            }
        }
    }

    fn look(&mut self, t_ns: u64) -> Result<(), EngineError> {
        if let Some(interfaces) = &mut self.interfaces {
            interfaces.look(t_ns)?;
        }
        if let Some(edges) = &mut self.edges {
            edges.look(t_ns)?;
        }
        if let Some(usage) = &mut self.usage {
            usage.look(t_ns)?;
        }
        Ok(())
    }

    fn finish(self) -> Result<(), EngineError> {
        self.interfaces.map_or(Ok(()), Interfaces::finish)?;
        self.edges.map_or(Ok(()), Edges::finish)?;
        self.usage.map_or(Ok(()), Usages::finish)
    }
}

/// The longest sleep between two checks for the end.
const OFTEN: Duration = Duration::from_millis(100);
