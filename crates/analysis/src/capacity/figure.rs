//! Needed and available resources.

use serde::Serialize;

use crate::capacity::needs::Needs;

/// A resource of a machine that a lab needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// Bytes of memory.
    Memory,
    /// Open files of the engine.
    Descriptors,
    /// Processes.
    Processes,
    /// Processors that are busy.
    Processors,
    /// The thread that carries the frames of all links, as a share of its time.
    Carrier,
}

impl Resource {
    /// All, those first without which a lab cannot be made.
    pub const ALL: [Self; 5] = [
        Self::Memory,
        Self::Descriptors,
        Self::Processes,
        Self::Processors,
        Self::Carrier,
    ];

    /// Whether a lab that lacks it cannot be made; otherwise it can, and frames are late.
    #[must_use]
    pub fn is_hard(self) -> bool {
        matches!(self, Self::Memory | Self::Descriptors | Self::Processes)
    }
}

/// The resources of a machine for a lab.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MachineCapacity {
    /// Available bytes, less those that must stay free.
    pub memory_bytes: u64,
    /// Open files that the engine may have.
    pub descriptors: u64,
    /// Processes that may be made.
    pub processes: u64,
    /// Processors.
    pub processors: f64,
}

impl MachineCapacity {
    fn of(&self, what: Resource) -> f64 {
        match what {
            Resource::Memory => self.memory_bytes as f64,
            Resource::Descriptors => self.descriptors as f64,
            Resource::Processes => self.processes as f64,
            Resource::Processors => self.processors,
            Resource::Carrier => 1.0,
        }
    }
}

/// One figure of a lab on a machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figure {
    /// The resource.
    pub what: Resource,
    /// The amount that the lab needs.
    pub needed: f64,
    /// The available amount.
    pub there: f64,
    /// The share of the lab's nodes that would fit, at most 1; null if fewer nodes would not help.
    pub fits: Option<f64>,
}

impl Figure {
    /// Whether there is enough.
    #[must_use]
    pub fn is_enough(&self) -> bool {
        self.needed <= self.there
    }
}

impl Needs {
    /// Every figure, on a machine with such room.
    #[must_use]
    pub fn on(&self, room: &MachineCapacity) -> Vec<Figure> {
        let figure = |what: Resource| {
            let (amount, there) = (self.amount(what), room.of(what));
            Figure {
                what,
                needed: amount.whole(),
                there,
                fits: amount.fits(there),
            }
        };
        Resource::ALL.map(figure).to_vec()
    }
}
