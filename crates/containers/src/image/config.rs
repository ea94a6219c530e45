//! The settings of an image for its programs, without optional values: defaults filled in, units SI, text checked.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::image::documents::{Configuration, Platform, RunConfiguration, WrittenHealth, parse};
use crate::image::error::{Fault, shown};

const NS_PER_S: u64 = 1_000_000_000;
/// Docker's defaults.
const HEALTH_EVERY_NS: u64 = 30 * NS_PER_S;
const HEALTH_START_EVERY_NS: u64 = 5 * NS_PER_S;
const HEALTH_RETRIES: u32 = 3;
const SIGTERM: i32 = 15;
const SIGNALS: [(&str, i32); 31] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("STKFLT", 16),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("IO", 29),
    ("PWR", 30),
    ("SYS", 31),
];
const RT_MIN: i32 = 34;
const RT_MAX: i32 = 64;

/// The settings of an image for its programs.
///
/// ```
/// use constel_containers::image::{Config, Platform};
///
/// let document = br#"{"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": []},
///     "config": {"Entrypoint": ["/bin/bird"], "Cmd": ["-f"], "ExposedPorts": {"179/tcp": {}}}}"#;
/// let platform = Platform { architecture: "amd64".to_owned(), os: "linux".to_owned() };
/// let config = Config::parse(document, &platform).unwrap();
/// assert_eq!(config.args(), ["/bin/bird", "-f"]);
/// assert_eq!((config.ports[0].number, config.workdir.as_str()), (179, "/"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Config {
    /// The user as written: `user`, `user:group`, by name or number; empty is root. [`crate::image::Held::user`] looks it up.
    pub user: String,
    /// The working directory of programs; absolute.
    pub workdir: String,
    /// The program; empty if `cmd` names it.
    pub entrypoint: Vec<String>,
    /// The default arguments of the program, or the program with its arguments.
    pub cmd: Vec<String>,
    /// Environment, in order.
    pub env: Vec<(String, String)>,
    /// Ports that its programs listen on.
    pub ports: Vec<Port>,
    /// Folders that should not be on the image's own files (volumes); absolute.
    pub volumes: Vec<String>,
    /// The signal that requests the program to end.
    pub stop_signal: i32,
    /// The health check of the program.
    pub healthcheck: Option<Healthcheck>,
    /// The labels of the image.
    pub labels: BTreeMap<String, String>,
}

/// A port that a program listens on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Port {
    /// The port's number, from 1.
    pub number: u16,
    /// The port's transport protocol.
    pub protocol: Protocol,
}

/// Transport protocols with ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// A health check: a command that finds out whether a program works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Healthcheck {
    /// The command: a program with its arguments.
    pub test: Vec<String>,
    /// The interval from the end of one check to the begin of the next, in nanoseconds; not 0.
    pub interval_ns: u64,
    /// The time after which a check counts as failed, in nanoseconds; not 0.
    pub timeout_ns: u64,
    /// The time after the program's start in which failures do not count, in nanoseconds.
    pub start_period_ns: u64,
    /// The interval in the start period, in nanoseconds, as `interval_ns`; not 0.
    pub start_interval_ns: u64,
    /// The number of consecutive failures that make a program unhealthy; not 0.
    pub retries: u32,
}

impl Config {
    /// Parses a configuration and checks that it is for a platform.
    ///
    /// # Errors
    /// [`Fault::Document`] with the reason; [`Fault::Platform`] if the image is for another platform.
    pub fn parse(document: &[u8], platform: &Platform) -> Result<Self, Fault> {
        let configuration: Configuration = parse("the configuration", document)?;
        Self::of(configuration, platform)
    }

    pub(crate) fn of(configuration: Configuration, platform: &Platform) -> Result<Self, Fault> {
        let found = Platform {
            architecture: configuration.architecture,
            os: configuration.os,
        };
        if found != *platform {
            return Err(Fault::Platform {
                wanted: platform.to_string(),
                found: shown(found.to_string().as_bytes()),
            });
        }
        let written = configuration.config;
        Ok(Self {
            env: environment(&written)?,
            ports: ports(&written)?,
            volumes: written
                .volumes
                .keys()
                .map(|path| absolute("volume", path))
                .collect::<Result<_, _>>()?,
            workdir: match written.working_dir.as_str() {
                "" => "/".to_owned(),
                path => absolute("working directory", path)?,
            },
            stop_signal: match written.stop_signal.as_str() {
                "" => SIGTERM,
                name => signal(name).ok_or_else(|| wrong("stop signal", name))?,
            },
            healthcheck: match written.healthcheck {
                Some(health) => healthcheck(health)?,
                None => None,
            },
            user: without_zero("user", written.user)?,
            entrypoint: all_without_zero("entry point", written.entrypoint)?,
            cmd: all_without_zero("command", written.cmd)?,
            labels: written.labels,
        })
    }

