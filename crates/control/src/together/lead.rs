//! Leading a lab on several machines: order, parts, results in one folder with one verdict.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use constel_api::manifest::{MachineTransportReport, Manifest};
use constel_api::summary::{LostRow, MovedRow, Summary};
use constel_cluster::agent::labs::{ControllerInput, LabDescription, LabOutcome, lead};
use constel_cluster::agent::{Row, host_name};
use constel_cluster::store::Store;
use constel_host::claim::LabName;
use constel_lab::{EngineError, back_ns, gone_ns};
use constel_plan::Lab;
use constel_scenario::model::OnMachineLoss;
use constel_topology::NodeId;

use super::ask::{ChosenMachines, Fate, follow};
use super::between::TransportChoice;
use super::merge::{Left, merge};
use super::name_there;
use crate::error::Error;
use crate::run::{RunOptions, default_results};
use crate::scenario::Scenario;

/// The store of a lab's machines, and the machines that participate.
pub struct OnMachines<'a> {
    /// The store that they share.
    pub store: &'a Arc<dyn Store>,
    /// The machines as they are in it.
    pub rows: &'a [Row],
    /// Those that take a part.
    pub asked: &'a ChosenMachines,
    /// The transport of frames between them.
    pub between: TransportChoice,
    /// Whether these are encrypted.
    pub encrypted: bool,
}

/// A lab on several machines that came to its end.
#[derive(Debug)]
pub struct ClusterRun {
    /// The summary, which is also in `summary.json`.
    pub summary: Summary,
    /// The results folder of the lab. The folder of each machine is below `machines`.
    pub results: PathBuf,
}

impl Scenario {
    /// Runs the scenario on several machines, from the order to one summary. Agents print messages about their own machines.
    /// `say` gets messages about the whole lab.
    ///
    /// # Errors
    /// [`Error::NotOnSeveral`], [`Error::BadLabName`], [`Error::Undividable`], before anything is done; [`Error::Led`];
    /// [`Error::NoneFinished`] with the machine at fault if no machine has written a summary; and
    /// [`EngineError::Interrupted`] in [`Error::Run`] if the lab was stopped before that.
    pub fn start_on(
        &self,
        on: &OnMachines<'_>,
        options: &RunOptions,
        say: &dyn Fn(&str),
    ) -> Result<ClusterRun, Error> {
        let name = options.name.clone();
        let name = name.unwrap_or_else(|| self.lab.scenario.name.to_string());
        let name: LabName = name
            .parse()
            .map_err(|error: constel_host::Error| Error::BadLabName(error.to_string()))?;
        for machine in on.asked.machines.all() {
            name_there(name.as_str(), &machine.name)?;
        }
        let looked = self.look_on(on)?;
        if !looked.refusals.is_empty() {
            return Err(Error::NotOnSeveral(looked.refusals.join("\n  ")));
        }
        say(&looked.between_in_words());
        for way in looked
            .machine_pairs
            .iter()
            .filter(|way| way.short_edges > 0)
        {
            say(&format!(
                "{} of {} edges from {} to {} are shorter than the path between these machines ({:.3} ms): their frames will be late, \
                 and the verdict will report it",
                way.short_edges,
                way.edges,
                way.from,
                way.to,
                way.one_way_ns as f64 / 1e6
            ));
        }
        let end_ns = options
            .lab_time_ns(&self.lab.scenario)?
            .ok_or(Error::NoEnd)?;
        let results = options.results.clone();
        let results = results.unwrap_or_else(|| default_results(name.as_str()));
        make_results(&results)?;
        let written = fs::write(results.join("scenario.yaml"), &self.text);
        written.map_err(|source| kept(&results, source))?;
        let order = LabDescription {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            lab: name.to_string(),
            by: (host_name(), std::process::id()),
            machines: on.asked.nodes(),
            place: on.asked.place_word().to_owned(),
            pins: on.asked.pins.iter().map(ToString::to_string).collect(),
            duration_ns: options.duration_ns.map(std::num::NonZeroU64::get),
            traffic: options.traffic,
            between: looked.transport,
            encrypted: on.encrypted,
            goes_on: self.lab.scenario.on_machine_loss != OnMachineLoss::End,
            moves: self.lab.scenario.on_machine_loss == OnMachineLoss::Move,
            files: Vec::new(),
        };
        let mut files = vec![(self.file.clone(), self.text.clone().into_bytes())];
        files.extend(self.files()?);
        let left = Mutex::new(Left::default());
        let keep = |machine: &str, path: &str, bytes: &[u8]| {
            let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
            left.learn(machine, path, bytes);
            constel_cluster::agent::labs::write_below(
                &results.join("machines").join(machine),
                path,
                bytes,
            )?;
            match path.starts_with("flows/") {
                // Each flow's client is on one machine, and its server.
                true => constel_cluster::agent::labs::write_below(&results, path, bytes),
                false => Ok(()),
            }
        };
        let led = lead(ControllerInput {
            store: on.store,
            order,
            files: &files,
            stop: &options.stop,
            say,
            keep: &keep,
        });
        // A lab that never started leaves no folder.
        let led = led.inspect_err(|_| {
            if !results.join("machines").exists() {
                let _ = fs::remove_dir_all(&results);
            }
        })?;
        let left = left.into_inner().unwrap_or_else(PoisonError::into_inner);
        let interrupted = options.stop.load(Ordering::Acquire);
        let gone = self.gone(on.asked, &led, end_ns)?;
        let whole = (name.as_str(), &self.lab);
        let left = (left, looked.between);
        close(whole, &results, (&led, &gone), left, interrupted)
    }
}

