//! Machines that hold parts of a lab, in virtual time, with everything that goes wrong: questions and answers late or lost,
//! partitions, machines that die, freeze for half a minute and thaw, clocks that run fast and slow. In the spirit of Jepsen.
//!
//! `CONSTEL_TENURE_HOURS=N` runs N hours of lab time for each seed instead of six minutes.

use std::collections::{BTreeMap, BTreeSet};

use constel_cluster::store::{Error, Fence, Memory, Outcome, StoreReply, StoreRequest, Tenure};
use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};

const TICK_NS: u64 = 20_000_000;
const S: u64 = 1_000_000_000;

struct Dice(TestRng);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0.next_u64() % most
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
}

struct Machine {
    name: String,
    tenure: Option<Tenure>,
    /// The number of its life. Answers to requests of a former life are dropped.
    life: u64,
    /// How much faster than time its clock runs, parts per million, and where it began.
    rate_ppm: i64,
    offset_ns: u64,
    frozen_until: u64,
    cut_until: u64,
    dead_until: u64,
    /// Frames that were looked at and not sent when it froze.
    held_up: Vec<(String, u64)>,
}

impl Machine {
    fn clock(&self, t_ns: u64) -> u64 {
        let gained = i128::from(t_ns) * i128::from(self.rate_ppm) / 1_000_000;
        self.offset_ns + u64::try_from(i128::from(t_ns) + gained).unwrap()
    }
}

enum Message {
    Question([u64; 2], StoreRequest),
    Answer([u64; 2], StoreReply),
}

#[derive(Default, Debug)]
struct Seen {
    violations: Vec<String>,
    held_ticks: u64,
    ticks: u64,
    owners: BTreeMap<String, BTreeSet<u64>>,
    freezes: u64,
    deaths: u64,
    cuts: u64,
    refused_frames: u64,
    /// A free part is held again after this time at most.
    longest_free_ns: u64,
}

struct World {
    dice: Dice,
    t_ns: u64,
    store: Memory,
    machines: Vec<Machine>,
    parts: Vec<String>,
    /// By when they arrive: the machine, and what.
    mail: BTreeMap<(u64, u64), (usize, Message)>,
    sent: u64,
    fence: Fence,
    newest: BTreeMap<String, u64>,
    free_since: BTreeMap<String, u64>,
    seen: Seen,
}

