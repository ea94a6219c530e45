//! Machines that share a store: `--machines`, `--store` and related flags.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use constel_cluster::agent::Row;
use constel_cluster::agent::labs::{
    CommandRequest, Keyboard, LabDescription, Phase, Reply, Written, ask, shell,
};
use constel_cluster::store::{Store, StoreLocation};
use constel_control::{
    ChosenMachines, MachineCheck, MachinePair, OnMachines, Scenario, TransportChoice, machine_of,
};

use super::agent::not_opened;
use crate::args::OnThere;
use crate::exit::{Exit, Failure, Outcome};
use crate::{output, signals};

/// Maximum number of bytes of a command's standard output that are kept in memory.
const MOST_OUTPUT_BYTES: usize = 64 << 20;
/// Maximum number of bytes of its standard error that are kept.
const MOST_ERROR_BYTES: usize = 320 << 10;

/// The machines of a store, and those that were selected.
pub(crate) struct There {
    store: Arc<dyn Store>,
    rows: Vec<Row>,
    asked: ChosenMachines,
    between: TransportChoice,
    encrypted: bool,
}

/// Opens a store.
pub(crate) fn find(place: &StoreLocation) -> Result<Arc<dyn Store>, Failure> {
    let found = place.find();
    found.map_err(|error| not_opened(&place.to_string(), error))
}

impl There {
    /// Returns the selected machines; `None`: the lab is for this host only.
    pub(crate) fn of(on: &OnThere) -> Result<Option<Self>, Failure> {
        let Some((machines, place)) = on.machines.as_ref().zip(on.store.as_ref()) else {
            return Ok(None);
        };
        let store = find(place)?;
        let rows = constel_cluster::agent::machines(store.as_ref())?;
        let asked =
            ChosenMachines::choose(&rows, machines.list(), on.pin.clone(), on.place.into())?;
        Ok(Some(Self {
            store,
            rows,
            asked,
            between: on.between.into(),
            encrypted: !on.insecure,
        }))
    }

    pub(crate) fn on_machines(&self) -> OnMachines<'_> {
        OnMachines {
            store: &self.store,
            rows: &self.rows,
            asked: &self.asked,
            between: self.between,
            encrypted: self.encrypted,
        }
    }

    /// Returns the division of a scenario over the machines.
    pub(crate) fn look(&self, scenario: &Scenario) -> Result<MachineCheck, Failure> {
        Ok(scenario.look_on(&self.on_machines())?)
    }
}

/// Formats the division.
pub(crate) fn looked_text(looked: &MachineCheck) -> String {
    let machines: Vec<Vec<String>> = looked
        .machines
        .iter()
        .map(|share| {
            let load = &share.load;
            vec![
                load.machine.clone(),
                load.nodes.to_string(),
                load.edges.to_string(),
                load.crossing_edges.to_string(),
                output::size(share.memory_bytes),
            ]
        })
        .collect();
    let head = ["MACHINE", "NODES", "EDGES", "CROSSING", "MEMORY"];
    let mut text = format!(
        "{} of {} edges cross at 0 s\n{}",
        looked.crossing_edges,
        looked.edges,
        output::table(&head, &machines)
    );
    let ways: Vec<Vec<String>> = looked.machine_pairs.iter().map(way_cells).collect();
    if !ways.is_empty() {
        let head = [
            "FROM",
            "TO",
            "EDGES",
            "SHORTEST",
            "PATH",
            "CLOCKS",
            "TOO SHORT",
        ];
        text.push_str(&format!("\n{}", output::table(&head, &ways)));
    }
    text + &format!("\n{}\n", looked.between_in_words())
}

fn way_cells(way: &MachinePair) -> Vec<String> {
    vec![
        way.from.clone(),
        way.to.clone(),
        way.edges.to_string(),
        output::ms(way.shortest_ns as f64),
        output::ms(way.one_way_ns as f64),
        format!("+- {}", output::ms(way.clock_error_ns as f64)),
        way.short_edges.to_string(),
    ]
}

/// Returns the message about a file that was truncated because of its size.
pub(crate) fn cut_off() -> String {
    format!(
        "everything after the first {} MiB was not kept",
        MOST_OUTPUT_BYTES >> 20
    )
}

/// The collected output of a command on another machine.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// Exit code, as a shell reports it.
    pub(crate) exit: i32,
    /// Standard output.
    pub(crate) stdout: Vec<u8>,
    /// Standard error.
    pub(crate) stderr: Vec<u8>,
    /// Whether the command wrote more than this.
    pub(crate) cut: bool,
}