impl Scenario {
    /// Returns the loss of each machine, if the lab continued without it: the lab time, its nodes, and those nodes that
    /// returned on other machines. The lab ended at `end_ns`.
    fn gone(
        &self,
        asked: &ChosenMachines,
        led: &LabOutcome,
        end_ns: u64,
    ) -> Result<Vec<Option<LostRow>>, Error> {
        let mut homes = asked.homes(self, asked.place(self)?);
        let moves = self.lab.scenario.on_machine_loss == OnMachineLoss::Move;
        let step_ns = self.lab.step_ns();
        let named = |nodes: &mut dyn Iterator<Item = NodeId>| {
            let name = |node| self.lab.layout.node(node).name.clone();
            nodes.map(name).collect::<Vec<String>>()
        };
        let mut rows: Vec<Option<LostRow>> = vec![None; asked.machines.all().len()];
        for (fate, known_ns) in follow(&mut homes, &asked.machines, &led.agreed, moves) {
            match fate {
                Fate::Lost(machine, moved) => {
                    let from_ns = gone_ns(known_ns, step_ns);
                    rows[machine] = (from_ns < end_ns).then(|| LostRow {
                        from_ns,
                        nodes: named(&mut moved.nodes.into_iter()),
                        moved: Vec::new(),
                    });
                }
                Fate::Back(machine, nodes) => {
                    let Some(row) = &mut rows[machine] else {
                        continue;
                    };
                    let from_ns = back_ns(known_ns, row.from_ns, step_ns);
                    let to: BTreeSet<usize> = nodes.values().copied().collect();
                    let moved = to.into_iter().map(|to| {
                        let own = nodes.iter().filter(|(_, of)| **of == to);
                        MovedRow {
                            to: asked.machines.all()[to].name.clone(),
                            from_ns,
                            nodes: named(&mut own.map(|(node, _)| *node)),
                        }
                    });
                    row.moved.extend(moved.filter(|_| from_ns < end_ns));
                }
            }
        }
        Ok(rows)
    }
}

/// Returns one verdict from the results of all machines.
fn close(
    (name, lab): (&str, &Lab),
    results: &Path,
    (led, gone): (&LabOutcome, &[Option<LostRow>]),
    (left, between): (Left, MachineTransportReport),
    interrupted: bool,
) -> Result<ClusterRun, Error> {
    let manifest = left.manifest.clone();
    let Some(summary) = merge((name, lab), (led, gone), left, interrupted) else {
        let failures = led.machines.iter().filter_map(|machine| {
            let failure = machine.failure.as_ref()?;
            Some(format!("machine {}: {failure}", machine.machine))
        });
        let failures: Vec<String> = failures.collect();
        if failures.is_empty() {
            return Err(EngineError::Interrupted.into());
        }
        return Err(Error::NoneFinished(failures.join("\n  ")));
    };
    if let Some(manifest) = manifest {
        let manifest = Manifest {
            lab: name.to_owned(),
            between: Some(between),
            ..manifest
        };
        write_json(&results.join("manifest.json"), &manifest)?;
    }
    write_json(&results.join("summary.json"), &summary)?;
    Ok(ClusterRun {
        summary,
        results: results.to_owned(),
    })
}

fn make_results(results: &Path) -> Result<(), Error> {
    if let Some(parent) = results.parent() {
        fs::create_dir_all(parent).map_err(|source| kept(parent, source))?;
    }
    fs::create_dir(results).map_err(|source| match source.kind() {
        std::io::ErrorKind::AlreadyExists => EngineError::ResultsThere(results.to_owned()).into(),
        _ => kept(results, source),
    })
}

fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(value);
    let text = text.map_err(|error| kept(path, error.into()))?;
    fs::write(path, text + "\n").map_err(|source| kept(path, source))
}

fn kept(path: &Path, source: std::io::Error) -> Error {
    Error::Unwritable {
        path: path.to_owned(),
        source,
    }
}
