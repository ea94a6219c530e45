//! Names of nodes in a scenario file.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use super::{Name, NameError};

/// A node: its name, or, for a satellite of an element file or ephemeris, its name in that file, as written
/// there, or its catalogue number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct NodeName(Name);

impl NodeName {
    /// The pattern of satellites' names in catalogues, for the JSON schema.
    const PATTERN: &'static str = r"^\S(.{0,62}\S)?$";

    /// Parses the name of a node.
    ///
    /// # Errors
    /// The reason why it is not valid.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        Name::of_node(text).map(Self)
    }

    /// The name of a node of the plan, which may be longer than one in a file.
    pub(crate) fn settled(name: Name) -> Self {
        Self(name)
    }

    /// The name as a [`Name`].
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Deref for NodeName {
    type Target = Name;

    fn deref(&self) -> &Name {
        &self.0
    }
}

impl<'de> Deserialize<'de> for NodeName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for NodeName {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "NodeName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "constel-node", "pattern": Self::PATTERN})
    }
}
