//! `nodes` and `node`: the rules about the software of nodes, and checks of them.

use super::constellations::Found;
use super::failures::Names;
use super::nodes::Nodes;
use super::programs::wrong_place;
use crate::diagnostic::Diagnostics;
use crate::model::{NamedImage, NodeRule, NodeSelection, NodesOf, Runtime, thousandths};
use crate::parse::Parsed;
use crate::raw::RawNode;
use crate::walk::Path;
use crate::walk::Seg::{self, Index, Key};

fn is_digest(text: &str) -> bool {
    let digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    let digits = text.strip_prefix("sha256:");
    digits.is_some_and(|digits| digits.len() == 64 && digits.bytes().all(digit))
}

/// The images that the scenario has names of its own for.
pub(super) fn images(parsed: &Parsed, errors: &mut Diagnostics) -> Vec<NamedImage> {
    let mut all = Vec::new();
    for (name, raw) in &parsed.raw.images {
        let path = [Key("images"), Key(name.as_str())];
        if raw.source.is_none() && raw.digest.is_none() {
            let message = "an image has a `source`, a `digest` or both";
            errors.push(parsed.error_at(&path, "missing-key", message));
        }
        if let Some(digest) = raw.digest.as_ref().filter(|digest| !is_digest(digest)) {
            let path = [path[0], path[1], Key("digest")];
            let message = format!("`{digest}` is no digest");
            let error = parsed.error_at(&path, "bad-value", message);
            errors.push(error.with_reason("a digest is `sha256:` and 64 digits of 0-9 and a-f"));
        }
        let scheme = ["docker://", "docker-daemon:"];
        let fetched = |source: &String| scheme.iter().any(|scheme| source.starts_with(scheme));
        if let Some(source) = raw.source.as_ref().filter(|source| fetched(source)) {
            let path = [path[0], path[1], Key("source")];
            let message = format!("`{source}` cannot be fetched while a lab starts");
            let error = parsed.error_at(&path, "bad-value", message);
            let reason = "what comes from a registry or an engine comes by `constel image import`";
            let suggestion = match &raw.digest {
                Some(_) => {
                    "leave `source` out: an image that was imported is found by its `digest`"
                        .to_owned()
                }
                None => format!(
                    "run `constel image import {source}`, and write its `digest` in place of `source` (`constel image list` prints it)"
                ),
            };
            errors.push(error.with_reason(reason).with_suggestion(suggestion));
        }
        all.push(NamedImage {
            name: name.clone(),
            source: raw.source.clone(),
            digest: raw.digest.clone(),
            place: (parsed.place(&path, true), Path(&path).to_string()),
        });
    }
    all
}

