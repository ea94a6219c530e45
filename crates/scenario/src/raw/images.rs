//! `images`: the images of a scenario, with their sources and identities.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An image with a name of the scenario's own, for the key `image` of nodes. At least one of the two keys is
/// given.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Image")]
pub struct RawImage {
    /// The image's source, as `constel image import` accepts it; paths are relative to the scenario's folder. A
    /// missing image is imported when a lab needs it, except from an engine or a registry: fetch those with
    /// `constel image import`.
    #[schemars(length(min = 1, max = 4096))]
    pub source: Option<String>,
    /// The image's identity: the digest of its configuration, as `constel image list` shows it, or of its
    /// manifest, as registries show it. An image of another digest is refused.
    #[schemars(extend("pattern" = "^sha256:[0-9a-f]{64}$"))]
    pub digest: Option<String>,
}
