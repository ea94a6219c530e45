//! The command line: verbs and their flags. Doc comments are the help texts.

mod agent;
mod image;
mod info;
mod init;
mod link;
mod machines;
mod middlebox;
mod network;
mod plan;
mod probe;
mod results;
mod sweep;
mod test;
mod top;
mod web;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use constel_scenario::Setting;
use constel_units::TimeSpan;

pub(crate) use agent::{Agent, ListMachines, Part};
pub(crate) use image::{Image, ImageBuild, ImageImport, ImageVerb};
pub(crate) use info::{Info, InfoVerb};
pub(crate) use init::{Completion, Demo, Init, Man};
pub(crate) use link::{JitterName, Link, LinkChange, LinkEnds, LinkSet, OrderName};
pub(crate) use machines::{OnMachines, OnThere};
pub(crate) use middlebox::{
    BoxAdd, BoxCheck, BoxEdit, BoxMove, BoxRemove, BoxRule, BoxVerb, Middlebox,
};
pub(crate) use network::{Network, NetworkDelays, NetworkMember, NetworkVerb};
pub(crate) use plan::{Check, Format, Over, Plan};
pub(crate) use probe::Probe;
pub(crate) use results::{
    CompareRuns, ExportRun, PackRun, PlotRun, Results, ResultsVerb, TableFormat,
};
pub(crate) use sweep::Sweep;
pub(crate) use test::Test;
pub(crate) use top::{Metrics, Top};
pub(crate) use web::Web;

/// Run real software over a low-earth-orbit network that moves.
///
/// Exit codes: 0 done, 1 failed, 2 usage, 3 the run finished but its figures are not to be trusted,
/// 4 the scenario is not valid, 5 this host is not able, 130 interrupted and cleaned up.
#[derive(Debug, Parser)]
#[command(name = "constel", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// The first minute: Iridium over this machine, a ping across it. Needs root, and nothing installed.
    Demo(Demo),
    /// Write a first scenario of your own, commented, from a few answers or flags.
    Init(Init),
    /// Bring a scenario up, run its traffic, sum up, take it down.
    Run(Run),
    /// Run a scenario many times, with several seeds and values, and sum up: means, intervals, a picture.
    Sweep(Sweep),
    /// Run scenarios and judge what they expect (`expect`): a line for each statement, and a report in JUnit's XML.
    Test(Test),
    /// Is a scenario good? Prints every error at once; touches nothing.
    Check(Check),
    /// Print who links to whom at an instant; touches nothing.
    Plan(Plan),
    /// Turn another tool's scenario into one of Constel's; says what could not be carried over.
    Import(Import),
    /// Container images, of which nodes can be made: import, build, list, show, remove, prune.
    Image(Image),
    /// Put a network between two interfaces of this host, by rules; show and change the rules while frames flow.
    Box(Middlebox),
    /// List the labs of this host.
    List(List),
    /// Show one running lab: nodes, flows, counters, the link plane's health.
    Show(Lab),
    /// Run a command in a node; its streams and exit code pass through. Or in many at a time: give a pattern.
    Exec(Exec),
    /// Copy files and folders into a node and out of it.
    Cp(Cp),
    /// Open a shell in a node.
    Shell(Shell),
    /// Change what a node is told while the lab runs: put or remove a file of yours, send a command.
    Info(Info),
    /// Show one link's live state, and why it is up or down; or change it by hand (set, fail, heal).
    Link(Link),
    /// Show who is in a lab's networks; let members join and leave.
    Network(Network),
    /// Print a node's routes, as its kernel has them.
    Routes(Routes),
    /// Follow the kernels' routes from one node to another, hop by hop, and compare with the shortest way.
    Path(Path),
    /// Print a lab's events.
    Events(Events),
    /// Watch a running lab: its busiest links, and how late its frames are.
    Top(Top),
    /// Print a running lab's counters as OpenMetrics, or serve them to Prometheus.
    Metrics(Metrics),
    /// Write frames of a port, a node or a rule to a file as they pass.
    Capture(Capture),
    /// Take a running lab down.
    Down(Down),
    /// Remove what dead labs left behind, and nothing else.
    Clean(Clean),
    /// Find out, by trying, what this host can do.
    Doctor(Json),
    /// Probe another node, or answer probes: what flows of `ping` start in nodes.
    #[command(subcommand, hide = true)]
    Probe(Probe),
    /// List the runs of a results folder, or print one run's summary.
    Results(Results),
    /// Show a scenario's future in a browser of this machine: its sky, links, paths, and why.
    Web(Web),
    /// Be one of several machines that share a store: join, say how this machine is, leave with Ctrl-C.
    Agent(Agent),
    /// Run this machine's part of a lab: what `constel agent` starts.
    #[command(hide = true)]
    Part(Part),
    /// List the machines that share a store: state, weight, load, clock.
    Machines(ListMachines),
    /// Print what makes a shell complete verbs and flags: `source <(constel completion bash)`.
    Completion(Completion),
    /// Write a manual page for each verb.
    #[command(hide = true)]
    Man(Man),
}

