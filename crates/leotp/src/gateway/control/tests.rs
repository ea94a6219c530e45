use super::*;
use proptest::prelude::*;

const KEY: [u8; 32] = [7; 32];

fn ip(host: u8) -> IpAddr {
    [10, 0, 0, host].into()
}

/// Gateway `host` in conversation with gateway `peer`, at its `start`-th start.
fn control(host: u8, peer: u8, start: u8) -> Control {
    let mut seed = [host; 32];
    (seed[0], seed[1]) = (start, peer);
    Control::new(KEY, seed, ip(peer))
}

fn open(connection: u64) -> Message {
    Message::Open {
        connection,
        up: 5,
        down: 6,
        src: "10.0.0.1:1234".parse().unwrap(),
        dst: "10.0.0.2:80".parse().unwrap(),
    }
}

/// All that `c`, gateway `host`, makes of these datagrams.
fn hear(c: &mut Control, host: u8, datagrams: &[Vec<u8>]) -> Vec<Event> {
    let heard = datagrams
        .iter()
        .filter_map(|d| c.handle(0, d, |a| a == ip(host)));
    heard.collect()
}

fn said(c: &mut Control, now: Nanos) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| c.poll_transmit(now)).collect()
}

/// Lets 1 and 2 talk until both are silent; what each has heard, and all that has passed.
fn talk(now: Nanos, a: &mut Control, b: &mut Control) -> (Vec<Event>, Vec<Event>, Vec<Vec<u8>>) {
    let (mut at_a, mut at_b, mut passed) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        let (from_a, from_b) = (said(a, now), said(b, now));
        if from_a.is_empty() && from_b.is_empty() {
            return (at_a, at_b, passed);
        }
        assert!(passed.len() < 1000, "an end of words");
        at_b.extend(hear(b, 2, &from_a));
        at_a.extend(hear(a, 1, &from_b));
        passed.extend(from_a);
        passed.extend(from_b);
    }
}

#[test]
fn a_message_comes_after_a_greeting_and_is_confirmed() {
    let (mut a, mut b) = (control(1, 2, 0), control(2, 1, 0));
    assert!(a.say(0, open(1)));
    let (at_a, at_b, passed) = talk(0, &mut a, &mut b);
    assert_eq!((at_a, at_b), (vec![], vec![Event::Said(open(1))]));
    assert!(!a.is_waiting() && passed.len() <= 10, "{}", passed.len());
    // From now on there and back are enough.
    assert!(b.say(1, Message::Alive));
    let (at_a, _, passed) = talk(1, &mut a, &mut b);
    assert_eq!((at_a, passed.len()), (vec![Event::Said(Message::Alive)], 2));
}

#[test]
fn what_is_confirmed_at_once_measures_the_way() {
    let (mut a, mut b) = (control(1, 2, 0), control(2, 1, 0));
    talk(0, &mut a, &mut b);
    let confirmed = |a: &mut Control, b: &mut Control, sent: Nanos, heard: Nanos| {
        hear(b, 2, &said(a, sent));
        for d in said(b, sent) {
            a.handle(heard, &d, |_| true);
        }
    };
    assert_eq!(a.rtt_ns(), None);
    assert!(a.say(10, Message::Alive));
    confirmed(&mut a, &mut b, 10, 8_010);
    assert_eq!(a.rtt_ns(), Some(8_000));
    // The copy of a repeated message that is confirmed is unknown: the longer path counts.
    assert!(a.say(20, Message::Alive));
    said(&mut a, 20);
    confirmed(&mut a, &mut b, 20 + REPEAT_NS, 20 + REPEAT_NS);
    assert!(!a.is_waiting());
    assert_eq!(a.rtt_ns(), Some(7_000 + REPEAT_NS / 8));
}

