//! A service of a Compose file as what a node is made of.

use std::collections::BTreeMap;

use constel_scenario::raw::Capability;
use constel_scenario::yaml::{Entry, Node, Value};

use super::Project;
use super::networks::Memberships;
use super::tree::{Map, is_nothing};
use super::words::{Variables, bytes, milliseconds, nano_cpus, split};
use crate::draft::{Draft, Health, Software, Volume, fit_name};
use crate::text::shown;

/// Processors that a limit may be, in thousand-millionths: 0.01 to 4096.
const NANO_CPUS: std::ops::RangeInclusive<u64> = 10_000_000..=4_096_000_000_000;
/// Memory that a limit may be, bytes: 1 MiB to 64 TiB.
const MEMORY_BYTES: std::ops::RangeInclusive<u64> = 1 << 20..=64 << 40;

/// Keys of services that nothing is made of, and why.
const LEFT_OUT: [(&str, &str); 42] = [
    ("annotations", "nodes have none"),
    (
        "attach",
        "what programs say is in nodes/NODE/program.log of the results",
    ),
    ("blkio_config", "disks are not shared out"),
    ("cgroup", "containers see no control groups"),
    ("cgroup_parent", "control groups are Constel's"),
    ("configs", "show files by `mounts`"),
    ("container_name", "a node is called as its service"),
    ("cpu_shares", "see `limits.cpu`"),
    ("cpuset", "see `limits.cpu`"),
    (
        "depends_on",
        "all programs begin when the network stands, in no order",
    ),
    ("develop", "nothing is built here"),
    ("devices", "no device of the host is seen"),
    ("dns", "nodes know each other's names, and no others"),
    ("dns_search", "nodes know each other's names, and no others"),
    ("domainname", "the machine is called as the node"),
    ("expose", "nodes reach each other's ports anyway"),
    (
        "extra_hosts",
        "nodes know each other's names, and no others",
    ),
    ("hostname", "the machine is called as the node"),
    ("init", "the image's program is the first process"),
    ("ipc", "System V queues are the container's own"),
    ("isolation", "there is one way to run images"),
    ("labels", "nodes have none"),
    ("links", "nodes know each other's names, and no others"),
    (
        "logging",
        "what programs say is in nodes/NODE/program.log of the results",
    ),
    ("mac_address", "Constel gives addresses"),
    ("mem_reservation", "see `limits.memory`"),
    ("mem_swappiness", "see `limits.memory`"),
    ("memswap_limit", "see `limits.memory`"),
    ("oom_score_adj", "the largest program is ended first"),
    ("pid", "process numbers are the container's own"),
    ("platform", "an image is for this machine"),
    (
        "ports",
        "the host does not reach into nodes; `constel exec` starts a client in one",
    ),
    (
        "privileged",
        "nothing is privileged; add what is needed to `capabilities`",
    ),
    ("pull_policy", "nothing is fetched by itself"),
    ("read_only", "what is written does not outlive the lab"),
    ("secrets", "show files by `mounts`"),
    ("shm_size", "/dev/shm is as large as the lab's memory"),
    (
        "stdin_open",
        "programs have no input; `constel exec` starts others",
    ),
    ("sysctls", "the settings of a node's network are Constel's"),
    (
        "tmpfs",
        "/tmp, /run and all else that is written are in memory already",
    ),
    (
        "tty",
        "programs have no terminal; `constel shell` opens one",
    ),
    ("userns_mode", "users are the host's"),
];

/// What a service becomes.
pub(super) struct Service {
    pub(super) software: Software,
    pub(super) networks: Memberships,
    pub(super) copies: usize,
}

