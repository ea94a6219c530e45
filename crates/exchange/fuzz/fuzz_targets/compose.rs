//! Arbitrary text as a Compose file and as what lies beside it: no panic, bounded memory, and what is read prints.
#![no_main]

use constel_exchange::compose;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|texts: (&str, &str)| {
    if let Ok(draft) = compose::parse(texts.0, "x", &|_| Some(texts.1.to_owned())) {
        let _ = draft.yaml();
    }
});
