//! Paths of rules through constellations: the planner computes them between two places, second by second. Pure: lab
//! time in, delays out.

use std::collections::HashMap;
use std::num::NonZeroU64;

use constel_analysis::Paths;
use constel_link::rules::{Direction, GroundPoint, Via};
use constel_link::{Delay, Impairment, Loss, Nanos};
use constel_plan::Lab;
use constel_scenario::{DiskFiles, parse, resolve};
use constel_topology::{NodeId, Snapshot, Stepper};
use constel_units::Utc;
use serde_json::{Value, json};

/// The altitude and the number of the satellites of `meo` (O3b) and of `geo`.
const MEO: (&str, u32) = ("8062 km", 20);
const GEO: (&str, u32) = ("35786 km", 1);
/// The ends, in the order of a rule's directions.
const ENDS: [&str; 2] = ["here", "there"];

/// The path in one direction at an instant; times are those of the sky.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DirectionPath {
    /// The nodes on the path, without its ends.
    pub(crate) satellites: Vec<String>,
    delay: Delay,
    up_from_ns: u64,
    /// The rate that radio allows on the path; `None` when the rule does not ask for it.
    pub(crate) rate_bps: Option<NonZeroU64>,
    /// The share of frames that no radio link on the path loses.
    arrives_ratio: f64,
}

/// The state of a sky from one second to the next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stretch {
    /// The beginning, and below it the end, in nanoseconds after the beginning of the sky.
    pub(crate) t_ns: u64,
    end_ns: u64,
    /// The path in each direction; `None` without a path.
    ways: [Option<DirectionPath>; 2],
}

impl Stretch {
    pub(crate) fn way(&self, direction: Direction) -> Option<&DirectionPath> {
        self.ways[usize::from(direction == Direction::Reverse)].as_ref()
    }

    /// Returns the impairment in this second of an edge that otherwise has `base`. The sky began at `epoch_ns` of
    /// the edge's clock.
    pub(crate) fn impairment(
        &self,
        base: Impairment,
        direction: Direction,
        epoch_ns: Nanos,
    ) -> Impairment {
        let Some(way) = self.way(direction) else {
            let up_from_ns = epoch_ns + self.end_ns;
            return Impairment { up_from_ns, ..base };
        };
        let delay = Delay {
            t0_ns: epoch_ns + way.delay.t0_ns,
            ..way.delay
        };
        let up_from_ns = match way.up_from_ns {
            0 => 0,
            at => epoch_ns + at,
        };
        let bounded = base
            .rate_bps
            .map(|own| way.rate_bps.map_or(own, |rate| own.min(rate)));
        let loss = match base.loss {
            own if way.arrives_ratio == 1.0 => own,
            Loss::None => Loss::Bernoulli {
                loss_ratio: 1.0 - way.arrives_ratio,
            },
            Loss::Bernoulli { loss_ratio } => Loss::Bernoulli {
                loss_ratio: 1.0 - (1.0 - loss_ratio) * way.arrives_ratio,
            },
        };
        Impairment {
            delay,
            up_from_ns,
            rate_bps: bounded,
            loss,
            ..base
        }
    }

    /// Returns the serving satellite of each end.
    pub(crate) fn serving(&self) -> [Option<&str>; 2] {
        let way = self.way(Direction::Forward);
        let satellites = way.map_or(&[][..], |way| &way.satellites[..]);
        [satellites.first(), satellites.last()].map(|name| name.map(String::as_str))
    }
}

/// A constellation over two places.
pub(crate) struct Sky {
    lab: Lab,
    stepper: Stepper,
    paths: Paths,
    ends: [NodeId; 2],
    /// Whether the rates and losses of links are used.
    radio: bool,
}

impl Sky {
    /// Creates a sky that begins at `start`.
    ///
    /// # Errors
    /// A description, when there is no such sky.
    pub(crate) fn new(via: &Via, start: Utc) -> Result<Sky, String> {
        let sky = Sky::with_first_plane(via, start, 0.0)?;
        let Some(slot_deg) = via.orbital_slot_deg else {
            return Ok(sky);
        };
        // The longitude of a satellite in a plane with a right ascension of 0 deg determines the plane that puts it
        // at its slot.
        let first = sky.lab.stepper().advance();
        let at = first.positions_itrf_m[0];
        let raan_deg = (slot_deg - at.y.atan2(at.x).to_degrees()).rem_euclid(360.0);
        Sky::with_first_plane(via, start, raan_deg)
    }