impl Service {
    /// Reads one; `None` when it is not to run, or has no image.
    pub(super) fn read(
        project: &mut Project<'_>,
        draft: &mut Draft,
        entry: &Entry,
    ) -> Option<Self> {
        let name = shown(&entry.key);
        let map = project.reader.map(&entry.value, &format!("`{name}`"));
        let mut of = Of {
            project,
            draft,
            name,
            map,
        };
        if let Some(profiles) = of.map.take("profiles").filter(|node| !is_nothing(node)) {
            let key = of.key("profiles");
            if !of.project.reader.list(profiles, &key).is_empty() {
                of.note_of(
                    "profiles",
                    "it does not run by itself, so the service is left out",
                );
                return None;
            }
        }
        if of.text("network_mode").is_some() {
            of.note_of(
                "network_mode",
                "a node without cables of its own is none, so the service is left out",
            );
            return None;
        }
        let mut software = Software {
            entrypoint: of.command("entrypoint"),
            command: of.command("command"),
            workdir: of.text("working_dir"),
            user: of.text("user"),
            env: of.environment(),
            mounts: of.volumes(),
            ..Software::default()
        };
        let image = of.image(entry);
        of.capabilities(&mut software);
        of.security(&mut software);
        of.limits(&mut software);
        let mut copies = of.count("scale").unwrap_or(1);
        of.restart(&mut software);
        of.deploy(&mut software, &mut copies);
        software.health = of.health();
        of.stop(&mut software);
        let networks = of.networks();
        of.leave_out();
        software.image = image?;
        Some(Self {
            software,
            networks,
            copies,
        })
    }
}

/// A service on its way.
struct Of<'p, 'a> {
    project: &'p mut Project<'a>,
    draft: &'p mut Draft,
    name: String,
    map: Map<'p>,
}

