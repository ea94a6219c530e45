//! Arbitrary bytes as two layers, one on the other: no panic, bounded memory, and no path that leads out.
#![no_main]

use constel_image::tar::{Seekable, Stream, TarReader};
use constel_image::{Limits, Tree};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|layers: (&[u8], &[u8])| {
    let limits = Limits::default();
    let mut tree = Tree::default();
    for layer in [layers.0, layers.1] {
        let read = tree.apply(&mut TarReader::new(Stream(layer), &limits));
        // Read in jumps it has the same entries.
        let mut jumping = TarReader::new(Seekable(std::io::Cursor::new(layer)), &limits);
        if read.is_ok() {
            while let Ok(Some(_)) = jumping.next_entry() {}
        }
        for (path, _) in tree.nodes() {
            let mut parts = path.split(|b| *b == b'/');
            assert!(parts.all(|part| !part.is_empty() && part != b"." && part != b".." && !part.contains(&0)));
        }
    }
});
