//! Commands of a scenario in the machines of its box: started and ended at their times, and reported at the end.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use constel_api::EventData;
use constel_api::summary::{FlowRow, FlowStatus};
use constel_host::process::Supervisor;
use constel_lab::Ended;
use constel_measure::flows::Outcome;
use constel_measure::results::Results;
use constel_scenario::model::MachineCommand;

use crate::machines::Machines;

/// The time that a command has to end after the signal to end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A command that runs, or is being ended.
struct Active {
    began_ns: u64,
    /// The instant at which it will be killed, if it has received the signal to end.
    killed_at: Option<Instant>,
}

/// The commands of a box.
pub(crate) struct Programs {
    machines: Arc<Machines>,
    commands: Vec<MachineCommand>,
    files: Vec<(PathBuf, PathBuf)>,
    /// The indices of the commands that have not started, in the order of their starts.
    waiting: VecDeque<usize>,
    running: Supervisor<usize>,
    active: BTreeMap<usize, Active>,
    ended: BTreeMap<usize, (Ended, Option<u64>)>,
}

fn ns(of: constel_units::TimeSpan) -> u64 {
    of.ns().unsigned_abs()
}

impl Programs {
    /// Creates the list; no command has started yet.
    pub(crate) fn new(
        machines: Arc<Machines>,
        commands: Vec<MachineCommand>,
        results: &Results,
    ) -> Programs {
        let files = commands.iter().map(|command| {
            let file = |what| results.flow(command.name.as_str(), what);
            (file("out"), file("err"))
        });
        Programs {
            files: files.collect(),
            waiting: (0..commands.len()).collect(),
            machines,
            commands,
            running: Supervisor::new(),
            active: BTreeMap::new(),
            ended: BTreeMap::new(),
        }
    }

    /// Starts and ends the commands that are due, and records those that have ended.
    ///
    /// # Errors
    /// When the kernel does not report ended processes, or refuses to end one.
    pub(crate) fn look(
        &mut self,
        now_ns: u64,
        emit: &dyn Fn(EventData),
    ) -> constel_host::Result<()> {
        while let Some(&next) = self.waiting.front()
            && ns(self.commands[next].at) <= now_ns
        {
            self.waiting.pop_front();
            self.start(next, now_ns, emit);
        }
        for gone in self.running.wait(Duration::ZERO)? {
            let Some(active) = self.active.remove(&gone.key) else {
                continue;
            };
            let took = Some(now_ns.saturating_sub(active.began_ns));
            let ended = match active.killed_at {
                Some(_) => Ended::AtItsTime,
                None => {
                    let flow = self.commands[gone.key].name.to_string();
                    let exit = gone.exit.shell_code();
                    emit(EventData::FlowEnded { flow, exit });
                    let (exit, t_ns) = (gone.exit, now_ns);
                    Ended::ByItself { exit, t_ns }
                }
            };
            self.ended.insert(gone.key, (ended, took));
        }
        for (place, child) in self.running.iter() {
            let command = &self.commands[*place];
            let over = ns(command.at) + ns(command.length) <= now_ns;
            let Some(active) = self.active.get_mut(place).filter(|_| over) else {
                continue;
            };
            match active.killed_at {
                None => {
                    child.signal(rustix::process::Signal::TERM)?;
                    active.killed_at = Some(Instant::now() + LAST_WORDS);
                }
                Some(at) if at <= Instant::now() => child.signal(rustix::process::Signal::KILL)?,
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn start(&mut self, place: usize, now_ns: u64, emit: &dyn Fn(EventData)) {
        let command = &self.commands[place];
        let (out, err) = &self.files[place];
        match self
            .machines
            .start(command.machine, &command.command, (out, err))
        {
            Ok(child) => {
                let flow = command.name.to_string();
                emit(EventData::FlowStarted { flow });
                self.running.add(place, child);
                let active = Active {
                    began_ns: now_ns,
                    killed_at: None,
                };
                self.active.insert(place, active);
            }
            Err(error) => {
                let flow = command.name.to_string();
                let exit = constel_lab::NOT_STARTED;
                emit(EventData::FlowEnded { flow, exit });
                self.ended
                    .insert(place, (Ended::NotStarted(error.to_string()), None));
            }
        }
    }

    /// Ends the remaining commands and returns the outcome of all.
    ///
    /// # Errors
    /// When a command cannot be ended.
    pub(crate) fn end(mut self) -> constel_host::Result<Vec<FlowRow>> {
        self.running.terminate_all(LAST_WORDS, || Ok(()))?;
        let rows = self.commands.iter().enumerate().map(|(place, command)| {
            let cut_short = || match self.active.get(&place) {
                Some(Active {
                    killed_at: Some(_), ..
                }) => Ended::AtItsTime,
                _ => Ended::CutShort,
            };
            let (ended, took_ns) = self
                .ended
                .get(&place)
                .cloned()
                .unwrap_or_else(|| (cut_short(), None));
            let (status, reason) = judge(&ended, &self.files[place].1);
            FlowRow {
                name: command.name.to_string(),
                kind: "run".to_owned(),
                from: self.machines.names()[command.machine].clone(),
                to: None,
                at_ns: ns(command.at),
                status,
                reason,
                end: Some(ended.client_end(ns(command.at) + ns(command.length))),
                outcome: Outcome {
                    took_ns,
                    ..Outcome::default()
                },
                samples: 0,
                marked_samples: 0,
                late_worst_ns: None,
                trustworthy: None,
                doubt: None,
                changed_stacks: Vec::new(),
                handovers: 0,
                paths: Vec::new(),
                unlisted_path_steps: 0,
                path_rtt: None,
                bound_rtt: None,
            }
        });
        Ok(rows.collect())
    }
}

fn judge(ended: &Ended, err: &Path) -> (FlowStatus, Option<String>) {
    match ended {
        Ended::NotStarted(reason) => (FlowStatus::Failed, Some(reason.clone())),
        Ended::CutShort | Ended::Removed => (FlowStatus::CutShort, None),
        Ended::ByItself { exit, .. } | Ended::Full { exit, .. } if !exit.is_success() => {
            let how = constel_lab::exit_in_full(*exit, err);
            (FlowStatus::Failed, Some(how))
        }
        Ended::ByItself { .. } | Ended::Full { .. } | Ended::AtItsTime | Ended::NodeDown => {
            (FlowStatus::Ok, None)
        }
    }
}
