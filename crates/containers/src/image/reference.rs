//! Names of images, in the user's form and in the registry's form.

use std::fmt;
use std::str::FromStr;

use crate::image::digest::Digest;
use crate::image::error::Fault;

const HUB: &str = "docker.io";
const MOST: usize = 255;

/// The name of an image: `[REGISTRY/]REPOSITORY[:TAG][@DIGEST]`. The default registry is Docker Hub; without a tag and a digest
/// the tag is `latest`.
///
/// ```
/// use constel_containers::image::Reference;
///
/// let reference: Reference = "alpine".parse().unwrap();
/// assert_eq!(reference.registry(), "docker.io");
/// assert_eq!(reference.repository(), "library/alpine");
/// assert_eq!(reference.to_string(), "alpine:latest");
/// let other: Reference = "localhost:5000/lab/bird:2".parse().unwrap();
/// assert_eq!(other.registry(), "localhost:5000");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

impl Reference {
    /// Returns the registry's host, with the port if the name has one.
    #[must_use]
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// Returns the repository's path in the registry.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// Returns the tag; `None` only if the name has a digest and no tag.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Returns the digest of the manifest, if the name has one.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }
}

impl FromStr for Reference {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let bad = |reason| Fault::BadName {
            name: crate::image::error::shown(text.as_bytes()),
            reason,
        };
        if text.is_empty() || text.len() > MOST {
            return Err(bad("a name has 1 to 255 characters"));
        }
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(digest.parse()?)),
            None => (text, None),
        };
        // A colon after the last slash begins a tag; one before it, a port.
        let (path, tag) = match name.rsplit_once(':') {
            Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
            _ => (name, None),
        };
        let (registry, repository) = match path.split_once('/') {
            Some((first, rest)) if is_host(first) => (first, rest.to_owned()),
            _ => (HUB, path.to_owned()),
        };
        let registry = match registry {
            "index.docker.io" | "registry-1.docker.io" => HUB,
            other => other,
        };
        if !is_good_host(registry) {
            return Err(bad("its registry is no host"));
        }
        let repository = match registry == HUB && !repository.contains('/') {
            true => format!("library/{repository}"),
            false => repository,
        };
        if !repository.split('/').all(is_component) {
            return Err(bad(
                "a repository has lower-case letters, digits, and single . _ - between them, in parts separated by /",
            ));
        }
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(bad(
                "a tag has 1 to 128 letters, digits, _ . -, and begins with neither . nor -",
            ));
        }
        let tag = tag.or(digest.is_none().then_some("latest"));
        let reference = Self {
            registry: registry.to_owned(),
            repository,
            tag: tag.map(str::to_owned),
            digest,
        };
        // The full text, with the default tag, must be a valid name as well.
        match reference.to_string().len() > MOST {
            true => Err(bad("a name has 1 to 255 characters")),
            false => Ok(reference),
        }
    }
}

/// The user's form: without Docker Hub and its `library`.
impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.registry == HUB {
            let short = self.repository.strip_prefix("library/");
            let short = short.filter(|name| !name.contains('/'));
            let (first, _) = self.repository.split_once('/').unwrap_or_default();
            match short {
                Some(name) => write!(f, "{name}")?,
                // Without the hub's name the first part would be parsed as a registry.
                None if is_host(first) => write!(f, "{HUB}/{}", self.repository)?,
                None => write!(f, "{}", self.repository)?,
            }
        } else {
            write!(f, "{}/{}", self.registry, self.repository)?;
        }
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(f, "@{digest}"),
            None => Ok(()),
        }
    }
}

/// Returns whether the first part of a path is a host rather than a part of a repository, by Docker's rule.
fn is_host(part: &str) -> bool {
    part == "localhost" || part.contains(['.', ':']) || part.chars().any(|c| c.is_ascii_uppercase())
}

fn is_good_host(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (host, None),
    };
    let bracketed = name.strip_prefix('[').and_then(|n| n.strip_suffix(']'));
    let alphanumeric = |c: char| c.is_ascii_alphanumeric();
    let is_label = |label: &str| {
        let whole = label.chars().all(|c| alphanumeric(c) || c == '-');
        whole && label.starts_with(alphanumeric) && label.ends_with(alphanumeric)
    };
    let good = match bracketed {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => name.split('.').all(is_label),
    };
    good && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|p| p > 0))
}

fn is_component(part: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let whole = |c: char| inner(c) || matches!(c, '.' | '_' | '-');
    part.starts_with(inner)
        && part.ends_with(inner)
        && part.chars().all(whole)
        && !part.contains("..")
}

fn is_tag(tag: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    !tag.is_empty() && tag.len() <= 128 && tag.chars().all(good) && !tag.starts_with(['.', '-'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_people_do() {
        for (text, shown) in [
            ("busybox", "busybox:latest"),
            ("docker.io/library/busybox:1.36", "busybox:1.36"),
            ("index.docker.io/frrouting/frr", "frrouting/frr:latest"),
            (
                "quay.io/frrouting/frr:10.1.0",
                "quay.io/frrouting/frr:10.1.0",
            ),
            ("localhost/x", "localhost/x:latest"),
            ("[::1]:5000/x:y", "[::1]:5000/x:y"),
            ("library/a/b", "library/a/b:latest"),
            ("docker.io/a.b/c", "docker.io/a.b/c:latest"),
        ] {
            let reference: Reference = text.parse().unwrap();
            assert_eq!(reference.to_string(), shown);
            assert_eq!(shown.parse::<Reference>().unwrap(), reference);
        }
        let pinned = format!("busybox@{}", Digest::of(b"x"));
        let reference: Reference = pinned.parse().unwrap();
        assert_eq!((reference.tag(), reference.to_string()), (None, pinned));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for bad in [
            "",
            "Upper",
            "a//b",
            "../x",
            "a/../b",
            "a:b:c",
            "x:",
            "x:.y",
            "x@sha256:00",
            "-x",
            "x y",
            "http://x/y",
            "reg.io:99999/x",
            "ex.com/",
            "a..b",
            "/x",
            "[::z]:5/x",
        ] {
            assert!(bad.parse::<Reference>().is_err(), "{bad}");
        }
    }
}