    fn with_first_plane(via: &Via, start: Utc, raan_deg: f64) -> Result<Sky, String> {
        let text = scenario(via, start, raan_deg).to_string();
        let lab = parse("via", &text)
            .and_then(|parsed| resolve(&parsed, &DiskFiles::in_folder("")))
            .and_then(Lab::new)
            .map_err(|errors| errors.to_string())?;
        let end = |name| lab.layout.find(name).map(|node| node.id);
        let ends = ENDS.map(end);
        let [Some(here), Some(there)] = ends else {
            return Err("the sky has no such places".to_owned());
        };
        Ok(Sky {
            stepper: lab.stepper(),
            lab,
            paths: Paths::default(),
            ends: [here, there],
            radio: via.radio.is_some(),
        })
    }

    /// Computes the next second.
    pub(crate) fn second(&mut self) -> Stretch {
        let snapshot = self.stepper.advance();
        let layout = &self.lab.layout;
        self.paths.clear();
        self.paths.load(layout, &snapshot);
        let [here, there] = self.ends;
        let mut ways = [None, None];
        for (slot, (from, to)) in [(here, there), (there, here)].into_iter().enumerate() {
            let mut nodes = Vec::new();
            self.paths.aim(slot, to);
            self.paths.trace(from, |_, _, found| nodes = found.to_vec());
            ways[slot] = way(&self.lab, &snapshot, &nodes).map(|way| match self.radio {
                true => way,
                false => DirectionPath {
                    rate_bps: None,
                    ..way
                },
            });
        }
        Stretch {
            t_ns: snapshot.t_ns,
            end_ns: snapshot.t_ns + layout.spec().step_ns,
            ways,
        }
    }
}

/// Combines the edges between consecutive nodes to one path.
fn way(lab: &Lab, snapshot: &Snapshot, nodes: &[u32]) -> Option<DirectionPath> {
    let links: HashMap<(u32, u32), usize> = nodes
        .windows(2)
        .enumerate()
        .map(|(place, pair)| ((pair[0], pair[1]), place))
        .collect();
    let mut best: Vec<Option<Impairment>> = vec![None; links.len()];
    for edge in &snapshot.edges {
        let node = |port| lab.layout.port(port).node.0;
        let Some(place) = links.get(&(node(edge.from), node(edge.to))) else {
            continue;
        };
        let known = &mut best[*place];
        if known.is_none_or(|known| edge.impairment.delay.delay_ns < known.delay.delay_ns) {
            *known = Some(edge.impairment);
        }
    }
    let mut whole = DirectionPath {
        satellites: Vec::new(),
        delay: Delay {
            t0_ns: snapshot.t_ns,
            ..Delay::ZERO
        },
        up_from_ns: 0,
        rate_bps: None,
        arrives_ratio: 1.0,
    };
    for link in &best {
        let link = (*link)?;
        whole.delay.delay_ns += link.delay.at(snapshot.t_ns);
        whole.delay.slope_ns_per_s += link.delay.slope_ns_per_s;
        whole.rate_bps = whole.rate_bps.into_iter().chain(link.rate_bps).min();
        if let Loss::Bernoulli { loss_ratio } = link.loss {
            whole.arrives_ratio *= 1.0 - loss_ratio;
        }
        if link.up_from_ns > snapshot.t_ns {
            whole.up_from_ns = whole.up_from_ns.max(link.up_from_ns);
        }
    }
    let between = nodes.get(1..nodes.len().checked_sub(1)?)?;
    let name = |node: &u32| lab.layout.node(NodeId(*node)).name.clone();
    whole.satellites = between.iter().map(name).collect();
    (!whole.satellites.is_empty()).then_some(whole)
}

