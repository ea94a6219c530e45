//! The verdict against a model that works on whole, parsed packets, over random tables and packets; and what holds of any
//! bytes whatever.

use crate::transit::given;

use std::net::IpAddr;

use constel_link::transit::{AddressLocation, Cause, Packet, Verdict, decide};
use constel_link::{PortId, mac_of};
use given::{Known, Net, Sent, checks, link_local, parse, sum};
use proptest::prelude::*;

/// A router's verdict on a packet that is well formed and for its port, written from the RFCs a second time.
fn expected(known: &Known, sent: &Sent) -> Verdict {
    let complain = |cause: Cause| {
        let silent = Verdict::Drop(cause);
        if known.tokens == 0 || sent.is_complaint {
            return silent;
        }
        match known.longest_prefix(sent.from) {
            AddressLocation::Towards(way) => Verdict::Answer(way, Some(cause)),
            AddressLocation::Own | AddressLocation::Nowhere => silent,
        }
    };
    let way = match known.longest_prefix(sent.to) {
        AddressLocation::Own if sent.is_echo => {
            return match known.longest_prefix(sent.from) {
                AddressLocation::Towards(way) if sent.ip_len() <= known.mtu(way.port) => {
                    Verdict::Answer(way, None)
                }
                _ => Verdict::Drop(Cause::NoProgram),
            };
        }
        AddressLocation::Own if sent.is_icmp => return Verdict::Drop(Cause::NoProgram),
        AddressLocation::Own => return complain(Cause::NoProgram),
        AddressLocation::Nowhere => return complain(Cause::NoRoute),
        AddressLocation::Towards(way) => way,
    };
    if sent.hops <= 1 {
        complain(Cause::Expired)
    } else if sent.ip_len() <= known.mtu(way.port) {
        Verdict::Forward(way)
    } else if sent.may_be_cut_up {
        Verdict::Drop(Cause::TooBig)
    } else {
        complain(Cause::TooBig)
    }
}

fn ask(known: &mut Known, destination: [u8; 6], bytes: &mut [u8], answer: &mut Vec<u8>) -> Verdict {
    let len = bytes.len();
    let packet = Packet {
        port: PortId(0),
        from: PortId(9),
        destination,
        bytes,
        len,
        longest: len.saturating_sub(2),
    };
    decide(known, packet, answer)
}

