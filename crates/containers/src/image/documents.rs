//! The documents of images: index, manifest and configuration, as the OCI image specification 1.1 and Docker's
//! manifest version 2, schema 2, write them; and the `manifest.json` of `docker save`. Only what is used is read.
//!
//! Why not the crate `oci-spec`: it brings 22 crates (regex and derive_builder among them) for these few types, and
//! knows neither Docker's health check nor `manifest.json`.

use std::collections::BTreeMap;
use std::io::Read;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use crate::image::digest::Digest;
use crate::image::error::Fault;
use crate::image::limits::Limits;

/// Media types of indexes, which lead to manifests.
pub(crate) const INDEXES: [&str; 2] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];
/// Media types of manifests, which lead to a configuration and layers.
pub(crate) const MANIFESTS: [&str; 2] = [
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];
const CONFIGS: [&str; 2] = [
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
];
/// Media types of layers. The compression is recognised by the content; only layers stored beside the manifest are supported.
const LAYERS: [&str; 2] = [
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.docker.image.rootfs.diff.tar",
];

/// A reference to a document or a layer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// The media type of the content.
    #[serde(default)]
    pub media_type: String,
    /// The digest of the content.
    pub digest: Digest,
    /// The size of the content in bytes.
    pub size: u64,
    /// The platform that the content is for; only in an index.
    #[serde(default)]
    pub platform: Option<Platform>,
    /// Annotations, names among them.
    #[serde(default, deserialize_with = "null_is_default")]
    pub annotations: BTreeMap<String, String>,
}

/// The kind of machine that an image is for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Platform {
    /// The architecture as Go names it: `amd64`, `arm64`.
    pub architecture: String,
    /// The operating system as Go names it: `linux`.
    pub os: String,
}

impl Platform {
    /// Returns the platform of this machine.
    #[must_use]
    pub fn host() -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            "x86" => "386",
            "powerpc64" if cfg!(target_endian = "little") => "ppc64le",
            "loongarch64" => "loong64",
            other => other,
        };
        Self {
            architecture: architecture.to_owned(),
            os: "linux".to_owned(),
        }
    }
}

impl std::fmt::Display for Platform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)
    }
}

/// An index: a list of manifests.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Index {
    /// The manifests, or further indexes.
    #[serde(default, deserialize_with = "null_is_default")]
    pub manifests: Vec<Descriptor>,
}

/// A manifest: references to a configuration and layers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Manifest {
    /// The configuration.
    pub config: Descriptor,
    /// The layers, the lowest first.
    pub layers: Vec<Descriptor>,
}

/// One image of a `docker save`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct SavedImage {
    /// The configuration's path in the archive.
    pub config: String,
    /// Names with tags.
    #[serde(default, deserialize_with = "null_is_default")]
    pub repo_tags: Vec<String>,
    /// The layers' paths in the archive, the lowest first.
    #[serde(default, deserialize_with = "null_is_default")]
    pub layers: Vec<String>,
}

/// The configuration of an image as written: how its programs run, and its layers. [`crate::image::Config`] is the checked form.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Configuration {
    /// The architecture as Go names it.
    pub architecture: String,
    /// The operating system as Go names it.
    pub os: String,
    /// How its programs run.
    #[serde(default, deserialize_with = "null_is_default")]
    pub config: RunConfiguration,
    /// Its layers.
    pub rootfs: RootFs,
}

/// The layers of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RootFs {
    /// The digest of each layer's uncompressed archive, the lowest first. Null for an image without layers.
    #[serde(default, deserialize_with = "null_is_default")]
    pub diff_ids: Vec<Digest>,
}

/// How an image's programs run, as written.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RunConfiguration {
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) user: String,
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) exposed_ports: BTreeMap<String, serde::de::IgnoredAny>,
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) env: Vec<String>,
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) entrypoint: Vec<String>,
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) cmd: Vec<String>,
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) volumes: BTreeMap<String, serde::de::IgnoredAny>,
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) working_dir: String,
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) stop_signal: String,
    pub(crate) healthcheck: Option<WrittenHealth>,
}

/// Docker's health check, as written; times in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct WrittenHealth {
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) test: Vec<String>,
    pub(crate) interval: u64,
    pub(crate) timeout: u64,
    pub(crate) start_period: u64,
    pub(crate) start_interval: u64,
    pub(crate) retries: u32,
}

/// Returns the default for `null`, which Docker writes for empty values.
fn null_is_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Parses a document.
///
/// # Errors
/// [`Fault::Document`] with the line and column.
pub fn parse<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T, Fault> {
    serde_json::from_slice(bytes).map_err(|error| Fault::document(what, error))
}

/// Reads a whole document; rejects one that is too long.
pub(crate) fn read_whole(what: &str, from: impl Read, limits: &Limits) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    let mut bounded = from.take(limits.document_bytes + 1);
    let read = bounded.read_to_end(&mut bytes);
    read.map_err(Fault::io(format!("read {what}")))?;
    if bytes.len() as u64 > limits.document_bytes {
        return Err(Fault::Limit {
            what: what.to_owned(),
            bound: format!("{} bytes", limits.document_bytes),
            limit: "document_bytes",
        });
    }
    Ok(bytes)
}

