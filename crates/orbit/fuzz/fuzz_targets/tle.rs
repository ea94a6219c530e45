//! Arbitrary bytes as a TLE file: no panic, and what is read can be propagated or refused.
#![no_main]

use constel_orbit::{Satellite, tle};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match tle::parse(bytes) {
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
            assert!(errors.0.is_sorted_by_key(|error| error.line));
            let _ = errors.to_string();
        }
    }
});