/// Returns all rules about the software of nodes, in the order in which they apply; errors go to `errors`.
pub(super) fn resolve(
    parsed: &Parsed,
    found: &[Found],
    nodes: &Nodes<'_>,
    errors: &mut Diagnostics,
) -> Vec<NodeRule> {
    let raw = &parsed.raw;
    let names = Names::new(parsed, found);
    let mut rules = Rules {
        parsed,
        errors,
        all: Vec::new(),
    };
    let kinds = [
        ("satellites", NodesOf::Satellites, &raw.nodes.satellites),
        ("stations", NodesOf::Stations, &raw.nodes.stations),
        ("hosts", NodesOf::Hosts, &raw.nodes.hosts),
    ];
    for (key, of, set) in kinds {
        rules.add(of, set.as_ref(), &[Key("nodes"), Key(key)]);
    }
    for (name, constellation) in &raw.constellations {
        let path = [Key("constellations"), Key(name.as_str()), Key("node")];
        let of = NodesOf::Constellation(name.clone());
        rules.add(of, constellation.node.as_ref(), &path);
    }
    for (name, formation) in &raw.spacecraft {
        let path = [Key("spacecraft"), Key(name.as_str()), Key("node")];
        let of = NodesOf::Constellation(name.clone());
        rules.add(of, formation.node.as_ref(), &path);
    }
    for (name, station) in &raw.ground.stations {
        let path = [
            Key("ground"),
            Key("stations"),
            Key(name.as_str()),
            Key("node"),
        ];
        rules.add(NodesOf::Node(name.clone()), station.node.as_ref(), &path);
    }
    for (name, host) in &raw.ground.hosts {
        let path = [Key("ground"), Key("hosts"), Key(name.as_str()), Key("node")];
        rules.add(NodesOf::Node(name.clone()), host.node.as_ref(), &path);
    }
    for (index, own) in raw.nodes.overrides.iter().enumerate() {
        let path = [Key("nodes"), Key("overrides"), Index(index)];
        let at = |key, n| [path[0], path[1], path[2], Key(key), Index(n)];
        if own.nodes.is_none() && own.shells.is_none() && own.region.is_none() {
            let message = "this does not name its nodes";
            let error = parsed.error_at(&path, "missing-key", message);
            let error = error.with_suggestion("give `nodes`, `shells` or `region`");
            rules.errors.push(error);
        }
        let patterns = own.nodes.as_deref().unwrap_or_default();
        for (n, pattern) in patterns.iter().enumerate() {
            rules.check_pattern(pattern, nodes, &at("nodes", n));
        }
        let shells = own.shells.as_deref().unwrap_or_default().iter().enumerate();
        let shells =
            shells.filter_map(|(n, name)| names.shell(&at("shells", n), name, rules.errors));
        let choice = NodeSelection {
            names: patterns.to_vec(),
            shells: shells.collect(),
            region: own.region,
        };
        let [a, b, c] = path;
        rules.add(
            NodesOf::Chosen(choice),
            Some(&own.set),
            &[a, b, c, Key("set")],
        );
    }
    rules.all
}

/// Whether a rule sets only the runtime of a node.
fn forwards_alone(set: &RawNode) -> bool {
    let alone = RawNode {
        runtime: set.runtime,
        ..RawNode::default()
    };
    *set == alone
}

struct Rules<'p, 'e> {
    parsed: &'p Parsed,
    errors: &'e mut Diagnostics,
    all: Vec<NodeRule>,
}

