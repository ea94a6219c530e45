//! Ground stations, written out and from files of places.

use std::collections::{BTreeMap, BTreeSet};

use super::constellations::Found;
use super::inputs::Inputs;
use super::terminals::Terminals;
use super::track;
use crate::diagnostic::{Diagnostic, Diagnostics, nearest};
use crate::model::{Name, Station, Terminal};
use crate::parse::Parsed;
use crate::places::{self, Place, Places};
use crate::raw::{RawCity, RawPlaces};
use crate::walk::Seg::{self, Index, Key};

/// Most stations of a scenario.
const MOST_STATIONS: usize = 100_000;

/// The stations of a scenario.
pub(super) struct Ground {
    /// By name.
    pub(super) stations: Vec<Station>,
    /// Whether all names of stations are known, but for `absent`.
    complete: bool,
    /// Names that stations may have which are missing because of an error that was reported.
    absent: BTreeSet<String>,
}

impl Ground {
    /// Returns whether no station is missing because of an error that was reported.
    pub(super) fn is_complete(&self) -> bool {
        self.complete && self.absent.is_empty()
    }

    /// Returns whether a station of this name may be missing because of an error that was reported.
    pub(super) fn may_lack(&self, name: &str) -> bool {
        !self.complete || self.absent.contains(name)
    }
}

pub(super) fn resolve(
    parsed: &Parsed,
    constellations: &[Found],
    inputs: &mut Inputs<'_>,
    errors: &mut Diagnostics,
) -> Ground {
    let raw = &parsed.raw.ground;
    let mut found: BTreeMap<Name, (Station, String)> = BTreeMap::new();
    let (mut complete, mut absent) = (true, BTreeSet::new());
    let mut terminals = Terminals::new(parsed, constellations);
    for (name, station) in &raw.stations {
        match track::station(parsed, name, station, &mut terminals, inputs, errors) {
            Some(station) => {
                found.insert(name.clone(), (station, format!("ground.stations.{name}")));
            }
            None => {
                absent.insert(name.to_string());
            }
        }
    }
    for (index, entry) in raw.from.iter().enumerate() {
        let file = [Key("ground"), Key("from"), Index(index), Key("file")];
        let Some(input) = inputs.text(&entry.file, &file, errors) else {
            complete = false;
            continue;
        };
        let Some(places) = places::read(&input.shown, &input.text, errors) else {
            complete = false;
            continue;
        };
        let Some(terminals) = terminals_of(parsed, index, entry, &mut terminals, errors) else {
            complete = false;
            continue;
        };
        let mut from = From {
            parsed,
            index,
            entry,
            terminals,
            found: &mut found,
            absent: &mut absent,
            errors,
        };
        complete &= from.take(&places);
    }
    if found.len() > MOST_STATIONS {
        let message = format!(
            "{} stations; at most {MOST_STATIONS} in a scenario",
            found.len()
        );
        errors.push(parsed.error_at(&[Key("ground")], "out-of-range", message));
    }
    Ground {
        stations: found.into_values().map(|(station, _)| station).collect(),
        complete,
        absent,
    }
}

/// The terminals of each station of an entry of `ground.from`.
fn terminals_of(
    parsed: &Parsed,
    index: usize,
    entry: &RawPlaces,
    terminals: &mut Terminals<'_>,
    errors: &mut Diagnostics,
) -> Option<Vec<Terminal>> {
    let path = |key| [Key("ground"), Key("from"), Index(index), Key(key)];
    match &entry.terminals {
        None => {
            let who = format!("the stations of `{}`", entry.file);
            Some(terminals.plain(&who, entry.antennas.unwrap_or(1), errors))
        }
        Some(listed) => {
            track::not_both(parsed, &path("antennas"), entry.antennas, errors);
            terminals.listed(&path("terminals"), listed, false, errors)
        }
    }
}

