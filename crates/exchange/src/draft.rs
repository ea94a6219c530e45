//! A scenario as other tools' files describe it, on its way to becoming one of Constel's.

mod software;

use std::collections::BTreeSet;
use std::fmt::Write;

use constel_scenario::model::{Name, satellite_name};
use constel_scenario::not_a_node_name;
use constel_units::Utc;

use crate::text::shown;

pub use software::{Health, Software, Volume};

/// The network that was read. [`Draft::yaml`] prints it as a scenario; nothing is checked here, the scenario's
/// own rules do that.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// The name; changed to a valid name of a scenario.
    pub name: String,
    /// The tool that the file is from.
    pub source: &'static str,
    /// UTC at lab time zero.
    pub start: Utc,
    /// The duration, seconds; rounded up to whole steps.
    pub duration_s: f64,
    /// Step, seconds.
    pub step_s: f64,
    /// Each becomes a constellation.
    pub shells: Vec<Shell>,
    /// One more constellation: satellites that fly by their elements.
    pub elements: Option<Elements>,
    /// Lowest usable elevation, degrees.
    pub min_elevation_deg: f64,
    /// Rate of ISLs, bits per second.
    pub isl_bps: u64,
    /// Loss of ISLs, 0 to 1.
    pub isl_loss: f64,
    /// Longest ISL, metres; `None` as far as the line of sight reaches.
    pub isl_max_range_m: Option<f64>,
    /// Rate of ground links.
    pub gsl_bps: u64,
    /// Loss of ground links.
    pub gsl_loss: f64,
    /// Stations; names are made valid and unique.
    pub stations: Vec<Station>,
    /// Hosts.
    pub hosts: Vec<Host>,
    /// See [`Draft::hosts`].
    /// Switched networks of hosts.
    pub networks: Vec<Network>,
    /// The software of nodes, by their kind (`satellites` or `stations`); none: the host's programs.
    pub nodes: Vec<(&'static str, Software)>,
    /// Routing software in every node; `None`: Constel computes the routes.
    pub daemon: Option<&'static str>,
    /// Whether images route by themselves, from information in OpenSN's form; takes precedence over `daemon`.
    pub opensn_information: bool,
    /// Internet protocols; none: the scenario's default.
    pub families: &'static [&'static str],
    /// Notes on settings that could not be carried over, and on decisions that were made.
    pub notes: Vec<String>,
}

/// A computer on the ground that is in networks. Its position does not matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Fit for a scenario, and no other's.
    pub name: String,
    /// The host's software; `None`: the host's programs.
    pub software: Option<Software>,
}

/// A switched network of hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Fit for a scenario, and no other network's.
    pub name: String,
    /// Names of hosts.
    pub members: Vec<String>,
}

/// Satellites of a file of element sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elements {
    /// The path of the file, as the scenario names it.
    pub file: String,
    /// The number of sets in it.
    pub satellites: u32,
    /// Pairs of satellites that are linked, by their place in the file, from 0.
    pub links: Vec<(u32, u32)>,
}

/// A shell of circular orbits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shell {
    /// Ascending nodes over 180 degrees instead of 360.
    pub star: bool,
    /// Height above the equatorial radius, metres.
    pub altitude_m: f64,
    /// Inclination, degrees.
    pub inclination_deg: f64,
    /// Planes.
    pub planes: u32,
    /// Satellites in each.
    pub per_plane: u32,
    /// Walker's F.
    pub phasing: u32,
    /// Right ascension of the first plane's ascending node at the start, degrees.
    pub raan0_deg: f64,
    /// Links between satellites, +Grid.
    pub isl: bool,
    /// Lowest usable elevation if it is another than the draft's, degrees.
    pub min_elevation_deg: Option<f64>,
}

/// A ground station.
#[derive(Debug, Clone, PartialEq)]
pub struct Station {
    /// As the file has it.
    pub name: String,
    /// Degrees, north positive.
    pub latitude_deg: f64,
    /// Degrees, east positive.
    pub longitude_deg: f64,
    /// Metres above the ellipsoid.
    pub altitude_m: f64,
}