/// Found by fuzzing: B knows A, A not B, but A has heard what B wants to hear.
#[test]
fn who_knows_the_other_still_answers() {
    let (mut a, mut b, mut c) = (control(1, 2, 0), control(2, 1, 0), control(3, 2, 0));
    let first = said(&mut b, 0);
    said(&mut a, 0);
    hear(&mut a, 1, &first);
    let answer = said(&mut a, 0);
    hear(&mut b, 2, &answer);
    // B knows A now. The answer of B is lost.
    said(&mut b, 0);
    // An attacker sends B a message of a third gateway, as from A.
    let greeting = said(&mut c, 0);
    hear(&mut b, 2, &greeting);
    let confused = said(&mut b, 0);
    assert_eq!(hear(&mut a, 1, &confused), []);
    assert!(a.say(0, open(1)));
    assert_eq!(talk(0, &mut a, &mut b).1, [Event::Said(open(1))]);
}

#[test]
fn own_words_sent_back_are_nothing() {
    let mut a = control(1, 2, 0);
    assert!(a.say(0, Message::Alive));
    // The only other end is an echo: it is no peer, however long it goes on.
    let mut now = 0;
    while now < LOST_NS {
        while let Some(d) = a.poll_transmit(now) {
            assert_eq!(a.handle(0, &d, |_| true), None);
        }
        now = a.poll_timeout().unwrap();
    }
    assert!(a.is_waiting());
    assert_eq!(a.poll_lost(LOST_NS), Some(Event::Lost));
    // In a conversation too.
    let (mut a, mut b) = (control(1, 2, 0), control(2, 1, 0));
    assert!(a.say(0, open(1)));
    let (_, _, passed) = talk(0, &mut a, &mut b);
    for datagrams in [said(&mut a, 0), passed] {
        assert_eq!(hear(&mut a, 1, &datagrams), []);
    }
}

#[test]
fn what_was_recorded_is_nothing_after_a_restart() {
    let (mut a, mut b) = (control(1, 2, 0), control(2, 1, 0));
    assert!(a.say(0, open(1)));
    let (_, _, first) = talk(0, &mut a, &mut b);
    // The receiver of the message starts again: the message is not for it.
    let mut b = control(2, 1, 1);
    assert_eq!(hear(&mut b, 2, &first), []);
    let (at_a, at_b, _) = talk(1, &mut a, &mut b);
    assert_eq!((at_a, at_b), (vec![Event::Restarted], vec![]));
    assert_eq!(hear(&mut b, 2, &first), []);
    // The message's sender starts again, and is known by that alone.
    assert!(a.say(2, open(2)));
    let (_, at_b, second) = talk(2, &mut a, &mut b);
    assert_eq!(at_b, [Event::Said(open(2))]);
    let mut a = control(1, 2, 1);
    assert!(a.say(3, open(3)));
    let (_, at_b, _) = talk(3, &mut a, &mut b);
    assert_eq!(at_b, [Event::Restarted, Event::Said(open(3))]);
    // No word of the first conversation makes the second forget, or begin again.
    for recorded in [first, second] {
        assert_eq!(hear(&mut b, 2, &recorded), []);
        assert_eq!(talk(4, &mut a, &mut b).1, []);
    }
    assert!(a.say(5, open(4)));
    assert_eq!(talk(5, &mut a, &mut b).1, [Event::Said(open(4))]);
}

#[test]
fn what_was_held_back_is_nothing_either() {
    let (mut a, mut b) = (control(1, 2, 0), control(2, 1, 0));
    talk(0, &mut a, &mut b);
    // Sent, and caught on the way; then the sender is another.
    assert!(a.say(1, open(1)));
    let caught = said(&mut a, 1);
    let mut a = control(1, 2, 1);
    assert!(a.say(2, open(2)));
    assert_eq!(
        talk(2, &mut a, &mut b).1,
        [Event::Restarted, Event::Said(open(2))]
    );
    assert_eq!(hear(&mut b, 2, &caught), []);
    assert!(a.say(3, open(3)));
    assert_eq!(talk(3, &mut a, &mut b).1, [Event::Said(open(3))]);
}

