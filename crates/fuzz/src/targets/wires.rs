//! Datagrams of neighbour machines.

use constel_cluster::underlay::{
    Cipher, Key, Label, Ping, PortOwner, Receiver, Refused, pack, unpack,
};
use constel_link::PortId;

use super::Target;

pub(super) fn targets() -> Vec<Target> {
    vec![
        Target::new("crossing-frame", frames, |bytes| receive(bytes, None)),
        Target::new("crossing-sealed", sealed, |bytes| {
            receive(bytes, Some(cipher()))
        }),
        Target::new("crossing-ping", pings, |bytes| {
            let Some(ping) = Ping::unpack(bytes, &key()) else {
                return false;
            };
            assert_eq!(ping.pack(&key()), bytes, "to the bit");
            true
        }),
    ]
}

fn key() -> Key {
    Key::new([7; 32])
}

fn cipher() -> Cipher {
    Cipher::new(&key(), 1, 0, 1)
}

/// Checks that frames reach only our ports, and only from ports of the other machine; a sealed frame that was changed is
/// rejected.
fn receive(bytes: &[u8], cipher: Option<Cipher>) -> bool {
    let mut receiver = Receiver::new(9, 1, 1).sealed(cipher.clone());
    let whose = |port: PortId| match port.0 {
        0..100 => PortOwner::Ours,
        100..200 => PortOwner::Machine(1, 5),
        _ => PortOwner::Nobody,
    };
    let mut accepted = false;
    // A copy is never accepted.
    for time in 0..2 {
        let mut datagram = bytes.to_vec();
        match receiver.receive(&mut datagram, 0, whose) {
            Ok(due) => {
                assert!(time == 0 && due.port.0 < 100 && (100..200).contains(&due.from.0));
                accepted = true;
            }
            Err(Refused::Copy) => assert!(accepted),
            Err(_) => {}
        }
    }
    if cipher.is_some() {
        let known = sealed().iter().any(|sealed| sealed == bytes);
        assert!(known || !accepted, "made without the key");
    } else if let Ok((label, frame)) = unpack(bytes) {
        let mut again = Vec::new();
        pack(&label, frame, &mut again);
        assert_eq!(
            unpack(&again).map(|(label, frame)| (label, frame.to_vec())),
            Ok((label, frame.to_vec()))
        );
    }
    accepted
}

fn frames() -> Vec<Vec<u8>> {
    [(150, 50, 5), (250, 50, 5), (150, 999, 5), (150, 50, 4)]
        .map(|(from, to, token)| {
            let mut bytes = Vec::new();
            let label = Label {
                lab: 9,
                from: PortId(from),
                to: PortId(to),
                sequence: 0,
                token,
                session: 1,
                due_ns: 10,
            };
            pack(&label, &[7; 60], &mut bytes);
            bytes
        })
        .into()
}

fn sealed() -> Vec<Vec<u8>> {
    let mut all = frames();
    all.iter_mut().for_each(|bytes| cipher().seal(bytes));
    all
}

fn pings() -> Vec<Vec<u8>> {
    let question = Ping::Question { nonce: 2 };
    let answer = Ping::Answer {
        nonce: 2,
        t2_ns: 3,
        t3_ns: 4,
        wall_ahead_ns: -5,
    };
    [question, answer]
        .map(|ping| ping.pack(&key()).to_vec())
        .into()
}
