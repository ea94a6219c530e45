//! The command line: verbs and their flags. Doc comments are the help texts; [`examples`] follow the flags.

mod agent;
mod apply;
mod examples;
mod image;
mod info;
mod init;
mod link;
mod machines;
mod middlebox;
mod network;
mod node;
mod plan;
mod probe;
mod results;
mod sweep;
mod test;
mod top;
mod up;
mod web;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use constel_scenario::Setting;
use constel_units::TimeSpan;

pub(crate) use agent::{Agent, ListMachines, WorkerArgs};
pub(crate) use apply::{Apply, StationArgs, StationVerb};
pub(crate) use image::{Image, ImageBuild, ImageImport, ImageVerb};
pub(crate) use info::{Info, InfoVerb};
pub(crate) use init::{Completion, Demo, Init, Man, Names};
pub(crate) use link::{JitterName, Link, LinkChange, LinkEnds, LinkSet, OrderName};
pub(crate) use machines::{OnMachines, OnThere};
pub(crate) use middlebox::{
    BoxAdd, BoxCheck, BoxEdit, BoxImport, BoxMove, BoxRemove, BoxRule, BoxVerb, Middlebox,
};
pub(crate) use network::{Network, NetworkDelays, NetworkMember, NetworkVerb};
pub(crate) use node::{Node, NodeVerb};
pub(crate) use plan::{Check, Format, IntervalArgs, Plan};
pub(crate) use probe::Probe;
pub(crate) use results::{
    CompareRuns, CompareWith, ExportRun, PackRun, PictureFormat, PictureLook, PlotRun, Quantity,
    Results, ResultsVerb, TableFormat,
};
pub(crate) use sweep::{Sweep, SweepMerge, SweepVerb};
pub(crate) use test::Test;
pub(crate) use top::{Metrics, Top};
pub(crate) use up::{Logs, Restart, Up};
pub(crate) use web::Web;