    /// Returns the default program and its arguments: entry point, then command. Empty if the image has neither.
    #[must_use]
    pub fn args(&self) -> Vec<String> {
        self.entrypoint.iter().chain(&self.cmd).cloned().collect()
    }
}

fn wrong(what: &str, text: &str) -> Fault {
    let text = shown(text.as_bytes());
    Fault::document("the configuration", format!("'{text}' is no {what}"))
}

fn without_zero(what: &str, text: String) -> Result<String, Fault> {
    match text.contains('\0') {
        true => Err(wrong(what, &text)),
        false => Ok(text),
    }
}

fn all_without_zero(what: &str, texts: Vec<String>) -> Result<Vec<String>, Fault> {
    texts
        .into_iter()
        .map(|text| without_zero(what, text))
        .collect()
}

fn environment(written: &RunConfiguration) -> Result<Vec<(String, String)>, Fault> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !text.contains('\0') => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(wrong("variable NAME=VALUE of the environment", text)),
    };
    written.env.iter().map(pair).collect()
}

fn ports(written: &RunConfiguration) -> Result<Vec<Port>, Fault> {
    let port = |text: &str| {
        let (number, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
        let number = number.parse().ok().filter(|number| *number > 0)?;
        let protocol = match protocol {
            "tcp" => Protocol::Tcp,
            "udp" => Protocol::Udp,
            "sctp" => Protocol::Sctp,
            _ => return None,
        };
        Some(Port { number, protocol })
    };
    let ports = written.exposed_ports.keys();
    let ports =
        ports.map(|text| port(text).ok_or_else(|| wrong("port NUMBER[/tcp|udp|sctp]", text)));
    let mut ports: Vec<Port> = ports.collect::<Result<_, _>>()?;
    ports.sort();
    Ok(ports)
}

/// Returns a path from the image's root, without `.`, `..` and doubled slashes.
fn absolute(what: &str, path: &str) -> Result<String, Fault> {
    let parts = crate::image::path::parts(path.as_bytes()).map_err(|_| wrong(what, path))?;
    if !path.starts_with('/') {
        return Err(wrong(
            &format!("absolute path, as a {what} has to be"),
            path,
        ));
    }
    let joined = crate::image::path::joined(&parts);
    // The input is valid UTF-8 and was split at slashes, so this conversion loses nothing.
    Ok(format!("/{}", String::from_utf8_lossy(&joined)))
}

/// Parses a signal: by number, by name with or without `SIG`, or as `RTMIN+3` and `RTMAX-1`.
fn signal(text: &str) -> Option<i32> {
    if let Ok(number) = text.parse::<i32>() {
        return (1..=RT_MAX).contains(&number).then_some(number);
    }
    let upper = text.to_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    if let Some((_, number)) = SIGNALS.iter().find(|(known, _)| *known == name) {
        return Some(*number);
    }
    let offset = |digits: &str| digits.parse::<u8>().ok().map(i32::from);
    let number = match (name.strip_prefix("RTMIN"), name.strip_prefix("RTMAX")) {
        (Some(""), _) => RT_MIN,
        (_, Some("")) => RT_MAX,
        (Some(above), _) => RT_MIN + offset(above.strip_prefix('+')?)?,
        (_, Some(below)) => RT_MAX - offset(below.strip_prefix('-')?)?,
        _ => return None,
    };
    (RT_MIN..=RT_MAX).contains(&number).then_some(number)
}

fn healthcheck(written: WrittenHealth) -> Result<Option<Healthcheck>, Fault> {
    let known = "health check CMD, CMD-SHELL or NONE";
    let mut test = all_without_zero("health check", written.test)?;
    let test = match test.first().map(String::as_str) {
        // An empty test inherits the base image's check; a configuration without any has none to inherit.
        None | Some("NONE") => return Ok(None),
        Some("CMD") => test.split_off(1),
        Some("CMD-SHELL") => {
            let shell = ["/bin/sh", "-c"].map(str::to_owned);
            shell.into_iter().chain(test.drain(1..)).collect()
        }
        Some(other) => return Err(wrong(known, other)),
    };
    if test.is_empty() || test.iter().all(String::is_empty) {
        return Err(wrong(known, ""));
    }
    let or = |value: u64, default: u64| if value == 0 { default } else { value };
    Ok(Some(Healthcheck {
        test,
        interval_ns: or(written.interval, HEALTH_EVERY_NS),
        timeout_ns: or(written.timeout, HEALTH_EVERY_NS),
        start_period_ns: written.start_period,
        start_interval_ns: or(written.start_interval, HEALTH_START_EVERY_NS),
        retries: match written.retries {
            0 => HEALTH_RETRIES,
            retries => retries,
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(config: &str) -> Result<Config, Fault> {
        let text = format!(
            r#"{{"architecture": "amd64", "os": "linux", "rootfs": {{"type": "layers", "diff_ids": []}}, "config": {config}}}"#
        );
        let platform = Platform {
            architecture: "amd64".to_owned(),
            os: "linux".to_owned(),
        };
        Config::parse(text.as_bytes(), &platform)
    }

    #[test]
    fn everything_that_is_said_arrives() {
        let config = of(r#"{"User": "bird:net", "WorkingDir": "/var//lib/./x/", "Env": ["A=b=c", "E="],
            "ExposedPorts": {"53/udp": {}, "80": {}, "179/tcp": {}}, "Volumes": {"/data/": {}},
            "StopSignal": "SIGRTMIN+3", "Labels": {"k": "v"}, "Entrypoint": ["/e"], "Cmd": ["c"],
            "Healthcheck": {"Test": ["CMD-SHELL", "birdc show"], "Interval": 5000000000, "Retries": 2}}"#)
        .unwrap();
        assert_eq!(config.user, "bird:net");
        assert_eq!(config.workdir, "/var/lib/x");
        let env = [("A", "b=c"), ("E", "")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(config.env, env);
        let ports: Vec<u16> = config.ports.iter().map(|p| p.number).collect();
        assert_eq!(ports, [53, 80, 179]);
        assert_eq!(config.ports[0].protocol, Protocol::Udp);
        assert_eq!(
            (config.volumes, config.stop_signal),
            (vec!["/data".to_owned()], 37)
        );
        let health = config.healthcheck.unwrap();
        assert_eq!(health.test, ["/bin/sh", "-c", "birdc show"]);
        assert_eq!(
            (health.interval_ns, health.timeout_ns, health.retries),
            (5_000_000_000, 30_000_000_000, 2)
        );
    }

    #[test]
    fn what_is_not_said_is_dockers_default() {
        let config = of("null").unwrap();
        assert_eq!((config.workdir.as_str(), config.stop_signal), ("/", 15));
        assert!(config.args().is_empty() && config.healthcheck.is_none() && config.user.is_empty());
        assert!(
            of(r#"{"Healthcheck": {"Test": ["NONE"]}}"#)
                .unwrap()
                .healthcheck
                .is_none()
        );
        for (name, number) in [("9", 9), ("term", 15), ("SIGRTMAX-1", 63), ("RTMIN", 34)] {
            assert_eq!(
                of(&format!(r#"{{"StopSignal": "{name}"}}"#))
                    .unwrap()
                    .stop_signal,
                number
            );
        }
    }

    #[test]
    fn nonsense_is_refused_and_shown() {
        for (config, shows) in [
            (r#"{"Env": ["NOTHING"]}"#, "'NOTHING' is no variable"),
            (r#"{"WorkingDir": "a/b"}"#, "'a/b' is no absolute path"),
            (
                r#"{"WorkingDir": "/a/../.."}"#,
                "'/a/../..' is no working directory",
            ),
            (r#"{"ExposedPorts": {"0/tcp": {}}}"#, "'0/tcp' is no port"),
            (r#"{"ExposedPorts": {"80/ftp": {}}}"#, "'80/ftp' is no port"),
            (
                r#"{"StopSignal": "SIGNOPE"}"#,
                "'SIGNOPE' is no stop signal",
            ),
            (r#"{"StopSignal": "65"}"#, "'65' is no stop signal"),
            (
                r#"{"StopSignal": "RTMIN+31"}"#,
                "'RTMIN+31' is no stop signal",
            ),
            (
                r#"{"Healthcheck": {"Test": ["RUN", "x"]}}"#,
                "'RUN' is no health check",
            ),
            (r#"{"Cmd": "sh -c x"}"#, "expected a sequence"),
        ] {
            let error = of(config).unwrap_err().to_string();
            assert!(error.contains(shows), "{config}: {error}");
        }
    }

    #[test]
    fn an_image_of_another_machine_is_refused() {
        let text = br#"{"architecture": "arm64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}}"#;
        let amd64 = Platform {
            architecture: "amd64".to_owned(),
            os: "linux".to_owned(),
        };
        let error = Config::parse(text, &amd64).unwrap_err();
        assert_eq!(
            error.to_string(),
            "it is for linux/arm64, and linux/amd64 is wanted"
        );
    }
}