impl Draft {
    /// An empty draft with the values other tools leave open: a minute of 2026, steps of a second.
    pub fn new(source: &'static str, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            source,
            // 2026-01-01T00:00:00Z.
            start: Utc::from_unix_ns(1_767_225_600_000_000_000),
            duration_s: 60.0,
            step_s: 1.0,
            shells: Vec::new(),
            elements: None,
            min_elevation_deg: 25.0,
            isl_bps: 10_000_000,
            isl_loss: 0.0,
            isl_max_range_m: None,
            gsl_bps: 10_000_000,
            gsl_loss: 0.0,
            stations: Vec::new(),
            hosts: Vec::new(),
            networks: Vec::new(),
            nodes: Vec::new(),
            daemon: None,
            opensn_information: false,
            families: &[],
            notes: Vec::new(),
        }
    }

    /// Adds a note about a setting that was not carried over, or about a decision.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// The duration as whole steps, of which there is at least one.
    fn whole_steps_s(&self) -> f64 {
        (self.duration_s / self.step_s).ceil().max(1.0) * self.step_s
    }

    /// The notes, with those about values that the scenario's form changes: the duration, and names of stations that two of
    /// them have, or that cannot be names.
    pub fn all_notes(&self) -> Vec<String> {
        let mut notes = self.notes.clone();
        let (given_s, written_s) = (self.duration_s, self.whole_steps_s());
        if (written_s - given_s).abs() > 1e-3 {
            let step_s = self.step_s;
            notes.push(format!(
                "the duration of {given_s} s became {written_s} s, a multiple of the step of {step_s} s"
            ));
        }
        let mut taken = BTreeSet::new();
        for station in &self.stations {
            let own = fit_name(&station.name, "station", &mut taken);
            let alone = fit_name(&station.name, "", &mut BTreeSet::new());
            if own != alone {
                let name = shown(&station.name);
                notes.push(format!("station `{name}` is called `{own}`: its own name is another's, or cannot be one"));
            }
        }
        notes
    }

    /// The scenario, notes as comments at its head.
    pub fn yaml(&self) -> String {
        let mut out = format!("# Imported from {}.\n", self.source);
        for note in &self.all_notes() {
            let clean: String = note
                .chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect();
            let _ = writeln!(out, "# - {clean}");
        }
        let duration_s = self.whole_steps_s();
        let _ = write!(
            out,
            "constel: 1\nname: {}\ndescription: Imported from {}\nseed: 1\nstart: {}\nduration: {} ms\nstep: {} ms\n",
            written(&fit_name(&self.name, "imported", &mut BTreeSet::new())),
            self.source,
            self.start,
            (duration_s * 1e3).round(),
            (self.step_s * 1e3).round(),
        );
        if !self.shells.is_empty() || self.elements.is_some() {
            out.push_str("\nconstellations:\n");
        }
        for (n, shell) in self.shells.iter().enumerate() {
            self.shell(&mut out, n, shell);
        }
        if let Some(elements) = &self.elements {
            self.elements(&mut out, elements);
        }
        self.ground(&mut out);
        if !self.nodes.is_empty() {
            out.push_str("\nnodes:\n");
        }
        for (kind, software) in &self.nodes {
            let _ = writeln!(out, "  {kind}:");
            software.yaml(&mut out, 4);
        }
        let daemon = match self.opensn_information {
            true => Some("mode: none".to_owned()),
            false => self.daemon.map(|daemon| format!("daemon: {daemon}")),
        };
        let families = (!self.families.is_empty())
            .then(|| format!("families: [{}]", self.families.join(", ")));
        let routing: Vec<_> = daemon.into_iter().chain(families).collect();
        if !routing.is_empty() {
            let _ = writeln!(out, "\nrouting: {{{}}}", routing.join(", "));
        }
        if self.opensn_information {
            out.push_str("information: [{opensn: true}]\n");
        }
        out
    }

    fn ground(&self, out: &mut String) {
        if !self.stations.is_empty() || !self.hosts.is_empty() {
            out.push_str("\nground:\n");
        }
        if !self.stations.is_empty() {
            out.push_str("  stations:\n");
        }
        let mut names = BTreeSet::new();
        for station in &self.stations {
            let _ = writeln!(
                out,
                "    {}: {{latitude: {} deg, longitude: {} deg, altitude: {} m}}",
                written(&fit_name(&station.name, "station", &mut names)),
                station.latitude_deg,
                station.longitude_deg,
                station.altitude_m
            );
        }
        if !self.hosts.is_empty() {
            out.push_str("  hosts:\n");
        }
        for host in &self.hosts {
            let name = written(&host.name);
            let place = "latitude: 0 deg, longitude: 0 deg";
            match &host.software {
                None => {
                    let _ = writeln!(out, "    {name}: {{{place}}}");
                }
                Some(software) => {
                    let place = place.replace(", ", "\n      ");
                    let _ = writeln!(out, "    {name}:\n      {place}\n      node:");
                    software.yaml(out, 8);
                }
            }
        }
        if !self.networks.is_empty() {
            out.push_str("\nnetworks:\n");
        }
        for Network { name, members } in &self.networks {
            let (name, members) = (written(name), members.iter().map(|name| written(name)));
            let members = members.collect::<Vec<_>>().join(", ");
            let _ = writeln!(out, "  {name}: {{members: [{members}], medium: switched}}");
        }
    }

    fn shell(&self, out: &mut String, n: usize, shell: &Shell) {
        let _ = write!(
            out,
            "  shell{}:\n    walker:\n      pattern: {}\n      inclination: {} deg\n      satellites: {}\n      planes: {}\n      \
             phasing: {}\n      altitude: {} m\n      raan0: {} deg\n",
            n + 1,
            if shell.star { "star" } else { "delta" },
            shell.inclination_deg,
            u64::from(shell.planes) * u64::from(shell.per_plane),
            shell.planes,
            shell.phasing,
            shell.altitude_m,
            shell.raan0_deg,
        );
        if shell.isl {
            let _ = writeln!(out, "    isl: {{pattern: plus-grid{}}}", self.isl());
        } else {
            out.push_str("    isl: {pattern: none}\n");
        }
        self.gsl(out, shell.min_elevation_deg);
    }

    fn elements(&self, out: &mut String, elements: &Elements) {
        const NAME: &str = "satellites";
        let file = software::text(&elements.file);
        let _ = writeln!(out, "  {NAME}:\n    tle: {{file: {file}, strict: true}}");
        if elements.links.is_empty() {
            out.push_str("    isl: {pattern: none}\n");
        } else {
            let name = |slot| satellite_name(NAME, 0, 1, slot, elements.satellites);
            out.push_str("    isl:\n      {pattern: {list: [\n");
            for (from, to) in &elements.links {
                let _ = writeln!(out, "        {{from: {}, to: {}}},", name(*from), name(*to));
            }
            let _ = writeln!(out, "      ]}}{}}}", self.isl());
        }
        self.gsl(out, None);
    }

    /// The keys of an ISL but for its pattern.
    fn isl(&self) -> String {
        let range = self
            .isl_max_range_m
            .map_or(String::new(), |m| format!(", max_range: {m} m"));
        format!("{range}, link: {}", link(self.isl_bps, self.isl_loss))
    }

    fn gsl(&self, out: &mut String, min_elevation_deg: Option<f64>) {
        let _ = writeln!(
            out,
            "    gsl: {{min_elevation: {} deg, link: {}}}",
            min_elevation_deg.unwrap_or(self.min_elevation_deg),
            link(self.gsl_bps, self.gsl_loss)
        );
    }
}

