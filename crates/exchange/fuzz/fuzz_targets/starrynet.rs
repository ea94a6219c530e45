//! Arbitrary text as a file of starrynet: no panic, and what is read prints.
#![no_main]

use constel_exchange::starrynet;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(draft) = starrynet::parse(text) {
        let _ = draft.yaml();
    }
});
