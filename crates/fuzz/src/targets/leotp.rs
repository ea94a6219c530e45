//! LEOTP: datagrams of an attacker, at its state machines and between them.

use std::collections::BTreeMap;

use leotp::core::{
    Available, Consumer, META_LEN, Meta, Midnode, Params, Path, Producer, Sealing, Source,
};
use leotp::seal::FlowCipher;
use leotp::wire::{Interest, Packet, Range};

use super::Target;

pub(super) fn targets() -> Vec<Target> {
    vec![
        Target::new("leotp-packet", packets, packet),
        Target::new("leotp-flow", flows, flow),
        Target::new("leotp-machines", scripts, machines),
        Target::new("leotp-network", scripts, network),
    ]
}

fn packets() -> Vec<Vec<u8>> {
    let interest = |start, end, padding| {
        let mut bytes = Vec::new();
        Interest {
            flow: 0,
            range: Range { start, end },
            timestamp: 1,
            rate_bps: 1_000_000,
            rtx: false,
            fresh: false,
            bare: false,
            sparse: false,
            tag: 1,
            padding,
        }
        .encode(&mut bytes);
        bytes
    };
    vec![
        interest(0, 1400, 0),
        interest(0, 44_800, 1_384),
        interest(0, 0, 0),
    ]
}

/// A mode byte, then operations with their arguments, datagrams among them.
fn scripts() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = (0..8).map(|mode| vec![mode; 64]).collect();
    for packet in packets() {
        all.push([&[0, 0x3f][..], &packet, &[0x7f], &packet].concat());
    }
    all
}

/// Checks that a packet is the same after writing and parsing.
fn packet(data: &[u8]) -> bool {
    let Ok(read) = Packet::parse(data) else {
        return false;
    };
    let mut out = Vec::new();
    match &read {
        Packet::Interest(interest) => interest.encode(&mut out),
        Packet::Data(header, payload) => header.encode_data(payload, &mut out),
        Packet::Vph(header) => header.encode_vph(&mut out),
    }
    assert_eq!(Packet::parse(&out), Ok(read));
    true
}

/// The description of a flow or a sealed record of it, after a byte that selects the record's number.
fn flow(data: &[u8]) -> bool {
    let Some((&record, bytes)) = data.split_first() else {
        return false;
    };
    let meta = Meta::decode(bytes);
    if let Some(meta) = &meta {
        assert_eq!(meta.encode()[..], *bytes, "to the bit");
    }
    let opened = cipher().open(record.into(), record & 1 == 1, bytes);
    if let Some(plain) = &opened {
        assert_eq!(plain, RECORD, "made without the key");
        assert_eq!(cipher().seal(record.into(), record & 1 == 1, plain), bytes);
    }
    meta.is_some() || opened.is_some()
}

const RECORD: &[u8] = b"a record";

fn cipher() -> FlowCipher {
    FlowCipher::new(&[7; 32], 5, &[1; 16])
}

fn flows() -> Vec<Vec<u8>> {
    let meta = |sealing| Meta {
        length: 70_000,
        digest: [3; 32],
        sealing,
    };
    let metas = [Sealing::Open, Sealing::Sealed([9; 16])].map(meta);
    let mut all: Vec<Vec<u8>> = metas
        .iter()
        .map(|meta| [&[0][..], &meta.encode()].concat())
        .collect();
    for record in [0, 1, 2_u8] {
        let sealed = cipher().seal(record.into(), record & 1 == 1, RECORD);
        all.push([&[record][..], &sealed].concat());
    }
    all
}

struct Zeros;

impl Source for Zeros {
    fn available(&self) -> Available {
        Available {
            end: 100_000,
            finished: true,
        }
    }
    fn read_at(&mut self, _: u64, buf: &mut [u8]) -> bool {
        buf.fill(0);
        true
    }
    fn meta(&self) -> Option<Vec<u8>> {
        Some(vec![0; 64])
    }
}

/// Returns the path of an Interest from the Consumer to the Producer.
fn upstream() -> Path {
    Path {
        src: ([10, 0, 0, 1], 1).into(),
        dst: ([10, 0, 0, 2], 2).into(),
    }
}

/// Makes a Producer, a Midnode and a Consumer; `None` if one of them rejects the parameters.
fn three_machines(p: &Params) -> Option<(Producer, Midnode, Consumer)> {
    Some((
        Producer::new(p.clone()).ok()?,
        Midnode::new(p.clone()).ok()?,
        Consumer::new(p.clone(), 0, upstream(), 0, None).ok()?,
    ))
}

/// The state machines: a script of hostile datagrams, honest ones cut from the
/// machines' own output, and the passing of time.
fn machines(data: &[u8]) -> bool {
    let Some((&mode, mut script)) = data.split_first() else {
        return false;
    };
    let p = Params {
        cache_bytes: if mode & 1 == 0 { 16_384 } else { 0 },
        hop_by_hop: mode & 2 == 0,
        max_flows: 8,
        send_buffer_bytes: 8192,
        ..if mode & 4 == 0 {
            Params::default()
        } else {
            Params::beyond()
        }
    };
    let up = upstream();
    let Some((mut prod, mut mid, mut cons)) = three_machines(&p) else {
        return false;
    };
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
                if path.dst == up.dst {
                    prod.handle_datagram(now, path, &out)
                } else {
                    cons.handle_datagram(now, path, &out)
                }
                continue;
            }
            let Some(path) = prod.poll_transmit(now, &mut out) else {
                break;
            };
            mid.handle_datagram(now, path, &out);
        }
        assert!(mid.flows() <= 8 && prod.legs() <= 8);
        while cons.read().is_some() {}
    }
    true
}

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

/// An honest flow over a hostile network. The script decides for each datagram whether it arrives, is lost, is duplicated or
/// late, and when the Midnode is replaced by one without state. The delivered bytes must be the flow's, in order. Once the
/// network behaves, the flow must end.
fn network(data: &[u8]) -> bool {
    let Some((&mode, script)) = data.split_first() else {
        return false;
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
    let up = upstream();
    let Some((mut prod, mut mid, mut cons)) = three_machines(&p) else {
        return false;
    };
    prod.publish(0, Box::new(Bytes(meta)));
    // Even the longest script with all losses ends long before the clock below does.
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
            return true;
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
}