/// Verbs that only know `--json`.
#[derive(Debug, Args)]
pub(crate) struct Json {
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// List labs on several machines instead, which share this store: `etcd://HOST:PORT`, or the path of a folder.
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<constel_store::Place>,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Changes of a scenario that do not touch its file.
#[derive(Debug, Args)]
pub(crate) struct Changes {
    /// Change a value of the scenario before it is read: KEY is its place, as errors name places
    /// (`links.driver`, `traffic[0].from`, `traffic[web].start`), VALUE as in the file. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Setting>,
    /// Run with this seed; short for `--set seed=N`.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl Changes {
    /// All of them, in the order in which they are made.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let seed = self.seed.map(Setting::seed);
        self.set.iter().cloned().chain(seed).collect()
    }
}

/// `run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The scenario file; `-` is standard input, and the files that it names are then looked for in this folder.
    pub(crate) file: PathBuf,
    /// What is different from the file.
    #[command(flatten)]
    pub(crate) changes: Changes,
    /// Name of the lab; the scenario's name unless given.
    #[arg(long, value_name = "LAB")]
    pub(crate) name: Option<String>,
    /// Folder that receives this run's results; `results/<lab>-<UTC time>` unless given. Must not exist.
    #[arg(long, value_name = "DIR")]
    pub(crate) results: Option<PathBuf>,
    /// Run for this long instead of the scenario's duration, for example `30s`.
    #[arg(long = "for", value_name = "DURATION")]
    pub(crate) duration: Option<TimeSpan>,
    /// Leave the scenario's traffic out.
    #[arg(long)]
    pub(crate) no_traffic: bool,
    /// Try it even where the lab will not fit on this machine (`constel check --here`).
    #[arg(long)]
    pub(crate) anyway: bool,
    /// Write down what all interfaces of all nodes have counted, so many times a second (1 to 100), as columns in
    /// `interfaces` of the results.
    #[arg(long, value_name = "HZ", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) profile: Option<u32>,
    /// Take the lab down as soon as this process has ended, whatever ended it: for programs that start labs.
    #[arg(long, value_name = "PID")]
    pub(crate) ends_with: Option<u32>,
    /// Serve the web view of the lab while it runs, read-only; its address is told on stderr. `constel web LAB` serves that of any lab.
    #[arg(long)]
    pub(crate) web: bool,
    /// On which machines.
    #[command(flatten)]
    pub(crate) on: OnThere,
    /// Print the summary as one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `import`.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// StarryNet's `config.json`, OpenSN's emulation `.json`, Celestial's `.toml`, StarPerf's constellation `.xml`, or Hypatia's folder.
    pub(crate) file: PathBuf,
    /// StarPerf's file of ground stations, to go with its constellation.
    #[arg(long, value_name = "FILE")]
    pub(crate) stations: Option<PathBuf>,
    /// Where the scenario goes; stdout unless given. Must not exist.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// Verbs about one lab.
#[derive(Debug, Args)]
pub(crate) struct Lab {
    /// The lab's name, as in `constel list`.
    pub(crate) lab: String,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `down`.
#[derive(Debug, Args)]
pub(crate) struct Down {
    /// The labs' names, as in `constel list`.
    #[arg(required_unless_present = "all")]
    pub(crate) labs: Vec<String>,
    /// All labs that are alive.
    #[arg(long, conflicts_with = "labs")]
    pub(crate) all: bool,
    /// Labs on several machines, which share this store: `etcd://HOST:PORT`, or the path of a folder.
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<constel_store::Place>,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a command in a node shares with the host.
const SHARED: &str = "A node has its own network, host name, /tmp, /run and /dev/shm, and sees the processes of its lab alone. \
    It shares with the host: the kernel, users, the clock, and all other files, which commands may change as their user may. \
    Nodes of an image have that image's files instead. docs/reference/nodes.md has the whole list. \
    `vtysh` and `birdc` talk to the node's own daemons.";

/// `exec`.
#[derive(Debug, Args)]
#[command(after_help = SHARED)]
pub(crate) struct Exec {
    /// The lab's name.
    pub(crate) lab: String,
    /// The node's name; or a pattern of names, in which `*` stands for any characters and `?` for one.
    pub(crate) node: String,
    /// Only nodes of this kind, of those that the pattern names.
    #[arg(long, value_enum)]
    pub(crate) class: Option<Class>,
    /// Print one JSON document: an object for each node, with its exit code and output.
    #[arg(long)]
    pub(crate) json: bool,
    /// Of a lab on several machines, which share this store: `etcd://HOST:PORT`, or the path of a folder. What is asked is run on the
    /// machine that has the node.
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<constel_store::Place>,
    /// In so many nodes at a time, when there are several.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) at_once: u16,
    /// The command and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        last = false
    )]
    pub(crate) command: Vec<String>,
}

