//! The rights and limits of a service, and the number of its copies.

use constel_scenario::raw::Capability;
use constel_scenario::yaml::Node;

use super::Of;
use crate::compose::words::{bytes, nano_cpus};
use crate::draft::Software;
use crate::text::shown;

/// Processors that a limit may be, in thousand-millionths: 0.01 to 4096.
const NANO_CPUS: std::ops::RangeInclusive<u64> = 10_000_000..=4_096_000_000_000;
/// Memory that a limit may be, bytes: 1 MiB to 64 TiB.
const MEMORY_BYTES: std::ops::RangeInclusive<u64> = 1 << 20..=64 << 40;

impl Of<'_, '_> {
    pub(super) fn capabilities(&mut self, software: &mut Software) {
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

    pub(super) fn security(&mut self, software: &mut Software) {
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

    pub(super) fn limits(&mut self, software: &mut Software) {
        let (cpus, memory, pids) = (
            self.take("cpus"),
            self.take("mem_limit"),
            self.take("pids_limit"),
        );
        self.limit(software, "cpus", cpus);
        self.limit(software, "mem_limit", memory);
        self.limit(software, "pids_limit", pids);
    }

    /// Reads a limit; 0 means no limit, and for processes -1 too.
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

    pub(super) fn deploy(&mut self, software: &mut Software, copies: &mut usize) {
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
}