impl World {
    fn new(seed: u8) -> Self {
        let mut dice = Dice(TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]));
        let parts: Vec<String> = ["part/0", "part/1"].map(str::to_owned).to_vec();
        let machines = (0..4).map(|number| Machine {
            name: format!("m{number}"),
            tenure: Some(Tenure::new(&format!("m{number}"), parts.clone())),
            life: 0,
            rate_ppm: dice.below(1_801) as i64 - 900,
            offset_ns: dice.below(1 << 40),
            frozen_until: 0,
            cut_until: 0,
            dead_until: 0,
            held_up: Vec::new(),
        });
        Self {
            machines: machines.collect(),
            dice,
            t_ns: 0,
            store: Memory::new(),
            free_since: parts.iter().map(|part| (part.clone(), 0)).collect(),
            parts,
            mail: BTreeMap::new(),
            sent: 0,
            fence: Fence::new(),
            newest: BTreeMap::new(),
            seen: Seen::default(),
        }
    }

    /// Mostly some milliseconds, sometimes seconds, sometimes never.
    fn post(&mut self, machine: usize, message: Message, is_calm: bool) {
        let cut = self.machines[machine].cut_until > self.t_ns;
        if cut || (!is_calm && self.dice.one_in(20)) {
            return;
        }
        let slow = !is_calm && self.dice.one_in(15);
        let most_ns = if slow { 5 * S } else { S / 10 };
        let at = self.t_ns + 1 + self.dice.below(most_ns);
        self.sent += 1;
        self.mail.insert((at, self.sent), (machine, message));
    }

    fn serve(&mut self, ask: StoreRequest) -> StoreReply {
        match ask {
            StoreRequest::Grant(ttl) => {
                let lease = self.store.grant(ttl, self.t_ns);
                StoreReply::Granted(lease.id, lease.ttl)
            }
            StoreRequest::KeepAlive(lease) => match self.store.keep_alive(lease, self.t_ns) {
                Ok(()) => StoreReply::KeptAlive,
                Err(_) => StoreReply::LeaseLost,
            },
            StoreRequest::Claim(_, txn) => match self.store.commit(&txn) {
                Ok(Outcome::Committed { revision }) => StoreReply::Claimed(revision),
                Ok(Outcome::Refused) => StoreReply::Taken,
                Err(Error::LeaseLost(_)) => StoreReply::LeaseLost,
                Err(error) => panic!("{error}"),
            },
            StoreRequest::Look(key) => StoreReply::Looked(
                self.store
                    .get(&key)
                    .map(|entry| (entry.lease, entry.created)),
            ),
        }
    }

    fn faults(&mut self) {
        for machine in 0..self.machines.len() {
            let t_ns = self.t_ns;
            if self.dice.one_in(3_000) {
                self.machines[machine].frozen_until = t_ns + self.dice.below(40 * S);
                self.seen.freezes += 1;
                // It looked at its clock, and then it froze.
                let clock = self.machines[machine].clock(t_ns);
                let tenure = self.machines[machine].tenure.as_ref();
                let tokens = self
                    .parts
                    .iter()
                    .filter_map(|part| Some((part.clone(), tenure?.token(part, clock)?)));
                let tokens: Vec<_> = tokens.collect();
                self.machines[machine].held_up.extend(tokens);
            }
            if self.dice.one_in(3_000) {
                self.machines[machine].cut_until = t_ns + self.dice.below(20 * S);
                self.seen.cuts += 1;
            }
            if self.dice.one_in(6_000) {
                self.machines[machine].tenure = None;
                self.machines[machine].life += 1;
                self.machines[machine].held_up.clear();
                self.machines[machine].dead_until = t_ns + self.dice.below(10 * S);
                self.seen.deaths += 1;
            }
        }
    }

    fn tick(&mut self, is_calm: bool) {
        self.t_ns += TICK_NS;
        if !is_calm {
            self.faults();
        }
        while let Some(first) = self
            .mail
            .first_entry()
            .filter(|first| first.key().0 <= self.t_ns)
        {
            let (machine, message) = first.remove();
            match message {
                Message::Question(number, ask) => {
                    self.store.expire(self.t_ns);
                    let answer = self.serve(ask);
                    self.post(machine, Message::Answer(number, answer), is_calm);
                }
                // Waits in a buffer while the machine is frozen.
                Message::Answer(..) if self.machines[machine].frozen_until > self.t_ns => {
                    let at = self.machines[machine].frozen_until;
                    self.sent += 1;
                    self.mail.insert((at, self.sent), (machine, message));
                }
                Message::Answer(number, answer) => {
                    let clock = self.machines[machine].clock(self.t_ns);
                    let [life, number] = number;
                    let one = &mut self.machines[machine];
                    if let Some(tenure) = one.tenure.as_mut().filter(|_| one.life == life) {
                        tenure.answered(number, answer, clock);
                    }
                }
            }
        }
        self.store.expire(self.t_ns);
        for machine in 0..self.machines.len() {
            self.live(machine, is_calm);
        }
        self.look();
    }

    fn live(&mut self, machine: usize, is_calm: bool) {
        let (t_ns, parts) = (self.t_ns, self.parts.clone());
        let one = &mut self.machines[machine];
        if one.frozen_until > t_ns || one.dead_until > t_ns {
            return;
        }
        let clock = one.clock(t_ns);
        let name = one.name.clone();
        let tenure = one
            .tenure
            .get_or_insert_with(|| Tenure::new(&name, parts.clone()));
        let asked = tenure.next(clock);
        let fresh: Vec<_> = parts
            .iter()
            .filter_map(|part| Some((part.clone(), tenure.token(part, clock)?)))
            .collect();
        let frames: Vec<_> = one.held_up.drain(..).chain(fresh).collect();
        for (part, token) in frames {
            let newest = self.newest.entry(part.clone()).or_default();
            if !self.fence.admits(&part, token) {
                self.seen.refused_frames += 1;
            } else if token < *newest {
                self.seen.violations.push(format!(
                    "{t_ns}: a frame of {part} with {token} after {newest}"
                ));
            } else {
                *newest = token;
            }
        }
        if let Some((number, ask)) = asked {
            let life = self.machines[machine].life;
            self.post(machine, Message::Question([life, number], ask), is_calm);
        }
    }

    /// At no instant do two machines hold one part by their own clocks, frozen or not; and the store has the holder.
    fn look(&mut self) {
        for part in &self.parts {
            let holds = |machine: &&Machine| {
                let clock = machine.clock(self.t_ns);
                machine
                    .tenure
                    .as_ref()
                    .is_some_and(|tenure| tenure.token(part, clock).is_some())
            };
            let holders: Vec<&Machine> = self.machines.iter().filter(holds).collect();
            self.seen.ticks += 1;
            if holders.len() > 1 {
                let names: Vec<_> = holders.iter().map(|machine| &machine.name).collect();
                self.seen
                    .violations
                    .push(format!("{}: {part} is held by {names:?}", self.t_ns));
            }
            let Some(holder) = holders.first() else {
                continue;
            };
            self.seen.held_ticks += 1;
            let token = holder
                .tenure
                .as_ref()
                .unwrap()
                .token(part, holder.clock(self.t_ns))
                .unwrap();
            self.seen
                .owners
                .entry(part.clone())
                .or_default()
                .insert(token);
            if self
                .store
                .get(part)
                .is_none_or(|entry| entry.created != token)
            {
                self.seen.violations.push(format!(
                    "{}: the store does not know of {part}'s holder",
                    self.t_ns
                ));
            }
            let since = self.free_since.insert(part.clone(), self.t_ns).unwrap();
            self.seen.longest_free_ns = self.seen.longest_free_ns.max(self.t_ns - since);
        }
    }
}

