//! Captures at rules and interfaces of a box. They follow rules that are edited.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use constel_api::answers::Capturing;
use constel_api::{ApiError, CaptureOrder, CaptureSource, ErrorCode};
use constel_drivers::relay::RelayHandle;
use constel_drivers::{DriverError, Links, TapFilter, TapPoint, Tapped};
use constel_exchange::pcapng::Direction as Way;
use constel_lab::{Capture, Filter, FrameText};
use constel_link::rules::Direction;

use crate::ports::{ROUTER, Slot, UNMATCHED};

/// The rule that each slot belongs to, or last belonged to.
type Names = Arc<Mutex<HashMap<Slot, Arc<str>>>>;

/// The captures of a box.
#[derive(Default)]
pub(crate) struct Captures {
    names: Names,
    /// The captures of rules that are still read.
    of_rules: Vec<OfRule>,
}

struct OfRule {
    rule: String,
    number: u64,
    read: Weak<()>,
}

/// The interfaces of a rule's capture file, in each direction.
const STAGES: [&str; 3] = ["in", "out", "dropped"];

/// Selects every event on the edges of a slot.
fn of_slot(slot: Slot) -> TapFilter {
    let from = Direction::BOTH.map(|direction| slot.edge(direction).0);
    TapFilter {
        enters: from.into(),
        leaves_from: from.into(),
        leaves_to: Vec::new(),
    }
}

fn index(direction: Direction) -> u32 {
    u32::from(direction == Direction::Reverse)
}

/// Returns which of a rule's interfaces a frame belongs to.
fn at_rule(seen: &Tapped) -> Option<(u32, Option<Way>)> {
    let (_, direction) = Slot::of(seen.from)?;
    let (stage, way) = match seen.sight {
        TapPoint::Enters => (0, Some(Way::In)),
        TapPoint::Leaves(_) => (1, Some(Way::Out)),
        TapPoint::Dropped(_) => (2, None),
    };
    Some((STAGES.len() as u32 * index(direction) + stage, way))
}

/// Returns which interface of the file a frame belongs to, if any: the network interface itself, or the one for
/// frames that arrived there and were dropped.
fn at_interface(at: u8, seen: &Tapped) -> Option<(u32, Option<Way>)> {
    let (from, to) = seen.passage?;
    let (came, goes) = (from == at, (to == at) != (from == to));
    match seen.sight {
        TapPoint::Enters => came.then_some((0, Some(Way::In))),
        TapPoint::Leaves(_) => goes.then_some((0, Some(Way::Out))),
        TapPoint::Dropped(_) => came.then_some((1, None)),
    }
}

fn of_names(names: &Names, slot: Slot) -> Arc<str> {
    match slot {
        UNMATCHED => return "(no rule)".into(),
        ROUTER => return "(router)".into(),
        _ => {}
    }
    let names = names.lock().unwrap_or_else(PoisonError::into_inner);
    names
        .get(&slot)
        .map_or_else(|| "(a rule)".into(), Arc::clone)
}

/// The answer to a capture request, and the source of the frames.
type Begun = (Capturing, Box<dyn CaptureSource>);

impl Captures {
    /// Records the rules' new slots. It must be called before frames are steered to them.
    ///
    /// # Errors
    /// When the relay has stopped.
    pub(crate) fn follow<'a>(
        &mut self,
        handle: &RelayHandle,
        rules: impl Iterator<Item = (&'a str, Slot)>,
    ) -> Result<(), DriverError> {
        self.of_rules
            .retain(|capture| capture.read.strong_count() > 0);
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        for (rule, slot) in rules {
            if names.get(&slot).is_none_or(|known| **known != *rule) {
                names.insert(slot, rule.into());
            }
            for capture in self.of_rules.iter().filter(|capture| capture.rule == rule) {
                handle.tap_also(capture.number, of_slot(slot))?;
            }
        }
        Ok(())
    }

    /// Captures the frames of a rule, across changes of the rule.
    ///
    /// # Errors
    /// [`ErrorCode::BadValue`], [`ErrorCode::Failed`].
    pub(crate) fn of_rule(
        &mut self,
        handle: &RelayHandle,
        order: &CaptureOrder,
        slot: Slot,
    ) -> Result<(Capturing, Box<dyn CaptureSource>), ApiError> {
        let interfaces = Direction::BOTH.into_iter().flat_map(|direction| {
            let rule = &order.of;
            STAGES.map(move |stage| format!("{rule} {} {stage}", direction.as_str()))
        });
        let read = Arc::new(());
        let weak = Arc::downgrade(&read);
        let (number, made) = self.start(handle, order, of_slot(slot), interfaces, move |seen| {
            let _read = &read;
            at_rule(seen)
        })?;
        self.of_rules.push(OfRule {
            rule: order.of.clone(),
            number,
            read: weak,
        });
        Ok(made)
    }

