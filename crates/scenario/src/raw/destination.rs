//! The destination of a flow.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Name, NameError};

/// The destination of a flow: a node, or that node's end of a disjoint path, as `NODE.PAIR.PATH`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Destination {
    /// The node.
    pub node: Name,
    /// The path; `None`: the path of the routes to the node.
    pub path: Option<PathOf>,
}

/// One of a pair's disjoint paths.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathOf {
    /// The pair's name in `routing.disjoint`.
    pub pair: Name,
    /// The number of the path, from 1.
    pub number: u8,
}

/// Why a text is not a [`Destination`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DestinationError {
    /// One of its names is not valid.
    Name(NameError),
    /// The text has dots, but not the form `NODE.PAIR.PATH`.
    Form,
}

impl fmt::Display for DestinationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(error) => error.fmt(f),
            Self::Form => write!(
                f,
                "with dots it is a node, a pair of `routing.disjoint` and the number of a path, such as `london.tl.2`"
            ),
        }
    }
}

impl std::error::Error for DestinationError {}

impl FromStr for Destination {
    type Err = DestinationError;

    fn from_str(text: &str) -> Result<Self, DestinationError> {
        let parts: Vec<&str> = text.split('.').collect();
        let name = |part: &str| part.parse().map_err(DestinationError::Name);
        let node_name = |part: &str| Name::of_node(part).map_err(DestinationError::Name);
        match parts[..] {
            [node] => Ok(Self {
                node: node_name(node)?,
                path: None,
            }),
            [node, pair, number] => {
                let plain = |number: &u8| *number > 0 && number.to_string() == parts[2];
                let number = number.parse().ok().filter(plain);
                Ok(Self {
                    node: node_name(node)?,
                    path: Some(PathOf {
                        pair: name(pair)?,
                        number: number.ok_or(DestinationError::Form)?,
                    }),
                })
            }
            _ => Err(DestinationError::Form),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            None => write!(f, "{}", self.node),
            Some(PathOf { pair, number }) => write!(f, "{}.{pair}.{number}", self.node),
        }
    }
}

impl Serialize for Destination {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Destination {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Destination {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Destination".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let name = Name::PATTERN.trim_matches(['^', '$']);
        // Catalogue names of satellites may have any characters but blanks at their ends.
        let pattern = format!(r"^[^\s.]([^.]{{0,62}}[^\s.])?(\.{name}\.[1-9][0-9]{{0,2}})?$");
        json_schema!({"type": "string", "format": "constel-destination", "pattern": pattern})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_nodes_or_ends_of_paths() {
        for good in [
            "london",
            "london.tl.2",
            "s1-p00-s01.a-b.255",
            "ISS (ZARYA)",
            "25544",
            "ISS (ZARYA).tl.2",
        ] {
            assert_eq!(good.parse::<Destination>().unwrap().to_string(), good);
        }
        let path = "london.tl.2".parse::<Destination>().unwrap();
        assert_eq!(path.node, "london");
        assert_eq!(path.path.unwrap().number, 2);
        for bad in [
            "",
            " London",
            "london.",
            "london.tl",
            "london.tl.0",
            "london.tl.02",
            "london.tl.256",
            "london.tl.2.1",
            "london..2",
            "london.tl.x",
            "london.TL.1",
        ] {
            assert!(bad.parse::<Destination>().is_err(), "{bad:?}");
        }
    }
}
