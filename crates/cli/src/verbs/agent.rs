//! `constel agent`: makes this machine one of several, until Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use constel_api::answers::LabState;
use constel_cluster::agent::{Options, Watcher};
use constel_cluster::machines::Machine;
use constel_cluster::store::Error as StoreError;
use constel_control::Underlay;

use crate::args::{Agent, WorkerArgs};
use crate::exit::{Exit, Failure, Outcome};
use crate::{output, signals};

/// Joins the store and leaves it after a signal.
pub(crate) fn run(args: &Agent) -> Outcome {
    let name = match &args.name {
        Some(name) => name.clone(),
        None => constel_cluster::agent::host_name(),
    };
    let machine = Machine::named(&name, args.weight, args.capacity).map_err(|error| {
        let whence = match args.name {
            Some(_) => "--name",
            None => "the host's name; give another one with --name",
        };
        Failure::Usage(format!("{whence}: {error}"))
    })?;
    let stop = Arc::new(AtomicBool::new(false));
    signals::set(&[&stop])?;
    let store = args
        .store
        .open()
        .map_err(|error| not_opened(&args.store.to_string(), error))?;
    let options = Options {
        name: machine.name,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        weight: machine.weight,
        capacity: machine.capacity,
        workers: args.workers.unwrap_or_else(constel_control::workers_here),
        underlay: args.underlay.clone(),
        program: Some(constel_control::own_program()?),
    };
    match constel_cluster::agent::run(&store, &options, &Here, &stop) {
        Ok(()) => Ok(Exit::Interrupted),
        Err(constel_cluster::agent::Failure::Underlay(reason)) => {
            Err(Failure::Usage(format!("--underlay {reason}")))
        }
        Err(error) => Err(error.into()),
    }
}

/// Runs this machine's part of a lab, for the agent that started this process.
pub(crate) fn part(args: &WorkerArgs) -> Outcome {
    // The agent decides when the part ends; a signal that reaches this process directly ends it as well.
    let underlay = Underlay {
        address: args.address,
        interface: args.interface.clone(),
    };
    constel_control::run_part(&args.folder, &args.machine, &underlay, args.workers);
    Ok(Exit::Done)
}

/// Returns the usage error for a store that cannot be opened.
pub(super) fn not_opened(place: &str, error: StoreError) -> Failure {
    match error {
        StoreError::Invalid(reason) => Failure::Usage(format!("--store {place}: {reason}")),
        error => error.into(),
    }
}

struct Here;

impl Watcher for Here {
    fn nodes(&self) -> u64 {
        // If the labs cannot be listed, the machine reports none.
        let labs = constel_control::list().unwrap_or_default();
        let living = labs.iter().filter(|lab| lab.state != LabState::Dead);
        living.map(|lab| lab.nodes as u64).sum()
    }

    fn tell(&self, text: &str) {
        output::tell(&format!("constel: {text}\n"));
    }
}
