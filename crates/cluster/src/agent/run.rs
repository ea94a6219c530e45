//! An agent from joining to its end.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::agent::answers;
use crate::agent::clocks::drawn;
use crate::agent::hold::Hold;
use crate::agent::join::{Why, join};
use crate::agent::keys;
use crate::agent::labs::answerer::Answering;
use crate::agent::labs::part::Keeper;
use crate::agent::measure::{Latest, Measure};
use crate::agent::options::{Failure, LOOK_EVERY, Options, Watcher, lost};
use crate::agent::reach;
use crate::agent::record::Owner;
use crate::agent::recorder::Recorder;
use crate::agent::underlay::Responder;
use crate::store::{Revision, Store, Txn};

/// Maximum time that an ending agent waits for its machine's share of each lab.
const PARTS_DOWN_WITHIN: Duration = Duration::from_secs(120);

/// Joins and stays until `stop` is set. Then leaves, and the name is free at once.
///
/// # Errors
/// If it may not join, cannot listen, or loses its lease. Another agent may then own everything that this one had.
pub fn run(
    store: &Arc<dyn Store>,
    options: &Options,
    watcher: &dyn Watcher,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let has_ended = || stop.load(Ordering::Acquire);
    // Open the sockets first: other machines read the address as soon as this one has joined.
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
    let answering = options.program.clone().map(Answering::new);
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
        // Each end of this scope, a panic included, must end the threads, because the scope waits for them.
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
        // A worker needs the program, and an address where other machines reach it. Without either, this machine accepts no
        // labs.
        let takes = answering.as_ref().zip(responder.as_ref());
        let takes = options.program.as_deref().zip(takes);
        let keeper = takes.map(|(program, (answering, responder))| Keeper {
            store,
            name: &options.name,
            token,
            lease,
            until_ns: &until_ns,
            latest: &latest,
            underlay: responder.at(),
            requests: responder.requests(),
            workers: options.workers,
            program,
            answering,
            watcher,
            leaving: &leaving,
            end: &end,
            parts: &parts,
        });
        if let Some(keeper) = keeper {
            scope.spawn(move || keeper.run());
        }
        // This thread does little more than renew the lease, on which all the other threads depend.
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

struct Agent<'a> {
    options: &'a Options,
    watcher: &'a dyn Watcher,
    hold: Hold,
    token: Revision,
    recorder: &'a Recorder<'a>,
    /// Set when the agent must end. The processes of labs end first.
    leaving: &'a AtomicBool,
    parts: &'a AtomicUsize,
    /// The time until which the name is held. Threads that send by this right read it.
    until_ns: &'a AtomicU64,
    has_told_trouble: bool,
}

impl Agent<'_> {
    /// Runs until the end is requested and this machine's share of all labs is down, or until the lease is lost.
    fn stay(&mut self, has_ended: &dyn Fn() -> bool) -> Result<(), Failure> {
        // The lease must not expire while hundreds of a lab's programs start at once, so this thread gets priority.
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
            // This check precedes the request to the store because an expired hold must not be taken again.
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

    /// Reports trouble with the store, once per interruption.
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

    /// Leaves the cluster and deletes this agent's keys from the store, unless the lease was lost.
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