impl Said {
    /// Adds what the command has written, up to a limit: the memory is this machine's, and the command another's.
    pub(crate) fn hear(&mut self, written: Written<'_>) {
        let (kept, most, bytes) = match written {
            Written::Output(bytes) => (&mut self.stdout, MOST_OUTPUT_BYTES, bytes),
            Written::Errors(bytes) => (&mut self.stderr, MOST_ERROR_BYTES, bytes),
        };
        let room = bytes.len().min(most - kept.len());
        kept.extend_from_slice(&bytes[..room]);
        self.cut |= room < bytes.len();
    }
}

/// Prints what a command writes on another machine.
struct Printing<'a> {
    stop: &'a AtomicBool,
    failure: Option<io::Error>,
}

impl<'a> Printing<'a> {
    fn new(stop: &'a AtomicBool) -> Self {
        Self {
            stop,
            failure: None,
        }
    }

    fn hear(&mut self, written: Written<'_>) {
        match written {
            Written::Errors(bytes) => output::raw_to_stderr(bytes),
            Written::Output(bytes) => {
                let printed = output::raw(bytes).and_then(|()| io::stdout().flush());
                if let Err(error) = printed {
                    // The command ends, as it does on this host when its output is closed.
                    self.failure.get_or_insert(error);
                    self.stop.store(true, Ordering::Release);
                }
            }
        }
    }

    fn ended(self) -> Result<(), Failure> {
        self.failure.map_or(Ok(()), |error| Err(error.into()))
    }
}

/// Returns an input without bytes.
pub(crate) fn no_input() -> Box<dyn Read + Send> {
    Box::new(io::empty())
}

/// Returns the arguments of a verb for another machine, with `--json` if requested.
pub(crate) fn verb(words: &[&str], json: bool) -> Vec<String> {
    let json = json.then_some("--json");
    words
        .iter()
        .copied()
        .chain(json)
        .map(str::to_owned)
        .collect()
}

/// A verb about a node of a lab on several machines, run on the machine that has the node.
pub(crate) struct Elsewhere<'a> {
    /// The store that the machines share.
    pub(crate) store: &'a StoreLocation,
    /// The lab.
    pub(crate) lab: &'a str,
    /// The node.
    pub(crate) node: &'a str,
    /// The verb and its flags.
    pub(crate) verb: Vec<String>,
    /// The arguments after the lab's name.
    pub(crate) args: Vec<String>,
    /// The standard input of the verb.
    pub(crate) input: Vec<u8>,
}

/// The machine that has a node of a lab on several machines; verbs can be sent to it.
pub(crate) struct Far {
    store: Arc<dyn Store>,
    lab: String,
    machine: String,
    stop: Arc<AtomicBool>,
}

impl Far {
    /// Finds the machine of a lab that has a node.
    pub(crate) fn of(place: &StoreLocation, lab: &str, node: &str) -> Result<Self, Failure> {
        let store = find(place)?;
        let machine = machine_of(store.as_ref(), lab, node)?;
        let stop = Arc::new(AtomicBool::new(false));
        signals::set(&[&stop])?;
        Ok(Self {
            store,
            lab: lab.to_owned(),
            machine,
            stop,
        })
    }

    fn question(&self, verb: &[String], args: &[String]) -> CommandRequest {
        CommandRequest {
            machine: self.machine.clone(),
            verb: verb.to_vec(),
            args: args.to_vec(),
        }
    }

    /// Checks a reply and returns the exit code; `None`: this process was interrupted.
    fn ended(reply: Reply) -> Result<Option<i32>, Failure> {
        match reply {
            Reply::Exit(exit) => Ok(Some(exit)),
            Reply::Stopped => Ok(None),
            Reply::Silent(why) => Err(Failure::Failed(anyhow::anyhow!(why))),
        }
    }

