//! From a planned lab to the resources that it needs.

use constel_plan::{Lab, daemon_spec, ospf_areas};
use constel_routing::daemons::{Software, Spec, programs};
use constel_scenario::model::{DaemonRouting, Destinations, Forwarding, Igp, Mode};
use serde::Serialize;

use crate::capacity::costs;
use crate::capacity::figure::Resource;
use crate::capacity::load::{FlowTraffic, Load};

/// A lab's own processes besides those in nodes: its keeper, and the process that answers requests.
const OWN_PROCESSES: f64 = 4.0;
/// Descriptors of the engine that do not go with nodes.
const OWN_DESCRIPTORS: f64 = 1_024.0;
/// A hello of a routing protocol, bytes.
const HELLO_BYTES: f64 = 90.0;
/// A destination in the map that forwards, bytes.
const MAP_ENTRY_BYTES: f64 = 8.0;

/// An amount of a resource, as a function of the number of nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Amount {
    /// The part that does not depend on the number of nodes.
    pub fixed: f64,
    /// The part that grows with the number of nodes.
    pub linear: f64,
    /// The part that grows with its square: the state that every node keeps of every other.
    pub squared: f64,
}

impl Amount {
    /// Returns the amount with `scale` times the nodes.
    #[must_use]
    pub fn at(self, scale: f64) -> f64 {
        self.fixed + self.linear * scale + self.squared * scale * scale
    }

    /// Returns the amount of the lab as it is.
    #[must_use]
    pub fn whole(self) -> f64 {
        self.at(1.0)
    }

    /// Returns the share of the nodes at which the amount is `there`, at most 1; `None` if the fixed part alone
    /// is too much.
    #[must_use]
    pub fn fits(self, there: f64) -> Option<f64> {
        if self.whole() <= there {
            return Some(1.0);
        }
        if self.fixed > there {
            return None;
        }
        // The amount rises with the scale, so bisection finds it.
        let (mut least, mut most) = (0.0, 1.0);
        for _ in 0..40 {
            let middle = f64::midpoint(least, most);
            if self.at(middle) <= there {
                least = middle;
            } else {
                most = middle;
            }
        }
        Some(least)
    }
}

/// The resources of a machine that a lab needs. Programs of the scenario's author are not included.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Needs {
    /// Bytes.
    pub memory: Amount,
    /// Open files of the engine.
    pub descriptors: Amount,
    /// Processes on the machine.
    pub processes: Amount,
    /// Processors that are busy once routes have converged, at the time of most traffic.
    pub processors: Amount,
    /// Load of the single thread that carries the frames of all links at that time, as a share.
    pub carrier: Amount,
    /// The traffic of the flows.
    pub flows: FlowTraffic,
}

impl Needs {
    /// Counts the resources that the lab will need. With `traffic` false its flows are left out.
    #[must_use]
    pub fn of(lab: &Lab, traffic: bool) -> Self {
        let nodes = lab.stacks() as f64;
        let ports = lab.wired_ports().count() as f64;
        let forwarders = lab.forwarders().count() as f64;
        let flows = if traffic {
            FlowTraffic::of(lab)
        } else {
            FlowTraffic::default()
        };
        let flow_count = if traffic {
            lab.scenario.traffic.len() as f64
        } else {
            0.0
        };
        let step_s = lab.step_ns() as f64 / 1e9;
        let mut needs = Self {
            memory: Amount {
                fixed: costs::ENGINE_BYTES,
                linear: nodes * costs::NODE_BYTES
                    + ports * costs::PORT_BYTES
                    + forwarders * costs::FORWARDER_BYTES
                    + containers(lab),
                squared: 0.0,
            },
            descriptors: Amount {
                fixed: OWN_DESCRIPTORS + 2.0 * flow_count,
                linear: nodes
                    * if lab.scenario.information.is_empty() {
                        3.0
                    } else {
                        4.0
                    }
                    + 4.0 * lab.containers().count() as f64,
                squared: 0.0,
            },
            processes: Amount {
                fixed: OWN_PROCESSES + 2.0 * flow_count,
                linear: lab.containers().count() as f64,
                squared: 0.0,
            },
            processors: Amount {
                fixed: flows.most.processors(),
                linear: (nodes + forwarders) * costs::STEP_NODE_NS / 1e9 / step_s,
                squared: 0.0,
            },
            carrier: Amount {
                fixed: flows.most.carrier(),
                ..Amount::default()
            },
            flows,
        };
        match &lab.scenario.routing.mode {
            Mode::Computed(computed) => {
                let to_all = computed.destinations == Destinations::All;
                let families = families(lab);
                // The map exists in addition to the tables, which follow it.
                let of_one = costs::ROUTE_BYTES
                    + match computed.forwarding {
                        Forwarding::Map => MAP_ENTRY_BYTES,
                        Forwarding::Tables => 0.0,
                    };
                if to_all {
                    let all = nodes + forwarders;
                    needs.memory.squared += nodes * all * families * of_one;
                    needs.memory.squared += forwarders * all * costs::WAY_BYTES;
                } else {
                    let ends = lab.layout.endpoints().count() as f64;
                    needs.memory.linear += nodes * ends * families * of_one;
                    needs.memory.linear += forwarders * ends * costs::WAY_BYTES;
                }
            }
            Mode::Daemons(routing) => needs.add_daemons(lab, routing),
            Mode::None => {}
        }
        needs
    }