fn link(bps: u64, loss: f64) -> String {
    format!("{{rate: {bps} bit/s, loss: {} %}}", loss * 100.0)
}

/// Returns why a text cannot be the name of a node as it is; `None` if it can.
pub(crate) fn unfit(text: &str) -> Option<String> {
    match text.parse::<Name>() {
        Err(error) => Some(error.to_string()),
        Ok(_) => not_a_node_name(text).map(str::to_owned),
    }
}

/// Returns a name of a node that is not in `taken` yet: the text itself if it can be one, otherwise one of its letters and
/// digits. A name that cannot stand alone begins with `otherwise`.
pub(crate) fn fit_name(text: &str, otherwise: &str, taken: &mut BTreeSet<String>) -> String {
    if unfit(text).is_none() && taken.insert(text.to_owned()) {
        return text.to_owned();
    }
    let mut name = String::new();
    for c in text.chars().flat_map(char::to_lowercase) {
        match plain(c) {
            Some(c) => name.push(c),
            None if !name.is_empty() && !name.ends_with('-') => name.push('-'),
            None => {}
        }
        if name.len() >= 40 {
            break;
        }
    }
    let name = name.trim_matches('-');
    let name = match name {
        "" => otherwise.to_owned(),
        name if not_a_node_name(name).is_some() => {
            let most = Name::MAX_LEN - otherwise.len() - 5;
            let kept = &name[..name.len().min(most)];
            format!("{otherwise}-{}", kept.trim_end_matches('-'))
        }
        name => name.to_owned(),
    };
    let mut unique = name.clone();
    let mut n = 1;
    while !taken.insert(unique.clone()) {
        n += 1;
        unique = format!("{name}-{n}");
    }
    unique
}

