//! The state machines: a script of hostile datagrams, honest ones cut from the
//! machines' own output, and the passing of time.
#![no_main]

use leotp::core::{Available, Consumer, Midnode, Params, Path, Producer, Source};
use libfuzzer_sys::fuzz_target;

struct Zeros;
impl Source for Zeros {
    fn available(&self) -> Available {
        Available { end: 100_000, finished: true }
    }
    fn read_at(&mut self, _: u64, buf: &mut [u8]) -> bool {
        buf.fill(0);
        true
    }
    fn meta(&self) -> Option<Vec<u8>> {
        Some(vec![0; 64])
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&mode, mut script)) = data.split_first() else { return };
    let p = Params {
        cache_bytes: if mode & 1 == 0 { 16_384 } else { 0 },
        hop_by_hop: mode & 2 == 0,
        max_flows: 8,
        send_buffer_bytes: 8192,
        ..if mode & 4 == 0 { Params::default() } else { Params::beyond() }
    };
    let up = Path { src: ([10, 0, 0, 1], 1).into(), dst: ([10, 0, 0, 2], 2).into() };
    let (Ok(mut prod), Ok(mut mid), Ok(mut cons)) = (Producer::new(p.clone()), Midnode::new(p.clone()), Consumer::new(p, 0, up, 0, None)) else { return };
    prod.publish(0, Box::new(Zeros));
    let mut now = 1_000_000_000;
    while let Some((&op, rest)) = script.split_first() {
        let n = rest.len().min(14 + usize::from(op & 0x3f));
        let (chunk, rest) = rest.split_at(n);
        script = rest;
        now += u64::from(op) * 1_000_000;
        let path = if op & 0x40 == 0 { up } else { up.reversed() };
        mid.handle_datagram(now, path, chunk);
        prod.handle_datagram(now, path, chunk);
        cons.handle_datagram(now, path, chunk);
        let mut out = Vec::new();
        for _ in 0..64 {
            out.clear();
            if let Some(path) = cons.poll_transmit(now, &mut out) {
                mid.handle_datagram(now, path, &out);
                continue;
            }
            if let Some(path) = mid.poll_transmit(now, &mut out) {
                if path.dst == up.dst { prod.handle_datagram(now, path, &out) } else { cons.handle_datagram(now, path, &out) }
                continue;
            }
            let Some(path) = prod.poll_transmit(now, &mut out) else { break };
            mid.handle_datagram(now, path, &out);
        }
        assert!(mid.flows() <= 8 && prod.legs() <= 8);
        while cons.read().is_some() {}
    }
});
