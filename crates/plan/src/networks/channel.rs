//! The channels and switches of a lab: networks whose members share a medium.

use constel_link::PortId;
use constel_link::medium::{Access, Shared, Spec};
use constel_scenario::model;

use crate::lab::Lab;

impl Lab {
    /// Returns the networks with a channel that all members share, with their names.
    #[must_use]
    pub fn channels(&self) -> Vec<(String, Shared)> {
        let networks = (0..).zip(&self.scenario.networks);
        let channels = networks.filter_map(|(place, network)| {
            let model::Medium::Shared { link, channel, .. } = &network.medium else {
                return None;
            };
            let ports = self.layout.network_ports(place).to_vec();
            let shared = Shared {
                spec: Spec {
                    rate_bps: link.rate.bps(),
                    preamble_ns: channel.preamble.ns().unsigned_abs(),
                    guard_ns: channel.guard.ns().unsigned_abs(),
                    access: access(channel.access, ports.len()),
                    queue_bytes: link.queue.bytes(),
                    seed: seed(self.scenario.seed, place),
                },
                ports,
                bit_error_ratio: channel.bit_errors.get(),
            };
            Some((network.name.to_string(), shared))
        });
        channels.collect()
    }

    /// Returns the ports of each network that is a switch.
    #[must_use]
    pub fn switches(&self) -> Vec<Vec<PortId>> {
        let networks = self.scenario.networks.iter().enumerate();
        let switched = networks.filter(|(_, n)| matches!(n.medium, model::Medium::Switched));
        let ports = switched.map(|(place, _)| self.layout.network_ports(place).to_vec());
        ports.collect()
    }
}

/// Returns the random seed of a channel; each has its own.
fn seed(of_lab: u64, place: usize) -> u64 {
    of_lab.wrapping_add((place as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn access(access: model::Access, ports: usize) -> Access {
    let slot_ns = |slot: constel_units::TimeSpan| slot.ns().unsigned_abs();
    match access {
        model::Access::Csma { slot, window } => Access::Csma {
            slot_ns: slot_ns(slot),
            window,
        },
        model::Access::Tdma { slot } => Access::Tdma {
            slot_ns: slot_ns(slot),
            order: (0..ports).collect(),
        },
        model::Access::Aloha => Access::Aloha,
        model::Access::SlottedAloha { slot } => Access::SlottedAloha {
            slot_ns: slot_ns(slot),
        },
    }
}
