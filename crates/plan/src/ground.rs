//! Stations and their links with radio, weather and recordings: converts the scenario's types to those of the
//! topology.

use std::num::NonZeroU64;

use constel_link::Effects;
use constel_scenario::model::{self, Modcod, Polarization};
use constel_topology::radio::{
    Budget, Carrier, DVB_S2, Gases, REFERENCE_VAPOUR_G_PER_M3, Waveform,
};
use constel_topology::{
    ElevationStep, GslPolicy, GslSpec, LinkClass, Obstacle, Operators, Radio, Rain, Recorded,
    Recording, Station, Terminal, Waypoint,
};
use constel_units::Utc;

/// Converts a station. The rules by which its antennas choose are added to `rules` unless they are already there.
/// Slots of schedulers are counted from `start`, lab time zero.
pub(crate) fn station_spec(
    station: &model::Station,
    start: Utc,
    rules: &mut Vec<GslSpec>,
) -> Station {
    let terminals = station.terminals.iter();
    let terminals = terminals.map(|own| terminal(own, start, rules)).collect();
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
        rain: station
            .rain
            .iter()
            .map(|(at, rate)| Rain {
                t_ns: at.ns().unsigned_abs(),
                mm_per_h: rate.mm_per_h(),
            })
            .collect(),
        choices: Vec::new(),
        recording: Recording {
            points: station.recording.points.iter().map(recorded).collect(),
            repeat_ns: station
                .recording
                .repeat
                .map_or(0, |repeat| repeat.ns().unsigned_abs()),
        },
    }
}

fn terminal(terminal: &model::Terminal, start: Utc, rules: &mut Vec<GslSpec>) -> Terminal {
    // If no satellite serves the ground, there is nothing to choose.
    let rule = terminal.rule.as_ref();
    let rule = rule.map_or_else(GslSpec::default, |rule| gsl_spec(rule, start));
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

/// Converts a policy. Slots of schedulers are counted from `start`, lab time zero; they are longer than zero.
#[must_use]
pub fn gsl_policy(policy: &model::Policy, start: Utc) -> GslPolicy {
    match *policy {
        model::Policy::Plain(plain) => GslPolicy::Plain(plain),
        model::Policy::Hysteresis(gain) => GslPolicy::Hysteresis {
            gain_deg: gain.deg(),
        },
        model::Policy::Scheduler(slot) => {
            // Slots begin at second 12 of the minute; the phase is relative to the start of the lab.
            let anchor = i128::from(12_000_000_000_i64) - i128::from(start.unix_ns());
            let phase = anchor.rem_euclid(i128::from(slot.ns()));
            GslPolicy::Scheduler {
                period_ns: slot.ns().unsigned_abs(),
                phase_ns: u64::try_from(phase).unwrap_or(0),
            }
        }
    }
}

fn gsl_spec(rule: &model::GslRule, start: Utc) -> GslSpec {
    GslSpec {
        policy: gsl_policy(&rule.policy, start),
        outage_ns: rule.handover_outage.ns().unsigned_abs(),
        make_before_break: rule.handover_kind == model::HandoverKind::MakeBeforeBreak,
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

fn recorded(point: &model::Recorded) -> Recorded {
    let rate = |rate: constel_units::DataRate| NonZeroU64::new(rate.bps());
    Recorded {
        t_ns: point.at.ns().unsigned_abs(),
        up_bps: point.up.and_then(rate),
        down_bps: point.down.and_then(rate),
        loss_ratio: point.loss.get(),
        extra_delay_ns: point.extra_delay.ns().unsigned_abs(),
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

pub(crate) fn radio(radio: &model::Radio) -> Radio {
    Radio {
        up: carrier(radio, &radio.up),
        down: carrier(radio, &radio.down),
    }
}

fn carrier(radio: &model::Radio, carrier: &model::Carrier) -> Carrier {
    let frequency_hz = carrier.frequency.hz();
    Carrier {
        budget: budget(carrier),
        roll_off: radio.roll_off.get(),
        system_temperature_k: radio.system_temperature.map(|t| t.k()),
        tilt_rad: match radio.polarization {
            Polarization::Circular => std::f64::consts::FRAC_PI_4,
            Polarization::Horizontal => 0.0,
            Polarization::Vertical => std::f64::consts::FRAC_PI_2,
        },
        gases: radio
            .gases
            .then(|| Gases::new(frequency_hz / 1e9, REFERENCE_VAPOUR_G_PER_M3)),
        waveform: waveform(&radio.modcod),
        margin_db: radio.margin.db(),
    }
}

fn waveform(modcod: &Modcod) -> Waveform {
    match *modcod {
        Modcod::DvbS2 => Waveform::DvbS2,
        // The scenario took the name from this table.
        Modcod::Fixed(name) => DVB_S2
            .iter()
            .find(|m| m.name == name)
            .map_or(Waveform::DvbS2, |m| Waveform::Fixed(*m)),
        Modcod::Shannon => Waveform::Shannon,
        Modcod::Uncoded(bits) => Waveform::Uncoded(bits),
    }
}

/// Converts the radio between members of a network, in free space.
pub(crate) fn crosslink(radio: &model::Crosslink) -> Carrier {
    Carrier {
        budget: budget(&radio.carrier),
        roll_off: radio.roll_off.get(),
        system_temperature_k: None,
        tilt_rad: std::f64::consts::FRAC_PI_4,
        gases: None,
        waveform: waveform(&radio.modcod),
        margin_db: radio.margin.db(),
    }
}

fn budget(carrier: &model::Carrier) -> Budget {
    Budget {
        eirp_dbw: carrier.eirp.dbw(),
        g_over_t_db_per_k: carrier.g_over_t.db_per_k(),
        frequency_hz: carrier.frequency.hz(),
        bandwidth_hz: carrier.bandwidth.hz(),
        other_losses_db: carrier.losses.db(),
    }
}
