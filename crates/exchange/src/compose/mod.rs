//! Docker Compose files: services become hosts, made of their images, and networks become switched networks.
//!
//! Keys of Compose that a lab does not have are reported one by one, with the reason. Anchors, aliases and
//! merge keys (`<<`) are followed within the bounds of [`constel_scenario::yaml`]; variables are replaced by
//! the values in `.env` and their defaults.

mod networks;
mod service;
mod tree;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use constel_scenario::Source;
use constel_scenario::yaml::{self, Entry, Node};

use crate::draft::{Draft, Host, fit_name, unfit};
use crate::text::{ReadError, ReadErrors, shown};
use networks::Networks;
use service::Service;
use tree::Reader;
use words::Variables;

/// Most nodes that services become, copies counted.
const MOST: usize = 10_000;

/// Files next to the one that is read, by their paths relative to it: `None` for one that does not exist, and the reason
/// for one that cannot be read.
pub type SiblingFiles<'a> = &'a dyn Fn(&str) -> Result<Option<String>, String>;

/// Whether a YAML text looks like a Compose file: it has services, which scenarios have not.
#[must_use]
pub fn is_one(text: &str) -> bool {
    let root = yaml::read(&Source::new("", text));
    root.is_ok_and(|root| root.get("services").is_some() && root.get("constel").is_none())
}

/// Reads a file; `name` is the project's unless the file has one. `beside` finds `.env` and the files that `env_file` names.
///
/// # Errors
/// Everything found wrong.
pub fn parse(text: &str, name: &str, beside: SiblingFiles<'_>) -> Result<Draft, ReadErrors> {
    let root = yaml::read(&Source::new("", text)).map_err(|error| {
        ReadErrors(vec![ReadError {
            line: error.line as usize,
            reason: error.message,
        }])
    })?;
    let mut reader = Reader::default();
    match beside(".env") {
        Ok(text) => {
            let known = text.map_or_else(Vec::new, |text| Variables::read(&text));
            reader.variables.known = known.into_iter().collect();
        }
        Err(reason) => reader
            .wrong
            .push(1, format!("`.env` cannot be read: {reason}")),
    }
    let mut top = reader.map(&root, "the file");
    let project = top.take("name");
    let project = project.and_then(|node| reader.text(node, "`name`"));
    let mut draft = Draft::new("a Docker Compose file", project.as_deref().unwrap_or(name));
    let mut read = Project {
        reader,
        beside,
        name: fit_name(&draft.name, "project", &mut BTreeSet::new()),
        names: BTreeSet::new(),
        renamed: Vec::new(),
    };
    let services = top.take("services");
    let networks = Networks::declared(&mut read, &mut draft, top.take("networks"));
    read.services(&mut draft, services, networks);
    for entry in top.entries {
        read.leave_out_top(&mut draft, entry);
    }
    for (name, line) in &read.reader.variables.unset {
        draft.note(format!(
            "the variable `{}` (line {line}) has no value in `.env` and no default: it is empty",
            shown(name)
        ));
    }
    if !draft.hosts.is_empty() {
        draft.note("`constel image import docker://NAME` or `docker-daemon:NAME` brings images in; nothing is fetched by itself");
        draft.note("networks are switches without rate and delay: give one `law` and `link` in place of `medium: switched`, or use `ground.cables`");
        let found = match read.renamed.as_slice() {
            [] => "services find each other by their names, as before".to_owned(),
            renamed => format!(
                "services find each other by the names of their nodes, and no longer by {}: change those names where programs \
                 use them",
                renamed.join(", ")
            ),
        };
        draft.note(format!("{found}; files that give their user more rights (`setuid`) give none, see `no_new_privileges`"));
    }
    read.reader.wrong.or(draft)
}

/// A file that is being read.
struct Project<'a> {
    reader: Reader,
    beside: SiblingFiles<'a>,
    name: String,
    /// Names of hosts, which must be unique.
    names: BTreeSet<String>,
    /// Services whose own names do not resolve.
    renamed: Vec<String>,
}

impl Project<'_> {
    fn services(&mut self, draft: &mut Draft, services: Option<&Node>, mut networks: Networks) {
        let Some(node) = services else {
            self.reader
                .wrong
                .push(1, "there are no `services`: this is no Compose file");
            return;
        };
        let services = self.reader.map(node, "`services`").entries;
        if services.is_empty() {
            self.reader.wrong(
                node,
                "there are no `services`: this is no Compose file".to_owned(),
            );
        }
        // Others refer to services by name: a valid name is its own service's, whatever comes before it in the file.
        let valid = services.iter().filter(|entry| unfit(&entry.key).is_none());
        self.names.extend(valid.map(|entry| entry.key.clone()));
        for entry in services {
            let Some(service) = Service::read(self, draft, entry) else {
                continue;
            };
            for network in service.networks.unknown(&networks) {
                let (of, network) = (shown(&entry.key), shown(network));
                let reason =
                    format!("`{of}` is in the network `{network}`, which `networks` has not");
                self.reader.wrong.push(entry.key_span.line as usize, reason);
            }
            for name in self.names_of(draft, entry, service.copies) {
                networks.join(&name, &service.networks);
                draft.hosts.push(Host {
                    name,
                    software: Some(service.software.clone()),
                });
            }
        }
        if draft.hosts.is_empty() && self.reader.wrong.is_empty() {
            let reason = "no service is left to make a node of";
            self.reader.wrong(node, reason.to_owned());
        }
        networks.lay(draft, &mut self.names);
    }

    /// Returns the names of the nodes of a service.
    fn names_of(&mut self, draft: &mut Draft, entry: &Entry, copies: usize) -> Vec<String> {
        if draft.hosts.len() + copies > MOST {
            let line = entry.key_span.line as usize;
            self.reader
                .wrong
                .push(line, format!("the services are more than {MOST} nodes"));
            return Vec::new();
        }
        let service = &entry.key;
        let mut name = |wanted: &str| fit_name(wanted, "service", &mut self.names);
        let names: Vec<String> = match copies {
            1 if unfit(service).is_none() => vec![service.clone()],
            1 => vec![name(service)],
            _ => (1..=copies)
                .map(|n| name(&format!("{service}-{n}")))
                .collect(),
        };
        if names.as_slice() != [service.clone()] && !names.is_empty() {
            self.renamed.push(format!("`{}`", shown(service)));
        }
        match names.as_slice() {
            [] => draft.note(format!("`{}` has no copies, and is left out", shown(service))),
            [only] if only != service => draft.note(format!(
                "`{}` (line {}) is called `{only}`: {}",
                shown(service),
                entry.key_span.line,
                unfit(service).unwrap_or_default()
            )),
            [_] => {}
            [first, .., last] => draft.note(format!(
                "the copies of `{}` are called `{first}` to `{last}`; its own name finds none of them",
                shown(service)
            )),
        }
        names
    }

    fn leave_out_top(&mut self, draft: &mut Draft, entry: &Entry) {
        let key = entry.key.as_str();
        if key == "version" || key.starts_with("x-") {
            return;
        }
        let reasons: BTreeMap<&str, &str> = [
            (
                "volumes",
                "what programs write is in memory, or with `state: disk` in the results",
            ),
            ("secrets", "show files by `mounts` of a node"),
            ("configs", "show files by `mounts` of a node"),
            ("include", "import those files by themselves"),
        ]
        .into();
        let reason = reasons.get(key).unwrap_or(&"a lab has no such thing");
        draft.note(format!("`{}` was not carried over: {reason}", shown(key)));
    }
}
