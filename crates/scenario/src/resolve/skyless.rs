//! Labs without constellations: settings that are only for the sky are refused.

use super::no_effect;
use crate::diagnostic::Diagnostics;
use crate::parse::Parsed;
use crate::walk::Seg::{self, Index, Key};

/// Checks that a lab has nodes and, without constellations, no setting that needs one.
pub(super) fn check(parsed: &Parsed, errors: &mut Diagnostics) {
    let raw = &parsed.raw;
    if !raw.constellations.is_empty() {
        return;
    }
    let ground = &raw.ground;
    let on_earth =
        !(ground.stations.is_empty() && ground.from.is_empty() && ground.hosts.is_empty());
    if !on_earth && raw.spacecraft.is_empty() {
        let at: &[Seg<'_>] = match parsed.is_written(&[Key("constellations")]) {
            true => &[Key("constellations")],
            false => &[],
        };
        let message = "a lab needs nodes";
        let error = parsed.error_at(at, "no-nodes", message).with_suggestion(
            "give `constellations`, `spacecraft`, `ground.stations` or `ground.hosts`",
        );
        errors.push(error);
        return;
    }
    let mut refuse = |path: &[Seg<'_>]| {
        if parsed.is_written(path) {
            no_effect(parsed, errors, path, "constellations");
        }
    };
    for name in ground.stations.keys() {
        for key in ["antennas", "terminals", "feeder", "gateway", "obstacles"] {
            refuse(&[Key("ground"), Key("stations"), Key(name.as_str()), Key(key)]);
        }
    }
    for index in 0..ground.from.len() {
        for key in ["antennas", "terminals", "feeder"] {
            refuse(&[Key("ground"), Key("from"), Index(index), Key(key)]);
        }
    }
    refuse(&[Key("cross_shell")]);
    refuse(&[Key("recordings")]);
    refuse(&[Key("routing"), Key("ospf"), Key("areas")]);
    for software in ["leotp", "split_tcp"] {
        refuse(&[Key("transport"), Key(software), Key("satellites")]);
    }
}
