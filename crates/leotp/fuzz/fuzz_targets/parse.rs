//! The parser: any input gives a packet or an error, and a packet survives
//! being written and parsed again.
#![no_main]

use leotp::wire::Packet;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(p) = Packet::parse(data) else { return };
    let mut out = Vec::new();
    match &p {
        Packet::Interest(i) => i.encode(&mut out),
        Packet::Data(h, payload) => h.encode_data(payload, &mut out),
        Packet::Vph(h) => h.encode_vph(&mut out),
    }
    assert_eq!(Packet::parse(&out), Ok(p));
});