impl Rules<'_, '_> {
    fn add(&mut self, of: NodesOf, set: Option<&RawNode>, path: &[Seg<'_>]) {
        let Some(set) = set else { return };
        self.check(set, path);
        self.all.push(NodeRule {
            of,
            set: set.clone(),
            place: (self.parsed.place(path, true), Path(path).to_string()),
        });
    }

    fn check(&mut self, set: &RawNode, path: &[Seg<'_>]) {
        let at = |rest: &[Seg<'static>]| -> Vec<Seg<'_>> { [path, rest].concat() };
        let parsed = self.parsed;
        if *set == RawNode::default() {
            let error = parsed.error_at(path, "no-effect", "nothing is set here");
            self.errors.push(
                error.with_suggestion("give `image`, `runtime` or another key, or remove it"),
            );
        }
        if set.runtime == Some(Runtime::Forward) && !forwards_alone(set) {
            let message = "with `runtime: forward` no other key can be set for a node";
            let error = parsed.error_at(&at(&[Key("runtime")]), "choose-one", message);
            let reason = "it has no network stack, and no program runs in it";
            self.errors.push(error.with_reason(reason));
        }
        if set.runtime == Some(Runtime::Netns) && set.image.is_some() {
            let message = "`image` and `runtime: netns` cannot be given together";
            let error = parsed.error_at(&at(&[Key("image")]), "choose-one", message);
            let reason = "programs of such nodes are the host's";
            self.errors.push(error.with_reason(reason));
        }
        if set.entrypoint.as_ref().is_some_and(Vec::is_empty)
            && set.command.as_ref().is_some_and(Vec::is_empty)
        {
            let message = "neither `entrypoint` nor `command` names a program";
            let error = parsed.error_at(&at(&[Key("command")]), "empty-list", message);
            self.errors.push(error);
        }
        let texts = [&set.image, &set.user, &set.workdir];
        let lists = [&set.entrypoint, &set.command];
        let env = set.env.0.values();
        let all = texts
            .into_iter()
            .flatten()
            .chain(lists.into_iter().flatten().flatten());
        if all.chain(env).any(|text| text.contains('\0')) {
            let message = "a NUL byte cannot be part of any of this";
            self.errors
                .push(parsed.error_at(path, "bad-value", message));
        }
        if let Some(workdir) = &set.workdir
            && let Some((reason, _)) = wrong_place(workdir).filter(|_| workdir != "/")
        {
            let message = format!("programs cannot begin in `{workdir}`");
            let error = parsed.error_at(&at(&[Key("workdir")]), "bad-value", message);
            self.errors.push(error.with_reason(reason));
        }
        for (index, mount) in set.mounts.iter().enumerate() {
            let own = at(&[Key("mounts"), Index(index), Key("at")]);
            if let Some((reason, suggestion)) = wrong_place(&mount.at) {
                let message = format!("nothing can be mounted at `{}`", mount.at);
                let error = parsed.error_at(&own, "bad-mount", message);
                self.errors
                    .push(error.with_reason(reason).with_suggestion(suggestion));
            }
            if set.mounts[..index].iter().any(|other| other.at == mount.at) {
                let message = format!("two mounts are at `{}`", mount.at);
                let error = parsed.error_at(&own, "duplicate-mount", message);
                self.errors
                    .push(error.with_reason("the earlier one would not be seen"));
            }
        }
        if let Some(share) = &set.limits {
            let limits = at(&[Key("limits")]);
            if *share == crate::raw::RawShare::default() {
                let error = parsed.error_at(&limits, "no-effect", "this limits nothing");
                self.errors.push(
                    error.with_suggestion(
                        "give `cpu`, `memory`, `pids`, `files` or several of them",
                    ),
                );
            }
            if let Some(cpu) = share.cpu.as_ref().filter(|cpu| thousandths(cpu).is_none()) {
                let path = at(&[Key("limits"), Key("cpu")]);
                let message = format!("`{cpu}` is no number of processors");
                let error = parsed.error_at(&path, "out-of-range", message);
                let reason = "a number from 0.01 to 4096 is expected: `0.5` is half a processor";
                self.errors.push(error.with_reason(reason));
            }
            self.check_within_lab(share, path);
        }
    }

    /// A limit above the whole lab's would never be reached.
    fn check_within_lab(&mut self, share: &crate::raw::RawShare, path: &[Seg<'_>]) {
        let lab = &self.parsed.raw.limits;
        let above = [
            ("memory", share.memory > lab.memory && lab.memory.is_some()),
            (
                "pids",
                share.pids > lab.processes && lab.processes.is_some(),
            ),
        ];
        for (key, _) in above.into_iter().filter(|(_, above)| *above) {
            let path = [path, &[Key("limits"), Key(key)]].concat();
            let message = "the limit of a node is above that of the whole lab";
            let error = self.parsed.error_at(&path, "out-of-range", message);
            self.errors
                .push(error.with_reason("it would never be reached"));
        }
    }

    /// A pattern that is a plain name is checked here; the matches of others are known when all nodes are.
    fn check_pattern(&mut self, pattern: &str, nodes: &Nodes<'_>, path: &[Seg<'_>]) {
        let allowed =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '*' | '?');
        if pattern.is_empty() || !pattern.chars().all(allowed) {
            let message = format!("`{pattern}` is no pattern of names");
            let error = self.parsed.error_at(path, "bad-name", message);
            let reason =
                "names are made of a-z, 0-9 and `-`; `*` stands for any characters, `?` for one";
            self.errors.push(error.with_reason(reason));
            return;
        }
        if let Ok(name) = pattern.parse() {
            let unknown = nodes.unknown(&name, |code, message| {
                self.parsed.error_at(path, code, message)
            });
            unknown
                .into_iter()
                .for_each(|error| self.errors.push(error));
        }
    }
}
