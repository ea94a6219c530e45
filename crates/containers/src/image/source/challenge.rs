//! The challenge of a registry, which names the server that gives tokens, and that server's answer.

use std::net::IpAddr;

use crate::image::documents::parse;
use crate::image::error::{Fault, shown};

/// A registry's request to get a token elsewhere first.
pub(super) struct Challenge {
    /// The address of the server that gives tokens: HTTPS, or HTTP on this machine.
    pub(super) realm: String,
    /// The parameters that the server needs.
    pub(super) query: Vec<(&'static str, String)>,
}

impl Challenge {
    /// Parses the header `WWW-Authenticate`. `is_local`: the registry is this machine, and its server may be too.
    ///
    /// # Errors
    /// The rest of a sentence about the registry.
    pub(super) fn parse(text: &str, is_local: bool) -> Result<Self, String> {
        let pairs = text.strip_prefix("Bearer ").map(parameters);
        let pairs = pairs.ok_or("wants a password")?;
        let value = |key: &str| {
            let found = pairs.iter().find(|(k, _)| k == key);
            found.map(|(_, value)| value.clone())
        };
        let realm = value("realm").ok_or("does not say who gives tokens")?;
        let host = realm
            .strip_prefix("http://")
            .and_then(|rest| rest.split('/').next());
        let is_safe =
            realm.starts_with("https://") || (is_local && host.is_some_and(is_this_machine));
        if !is_safe {
            return Err(format!(
                "sends for a token to {}, which is not HTTPS",
                shown(realm.as_bytes())
            ));
        }
        let query = ["service", "scope"].map(|key| Some((key, value(key)?)));
        Ok(Self {
            realm,
            query: query.into_iter().flatten().collect(),
        })
    }
}

/// Returns the token of an answer; `None` if it has none that fits in a header.
pub(super) fn token(answer: &[u8]) -> Result<Option<String>, Fault> {
    let document: serde_json::Value = parse("the token", answer)?;
    let token = document["token"]
        .as_str()
        .or(document["access_token"].as_str());
    let fits = |token: &&str| !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic());
    Ok(token.filter(fits).map(str::to_owned))
}

/// Reads a challenge and, behind a zero byte, the answer with the token, as the client of registries does. It needs no registry;
/// it exists for fuzz tests. Returns whether both are accepted.
///
/// # Panics
/// When a token is requested over HTTP from another machine, or when the token does not fit in a header.
#[must_use]
pub fn reads_challenge(bytes: &[u8]) -> bool {
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let text = parts.next().and_then(|text| std::str::from_utf8(text).ok());
    let text = text.unwrap_or_default();
    let mut is_accepted = false;
    for is_local in [false, true] {
        let Ok(challenge) = Challenge::parse(text, is_local) else {
            continue;
        };
        is_accepted = true;
        // The parser of the client decides where the request goes.
        if let Ok(uri) = challenge.realm.parse::<ureq::http::Uri>() {
            let is_http = uri.scheme_str() == Some("http");
            let is_here = uri.host().is_some_and(is_this_machine);
            assert!(!is_http || (is_local && is_here), "{uri} over HTTP");
        }
    }
    match token(parts.next().unwrap_or_default()) {
        Ok(Some(token)) => {
            let header = ureq::http::HeaderValue::try_from(format!("Bearer {token}"));
            assert!(header.is_ok(), "not a header");
            is_accepted
        }
        _ => false,
    }
}

/// Parses `realm="https://x/token",service="x"` to pairs.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let mut rest = text;
    while let Some((key, after)) = rest.split_once('=') {
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_once(',').unwrap_or((after, "")),
        };
        pairs.push((key.trim().to_lowercase(), value.to_owned()));
        rest = next.trim_start_matches([',', ' ']);
    }
    pairs
}

/// Returns whether a host, with or without a port, is this machine. Only this machine may use HTTP.
pub(super) fn is_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || address.parse::<IpAddr>().is_ok_and(|a| a.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_is_spoken_with_this_machine_alone() {
        for local in [
            "localhost",
            "localhost:5000",
            "127.0.0.1:80",
            "127.9.9.9",
            "[::1]:5000",
            "[::1]",
        ] {
            assert!(is_this_machine(local), "{local}");
        }
        for other in [
            "localhost.evil.org",
            "127.0.0.1.nip.io:80",
            "10.0.0.1:5000",
            "docker.io",
            "[::2]:1",
        ] {
            assert!(!is_this_machine(other), "{other}");
        }
    }

    #[test]
    fn a_challenge_is_taken_apart() {
        let text = r#"realm="https://a/t?x=1,2",service="r", scope="repository:a/b:pull",error=x"#;
        let expected = [
            ("realm", "https://a/t?x=1,2"),
            ("service", "r"),
            ("scope", "repository:a/b:pull"),
            ("error", "x"),
        ];
        let expected = expected.map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(parameters(text), expected);
        assert!(parameters("nonsense").is_empty());
    }

    #[test]
    fn a_token_fits_in_a_header() {
        let of = |text: &str| token(text.as_bytes()).unwrap();
        assert_eq!(of(r#"{"token": "a.b-c"}"#).as_deref(), Some("a.b-c"));
        assert_eq!(of(r#"{"access_token": "x"}"#).as_deref(), Some("x"));
        for odd in [
            r#"{"token": ""}"#,
            r#"{"token": "a\r\nX: y"}"#,
            r#"{"token": 7}"#,
            "[]",
        ] {
            assert_eq!(of(odd), None, "{odd}");
        }
        assert!(token(b"no JSON").is_err());
    }
}