    /// Captures the frames that arrive and leave at the interface with this index.
    ///
    /// # Errors
    /// [`ErrorCode::BadValue`], [`ErrorCode::Failed`].
    pub(crate) fn of_interface(
        &mut self,
        handle: &RelayHandle,
        order: &CaptureOrder,
        at: usize,
    ) -> Result<(Capturing, Box<dyn CaptureSource>), ApiError> {
        let slots = || Slot::of_rules().chain([UNMATCHED, ROUTER]);
        let ports = || slots().flat_map(|slot| Direction::BOTH.map(|way| slot.edge(way).0));
        let wanted = TapFilter {
            enters: ports().collect(),
            leaves_from: ports().collect(),
            leaves_to: Vec::new(),
        };
        let interfaces = [order.of.clone(), format!("{} dropped", order.of)];
        let say = move |seen: &Tapped| at_interface(at as u8, seen);
        let (_, made) = self.start(handle, order, wanted, interfaces.into_iter(), say)?;
        Ok(made)
    }

    fn start(
        &self,
        handle: &RelayHandle,
        order: &CaptureOrder,
        wanted: TapFilter,
        interfaces: impl Iterator<Item = String>,
        interface_of: impl Fn(&Tapped) -> Option<(u32, Option<Way>)> + Send + 'static,
    ) -> Result<(u64, Begun), ApiError> {
        let filter = order.filter.as_deref().map(Filter::new).transpose()?;
        let capturing = Capturing {
            of: order.of.clone(),
            interfaces: interfaces.collect(),
        };
        let tapping = handle.tap(wanted);
        let tapping =
            tapping.map_err(|error| ApiError::new(ErrorCode::Failed, error.to_string()))?;
        let number = tapping.number();
        let names = Arc::clone(&self.names);
        let say = move |seen: &Tapped| {
            let (interface, direction) = interface_of(seen)?;
            let (slot, way) = Slot::of(seen.from)?;
            Some(FrameText {
                interface,
                direction,
                place: format!("{} {}", of_names(&names, slot), way.as_str()),
            })
        };
        let source = Capture::new(tapping, &capturing.interfaces, filter, say);
        Ok((number, (capturing, Box::new(source))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_link::DropCause;

    fn seen(slot: Slot, direction: Direction, sight: TapPoint) -> Tapped {
        Tapped {
            at_ns: 2,
            entered_ns: Some(1),
            from: slot.edge(direction).0,
            sight,
            passage: None,
            bytes: Vec::new(),
        }
    }

    #[test]
    fn each_stage_of_a_rule_and_way_has_its_interface() {
        let slot = Slot(7);
        let mut interfaces = Vec::new();
        for direction in Direction::BOTH {
            let out = TapPoint::Leaves(slot.edge(direction).1);
            for sight in [TapPoint::Enters, out, TapPoint::Dropped(DropCause::Loss)] {
                interfaces.push(at_rule(&seen(slot, direction, sight)).unwrap().0);
            }
        }
        assert_eq!(interfaces, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn an_interface_sees_what_comes_in_goes_out_and_is_dropped_there() {
        let passing = |passage, sight| Tapped {
            passage: Some(passage),
            ..seen(UNMATCHED, Direction::Forward, sight)
        };
        let out = TapPoint::Leaves(UNMATCHED.edge(Direction::Forward).1);
        let lost = TapPoint::Dropped(DropCause::Loss);
        let places = |passage, sight| {
            [0, 1, 2].map(|at| at_interface(at, &passing(passage, sight)).map(|(place, _)| place))
        };
        assert_eq!(places((0, 1), TapPoint::Enters), [Some(0), None, None]);
        assert_eq!(places((0, 1), out), [None, Some(0), None]);
        assert_eq!(places((0, 1), lost), [Some(1), None, None]);
        // To all others.
        assert_eq!(places((1, 1), out), [Some(0), None, Some(0)]);
    }

    #[test]
    fn a_slot_is_called_by_its_last_rule() {
        let names = Names::default();
        assert_eq!(&*of_names(&names, UNMATCHED), "(no rule)");
        names.lock().unwrap().insert(Slot(3), "calls".into());
        assert_eq!(&*of_names(&names, Slot(3)), "calls");
    }
}
