//! The address of an etcd cluster, as users write it.
//!
//! `etcd://HOST:PORT[,HOST:PORT...]`, with `USER[:PASSWORD]@` before the hosts, and `etcds://` for TLS. After a `?`, joined
//! by `&`: `password-file=FILE`, `ca=FILE` (the authority to trust instead of the public ones), `cert=FILE` and `key=FILE`
//! (the client's identity).

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use percent_encoding::percent_decode_str;

/// The members of an etcd cluster, and the client's credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// `HOST:PORT` of each member.
    pub members: Vec<String>,
    /// User and password.
    pub credentials: Option<Credentials>,
    /// TLS settings, or `None` for unencrypted connections.
    pub tls: Option<Tls>,
}

/// User and password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user.
    pub user: String,
    /// The password, or `None` if it is in the file.
    pub password: Option<String>,
    /// A file that contains only the password. A line break at its end is ignored.
    pub password_file: Option<PathBuf>,
}

/// The TLS settings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    /// PEM file of authorities to trust instead of the public ones.
    pub authorities: Option<PathBuf>,
    /// PEM files of the client's certificate (with its chain) and key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// The error for a text that is not the address of a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "not the address of a store: {0}; write for example etcd://10.0.0.1:2379,10.0.0.2:2379 or etcds://user@host:2379?ca=/etc/ca.pem&password-file=/etc/pw"
)]
pub struct AddressError(String);

impl fmt::Display for Address {
    /// Leaves out the password, because this text goes into logs and results.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "etcds" } else { "etcd" };
        write!(f, "{scheme}://")?;
        if let Some(credentials) = &self.credentials {
            // Messages and logs have the user but never the password.
            write!(f, "{}@", credentials.user)?;
        }
        write!(f, "{}", self.members.join(","))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({})", self.user)
    }
}

fn wrong<T>(reason: impl Into<String>) -> Result<T, AddressError> {
    Err(AddressError(reason.into()))
}

/// Decodes `%` and two digits as a byte.
fn decoded(text: &str) -> Result<String, AddressError> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map_or_else(
        |_| wrong("bytes after % that are no text"),
        |text| Ok(text.into_owned()),
    )
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (is_tls, rest) = match text.split_once("://") {
            Some(("etcd", rest)) => (false, rest),
            Some(("etcds", rest)) => (true, rest),
            _ => return wrong("it begins with neither etcd:// nor etcds://"),
        };
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        // The last `@` separates, because passwords may contain one.
        let (who, hosts) = match place.rsplit_once('@') {
            Some((who, hosts)) => (Some(who), hosts),
            None => (None, place),
        };
        let hosts = hosts.strip_suffix('/').unwrap_or(hosts);
        let members: Vec<String> = hosts.split(',').map(str::to_owned).collect();
        for (number, member) in members.iter().enumerate() {
            check_member(member)?;
            // A member that is listed twice would be tried twice, and is probably a mistyped host.
            if members[..number].contains(member) {
                return wrong(format!("{member} is there twice"));
            }
        }
        let mut credentials = match who {
            None => None,
            Some(who) => {
                let (user, password) = match who.split_once(':') {
                    Some((user, password)) => (user, Some(decoded(password)?)),
                    None => (who, None),
                };
                Some(Credentials {
                    user: decoded(user)?,
                    password,
                    password_file: None,
                })
            }
        };
        let tls = read_options(options, is_tls, &mut credentials)?;
        if let Some(Credentials {
            user,
            password,
            password_file,
        }) = &credentials
        {
            if user.is_empty() {
                return wrong("a user without a name");
            }
            // Without this check, a missing password would show only as a refusal by the cluster.
            if password.is_some() == password_file.is_some() {
                return wrong("a user has a password or a password-file, and not both");
            }
        }
        Ok(Self {
            members,
            credentials,
            tls,
        })
    }
}

fn check_member(member: &str) -> Result<(), AddressError> {
    let Some((host, port)) = member.rsplit_once(':') else {
        return wrong(format!("{member:?} has no port; etcd's is 2379"));
    };
    // The colons of an IPv6 address would hide the port, so it has brackets (RFC 3986, section 3.2.2).
    let inner = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    let is_host = match inner {
        Some(v6) => v6.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            !host.is_empty()
                && host
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
        }
    };
    if !is_host {
        return wrong(format!("{host:?} is no host; IPv6 addresses stand in [ ]"));
    }
    match port.parse::<u16>() {
        Ok(1..) if port.bytes().all(|b| b.is_ascii_digit()) => Ok(()),
        _ => wrong(format!("{port:?} is no port, 1 to 65535")),
    }
}