/// Run real software over an emulated low-earth-orbit network.
///
/// Exit codes: 0 done, 1 failed, 2 usage, 3 the run is complete but not trustworthy, 4 the scenario is not valid, 5 this host
/// cannot run it, 130 interrupted and cleaned up.
#[derive(Debug, Parser)]
#[command(name = "constel", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// The verb.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run a first ping over Iridium on this machine.
    #[command(after_help = examples::DEMO)]
    Demo(Demo),
    /// Write a first scenario with comments, from a few answers or flags.
    #[command(after_help = examples::INIT)]
    Init(Init),
    /// Run a scenario: start the lab, run its traffic, print a summary.
    #[command(after_help = examples::RUN)]
    Run(Run),
    /// Start a lab that stays in the background.
    #[command(after_help = examples::UP)]
    Up(Up),
    /// Take a lab of `up` down and start it again.
    #[command(after_help = examples::RESTART)]
    Restart(Restart),
    /// Change the scenario of a running lab, without touching the parts that stay.
    #[command(after_help = examples::APPLY)]
    Apply(Apply),
    /// Run a scenario with several seeds and values, and compare.
    #[command(after_help = examples::SWEEP)]
    Sweep(Sweep),
    /// Run scenarios and check the statements in `expect`.
    #[command(after_help = examples::TEST)]
    Test(Test),
    /// Check a scenario and print all its errors.
    #[command(after_help = examples::CHECK)]
    Check(Check),
    /// Print the links of a scenario at an instant, or a plan over time.
    #[command(after_help = examples::PLAN)]
    Plan(Plan),
    /// Convert another tool's scenario to a scenario of Constel.
    #[command(after_help = examples::IMPORT)]
    Import(Import),
    /// Manage the container images from which nodes are made.
    #[command(after_help = examples::IMAGE)]
    Image(Image),
    /// Emulate a network between two interfaces of this host, by rules.
    #[command(after_help = examples::BOX)]
    Box(Middlebox),
    /// List the labs of this host.
    #[command(after_help = examples::LIST, visible_alias = "ps")]
    List(List),
    /// Print the messages of a lab of `up`, or the output of a node's programs.
    #[command(after_help = examples::LOGS)]
    Logs(Logs),
    /// Show a running lab: nodes, flows, counters, link plane.
    #[command(after_help = examples::SHOW)]
    Show(Lab),
    /// Run a command in a node, or in all nodes that match a pattern.
    #[command(after_help = examples::exec())]
    Exec(Exec),
    /// Copy files and folders into or out of a node.
    #[command(after_help = examples::CP)]
    Cp(Cp),
    /// Open a shell in a node.
    #[command(after_help = examples::shell())]
    Shell(Shell),
    /// Change the information that a node receives while the lab runs.
    #[command(after_help = examples::INFO)]
    Info(Info),
    /// Show a link's state, or change the link by hand.
    #[command(after_help = examples::LINK)]
    Link(Link),
    /// Stop, start, pause or fail nodes of a running lab.
    #[command(after_help = examples::NODE)]
    Node(Node),
    /// Attach stations to satellites, detach them, or give them a policy.
    #[command(after_help = examples::STATION)]
    Station(StationArgs),
    /// Show a lab's networks, or change their members and delays.
    #[command(after_help = examples::NETWORK)]
    Network(Network),
    /// Print the routes of a node's kernel.
    #[command(after_help = examples::ROUTES)]
    Routes(Routes),
    /// Print the path between two nodes by the kernels' routes.
    #[command(after_help = examples::PATH)]
    Path(Path),
    /// Print a lab's events.
    #[command(after_help = examples::EVENTS)]
    Events(Events),
    /// Watch a running lab's busiest links and the lateness of frames.
    #[command(after_help = examples::TOP)]
    Top(Top),
    /// Print a running lab's counters as OpenMetrics, or serve them.
    #[command(after_help = examples::METRICS)]
    Metrics(Metrics),
    /// Write frames of a port, a node or a rule to a pcapng file.
    #[command(after_help = examples::CAPTURE)]
    Capture(Capture),
    /// Stop running labs.
    #[command(after_help = examples::DOWN)]
    Down(Down),
    /// Remove everything that crashed labs left behind, and nothing else.
    #[command(after_help = examples::CLEAN)]
    Clean(Clean),
    /// Test what this host can do.
    #[command(after_help = examples::DOCTOR)]
    Doctor(Json),
    /// Send or answer probes; flows of `ping` start this in nodes.
    #[command(subcommand, hide = true)]
    Probe(Probe),
    /// List the runs of a results folder, or print one run's summary.
    #[command(after_help = examples::RESULTS)]
    Results(Results),
    /// Show a running lab, a run or a scenario's plan in a browser.
    #[command(after_help = examples::WEB)]
    Web(Web),
    /// Make this machine one of several that share a store.
    #[command(after_help = examples::AGENT)]
    Agent(Agent),
    /// Run this machine's part of a lab; `constel agent` starts it.
    #[command(hide = true)]
    Part(WorkerArgs),
    /// Be the first process of a guest kernel: what `--time virtual` starts.
    #[command(hide = true, name = crate::guest::VERB)]
    Guest,
    /// List the machines that share a store: state, weight, load, clock.
    #[command(after_help = examples::MACHINES)]
    Machines(ListMachines),
    /// Print the completion script of a shell.
    #[command(after_help = examples::COMPLETION)]
    Completion(Completion),
    /// Print the names that complete a command line; completion scripts call it.
    #[command(hide = true)]
    Names(Names),
    /// Write a manual page for each verb.
    #[command(hide = true)]
    Man(Man),
}

/// Arguments of verbs with no flag but `--json`.
#[derive(Debug, Args)]
pub(crate) struct Json {
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// List labs on several machines instead, by their store: `etcd://HOST:PORT`, or the path of a folder.
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<constel_cluster::store::StoreLocation>,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Changes of a scenario's values; its file stays unchanged.
#[derive(Debug, Args)]
pub(crate) struct Changes {
    /// Change a value of the scenario before it is read: KEY is its place in the file, as in errors (`links.driver`,
    /// `traffic[0].from`, `traffic[web].start`), VALUE is written as in the file. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Setting>,
    /// Seed of the run; short for `--set seed=N`. Default: the scenario's.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl Changes {
    /// Returns all changes, in the order in which they are made.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let seed = self.seed.map(Setting::seed);
        self.set.iter().cloned().chain(seed).collect()
    }
}

/// How time passes in a lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Time {
    /// As on the wall.
    #[default]
    Real,
    /// In a guest kernel, when all programs of the lab wait.
    Virtual,
}

