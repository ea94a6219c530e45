//! Arbitrary bytes as an OMM JSON file: no panic, and what is read can be propagated or refused.
#![no_main]

use constel_orbit::{Satellite, omm};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match omm::parse(bytes) {
        Ok(sets) => {
            assert!(!sets.is_empty());
            for set in &sets {
                if let Ok(satellite) = Satellite::from_elements(set)
                    && let Ok(state) = satellite.teme(set.epoch())
                {
                    assert!(state.position_teme_m.is_finite());
                }
            }
        }
        Err(errors) => {
            assert!(!errors.0.is_empty());
            let _ = errors.to_string();
        }
    }
});
