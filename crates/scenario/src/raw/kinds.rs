//! Small value types of the scenario file.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The name of a lab, constellation, node or flow: 1 to 48 characters of `a-z`, `0-9` and `-`,
/// starting with a letter or digit and not ending with `-`. It is safe as a file name, a host
/// name and a word on a command line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

/// Why a text is not a [`Name`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameError {
    /// No character at all.
    Empty,
    /// More than [`Name::MAX_LEN`] characters.
    TooLong,
    /// This character is not allowed there.
    Character(char),
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::Empty => write!(f, "a name cannot be empty"),
            NameError::TooLong => {
                write!(f, "a name has at most {} characters", Name::MAX_LEN)
            }
            NameError::Character('-') => write!(f, "a name does not start or end with `-`"),
            NameError::Character(c) => {
                write!(f, "`{}` is not allowed in a name", c.escape_debug())
            }
        }
    }
}

impl std::error::Error for NameError {}

impl Name {
    /// Longest name, characters. Leaves room for `-p000-s000` within a 63-character DNS label.
    pub const MAX_LEN: usize = 48;

    /// The rule as a regular expression, for the JSON schema.
    pub(crate) const PATTERN: &'static str = "^[a-z0-9]([a-z0-9-]{0,46}[a-z0-9])?$";

    /// Longest name of a satellite in a catalogue.
    const LONGEST_CALLED: usize = 64;

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses the name of a node, or its name in a catalogue. The latter stands for the node's name until
    /// [`Scenario::settle_nodes`](crate::Scenario::settle_nodes).
    pub(crate) fn of_node(text: &str) -> Result<Self, NameError> {
        let only_called =
            |c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || "-._".contains(c));
        text.parse().or_else(|error| {
            let bounds = [text.chars().next(), text.chars().last()];
            let blank = bounds.into_iter().flatten().find(|c| c.is_whitespace());
            let control = text.chars().find(|c| c.is_control());
            match blank.or(control) {
                Some(c) => Err(NameError::Character(c)),
                // A text with the characters of a [`Name`] only was meant as a name.
                None if !text.chars().any(only_called) => Err(error),
                None if text.chars().count() > Self::LONGEST_CALLED => Err(NameError::TooLong),
                None => Ok(Self(text.to_owned())),
            }
        })
    }

    /// Whether this can only be a satellite's name or number in a catalogue.
    pub(crate) fn is_called(&self) -> bool {
        self.0.parse::<Name>().is_err() || self.0.bytes().all(|b| b.is_ascii_digit())
    }

    /// The name of a node of the plan, which may be longer than others.
    pub(crate) fn settled(name: String) -> Self {
        Self(name)
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if let Some(c) = text.chars().find(|&c| !allowed(c)) {
            return Err(NameError::Character(c));
        }
        if text.starts_with('-') || text.ends_with('-') {
            return Err(NameError::Character('-'));
        }
        if text.len() > Self::MAX_LEN {
            return Err(NameError::TooLong);
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Name {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Name".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "constel-name", "pattern": Self::PATTERN})
    }
}

/// A value, or the word `none` where the user wants no such thing at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Default)]
pub enum OrNone<T> {
    /// Written `none`.
    #[default]
    None,
    /// The value.
    Some(T),
}

impl<T> OrNone<T> {
    /// Returns the value as a standard option.
    pub fn into_option(self) -> Option<T> {
        match self {
            OrNone::None => None,
            OrNone::Some(value) => Some(value),
        }
    }
}

impl<T: Serialize> Serialize for OrNone<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            OrNone::None => serializer.serialize_str("none"),
            OrNone::Some(value) => value.serialize(serializer),
        }
    }
}

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for OrNone<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        if text == "none" {
            return Ok(OrNone::None);
        }
        text.parse()
            .map(OrNone::Some)
            .map_err(serde::de::Error::custom)
    }
}

impl<T: JsonSchema> JsonSchema for OrNone<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("{}OrNone", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<T>();
        json_schema!({"anyOf": [{"const": "none"}, value]})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_their_rule() {
        for good in [
            "a",
            "0",
            "tokyo",
            "sao-paulo",
            "iridium-p03-s07",
            &"x".repeat(48),
        ] {
            assert_eq!(good.parse::<Name>().unwrap().as_str(), good);
        }
        for bad in [
            "",
            "-a",
            "a-",
            "Tokyo",
            "são",
            "a b",
            "a_b",
            "a/..",
            "a\u{1b}",
            &"x".repeat(49),
        ] {
            assert!(bad.parse::<Name>().is_err(), "{bad:?} should not be a name");
        }
    }
}
