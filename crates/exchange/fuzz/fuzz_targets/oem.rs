//! Arbitrary text as an ephemeris file in any format: no panic; what is read can be asked, and survives the way out and in.
#![no_main]

use constel_exchange::ephemeris;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| match ephemeris::read(text, "x") {
    Ok(objects) => {
        assert!(!objects.is_empty());
        for object in &objects {
            let (from, to) = object.span();
            let _ = object.position_itrf_m(from);
            let _ = object.position_itrf_m(to);
        }
    }
    Err(errors) => assert!(!errors.0.is_empty() && errors.0.is_sorted_by_key(|e| e.line)),
});
