//! The description of a machine: a name, a weight, a maximum number of nodes.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// Maximum number of machines of one lab.
pub const MOST_MACHINES: usize = 256;

/// A machine that runs a part of a lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Name of the machine, in the form of a host name: letters, digits, `-`, `.`, at most 63 characters.
    pub name: String,
    /// Share of the lab's nodes, in proportion to the weights of the other machines. At least 1.
    pub weight: u32,
    /// Maximum number of nodes.
    pub capacity: Option<u32>,
}

/// The machines of one lab. Their names differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machines(Vec<Machine>);

/// The error for a text that does not name machines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}; write NAME[=WEIGHT][/CAPACITY],..., for example a,b=2,c/500")]
pub struct MachinesError(String);

/// The error for a text that is not a valid name of a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no name of a machine: letters, digits, - and ., up to 63")]
pub struct NameError(String);

impl Machines {
    /// Creates a list of machines whose names differ.
    ///
    /// # Errors
    /// If the list is empty or longer than [`MOST_MACHINES`], or two machines have the same name.
    pub fn new(machines: Vec<Machine>) -> Result<Self, MachinesError> {
        if machines.is_empty() || machines.len() > MOST_MACHINES {
            let count = machines.len();
            return Err(MachinesError(format!(
                "{count} machines; 1 to {MOST_MACHINES} are allowed"
            )));
        }
        for (place, machine) in machines.iter().enumerate() {
            if machines[..place]
                .iter()
                .any(|other| other.name == machine.name)
            {
                return Err(MachinesError(format!(
                    "machine {:?} is there twice",
                    machine.name
                )));
            }
        }
        Ok(Self(machines))
    }

    /// Returns the machines in the order in which they were named.
    #[must_use]
    pub fn all(&self) -> &[Machine] {
        &self.0
    }

    /// Returns the index of the machine with this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|machine| machine.name == name)
    }
}

impl Machine {
    /// Creates a machine. `weight` is at least 1.
    ///
    /// # Errors
    /// If the name is invalid.
    pub fn named(name: &str, weight: u32, capacity: Option<u32>) -> Result<Self, NameError> {
        // Names are parts of keys and of folders, and must be possible as host names.
        let is_name = (1..=63).contains(&name.len())
            && name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-.".contains(c));
        if !is_name {
            return Err(NameError(name.to_owned()));
        }
        Ok(Self {
            name: name.to_owned(),
            weight,
            capacity,
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        if self.weight != 1 {
            write!(f, "={}", self.weight)?;
        }
        self.capacity
            .map_or(Ok(()), |capacity| write!(f, "/{capacity}"))
    }
}

impl FromStr for Machine {
    type Err = MachinesError;

    fn from_str(text: &str) -> Result<Self, MachinesError> {
        let number = |what: &str, digits: &str| match digits.parse::<u32>() {
            Ok(number @ 1..) if digits.bytes().all(|b| b.is_ascii_digit()) => Ok(number),
            _ => Err(MachinesError(format!(
                "{what} {digits:?} of {text:?} is no number from 1 on"
            ))),
        };
        let (rest, capacity) = match text.split_once('/') {
            Some((rest, digits)) => (rest, Some(number("capacity", digits)?)),
            None => (text, None),
        };
        let (name, weight) = match rest.split_once('=') {
            Some((name, digits)) => (name, number("weight", digits)?),
            None => (rest, 1),
        };
        Self::named(name, weight, capacity).map_err(|error| MachinesError(error.to_string()))
    }
}

impl FromStr for Machines {
    type Err = MachinesError;

    fn from_str(text: &str) -> Result<Self, MachinesError> {
        let machines = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
        Self::new(machines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_weights_and_caps_are_read() {
        let machines: Machines = "a,b.c=2,d-1/500,e=3/4".parse().unwrap();
        let read: Vec<_> = machines
            .all()
            .iter()
            .map(|m| (m.name.as_str(), m.weight, m.capacity))
            .collect();
        let expected = [
            ("a", 1, None),
            ("b.c", 2, None),
            ("d-1", 1, Some(500)),
            ("e", 3, Some(4)),
        ];
        assert_eq!(read, expected);
        let again: Vec<String> = machines.all().iter().map(ToString::to_string).collect();
        assert_eq!(again.join(","), "a,b.c=2,d-1/500,e=3/4");
        assert_eq!((machines.find("d-1"), machines.find("x")), (Some(2), None));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, named) in [
            ("", "no name"),
            ("a,,b", "no name"),
            ("a,a=2", "twice"),
            ("a=0", "weight"),
            ("a=", "weight"),
            ("a=+1", "weight"),
            ("a=1/0", "capacity"),
            ("a/x", "capacity"),
            ("a b", "no name"),
            ("-a", "no name"),
        ] {
            let error = text.parse::<Machines>().unwrap_err().to_string();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