/// Checks that the bytes of a document match a descriptor.
pub(crate) fn verify(what: &str, bytes: &[u8], descriptor: &Descriptor) -> Result<(), Fault> {
    if bytes.len() as u64 != descriptor.size {
        return Err(Fault::Size {
            what: what.to_owned(),
            expected: descriptor.size,
            found: bytes.len() as u64,
        });
    }
    verify_digest(what, Digest::of(bytes), descriptor.digest)
}

pub(crate) fn verify_digest(what: &str, found: Digest, expected: Digest) -> Result<(), Fault> {
    if found == expected {
        return Ok(());
    }
    Err(Fault::Digest {
        what: what.to_owned(),
        expected,
        found,
    })
}

impl Descriptor {
    pub(crate) fn is_index(&self) -> bool {
        INDEXES.contains(&self.media_type.as_str())
    }
}

impl Manifest {
    /// Checks that the manifest is an image's and that its layers can be read.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        if !CONFIGS.contains(&self.config.media_type.as_str()) {
            return Err(Fault::MediaType(self.config.media_type.clone()));
        }
        for layer in &self.layers {
            let kind = &layer.media_type;
            let form = kind.strip_suffix("+gzip").or(kind.strip_suffix("+zstd"));
            let form = form.or(kind.strip_suffix(".gzip")).unwrap_or(kind);
            if !LAYERS.contains(&form) {
                return Err(Fault::MediaType(kind.clone()));
            }
        }
        Ok(())
    }
}

impl Index {
    /// Returns the one manifest or index for a platform.
    ///
    /// # Errors
    /// [`Fault::Platform`] without a match, [`Fault::Several`] if more than one matches.
    pub fn choose(&self, platform: &Platform) -> Result<&Descriptor, Fault> {
        let fits = |of: &Platform| of == platform;
        let of_it: Vec<&Descriptor> = self
            .manifests
            .iter()
            .filter(|m| m.platform.as_ref().is_some_and(fits))
            .collect();
        // Attestations have the platform unknown/unknown.
        let unknown = |of: &Platform| of.os == "unknown";
        let mut left = self
            .manifests
            .iter()
            .filter(|m| !m.platform.as_ref().is_some_and(unknown));
        match (of_it.as_slice(), left.next(), left.next()) {
            ([first, ..], _, _) => Ok(first),
            // A single entry without a platform: its configuration has the platform.
            ([], Some(only), None) if only.platform.is_none() => Ok(only),
            _ => {
                let platforms = self.manifests.iter().filter_map(|m| m.platform.as_ref());
                let found: Vec<String> = platforms.map(ToString::to_string).collect();
                Err(Fault::Platform {
                    wanted: platform.to_string(),
                    found: match found.is_empty() {
                        true => "no platform that is named".to_owned(),
                        false => found.join(", "),
                    },
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(platforms: &[Option<(&str, &str)>]) -> Index {
        let manifests = platforms.iter().enumerate().map(|(i, p)| Descriptor {
            media_type: MANIFESTS[0].to_owned(),
            digest: Digest::of(&[i as u8]),
            size: 1,
            platform: p.map(|(os, architecture)| Platform {
                architecture: architecture.to_owned(),
                os: os.to_owned(),
            }),
            annotations: BTreeMap::new(),
        });
        Index {
            manifests: manifests.collect(),
        }
    }

    #[test]
    fn the_manifest_for_the_machine_is_chosen_and_attestations_are_not() {
        let amd64 = Platform {
            architecture: "amd64".to_owned(),
            os: "linux".to_owned(),
        };
        let both = index(&[
            Some(("linux", "arm64")),
            Some(("linux", "amd64")),
            Some(("unknown", "unknown")),
        ]);
        assert_eq!(both.choose(&amd64).unwrap().digest, Digest::of(&[1]));
        let only = index(&[None, Some(("unknown", "unknown"))]);
        assert_eq!(only.choose(&amd64).unwrap().digest, Digest::of(&[0]));
        for other in [
            index(&[Some(("linux", "arm64"))]),
            index(&[]),
            index(&[None, None]),
        ] {
            assert!(
                matches!(other.choose(&amd64), Err(Fault::Platform { .. })),
                "{other:?}"
            );
        }
    }

    #[test]
    fn docker_writes_null_for_nothing() {
        let text = br#"{"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": null},
            "config": {"Env": null, "Cmd": null, "Entrypoint": null, "Volumes": null, "Labels": null, "User": ""}}"#;
        let configuration: Configuration = parse("config", text).unwrap();
        assert_eq!(configuration.config, RunConfiguration::default());
        assert!(configuration.rootfs.diff_ids.is_empty());
    }

    #[test]
    fn a_document_too_long_is_refused_and_one_cut_off_is_located() {
        let limits = Limits {
            document_bytes: 10,
            ..Limits::default()
        };
        assert!(read_whole("index.json", &b"0123456789"[..], &limits).is_ok());
        let error = read_whole("index.json", std::io::repeat(b' '), &limits).unwrap_err();
        assert!(
            matches!(
                error,
                Fault::Limit {
                    limit: "document_bytes",
                    ..
                }
            ),
            "{error}"
        );
        let error = parse::<Index>("index.json", b"{\"manifests\": [").unwrap_err();
        assert!(error.to_string().contains("line 1 column 15"), "{error}");
    }
}
