//! Changes of a running topology: another layout of the same shape, and antennas that users point by command.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Stepper;
use crate::failures::Failures;
use crate::layout::Layout;
use crate::node::NodeId;

impl Stepper {
    /// Continues with another layout of the same shape ([`Layout::shape_differs`]) from the next step on. Satellites of antennas,
    /// the progress of handovers and acquisitions, and failures whose time is given at run time stay as they are.
    ///
    /// # Panics
    /// When the layout has another shape.
    pub fn adopt(&mut self, layout: Arc<Layout>) {
        assert_eq!(self.layout.shape_differs(&layout), None, "another lab");
        let mut next = Self::new(Arc::clone(&layout), Arc::clone(&self.sky));
        next.foresees = self.foresees;
        next.failures = match self.foresees {
            true => Failures::none(),
            false => self.failures.over(&self.layout, &layout),
        };
        next.beams.continue_from(&self.beams);
        next.next_step = self.next_step;
        next.now = std::mem::take(&mut self.now);
        next.now_known = self.now_known;
        next.later = std::mem::take(&mut self.later);
        next.later_known = self.later_known;
        next.isl_up = std::mem::take(&mut self.isl_up);
        next.isl_started = self.isl_started;
        *self = next;
    }

    /// Has antennas use these satellites from the next step on, and no others; `None` keeps an antenna dark. An antenna whose
    /// satellite cannot be used is dark. Antennas that are not listed follow their policy. Antennas by
    /// [their places](crate::TerminalLayout::beams).
    pub fn point(&mut self, antennas: BTreeMap<usize, Option<NodeId>>) {
        self.beams.pointed = antennas;
    }
}