/// Kinds of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Class {
    /// Satellites.
    Satellite,
    /// Ground stations.
    Ground,
    /// Hosts.
    Host,
}

/// `cp`.
#[derive(Debug, Args)]
pub(crate) struct Cp {
    /// The lab's name.
    pub(crate) lab: String,
    /// What is copied: `NODE:PATH`, or a path of this host; `-`: a tar archive from standard input.
    pub(crate) from: String,
    /// Where to: `NODE:PATH`, or a path of this host; `-`: as a tar archive to standard output.
    pub(crate) to: String,
    /// Of a lab on several machines, which share this store: `etcd://HOST:PORT`, or the path of a folder. At most 64 MiB go
    /// to the machine that has the node, or come from there.
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<constel_store::Place>,
    /// For another machine: what is left out is named and no failure, for whoever asked fails for it.
    #[arg(long, hide = true)]
    pub(crate) left_out_is_no_failure: bool,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `shell`.
#[derive(Debug, Args)]
#[command(after_help = SHARED)]
pub(crate) struct Shell {
    /// The lab's name.
    pub(crate) lab: String,
    /// The node's name.
    pub(crate) node: String,
    /// Of a lab on several machines, which share this store: `etcd://HOST:PORT`, or the path of a folder. The shell is opened on the
    /// machine that has the node; what is typed and shown goes through the store.
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<constel_store::Place>,
}

/// `routes`.
#[derive(Debug, Args)]
pub(crate) struct Routes {
    /// The lab's name.
    pub(crate) lab: String,
    /// The node's name.
    pub(crate) node: String,
    /// Of a lab on several machines, which share this store: `etcd://HOST:PORT`, or the path of a folder. What is asked is run on the
    /// machine that has the node.
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<constel_store::Place>,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `path`.
#[derive(Debug, Args)]
pub(crate) struct Path {
    /// The lab's name.
    pub(crate) lab: String,
    /// The node it begins at.
    pub(crate) a: String,
    /// The node it leads to; or `london.tl`, its ends of the disjoint paths of the pair `tl`, and `london.tl.2`, that
    /// of path 2.
    pub(crate) b: String,
    /// Walk the edges of this lab time, for example `30s`; now unless given. The tables are always those of now.
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<TimeSpan>,
    /// Of a lab on several machines, which share this store: `etcd://HOST:PORT`, or the path of a folder. What is asked is run on the
    /// machine that has the node.
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<constel_store::Place>,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `events`.
#[derive(Debug, Args)]
pub(crate) struct Events {
    /// The lab's name.
    pub(crate) lab: String,
    /// Print later events too, until the lab ends.
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Of a lab on several machines, which share this store: `etcd://HOST:PORT`, or the path of a folder. Events of all
    /// its machines, by lab time.
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<constel_store::Place>,
    /// Print one JSON object per line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `capture`.
#[derive(Debug, Args)]
pub(crate) struct Capture {
    /// The lab's name.
    pub(crate) lab: String,
    /// A port as NODE/PORT, or a node for all of its ports; of a box, a rule's name or an interface's.
    #[arg(value_name = "PORT|RULE")]
    pub(crate) of: String,
    /// Only frames that this takes, in either direction: what a rule of a box has in `match`, such as `protocol: udp, dport: 53`.
    #[arg(long, value_name = "EXPR")]
    pub(crate) filter: Option<String>,
    /// The file, as pcapng; `-` is stdout.
    #[arg(long, short = 'w', value_name = "FILE")]
    pub(crate) write: std::path::PathBuf,
    /// End after this time.
    #[arg(long = "for", value_name = "DURATION")]
    pub(crate) duration: Option<TimeSpan>,
    /// End after so many frames.
    #[arg(long, value_name = "FRAMES", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Of a lab on several machines, which share this store: `etcd://HOST:PORT`, or the path of a folder. At most 64 MiB come
    /// from the machine that has the node; needs `--for` or `--count`.
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<constel_store::Place>,
    /// Print what was captured as one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `clean`.
#[derive(Debug, Args)]
pub(crate) struct Clean {
    /// Only this lab; all dead labs unless given.
    pub(crate) lab: Option<String>,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_command_keeps_its_own_flags() {
        let cli = Cli::try_parse_from(["constel", "exec", "lab", "a", "--", "ls", "-l", "--json"]);
        let Verb::Exec(exec) = cli.unwrap().verb else {
            panic!("not exec")
        };
        assert_eq!(exec.command, ["ls", "-l", "--json"]);
        assert!(!exec.json);
        let many = [
            "constel", "exec", "lab", "a-*", "--json", "--class", "ground", "--", "ls", "--json",
        ];
        let Verb::Exec(exec) = Cli::try_parse_from(many).unwrap().verb else {
            panic!("not exec")
        };
        assert_eq!(exec.command, ["ls", "--json"]);
        assert!(exec.json && exec.class == Some(Class::Ground));
    }
}