impl<'p> Of<'p, '_> {
    /// A key in words.
    fn key(&self, key: &str) -> String {
        format!("`{}.{key}`", self.name)
    }

    fn note_of(&mut self, key: &str, why: &str) {
        let key = self.key(&shown(key));
        self.draft
            .note(format!("{key} was not carried over: {why}"));
    }

    /// The value of a key that is said.
    fn take(&mut self, key: &str) -> Option<&'p Node> {
        self.map.take(key).filter(|node| !is_nothing(node))
    }

    fn text(&mut self, key: &str) -> Option<String> {
        let node = self.take(key)?;
        let what = self.key(key);
        let text = self.project.reader.text(node, &what)?;
        (!text.is_empty()).then_some(text)
    }

    fn image(&mut self, entry: &Entry) -> Option<String> {
        let image = self.text("image");
        if self.take("build").is_some() {
            let name = image.clone();
            let name = name.unwrap_or_else(|| {
                let own = fit_name(
                    &self.name,
                    "service",
                    &mut std::collections::BTreeSet::new(),
                );
                format!("{}-{own}", self.project.name)
            });
            self.note_of(
                "build",
                &format!("`constel image build --file DIR/Dockerfile DIR --name {name}` makes the image {name}"),
            );
            return Some(name);
        }
        if self.take("extends").is_some() {
            self.note_of("extends", "write out what it takes over, or use `<<`");
        }
        if image.is_none() {
            let line = entry.key_span.line as usize;
            let reason = format!("`{}` has neither `image` nor `build`", self.name);
            self.project.reader.wrong.push(line, reason);
        }
        image
    }

    /// A program with its arguments, as a list or as a line.
    fn command(&mut self, key: &str) -> Option<Vec<String>> {
        let node = self.take(key)?;
        let what = self.key(key);
        let reader = &mut self.project.reader;
        if let Value::Sequence(list) = &node.value {
            return list.iter().map(|node| reader.text(node, &what)).collect();
        }
        let line = reader.text(node, &what)?;
        match split(&line) {
            Ok(words) => Some(words),
            Err(reason) => {
                reader.wrong(node, format!("{what} has {reason}"));
                None
            }
        }
    }

    /// Variables, as a list or as a mapping, over those of files.
    fn environment(&mut self) -> Vec<(String, String)> {
        let mut all = BTreeMap::new();
        self.environment_of_files(&mut all);
        let Some(node) = self.take("environment") else {
            return all.into_iter().collect();
        };
        let what = self.key("environment");
        let reader = &mut self.project.reader;
        let mut said: Vec<(String, Option<String>)> = Vec::new();
        if let Value::Sequence(list) = &node.value {
            for node in list {
                let Some(text) = reader.text(node, &what) else {
                    continue;
                };
                said.push(match text.split_once('=') {
                    Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                    None => (text, None),
                });
            }
        } else {
            for entry in reader.map(node, &what).entries {
                let nothing = is_nothing(&entry.value);
                let value = match nothing {
                    true => None,
                    false => reader.text(&entry.value, &what),
                };
                if nothing || value.is_some() {
                    said.push((entry.key.clone(), value));
                }
            }
        }
        for (name, value) in said {
            let value = value.or_else(|| self.project.reader.variables.known.get(&name).cloned());
            match value {
                Some(value) => self.variable(&mut all, name, value),
                None => {
                    let key = format!("environment.{}", shown(&name));
                    self.note_of(
                        &key,
                        "it is to be taken from where Compose runs, and has no value in `.env`",
                    );
                }
            }
        }
        all.into_iter().collect()
    }

    fn environment_of_files(&mut self, all: &mut BTreeMap<String, String>) {
        let Some(node) = self.take("env_file") else {
            return;
        };
        let what = self.key("env_file");
        let nodes: &[Node] = match &node.value {
            Value::Sequence(list) => list,
            _ => std::slice::from_ref(node),
        };
        for node in nodes {
            let (node, required) = match node.get("path") {
                Some(path) => (&path.value, node.get("required").map(|entry| &entry.value)),
                None => (node, None),
            };
            let required = required.is_none_or(|node| self.project.reader.yes(node, &what));
            let Some(path) = self.project.reader.text(node, &what) else {
                continue;
            };
            match (self.project.beside)(&path) {
                Some(text) => {
                    for (name, value) in Variables::read(&text) {
                        self.variable(all, name, value);
                    }
                }
                None if required => {
                    let reason = format!("{what}: `{}` cannot be read", shown(&path));
                    self.project.reader.wrong(node, reason);
                }
                None => {}
            }
        }
    }

    fn variable(&mut self, all: &mut BTreeMap<String, String>, name: String, value: String) {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.chars().all(fits) && name.starts_with(|c: char| !c.is_ascii_digit()) {
            all.insert(name, value);
            return;
        }
        let key = format!("environment.{}", shown(&name));
        self.note_of(
            &key,
            "names of variables are made of letters, digits and `_`",
        );
    }

    fn volumes(&mut self) -> Vec<Volume> {
        let Some(node) = self.take("volumes") else {
            return Vec::new();
        };
        let what = self.key("volumes");
        let mut all: Vec<Volume> = Vec::new();
        for node in self.project.reader.list(node, &what) {
            let said = match &node.value {
                Value::Mapping(_) => self.long_volume(node, &what),
                _ => self.short_volume(node, &what),
            };
            let Some(volume) = said else {
                continue;
            };
            let reason = match volume.host.as_str() {
                host if host.starts_with('~') => {
                    "the home folder of whoever runs Compose is nobody's here"
                }
                host if host.ends_with(".sock") => "a socket of the host would lead out of the lab",
                _ if all.iter().any(|other| other.at == volume.at) => {
                    "something else is mounted there"
                }
                _ => {
                    all.push(volume);
                    continue;
                }
            };
            let (host, at) = (shown(&volume.host), shown(&volume.at));
            self.note_of(&format!("volumes.{host}:{at}"), reason);
        }
        all
    }

    fn short_volume(&mut self, node: &Node, what: &str) -> Option<Volume> {
        let text = self.project.reader.text(node, what)?;
        let mut parts = text.split(':');
        let (first, second, mode) = (parts.next()?, parts.next(), parts.next());
        if parts.next().is_some() {
            let reason = format!("{what}: `{}` is no SOURCE:TARGET[:MODE]", shown(&text));
            self.project.reader.wrong(node, reason);
            return None;
        }
        let read_only = mode.is_some_and(|mode| mode.split(',').any(|word| word == "ro"));
        match second {
            Some(at) if first.starts_with(['.', '/', '~']) => Some(Volume {
                host: first.to_owned(),
                at: at.to_owned(),
                read_only,
            }),
            _ => {
                self.named_volume(first);
                None
            }
        }
    }

    fn long_volume(&mut self, node: &'p Node, what: &str) -> Option<Volume> {
        let mut map = self.project.reader.map(node, what);
        let mut text = |key: &str| {
            let node = map.take(key)?;
            self.project.reader.text(node, what)
        };
        let (kind, source, target) = (text("type"), text("source"), text("target"));
        let read_only = map.take("read_only");
        let read_only = read_only.is_some_and(|node| self.project.reader.yes(node, what));
        match (kind.as_deref(), source, target) {
            (Some("bind"), Some(host), Some(at)) => Some(Volume {
                host,
                at,
                read_only,
            }),
            (Some("bind"), ..) | (None, ..) => {
                let reason = format!("{what}: a volume has `type`, `source` and `target`");
                self.project.reader.wrong(node, reason);
                None
            }
            (_, source, target) => {
                let name = source.or(target).unwrap_or_default();
                self.named_volume(&name);
                None
            }
        }
    }

    fn named_volume(&mut self, name: &str) {
        let key = format!("volumes.{}", shown(name));
        self.note_of(&key, "nothing is kept from one lab to the next; what is written is in memory, or with `state: disk` in the results");
    }

    fn capabilities(&mut self, software: &mut Software) {
        let known = Capability::words(u64::MAX);
        for (key, into) in [
            ("cap_add", &mut software.capabilities),
            ("cap_drop", &mut software.dropped),
        ] {
            let Some(node) = self.take(key) else {
                continue;
            };
            let what = self.key(key);
            for node in self.project.reader.list(node, &what) {
                let word = self.project.reader.text(node, &what).unwrap_or_default();
                let upper = word.to_ascii_uppercase();
                let word = upper.strip_prefix("CAP_").unwrap_or(&upper);
                if word != "ALL" && !known.contains(&word) {
                    let reason = format!("{what}: `{}` is no capability", shown(word));
                    self.project.reader.wrong(node, reason);
                } else if !into.iter().any(|other| other == word) {
                    into.push(word.to_owned());
                }
            }
        }
    }

    fn security(&mut self, software: &mut Software) {
        let Some(node) = self.take("security_opt") else {
            return;
        };
        let what = self.key("security_opt");
        for node in self.project.reader.list(node, &what) {
            let text = self.project.reader.text(node, &what).unwrap_or_default();
            match text.replace('=', ":").as_str() {
                "seccomp:unconfined" => software.all_system_calls = true,
                "no-new-privileges" | "no-new-privileges:true" => {}
                _ => self.note_of(
                    &format!("security_opt.{}", shown(&text)),
                    "containers have no such setting",
                ),
            }
        }
    }

    fn limits(&mut self, software: &mut Software) {
        let (cpus, memory, pids) = (
            self.take("cpus"),
            self.take("mem_limit"),
            self.take("pids_limit"),
        );
        self.limit(software, "cpus", cpus);
        self.limit(software, "mem_limit", memory);
        self.limit(software, "pids_limit", pids);
    }

    /// A limit; 0, and for processes -1, is none.
    fn limit(&mut self, software: &mut Software, key: &str, node: Option<&Node>) {
        let Some(node) = node else {
            return;
        };
        let what = self.key(key);
        let Some(text) = self.project.reader.text(node, &what) else {
            return;
        };
        let kind = key.rsplit('.').next().unwrap_or(key);
        let (amount, range, into) = match kind {
            "cpus" => (nano_cpus(&text), NANO_CPUS, &mut software.nano_cpu),
            "mem_limit" | "memory" => (bytes(&text), MEMORY_BYTES, &mut software.memory_bytes),
            _ if text == "-1" => return,
            _ => (text.parse().ok(), 1..=4_194_304, &mut software.pids),
        };
        match amount {
            Some(0) => {}
            Some(amount) if range.contains(&amount) => *into = Some(amount),
            _ => {
                let expected = match kind {
                    "cpus" => "a number of processors from 0.01 to 4096",
                    "mem_limit" | "memory" => "an amount such as 512m, from 1m to 64t",
                    _ => "a number of processes from 1 to 4194304",
                };
                let reason = format!("{what} is `{}`, which is not {expected}", shown(&text));
                self.project.reader.wrong(node, reason);
            }
        }
    }

    fn count(&mut self, key: &str) -> Option<usize> {
        let node = self.take(key)?;
        self.count_of(key, node)
    }

    fn count_of(&mut self, key: &str, node: &Node) -> Option<usize> {
        let what = self.key(key);
        let text = self.project.reader.text(node, &what)?;
        let count = text.parse().ok();
        if count.is_none() {
            let reason = format!("{what} is `{}`, which is no number of copies", shown(&text));
            self.project.reader.wrong(node, reason);
        }
        count
    }

    fn restart(&mut self, software: &mut Software) {
        let Some(node) = self.take("restart") else {
            return;
        };
        let what = self.key("restart");
        let Some(text) = self.project.reader.text(node, &what) else {
            return;
        };
        let (word, times) = text
            .split_once(':')
            .map_or((text.as_str(), None), |(word, times)| (word, Some(times)));
        software.restart = match word {
            "no" | "false" => None,
            "always" | "unless-stopped" => Some("always"),
            "on-failure" => Some("on-failure"),
            _ => {
                let reason = format!(
                    "{what} is `{}`, which is none of no, always, unless-stopped and on-failure",
                    shown(&text)
                );
                self.project.reader.wrong(node, reason);
                None
            }
        };
        if let Some(times) = times {
            self.note_of(
                "restart",
                &format!(
                    "at most {} times: it is started again as often as it fails",
                    shown(times)
                ),
            );
            software.restart = Some("on-failure");
        }
    }

    fn health(&mut self) -> Option<Health> {
        let node = self.take("healthcheck")?;
        let what = self.key("healthcheck");
        let mut map = self.project.reader.map(node, &what);
        if let Some(node) = map.take("disable")
            && self.project.reader.yes(node, &what)
        {
            return None;
        }
        let command = match map.take("test") {
            Some(node) => Some(self.health_command(node, &what)?),
            None => None,
        };
        let mut health = Health {
            command,
            ..Health::default()
        };
        let bounds = [("interval", 100), ("timeout", 10), ("start_period", 0)];
        for (key, least) in bounds {
            let node = map.take(key);
            let ms = self.time(&format!("healthcheck.{key}"), node, least..=3_600_000);
            // 0 is Compose's word for as long as usual.
            let ms = ms.filter(|ms| *ms > 0);
            health.times_ms.extend(ms.map(|ms| (key, ms)));
        }
        if let Some(node) = map.take("retries") {
            let retries = self.count_of("healthcheck.retries", node)?;
            health.retries = u32::try_from(retries).ok().filter(|retries| *retries > 0);
        }
        self.left(&map, "healthcheck", "checks have no such setting");
        Some(health)
    }

    /// What is run to find out; `None` when nothing is to be, or it is wrong.
    fn health_command(&mut self, node: &Node, what: &str) -> Option<Vec<String>> {
        let reader = &mut self.project.reader;
        let words: Vec<String> = match &node.value {
            Value::Sequence(list) => {
                let words = list.iter();
                words.filter_map(|node| reader.text(node, what)).collect()
            }
            _ => vec!["CMD-SHELL".to_owned(), reader.text(node, what)?],
        };
        let parts: Vec<&str> = words.iter().map(String::as_str).collect();
        match parts.as_slice() {
            ["NONE"] => None,
            ["CMD", _, ..] => Some(words[1..].to_vec()),
            ["CMD-SHELL", line] => Some(["/bin/sh", "-c", line].map(str::to_owned).into()),
            _ => {
                let reason = format!("{what}.test begins with none of NONE, CMD and CMD-SHELL");
                reader.wrong(node, reason);
                None
            }
        }
    }

    fn stop(&mut self, software: &mut Software) {
        if let Some(signal) = self.text("stop_signal") {
            let upper = signal.to_ascii_uppercase();
            let word = upper.strip_prefix("SIG").unwrap_or(&upper);
            let known = [
                "HUP", "INT", "QUIT", "KILL", "USR1", "USR2", "TERM", "WINCH",
            ];
            match known.contains(&word) {
                true => software.stop_signal = Some(word.to_owned()),
                false => self.note_of(
                    "stop_signal",
                    "nodes end by HUP, INT, QUIT, KILL, USR1, USR2, TERM or WINCH",
                ),
            }
        }
        let node = self.take("stop_grace_period");
        software.stop_grace_ms = self.time("stop_grace_period", node, 0..=60_000);
    }

    /// A time within bounds, milliseconds; 0 is always within.
    fn time(
        &mut self,
        key: &str,
        node: Option<&Node>,
        range: std::ops::RangeInclusive<u64>,
    ) -> Option<u64> {
        let node = node?;
        let what = self.key(key);
        let text = self.project.reader.text(node, &what)?;
        let ms = milliseconds(&text).filter(|ms| *ms == 0 || range.contains(ms));
        if ms.is_none() {
            let (least, most) = (range.start(), range.end());
            let reason = format!(
                "{what} is `{}`, which is no time such as 1m30s from {least}ms to {most}ms",
                shown(&text)
            );
            self.project.reader.wrong(node, reason);
        }
        ms
    }

    fn deploy(&mut self, software: &mut Software, copies: &mut usize) {
        let Some(node) = self.take("deploy") else {
            return;
        };
        let what = self.key("deploy");
        let mut deploy = self.project.reader.map(node, &what);
        if let Some(node) = deploy.take("replicas") {
            *copies = self.count_of("deploy.replicas", node).unwrap_or(*copies);
        }
        if let Some(node) = deploy.take("restart_policy") {
            let mut policy = self.project.reader.map(node, &what);
            let condition = policy.take("condition");
            let condition = condition.and_then(|node| self.project.reader.text(node, &what));
            match condition.as_deref() {
                Some("none") => software.restart = None,
                Some("on-failure") => software.restart = Some("on-failure"),
                _ => software.restart = Some("always"),
            }
            self.left(
                &policy,
                "deploy.restart_policy",
                "waits between starts are 1 s and grow to 30 s",
            );
        }
        if let Some(node) = deploy.take("resources") {
            let mut resources = self.project.reader.map(node, &what);
            if let Some(node) = resources.take("limits") {
                let mut limits = self.project.reader.map(node, &what);
                for key in ["cpus", "memory", "pids"] {
                    let node = limits.take(key);
                    self.limit(software, &format!("deploy.resources.limits.{key}"), node);
                }
                self.left(
                    &limits,
                    "deploy.resources.limits",
                    "nodes have no such limit",
                );
            }
            self.left(
                &resources,
                "deploy.resources",
                "nothing is set aside for a node",
            );
        }
        self.left(&deploy, "deploy", "a lab has no such thing");
    }

    fn left(&mut self, map: &Map<'_>, of: &str, why: &str) {
        for entry in &map.entries {
            self.note_of(&format!("{of}.{}", entry.key), why);
        }
    }

    fn networks(&mut self) -> Memberships {
        let said = self.take("networks");
        Memberships::read(self.project, self.draft, &self.name, said)
    }

    /// All that nobody took.
    fn leave_out(&mut self) {
        for entry in std::mem::take(&mut self.map.entries) {
            let key = entry.key.as_str();
            if key.starts_with("x-") || is_nothing(&entry.value) {
                continue;
            }
            let found = LEFT_OUT.iter().find(|(left, _)| *left == key);
            let why = found.map_or("a lab has no such thing", |(_, why)| why);
            self.note_of(key, why);
        }
    }
}
