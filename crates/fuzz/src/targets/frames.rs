//! Frames and datagrams of programs in nodes, at the relay, at a box, and at the programs that measure flows.

use constel_drivers::relay::{learns_addresses, reads_super_frame};
use constel_link::rules::Head;
use constel_measure::probe::book::{Book, REMEMBERED};
use constel_measure::probe::packet::{HEAD, Head as ProbeHead};
use constel_measure::probe::row::Fate;
use constel_measure::transfer::record::{Checker, RECORD_BYTES, write};
use constel_measure::transfer::vivace::{Confirmation, Data, Receiver, Sender};

use super::Target;

pub(super) fn targets() -> Vec<Target> {
    vec![
        Target::new("relay-super-frame", super_frames, reads_super_frame),
        Target::new("relay-switch", addresses, learns_addresses),
        Target::new("box-frame", frames, head),
        Target::new("probe-datagram", probes, responder),
        Target::new("probe-answer", answers, asker),
        Target::new("vivace-data", streams, receiver),
        Target::new("vivace-confirmation", confirmations, sender),
        Target::new("transfer-records", records, checker),
    ]
}

/// Checks that a frame cut anywhere has no fields that the whole one does not have.
fn head(bytes: &[u8]) -> bool {
    let whole = Head::read(bytes);
    assert!(whole.ports.is_none() || whole.ip.is_some());
    for length in (0..bytes.len().min(200)).step_by(7) {
        let cut = Head::read(&bytes[..length]);
        assert!(cut.ports.is_none() || cut.ports == whole.ports);
        assert!(cut.ip.is_none() || cut.ip.map(|ip| ip.src) == whole.ip.map(|ip| ip.src));
        assert!(cut.vlan.is_none() || cut.vlan == whole.vlan);
    }
    if let Some((addresses, rest)) = bytes.split_first_chunk::<12>() {
        let [a, b, c, d, e, f, source @ ..] = *addresses;
        assert_eq!(Head::behind(source, [a, b, c, d, e, f], rest), whole);
    }
    whole.ip.is_some()
}

/// Checks that an answer is as long as its request, and equal behind the header.
fn responder(bytes: &[u8]) -> bool {
    let Some(head) = ProbeHead::read(bytes) else {
        return false;
    };
    let mut answer = bytes.to_vec();
    head.write(&mut answer);
    assert_eq!(answer, bytes, "to the bit");
    let held = ProbeHead {
        held_ns: u32::MAX,
        arrived_ns: 7,
        ..head
    };
    held.write(&mut answer);
    assert_eq!(ProbeHead::read(&answer), Some(held));
    assert_eq!(answer[HEAD..], bytes[HEAD..]);
    true
}

/// Answers with arbitrary contents to a book of probes: one of [`HEAD`] bytes after each byte that is the time since the last
/// event. Checks that no row has a negative time, and that each probe has one fate besides duplicates.
fn asker(script: &[u8]) -> bool {
    let Some((&mode, script)) = script.split_first() else {
        return false;
    };
    let mut book = match mode & 1 {
        0 => Book::default(),
        _ => Book::apart(),
    };
    let (mut now_ns, mut accepted, mut rows) = (1_000_000_u64, false, Vec::new());
    let mut sent = 0_u64;
    let (steps, _) = script.as_chunks::<{ HEAD + 1 }>();
    for &[pause, ref datagram @ ..] in steps {
        now_ns += u64::from(pause) * 100_000;
        if pause & 1 == 0 {
            let (number, given_up) = book.sent(now_ns);
            sent += 1;
            assert_eq!(number, sent);
            rows.extend(given_up);
            if pause & 2 != 0 {
                rows.extend(book.unsent());
            }
            continue;
        }
        let Some(head) = ProbeHead::read(datagram) else {
            continue;
        };
        // The numbers of probes are small; an arbitrary one is hardly ever one of them.
        let seq = match pause & 2 {
            0 => head.seq,
            _ => (head.seq & 0xff)
                .wrapping_add(sent as u32)
                .wrapping_sub(0xff),
        };
        let arrived_ns = match pause & 4 {
            0 => head.arrived_ns,
            _ => now_ns - u64::from(pause) * 1_000,
        };
        if let Some(row) = book.answered(seq, arrived_ns, now_ns, head.held_ns >> (pause >> 4)) {
            let rtt_ns = row.rtt_ns.expect("an answer has a round trip");
            assert!((1..=sent).contains(&row.seq) && rtt_ns <= now_ns);
            let ways = row.there_ns.zip(row.back_ns);
            assert!(ways.is_none_or(|(there, back)| there.checked_add(back) == Some(rtt_ns)));
            accepted = true;
            rows.push(row);
        }
    }
    rows.extend(book.end(now_ns));
    let mut single: Vec<u64> = rows
        .iter()
        .filter(|row| row.fate != Fate::Duplicate)
        .map(|row| row.seq)
        .collect();
    let many = single.len();
    single.sort_unstable();
    single.dedup();
    assert!(single.len() == many && many <= sent as usize && sent < REMEMBERED as u64);
    accepted
}

