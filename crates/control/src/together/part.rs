//! The worker process of a machine's part of a lab. Its agent starts it and exchanges messages with it.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};
use std::net::{IpAddr, UdpSocket};
use std::num::{NonZeroU32, NonZeroU64};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use constel_cluster::agent::labs::speech::{
    ChangeMessage, FromWorker, Heartbeat, MachineLost, NodesReturnedMessage, RESULTS, ToWorker,
    read,
};
use constel_cluster::agent::labs::{LabDescription, UnderlaySettings, hold};
use constel_cluster::crossing::{
    Crossing, Endpoint, Interface, LabTime, Machine, MachineTransport, OpenError, Wire,
};
use constel_cluster::machines::{Homes, Moved};
use constel_lab::{
    Change, ClusterPart, EngineError, Gate, Loss, ManualChange, PartReady, Progress, Return,
    ScheduledChange,
};
use rustix::time::{ClockId, clock_gettime};

use super::ask::ChosenMachines;
use super::name_there;
use crate::error::Error;
use crate::run::RunOptions;
use crate::scenario::Scenario;

/// How soon an end is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Minimum time from the moment when lab time zero is known until lab time zero, nanoseconds.
const LEAST_AHEAD_NS: u64 = 50_000_000;
/// Maximum drift between the clocks, nanoseconds. Each machine times its steps by its own clock from lab time zero on, so
/// clocks that have drifted further apart are not a common clock.
const MOST_DRIFT_NS: u64 = 1_000_000;

/// The address or the interface on which a part sends and receives, depending on the order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Underlay {
    /// The address, for UDP.
    pub address: IpAddr,
    /// The interface, for raw Ethernet.
    pub interface: String,
}

impl Underlay {
    fn wire(&self, transport: MachineTransport) -> Result<Wire, EngineError> {
        match transport {
            MachineTransport::Udp => UdpSocket::bind((self.address, 0))
                .map(Wire::Udp)
                .map_err(io("listen")),
            MachineTransport::Ethernet => {
                let interface = Interface::named(&self.interface).map_err(OpenError::from)?;
                Ok(Wire::Ethernet(interface))
            }
        }
    }
}

fn io(what: &str) -> impl Fn(io::Error) -> EngineError {
    let what = what.to_owned();
    move |source| EngineError::Io {
        what: what.clone(),
        source,
    }
}

/// Runs the part of `machine` of the lab whose order is in `folder`. It sends and receives on the underlay, and exchanges
/// messages with its agent on standard input and output. It ends on request, when its input ends, and when the machine may
/// not send any more.
///
/// `workers` threads create its nodes.
pub fn run_part(folder: &Path, machine: &str, underlay: &Underlay, workers: NonZeroU32) {
    let talk = Arc::new(Talk::default());
    // Held as long as this process lives, because `constel clean` removes folders without a lock.
    let _hold = hold(folder);
    let ended = part(&talk, folder, machine, underlay, workers);
    let by_hand = || Some("its lab was taken down on its machine alone".to_owned());
    let failure = match ended {
        // The agent requested the end and knows the reason.
        _ if talk.told.load(Ordering::Acquire) => None,
        Ok(interrupted) => talk.heard().over.clone().or_else(|| match interrupted {
            true => by_hand(),
            false => None,
        }),
        Err(error) if error.exit() == crate::Exit::Interrupted => by_hand(),
        Err(error) => Some(error.to_string()),
    };
    talk.say(&FromWorker::Ended { failure });
}

