//! Arbitrary text as a file of celestial: no panic, and what is read prints.
#![no_main]

use constel_exchange::celestial;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(draft) = celestial::parse(text, "x") {
        let _ = draft.yaml();
    }
});
