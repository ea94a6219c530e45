//! Checksums, and which messages may be answered by messages.

use std::net::Ipv6Addr;

use crate::packet::{fold, words_sum};

/// The protocol numbers of both.
pub(crate) const ICMP: u8 = 1;
pub(crate) const ICMPV6: u8 = 58;
pub(crate) const UDP: u8 = 17;

/// The checksum of a message: what its field must hold, where it holds 0 now.
pub(crate) fn checksum(pseudo: u32, message: &[u8]) -> [u8; 2] {
    (!fold(pseudo + u32::from(fold(words_sum(message))))).to_be_bytes()
}

/// Whether the checksum in a message is right.
pub(crate) fn is_right(pseudo: u32, message: &[u8]) -> bool {
    fold(pseudo + u32::from(fold(words_sum(message)))) == 0xffff
}

/// The sum of the header that ICMPv6 is summed up with, and that is not sent (RFC 8200, section 8.1).
pub(crate) fn pseudo(from: Ipv6Addr, to: Ipv6Addr, len: usize) -> u32 {
    let addresses = words_sum(&from.octets()) + words_sum(&to.octets());
    addresses + len as u32 + u32::from(ICMPV6)
}

/// A message about another packet: type, code, and what stands behind the checksum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Complaint {
    pub(crate) kind: u8,
    pub(crate) code: u8,
    pub(crate) rest: u32,
}

impl Complaint {
    pub(crate) const fn new(kind: u8, code: u8, rest: u32) -> Complaint {
        Complaint { kind, code, rest }
    }

    /// The message, with as much of the packet as there is; its checksum is still 0.
    pub(crate) fn write(self, about: &[u8], to: &mut Vec<u8>) {
        to.extend([self.kind, self.code, 0, 0]);
        to.extend(self.rest.to_be_bytes());
        to.extend(about);
    }
}

/// Puts the checksum into the message that begins at `at`.
pub(crate) fn seal(bytes: &mut [u8], at: usize, pseudo: u32) {
    let Some(message) = bytes.get_mut(at..) else {
        return;
    };
    let sum = checksum(pseudo, message);
    if let Some(field) = message.get_mut(2..4) {
        field.copy_from_slice(&sum);
    }
}
