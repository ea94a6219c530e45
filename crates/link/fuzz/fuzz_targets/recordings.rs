//! Recordings and frames of whatever bytes: laws that can be, or errors with lines that exist; never a
//! panic or a hang.
//!
//! `cargo +nightly fuzz run recordings --fuzz-dir crates/link/fuzz`
#![no_main]

use constel_link::{Effects, packet, trace};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut frame = data.to_vec();
    let traits = packet::traits(&frame);
    packet::mark_ce(&mut frame);
    assert_eq!(packet::traits(&frame).flow, traits.flow);
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let lines = text.lines().count() as u32 + 1;
    for result in [
        trace::mahimahi(text),
        trace::rate_csv(text, true),
        trace::rate_csv(text, false),
    ] {
        match result {
            Ok(law) => {
                let effects = Effects {
                    rate_law: Some(law),
                    ..Effects::default()
                };
                let _ = effects.check();
            }
            Err(errors) => assert!(errors.iter().all(|e| (1..=lines).contains(&e.line))),
        }
    }
    let _ = (trace::delays_ms(text), trace::losses(text));
});
