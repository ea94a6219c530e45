//! Three gateways share a key; an attacker controls all wires but does not have the key. The script decides which messages are
//! lost, recorded, sent back, repeated, sent to another gateway, changed or invented, and which gateway restarts. Each message
//! must be accepted at most once, by its addressee, in the session in which it was sent. A restarted gateway's identity cannot
//! be taken over. When the attacker stops, everything must arrive.

use leotp::gateway::control::{Control, Event, Message};
use std::collections::HashMap;
use std::net::IpAddr;

use super::Target;

pub(super) fn targets() -> Vec<Target> {
    vec![Target::new("leotp-gateways", scripts, gateways)]
}

fn scripts() -> Vec<Vec<u8>> {
    (0..8)
        .map(|first: u8| {
            (0..200)
                .map(|n: u8| n.wrapping_mul(37).wrapping_add(first))
                .collect()
        })
        .collect()
}

const KEY: [u8; 32] = [9; 32];
const GATEWAYS: usize = 3;
const STEP: u64 = 250_000_000;

fn ip(g: usize) -> IpAddr {
    [10, 0, 0, g as u8].into()
}

struct World {
    /// Each gateway's sessions with the others.
    controls: Vec<HashMap<usize, Control>>,
    starts: [u8; GATEWAYS],
    now: u64,
    /// Connection number -> (sender, addressee, start numbers of both, whether it was accepted).
    said: HashMap<u64, (usize, usize, u8, u8, bool)>,
    /// Restarts that have not been noticed: (restarted gateway, gateway that has not noticed), how many. A late message of the
    /// start before the last one turns one notice into two.
    restarts: HashMap<(usize, usize), u32>,
    recorded: Vec<(usize, usize, Vec<u8>)>,
}

impl World {
    fn start(&mut self, g: usize) {
        self.starts[g] += 1;
        // A restarted gateway has no sessions and notices nothing.
        self.restarts.retain(|(_, by), _| *by != g);
        self.controls[g] = (0..GATEWAYS)
            .filter(|p| *p != g)
            .map(|p| {
                let mut seed = [g as u8; 32];
                (seed[0], seed[1]) = (self.starts[g], p as u8);
                if self.starts[g] > 1 {
                    *self.restarts.entry((g, p)).or_insert(0) += 1;
                }
                (p, Control::new(KEY, seed, ip(p)))
            })
            .collect();
    }

    fn say(&mut self, from: usize, to: usize) {
        let connection = self.said.len() as u64;
        let message = match connection % 3 {
            0 => Message::Reset { connection },
            1 => Message::Done { connection },
            _ => Message::Open {
                connection,
                up: 1,
                down: 2,
                src: (ip(from), 1).into(),
                dst: (ip(to), 2).into(),
            },
        };
        if let Some(c) = self.controls[from].get_mut(&to) {
            assert!(c.say(self.now, message));
            let said = (from, to, self.starts[from], self.starts[to], false);
            self.said.insert(connection, said);
        }
    }

    /// Delivers `bytes` to `to` with `from`'s address.
    fn hear(&mut self, from: usize, to: usize, bytes: &[u8]) {
        let Some(c) = self.controls[to].get_mut(&from) else {
            return;
        };
        match c.handle(0, bytes, |a| a == ip(to)) {
            Some(Event::Said(message)) => {
                let connection = match message {
                    Message::Reset { connection }
                    | Message::Done { connection }
                    | Message::Open { connection, .. } => connection,
                    Message::Alive => return,
                };
                let entry = self
                    .said
                    .get_mut(&connection)
                    .expect("somebody has said it");
                assert_eq!((entry.0, entry.1), (from, to), "by the peer, to us");
                let unnoticed = self.restarts.get(&(from, to)).is_some_and(|n| *n > 0);
                assert!(
                    entry.2 == self.starts[from] || unnoticed,
                    "by the peer that is"
                );
                assert!(!std::mem::replace(&mut entry.4, true), "once");
            }
            Some(Event::Restarted) => {
                let unnoticed = self.restarts.get_mut(&(from, to)).filter(|n| **n > 0);
                *unnoticed.expect("it has started anew, and not been noticed") -= 1;
            }
            Some(Event::OtherVersion) | None => {}
            Some(Event::Lost) => unreachable!("only time says that"),
        }
    }

    /// Returns the messages that the gateways send now, within a limit.
    fn sent(&mut self) -> Vec<(usize, usize, Vec<u8>)> {
        let mut all = Vec::new();
        for (g, controls) in self.controls.iter_mut().enumerate() {
            for p in 0..GATEWAYS {
                let Some(c) = controls.get_mut(&p) else {
                    continue;
                };
                while let Some(bytes) = c.poll_transmit(self.now) {
                    all.push((g, p, bytes));
                    assert!(all.len() < 10_000, "an end of datagrams");
                }
            }
        }
        all
    }
}

fn gateways(data: &[u8]) -> bool {
    let mut w = World {
        controls: (0..GATEWAYS).map(|_| HashMap::new()).collect(),
        starts: [0; GATEWAYS],
        now: 1,
        said: HashMap::new(),
        restarts: HashMap::new(),
        recorded: Vec::new(),
    };
    for g in 0..GATEWAYS {
        w.start(g);
    }
    let mut script = data[..data.len().min(600)].iter().copied();
    while let Some(op) = script.next() {
        let arg = usize::from(script.next().unwrap_or(0));
        let (a, b) = (arg % GATEWAYS, (arg / GATEWAYS) % GATEWAYS);
        match op % 8 {
            0 => w.say(a, b),
            1 if w.starts[a] < 20 => w.start(a),
            // A recorded message, with an addressee and a sender that the script chooses.
            2 | 3 if !w.recorded.is_empty() => {
                let which = usize::from(script.next().unwrap_or(0)) % w.recorded.len();
                let mut bytes = w.recorded[which].2.clone();
                if op % 8 == 3 {
                    let at = usize::from(script.next().unwrap_or(0)) % bytes.len();
                    bytes[at] ^= script.next().unwrap_or(1);
                }
                w.hear(a, b, &bytes);
            }
            4 => {
                let n = arg.min(script.len());
                let made_up: Vec<u8> = script.by_ref().take(n).collect();
                w.hear(a, b, &made_up);
            }
            5 => w.now += STEP * (1 + arg as u64 % 8),
            _ => {
                for (from, to, bytes) in w.sent() {
                    let fate = script.next().unwrap_or(0);
                    if w.recorded.len() < 300 {
                        w.recorded.push((from, to, bytes.clone()));
                    }
                    match fate % 4 {
                        0 | 1 => w.hear(from, to, &bytes),
                        2 => w.hear(to, from, &bytes),
                        _ => {}
                    }
                }
            }
        }
    }
    // The attacker stops; no message is lost any more.
    for (from, to) in [(0, 1), (1, 2), (2, 0), (1, 0)] {
        w.say(from, to);
    }
    for _ in 0..60 {
        for (from, to, bytes) in w.sent() {
            w.hear(from, to, &bytes);
        }
        w.now += STEP;
    }
    for (from, to, at_from, at_to, taken) in w.said.values() {
        // Messages to or from an earlier start may be lost with it. If a restart was noticed late, messages sent in between may
        // be lost too.
        let still = (*at_from, *at_to) == (w.starts[*from], w.starts[*to]);
        assert!(*taken || !still || w.starts.iter().any(|s| *s > 1));
    }
    assert!(
        w.controls
            .iter()
            .all(|c| c.values().all(|c| !c.is_waiting())),
        "all is said"
    );
    true
}