/// Whether it ended before its time.
fn part(
    talk: &Arc<Talk>,
    folder: &Path,
    machine: &str,
    underlay: &Underlay,
    workers: NonZeroU32,
) -> Result<bool, Error> {
    let given = read(folder).map_err(io("read the order"))?;
    let order = given.order;
    let mut files = given.files.into_iter();
    let Some((shown, text)) = files.next() else {
        return Err(EngineError::Apart("the order has no scenario".to_owned()).into());
    };
    let scenario = Scenario::given(&shown, &text, files.collect())?;
    let asked = ChosenMachines::of(&order)?;
    let placement = asked.place(&scenario)?;
    let Some(here) = asked.machines.find(machine) else {
        let text = format!("the order is not for machine {machine}");
        return Err(EngineError::Apart(text).into());
    };
    let wire = underlay.wire(order.between)?;
    let listens = wire.endpoint().map_err(io("listen"))?;
    let hearing = Arc::clone(talk);
    thread::spawn(move || hearing.hear(io::stdin().lock()));
    let watching = Arc::clone(talk);
    thread::spawn(move || watching.watch());
    let name = name_there(&order.lab, machine)?;
    talk.say(&FromWorker::Called(name.to_string()));
    talk.first_beat()?;
    talk.say(&FromWorker::Listening(listens));
    let ways = talk.ways()?;
    let nodes = scenario.lab.layout.nodes().iter();
    let homes = asked.homes(&scenario, placement.clone());
    let (moves, following) = (order.moves, Arc::clone(talk));
    let news = talk.news_of_machines();
    thread::spawn(move || following.follow(homes, moves, news));
    let together = ClusterPart {
        lab: order.lab.clone(),
        here,
        machines: machines(&order, &ways),
        machine_of: nodes.map(|node| placement.machine_of(node.id)).collect(),
        number: ways.number,
        session: ways.session,
        workers,
        ahead_ns: ways.ahead_ns,
        key: ways.key.clone(),
        wire,
        time: talk.time.clone(),
        gate: Arc::clone(talk) as Arc<dyn Gate>,
    };
    let options = RunOptions {
        results: Some(folder.join(RESULTS)),
        duration_ns: order.duration_ns.and_then(NonZeroU64::new),
        traffic: order.traffic,
        stop: Arc::clone(&talk.stop),
        ..RunOptions::default()
    };
    let progress = Arc::new(WorkerProgress(Arc::clone(talk)));
    let running = scenario.start_as(name, options, Some(together), progress)?;
    running.wait().map(|finished| finished.summary.interrupted)
}

fn machines(order: &LabDescription, ways: &UnderlaySettings) -> Vec<Machine> {
    let all = order.machines.iter().zip(&ways.machines);
    let machine =
        |(node, (address, token)): (&constel_cluster::agent::labs::Node, &(Endpoint, u32))| {
            Machine {
                name: node.name.clone(),
                address: *address,
                token: *token,
            }
        };
    all.map(machine).collect()
}

/// `CLOCK_BOOTTIME`, by which leases go.
fn boottime_ns() -> u64 {
    clock_ns(ClockId::Boottime)
}

fn clock_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    // Since boot: never negative, and 584 years fit.
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// The state of the conversation with the agent.
#[derive(Default)]
struct Talk {
    stop: Arc<AtomicBool>,
    /// The agent has requested the end.
    told: AtomicBool,
    time: LabTime,
    /// The time until which the machine may send, or 0 before the first message.
    until_ns: AtomicU64,
    heard: Mutex<Received>,
    news: Condvar,
}

#[derive(Default)]
struct Received {
    beat: Option<Heartbeat>,
    ways: Option<UnderlaySettings>,
    /// Lab time zero by the clock that all machines have in common.
    go: Option<u64>,
    /// The state of the clock at lab time zero.
    began: Option<Heartbeat>,
    /// Losses and returns of machines.
    changes: Vec<Change>,
    /// Manual changes that all machines apply.
    set: Vec<ScheduledChange>,
    /// The thread that computes the effects of losses and returns.
    follows: Option<Sender<News>>,
    /// The furthest that both clocks went apart since.
    drift_ns: u64,
    crossing: Option<Arc<Crossing>>,
    /// Why the part ends by itself.
    over: Option<String>,
}

/// A loss or a return of a machine, as received.
enum News {
    Lost(MachineLost),
    Back(NodesReturnedMessage),
}

