//! The names of nodes, as far as they are known before orbits are read.

use std::collections::{BTreeMap, BTreeSet};

use super::constellations::Found;
use super::ground::Ground;
use crate::deferred::DeferredNode;
use crate::diagnostic::{Diagnostic, Diagnostics, nearest};
use crate::glob::Glob;
use crate::model::{Name, Orbits, Walker};
use crate::parse::Parsed;
use crate::raw::{Destinations, RawHost};
use crate::walk::Path;
use crate::walk::Seg::{self, Index, Key};

/// The names of a scenario's nodes.
pub(super) struct Nodes<'a> {
    ground: &'a Ground,
    hosts: &'a BTreeMap<Name, RawHost>,
    /// Whether there are satellites that a catalogue has names and numbers for.
    catalogued: bool,
    /// Beginnings of satellite names (`<constellation>` or `<constellation>-<shell>`).
    prefixes: BTreeMap<String, Flock<'a>>,
    /// Names of formations' craft.
    craft: BTreeSet<String>,
}

/// The satellites behind a prefix, as far as they are known.
enum Flock<'a> {
    Walker(&'a Walker),
    /// Element files, and constellations with errors of their own.
    Later,
}

/// The kind of node that has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Station,
    /// On the ground, with cables only.
    Host,
    Satellite,
    /// A craft of a formation.
    Spacecraft,
    /// Perhaps a satellite; known when the plan is made.
    Deferred,
    /// Unclear because of errors that were reported.
    Unclear,
    /// Any other name.
    Unknown,
}

/// The nodes that a pattern matches.
pub(super) enum Matched {
    /// At least one node, ordered by name.
    Nodes(Vec<Name>),
    Nothing,
    /// Perhaps satellites of this constellation, whose names are known when the plan is made.
    Later(Name),
    /// Unclear because of errors that were reported.
    Unclear,
}

impl<'a> Nodes<'a> {
    pub(super) fn new(
        parsed: &'a Parsed,
        found: &'a [Found],
        ground: &'a Ground,
        errors: &mut Diagnostics,
    ) -> Self {
        let mut prefixes = BTreeMap::new();
        for (name, raw) in &parsed.raw.constellations {
            let known = found
                .iter()
                .find(|f| f.resolved.name == *name && f.names_known);
            if let Some(Orbits::Walker(walker)) = known.map(|f| &f.resolved.orbits) {
                add(
                    &mut prefixes,
                    parsed,
                    name.to_string(),
                    Flock::Walker(walker),
                    &[Key("constellations"), Key(name.as_str())],
                    errors,
                );
                continue;
            }
            let Some((key, set)) = raw.orbits.elements() else {
                prefixes.insert(name.to_string(), Flock::Later);
                continue;
            };
            if set.shells.is_none() {
                prefixes.insert(name.to_string(), Flock::Later);
            }
            for (index, shell) in set.shells().iter().enumerate() {
                if set.shells()[..index]
                    .iter()
                    .any(|earlier| earlier.name == shell.name)
                {
                    continue; // reported where shells are checked
                }
                let path = [
                    Key("constellations"),
                    Key(name.as_str()),
                    Key(key),
                    Key("shells"),
                    Index(index),
                    Key("name"),
                ];
                let prefix = format!("{name}-{}", shell.name);
                add(&mut prefixes, parsed, prefix, Flock::Later, &path, errors);
            }
        }
        let mut constellations = parsed.raw.constellations.values();
        let nodes = Self {
            ground,
            catalogued: constellations.any(|c| !c.orbits.is_walker()),
            hosts: &parsed.raw.ground.hosts,
            prefixes,
            craft: found
                .iter()
                .filter_map(|f| f.resolved.craft_names())
                .flatten()
                .collect(),
        };
        nodes.check_stations(parsed, errors);
        nodes.check_addresses(parsed, errors);
        nodes
    }

