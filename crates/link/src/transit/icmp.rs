//! Checksums and the format of ICMP errors.

use std::net::Ipv6Addr;

use crate::packet::{fold, words_sum};

/// Protocol numbers of both versions, and of UDP.
pub(crate) const ICMP: u8 = 1;
pub(crate) const ICMPV6: u8 = 58;
pub(crate) const UDP: u8 = 17;

/// Returns the checksum of a message whose checksum field is 0.
pub(crate) fn checksum(pseudo: u32, message: &[u8]) -> [u8; 2] {
    // The message's sum is folded first, because that of a long message may nearly fill 32 bits.
    (!fold(pseudo + u32::from(fold(words_sum(message))))).to_be_bytes()
}

/// Returns whether the checksum in a message is correct.
pub(crate) fn is_right(pseudo: u32, message: &[u8]) -> bool {
    fold(pseudo + u32::from(fold(words_sum(message)))) == 0xffff
}

/// Returns the sum of the pseudo-header that is part of ICMPv6's checksum but not sent (RFC 8200, section 8.1).
pub(crate) fn pseudo(from: Ipv6Addr, to: Ipv6Addr, len: usize) -> u32 {
    let addresses = words_sum(&from.octets()) + words_sum(&to.octets());
    addresses + len as u32 + u32::from(ICMPV6)
}

/// An ICMP error about another packet: type, code, and the four bytes behind the checksum.
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

    /// Appends the message with the given part of the packet. The checksum is still 0.
    pub(crate) fn write(self, about: &[u8], to: &mut Vec<u8>) {
        to.extend([self.kind, self.code, 0, 0]);
        to.extend(self.rest.to_be_bytes());
        to.extend(about);
    }
}

/// Writes the checksum into the message that begins at `at`.
pub(crate) fn seal(bytes: &mut [u8], at: usize, pseudo: u32) {
    let Some(message) = bytes.get_mut(at..) else {
        return;
    };
    let sum = checksum(pseudo, message);
    if let Some(field) = message.get_mut(2..4) {
        field.copy_from_slice(&sum);
    }
}
