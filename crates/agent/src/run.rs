//! An agent, from joining to its end.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use constel_store::{Error, Revision, Store, Txn};

use crate::answers;
use crate::clocks::drawn;
use crate::hold::Hold;
use crate::join::{Refusal, Why, join};
use crate::keys;
use crate::labs::part::Keeper;
use crate::measure::{Latest, Measure};
use crate::reach;
use crate::record::Owner;
use crate::recorder::Recorder;
use crate::underlay::{Listen, Responder};

/// How soon an end is noticed, and a lease that is over.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(50);

/// An agent that was asked to end waits so long for its parts of labs.
const PARTS_DOWN_WITHIN: Duration = Duration::from_secs(120);

/// What an agent says of its machine, and how it is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Its name among the machines.
    pub name: String,
    /// Constel's version: all machines have the same.
    pub version: String,
    /// Its part of a lab, in proportion to the other machines' weights. At least 1.
    pub weight: u32,
    /// Nodes that it takes at most.
    pub capacity: Option<u32>,
    /// Threads that make its nodes, each one at a time.
    pub workers: NonZeroU32,
    /// Where it listens for other machines; nowhere, unless given.
    pub underlay: Option<Listen>,
    /// What runs parts of labs: the program `constel`. Without it, or where nothing listens, the machine takes none.
    pub program: Option<PathBuf>,
}

/// Why an agent could not begin, or ended without being asked to.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It may not join.
    #[error("{0}")]
    Refused(Refusal),
    /// The store could not be asked.
    #[error(transparent)]
    Store(#[from] Error),
    /// It cannot listen where it was asked to.
    #[error("--underlay {0}")]
    Underlay(String),
    /// The machine is none of the lab's any more: the name may be another's by now.
    #[error(
        "the lease of machine {name} is over: {reason}. It is not one of the machines any more; start the agent again"
    )]
    Lost {
        /// The machine.
        name: String,
        /// Why, as far as it is known.
        reason: String,
    },
    /// The operating system does not let us.
    #[error(transparent)]
    Os(#[from] std::io::Error),
}

/// What is to be known while an agent runs.
pub trait Watcher: Sync {
    /// Nodes of labs that run on this machine.
    fn nodes(&self) -> u64;
    /// Something that people should know.
    fn tell(&self, text: &str);
}

/// Joins, and stays until `stop` is set; then leaves, and the name is free at once.
///
/// # Errors
/// When it may not join, cannot listen, or loses its lease: whatever it had may be another's then.
pub fn run(
    store: &Arc<dyn Store>,
    options: &Options,
    watcher: &dyn Watcher,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let has_ended = || stop.load(Ordering::Acquire);
    // Before anybody is told of it.
    let responder = options.underlay.as_ref().map(Responder::open).transpose();
    let responder = responder.map_err(Failure::Underlay)?;
    let owner = Owner {
        version: options.version.clone(),
        session: format!("{:016x}", drawn()?),
    };
    let joined = join(store, &options.name, &owner, &has_ended);
    let (hold, token) = match joined {
        Ok(joined) => joined,
        Err(Why::Stopped) => return Ok(()),
        Err(Why::Refused(refusal)) => return Err(Failure::Refused(refusal)),
        Err(Why::Store(error)) => return Err(error.into()),
    };
    let Some(lease) = hold.lease() else {
        return Err(lost(&options.name, "it was none"));
    };
    watcher.tell(&joined_message(&options.name, responder.as_ref()));
    let end = AtomicBool::new(false);
    let latest = Latest::new(None);
    let (leaving, parts) = (AtomicBool::new(false), AtomicUsize::new(0));
    let until_ns = AtomicU64::new(hold.until_ns());
    let recorder = Recorder {
        store,
        options,
        watcher,
        token,
        responder: responder.as_ref(),
        latest: &latest,
        failure: Mutex::new(None),
    };
    let mut agent = Agent {
        options,
        watcher,
        token,
        hold,
        recorder: &recorder,
        leaving: &leaving,
        parts: &parts,
        until_ns: &until_ns,
        has_told_trouble: false,
    };
    let ended = std::thread::scope(|scope| {
        // However this ends, a panic included, so do they: the scope waits for them.
        let _ends = Ends(&end);
        scope.spawn(|| answers::answer(store, &options.name, &end));
        scope.spawn(|| recorder.write_on(&end));
        if let Some(responder) = &responder {
            scope.spawn(|| responder.answer(&end));
            if let Some((interface, echo)) = responder.raw() {
                scope.spawn(|| echo.answer(&end));
                scope.spawn(|| reach::answer(store, &options.name, interface, &end));
            }
        }
        let measure = Measure {
            store,
            name: &options.name,
            session: &owner.session,
            lease,
            underlay: responder.as_ref().map(Responder::at),
            end: &end,
            latest: &latest,
        };
        scope.spawn(move || measure.run());
        let takes = options.program.as_deref().zip(responder.as_ref());
        let keeper = takes.map(|(program, responder)| Keeper {
            store,
            name: &options.name,
            token,
            lease,
            until_ns: &until_ns,
            latest: &latest,
            underlay: responder.at(),
            workers: options.workers,
            program,
            watcher,
            leaving: &leaving,
            end: &end,
            parts: &parts,
        });
        if let Some(keeper) = keeper {
            scope.spawn(move || keeper.run());
        }
        agent.stay(&has_ended)
    });
    agent.leave(ended)
}

