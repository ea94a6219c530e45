//! Blocks of addresses.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A block of IPv4 or IPv6 addresses: `10.0.0.0/8`, `2001:db8::/32`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Prefix {
    first: IpAddr,
    length: u8,
}

/// Reason why a text is not a block of addresses.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PrefixError {
    /// The text is neither an address nor an address with a length.
    #[error(
        "an address such as `10.0.0.1`, or a block such as `10.0.0.0/8` or `2001:db8::/32`, is expected"
    )]
    Form,
    /// The length exceeds that of the address.
    #[error("the length of a block is at most {0}")]
    Length(u8),
    /// The address is not the first of its block.
    #[error("the block of that length begins at {0}")]
    NotFirst(IpAddr),
}

impl Prefix {
    /// Returns the block of `length` bits that begins at `first`.
    ///
    /// # Errors
    /// When the length exceeds that of the address, or the address is not the first of its block.
    pub fn new(first: IpAddr, length: u8) -> Result<Prefix, PrefixError> {
        let bits = bits(first);
        if length > bits {
            return Err(PrefixError::Length(bits));
        }
        let prefix = Prefix { first, length };
        let (number, size) = (number(first), host_bits(bits - length));
        if number & size != 0 {
            return Err(PrefixError::NotFirst(address(first, number & !size)));
        }
        Ok(prefix)
    }

    /// Returns whether it is an IPv4 block.
    #[must_use]
    pub fn is_ipv4(&self) -> bool {
        self.first.is_ipv4()
    }

    /// Returns the range of the addresses, as numbers.
    #[must_use]
    pub fn range(&self) -> RangeInclusive<u128> {
        let first = number(self.first);
        first..=first | host_bits(bits(self.first) - self.length)
    }

    /// Returns whether the address is in the block.
    #[must_use]
    pub fn contains(&self, of: IpAddr) -> bool {
        // Numbers of both families begin at 0, so the families must be compared too.
        of.is_ipv4() == self.is_ipv4() && self.range().contains(&number(of))
    }
}

fn bits(of: IpAddr) -> u8 {
    if of.is_ipv4() { 32 } else { 128 }
}

fn host_bits(count: u8) -> u128 {
    // A shift by 128 has no result: in `::/0` all bits belong to the host.
    1u128
        .checked_shl(count.into())
        .map_or(u128::MAX, |size| size - 1)
}

/// Returns an address as a number.
pub(crate) fn number(of: IpAddr) -> u128 {
    match of {
        IpAddr::V4(of) => u32::from(of).into(),
        IpAddr::V6(of) => of.into(),
    }
}

fn address(like: IpAddr, number: u128) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::V4((number as u32).into()),
        IpAddr::V6(_) => IpAddr::V6(number.into()),
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Prefix, PrefixError> {
        let (first, length) = match text.split_once('/') {
            Some((first, length)) => (first, Some(length)),
            None => (text, None),
        };
        let first: IpAddr = first.parse().map_err(|_| PrefixError::Form)?;
        let length = match length {
            None => bits(first),
            // `parse` alone would also accept a sign and any number of leading zeros.
            Some(digits) if digits.len() <= 3 && digits.bytes().all(|b| b.is_ascii_digit()) => {
                digits.parse().map_err(|_| PrefixError::Form)?
            }
            Some(_) => return Err(PrefixError::Form),
        };
        Prefix::new(first, length)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.length == bits(self.first) {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}/{}", self.first, self.length)
        }
    }
}

impl TryFrom<String> for Prefix {
    type Error = PrefixError;
    fn try_from(text: String) -> Result<Prefix, PrefixError> {
        text.parse()
    }
}

impl From<Prefix> for String {
    fn from(prefix: Prefix) -> String {
        prefix.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_read_and_written() {
        for text in [
            "10.0.0.0/8",
            "10.1.2.3",
            "2001:db8::/32",
            "::1",
            "0.0.0.0/0",
            "::/0",
        ] {
            let prefix: Prefix = text.parse().unwrap();
            assert_eq!(prefix.to_string(), text);
        }
        assert_eq!(
            "10.1.2.3/32".parse::<Prefix>().unwrap().to_string(),
            "10.1.2.3"
        );
        let error = |text: &str| text.parse::<Prefix>().unwrap_err();
        assert_eq!(error("10.0.0.0/33"), PrefixError::Length(32));
        assert_eq!(
            error("10.0.0.1/8"),
            PrefixError::NotFirst("10.0.0.0".parse().unwrap())
        );
        for text in [
            "",
            "10",
            "10.0.0/8",
            "a/8",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0.0/8/9",
        ] {
            assert_eq!(error(text), PrefixError::Form, "{text}");
        }
    }

    #[test]
    fn a_block_has_its_addresses_only() {
        let block: Prefix = "10.0.0.0/8".parse().unwrap();
        assert!(block.contains("10.255.255.255".parse().unwrap()));
        assert!(!block.contains("11.0.0.0".parse().unwrap()));
        assert!(
            !block.contains("::a00:1".parse().unwrap()),
            "the same number in IPv6"
        );
        let all: Prefix = "::/0".parse().unwrap();
        assert!(all.contains("ffff::".parse().unwrap()));
        assert_eq!(all.range(), 0..=u128::MAX);
    }
}