#[test]
fn no_part_is_ever_held_twice() {
    let hours: Option<u64> = std::env::var("CONSTEL_TENURE_HOURS")
        .ok()
        .map(|hours| hours.parse().unwrap());
    let length_ns = hours.map_or(360 * S, |hours| hours * 3_600 * S);
    for seed in 0..20 {
        let mut world = World::new(seed);
        while world.t_ns < length_ns {
            world.tick(false);
        }
        let seen = &world.seen;
        let owners: usize = seen.owners.values().map(BTreeSet::len).sum();
        eprintln!(
            "seed {seed}: {} s, held {:.1} %, {owners} owners, {} freezes, {} deaths, {} cuts, {} late frames refused, free {:.1} s at most",
            length_ns / S,
            seen.held_ticks as f64 / seen.ticks as f64 * 100.0,
            seen.freezes,
            seen.deaths,
            seen.cuts,
            seen.refused_frames,
            seen.longest_free_ns as f64 / 1e9,
        );
        assert!(
            seen.violations.is_empty(),
            "seed {seed}: {:#?}",
            &seen.violations[..seen.violations.len().min(5)]
        );
        assert!(
            seen.held_ticks * 2 > seen.ticks,
            "seed {seed}: mostly somebody holds it"
        );
        assert!(owners > 4, "seed {seed}: parts change hands");
        // When all is well again, so are the parts: a lease's time, and some questions.
        for _ in 0..60 * S / TICK_NS {
            world.tick(true);
        }
        let calm = world.machines.iter().filter(|machine| {
            let clock = machine.clock(world.t_ns);
            let tenure = machine.tenure.as_ref();
            world
                .parts
                .iter()
                .any(|part| tenure.is_some_and(|tenure| tenure.token(part, clock).is_some()))
        });
        assert!(calm.count() >= 1);
        for part in &world.parts {
            assert!(
                world.free_since[part] + S > world.t_ns,
                "seed {seed}: {part} is held again"
            );
        }
    }
}