fn read_options(
    options: &str,
    is_tls: bool,
    credentials: &mut Option<Credentials>,
) -> Result<Option<Tls>, AddressError> {
    let (mut authorities, mut cert, mut key, mut password_file) = (None, None, None, None);
    for option in options.split('&').filter(|option| !option.is_empty()) {
        let Some((name, value)) = option.split_once('=') else {
            return wrong(format!("{option:?} has no value"));
        };
        let place = match name {
            "ca" => &mut authorities,
            "cert" => &mut cert,
            "key" => &mut key,
            "password-file" => &mut password_file,
            other => {
                return wrong(format!(
                    "no option {other:?}: ca, cert, key and password-file are"
                ));
            }
        };
        if value.is_empty() {
            return wrong(format!("{name} has no value"));
        }
        // A repeated option would silently replace the first one.
        if place.replace(PathBuf::from(decoded(value)?)).is_some() {
            return wrong(format!("{name} is there twice"));
        }
    }
    if let Some(file) = password_file {
        match credentials {
            Some(credentials) => credentials.password_file = Some(file),
            None => return wrong("a password-file without a user"),
        }
    }
    let identity = match (cert, key) {
        (Some(cert), Some(key)) => Some((cert, key)),
        (None, None) => None,
        _ => return wrong("cert and key belong together"),
    };
    let tls = Tls {
        authorities,
        identity,
    };
    // The user expects encryption, so the options must not be ignored without TLS.
    if !is_tls && tls != Tls::default() {
        return wrong("ca, cert and key are for etcds://");
    }
    Ok(is_tls.then_some(tls))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Address {
        text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    #[test]
    fn members_users_and_files_are_read() {
        let plain = read("etcd://a:1,b.c:65535,[fe80::1]:3/");
        assert_eq!(plain.members, ["a:1", "b.c:65535", "[fe80::1]:3"]);
        assert_eq!((&plain.credentials, &plain.tls), (&None, &None));
        let full = read("etcds://us%40er:p%3Aw@h:2379?ca=/c%20a&cert=/b&key=/k");
        let credentials = full.credentials.clone().unwrap();
        assert_eq!(credentials.user, "us@er");
        assert_eq!(credentials.password.as_deref(), Some("p:w"));
        let tls = full.tls.clone().unwrap();
        assert_eq!(tls.authorities, Some("/c a".into()));
        assert_eq!(tls.identity, Some(("/b".into(), "/k".into())));
        let filed = read("etcd://u@h:1?password-file=/pw").credentials.unwrap();
        assert_eq!(
            (filed.password, filed.password_file),
            (None, Some("/pw".into()))
        );
    }

    #[test]
    fn what_is_shown_has_no_password() {
        let address = read("etcds://root:secret@a:1,b:2?ca=/x");
        assert_eq!(address.to_string(), "etcds://root@a:1,b:2");
        let debug = format!("{address:?} {:?}", address.credentials);
        assert!(!debug.contains("secret"), "{debug}");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, named) in [
            ("http://a:1", "neither"),
            ("a:1", "neither"),
            ("etcd://", "no port"),
            ("etcd://a", "no port"),
            ("etcd://a:0", "no port, 1"),
            ("etcd://a:+1", "no port, 1"),
            ("etcd://a:1,a:1", "twice"),
            ("etcd://a:1,", "no port"),
            ("etcd://fe80::1:1", "IPv6"),
            ("etcd://u@a:1", "password"),
            ("etcd://u:p@a:1?password-file=/x", "not both"),
            ("etcd://:p@a:1", "without a name"),
            ("etcd://a:1?password-file=/x", "without a user"),
            ("etcd://a:1?ca=/x", "etcds"),
            ("etcds://a:1?ca", "no value"),
            ("etcds://a:1?ca=", "no value"),
            ("etcds://a:1?ca=/x&ca=/y", "twice"),
            ("etcds://a:1?cert=/x", "together"),
            ("etcds://a:1?tls=no", "no option"),
            ("etcd://u:%ff@a:1", "no text"),
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
