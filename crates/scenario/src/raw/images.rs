//! `images`: where the images of a scenario come from, and which they are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An image by a name of the scenario's own, which `image` of nodes then says. At least one of the two.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Image")]
pub struct RawImage {
    /// Where it is, as `constel image import` takes it; paths are relative to the scenario's folder. It is brought in when a lab
    /// needs it and it is not there. What comes from an engine or a registry is not: `constel image import` fetches it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub source: Option<String>,
    /// Which it is: the digest of its configuration, as `constel image list` shows it, or of its manifest, as registries do.
    /// An image of another digest is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^sha256:[0-9a-f]{64}$"))]
    pub digest: Option<String>,
}
