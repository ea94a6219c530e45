//! Radio of ground links, and who needs feeders.

use constel_topology::radio::DVB_S2;

use super::ground::Ground;
use crate::diagnostic::Diagnostics;
use crate::model::{Carrier, Modcod, Radio};
use crate::parse::Parsed;
use crate::raw::{RawCarrier, RawModcod, RawRadio};
use crate::walk::Seg::Key;

/// Returns a radio; `None` after an error. `error` reports at a key of `gsl.radio`: code, message, reason, and
/// allowed values.
pub(super) fn radio(
    raw: &RawRadio,
    error: impl FnMut(&'static str, &'static str, String, &str, &[&'static str]),
) -> Option<Radio> {
    Some(Radio {
        up: carrier(&raw.up),
        down: carrier(&raw.down),
        modcod: modcod(raw.modcod, raw.fixed.as_ref(), error)?,
        roll_off: raw.roll_off,
        margin: raw.margin,
        polarization: raw.polarization,
        gases: raw.gases,
        system_temperature: raw.system_temperature,
    })
}

/// Returns a modulation and coding; `None` after an error, which is passed to `error` as by [`radio`].
pub(super) fn modcod(
    raw: RawModcod,
    fixed: Option<&String>,
    mut error: impl FnMut(&'static str, &'static str, String, &str, &[&'static str]),
) -> Option<Modcod> {
    match (raw, fixed) {
        (RawModcod::DvbS2, None) => Some(Modcod::DvbS2),
        (RawModcod::DvbS2, Some(name)) => {
            let found = DVB_S2.iter().find(|known| known.name == name);
            if found.is_none() {
                let message = format!("`{name}` is not a MODCOD of DVB-S2");
                let names = DVB_S2.map(|known| known.name);
                error("fixed", "unknown-value", message, "", &names);
            }
            found.map(|known| Modcod::Fixed(known.name))
        }
        (_, Some(_)) => {
            let message = "`radio.fixed` has no effect with this `modcod`".to_owned();
            let why = "it names a MODCOD of DVB-S2";
            error("fixed", "no-effect", message, why, &[]);
            None
        }
        (RawModcod::Shannon, None) => Some(Modcod::Shannon),
        (RawModcod::UncodedBpsk, None) => Some(Modcod::Uncoded(1)),
        (RawModcod::UncodedQpsk, None) => Some(Modcod::Uncoded(2)),
    }
}

fn carrier(raw: &RawCarrier) -> Carrier {
    Carrier {
        frequency: raw.frequency,
        eirp: raw.eirp,
        g_over_t: raw.g_over_t,
        bandwidth: raw.bandwidth,
        losses: raw.losses,
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
