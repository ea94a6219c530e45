//! Queries for the kernel's route to an address: one answer per address, however large the table is.

use std::net::IpAddr;

use netlink_packet_core::NLM_F_REQUEST;

use super::batch::NLMSG_HDRLEN;
use super::parse::{InstalledRoute, route};
use super::socket::{NLMSG_ERROR, Socket};
use crate::error::{Context, Result};

/// Makes the kernel return the entry of the table, not the route that it would construct for a packet.
const RTM_F_FIB_MATCH: u32 = 0x2000;
/// Number of answers, some 0.7 KB each with overhead, that fit into the receive buffer at once.
const AT_ONCE: usize = 1024;
const BODY: usize = 12;

impl Socket {
    /// Returns the entry by which the kernel would route a packet of its own to each address, in the given order: the
    /// longest prefix of all tables, including local ones. `None` if it has none, for any reason. For IPv6 the
    /// destination is the address itself and the other fields are those of its entry.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn lookup(&mut self, addresses: &[IpAddr]) -> Result<Vec<Option<InstalledRoute>>> {
        let what = || "look routes up".to_string();
        let mut found = vec![None; addresses.len()];
        for (part, place) in addresses.chunks(AT_ONCE).zip((0..).step_by(AT_ONCE)) {
            let first = self.take_numbers(part.len() as u32);
            let mut requests = Vec::new();
            for (address, seq) in part.iter().zip(0..) {
                request(&mut requests, *address, first.wrapping_add(seq));
            }
            self.send_raw(&requests).context(what)?;
            let mut missing = part.len();
            while missing > 0 {
                self.receive(|msg| {
                    let offset = msg.seq.wrapping_sub(first) as usize;
                    if offset >= part.len() {
                        return Ok(());
                    }
                    missing -= 1;
                    if msg.kind == NLMSG_ERROR {
                        // Any error number (unreachable, prohibited by a rule, IPv6 disabled) means that this node has
                        // no route at present. A node's changes of its own stack are not a failure of the query.
                        return msg.error().map(drop);
                    }
                    found[place + offset] = route(msg.payload);
                    Ok(())
                })?;
            }
        }
        Ok(found)
    }
}

/// Appends a request: header, `rtmsg`, and the destination as its only attribute.
fn request(out: &mut Vec<u8>, address: IpAddr, seq: u32) {
    let (family, bytes): (i32, Vec<u8>) = match address {
        IpAddr::V4(v4) => (libc::AF_INET, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6, v6.octets().to_vec()),
    };
    let attribute = 4 + bytes.len();
    out.extend(((NLMSG_HDRLEN + BODY + attribute) as u32).to_ne_bytes());
    out.extend(libc::RTM_GETROUTE.to_ne_bytes());
    out.extend(NLM_F_REQUEST.to_ne_bytes());
    out.extend(seq.to_ne_bytes());
    out.extend([0; 4]);
    // IPv4: request the table's entry, because the route itself would be returned as a clone of it. IPv6: request the
    // route itself. With next hop objects (as FRR's), Linux finds the entry by the next hop, and would return another
    // route that shares it.
    let flags = match address {
        IpAddr::V4(_) => RTM_F_FIB_MATCH,
        IpAddr::V6(_) => 0,
    };
    out.extend([family as u8, (bytes.len() * 8) as u8, 0, 0, 0, 0, 0, 0]);
    out.extend(flags.to_ne_bytes());
    out.extend((attribute as u16).to_ne_bytes());
    out.extend(libc::RTA_DST.to_ne_bytes());
    out.extend(bytes);
}