/// The properties of every verdict about any bytes.
fn sane(known: &Known, before: &[u8], after: &[u8], answer: &[u8], verdict: Verdict) {
    match verdict {
        Verdict::Forward(_) => {
            assert_eq!(before.len(), after.len());
            let v4 = before[0] == 0x08;
            let hops = if v4 { 10 } else { 9 };
            assert_eq!(after[hops], before[hops] - 1);
            assert!(after[hops] >= 1);
            let may_differ = |at: usize| at == hops || (v4 && (12..14).contains(&at));
            let same = (0..before.len()).all(|at| may_differ(at) || before[at] == after[at]);
            assert!(same, "only hops and their checksum change");
            if v4 {
                let header = usize::from(after[2] & 0xf) * 4;
                assert_eq!(sum(0, &after[2..2 + header]), 0xffff);
            }
        }
        Verdict::Answer(way, _) => {
            assert_eq!(before, after);
            checks(answer);
            assert!(answer.len() - 2 <= known.mtu(way.port).max(1280));
        }
        Verdict::Drop(_) => assert_eq!(before, after),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn verdicts_are_the_models(mut known in given::known(), sent in given::sent()) {
        let wanted = expected(&known, &sent);
        let mut bytes = sent.bytes();
        let before = bytes.clone();
        let mut answer = vec![1, 2, 3];
        let verdict = ask(&mut known, mac_of(PortId(0)), &mut bytes, &mut answer);
        prop_assert_eq!(verdict, wanted, "{:?}", sent);
        sane(&known, &before, &bytes, &answer, verdict);
        if let Verdict::Answer(_, cause) = verdict {
            let said = parse(&answer);
            prop_assert_eq!(said.to, sent.from);
            match cause {
                None => {
                    prop_assert_eq!(said.from, sent.to);
                    prop_assert_eq!(&said.payload[4..], &sent.message()[4..]);
                }
                Some(_) => {
                    prop_assert_eq!(said.from, known.own(sent.net));
                    let about = &said.payload[8..];
                    prop_assert_eq!(about, &before[2..2 + about.len()], "the packet as it came");
                }
            }
        }
    }

    #[test]
    fn no_bytes_bring_it_down(
        mut known in given::known(),
        sent in given::sent(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut in any::<prop::sample::Index>(),
        shorten in any::<bool>(),
        group in any::<bool>(),
    ) {
        let mut bytes = sent.bytes();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if shorten {
            bytes.truncate(cut.index(bytes.len() + 1));
        }
        let before = bytes.clone();
        let mut answer = Vec::new();
        let destination = if group { [0xff; 6] } else { mac_of(PortId(0)) };
        let verdict = ask(&mut known, destination, &mut bytes, &mut answer);
        sane(&known, &before, &bytes, &answer, verdict);
        if group {
            prop_assert_eq!(verdict, Verdict::Drop(Cause::NotForUs));
        }
    }
}

fn fixed(net: Net) -> (Known, Sent) {
    let known = Known::fixed();
    let sent = Sent::echo(net, known.station(net), known.own(net));
    (known, sent)
}

#[test]
fn a_ping_to_the_node_itself_is_answered() {
    for net in [Net::V4, Net::V6] {
        let (mut known, sent) = fixed(net);
        let mut answer = Vec::new();
        let verdict = ask(
            &mut known,
            mac_of(PortId(0)),
            &mut sent.bytes(),
            &mut answer,
        );
        assert!(matches!(verdict, Verdict::Answer(_, None)), "{verdict:?}");
        checks(&answer);
    }
}

#[test]
fn what_is_no_ip_and_what_is_damaged_is_dropped() {
    let (mut known, sent) = fixed(Net::V4);
    let mut answer = Vec::new();
    let mut with = |bytes: &mut [u8]| ask(&mut known, mac_of(PortId(0)), bytes, &mut answer);
    let arp = [&[0x08, 0x06], &[0; 28][..]].concat();
    assert_eq!(with(&mut arp.clone()), Verdict::Drop(Cause::NotIp));
    assert_eq!(with(&mut []), Verdict::Drop(Cause::NotIp));
    for at in 2..22 {
        let mut bytes = sent.bytes();
        bytes[at] ^= 0x10;
        assert_eq!(with(&mut bytes), Verdict::Drop(Cause::Malformed), "{at}");
    }
}

#[test]
fn options_are_carried_and_source_routes_are_not() {
    let (mut known, sent) = fixed(Net::V4);
    let mut answer = Vec::new();
    let forward = sent.towards(known.far_station(Net::V4));
    let mut with = |options: &[u8]| {
        let mut bytes = forward.with_options(options);
        ask(&mut known, mac_of(PortId(0)), &mut bytes, &mut answer)
    };
    assert!(matches!(with(&[7, 4, 4, 0]), Verdict::Forward(_)));
    assert!(matches!(with(&[1, 1, 0, 0xff]), Verdict::Forward(_)));
    for malformed in [[7, 1, 0, 0], [7, 0, 0, 0], [7, 9, 0, 0], [1, 1, 1, 7]] {
        assert_eq!(with(&malformed), Verdict::Drop(Cause::Malformed));
    }
    for kind in [131, 137] {
        let verdict = with(&[kind, 3, 4, 0]);
        assert_eq!(verdict, Verdict::Drop(Cause::SourceRoute));
    }
}

#[test]
fn neighbours_may_speak_from_the_link() {
    let mut known = Known::fixed();
    let mut answer = Vec::new();
    let ping = |from, to| Sent::echo(Net::V6, IpAddr::V6(link_local(from)), to).bytes();
    let own = IpAddr::V6(link_local(PortId(0)));
    let mut bytes = ping(PortId(9), own);
    let verdict = ask(&mut known, mac_of(PortId(0)), &mut bytes, &mut answer);
    assert!(matches!(verdict, Verdict::Answer(way, None) if way.far_port == PortId(9)));
    // As another node, or beyond the link.
    for mut bytes in [
        ping(PortId(8), own),
        ping(PortId(9), known.far_station(Net::V6)),
        ping(PortId(9), IpAddr::V6(link_local(PortId(8)))),
    ] {
        let verdict = ask(&mut known, mac_of(PortId(0)), &mut bytes, &mut answer);
        assert_eq!(verdict, Verdict::Drop(Cause::Address));
    }
}
