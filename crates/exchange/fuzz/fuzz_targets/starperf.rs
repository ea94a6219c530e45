//! Arbitrary text as a file of starperf: no panic, and what is read prints.
#![no_main]

use constel_exchange::starperf;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(draft) = starperf::parse_constellation(text, "x") {
        let _ = draft.yaml();
    }
});
