//! The interface of a box at which a frame comes in or goes out.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Longest interface name of the kernel (IFNAMSIZ - 1).
const BYTES: usize = 15;

/// An interface, or the machine connected to it, by its name of 1 to 15 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Interface([u8; BYTES + 1]);

impl Interface {
    /// Returns the interface of this name; `None` if the kernel does not allow such a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Interface> {
        let odd = |c: char| c == '/' || c.is_whitespace() || c.is_control();
        if name.is_empty() || name.len() > BYTES || name.contains(odd) {
            return None;
        }
        let mut bytes = [0; BYTES + 1];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Some(Interface(bytes))
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(BYTES);
        std::str::from_utf8(&self.0[..end]).unwrap_or_default()
    }

    /// Returns a number that is different for each name.
    pub(crate) fn number(self) -> u128 {
        u128::from_be_bytes(self.0)
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl TryFrom<String> for Interface {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Interface, Self::Error> {
        Interface::named(&name).ok_or("no interface can be called so")
    }
}

impl From<Interface> for String {
    fn from(interface: Interface) -> String {
        interface.name().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_interfaces() {
        for good in ["eth0", "wlp3s0f0u1u2u3x", "ünn"] {
            assert_eq!(Interface::named(good).unwrap().name(), good);
        }
        for bad in ["", "wlp3s0f0u1u2u3xy", "a/b", "a b", "a\0"] {
            assert_eq!(Interface::named(bad), None, "{bad:?}");
        }
        let number = |name| Interface::named(name).unwrap().number();
        assert_ne!(number("eth1"), number("eth10"));
    }
}