impl Talk {
    fn heard(&self) -> MutexGuard<'_, Received> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message to the agent. An agent that no longer reads is noticed when the input ends.
    fn say(&self, what: &FromWorker) {
        if let Ok(mut line) = serde_json::to_vec(what) {
            line.push(b'\n');
            let mut out = io::stdout().lock();
            let _ = out.write_all(&line).and_then(|()| out.flush());
        }
    }

    fn end(&self, why: Option<&str>) {
        if let Some(why) = why {
            self.heard().over.get_or_insert_with(|| why.to_owned());
        }
        self.stop.store(true, Ordering::Release);
        self.news.notify_all();
    }

    /// Until the agent is silent for ever.
    fn hear(&self, said: impl BufRead) {
        for line in said.lines().map_while(io::Result::ok) {
            match serde_json::from_str(&line) {
                Ok(ToWorker::Beat(beat)) => self.beat(beat),
                Ok(ToWorker::Ways(ways)) => self.heard().ways = Some(ways),
                Ok(ToWorker::Go(zero_ns)) => {
                    let mut heard = self.heard();
                    heard.began = heard.beat;
                    heard.go = Some(zero_ns);
                }
                Ok(ToWorker::Lost(lost)) => self.lose(lost),
                Ok(ToWorker::Back(back)) => self.tell(News::Back(back)),
                Ok(ToWorker::Change(changing)) => self.change(changing),
                Ok(ToWorker::End) => {
                    self.told.store(true, Ordering::Release);
                    self.end(None);
                }
                Err(_) => {}
            }
            self.news.notify_all();
        }
        self.end(Some(
            "its agent has ended: it is unknown whether this machine may still send",
        ));
    }

    /// Stops sending to a lost machine. Its nodes are removed at the next step.
    fn lose(&self, lost: MachineLost) {
        if let Some(crossing) = &self.heard().crossing {
            crossing.lose(lost.machine);
        }
        self.tell(News::Lost(lost));
    }

    /// Applies a manual change. All machines get the same text, so if one of them cannot parse it, none can.
    fn change(&self, changing: ChangeMessage) {
        let ChangeMessage {
            by,
            number,
            at_ns,
            what,
        } = changing;
        if let Ok(what) = serde_json::from_value(what) {
            let by = (by, number);
            self.heard().set.push(ScheduledChange { by, at_ns, what });
        }
    }

    /// Forwards a loss or a return to the thread that computes its effects, because this may take longer than messages of
    /// the agent may wait.
    fn tell(&self, news: News) {
        let heard = self.heard();
        if let Some(follows) = &heard.follows {
            // It ends with this process.
            let _ = follows.send(news);
        }
    }

    /// Returns the receiver of all later losses and returns.
    fn news_of_machines(&self) -> Receiver<News> {
        let (send, news) = channel();
        self.heard().follows = Some(send);
        news
    }

    /// Computes the machines of the nodes as machines are lost, and informs the lab.
    fn follow(&self, mut homes: Homes, moves: bool, news: Receiver<News>) {
        for news in news {
            let change = match news {
                News::Lost(MachineLost { machine, from_ns }) => {
                    let Some(Moved { nodes, to }) = homes.lose(machine, moves) else {
                        continue;
                    };
                    let takers: BTreeSet<usize> = to.values().copied().collect();
                    if !takers.is_empty() {
                        let takers = takers.into_iter().collect();
                        self.say(&FromWorker::Takers { machine, takers });
                    }
                    Change::Lost(Loss {
                        machine,
                        from_ns,
                        nodes,
                        to,
                    })
                }
                News::Back(back) => Change::Back(Return {
                    machine: back.machine,
                    from_ns: back.from_ns,
                    nodes: homes.back(back.machine, &back.ready.into_iter().collect()),
                }),
            };
            self.heard().changes.push(change);
        }
    }

