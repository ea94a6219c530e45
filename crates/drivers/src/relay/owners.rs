//! Assignment of ports to the relay's threads: all ports of a node belong to one thread, which serves the edges *to*
//! them.
//!
//! So frames reach a node in order, and the node's kernel receives them on one processor. Each thread gets a range of
//! nodes with about as many ports: neighbours mostly have consecutive numbers, and frames that stay on a thread need no
//! transfer. Nodes without a stack all belong to the first thread, however many they are: a hop between two of them
//! costs less than a transfer between threads. Nodes at interfaces of the host belong to it too, because one thread has
//! their sockets. Nodes whose ports share a channel are together, because a channel belongs to one thread.

use constel_link::PortId;

/// The thread of each port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owners {
    /// Empty if there is one thread.
    of: Vec<u8>,
}

/// Constraints on ports that must be on one thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Together<'a> {
    /// By port, the number of its node; each port beyond the end is a node of its own.
    pub(crate) nodes: &'a [u32],
    /// Ports of each channel.
    pub(crate) channels: &'a [Vec<PortId>],
    /// Ports that must belong to the first thread: those of interfaces of the host.
    pub(crate) first: &'a [PortId],
}

impl Owners {
    /// Assigns `ports` ports to `threads` threads; `forwards` returns whether a port belongs to a node without a stack.
    pub(crate) fn new(
        ports: u32,
        threads: usize,
        together: Together<'_>,
        forwards: impl Fn(PortId) -> bool,
    ) -> Owners {
        if threads <= 1 {
            return Owners::default();
        }
        let groups = Groups::new(ports, together);
        let mut first = vec![false; ports as usize];
        let mut sky = false;
        for port in (0..ports).map(PortId).filter(|port| forwards(*port)) {
            first[groups.of(port)] = true;
            sky = true;
        }
        for port in together.first.iter().filter(|port| port.0 < ports) {
            first[groups.of(*port)] = true;
        }
        // Nodes without a stack occupy the first thread fully.
        let others = if sky { 1..threads } else { 0..threads };
        let mut sizes = vec![0u64; ports as usize];
        for port in (0..ports).map(PortId) {
            sizes[groups.of(port)] += 1;
        }
        let all: u64 = (0..ports as usize)
            .filter(|group| !first[*group])
            .map(|group| sizes[group])
            .sum();
        let mut of_group = vec![0u8; ports as usize];
        let mut before = 0;
        for group in (0..ports as usize).filter(|group| !first[*group]) {
            // The middle of the group among all ports to be divided selects its thread.
            let middle = 2 * before + sizes[group].saturating_sub(1);
            let part = (middle * others.len() as u64 / (2 * all).max(1)) as usize;
            of_group[group] = (others.start + part.min(others.len() - 1)) as u8;
            before += sizes[group];
        }
        let of = (0..ports).map(|port| of_group[groups.of(PortId(port))]);
        Owners { of: of.collect() }
    }

    #[inline]
    pub(crate) fn of(&self, port: PortId) -> usize {
        self.of
            .get(port.0 as usize)
            .map_or(0, |&thread| thread.into())
    }
}

/// Groups of ports that must be on one thread, each named by its smallest port.
struct Groups(Vec<u32>);

impl Groups {
    fn new(ports: u32, together: Together<'_>) -> Groups {
        let mut groups = Groups((0..ports).collect());
        let mut first_of_node: Vec<Option<u32>> = Vec::new();
        for (port, node) in (0..ports).zip(together.nodes) {
            let node = *node as usize;
            if first_of_node.len() <= node {
                first_of_node.resize(node + 1, None);
            }
            let first = *first_of_node[node].get_or_insert(port);
            groups.join(first, port);
        }
        for channel in together.channels {
            let here = channel.iter().filter(|port| port.0 < ports);
            let mut here = here.map(|port| port.0);
            if let Some(first) = here.next() {
                here.for_each(|port| groups.join(first, port));
            }
        }
        // Flatten the tree once: afterwards each lookup takes one step.
        for port in 0..ports {
            groups.0[port as usize] = groups.root(port);
        }
        groups
    }

    fn root(&self, mut port: u32) -> u32 {
        while self.0[port as usize] != port {
            port = self.0[port as usize];
        }
        port
    }

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.root(a), self.root(b));
        // The smaller root stays, so that a group is named by its smallest port.
        self.0[a.max(b) as usize] = a.min(b);
    }

    fn of(&self, port: PortId) -> usize {
        self.0[port.0 as usize] as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(ports: u32, threads: usize, together: Together<'_>) -> Vec<usize> {
        let owners = Owners::new(ports, threads, together, |_| false);
        (0..ports).map(|port| owners.of(PortId(port))).collect()
    }

    #[test]
    fn ports_are_divided_evenly_and_nodes_stay_whole() {
        let none = Together::default();
        assert_eq!(owners(5, 1, none), [0; 5]);
        assert_eq!(owners(6, 2, none), [0, 0, 0, 1, 1, 1]);
        assert_eq!(owners(6, 3, none), [0, 0, 1, 1, 2, 2]);
        assert_eq!(owners(2, 2, none), [0, 1]);
        let nodes = Together {
            nodes: &[0, 1, 1, 2, 2, 3],
            ..none
        };
        assert_eq!(owners(6, 2, nodes), [0, 0, 0, 1, 1, 1]);
        let scattered = Together {
            nodes: &[0, 1, 2, 3, 0, 1, 2, 3],
            ..none
        };
        assert_eq!(owners(8, 2, scattered), [0, 0, 1, 1, 0, 0, 1, 1]);
    }

    #[test]
    fn a_channel_is_one_threads_with_all_nodes_on_it() {
        let channels = [vec![PortId(0), PortId(5)], vec![PortId(4), PortId(2)]];
        let together = Together {
            nodes: &[0, 1, 2, 3, 4, 5, 5],
            channels: &channels,
            first: &[],
        };
        let of = owners(7, 3, together);
        assert_eq!((of[0], of[4]), (of[5], of[2]));
        assert_eq!(of[5], of[6], "of one node");
        assert!(of.iter().any(|thread| *thread != of[0]));
    }

    #[test]
    fn the_sky_and_the_hosts_interfaces_are_with_the_first() {
        let together = Together {
            first: &[PortId(9)],
            ..Together::default()
        };
        let owners = Owners::new(10, 3, together, |port| port.0 < 4);
        let of: Vec<usize> = (0..10).map(|port| owners.of(PortId(port))).collect();
        assert_eq!(of, [0, 0, 0, 0, 1, 1, 1, 2, 2, 0]);
    }
}