/// Returns a name as YAML text, quoted if YAML would read it as a number or another value.
fn written(name: &str) -> String {
    const VALUES: [&str; 9] = ["null", "true", "false", "y", "n", "yes", "no", "on", "off"];
    match VALUES.contains(&name) || name.starts_with(|c: char| c.is_ascii_digit()) {
        true => software::text(name),
        false => name.to_owned(),
    }
}

/// Latin letters without their marks.
fn plain(c: char) -> Option<char> {
    Some(match c {
        'a'..='z' | '0'..='9' => c,
        'à'..='å' | 'ā' | 'ă' | 'ą' => 'a',
        'ç' | 'ć' | 'č' => 'c',
        'è'..='ë' | 'ē' | 'ę' | 'ě' => 'e',
        'ì'..='ï' | 'ī' | 'ı' => 'i',
        'ñ' | 'ń' | 'ň' => 'n',
        'ò'..='ö' | 'ø' | 'ō' | 'ő' => 'o',
        'ù'..='ü' | 'ū' | 'ů' | 'ű' => 'u',
        'ý' | 'ÿ' => 'y',
        'š' | 'ś' | 'ş' => 's',
        'ž' | 'ź' | 'ż' => 'z',
        'ł' => 'l',
        'ğ' => 'g',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit() {
        let mut taken = BTreeSet::new();
        let mut fit = |text: &str| fit_name(text, "station", &mut taken);
        assert_eq!(
            fit("City: São Paulo; Country: Brazil"),
            "city-sao-paulo-country-brazil"
        );
        assert_eq!(fit("Berlin"), "berlin");
        assert_eq!(fit("BERLIN!"), "berlin-2");
        assert_eq!(fit("東京"), "station");
        assert_eq!(fit("42"), "station-42");
        assert_eq!(fit("0x2A"), "station-0x2a");
        assert_eq!(fit("Localhost"), "station-localhost");
        assert_eq!(fit("null"), "null");
        assert_eq!(fit("4u"), "4u");
        let longest = "x".repeat(48);
        assert_eq!(fit(&longest), longest);
        assert_eq!(fit(&longest), "x".repeat(40));
        assert!(fit(&"x".repeat(200)).len() <= 48);
        assert!(fit(&"7".repeat(200)).len() <= 48);
    }
}