/// Datagrams for a receiver: two bytes of length before each. Checks that the stream has the length of its confirmed offset,
/// and that each confirmation is one for the sender.
fn receiver(script: &[u8]) -> bool {
    let mut receiver = Receiver::default();
    let (mut ready, mut accepted) = (0_u64, false);
    for datagram in datagrams(script) {
        let Some(data) = Data::read(datagram) else {
            continue;
        };
        let before = receiver.offset();
        let confirmation = receiver.handle(&data, |piece| ready += piece.len() as u64);
        assert!(receiver.offset() >= before && receiver.offset() == ready);
        if let Some(confirmation) = confirmation {
            let mut out = Vec::new();
            confirmation.write(&mut out);
            assert_eq!(Confirmation::read(&out), Some(confirmation));
            accepted = true;
        }
    }
    accepted
}

/// Confirmations for a sender: two bytes of length before each. Checks that it sends the stream in order and no byte behind its
/// end, and that it always knows when to go on.
fn sender(script: &[u8]) -> bool {
    const BYTES: u64 = 200_000;
    let mut sender = Sender::new(1, BYTES, 7);
    let (mut now_ns, mut fresh, mut accepted) = (1, 0, false);
    let mut out = Vec::new();
    for datagram in datagrams(script) {
        for _ in 0..8 {
            out.clear();
            let Some((offset, length)) = sender.poll_transmit(now_ns, &mut out) else {
                break;
            };
            let end = offset + length as u64;
            assert!(offset <= fresh && end <= BYTES, "a gap, or behind the end");
            fresh = fresh.max(end);
        }
        if let Some(confirmation) = Confirmation::read(datagram) {
            sender.handle(now_ns, &confirmation);
            accepted = true;
        }
        assert!(
            !sender.is_done() || fresh == BYTES,
            "done before all is sent"
        );
        let Some(next_ns) = sender.poll_timeout() else {
            break;
        };
        now_ns = next_ns.max(now_ns + 1_000_000);
        sender.handle_timeout(now_ns);
    }
    accepted
}

/// The script's datagrams, each after two bytes of length.
fn datagrams(script: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = script;
    std::iter::from_fn(move || {
        let (length, after) = rest.split_first_chunk::<2>()?;
        let length = usize::from(u16::from_be_bytes(*length)).min(after.len());
        let (datagram, after) = after.split_at(length);
        rest = after;
        Some(datagram)
    })
}

/// Checks that each record is counted once, whatever the pieces in which it arrives: the first byte is their length.
fn checker(bytes: &[u8]) -> bool {
    let Some((&piece, bytes)) = bytes.split_first() else {
        return false;
    };
    let mut arrived = [0; 2];
    let pieces = [usize::from(piece).max(1), usize::MAX];
    for (arrived, piece) in arrived.iter_mut().zip(pieces) {
        let mut checker = Checker::default();
        for part in bytes.chunks(piece) {
            checker.take(9, part, |_| *arrived += 1);
        }
        assert_eq!(checker.records(), (bytes.len() / RECORD_BYTES) as u64);
        assert_eq!(checker.damaged() + *arrived, checker.records());
    }
    assert_eq!(arrived[0], arrived[1]);
    arrived[0] > 0
}

/// An Ethernet frame of IPv4 or IPv6 with TCP or UDP; its transport header begins at the returned offset.
fn frame(ipv4: bool, udp: bool, payload: usize) -> (Vec<u8>, u16) {
    let mut bytes = vec![2; 12];
    let protocol = if udp { 17 } else { 6 };
    if ipv4 {
        bytes.extend([0x08, 0x00]);
        bytes.extend([0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, protocol, 0, 0]);
        bytes.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    } else {
        bytes.extend([0x86, 0xdd]);
        bytes.extend([0x60, 0, 0, 0, 0, 0, protocol, 64]);
        bytes.extend(0..32);
    }
    let at = bytes.len() as u16;
    bytes.extend([0x13, 0x88, 0, 53]);
    if udp {
        bytes.extend([0, 0, 0, 0]);
    } else {
        bytes.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
    }
    bytes.extend((0..payload).map(|n| n as u8));
    (bytes, at)
}

