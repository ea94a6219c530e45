//! An honest flow over a hostile network: the script says for each datagram
//! whether it arrives, is lost, comes twice or late, and when the Midnode is
//! replaced by one that knows nothing. What is delivered must be the flow's
//! bytes, in order; once the network behaves, the flow must end.
#![no_main]

use leotp::core::{
    Available, Consumer, META_LEN, Meta, Midnode, Params, Path, Producer, Sealing, Source,
};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;

const LEN: u64 = 30_000;

fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

struct Bytes(Vec<u8>);
impl Source for Bytes {
    fn available(&self) -> Available {
        Available {
            end: LEN,
            finished: true,
        }
    }
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> bool {
        for (i, b) in buf.iter_mut().enumerate() {
            *b = byte(offset + i as u64);
        }
        true
    }
    fn meta(&self) -> Option<Vec<u8>> {
        Some(self.0.clone())
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&mode, script)) = data.split_first() else {
        return;
    };
    let p = Params {
        rto_max_ns: 1_000_000_000,
        cache_bytes: [16_384, 0, 4096, 1 << 20][usize::from(mode & 3)],
        hop_by_hop: mode & 4 == 0,
        segment_bytes: if mode & 8 == 0 { 1400 } else { 777 },
        interest_segments: if mode & 16 == 0 { 1 } else { 3 },
        ..if mode & 32 == 0 {
            Params::default()
        } else {
            Params::beyond()
        }
    };
    let all: Vec<u8> = (0..LEN).map(byte).collect();
    let meta = Meta {
        length: LEN,
        digest: *blake3::hash(&all).as_bytes(),
        sealing: Sealing::Open,
    }
    .encode()
    .to_vec();
    assert_eq!(meta.len() as u64, META_LEN);
    let up = Path {
        src: ([10, 0, 0, 1], 1).into(),
        dst: ([10, 0, 0, 2], 2).into(),
    };
    let (Ok(mut prod), Ok(mut mid), Ok(mut cons)) = (
        Producer::new(p.clone()),
        Midnode::new(p.clone()),
        Consumer::new(p.clone(), 0, up, 0, None),
    ) else {
        return;
    };
    prod.publish(0, Box::new(Bytes(meta)));
    // The longest script, all losses, ends long before the clock below does.
    let mut script = script[..script.len().min(256)].iter();
    let mut now = 1_000_000_000u64;
    // (arrival, order) -> (node: 0 consumer, 1 midnode, 2 producer; path; bytes)
    let mut air: BTreeMap<(u64, u64), (u8, Path, Vec<u8>)> = BTreeMap::new();
    let (mut seq, mut got) = (0u64, 0u64);
    for _ in 0..40_000 {
        for node in 0..3u8 {
            loop {
                let mut out = Vec::new();
                let sent = match node {
                    0 => cons.poll_transmit(now, &mut out),
                    1 => mid.poll_transmit(now, &mut out),
                    _ => prod.poll_transmit(now, &mut out),
                };
                let Some(path) = sent else { break };
                let to = match node {
                    1 if path.dst == up.dst => 2,
                    1 => 0,
                    _ => 1,
                };
                seq += 1;
                let mut put = |late: u64, copy: u64| {
                    air.insert(
                        (now + 1_000_000 + late, seq * 2 + copy),
                        (to, path, out.clone()),
                    );
                };
                match script.next().copied() {
                    Some(0..=31) => {}
                    Some(x @ 32..=47) => {
                        put(0, 0);
                        put(u64::from(x) * 100_000, 1);
                    }
                    Some(x @ 48..=79) => put(u64::from(x) * 200_000, 0),
                    Some(80) => {
                        if let Ok(m) = Midnode::new(p.clone()) {
                            mid = m;
                        }
                    }
                    _ => put(0, 0),
                }
                if script.len() == 0 && seq > 100_000 {
                    panic!("no end of packets");
                }
            }
        }
        while let Some(b) = cons.read() {
            for x in b {
                assert_eq!(x, byte(got), "byte {got}");
                got += 1;
            }
        }
        assert_eq!(cons.error(), None);
        if cons.is_done() {
            assert_eq!(got, LEN);
            return;
        }
        let timeouts = [cons.poll_timeout(), mid.poll_timeout(), prod.poll_timeout()];
        let next = air
            .keys()
            .next()
            .map(|k| k.0)
            .into_iter()
            .chain(timeouts.into_iter().flatten())
            .min();
        let Some(next) = next else {
            panic!("nothing will ever happen at {got} of {LEN}")
        };
        now = next.max(now + 1);
        while let Some(e) = air.first_entry() {
            if e.key().0 > now {
                break;
            }
            let (node, path, bytes) = e.remove();
            match node {
                0 => cons.handle_datagram(now, path, &bytes),
                1 => mid.handle_datagram(now, path, &bytes),
                _ => prod.handle_datagram(now, path, &bytes),
            }
        }
    }
    panic!("not done: {got} of {LEN}");
});
