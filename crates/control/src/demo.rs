//! The scenario that needs nothing installed, and the first scenario of one's own.

use std::path::Path;

use constel_scenario::nearest;

use crate::error::Error;
use crate::scenario::Scenario;

/// Iridium and six cities, with computed routes and Constel's own probe.
pub const DEMO: &str = include_str!("../../../scenarios/demo.yaml");

/// `rank,name,latitude_deg,longitude_deg,altitude_m` of the largest cities.
const CITIES: &str = include_str!("../../../scenarios/data/cities-top-1000-by-2025-population.csv");

impl Scenario {
    /// [`DEMO`].
    ///
    /// # Errors
    /// No error occurs; a test ensures it.
    pub fn demo() -> Result<Self, Error> {
        Self::from_text("demo.yaml", DEMO, Path::new(""))
    }
}

/// The parameters of a first scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Starter {
    /// Its name.
    pub name: String,
    /// A constellation by name, as `preset` of the scenario has it.
    pub constellation: String,
    /// Cities by name, at least two; the first two ping each other.
    pub cities: Vec<String>,
    /// The source of routes: `computed`, or a daemon as in `routing.daemon` (`bird`, `frr`).
    pub routing: String,
    /// How long it runs, with its unit.
    pub duration: String,
}

impl Default for Starter {
    fn default() -> Self {
        Self {
            name: "mine".to_owned(),
            constellation: "iridium".to_owned(),
            cities: ["london", "tokyo", "lagos", "sao-paulo"]
                .map(String::from)
                .to_vec(),
            routing: "computed".to_owned(),
            duration: "60 s".to_owned(),
        }
    }
}

/// The reason why there is no first scenario.
#[derive(Debug, thiserror::Error)]
pub enum StarterError {
    /// The city is unknown.
    #[error("no city of the 1,000 largest is called '{city}'{}; `ground.stations` of the file takes any place by its latitude and longitude",
        .nearest.as_deref().map_or_else(String::new, |near| format!(" (did you mean '{near}'?)")))]
    NoCity {
        /// The name as given.
        city: String,
        /// A similar name, if there is one.
        nearest: Option<String>,
    },
    /// A ping has two ends.
    #[error("a lab to measure in has at least two cities")]
    TooFewCities,
    /// The parameters do not give a valid scenario.
    #[error(transparent)]
    Scenario(#[from] Error),
}

impl Starter {
    /// Returns the scenario with comments. It is always valid.
    ///
    /// # Errors
    /// [`StarterError`].
    pub fn yaml(&self) -> Result<String, StarterError> {
        if self.cities.len() < 2 {
            return Err(StarterError::TooFewCities);
        }
        let known: Vec<(String, &str, &str)> = CITIES.lines().skip(1).filter_map(city).collect();
        let mut stations = String::new();
        let mut names = Vec::new();
        for asked in &self.cities {
            let wanted = constel_scenario::slug(asked);
            let Some((name, latitude, longitude)) = known.iter().find(|city| city.0 == wanted)
            else {
                let near = nearest(&wanted, known.iter().map(|city| city.0.as_str()));
                return Err(StarterError::NoCity {
                    city: asked.clone(),
                    nearest: near.map(str::to_owned),
                });
            };
            stations +=
                &format!("    {name}: {{latitude: {latitude} deg, longitude: {longitude} deg}}\n");
            names.push(name.as_str());
        }
        let yaml = self.filled(&stations, names[0], names[1]);
        Scenario::from_text("the requested scenario", &yaml, Path::new(""))?;
        Ok(yaml)
    }

    fn filled(&self, stations: &str, a: &str, b: &str) -> String {
        let Self {
            name,
            constellation,
            routing,
            duration,
            ..
        } = self;
        let routing = match routing.as_str() {
            "computed" => "mode: computed                  # by Constel; or by real daemons: `daemon: bird`, `daemon: frr`".to_owned(),
            daemon => format!("daemon: {daemon}                    # in every node; `mode: computed` leaves it to Constel"),
        };
        format!(
            "\
# `constel check FILE` checks this file, `constel plan FILE` shows the sky, `constel run FILE` runs it (as root).
# Every key is in docs/reference/scenario/; every quantity carries its unit.
constel: 1
name: {name}
seed: 1                            # the same seed makes the same losses
start: 2026-11-21T00:00:00Z        # UTC at lab time zero
duration: {duration}
step: 1 s                          # interval at which links are chosen; delays glide in between

constellations:
  {constellation}:
    preset: {constellation}        # or `walker`, or real satellites: `tle: {{file: ...}}`
    isl:                           # lasers between satellites
      pattern: plus-grid           # four each: ahead, behind, and one to either side
      link: {{rate: 100 Mbit/s, queue: 256 KiB}}
    gsl:                           # links to the ground
      min_elevation: 10 deg
      policy: nearest
      link: {{rate: 50 Mbit/s, queue: 128 KiB}}

ground:
  stations:
{stations}
routing:
  {routing}

# What runs in the nodes, and when. Other kinds: iperf3, http, leotp, tcp, and `run` for any program.
traffic:
  - {{name: ping, at: 0 s, for: {duration}, ping: {{from: {a}, to: {b}, interval: 200 ms}}}}
"
        )
    }
}

/// A line of the table: the name of its node, latitude and longitude in degrees.
fn city(line: &str) -> Option<(String, &str, &str)> {
    let mut cells = line.split(',').skip(1);
    let name = constel_scenario::slug(cells.next()?);
    Some((name, cells.next()?, cells.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_is_valid_and_every_flow_has_a_path() {
        let check = Scenario::demo().unwrap().check().unwrap();
        assert_eq!((check.satellites, check.stations, check.flows), (66, 6, 2));
        assert!(
            check
                .sky
                .flows
                .iter()
                .all(|flow| flow.path_ratio == Some(1.0))
        );
        assert_eq!(check.warnings, Vec::<String>::new());
    }

    #[test]
    fn first_scenarios_are_valid_and_what_is_not_known_is_said() {
        let yaml = Starter::default().yaml().unwrap();
        let scenario = Scenario::from_text("mine.yaml", &yaml, Path::new("")).unwrap();
        assert_eq!(
            scenario.plan("0 s".parse().unwrap()).unwrap().nodes.len(),
            70
        );
        let with = |cities: &[&str], routing: &str| {
            let starter = Starter {
                cities: cities.iter().map(ToString::to_string).collect(),
                routing: routing.to_owned(),
                constellation: "starlink-shell1".to_owned(),
                ..Starter::default()
            };
            starter.yaml()
        };
        assert!(with(&["São Paulo", "Delhi"], "bird").is_ok());
        let said = with(&["london", "tokio"], "computed")
            .unwrap_err()
            .to_string();
        assert!(said.contains("did you mean 'tokyo'?"), "{said}");
        assert!(matches!(
            with(&["london"], "computed"),
            Err(StarterError::TooFewCities)
        ));
        assert!(matches!(
            with(&["london", "tokyo"], "rip"),
            Err(StarterError::Scenario(_))
        ));
    }
}