#[test]
fn what_is_for_another_peer_is_nothing() {
    // Three gateways share a key. Messages from 1 to 2 are shown to 3 as from 1, and 3's
    // answers to 1 as from 2.
    let (mut a, mut c) = (control(1, 2, 0), control(3, 1, 0));
    assert!(a.say(0, open(1)));
    assert!(c.say(0, open(2)));
    let mut now = 0;
    while now < LOST_NS / 2 {
        let (from_a, from_c) = (said(&mut a, now), said(&mut c, now));
        assert_eq!(hear(&mut c, 3, &from_a), []);
        assert_eq!(hear(&mut a, 1, &from_c), []);
        now += REPEAT_NS;
    }
    assert!(a.is_waiting() && c.is_waiting());
}

#[test]
fn a_peer_that_is_silent_is_lost() {
    let mut a = control(1, 2, 0);
    assert!(a.say(0, open(1)));
    assert_eq!(a.poll_lost(LOST_NS - 1), None);
    assert_eq!(a.poll_lost(LOST_NS), Some(Event::Lost));
    assert!(!a.is_waiting());
    assert_eq!(a.poll_lost(2 * LOST_NS), None);
}

#[test]
fn a_peer_that_confirms_other_things_is_not_lost() {
    let (mut a, mut b) = (control(1, 2, 0), control(2, 1, 0));
    talk(0, &mut a, &mut b);
    assert!(a.say(0, open(1)));
    // The first message is lost again and again.
    said(&mut a, 0);
    assert!(b.say(LOST_NS / 2, Message::Alive));
    hear(&mut b, 2, &[]);
    for d in said(&mut b, LOST_NS / 2) {
        a.handle(LOST_NS / 2, &d, |_| true);
    }
    assert_eq!(a.poll_lost(LOST_NS), None);
    assert_eq!(a.poll_lost(LOST_NS + LOST_NS / 2), Some(Event::Lost));
}

#[test]
fn who_speaks_another_version_is_named() {
    let mut a = control(1, 2, 0);
    assert_eq!(
        a.handle(0, b"LGW1, what is this?", |_| true),
        Some(Event::OtherVersion)
    );
    assert_eq!(a.handle(0, b"?", |_| true), None);
}

#[test]
fn what_waits_costs_nothing_until_it_is_due() {
    let (mut a, mut b) = (control(1, 2, 0), control(2, 1, 0));
    talk(0, &mut a, &mut b);
    for c in 0..MAX_WAITING as u64 {
        assert!(a.say(c, open(c)));
    }
    assert!(!a.say(0, Message::Alive), "bounded");
    // In the order of sending, none twice before its pause is over.
    let now = MAX_WAITING as u64;
    assert_eq!(said(&mut a, now).len(), MAX_WAITING);
    assert_eq!(a.poll_transmit(now), None);
    assert_eq!(a.poll_timeout(), Some(now + REPEAT_NS));
}

proptest! {
    #[test]
    fn each_message_is_taken_once_whatever_is_lost_or_comes_again(
        ways in prop::collection::vec((any::<(bool, bool)>(), 0usize..8), 1..200), count in 1u64..20,
    ) {
        let (mut a, mut b) = (control(1, 2, 0), control(2, 1, 0));
        for c in 0..count {
            prop_assert!(a.say(0, open(c)));
        }
        let (mut taken, mut old) = (Vec::new(), Vec::new());
        let (mut now, mut ways) = (0, ways.into_iter());
        while a.is_waiting() {
            prop_assert!(now < LOST_NS * 20);
            while let Some(bytes) = a.poll_transmit(now) {
                // When the list is over, everything arrives.
                let ((there, back), again) = ways.next().unwrap_or(((true, true), 99));
                old.push(bytes.clone());
                let repeated = old.get(again).cloned();
                for d in there.then_some(bytes).into_iter().chain(repeated) {
                    taken.extend(b.handle(0, &d, |a| a == ip(2)));
                }
                while let Some(answer) = b.poll_transmit(now) {
                    if back {
                        prop_assert_eq!(a.handle(0, &answer, |a| a == ip(1)), None);
                    }
                }
            }
            now = a.poll_timeout().unwrap_or(now);
        }
        taken.sort_by_key(|e| match e {
            Event::Said(Message::Open { connection, .. }) => *connection,
            _ => u64::MAX,
        });
        let all: Vec<Event> = (0..count).map(|c| Event::Said(open(c))).collect();
        prop_assert_eq!(taken, all);
    }
}
