//! Radio of ground links, and who needs feeders.

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4};

use constel_topology::Radio;
use constel_topology::radio::{Carrier, DVB_S2, Gases, REFERENCE_VAPOUR_G_PER_M3, Waveform};

use super::ground::Ground;
use crate::diagnostic::Diagnostics;
use crate::parse::Parsed;
use crate::raw::{Polarization, RawCarrier, RawCrosslink, RawModcod, RawRadio};
use crate::walk::Seg::Key;

/// Returns a radio; `None` after an error. `error` reports at a key of `gsl.radio`: code, message, reason, and
/// allowed values.
pub(super) fn radio(
    raw: &RawRadio,
    error: impl FnMut(&'static str, &'static str, String, &str, &[&'static str]),
) -> Option<Radio> {
    let waveform = waveform(raw.modcod, raw.fixed.as_ref(), error)?;
    let carrier = |own: &RawCarrier| Carrier {
        budget: own.budget(),
        roll_off: raw.roll_off.get(),
        system_temperature_k: raw.system_temperature.map(|t| t.k()),
        tilt_rad: match raw.polarization {
            Polarization::Circular => FRAC_PI_4,
            Polarization::Horizontal => 0.0,
            Polarization::Vertical => FRAC_PI_2,
        },
        gases: raw
            .gases
            .then(|| Gases::new(own.frequency.hz() / 1e9, REFERENCE_VAPOUR_G_PER_M3)),
        waveform,
        margin_db: raw.margin.db(),
    };
    Some(Radio {
        up: carrier(&raw.up),
        down: carrier(&raw.down),
    })
}

/// Returns the radio between members of a network, in free space; `None` after an error, as by [`radio`].
pub(super) fn crosslink(
    raw: &RawCrosslink,
    error: impl FnMut(&'static str, &'static str, String, &str, &[&'static str]),
) -> Option<Carrier> {
    Some(Carrier {
        budget: raw.budget(),
        roll_off: raw.roll_off.get(),
        system_temperature_k: None,
        tilt_rad: FRAC_PI_4,
        gases: None,
        waveform: waveform(raw.modcod, raw.fixed.as_ref(), error)?,
        margin_db: raw.margin.db(),
    })
}

/// Returns a modulation and coding; `None` after an error, which is passed to `error` as by [`radio`].
fn waveform(
    raw: RawModcod,
    fixed: Option<&String>,
    mut error: impl FnMut(&'static str, &'static str, String, &str, &[&'static str]),
) -> Option<Waveform> {
    match (raw, fixed) {
        (RawModcod::DvbS2, None) => Some(Waveform::DvbS2),
        (RawModcod::DvbS2, Some(name)) => {
            let found = DVB_S2.iter().find(|known| known.name == name);
            if found.is_none() {
                let message = format!("`{name}` is not a MODCOD of DVB-S2");
                let names = DVB_S2.map(|known| known.name);
                error("fixed", "unknown-value", message, "", &names);
            }
            found.map(|known| Waveform::Fixed(*known))
        }
        (_, Some(_)) => {
            let message = "`radio.fixed` has no effect with this `modcod`".to_owned();
            let why = "it names a MODCOD of DVB-S2";
            error("fixed", "no-effect", message, why, &[]);
            None
        }
        (RawModcod::Shannon, None) => Some(Waveform::Shannon),
        (RawModcod::UncodedBpsk, None) => Some(Waveform::Uncoded(1)),
        (RawModcod::UncodedQpsk, None) => Some(Waveform::Uncoded(2)),
    }
}

/// Satellites that only relay are of no use without feeders, and feeders are only different with such satellites.
pub(super) fn need_feeders(parsed: &Parsed, ground: &Ground, errors: &mut Diagnostics) {
    let mut bent_pipes = parsed.raw.constellations.iter().filter(|(_, c)| {
        let gsl = c.gsl.as_ref();
        gsl.is_some_and(|g| g.bent_pipe)
    });
    let feeders = ground.stations.iter().any(|s| s.feeder);
    match (bent_pipes.next(), feeders) {
        (Some((name, _)), false) if ground.is_complete() => {
            let path = [
                Key("constellations"),
                Key(name.as_str()),
                Key("gsl"),
                Key("bent_pipe"),
            ];
            let error = parsed
                .error_at(&path, "missing-key", "no station is a feeder")
                .with_reason("satellites that only relay to feeders carry nothing without one")
                .with_suggestion("add `feeder: true` to a station");
            errors.push(error);
        }
        (None, true) => {
            let error = parsed
                .error_at(
                    &[Key("ground")],
                    "no-effect",
                    "`feeder: true` has no effect here",
                )
                .with_reason(
                    "no constellation has `gsl.bent_pipe: true`, so that all stations are alike",
                );
            errors.push(error);
        }
        _ => {}
    }
}
