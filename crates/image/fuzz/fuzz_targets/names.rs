//! Arbitrary text as a name, a source, a digest and as files of accounts: no panic; a name is written as it is read.
#![no_main]

use constel_image::{Digest, Reference, Source, lookup};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|texts: (&str, &str, &str)| {
    if let Ok(name) = texts.0.parse::<Reference>() {
        assert_eq!(name.to_string().parse::<Reference>().unwrap(), name);
    }
    if let Ok(digest) = texts.0.parse::<Digest>() {
        assert_eq!(digest.to_string(), texts.0);
    }
    if let Ok(source) = texts.0.parse::<Source>() {
        let _ = source.to_string();
    }
    let _ = lookup(texts.0, texts.1, texts.2);
});