/// Returns the scenario of two places under a sky.
fn scenario(via: &Via, start: Utc, raan_deg: f64) -> Value {
    let deg = |angle: f64| format!("{angle} deg");
    // MEO satellites need several antennas at once: both ends must have a satellite in common.
    let antennas = if via.sky == "meo" { 8 } else { 1 };
    let place = |of: &GroundPoint| {
        json!({
            "latitude": deg(of.latitude_deg), "longitude": deg(of.longitude_deg), "antennas": antennas,
        })
    };
    let relay = |(altitude, satellites): (&str, u32)| {
        json!({"walker": {
            "pattern": "delta", "inclination": "0 deg", "satellites": satellites, "planes": 1, "phasing": 0,
            "altitude": altitude, "raan0": deg(raan_deg),
        }, "isl": {"pattern": "none"}})
    };
    // The rule's edge carries the frames; these links only contribute the reduction by radio.
    let link = json!({"rate": "400 Gbit/s", "queue": "1 MiB"});
    let mut constellation = match via.sky.as_str() {
        "meo" => relay(MEO),
        "geo" => relay(GEO),
        preset => json!({"preset": preset, "isl": {"pattern": "plus-grid", "link": link}}),
    };
    let policy = match via.sky.starts_with("starlink") {
        true => "scheduler",
        false => "nearest",
    };
    constellation["gsl"] = json!({
        "min_elevation": deg(via.min_elevation_deg), "policy": policy,
        "handover": {"outage": format!("{} ns", via.outage_ns)}, "link": link,
    });
    let radio: Option<Value> = via
        .radio
        .as_ref()
        .and_then(|text| serde_json::from_str(text).ok());
    let weather = match radio {
        Some(radio) => {
            constellation["gsl"]["radio"] = radio;
            let rain = ENDS.iter().zip(via.rain_mm_per_h);
            rain.map(|(end, mm)| json!({"stations": [end], "rain": format!("{mm} mm/h")}))
                .collect()
        }
        None => Vec::new(),
    };
    json!({
        "weather": weather,
        "constel": 1, "name": "via", "start": start.to_string(), "duration": "366 d",
        "constellations": {via.sky.as_str(): constellation},
        "ground": {"stations": {ENDS[0]: place(&via.from), ENDS[1]: place(&via.to)}},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIGHT_M_PER_S: f64 = 299_792_458.0;

    fn over(sky: &str) -> Via {
        Via {
            sky: sky.into(),
            orbital_slot_deg: (sky == "geo").then_some(-27.5),
            from: GroundPoint {
                latitude_deg: 51.5,
                longitude_deg: -0.1,
            },
            to: GroundPoint {
                latitude_deg: 40.7,
                longitude_deg: -74.0,
            },
            at_unix_ns: None,
            min_elevation_deg: if sky.len() == 3 { 5.0 } else { 25.0 },
            outage_ns: 0,
            radio: None,
            rain_mm_per_h: [0.0; 2],
        }
    }

    fn start() -> Utc {
        "2026-11-21T00:00:00Z".parse().unwrap()
    }

    fn seconds(via: &Via, count: usize) -> Vec<Stretch> {
        let mut sky = Sky::new(via, start()).unwrap();
        (0..count).map(|_| sky.second()).collect()
    }

    fn ms(stretch: &Stretch, direction: Direction) -> f64 {
        stretch.way(direction).unwrap().delay.delay_ns as f64 / 1e6
    }

    #[test]
    fn two_minutes_of_starlink_glide_between_handovers_of_the_scheduler() {
        let stretches = seconds(&over("starlink-shell1"), 121);
        // London to New York along the ground.
        let bound_ms = 5_570e3 / LIGHT_M_PER_S * 1e3;
        let mut handovers = Vec::new();
        for (n, pair) in stretches.windows(2).enumerate() {
            let [before, after] = pair else {
                unreachable!()
            };
            assert_eq!(after.t_ns, (n as u64 + 1) * 1_000_000_000);
            for direction in Direction::BOTH {
                let now_ms = ms(after, direction);
                assert!((bound_ms..60.0).contains(&now_ms), "{now_ms} at {n}");
                let way = |stretch: &Stretch| stretch.way(direction).unwrap().clone();
                let (old, new) = (way(before), way(after));
                if old.satellites == new.satellites {
                    let glided = old.delay.at(after.t_ns).abs_diff(new.delay.delay_ns);
                    assert!(glided < 20_000, "a jump of {glided} ns at {n}");
                }
            }
            if before.serving() != after.serving() {
                handovers.push(n + 1);
            }
        }
        assert!(handovers.len() >= 4, "{handovers:?}");
        assert!(
            handovers.iter().all(|second| second % 15 == 12),
            "{handovers:?}"
        );
        // A second call gives the same result.
        assert_eq!(seconds(&over("starlink-shell1"), 121), stretches);
    }

    #[test]
    fn geo_and_meo_are_as_far_as_their_orbits() {
        let [geo] = &seconds(&over("geo"), 1)[..] else {
            unreachable!()
        };
        let one_way_ms = ms(geo, Direction::Forward);
        // The path goes up and down: at the shortest straight up, at the longest over the horizon.
        assert!(
            (2.0 * 35_786e3 / LIGHT_M_PER_S * 1e3..2.0 * 41_700e3 / LIGHT_M_PER_S * 1e3)
                .contains(&one_way_ms),
            "{one_way_ms}"
        );
        assert_eq!(geo.serving(), [Some("geo-p00-s00"); 2]);
        let slope = geo.way(Direction::Forward).unwrap().delay.slope_ns_per_s;
        assert!(slope.abs() < 100, "it stands still: {slope} ns/s");
        let mut seen = 0;
        for meo in seconds(&over("meo"), 600) {
            // Some moments have no satellite over the ocean that both see.
            let Some(DirectionPath { delay, .. }) = meo.way(Direction::Reverse) else {
                continue;
            };
            let bounds = [8_062e3, 13_500e3].map(|m| 2e9 * m / LIGHT_M_PER_S);
            let ns = delay.delay_ns as f64;
            assert!((bounds[0]..bounds[1]).contains(&ns), "{ns}");
            seen += 1;
        }
        assert!(seen > 60, "{seen} of 600 seconds have a way");
    }

    #[test]
    fn rain_at_an_end_takes_rate_from_both_ways_and_then_the_way() {
        let radio = r#"{"up": {"frequency": "28 GHz", "eirp": "70 dBW", "g_over_t": "13 dB/K", "bandwidth": "100 MHz"},
            "down": {"frequency": "18 GHz", "eirp": "60 dBW", "g_over_t": "15 dB/K", "bandwidth": "100 MHz"}}"#;
        let raining = |from, to| Via {
            radio: Some(radio.to_owned()),
            rain_mm_per_h: [from, to],
            ..over("geo")
        };
        let base = Impairment {
            rate_bps: NonZeroU64::new(10_000_000_000),
            ..Impairment::delay_only(0)
        };
        let rates = |via: &Via, base| {
            let [now] = &seconds(via, 1)[..] else {
                unreachable!()
            };
            Direction::BOTH.map(|direction| {
                now.way(direction)?;
                now.impairment(base, direction, 0).rate_bps
            })
        };
        let bps = |rate: Option<NonZeroU64>| rate.unwrap().get();
        let clear = rates(&raining(0.0, 0.0), base).map(bps);
        assert!(
            clear
                .iter()
                .all(|bps| (50_000_000..1_000_000_000).contains(bps)),
            "{clear:?}"
        );
        // Rain attenuates both the uplink and the downlink of its end.
        let wet = rates(&raining(5.0, 0.0), base).map(bps);
        assert!(
            wet[0] < clear[0] && wet[1] < clear[1],
            "{clear:?}, then {wet:?}"
        );
        assert_ne!(rates(&raining(0.0, 5.0), base).map(bps), wet);
        assert_eq!(
            rates(&raining(40.0, 0.0), base),
            [None, None],
            "no way is left"
        );
        // Frames that the modem does not correct are lost in addition to the rule's loss.
        let lost = |via: &Via, loss| {
            let [now] = &seconds(via, 1)[..] else {
                unreachable!()
            };
            match now
                .impairment(Impairment { loss, ..base }, Direction::Forward, 0)
                .loss
            {
                Loss::None => 0.0,
                Loss::Bernoulli { loss_ratio } => loss_ratio,
            }
        };
        let uncorrected = lost(&raining(0.0, 0.0), Loss::None);
        assert!((1e-8..1e-5).contains(&uncorrected), "{uncorrected}");
        let rule = Loss::Bernoulli { loss_ratio: 0.5 };
        let both = lost(&raining(0.0, 0.0), rule);
        assert!((both - 0.5 - 0.5 * uncorrected).abs() < 1e-12, "{both}");
        assert_eq!(lost(&over("geo"), rule), 0.5);
        // The terminals' own rate is the maximum; without radio it is the only limit.
        let slow = Impairment {
            rate_bps: NonZeroU64::new(1_000_000),
            ..base
        };
        assert_eq!(rates(&raining(5.0, 0.0), slow), [slow.rate_bps; 2]);
        assert_eq!(rates(&over("geo"), base), [base.rate_bps; 2]);
    }

    #[test]
    fn an_edge_drops_what_comes_without_a_way_and_waits_for_outages() {
        let far = Via {
            to: GroundPoint {
                latitude_deg: -40.0,
                longitude_deg: 175.0,
            },
            ..over("geo")
        };
        let [dark] = &seconds(&far, 1)[..] else {
            unreachable!()
        };
        let base = Impairment::delay_only(0);
        let edge = dark.impairment(base, Direction::Forward, 500);
        assert_eq!(
            edge.up_from_ns, 1_000_000_500,
            "until it is looked at again"
        );
        let slow = Via {
            outage_ns: 200_000_000,
            ..over("starlink-shell1")
        };
        let stretches = seconds(&slow, 31);
        let mut waits = 0;
        for stretch in &stretches {
            let edge = stretch.impairment(base, Direction::Forward, 7);
            assert_eq!(edge.delay.t0_ns, stretch.t_ns + 7);
            if edge.up_from_ns > 0 {
                assert_eq!(edge.up_from_ns, stretch.t_ns + 200_000_007);
                waits += 1;
            }
        }
        assert!((1..=2).contains(&waits), "{waits} outages at 12 s and 27 s");
    }
}