fn joined_message(name: &str, responder: Option<&Responder>) -> String {
    let listens = responder.map(|responder| format!(", listening on {}", responder.at().address));
    let listens = listens.unwrap_or_default();
    format!("machine {name} has joined{listens}")
}

struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

pub(crate) fn lost(name: &str, reason: &str) -> Failure {
    Failure::Lost {
        name: name.to_owned(),
        reason: reason.to_owned(),
    }
}

struct Agent<'a> {
    options: &'a Options,
    watcher: &'a dyn Watcher,
    hold: Hold,
    token: Revision,
    recorder: &'a Recorder<'a>,
    /// It was asked to end: its parts of labs end first.
    leaving: &'a AtomicBool,
    parts: &'a AtomicUsize,
    /// Until when the name is ours, for those who send by that right.
    until_ns: &'a AtomicU64,
    has_told_trouble: bool,
}

impl Agent<'_> {
    /// Until it is asked to end and its parts of labs are down, or it has lost its lease.
    fn stay(&mut self, has_ended: &dyn Fn() -> bool) -> Result<(), Failure> {
        // A lease is not to end because hundreds of a lab's programs begin at once.
        constel_host::process::go_first();
        let mut asked: Option<Instant> = None;
        loop {
            if has_ended() {
                self.leaving.store(true, Ordering::Release);
                let since = *asked.get_or_insert_with(Instant::now);
                let is_down = self.parts.load(Ordering::Acquire) == 0;
                if is_down || since.elapsed() > PARTS_DOWN_WITHIN {
                    return Ok(());
                }
            }
            // Before the store is asked: what is over is not taken again.
            if self.hold.token() != Some(self.token) {
                return Err(self.lost());
            }
            self.hold.turn()?;
            self.until_ns.store(self.hold.until_ns(), Ordering::Release);
            self.tell_trouble();
            if let Some(failure) = self.recorder.failure() {
                return Err(failure);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn lost(&self) -> Failure {
        match &self.hold.trouble {
            Some(trouble) => lost(&self.options.name, &trouble.to_string()),
            None => {
                let reason = "this process did not run, or the store has ended it";
                lost(&self.options.name, reason)
            }
        }
    }

    /// Once for each time that the store is away.
    fn tell_trouble(&mut self) {
        match (&self.hold.trouble, self.has_told_trouble) {
            (Some(trouble), false) => {
                let left_s = self.hold.left_ns() as f64 / 1e9;
                let text = format!("{trouble}; the lease lasts {left_s:.1} s more");
                self.watcher.tell(&text);
            }
            (None, true) => self.watcher.tell("the store answers again"),
            _ => {}
        }
        self.has_told_trouble = self.hold.trouble.is_some();
    }

    /// Nothing of ours stays in the store, unless we were lost.
    fn leave(self, ended: Result<(), Failure>) -> Result<(), Failure> {
        let Self {
            hold,
            options,
            watcher,
            ..
        } = self;
        let released = match &ended {
            Ok(()) => hold.release(Txn::new().delete(keys::record(&options.name))),
            Err(_) => hold.release(Txn::new()),
        };
        if let (Ok(()), Err(error)) = (&ended, released) {
            watcher.tell(&format!(
                "machine {} ends without the store's knowing: {error}. It is lost there in some seconds",
                options.name
            ));
        }
        ended
    }
}
