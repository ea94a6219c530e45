//! Arbitrary bytes as each of an image's documents: no panic; a configuration that is taken has only what can be run.
#![no_main]

use constel_image::documents::{Index, Manifest, SavedImage, parse};
use constel_image::{Config, Platform};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let platform = Platform { architecture: "amd64".to_owned(), os: "linux".to_owned() };
    if let Ok(index) = parse::<Index>("an index", bytes) {
        let _ = index.choose(&platform);
    }
    let _ = parse::<Manifest>("a manifest", bytes);
    let _ = parse::<Vec<SavedImage>>("manifest.json", bytes);
    if let Ok(config) = Config::parse(bytes, &platform) {
        assert!(config.workdir.starts_with('/') && !config.workdir.split('/').any(|part| part == ".."));
        assert!((1..=64).contains(&config.stop_signal));
        assert!(config.args().iter().all(|arg| !arg.contains('\0')));
    }
});
