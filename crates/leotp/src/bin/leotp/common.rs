//! Code that the verbs share: parameters, flow ids, errors, figures for people.

use leotp::core::Params;
use leotp::rt::{RunError, open_regular, random_bytes};
use std::fmt;
use std::io::{IsTerminal, Read};

/// The reason why a verb ends early, and its exit code: 0 help was requested, 1 failed, 2 usage,
/// 5 the host lacks something.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The requested text.
    Help(String),
    Usage(String),
    /// A measurement without data.
    Nothing(String),
    Run(RunError),
    Io(String, std::io::Error),
}

impl Failure {
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Help(_) => 0,
            Self::Usage(_) | Self::Run(RunError::Params(_) | RunError::Options(_)) => 2,
            Self::Run(RunError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                5
            }
            Self::Run(_) | Self::Io(..) | Self::Nothing(_) => 1,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Help(s) | Self::Usage(s) | Self::Nothing(s) => f.write_str(s),
            Self::Run(e) => e.fmt(f),
            Self::Io(what, e) => write!(f, "{what}: {e}"),
        }
    }
}

impl From<RunError> for Failure {
    fn from(e: RunError) -> Self {
        Self::Run(e)
    }
}

/// Protocol parameters on the command line.
#[derive(clap::Args)]
pub(crate) struct ParamArgs {
    /// faithful: the paper as printed. authors-constants: with five constants of their program. beyond: ours.
    #[arg(long, default_value = "faithful", value_parser = Params::VARIANTS)]
    variant: String,
    /// Set a protocol parameter, e.g. --set cache_bytes=1048576 (repeatable; --set help lists
    /// all with their meaning).
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
}

impl ParamArgs {
    pub(crate) fn params(&self) -> Result<Params, Failure> {
        // clap lets no other name pass.
        let base = Params::variant(&self.variant).unwrap_or_default();
        if self.set.iter().any(|s| s == "help") {
            return Err(Failure::Help(base.listed()));
        }
        base.with_settings(&self.set)
            .map_err(|e| Failure::Run(e.into()))
    }
}

/// Flow ids are 64 bits in hexadecimal.
pub(crate) fn parse_flow(s: &str) -> Result<u64, String> {
    u64::from_str_radix(s.trim_start_matches("0x"), 16)
        .map_err(|_| format!("{s}: a flow id is up to 16 hexadecimal digits"))
}

/// The shared key of sealed flows: 64 hexadecimal digits in a file.
pub(crate) fn read_key(path: &std::path::Path) -> Result<[u8; 32], Failure> {
    let mut s = String::new();
    // No key is longer, even with white space around it; a longer file is not a key.
    let read = open_regular(path).and_then(|file| file.take(256).read_to_string(&mut s));
    read.map_err(|e| Failure::Io(format!("read {}", path.display()), e))?;
    let s = s.trim();
    let digits = |i: usize| {
        s.get(2 * i..2 * i + 2)
            .and_then(|d| u8::from_str_radix(d, 16).ok())
    };
    let key: Option<Vec<u8>> = (0..32).map(digits).collect();
    match key.and_then(|k| k.try_into().ok()) {
        Some(k) if s.len() == 64 => Ok(k),
        _ => Err(Failure::Usage(format!(
            "{}: a key is 64 hexadecimal digits",
            path.display()
        ))),
    }
}

/// Returns an unpredictable flow id.
pub(crate) fn random_flow() -> Result<u64, Failure> {
    Ok(random_bytes().map(u64::from_ne_bytes)?)
}

/// Bytes for people.
pub(crate) fn human_bytes(b: u64) -> String {
    let b = b as f64;
    match b {
        b if b >= 1e9 => format!("{:.2} GB", b / 1e9),
        b if b >= 1e6 => format!("{:.2} MB", b / 1e6),
        b if b >= 1e3 => format!("{:.1} kB", b / 1e3),
        b => format!("{b:.0} B"),
    }
}

/// bit/s for people.
pub(crate) fn human_rate(bps: f64) -> String {
    match bps {
        b if b >= 1e9 => format!("{:.2} Gbit/s", b / 1e9),
        b if b >= 1e6 => format!("{:.2} Mbit/s", b / 1e6),
        b => format!("{:.1} kbit/s", b / 1e3),
    }
}

/// Whether progress may be drawn.
pub(crate) fn draw() -> bool {
    std::io::stderr().is_terminal()
}
