//! Stations, and their links as radio, weather and recordings make them: from the scenario's types to topology's.

use std::num::NonZeroU64;

use constel_link::Effects;
use constel_scenario::model::{self, Modcod, Polarization};
use constel_topology::radio::{
    Budget, Carrier, DVB_S2, Gases, REFERENCE_VAPOUR_G_PER_M3, Waveform,
};
use constel_topology::{
    ElevationStep, LinkClass, Obstacle, Radio, Rain, Recorded, Recording, Station, Waypoint,
};

pub(crate) fn station_spec(station: &model::Station) -> Station {
    Station {
        name: station.name.to_string(),
        latitude_deg: station.latitude.deg(),
        longitude_deg: station.longitude.deg(),
        altitude_m: station.altitude.m(),
        // The scenario's mask is the constellation's; the larger counts, so this one never does.
        min_elevation_deg: -5.0,
        antennas: station.antennas,
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
        recording: Recording {
            points: station.recording.points.iter().map(recorded).collect(),
            repeat_ns: station
                .recording
                .repeat
                .map_or(0, |repeat| repeat.ns().unsigned_abs()),
        },
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

/// What the topology knows of a kind of link. The rest of it becomes a profile, shared by links that
/// are the same.
pub(crate) fn class(link: &model::Link, profiles: &mut Vec<Effects>) -> LinkClass {
    let profile = if link.effects.is_empty() {
        0
    } else {
        let known = profiles.iter().position(|known| *known == link.effects);
        let place = known.unwrap_or_else(|| {
            profiles.push(link.effects.clone());
            profiles.len() - 1
        });
        // There are two kinds of links per constellation, and at most 1000 between shells; the
        // scenario's size keeps them below this.
        u16::try_from(place + 1).unwrap_or(u16::MAX)
    };
    LinkClass {
        profile,
        // 576 to 9,000: bounds of the scenario.
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
        budget: Budget {
            eirp_dbw: carrier.eirp.dbw(),
            g_over_t_db_per_k: carrier.g_over_t.db_per_k(),
            frequency_hz,
            bandwidth_hz: carrier.bandwidth.hz(),
            other_losses_db: carrier.losses.db(),
        },
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
        waveform: match radio.modcod {
            Modcod::DvbS2 => Waveform::DvbS2,
            // The scenario took the name from this very table.
            Modcod::Fixed(name) => DVB_S2
                .iter()
                .find(|m| m.name == name)
                .map_or(Waveform::DvbS2, |m| Waveform::Fixed(*m)),
            Modcod::Shannon => Waveform::Shannon,
            Modcod::Uncoded(bits) => Waveform::Uncoded(bits),
        },
        margin_db: radio.margin.db(),
    }
}
