//! Stations and their links with radio, weather and recordings: converts the scenario's types to those of the
//! topology.

use std::num::NonZeroU64;

use constel_link::Effects;
use constel_scenario::model;
use constel_topology::{
    ElevationStep, GslSpec, LinkClass, Obstacle, Operators, Station, Terminal, Waypoint,
};

/// Converts a station. The rules by which its antennas choose are added to `rules` unless they are already there.
pub(crate) fn station_spec(station: &model::Station, rules: &mut Vec<GslSpec>) -> Station {
    let terminals = station.terminals.iter();
    let terminals = terminals.map(|own| terminal(own, rules)).collect();
    Station {
        name: station.name.to_string(),
        latitude_deg: station.latitude.deg(),
        longitude_deg: station.longitude.deg(),
        altitude_m: station.altitude.m(),
        terminals,
        obstacles: station.obstacles.iter().map(obstacle).collect(),
        track: station.track.iter().map(waypoint).collect(),
        gateway: station.gateway,
        feeder: station.feeder,
        rain: station.rain.clone(),
        choices: Vec::new(),
        recording: station.recording.clone(),
    }
}

fn terminal(terminal: &model::Terminal, rules: &mut Vec<GslSpec>) -> Terminal {
    // If no satellite serves the ground, there is nothing to choose.
    let rule = terminal.rule.unwrap_or_default();
    let known = rules.iter().position(|known| *known == rule);
    let constellations = terminal.constellations.as_ref();
    Terminal {
        // At most 65,535 constellations; the layout reports more.
        serves: constellations.map_or(Operators::All, |those| {
            let small = |place: &usize| u16::try_from(*place).unwrap_or(u16::MAX);
            Operators::Only(those.iter().map(small).collect())
        }),
        min_elevation_deg: terminal.min_elevation.map(|angle| angle.deg()),
        antennas: terminal.antennas,
        rule: known.unwrap_or_else(|| {
            rules.push(rule);
            rules.len() - 1
        }),
    }
}

fn obstacle(obstacle: &model::Obstacle) -> Obstacle {
    Obstacle {
        from_deg: obstacle.from.deg(),
        to_deg: obstacle.to.deg(),
        elevation_deg: obstacle.elevation.deg(),
    }
}

fn waypoint(waypoint: &model::Waypoint) -> Waypoint {
    Waypoint {
        t_ns: waypoint.at.ns().unsigned_abs(),
        latitude_deg: waypoint.latitude.deg(),
        longitude_deg: waypoint.longitude.deg(),
        altitude_m: waypoint.altitude.m(),
    }
}

pub(crate) fn elevation_step(step: &model::ElevationStep) -> ElevationStep {
    ElevationStep {
        above_deg: step.above.deg(),
        rate_bps: NonZeroU64::new(step.rate.bps()),
        loss_ratio: step.loss.get(),
    }
}

/// Returns the number of the profile with these effects, which is added if no other link has it; 0 without effects.
pub(crate) fn profile_of(effects: &Effects, profiles: &mut Vec<Effects>) -> u16 {
    if effects.is_empty() {
        return 0;
    }
    let known = profiles.iter().position(|known| known == effects);
    let place = known.unwrap_or_else(|| {
        profiles.push(effects.clone());
        profiles.len() - 1
    });
    // There are four kinds of links per constellation, and at most 1,000 between shells. The scenario's size keeps the
    // number below this.
    u16::try_from(place + 1).unwrap_or(u16::MAX)
}

/// Returns the topology's part of a kind of link. The rest becomes a profile that equal links share.
pub(crate) fn class(link: &model::Link, profiles: &mut Vec<Effects>) -> LinkClass {
    LinkClass {
        profile: profile_of(&link.effects, profiles),
        // The scenario's bounds are 576 to 9,000.
        mtu_bytes: link.mtu.bytes() as u32,
        rate_bps: NonZeroU64::new(link.rate.bps()),
        queue_bytes: link.queue.bytes(),
        loss_ratio: link.loss.get(),
        extra_delay_ns: link.extra_delay.ns().unsigned_abs(),
    }
}
