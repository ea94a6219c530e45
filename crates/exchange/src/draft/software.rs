//! The software of nodes, for a scenario.

use std::fmt::Write;

use serde_json::Value;

/// An image and the settings of its container. No value is checked here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Software {
    /// Name of a container image.
    pub image: String,
    /// The program; an empty one removes the image's.
    pub entrypoint: Option<Vec<String>>,
    /// Its arguments.
    pub command: Option<Vec<String>>,
    /// The working directory.
    pub workdir: Option<String>,
    /// The user of the program.
    pub user: Option<String>,
    /// Variables.
    pub env: Vec<(String, String)>,
    /// The host's files that it sees.
    pub mounts: Vec<Volume>,
    /// Capabilities beyond the default.
    pub capabilities: Vec<String>,
    /// Capabilities of the default that it does not have.
    pub dropped: Vec<String>,
    /// Whether it may make all system calls.
    pub all_system_calls: bool,
    /// Limit, thousand-millionths of a processor.
    pub nano_cpu: Option<u64>,
    /// Limit, bytes.
    pub memory_bytes: Option<u64>,
    /// Limit, processes and threads.
    pub pids: Option<u64>,
    /// `on-failure` or `always`.
    pub restart: Option<&'static str>,
    /// How to find out whether it works.
    pub health: Option<Health>,
    /// The signal that asks it to end, without `SIG`.
    pub stop_signal: Option<String>,
    /// How long it may take to end, milliseconds.
    pub stop_grace_ms: Option<u64>,
}

/// A health check; settings that are left out have the scenario's defaults.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Health {
    /// The command that is run; `None`: the image's.
    pub command: Option<Vec<String>>,
    /// `interval`, `timeout` and `start_period`, with their milliseconds.
    pub times_ms: Vec<(&'static str, u64)>,
    /// The number of failures in a row that mean bad health.
    pub retries: Option<u32>,
}

/// A file or folder of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// Relative to the scenario's folder, or absolute.
    pub host: String,
    /// The place in the container; absolute.
    pub at: String,
    /// Whether it is read-only.
    pub read_only: bool,
}

impl Software {
    /// Prints the keys, one per line, indented by `indent` spaces.
    pub(crate) fn yaml(&self, out: &mut String, indent: usize) {
        let mut line = |key: &str, value: String| {
            let _ = writeln!(out, "{:indent$}{key}: {value}", "");
        };
        line("image", text(&self.image));
        let lists = [("entrypoint", &self.entrypoint), ("command", &self.command)];
        for (key, list) in lists {
            if let Some(list) = list {
                line(key, listed(list.iter().map(|word| text(word))));
            }
        }
        for (key, said) in [("workdir", &self.workdir), ("user", &self.user)] {
            if let Some(said) = said {
                line(key, text(said));
            }
        }
        if !self.env.is_empty() {
            let env = self.env.iter();
            let env = env.map(|(name, value)| format!("{}: {}", text(name), text(value)));
            line("env", braced(env));
        }
        if !self.mounts.is_empty() {
            let one = |mount: &Volume| {
                let (host, at) = (text(&mount.host), text(&mount.at));
                let rest = if mount.read_only {
                    ""
                } else {
                    ", read_only: false"
                };
                format!("{{host: {host}, at: {at}{rest}}}")
            };
            line("mounts", listed(self.mounts.iter().map(one)));
        }
        let sets = [("add", &self.capabilities), ("drop", &self.dropped)];
        let sets = sets.into_iter().filter(|(_, set)| !set.is_empty());
        let sets: Vec<String> = sets
            .map(|(key, set)| format!("{key}: [{}]", set.join(", ")))
            .collect();
        if !sets.is_empty() {
            line("capabilities", braced(sets));
        }
        if self.all_system_calls {
            line("seccomp", "none".to_owned());
        }
        let cpu = self.nano_cpu;
        let cpu = cpu.map(|nano| format!("cpu: {}", (nano as f64 / 1e6).round() / 1e3));
        let memory = self.memory_bytes.map(|bytes| format!("memory: {bytes} B"));
        let pids = self.pids.map(|pids| format!("pids: {pids}"));
        let limits: Vec<String> = [cpu, memory, pids].into_iter().flatten().collect();
        if !limits.is_empty() {
            line("limits", braced(limits));
        }
        if let Some(restart) = self.restart {
            line("restart", restart.to_owned());
        }
        if let Some(health) = &self.health {
            let command = health.command.iter();
            let command = command.map(|words| {
                let words = listed(words.iter().map(|word| text(word)));
                format!("command: {words}")
            });
            let times = health.times_ms.iter();
            let times = times.map(|(key, ms)| format!("{key}: {ms} ms"));
            let retries = health.retries.map(|retries| format!("retries: {retries}"));
            line("health", braced(command.chain(times).chain(retries)));
        }
        let signal = self.stop_signal.iter();
        let signal = signal.map(|signal| format!("signal: {signal}"));
        let grace = self.stop_grace_ms.map(|ms| format!("grace: {ms} ms"));
        let stop: Vec<String> = signal.chain(grace).collect();
        if !stop.is_empty() {
            line("stop", braced(stop));
        }
    }
}

/// Quotes a text: a string of JSON is one of YAML.
pub(super) fn text(text: &str) -> String {
    Value::from(text).to_string()
}

fn listed(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(", "))
}

fn braced(items: impl IntoIterator<Item = String>) -> String {
    format!("{{{}}}", items.into_iter().collect::<Vec<_>>().join(", "))
}