fn super_frames() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for (ipv4, udp) in [(true, false), (false, false), (true, true), (false, true)] {
        for (payload, segment) in [(5_000, 1_448_u16), (300, 100), (40, 7)] {
            let (frame, at) = frame(ipv4, udp, payload);
            let form = [
                &[u8::from(udp)][..],
                &segment.to_be_bytes(),
                &at.to_be_bytes(),
            ];
            all.push([form.concat(), frame].concat());
        }
    }
    all
}

fn frames() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for (ipv4, udp) in [(true, false), (false, false), (true, true), (false, true)] {
        let (plain, _) = frame(ipv4, udp, 20);
        let mut tagged = plain.clone();
        tagged.splice(12..12, [0x81, 0, 0x20, 7]);
        all.extend([plain, tagged]);
    }
    // Behind an extension header and in a fragment.
    let (mut long, _) = frame(false, true, 20);
    long[20] = 0;
    long.splice(54..54, [44, 0, 1, 4, 0, 0, 0, 0, 17, 0, 0, 1, 0, 0, 0, 9]);
    all.push(long);
    all
}

fn addresses() -> Vec<Vec<u8>> {
    vec![
        // An address at port 1, then a frame for it from port 2; it moves to port 3.
        vec![1, 1, 9, 9, 2, 4, 9, 9, 3, 1, 9, 9, 2, 4, 9, 9],
        (0..=255).cycle().take(6_000).collect(),
        (0..4_000_u16)
            .flat_map(|n| [1, 5, (n >> 8) as u8, n as u8])
            .collect(),
    ]
}

fn probes() -> Vec<Vec<u8>> {
    vec![vec![0; HEAD], (0..56).collect()]
}

fn answers() -> Vec<Vec<u8>> {
    let mut script = vec![0];
    for number in 1..=6_u32 {
        let mut datagram = [0; HEAD];
        // The script's low bits: a probe, then its answer with a small number and a time of arrival that is possible.
        script.push(4);
        script.extend(datagram);
        let head = ProbeHead {
            seq: if number == 4 { 0xfe } else { 0xff },
            held_ns: 1_000,
            arrived_ns: 0,
        };
        head.write(&mut datagram);
        script.push(7);
        script.extend(datagram);
    }
    let mut apart = script.clone();
    apart[0] = 1;
    vec![script, apart]
}

fn script(datagrams: &[Vec<u8>]) -> Vec<u8> {
    let one = |datagram: &Vec<u8>| {
        let length = (datagram.len() as u16).to_be_bytes();
        [&length[..], datagram].concat()
    };
    datagrams.iter().flat_map(one).collect()
}

fn streams() -> Vec<Vec<u8>> {
    let data = |number: u64, offset: u64, length: usize| {
        let mut datagram = Vec::new();
        Data::write_head(number, offset, &mut datagram);
        datagram.resize(datagram.len() + length, 7);
        datagram
    };
    let in_order: Vec<_> = (0..6).map(|n| data(n, n * 100, 100)).collect();
    let mixed = [
        data(3, 300, 100),
        data(1, 100, 150),
        data(5, 90, 300),
        data(0, 0, 100),
    ];
    vec![script(&in_order), script(&mixed)]
}

fn confirmations() -> Vec<Vec<u8>> {
    let one = |number, offset, ranges: &[(u64, u64)]| {
        let mut datagram = Vec::new();
        let ranges = ranges.to_vec();
        Confirmation {
            number,
            offset,
            ranges,
        }
        .write(&mut datagram);
        datagram
    };
    let all: Vec<_> = (0..20).map(|n| one(n, n * 1_400, &[(0, n)])).collect();
    let gaps = [
        one(0, 1_400, &[(0, 0)]),
        one(7, 1_400, &[(7, 7), (3, 4), (0, 0)]),
        one(9, 200_000, &[(9, 9)]),
    ];
    vec![script(&all), script(&gaps)]
}

fn records() -> Vec<Vec<u8>> {
    let mut stream = vec![100];
    for number in 0..3 {
        let mut record = [0; RECORD_BYTES];
        write(number, 5, &mut record);
        stream.extend(record);
    }
    vec![stream]
}
