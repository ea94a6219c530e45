//! The blocks that a scenario's addresses come from, and the check that they suffice.

use std::collections::BTreeMap;

use constel_routing::{AddressBlocks, Pair, Prefix4, Prefix6};
use constel_scenario::model::{Block, BlockPair};
use constel_scenario::{Diagnostic, Diagnostics, Span};
use constel_topology::{CABLE, GSL, ISL, NETWORK};

use crate::daemons::{address_plan, ospf_areas};
use crate::lab::{Lab, whole_file};
use crate::management;

/// Returns the scenario's blocks of addresses.
pub fn address_blocks(lab: &Lab) -> AddressBlocks {
    let own = &lab.scenario.addresses;
    let v4 = |block: Block<_>| Prefix4 {
        first: block.first,
        length: block.length,
    };
    let pair = |pair: BlockPair| Pair {
        v4: v4(pair.ipv4),
        v6: Prefix6 {
            first: pair.ipv6.first,
            length: pair.ipv6.length,
        },
    };
    AddressBlocks {
        loopback: pair(own.loopback),
        paths: pair(own.paths),
        ports: BTreeMap::from([
            (ISL.name, own.links.map(v4)),
            (GSL.name, own.ground.map(v4)),
            (CABLE.name, own.cables.map(v4)),
            (NETWORK.name, own.networks.map(v4)),
        ]),
    }
}

/// Checks that the lab's blocks have an address for every object that needs one.
///
/// # Errors
/// Each block that is too small, at its place in the file.
pub(crate) fn check_addresses(lab: &Lab) -> Result<(), Diagnostics> {
    // Invalid areas are reported by their own check.
    let areas = ospf_areas(lab).unwrap_or_default();
    let plan = address_plan(lab, areas.as_ref());
    let mut errors = plan.err().unwrap_or_default();
    errors.extend(management::check_block(lab).err());
    let mut found = Diagnostics::new();
    for error in errors {
        found.push(match written(lab, error.block()) {
            Some((span, path)) => {
                let source = &lab.scenario.source;
                Diagnostic::new(source, span, "bad-block", error.to_string()).with_path(path)
            }
            None => whole_file(&lab.scenario, "addresses", error.to_string()),
        });
    }
    found.or(())
}

/// Returns the place and the key of a block in the file; `None` for a default.
fn written(lab: &Lab, block: &str) -> Option<(Span, String)> {
    let own = &lab.scenario.addresses;
    let port = |block: Option<Block<_>>| block.map(|b| (b.to_string(), b.span));
    let pair = |pair: BlockPair| {
        let (v4, v6) = (pair.ipv4, pair.ipv6);
        [(v4.to_string(), v4.span), (v6.to_string(), v6.span)]
    };
    let [loopback4, loopback6] = pair(own.loopback);
    let [paths4, paths6] = pair(own.paths);
    let all = [
        (Some(loopback4), "loopback.ipv4"),
        (Some(loopback6), "loopback.ipv6"),
        (Some(paths4), "paths.ipv4"),
        (Some(paths6), "paths.ipv6"),
        (port(own.links), "links"),
        (port(own.ground), "ground"),
        (port(own.cables), "cables"),
        (port(own.networks), "networks"),
        (port(Some(own.management)), "management"),
    ];
    all.into_iter().find_map(|(known, key)| {
        let (text, span) = known?;
        (text == block).then_some((span?, format!("addresses.{key}")))
    })
}