    fn add_daemons(&mut self, lab: &Lab, routing: &DaemonRouting) {
        let spec = daemon_spec(lab, routing);
        let nodes = lab.layout.nodes().len() as f64;
        let processes = processes(lab, &spec);
        self.processes.linear += processes;
        self.descriptors.linear += processes;
        let of_process = match spec.software {
            Software::Bird => costs::BIRD_BYTES,
            Software::Frr => costs::FRR_BYTES,
        };
        self.memory.linear += processes * of_process;
        let known_bytes = families(lab) * costs::KNOWN_ROUTER_BYTES;
        match ospf_areas(lab).ok().flatten() {
            // More nodes make more areas, not larger ones.
            Some(areas) => {
                let rows = areas.rows(&lab.layout).into_iter();
                let pairs: f64 = rows.map(|row| (row.satellites as f64).powi(2)).sum();
                self.memory.linear += pairs * known_bytes;
            }
            None => self.memory.squared += nodes * nodes * known_bytes,
        }
        let each = match routing.protocol {
            Igp::Ospf | Igp::Babel => families(lab),
            Igp::Isis => 1.0,
        };
        let hellos_per_s = adjacent_ports(lab) / f64::from(spec.hello_s.max(1)) * each;
        let load = Load::new(hellos_per_s, HELLO_BYTES, 1.0);
        self.processors.linear += load.processors() + hellos_per_s * costs::HELLO_NS / 1e9;
        self.carrier.linear += load.carrier();
    }

    /// One of the figures.
    #[must_use]
    pub fn amount(&self, what: Resource) -> Amount {
        match what {
            Resource::Memory => self.memory,
            Resource::Descriptors => self.descriptors,
            Resource::Processes => self.processes,
            Resource::Processors => self.processors,
            Resource::Carrier => self.carrier,
        }
    }
}

fn families(lab: &Lab) -> f64 {
    let families = lab.scenario.routing.families;
    f64::from(u8::from(families.ipv4) + u8::from(families.ipv6))
}

/// Returns the memory of containers beyond that of namespaces, without their programs.
fn containers(lab: &Lab) -> f64 {
    let of = |by_engine: bool| match by_engine {
        true => costs::ENGINE_CONTAINER_BYTES,
        false => costs::CONTAINER_BYTES,
    };
    lab.containers().map(|(_, one)| of(one.by_engine)).sum()
}

fn processes(lab: &Lab, spec: &Spec) -> f64 {
    let speakers = spec.speakers(&lab.layout).len();
    let nodes = lab.layout.nodes().len();
    let of = |only_bgp: bool| if only_bgp { speakers } else { nodes };
    let all: usize = programs(spec).iter().map(|p| of(p.only_bgp)).sum();
    all as f64
}

/// Ports over which neighbours greet each other: those of lasers and cables, and those of stations.
fn adjacent_ports(lab: &Lab) -> f64 {
    let layout = &lab.layout;
    let fixed = layout
        .ports()
        .iter()
        .filter(|p| layout.far_port(p.id).is_some());
    let beams: usize = layout
        .stations()
        .map(|s| layout.access_ports(s.id).len())
        .sum();
    (fixed.count() + 2 * beams) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_fits_as_far_as_it_grows() {
        let amount = Amount {
            fixed: 100.0,
            linear: 200.0,
            squared: 400.0,
        };
        assert_eq!(amount.whole(), 700.0);
        assert_eq!(amount.fits(700.0), Some(1.0));
        // A half: 100 + 100 + 100.
        assert!((amount.fits(300.0).unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(amount.fits(100.0), Some(0.0));
        assert_eq!(amount.fits(99.0), None);
    }
}
