//! A service of a Compose file as the software of a node.

mod environment;
mod life;
mod limits;
mod volumes;

use constel_scenario::yaml::{Entry, Node, Value};

use super::Project;
use super::networks::Memberships;
use super::tree::{Map, is_nothing};
use super::words::split;
use crate::draft::{Draft, Software, fit_name};
use crate::text::shown;

/// Keys of services that a lab does not support, and the reasons.
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

/// The result of reading a service.
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
                "a node needs a network, so the service is left out",
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
        if networks.is_empty() {
            of.note_of(
                "networks",
                "a node needs a network, so the service is left out",
            );
            return None;
        }
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

    /// Returns the value of a key, if the key has one.
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

    fn left(&mut self, map: &Map<'_>, of: &str, why: &str) {
        for entry in &map.entries {
            self.note_of(&format!("{of}.{}", entry.key), why);
        }
    }

    fn networks(&mut self) -> Memberships {
        let said = self.take("networks");
        Memberships::read(self.project, self.draft, &self.name, said)
    }

    /// Reports the keys that were not read.
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