    /// Runs a verb there and returns its exit code; `None`: this process was interrupted. `hear` receives the output as it
    /// arrives.
    pub(crate) fn ask(
        &self,
        verb: &[String],
        args: &[String],
        input: Box<dyn Read + Send>,
        hear: &mut dyn FnMut(Written<'_>),
    ) -> Result<Option<i32>, Failure> {
        let (store, question) = (self.store.as_ref(), self.question(verb, args));
        Self::ended(ask(store, &self.lab, &question, input, &self.stop, hear)?)
    }

    /// Runs a shell in the node until it ends; `None`: this process was interrupted.
    pub(crate) fn shell(
        &self,
        node: &str,
        keyboard: &mut (dyn Keyboard + Send),
        hear: &mut dyn FnMut(Written<'_>),
    ) -> Result<Option<i32>, Failure> {
        let question = self.question(&["shell".to_owned()], &["--".to_owned(), node.to_owned()]);
        let (store, lab, stop) = (self.store.as_ref(), &self.lab, &self.stop);
        Self::ended(shell(store, lab, &question, stop, keyboard, hear)?)
    }

    /// Stops waiting.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Runs a verb there and writes its output while it runs, until `to` refuses it.
    pub(crate) fn receive(
        &self,
        verb: &[String],
        args: &[String],
        mut to: impl Write,
    ) -> Result<Received, Failure> {
        let (mut said, mut refused) = (Said::default(), None);
        let exit = self.ask(verb, args, no_input(), &mut |written| match written {
            errors @ Written::Errors(_) => said.hear(errors),
            Written::Output(bytes) => {
                if let Err(error) = to.write_all(bytes).and_then(|()| to.flush()) {
                    refused.get_or_insert(error);
                    self.stop();
                }
            }
        })?;
        Ok(Received {
            exit,
            errors: said.stderr,
            refused,
        })
    }

    /// Runs a verb whose output is a file: returns its output, or its exit code if it failed. Prints its standard error here if
    /// it failed.
    pub(crate) fn run(
        &self,
        verb: &[String],
        args: &[String],
    ) -> Result<Result<Said, Exit>, Failure> {
        let mut said = Said::default();
        let exit = self.ask(verb, args, no_input(), &mut |written| said.hear(written))?;
        let Some(exit) = exit else {
            return Ok(Err(Exit::Interrupted));
        };
        if exit != 0 {
            output::tell(&String::from_utf8_lossy(&said.stderr));
            return Ok(Err(Exit::of_command(exit)));
        }
        Ok(Ok(said))
    }
}

/// The end of a verb whose output was written here.
pub(crate) struct Received {
    /// Exit code; `None`: this process was interrupted, or the output refused.
    pub(crate) exit: Option<i32>,
    /// Standard error.
    pub(crate) errors: Vec<u8>,
    /// Why the output was refused.
    pub(crate) refused: Option<io::Error>,
}

/// All machines of a lab; verbs can be sent to them one after the other.
pub(crate) struct All {
    store: Arc<dyn Store>,
    lab: String,
    machines: Vec<String>,
    stop: Arc<AtomicBool>,
}

impl All {
    /// Returns the machines of this lab.
    pub(crate) fn of(place: &StoreLocation, lab: &str) -> Result<Self, Failure> {
        let store = find(place)?;
        let running = constel_cluster::agent::labs::running(store.as_ref())?;
        let order = led(&running, lab)?;
        let machines = order.machines.iter().map(|m| m.name.clone()).collect();
        let stop = Arc::new(AtomicBool::new(false));
        signals::set(&[&stop])?;
        Ok(Self {
            store,
            lab: lab.to_owned(),
            machines,
            stop,
        })
    }

    pub(crate) fn machines(&self) -> impl Iterator<Item = &str> {
        self.machines.iter().map(String::as_str)
    }

    /// Runs a verb on one machine about its part, and returns its output or the reason why it does not answer. `None`: this
    /// process was interrupted.
    pub(crate) fn ask(
        &self,
        machine: &str,
        verb: &[String],
    ) -> Result<Option<Result<Said, String>>, Failure> {
        let mut said = Said::default();
        let reply = self.send(machine, verb, &mut |written| said.hear(written))?;
        Ok(replied(reply, said))
    }

    /// Prints the output of the first machine that answers, and returns its exit code.
    pub(crate) fn first(&self, verb: &[String], args: &[String], input: &[u8]) -> Outcome {
        let mut silence = None;
        for machine in &self.machines {
            let question = CommandRequest {
                args: args.to_vec(),
                ..self.question(machine, verb)
            };
            let mut printing = Printing::new(&self.stop);
            let input = Box::new(io::Cursor::new(input.to_vec()));
            let hear = &mut |written: Written<'_>| printing.hear(written);
            let reply = ask(
                self.store.as_ref(),
                &self.lab,
                &question,
                input,
                &self.stop,
                hear,
            )?;
            printing.ended()?;
            match reply {
                Reply::Stopped => return Ok(Exit::Interrupted),
                Reply::Exit(exit) => return Ok(Exit::of_command(exit)),
                Reply::Silent(why) => silence = Some(why),
            }
        }
        let silence = silence.unwrap_or_else(|| format!("lab {} is on no machine", self.lab));
        Err(Failure::Failed(anyhow::anyhow!(silence)))
    }

    /// Runs a verb with `--follow`: `hear` receives the output as it arrives.
    pub(crate) fn follow(
        &self,
        machine: &str,
        verb: &[String],
        hear: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<Result<Said, String>>, Failure> {
        let mut said = Said::default();
        let reply = self.send(machine, verb, &mut |written| match written {
            Written::Output(bytes) => hear(bytes),
            errors @ Written::Errors(_) => said.hear(errors),
        })?;
        Ok(replied(reply, said))
    }

    fn send(
        &self,
        machine: &str,
        verb: &[String],
        hear: &mut dyn FnMut(Written<'_>),
    ) -> Result<Reply, Failure> {
        let (store, question) = (self.store.as_ref(), self.question(machine, verb));
        Ok(ask(
            store,
            &self.lab,
            &question,
            no_input(),
            &self.stop,
            hear,
        )?)
    }

    /// Stops waiting.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    fn question(&self, machine: &str, verb: &[String]) -> CommandRequest {
        CommandRequest {
            machine: machine.to_owned(),
            verb: verb.to_vec(),
            args: Vec::new(),
        }
    }
}

/// Returns the output of a machine or the reason why it does not answer; `None`: this process was interrupted.
fn replied(reply: Reply, said: Said) -> Option<Result<Said, String>> {
    match reply {
        Reply::Exit(exit) => Some(Ok(Said { exit, ..said })),
        Reply::Stopped => None,
        Reply::Silent(why) => Some(Err(why)),
    }
}

/// Returns the order of a lab that has a controller.
fn led<'a>(running: &'a [LabDescription], lab: &str) -> Result<&'a LabDescription, Failure> {
    let found = running.iter().find(|order| order.lab == lab);
    found.ok_or_else(|| {
        let all: Vec<&str> = running.iter().map(|order| order.lab.as_str()).collect();
        let there = match all.is_empty() {
            true => "none is running".to_owned(),
            false => format!("there are {}", all.join(", ")),
        };
        let error = format!("no lab on several machines is called '{lab}': {there}");
        Failure::Usage(error)
    })
}

impl Elsewhere<'_> {
    /// Prints the output of the verb there while it runs, and returns its exit code.
    pub(crate) fn run(self) -> Outcome {
        let far = Far::of(self.store, self.lab, self.node)?;
        let mut printing = Printing::new(&far.stop);
        let input = Box::new(io::Cursor::new(self.input));
        let exit = far.ask(&self.verb, &self.args, input, &mut |written| {
            printing.hear(written);
        })?;
        printing.ended()?;
        Ok(exit.map_or(Exit::Interrupted, Exit::of_command))
    }
}