    fn beat(&self, beat: Heartbeat) {
        self.time.set(beat.ahead_ns);
        self.until_ns.store(beat.until_ns, Ordering::Release);
        let mut heard = self.heard();
        if let Some(crossing) = &heard.crossing {
            crossing.may_send_until(beat.until_ns);
        }
        if let Some(began) = heard.began {
            heard.drift_ns = heard.drift_ns.max(began.ahead_ns.abs_diff(beat.ahead_ns));
        }
        heard.beat = Some(beat);
    }

    /// Ends the part when the machine may not send any more.
    fn watch(&self) {
        while !self.stop.load(Ordering::Acquire) {
            let until_ns = self.until_ns.load(Ordering::Acquire);
            if until_ns != 0 && boottime_ns() >= until_ns {
                self.end(Some(
                    "this machine's lease is over: its nodes may be another's",
                ));
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits until something is known.
    fn wait<T>(&self, mut known: impl FnMut(&mut Received) -> Option<T>) -> Result<T, EngineError> {
        let mut heard = self.heard();
        loop {
            if self.stop.load(Ordering::Acquire) {
                return Err(match heard.over.clone() {
                    Some(why) => EngineError::Apart(why),
                    None => EngineError::Interrupted,
                });
            }
            if let Some(known) = known(&mut heard) {
                return Ok(known);
            }
            let waited = self.news.wait_timeout(heard, LOOK_EVERY);
            heard = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn first_beat(&self) -> Result<(), EngineError> {
        self.wait(|heard| heard.beat.map(|_| ()))
    }

    fn ways(&self) -> Result<UnderlaySettings, EngineError> {
        self.wait(|heard| heard.ways.clone())
    }
}

impl Gate for Talk {
    fn standing(&self, part: &PartReady, _: &AtomicBool) -> Result<u64, EngineError> {
        self.say(&FromWorker::Standing {
            nodes: part.nodes as u64,
            plan: part.plan.clone(),
            images: part.images.clone(),
        });
        let zero_ns = self.wait(|heard| heard.go)?;
        let (zero_ns, now_ns) = (self.time.to_own(zero_ns), clock_ns(ClockId::Monotonic));
        if zero_ns < now_ns + LEAST_AHEAD_NS {
            let late_ms = (now_ns + LEAST_AHEAD_NS).saturating_sub(zero_ns) / 1_000_000;
            return Err(EngineError::Apart(format!(
                "it received lab time zero {late_ms} ms too late: the store is too slow, or the machine too busy"
            )));
        }
        Ok(zero_ns)
    }

    fn crossing(&self, crossing: &Arc<Crossing>) {
        crossing.may_send_until(self.until_ns.load(Ordering::Acquire));
        self.heard().crossing = Some(Arc::clone(crossing));
    }

    fn changes(&self) -> Vec<Change> {
        self.heard().changes.clone()
    }

    fn took(&self, machine: usize, failure: Option<&str>) {
        let failure = failure.map(str::to_owned);
        self.say(&FromWorker::Took { machine, failure });
    }

    fn order(&self, number: u64, what: &ManualChange) {
        // The structs hold only names and numbers, so serialization cannot fail.
        let what = serde_json::to_value(what).unwrap_or_default();
        self.say(&FromWorker::Order { number, what });
    }

    fn set_together(&self, known: usize, within: Duration) -> Option<ScheduledChange> {
        let unheard = |heard: &mut Received| heard.set.len() <= known;
        let waited = self.news.wait_timeout_while(self.heard(), within, unheard);
        let heard = waited.unwrap_or_else(PoisonError::into_inner).0;
        heard.set.get(known).cloned()
    }

    fn doubts(&self) -> Vec<String> {
        let mut heard = self.heard();
        // Frames that are sent from here on go nowhere.
        heard.crossing = None;
        let mut doubts: Vec<String> = heard.over.clone().into_iter().collect();
        if let Some((began, last)) = heard.began.zip(heard.beat)
            && last.clock_jumps > began.clock_jumps
        {
            doubts.push(
                "its clock, or that of the machines' reference, jumped in lab time".to_owned(),
            );
        }
        if heard.drift_ns > MOST_DRIFT_NS {
            doubts.push(format!(
                "its clock and that of the machines' reference went {:.3} ms apart in lab time, and its steps with it",
                heard.drift_ns as f64 / 1e6
            ));
        }
        doubts
    }
}

/// Progress that the agent prints: messages, and the end of each stage.
struct WorkerProgress(Arc<Talk>);

impl Progress for WorkerProgress {
    fn stage(&self, name: &str, done: u64, total: u64, note: &str) {
        if done >= total && !note.is_empty() {
            self.0.say(&FromWorker::Say(format!("{name}: {note}")));
        }
    }

    fn say(&self, text: &str) {
        self.0.say(&FromWorker::Say(text.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::together::ask::tests::three_machines;

    fn beat(ahead_ns: i64, clock_jumps: u64) -> ToWorker {
        ToWorker::Beat(Heartbeat {
            ahead_ns,
            clock_jumps,
            until_ns: u64::MAX,
        })
    }

    fn told(lines: &[ToWorker]) -> Talk {
        let talk = Talk::default();
        let lines = lines
            .iter()
            .map(|line| serde_json::to_string(line).unwrap());
        let text: String = lines.map(|line| line + "\n").collect();
        talk.hear(text.as_bytes());
        talk
    }

    #[test]
    fn an_agent_that_is_gone_ends_the_part_and_is_in_the_verdict() {
        let talk = told(&[beat(5, 0)]);
        assert!(talk.stop.load(Ordering::Acquire));
        assert_eq!(talk.time.of_own(7), 12);
        let error = talk.ways().unwrap_err().to_string();
        assert!(error.contains("its agent has ended"), "{error}");
        assert!(talk.doubts()[0].contains("its agent has ended"));
    }

    #[test]
    fn a_part_that_is_told_to_end_was_interrupted() {
        let talk = told(&[beat(5, 0), ToWorker::End]);
        let heard = talk.wait(|heard| heard.go);
        // The end of the input arrives after it.
        assert!(matches!(heard, Err(EngineError::Apart(_))), "{heard:?}");
        let talk = Talk::default();
        talk.end(None);
        let heard = talk.wait(|heard| heard.go);
        assert!(matches!(heard, Err(EngineError::Interrupted)), "{heard:?}");
    }

    /// A lab on three machines, of which one is lost and comes back on the others.
    #[test]
    fn the_lab_is_told_what_becomes_of_machines() {
        let (scenario, asked) = three_machines();
        let homes = asked.homes(&scenario, asked.place(&scenario).unwrap());
        let talk = Arc::new(Talk::default());
        let news = talk.news_of_machines();
        let following = Arc::clone(&talk);
        let follows = thread::spawn(move || following.follow(homes, true, news));
        let (machine, ready) = (2, vec![0, 1]);
        talk.lose(MachineLost {
            machine,
            from_ns: 7,
        });
        talk.lose(MachineLost {
            machine,
            from_ns: 8,
        });
        talk.tell(News::Back(NodesReturnedMessage {
            machine,
            from_ns: 9,
            ready,
        }));
        talk.heard().follows = None;
        follows.join().unwrap();
        let changes = talk.changes();
        let [Change::Lost(lost), Change::Back(back)] = &changes[..] else {
            panic!("{changes:?}");
        };
        assert_eq!((lost.from_ns, lost.nodes.len()), (7, 22));
        assert_eq!((back.from_ns, &back.nodes), (9, &lost.to));
        assert!(lost.to.values().all(|to| *to < 2), "{lost:?}");
    }

    #[test]
    fn clocks_that_jumped_or_went_apart_are_in_the_verdict() {
        let go = ToWorker::Go(0);
        let all = |last| told(&[beat(0, 3), go.clone(), last]).doubts().join("\n");
        let calm = all(beat(900_000, 3));
        assert!(!calm.contains("clock"), "{calm}");
        assert!(all(beat(0, 4)).contains("jumped in lab time"));
        assert!(all(beat(-1_500_000, 3)).contains("1.500 ms apart"));
    }
}