/// One entry of `ground.from`.
struct From<'a> {
    parsed: &'a Parsed,
    index: usize,
    entry: &'a RawPlaces,
    terminals: Vec<Terminal>,
    found: &'a mut BTreeMap<Name, (Station, String)>,
    absent: &'a mut BTreeSet<String>,
    errors: &'a mut Diagnostics,
}

impl From<'_> {
    fn error(&self, tail: &[Seg<'_>], code: &'static str, message: String) -> Diagnostic {
        let mut path = vec![Key("ground"), Key("from"), Index(self.index)];
        path.extend_from_slice(tail);
        self.parsed.error_at(&path, code, message)
    }

    fn take(&mut self, places: &Places) -> bool {
        if let Some(first) = self.entry.first {
            return self.take_first(first as usize, places);
        }
        let mut complete = true;
        for (index, city) in self.entry.names.iter().flatten().enumerate() {
            if self.errors.is_full() {
                return false;
            }
            complete &= self.take_city(index, city, places);
        }
        complete
    }

    fn take_first(&mut self, first: usize, places: &Places) -> bool {
        let have = places.rows.len();
        if first > have {
            let message = format!("`first` is {first}, but the file has {have} rows");
            let error = self.error(&[Key("first")], "out-of-range", message);
            self.errors.push(error);
            return false;
        }
        let mut complete = true;
        for place in &places.rows[..first] {
            if self.errors.is_full() {
                return false;
            }
            complete &= self.add(&[Key("first")], &place.slug, place);
        }
        complete
    }

    fn take_city(&mut self, index: usize, city: &RawCity, places: &Places) -> bool {
        let (text, name, tail) = match city {
            RawCity::Name(text) => (text, None, vec![Key("names"), Index(index)]),
            RawCity::As { city, name } => (
                city,
                Some(name),
                vec![Key("names"), Index(index), Key("city")],
            ),
        };
        let Some(place) = places.find(text) else {
            let file = &self.entry.file;
            let slug = crate::slug::slug(text);
            // Other places name the station as here, or correctly.
            let meant = nearest(&slug, places.rows.iter().map(|p| p.slug.as_str()));
            let is_known = meant.is_some() || name.is_some();
            let names = [Some(slug.as_str()), meant, name.map(Name::as_str)];
            self.absent
                .extend(names.into_iter().flatten().map(str::to_owned));
            let error = self
                .error(
                    &tail,
                    "unknown-city",
                    format!("no place `{text}` in `{file}`"),
                )
                .with_nearest(
                    &crate::slug::slug(text),
                    places.rows.iter().map(|p| p.slug.as_str()),
                )
                .with_reason("names are compared without case, accents and punctuation")
                .with_next(format!("see the column `name` of `{file}`"));
            self.errors.push(error);
            return is_known;
        };
        self.add(&tail, name.map_or(place.slug.as_str(), Name::as_str), place)
    }

    fn add(&mut self, tail: &[Seg<'_>], name: &str, place: &Place) -> bool {
        let Ok(name) = name.parse::<Name>() else {
            let error = self
                .error(
                    tail,
                    "bad-name",
                    format!("a place would be called `{name}`"),
                )
                .with_reason(format!("a name has 1 to {} characters", Name::MAX_LEN))
                .with_suggestion("write `names: [{city: ..., as: ...}]` to give it another name");
            self.errors.push(error);
            return false;
        };
        if let Some((_, before)) = self.found.get(&name) {
            let error = self
                .error(
                    tail,
                    "duplicate-name",
                    format!("two stations are called `{name}`"),
                )
                .with_reason(format!("the other one comes from {before}"))
                .with_suggestion("write `{city: ..., as: ...}` to give one another name");
            self.errors.push(error);
            return true;
        }
        let at = (place.latitude, place.longitude, place.altitude);
        let station = Station {
            feeder: self.entry.feeder,
            ..Station::at(name.clone(), at, self.terminals.clone())
        };
        let origin = format!("ground.from[{}] ({})", self.index, self.entry.file);
        self.found.insert(name, (station, origin));
        true
    }
}
