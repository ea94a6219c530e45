//! Failures of networks: converts names and patterns to indices of a network's members.

use std::collections::BTreeSet;

use constel_orbit::Geodetic;
use constel_scenario::Diagnostics;
use constel_scenario::model::{self, Name, NodesNamed};
use constel_topology::{Centre, Disruption, FailureTarget, Network};

/// Converts the effect of a failure on one network. Patterns that match no member are errors.
pub(crate) fn make(
    name: &Name,
    trouble: &model::Disruption,
    networks: &[Network],
    errors: &mut Diagnostics,
) -> Option<FailureTarget> {
    let place = networks.iter().position(|n| n.name == name.as_str())?;
    let members = &networks[place].members;
    let places = |patterns: &[NodesNamed], errors: &mut Diagnostics| {
        let mut found = BTreeSet::new();
        for pattern in patterns {
            let own = (0..members.len()).filter(|n| pattern.glob.matches(&members[*n]));
            let before = found.len();
            let own: Vec<usize> = own.collect();
            found.extend(&own);
            if own.is_empty() {
                let message = format!("no member of `{name}` is called `{}`", pattern.glob);
                let error = pattern.error("unknown-node", message);
                errors.push(error.with_allowed(members.iter().map(String::as_str)));
            } else if found.len() == before {
                let message = format!("`{}` names no other node", pattern.glob);
                errors.push(pattern.error("duplicate-name", message));
            }
        }
        found
    };
    let trouble = match trouble {
        model::Disruption::Partition(groups) => {
            let mut all: Vec<BTreeSet<usize>> = Vec::new();
            for group in groups {
                let own = places(group, errors);
                let twice = all.iter().find_map(|other| other.intersection(&own).next());
                if let Some(member) = twice {
                    let message = format!("`{}` is in a group already", members[*member]);
                    errors.push(group[0].error("duplicate-name", message));
                }
                all.push(own);
            }
            if let [one] = &all[..]
                && one.len() == members.len()
            {
                let message = format!("all members of `{name}` are in one group");
                errors.push(groups[0][0].error("no-effect", message));
            }
            Disruption::Partition(all)
        }
        model::Disruption::Jamming {
            centre,
            radius,
            loss,
        } => Disruption::Jamming {
            centre: match centre {
                model::Centre::Node(name) => Centre::Node(name.to_string()),
                model::Centre::Place {
                    latitude,
                    longitude,
                    altitude,
                } => {
                    let at = Geodetic::new(*latitude, *longitude, *altitude);
                    Centre::Place(at.position_itrf_m())
                }
            },
            radius_m: radius.m(),
            loss_ratio: loss.get(),
        },
        model::Disruption::Disturbance {
            from,
            to,
            loss,
            extra_delay,
        } => Disruption::Disturbance {
            from: places(from, errors),
            to: places(to, errors),
            loss_ratio: loss.get(),
            extra_delay_ns: extra_delay.ns().unsigned_abs(),
        },
    };
    Some(FailureTarget::Network {
        network: place,
        trouble,
    })
}