/// `run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Scenario file; `-` is standard input, and relative file names in it then refer to the current folder.
    pub(crate) file: PathBuf,
    /// Changes of the scenario's values.
    #[command(flatten)]
    pub(crate) changes: Changes,
    /// Name of the lab. Default: the scenario's name.
    #[arg(long, value_name = "LAB")]
    pub(crate) name: Option<String>,
    /// Folder for the results; it must not exist. Default: `results/<lab>-<UTC time>`.
    #[arg(long, value_name = "DIR")]
    pub(crate) results: Option<PathBuf>,
    /// Run for this time, for example `30s`. Default: the scenario's duration.
    #[arg(long = "for", value_name = "DURATION")]
    pub(crate) duration: Option<TimeSpan>,
    /// Do not run the scenario's traffic.
    #[arg(long)]
    pub(crate) no_traffic: bool,
    /// Run even if the lab does not fit on this machine (`constel check --here`).
    #[arg(long)]
    pub(crate) anyway: bool,
    /// Sample the counters of all interfaces of all nodes this many times per second (1 to 100), to `interfaces` in the
    /// results. Default: no samples.
    #[arg(long, value_name = "HZ", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) profile: Option<u32>,
    /// Begin lab time only when a live policy has joined, within 60 s (`lab.policy` in Python, `policy` on the lab's socket). The
    /// summary then has a fingerprint of the plan, which the replay of the decisions has as well.
    #[arg(long)]
    pub(crate) await_policy: bool,
    /// How time passes: `virtual` runs the lab in a guest kernel whose clock stands still while anything computes. Exact on any
    /// host, and needs no root. Default: the scenario's `clock.time`.
    #[arg(long, value_enum)]
    pub(crate) time: Option<Time>,
    /// Stop the lab when the process with this number ends, however it ends; for programs that start labs.
    #[arg(long, value_name = "PID")]
    pub(crate) ends_with: Option<u32>,
    /// Serve the web view of the lab, read-only, and print its address on stderr. `constel web LAB` serves the view of any
    /// running lab.
    #[arg(long)]
    pub(crate) web: bool,
    /// The machines of the lab.
    #[command(flatten)]
    pub(crate) on: OnThere,
    /// Print the summary as one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `import`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Import {
    /// The verb.
    #[command(subcommand)]
    pub(crate) verb: Option<ImportVerb>,
    /// StarryNet's `config.json`, OpenSN's emulation `.json`, Celestial's `.toml`, StarPerf's constellation `.xml`, a Compose
    /// file, or Hypatia's folder.
    #[arg(required = true)]
    pub(crate) file: Option<PathBuf>,
    /// StarPerf's file of ground stations, for a StarPerf constellation.
    #[arg(long, value_name = "FILE")]
    pub(crate) stations: Option<PathBuf>,
    /// File for the scenario; it must not exist. Default: standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// Imports other than scenarios.
#[derive(Debug, Subcommand)]
pub(crate) enum ImportVerb {
    /// Convert a recording of a real network to files that a link replays.
    Trace(ImportTrace),
}

/// `import trace`.
#[derive(Debug, Args)]
pub(crate) struct ImportTrace {
    /// Recording: `ping -D`, irtt's JSON, LENS, WetLinks, Mahimahi, or a CSV whose first line names a time and a value.
    pub(crate) file: PathBuf,
    /// Beginning of the files' names: PREFIX.delay.txt, PREFIX.rate.csv, PREFIX.loss.txt. Existing files are an error.
    #[arg(long, value_name = "PREFIX")]
    pub(crate) out: PathBuf,
    /// Direction of the link: from the terminal up, or to the terminal down.
    #[arg(long, value_enum, default_value_t = TraceWay::Down)]
    pub(crate) way: TraceWay,
    /// Time from one delay to the next, 100 us to 1 h.
    #[arg(long, value_name = "SPAN", default_value = "10 ms")]
    pub(crate) interval: TimeSpan,
}

/// The direction of a replayed link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TraceWay {
    /// From terminal to network.
    Up,
    /// From network to terminal.
    Down,
}

