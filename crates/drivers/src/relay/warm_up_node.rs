//! A node of the relay's own, through which warm-up packets pass. It forwards them back to where they came from, as a
//! satellite does, and has no contact to other nodes.

use std::net::{IpAddr, Ipv4Addr};

use constel_host::netlink::{
    AddressSpec, Batch, FIRST_OWN_IFINDEX, IpPrefix, Mac, NeighbourSpec, Socket, VethEnd,
};
use constel_host::netns::NetNs;
use constel_host::sysctl;

use super::layout::WARM_UP_END;
use super::plumbing::end;
use crate::error::Result;

/// The only interface of the node.
const ETH0: u32 = FIRST_OWN_IFINDEX;
/// That interface's address. The warm-up node forwards packets to an address that it takes for a neighbour's.
pub(super) const MAC: [u8; 6] = [0x02, 0xc5, 0xff, 0x01, 0, 1];
/// From RFC 2544's range for device tests, which is never used on the Internet.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// Source address of the packets.
pub(super) const FROM: Ipv4Addr = Ipv4Addr::new(198, 18, 128, 1);
/// The neighbour, which does not exist.
pub(super) const BEYOND: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);

/// Connects the warm-up node to the shard that has the end [`WARM_UP_END`], and makes it forward.
pub(super) fn wire(warm_up_node: &NetNs, shard: &NetNs) -> Result<()> {
    warm_up_node.run(|| {
        let settings = [
            ("net/ipv4/ip_forward", "1"),
            // Packets that leave by the interface at which they came in must neither be filtered nor cause redirects.
            ("net/ipv4/conf/all/rp_filter", "0"),
            ("net/ipv4/conf/default/rp_filter", "0"),
            ("net/ipv4/conf/all/send_redirects", "0"),
            ("net/ipv4/conf/default/send_redirects", "0"),
        ];
        settings
            .into_iter()
            .try_for_each(|(key, value)| sysctl::write(key, value))
    })??;
    let eth0 = VethEnd {
        name: "eth0",
        netns: Some(warm_up_node.fd()),
        ifindex: Some(ETH0),
        mac: Some(Mac(MAC)),
        ..VethEnd::default()
    };
    let mut batch = Batch::new();
    batch.create_veth(&end("hd", WARM_UP_END), &eth0)?;
    batch.link_up(WARM_UP_END);
    Socket::open_in(shard)?.send(&mut batch)?;

    let mut batch = Batch::new();
    batch
        .link_up(ETH0)
        .add_address(&AddressSpec::new(
            ETH0,
            IpPrefix::new(IpAddr::V4(ADDRESS), 30)?,
        ))
        // A static entry: the neighbour does not exist and cannot answer ARP.
        .replace_neighbour(&NeighbourSpec {
            ifindex: ETH0,
            addr: IpAddr::V4(BEYOND),
            mac: Mac([0x02, 0xc5, 0xff, 0x01, 0, 2]),
        });
    Socket::open_in(warm_up_node)?.send(&mut batch)?;
    Ok(())
}
