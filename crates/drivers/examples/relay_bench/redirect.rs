//! A link that the kernel redirects by itself (tc `mirred`), for comparison: the same two veth
//! pairs as the relay's, nothing in between.

use std::process::Command;

use constel_host::netlink::{Batch, Socket, VethEnd};
use constel_host::netns::NetNs;

use crate::support::{ETH0, Node};

const HOST_END: u32 = 1000;

/// Joins `left`'s interface `nth` with `right`'s by redirection in a namespace of its own. Returns the reason if `tc`
/// or its actions are missing.
pub(crate) fn join(
    switch: &NetNs,
    link: u32,
    left: (&Node, u32),
    right: (&Node, u32),
    gso: bool,
) -> Result<(), String> {
    let ends = [HOST_END + 2 * link, HOST_END + 2 * link + 1];
    for ((node, nth), index) in [left, right].into_iter().zip(ends) {
        let (host, eth) = (format!("h{index}"), format!("eth{nth}"));
        let near = VethEnd {
            name: &host,
            ifindex: Some(index),
            up: true,
            ..VethEnd::default()
        };
        let far = VethEnd {
            name: &eth,
            netns: Some(node.ns.fd()),
            ifindex: Some(ETH0 + nth),
            ..VethEnd::default()
        };
        let mut batch = Batch::new();
        batch.create_veth(&near, &far).unwrap();
        Socket::open_in(switch).unwrap().send(&mut batch).unwrap();
        if !gso {
            node.run(|| constel_drivers::relay::send_single_frames(&eth).unwrap());
        }
    }
    for (from, to) in [(ends[0], ends[1]), (ends[1], ends[0])] {
        let lines = [
            format!("qdisc add dev h{from} clsact"),
            format!(
                "filter add dev h{from} ingress protocol all u32 match u32 0 0 action mirred egress redirect dev h{to}"
            ),
        ];
        for line in lines {
            let done = switch
                .run(|| Command::new("tc").args(line.split(' ')).output())
                .map_err(|e| e.to_string())?
                .map_err(|e| format!("tc: {e}"))?;
            if !done.status.success() {
                return Err(String::from_utf8_lossy(&done.stderr).trim().to_owned());
            }
        }
    }
    Ok(())
}
