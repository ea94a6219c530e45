//! Scenario files of whatever bytes: an answer or errors, never a panic, a hang or a flood.
//!
//! `cargo +nightly fuzz run scenario --fuzz-dir crates/scenario/fuzz crates/scenario/fuzz/corpus/scenario crates/scenario/tests/errors`
#![no_main]

use constel_scenario::{Files, read_scenario};
use libfuzzer_sys::fuzz_target;

/// Every file there is holds the fuzzed bytes too, so that files of places are fuzzed as well.
struct Same<'a>(&'a [u8]);

impl Files for Same<'_> {
    fn read(&self, path: &str) -> std::io::Result<Vec<u8>> {
        match path {
            "p.csv" => Ok(b"name,latitude_deg,longitude_deg\nParis,48.8,2.3\n".to_vec()),
            _ => Ok(self.0.to_vec()),
        }
    }
}

fuzz_target!(|data: &[u8]| {
    if let Err(errors) = read_scenario("f.yaml", data, &Same(data)) {
        assert!(!errors.is_empty());
        let text = errors.to_string();
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
    }
});