/// Prints labs on several machines.
pub(crate) fn list(place: &StoreLocation, json: bool) -> Outcome {
    let store = find(place)?;
    let labs = constel_cluster::agent::labs::listed(store.as_ref())?;
    if json {
        output::json(&labs)?;
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> = labs
        .iter()
        .map(|lab| {
            let parts = lab.parts.iter().map(|part| {
                let phase = part.phase.map_or("-", Phase::as_str);
                format!("{} {phase}", part.machine)
            });
            let parts: Vec<String> = parts.collect();
            vec![
                lab.lab.clone(),
                lab.scenario.clone(),
                lab.host.clone(),
                lab.pid.to_string(),
                parts.join(", "),
            ]
        })
        .collect();
    let head = ["LAB", "SCENARIO", "CONTROLLER", "PID", "MACHINES"];
    output::text(&output::table(&head, &rows))?;
    Ok(Exit::Done)
}

/// Stops labs on several machines; returns when they have ended.
pub(crate) fn down(place: &StoreLocation, labs: &[String], json: bool) -> Outcome {
    let store = find(place)?;
    let store = store.as_ref();
    let running = constel_cluster::agent::labs::running(store)?;
    for lab in labs {
        led(&running, lab)?;
    }
    for lab in labs {
        constel_cluster::agent::labs::end(store, lab, "constel down")?;
    }
    for lab in labs {
        if !constel_cluster::agent::labs::wait_gone(store, lab)? {
            return Err(Failure::Failed(anyhow::anyhow!(
                "lab {lab} is not down yet: its controller prints the machine that it waits for"
            )));
        }
        if !json {
            output::text(&format!("{lab} is down\n"))?;
        }
    }
    if json {
        let rows: Vec<_> = labs
            .iter()
            .map(|lab| serde_json::json!({"lab": lab, "down": true}))
            .collect();
        match rows.as_slice() {
            [one] => output::json(one)?,
            all => output::json(&all)?,
        }
    }
    Ok(Exit::Done)
}