/// Arguments of verbs about one lab.
#[derive(Debug, Args)]
pub(crate) struct Lab {
    /// Name of the lab, as in `constel list`.
    pub(crate) lab: String,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `down`.
#[derive(Debug, Args)]
pub(crate) struct Down {
    /// Names of the labs, as in `constel list`.
    #[arg(required_unless_present = "all")]
    pub(crate) labs: Vec<String>,
    /// Stop all running labs.
    #[arg(long, conflicts_with = "labs")]
    pub(crate) all: bool,
    /// Store of labs on several machines: `etcd://HOST:PORT`, or the path of a folder.
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<constel_cluster::store::StoreLocation>,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `exec`.
#[derive(Debug, Args)]
pub(crate) struct Exec {
    /// Name of the lab.
    pub(crate) lab: String,
    /// Name of the node; or a pattern, in which `*` matches any characters and `?` matches one.
    pub(crate) node: String,
    /// Only nodes of this kind, of those that match the pattern.
    #[arg(long, value_enum)]
    pub(crate) class: Option<Class>,
    /// Print one JSON document: an object for each node, with its exit code and output.
    #[arg(long)]
    pub(crate) json: bool,
    /// Store of a lab on several machines: `etcd://HOST:PORT`, or the path of a folder. The command runs on the machine that
    /// has the node.
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<constel_cluster::store::StoreLocation>,
    /// Nodes in which the command runs in parallel, if several match.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) at_once: u16,
    /// Command with its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        last = false
    )]
    pub(crate) command: Vec<OsString>,
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
    /// Name of the lab.
    pub(crate) lab: String,
    /// Source: `NODE:PATH`, or a path of this host; `-` reads a tar archive from standard input.
    pub(crate) from: String,
    /// Target: `NODE:PATH`, or a path of this host; `-` writes a tar archive to standard output.
    pub(crate) to: String,
    /// Store of a lab on several machines: `etcd://HOST:PORT`, or the path of a folder. Copies to or from the machine that
    /// has the node.
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<constel_cluster::store::StoreLocation>,
    /// For requests of another machine: skipped files are listed and are not a failure here, because the requesting process
    /// reports them.
    #[arg(long, hide = true)]
    pub(crate) left_out_is_no_failure: bool,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `shell`.
#[derive(Debug, Args)]
pub(crate) struct Shell {
    /// Name of the lab.
    pub(crate) lab: String,
    /// Name of the node.
    pub(crate) node: String,
    /// Store of a lab on several machines: `etcd://HOST:PORT`, or the path of a folder. The shell runs on the machine that has
    /// the node.
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<constel_cluster::store::StoreLocation>,
}

/// `routes`.
#[derive(Debug, Args)]
pub(crate) struct Routes {
    /// Name of the lab.
    pub(crate) lab: String,
    /// Name of the node.
    pub(crate) node: String,
    /// Store of a lab on several machines: `etcd://HOST:PORT`, or the path of a folder. The command runs on the machine that
    /// has the node.
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<constel_cluster::store::StoreLocation>,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `path`.
#[derive(Debug, Args)]
pub(crate) struct Path {
    /// Name of the lab.
    pub(crate) lab: String,
    /// Node at the start of the path.
    pub(crate) a: String,
    /// Node at the end of the path; or `london.tl`, its end of the disjoint paths of the pair `tl`, and `london.tl.2`, its end
    /// of path 2.
    pub(crate) b: String,
    /// Use the edges at this lab time, for example `30s`. Default: now. Routing tables are always the current ones.
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<TimeSpan>,
    /// Store of a lab on several machines: `etcd://HOST:PORT`, or the path of a folder. The command runs on the machine that
    /// has the node.
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<constel_cluster::store::StoreLocation>,
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `events`.
#[derive(Debug, Args)]
pub(crate) struct Events {
    /// Name of the lab.
    pub(crate) lab: String,
    /// Also print later events, until the lab ends.
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Store of a lab on several machines: `etcd://HOST:PORT`, or the path of a folder. Prints the events of all machines,
    /// sorted by lab time.
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<constel_cluster::store::StoreLocation>,
    /// Print one JSON object per line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `capture`.
#[derive(Debug, Args)]
pub(crate) struct Capture {
    /// Name of the lab.
    pub(crate) lab: String,
    /// Port as NODE/PORT, or a node for all its ports; for a box, the name of a rule or an interface.
    #[arg(value_name = "PORT|RULE")]
    pub(crate) of: String,
    /// Only frames that match, in either direction: written as a box rule's `match`, such as `protocol: udp, dport: 53`.
    /// Default: all frames.
    #[arg(long, value_name = "EXPR")]
    pub(crate) filter: Option<String>,
    /// File to write, as pcapng; `-` is standard output.
    #[arg(long, short = 'w', value_name = "FILE")]
    pub(crate) write: std::path::PathBuf,
    /// End after this time. Default: capture until Ctrl-C, or until the lab ends.
    #[arg(long = "for", value_name = "DURATION")]
    pub(crate) duration: Option<TimeSpan>,
    /// End after this number of frames.
    #[arg(long, value_name = "FRAMES", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Store of a lab on several machines: `etcd://HOST:PORT`, or the path of a folder. Copies at most 64 MiB from the machine
    /// that has the node; needs `--for` or `--count`.
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<constel_cluster::store::StoreLocation>,
    /// Print a summary of the capture as one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `clean`.
#[derive(Debug, Args)]
pub(crate) struct Clean {
    /// Name of the crashed lab. Default: all crashed labs.
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
