//! Agents that share a store: in this process, by each of the stores.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use constel_cluster::agent::{
    ClockMethod, Failure, Listen, Options, Refusal, Row, State, Watcher, machines, run,
};
use constel_cluster::store::{
    Embedded, Error, Folder, LEASE, LeaseId, Listing, Outcome, Store, Txn, Watch,
};

use crate::store::support;

#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl Told {
    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Watcher for Told {
    fn nodes(&self) -> u64 {
        42
    }

    fn tell(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

struct Agent {
    stop: Arc<AtomicBool>,
    told: Arc<Told>,
    thread: Option<JoinHandle<Result<(), Failure>>>,
}

impl Agent {
    fn start(store: &Arc<dyn Store>, options: Options) -> Self {
        let (stop, told) = (Arc::new(AtomicBool::new(false)), Arc::new(Told::default()));
        let (store, its_stop, its_told) = (Arc::clone(store), Arc::clone(&stop), Arc::clone(&told));
        let thread = std::thread::spawn(move || run(&store, &options, &*its_told, &its_stop));
        Self {
            stop,
            told,
            thread: Some(thread),
        }
    }

    fn end(mut self) -> Result<(), Failure> {
        self.stop.store(true, Ordering::Release);
        self.thread.take().unwrap().join().unwrap()
    }

    /// The end of an agent that got no signal.
    fn outcome(mut self) -> Result<(), Failure> {
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

fn options(name: &str) -> Options {
    Options {
        name: name.to_owned(),
        version: "1.0".to_owned(),
        weight: 1,
        capacity: None,
        workers: NonZeroU32::MIN,
        underlay: None,
        program: None,
    }
}

fn listening(name: &str) -> Options {
    Options {
        underlay: Some(Listen {
            interface: "lo".to_owned(),
            port: 0,
        }),
        ..options(name)
    }
}

/// Looks until `found` says what it looks for.
fn until<T>(store: &Arc<dyn Store>, what: &str, found: impl Fn(&[Row]) -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        let rows = machines(store.as_ref()).unwrap();
        if let Some(found) = found(&rows) {
            return found;
        }
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{what}: {rows:#?}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn clock_of(name: &str) -> impl Fn(&[Row]) -> Option<Row> {
    move |rows| {
        let row = rows.iter().find(|row| row.machine == name)?;
        row.clock_offset_ns.map(|_| row.clone())
    }
}

/// With every store, agents join, appear with their records, compare clocks, and leave no keys.
fn they_come_and_go(store: &Arc<dyn Store>) {
    let first = Agent::start(store, options("a"));
    let row = until(store, "the first is its own reference", clock_of("a"));
    assert_eq!(
        (row.clock_offset_ns, row.clock_by),
        (Some(0), Some(ClockMethod::Itself))
    );
    let second = Agent::start(
        store,
        Options {
            weight: 3,
            capacity: Some(500),
            workers: NonZeroU32::new(7).unwrap(),
            ..options("b")
        },
    );
    let row = until(
        store,
        "clocks are compared through the store",
        clock_of("b"),
    );
    assert_eq!((row.state, row.nodes), (State::Up, Some(42)));
    assert_eq!(
        (row.weight, row.capacity, row.workers),
        (Some(3), Some(500), Some(7))
    );
    assert_eq!(row.version.as_deref(), Some("1.0"));
    assert_eq!(
        (row.clock_by, row.underlay),
        (Some(ClockMethod::Store), None)
    );
    // Both are this machine: their clocks are one, and the error that is stated holds.
    let (offset, error) = (row.clock_offset_ns.unwrap(), row.clock_error_ns.unwrap());
    eprintln!("through the store: {offset} ns, +- {error} ns");
    assert!(offset.unsigned_abs() <= error, "{offset} beyond {error}");
    assert!(error < 1_000_000_000);
    // The reference leaves: the other one is it.
    first.end().unwrap();
    until(store, "the next one is the reference", |rows| {
        (rows.len() == 1 && rows[0].clock_by == Some(ClockMethod::Itself)).then_some(())
    });
    second.end().unwrap();
    assert_eq!(store.list("").unwrap().entries, []);
}

#[test]
fn embedded() {
    they_come_and_go(&(Arc::new(Embedded::new()) as Arc<dyn Store>));
}

#[test]
fn folder() {
    let place = tempfile::tempdir().unwrap();
    they_come_and_go(&(Arc::new(Folder::open(place.path()).unwrap()) as Arc<dyn Store>));
}

#[test]
fn etcd() {
    if !support::is_there() {
        return;
    }
    let cluster = support::Cluster::start(1, &support::Options::default());
    they_come_and_go(&(Arc::new(cluster.store()) as Arc<dyn Store>));
}

/// Over the loopback: the error that is stated holds, and is far smaller than through a store.
#[test]
fn clocks_are_compared_by_datagrams_where_both_listen() {
    let store: Arc<dyn Store> = Arc::new(Embedded::new());
    let first = Agent::start(&store, listening("a"));
    until(&store, "the first is there", clock_of("a"));
    let second = Agent::start(&store, listening("b"));
    let row = until(&store, "clocks are compared by datagrams", |rows| {
        clock_of("b")(rows).filter(|row| row.clock_by == Some(ClockMethod::Underlay))
    });
    let (offset, error) = (row.clock_offset_ns.unwrap(), row.clock_error_ns.unwrap());
    eprintln!("over the loopback: {offset} ns, +- {error} ns");
    assert!(offset.unsigned_abs() <= error, "{offset} beyond {error}");
    assert_eq!(row.clock_steps, Some(0));
    let at: std::net::SocketAddr = row.underlay.unwrap().parse().unwrap();
    assert!(at.ip().is_loopback() && at.port() > 0);
    second.end().unwrap();
    // The port is free again.
    drop(std::net::UdpSocket::bind(at).unwrap());
    first.end().unwrap();
}

#[test]
fn a_name_that_answers_is_refused_at_once() {
    let store: Arc<dyn Store> = Arc::new(Embedded::new());
    let first = Agent::start(&store, options("a"));
    until(&store, "the first is there", clock_of("a"));
    let began = Instant::now();
    let refused = Agent::start(&store, options("a")).outcome();
    let Err(Failure::Refused(Refusal::Name { name, at, answers })) = &refused else {
        panic!("{refused:?}");
    };
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    assert_eq!((name.as_str(), *answers), ("a", true));
    assert_eq!(at.as_ref().unwrap().1, std::process::id());
    let rows = machines(store.as_ref()).unwrap();
    assert_eq!((rows.len(), rows[0].state), (1, State::Up));
    first.end().unwrap();
    assert_eq!(store.list("").unwrap().entries, []);
}

#[test]
fn of_many_with_one_name_one_joins() {
    let store: Arc<dyn Store> = Arc::new(Embedded::new());
    let agents: Vec<Agent> = (0..4).map(|_| Agent::start(&store, options("a"))).collect();
    until(&store, "one is there", clock_of("a"));
    let began = Instant::now();
    let running = || {
        agents
            .iter()
            .filter(|a| !a.thread.as_ref().unwrap().is_finished())
            .count()
    };
    while running() > 1 {
        assert!(began.elapsed() < Duration::from_secs(30), "{}", running());
        std::thread::sleep(Duration::from_millis(20));
    }
    let joined: Vec<_> = agents.iter().flat_map(|agent| agent.told.all()).collect();
    assert_eq!(joined, ["machine a has joined"]);
    let ended: Vec<_> = agents.into_iter().map(Agent::end).collect();
    assert_eq!(
        ended.iter().filter(|ended| ended.is_ok()).count(),
        1,
        "{ended:?}"
    );
}

#[test]
fn another_version_is_refused() {
    let store: Arc<dyn Store> = Arc::new(Embedded::new());
    let first = Agent::start(&store, options("a"));
    until(&store, "the first is there", clock_of("a"));
    let other = Options {
        version: "1.1".to_owned(),
        ..options("b")
    };
    let refused = Agent::start(&store, other)
        .outcome()
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("Constel 1.1") && refused.contains("machine a has Constel 1.0"),
        "{refused}"
    );
    first.end().unwrap();
}

/// A store that is away, or full, until the test ends it.
struct Away {
    store: Embedded,
    is_away: AtomicBool,
    is_full: AtomicBool,
}

impl Away {
    fn there(&self) -> constel_cluster::store::Result<&Embedded> {
        match self.is_away.load(Ordering::Acquire) {
            true => Err(Error::Unreachable("it is away".to_owned())),
            false => Ok(&self.store),
        }
    }
}

impl Store for Away {
    fn get(
        &self,
        key: &str,
    ) -> constel_cluster::store::Result<Option<constel_cluster::store::Entry>> {
        self.there()?.get(key)
    }

    fn list(&self, prefix: &str) -> constel_cluster::store::Result<Listing> {
        self.there()?.list(prefix)
    }

    fn commit(&self, txn: &Txn) -> constel_cluster::store::Result<Outcome> {
        if self.is_full.load(Ordering::Acquire) {
            return Err(Error::Full("it is full".to_owned()));
        }
        self.there()?.commit(txn)
    }

    fn grant(
        &self,
        ttl: Duration,
    ) -> constel_cluster::store::Result<constel_cluster::store::Lease> {
        self.there()?.grant(ttl)
    }

    fn keep_alive(&self, lease: LeaseId) -> constel_cluster::store::Result<()> {
        self.there()?.keep_alive(lease)
    }

    fn revoke(&self, lease: LeaseId) -> constel_cluster::store::Result<()> {
        self.there()?.revoke(lease)
    }

    fn watch(&self, prefix: &str, revision: u64) -> constel_cluster::store::Result<Box<dyn Watch>> {
        self.there()?.watch(prefix, revision)
    }

    fn compact(&self, revision: u64) -> constel_cluster::store::Result<()> {
        self.there()?.compact(revision)
    }
}

/// The switch, and what agents see of it.
fn store_that_may_go_away() -> (Arc<Away>, Arc<dyn Store>) {
    let away = Arc::new(Away {
        store: Embedded::new(),
        is_away: AtomicBool::new(false),
        is_full: AtomicBool::new(false),
    });
    let store = Arc::clone(&away) as Arc<dyn Store>;
    (away, store)
}

/// An agent that is cut off reports it, stops before the store gives the name to another, and is listed as lost.
#[test]
fn who_is_cut_off_says_so_and_stops() {
    let (away, store) = store_that_may_go_away();
    let direct: Arc<dyn Store> = Arc::new(away.store.clone());
    let agent = Agent::start(&store, options("a"));
    until(&direct, "it is there", clock_of("a"));
    away.is_away.store(true, Ordering::Release);
    let began = Instant::now();
    let told = Arc::clone(&agent.told);
    let ended = agent.outcome();
    let took = began.elapsed();
    let Err(Failure::Lost { name, reason }) = &ended else {
        panic!("{ended:?}");
    };
    assert_eq!(name, "a");
    assert!(reason.contains("it is away"), "{reason}");
    assert!(took < Duration::from_secs(60), "{took:?}");
    let told = told.all();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[1].contains("it is away; the lease lasts"), "{told:?}");
    until(&direct, "it is lost", |rows| {
        (rows[0].state == State::Lost).then_some(())
    });
    assert!(
        began.elapsed() < Duration::from_secs(8),
        "{:?}",
        began.elapsed()
    );
    // This agent joins again.
    away.is_away.store(false, Ordering::Release);
    let again = Agent::start(&store, options("a"));
    until(&direct, "it is up again", |rows| {
        (rows[0].state == State::Up && rows[0].clock_offset_ns.is_some()).then_some(())
    });
    again.end().unwrap();
    assert_eq!(direct.list("").unwrap().entries, []);
}

/// A short outage is reported, and has no effect.
#[test]
fn a_store_that_comes_back_in_time_costs_nothing() {
    let (away, store) = store_that_may_go_away();
    let agent = Agent::start(&store, options("a"));
    until(&store, "it is there", clock_of("a"));
    away.is_away.store(true, Ordering::Release);
    let wait = |count: usize| {
        let began = Instant::now();
        while agent.told.all().len() < count {
            assert!(
                began.elapsed() < Duration::from_secs(10),
                "{:?}",
                agent.told.all()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    wait(2);
    away.is_away.store(false, Ordering::Release);
    wait(3);
    assert_eq!(agent.told.all()[2], "the store answers again");
    agent.end().unwrap();
    assert_eq!(store.list("").unwrap().entries, []);
}

/// The store refuses writes for longer than a lease: the name is kept, and one report is made.
#[test]
fn a_store_that_is_full_costs_nobody_a_name() {
    let (away, store) = store_that_may_go_away();
    let agent = Agent::start(&store, options("a"));
    until(&store, "it is there", clock_of("a"));
    away.is_full.store(true, Ordering::Release);
    let began = Instant::now();
    while agent.told.all().len() < 2 {
        assert!(began.elapsed() < Duration::from_secs(60), "it is not said");
        std::thread::sleep(Duration::from_millis(20));
    }
    // Longer than a lease, and than it takes to write a record again.
    std::thread::sleep(Duration::from_secs(6));
    let told = agent.told.all();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[1].contains("is full; labs go on"), "{told:?}");
    assert_eq!(machines(store.as_ref()).unwrap()[0].state, State::Up);
    away.is_full.store(false, Ordering::Release);
    agent.end().unwrap();
    assert_eq!(store.list("").unwrap().entries, []);
}

/// Counting an agent's nodes takes longer than a lease lasts: the kernel is busy with a lab that goes down.
struct Busy;

impl Watcher for Busy {
    fn nodes(&self) -> u64 {
        std::thread::sleep(LEASE + LEASE / 2);
        1
    }

    fn tell(&self, _: &str) {}
}

#[test]
fn what_takes_long_to_tell_costs_nobody_a_name() {
    let store: Arc<dyn Store> = Arc::new(Embedded::new());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let agent = scope.spawn(|| run(&store, &options("a"), &Busy, &stop));
        // The record comes after the first count, at which time a lease without renewal is over.
        let told = |row: &&Row| row.nodes.is_some();
        let row = until(&store, "its record", |rows| rows.iter().find(told).cloned());
        assert_eq!((row.state, row.nodes), (State::Up, Some(1)));
        stop.store(true, Ordering::Release);
        agent.join().unwrap().unwrap();
    });
}

#[test]
fn an_interface_that_is_not_there_joins_nothing() {
    let store: Arc<dyn Store> = Arc::new(Embedded::new());
    let mut nowhere = listening("a");
    nowhere.underlay.as_mut().unwrap().interface = "nowhere0".to_owned();
    let ended = Agent::start(&store, nowhere).outcome();
    assert!(
        matches!(&ended, Err(Failure::Underlay(reason)) if reason.contains("nowhere0")),
        "{ended:?}"
    );
    assert_eq!(store.list("").unwrap().revision, 1);
}
