//! Refusals, with codes that programs may rely on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The reason why a request was refused. Codes are never renamed and never change their meaning. New codes may be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ErrorCode {
    /// The line is not a request: not JSON, no such verb, a missing or unknown field, or too long.
    BadRequest,
    /// The request uses a later version of the protocol than this lab supports.
    UnsupportedVersion,
    /// No node has this name. The refusal may contain a similar name.
    NodeNotFound,
    /// A text that names a node, two nodes or a path is ambiguous, or does not name any path.
    BadName,
    /// There is no link between these nodes now. The text gives the reason.
    NoLink,
    /// No disjoint path leads from this node to that end. The text gives the nodes from which one does.
    NoPath,
    /// The lab is still starting or already stopping, so the requested object does not exist.
    ComingUp,
    /// Events at this lab time depend on more of the past than can be computed in some seconds. The text gives possible
    /// requests.
    TooFar,
    /// The scenario's `information` does not cover this node, so it receives none.
    NoInformation,
    /// A value is out of its bounds.
    BadValue,
    /// The link driver of this lab cannot do it.
    Unsupported,
    /// A question about rules, to a lab that is no box.
    NotABox,
    /// A question about nodes or links, to a box.
    NotALab,
    /// No rule has this name.
    NoRule,
    /// A kernel or the link driver failed.
    Failed,
    /// A lab of a later version refused for a reason that this version has no code for.
    #[serde(other)]
    Unknown,
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{error}")]
pub struct ApiError {
    /// A message for users.
    pub error: String,
    /// For programs. Labs of earlier versions sent none.
    #[serde(default = "unknown")]
    pub code: ErrorCode,
    /// A similar name, for [`ErrorCode::NodeNotFound`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
}

fn unknown() -> ErrorCode {
    ErrorCode::Unknown
}

impl ApiError {
    /// A refusal with a code and words.
    #[must_use]
    pub fn new(code: ErrorCode, error: impl Into<String>) -> Self {
        Self {
            error: error.into(),
            code,
            nearest: None,
        }
    }

    /// No node is called `name`; `nearest` is the name that is most like it.
    #[must_use]
    pub fn no_node(name: &str, nearest: Option<&str>) -> Self {
        let hint = nearest.map(|near| format!("; nearest is '{near}'"));
        Self {
            error: format!("no node is called '{name}'{}", hint.unwrap_or_default()),
            code: ErrorCode::NodeNotFound,
            nearest: nearest.map(str::to_owned),
        }
    }

    /// A question about rules, to a lab that is no box.
    #[must_use]
    pub fn not_a_box() -> Self {
        let error = "this lab is no box: it has no rules";
        Self::new(ErrorCode::NotABox, error)
    }

    /// The lab is not up yet, or not any more.
    #[must_use]
    pub fn coming_up() -> Self {
        Self::new(
            ErrorCode::ComingUp,
            "the lab is still coming up, or going down",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_words_and_unknown_ones_are_no_failure() {
        let refused = ApiError::no_node("wset", Some("west"));
        let text = serde_json::to_string(&refused).unwrap();
        assert_eq!(
            text,
            r#"{"error":"no node is called 'wset'; nearest is 'west'","code":"node-not-found","nearest":"west"}"#
        );
        assert_eq!(serde_json::from_str::<ApiError>(&text).unwrap(), refused);
        let later = r#"{"error": "x", "code": "eclipsed"}"#;
        let later: ApiError = serde_json::from_str(later).unwrap();
        assert_eq!(later.code, ErrorCode::Unknown);
    }
}