    /// Checks that no node's name is one that programs read as an address: `ping 2` sends to 0.0.0.2, whatever
    /// `/etc/hosts` has.
    fn check_addresses(&self, parsed: &Parsed, errors: &mut Diagnostics) {
        let ground = &parsed.raw.ground;
        let named = |key: &'static str, name: &str| {
            let path = [Key("ground"), Key(key), Key(name)];
            not_a_node_name(name)
                .map(|why| (parsed.error_at_key(&path, "bad-name", message(name)), why))
        };
        let hosts = ground
            .hosts
            .keys()
            .map(|name| named("hosts", name.as_str()));
        let stations = self.ground.stations.iter().map(|station| {
            let name = station.name.as_str();
            if ground.stations.contains_key(&station.name) {
                return named("stations", name);
            }
            let path = [Key("ground"), Key("from")];
            not_a_node_name(name)
                .map(|why| (parsed.error_at(&path, "bad-name", message(name)), why))
        });
        let craft = self.craft.iter().map(|name| {
            let path = [Key("spacecraft"), Key(name.as_str())];
            not_a_node_name(name)
                .map(|why| (parsed.error_at_key(&path, "bad-name", message(name)), why))
        });
        for (error, why) in hosts.chain(stations).chain(craft).flatten() {
            let error = error.with_reason(why);
            errors.push(error.with_suggestion("begin it with a word, for example `node-1`"));
        }
    }

    /// A station must not have a satellite's name.
    fn check_stations(&self, parsed: &Parsed, errors: &mut Diagnostics) {
        let taken = |name: &str| {
            let stations = &self.ground.stations;
            self.craft.contains(name)
                || stations.iter().any(|s| s.name.as_str() == name)
                || matches!(self.satellite(name), Some(Kind::Satellite | Kind::Deferred))
        };
        for name in self.hosts.keys().filter(|name| taken(name.as_str())) {
            let path = [Key("ground"), Key("hosts"), Key(name.as_str())];
            let message = format!("a host and another node are called `{name}`");
            errors.push(parsed.error_at_key(&path, "duplicate-name", message));
        }
        for station in &self.ground.stations {
            let name = station.name.as_str();
            if self.craft.contains(name) {
                let path = [Key("ground"), Key("stations"), Key(name)];
                let message = format!("a station and a spacecraft are called `{name}`");
                errors.push(parsed.error_at_key(&path, "duplicate-name", message));
            }
            if matches!(self.satellite(name), Some(Kind::Satellite | Kind::Deferred)) {
                let path = [Key("ground"), Key("stations"), Key(name)];
                let error = parsed
                    .error_at_key(
                        &path,
                        "duplicate-name",
                        format!("a station and a satellite are called `{name}`"),
                    )
                    .with_reason("satellites are called `<constellation>-p<plane>-s<slot>`")
                    .with_suggestion("give the station another name");
                errors.push(error);
            }
        }
    }

    /// Returns the kind of node that has this name.
    pub(super) fn kind(&self, name: &Name) -> Kind {
        match self.kind_of(name.as_str()) {
            Kind::Unknown if self.catalogued && name.is_called() => Kind::Deferred,
            kind => kind,
        }
    }

    fn kind_of(&self, name: &str) -> Kind {
        if self.hosts.keys().any(|host| host.as_str() == name) {
            return Kind::Host;
        }
        if self.craft.contains(name) {
            return Kind::Spacecraft;
        }
        if self
            .ground
            .stations
            .binary_search_by(|s| s.name.as_str().cmp(name))
            .is_ok()
        {
            return Kind::Station;
        }
        match self.satellite(name) {
            Some(kind) => kind,
            None if self.ground.may_lack(name) => Kind::Unclear,
            None => Kind::Unknown,
        }
    }

    /// Returns the nodes that a pattern matches.
    pub(super) fn matching(&self, parsed: &Parsed, glob: &Glob) -> Matched {
        let mut unclear = !self.ground.is_complete();
        for (name, raw) in parsed
            .raw
            .constellations
            .iter()
            .filter(|(_, raw)| raw.nodes)
        {
            let known = matches!(self.prefixes.get(name.as_str()), Some(Flock::Walker(_)));
            if known || !glob.may_begin_with(&format!("{name}-")) {
                continue;
            }
            if !raw.orbits.is_walker() {
                return Matched::Later(name.clone());
            }
            unclear = true;
        }
        for name in parsed.raw.spacecraft.keys() {
            let start = format!("{name}-");
            let known = self.craft.iter().any(|craft| craft.starts_with(&start));
            unclear |= !known && glob.may_begin_with(&start);
        }
        let walkers = self
            .prefixes
            .iter()
            .filter_map(|(prefix, flock)| match flock {
                Flock::Walker(walker) => Some((prefix, *walker)),
                Flock::Later => None,
            });
        let satellites = walkers.flat_map(|(prefix, walker)| walker.satellite_names(prefix));
        let stations = self.ground.stations.iter().map(|s| s.name.to_string());
        let hosts = self.hosts.keys().map(Name::to_string);
        let all = stations
            .chain(hosts)
            .chain(self.craft.iter().cloned())
            .chain(satellites);
        let found: BTreeSet<String> = all.filter(|name| glob.matches(name)).collect();
        match (found.is_empty(), unclear) {
            (false, _) => Matched::Nodes(found.into_iter().map(Name::settled).collect()),
            (true, true) => Matched::Unclear,
            (true, false) => Matched::Nothing,
        }
    }

    /// Checks that the name at `path` is a node's: any other name is an error, and a name that may be a
    /// satellite's is deferred.
    pub(super) fn must_be(
        &self,
        parsed: &Parsed,
        path: &[Seg<'_>],
        name: &Name,
        deferred: &mut Vec<DeferredNode>,
        errors: &mut Diagnostics,
    ) {
        let unknown = self.unknown(name, |code, message| parsed.error_at(path, code, message));
        unknown.into_iter().for_each(|error| errors.push(error));
        deferred.extend(self.deferred(parsed, path, name));
    }

    /// Returns the error that no node has this name. `error` makes an error of its code and message.
    pub(super) fn unknown(
        &self,
        name: &Name,
        error: impl FnOnce(&'static str, String) -> Diagnostic,
    ) -> Option<Diagnostic> {
        (self.kind(name) == Kind::Unknown).then(|| {
            let (suggestion, allowed) = self.help(name.as_str());
            let error = error("unknown-node", format!("no node is called `{name}`"));
            let mut error = error.with_allowed(allowed);
            error.suggestion = suggestion;
            error
        })
    }

    /// Returns the deferred check of the name at `path`, if it may be a satellite's.
    pub(super) fn deferred(
        &self,
        parsed: &Parsed,
        path: &[Seg<'_>],
        name: &Name,
    ) -> Option<DeferredNode> {
        (self.kind(name) == Kind::Deferred).then(|| DeferredNode {
            name: name.clone(),
            span: parsed.place(path, false),
            path: Path(path).to_string(),
        })
    }

    /// Returns the error that no route leads to `name`, if only the ground is a destination and the node is, or
    /// may be, a satellite. `error` makes an error of its code and message.
    pub(super) fn out_of_reach(
        &self,
        name: &Name,
        destinations: Destinations,
        error: impl FnOnce(&'static str, String) -> Diagnostic,
    ) -> Option<Diagnostic> {
        let satellite = matches!(self.kind(name), Kind::Satellite | Kind::Deferred);
        (satellite && destinations == Destinations::Ground).then(|| {
            error(
                "unreachable",
                format!("no route leads to the satellite `{name}`"),
            )
            .with_reason("with `routing.destinations: ground` only stations are destinations")
            .with_suggestion("set `routing: {destinations: all}`")
        })
    }

    /// Returns the kind of `name`, if it has the form of a satellite's name.
    fn satellite(&self, name: &str) -> Option<Kind> {
        let (prefix, plane, slot) = split(name)?;
        match self.prefixes.get(prefix)? {
            Flock::Later => Some(Kind::Deferred),
            Flock::Walker(walker) => {
                let there = plane < walker.planes
                    && slot < walker.slots()
                    && walker.satellite_name(prefix, plane, slot) == name;
                there.then_some(Kind::Satellite)
            }
        }
    }

    /// Returns the nearest name and the ranges of valid names, for a name that no node has.
    pub(super) fn help(&self, name: &str) -> (Option<String>, Vec<String>) {
        let stations = || {
            self.ground
                .stations
                .iter()
                .map(|station| station.name.as_str())
                .chain(self.hosts.keys().map(Name::as_str))
                .chain(self.craft.iter().map(String::as_str))
        };
        let suggestion = nearest(name, stations()).map(|found| format!("did you mean `{found}`?"));
        let mut allowed: Vec<String> = stations().map(str::to_owned).collect();
        allowed.truncate(16);
        if stations().count() > allowed.len() {
            allowed.push(format!(
                "{} more stations",
                stations().count() - allowed.len()
            ));
        }
        for (prefix, flock) in &self.prefixes {
            if let Flock::Walker(walker) = flock {
                let first = walker.satellite_name(prefix, 0, 0);
                let last = walker.satellite_name(prefix, walker.planes - 1, walker.slots() - 1);
                allowed.push(format!("{first} to {last}"));
            } else {
                allowed.push(format!("satellites {prefix}-p..-s.."));
            }
        }
        (suggestion, allowed)
    }
}

fn add<'a>(
    prefixes: &mut BTreeMap<String, Flock<'a>>,
    parsed: &Parsed,
    prefix: String,
    flock: Flock<'a>,
    path: &[Seg<'_>],
    errors: &mut Diagnostics,
) {
    if prefixes.contains_key(&prefix) {
        let error = parsed
            .error_at(
                path,
                "duplicate-name",
                format!("two sets of satellites would be called `{prefix}-p..-s..`"),
            )
            .with_reason("a constellation's name, or its name and a shell's, begin their names");
        errors.push(error);
    }
    prefixes.insert(prefix, flock);
}

fn message(name: &str) -> String {
    format!("no node can be called `{name}`")
}

/// Returns the reason why a name is not allowed for a node: the C library's `inet_aton` reads it as an IPv4
/// address (decimal, octal or hexadecimal), or every `/etc/hosts` has it already.
#[must_use]
pub fn not_a_node_name(name: &str) -> Option<&'static str> {
    let hex = name.strip_prefix("0x");
    let is_number = match hex {
        Some(digits) => digits.bytes().all(|b| b.is_ascii_hexdigit()),
        None => name.bytes().all(|b| b.is_ascii_digit()),
    };
    match name {
        "localhost" => Some("in each node it means the node itself"),
        _ if is_number => Some("programs read a number as an IPv4 address, not as a name"),
        _ => None,
    }
}

/// Splits `<prefix>-p<plane>-s<slot>`.
fn split(name: &str) -> Option<(&str, u32, u32)> {
    let (rest, slot) = name.rsplit_once("-s")?;
    let (prefix, plane) = rest.rsplit_once("-p")?;
    Some((prefix, plane.parse().ok()?, slot.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{not_a_node_name, split};

    #[test]
    fn addresses_are_no_names() {
        for name in [
            "1",
            "2",
            "007",
            "4294967296",
            "0x10",
            "0xcafe",
            "0x",
            "localhost",
        ] {
            assert!(not_a_node_name(name).is_some(), "{name}");
        }
        for name in [
            "a",
            "1-2",
            "0x10-a",
            "0xg",
            "1a",
            "cafe",
            "localhost-1",
            "e1",
        ] {
            assert!(not_a_node_name(name).is_none(), "{name}");
        }
    }

    #[test]
    fn satellite_names_come_apart() {
        assert_eq!(split("iridium-p03-s07"), Some(("iridium", 3, 7)));
        assert_eq!(split("a-p1-s2-p03-s07"), Some(("a-p1-s2", 3, 7)));
        assert_eq!(split("tokyo"), None);
        assert_eq!(split("x-p-s1"), None);
    }
}
