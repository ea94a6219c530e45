//! Captures at ports of nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use constel_api::answers::Capturing;
use constel_api::{ApiError, CaptureOrder, CaptureSource};
use constel_drivers::{Links, TapFilter, TapPoint, Tapped};
use constel_exchange::pcapng::Direction;
use constel_link::PortId;
use constel_plan::Blueprint;
use constel_topology::NodeId;

use crate::answers::impair;
use crate::watch::capture::{Capture, Filter, FrameText};

/// Starts a capture and returns it with its answer: at a port as `NODE/PORT`, or at all ports of a node. Each port
/// has two interfaces in the capture: one for frames that it sends and receives, and one for frames that it sent
/// and that were dropped.
///
/// # Errors
/// As [`LabWriter::capture`](constel_api::LabWriter::capture).
pub(crate) fn capture(
    blueprint: &Arc<Blueprint>,
    links: &dyn Links,
    order: &CaptureOrder,
    find: impl Fn(&str) -> Result<NodeId, ApiError>,
) -> Result<(Capturing, Box<dyn CaptureSource>), ApiError> {
    let filter = order.filter.as_deref().map(Filter::new).transpose()?;
    let layout = &blueprint.lab.layout;
    let ports: Vec<PortId> = match impair::port(blueprint, &order.of, &find)? {
        Some(port) => vec![port],
        None => layout
            .ports_of(find(&order.of)?)
            .iter()
            .map(|port| port.id)
            .collect(),
    };
    let named = |port: &PortId| name(blueprint, *port);
    // The order of the interfaces is fixed: `first` below relies on two for each port.
    let interfaces = ports.iter().map(named).flat_map(|name| {
        let dropped = format!("{name} dropped");
        [name, dropped]
    });
    let capturing = Capturing {
        of: order.of.clone(),
        interfaces: interfaces.collect(),
    };
    // A frame is seen when it enters an edge at its sender and when it leaves an edge at its receiver.
    let wanted = TapFilter {
        enters: ports.clone(),
        leaves_from: Vec::new(),
        leaves_to: ports.clone(),
    };
    let tapping = links.tap(wanted).map_err(|error| impair::refusal(&error))?;
    let first: BTreeMap<PortId, u32> = ports.iter().copied().zip((0..).step_by(2)).collect();
    let blueprint = Arc::clone(blueprint);
    let say = move |seen: &Tapped| said(&blueprint, seen, |port| first.get(&port).copied());
    let source = Capture::new(tapping, &capturing.interfaces, filter, say);
    Ok((capturing, Box::new(source)))
}

fn name(blueprint: &Blueprint, port: PortId) -> String {
    let layout = &blueprint.lab.layout;
    let port = layout.port(port);
    format!("{}/{}", layout.node(port.node).name, port.name())
}

/// Describes a captured frame. `first` returns a port's interface; the next number is that for dropped frames.
fn said(
    blueprint: &Blueprint,
    seen: &Tapped,
    first: impl Fn(PortId) -> Option<u32>,
) -> Option<FrameText> {
    // A dropped frame never arrived, so that it is shown at its sender and without a direction.
    let (at, extra, direction) = match seen.sight {
        TapPoint::Enters => (seen.from, 0, Some(Direction::Out)),
        TapPoint::Leaves(to) => (to, 0, Some(Direction::In)),
        TapPoint::Dropped(_) => (seen.from, 1, None),
    };
    let here = name(blueprint, at);
    let place = match seen.sight {
        TapPoint::Enters => format!("sent by {here}"),
        TapPoint::Leaves(_) => format!("{here} gets it from {}", name(blueprint, seen.from)),
        TapPoint::Dropped(_) => format!("sent by {here}"),
    };
    Some(FrameText {
        interface: first(at)? + extra,
        direction,
        place,
    })
}
