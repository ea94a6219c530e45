//! Arbitrary texts as Hypatia's files: no panic.
#![no_main]

use constel_exchange::hypatia::{Files, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|texts: (&str, &str, &str)| {
    let files = Files { tles: texts.0, isls: Some(texts.1), stations: Some(texts.2), gsl_interfaces: None, description: Some(texts.1) };
    if let Ok(draft) = parse(&files, texts.2) {
        let _ = draft.yaml();
    }
});
