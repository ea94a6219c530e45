//! One file per verb.

mod agent;
mod apply;
mod capture;
mod check;
mod clean;
mod completion;
mod cp;
mod demo;
mod doctor;
mod down;
mod events;
mod exec;
mod export;
mod image;
mod import;
mod import_trace;
mod info;
mod init;
mod link;
mod list;
mod logs;
mod machines;
mod metrics;
mod middlebox;
mod names;
mod network;
mod node;
mod on_machines;
mod over;
mod path;
mod plan;
mod probe;
mod results;
mod routes;
mod run;
mod scenario;
mod shell;
mod show;
mod station;
mod sweep;
mod test;
mod there;
mod top;
mod up;
mod virtual_time;
mod web;

use crate::args::{Cli, Time, Verb};
use crate::exit::Outcome;

/// Returns whether a verb starts programs in nodes, possibly in nodes of containers.
fn enters_nodes(verb: &Verb) -> bool {
    match verb {
        // The process of the lab does, and not the one that starts it.
        Verb::Up(args) => args.staying,
        // On a machine of the store, it is the process of that machine's agent.
        Verb::Exec(args) => args.store.is_none(),
        Verb::Shell(args) => args.store.is_none(),
        // The commands that an agent starts need not execute themselves again if it has done so.
        Verb::Demo(_) | Verb::Run(_) | Verb::Box(_) | Verb::Agent(_) | Verb::Part(_) => true,
        _ => false,
    }
}

/// Runs the verb.
pub(crate) fn run(cli: Cli) -> Outcome {
    match &cli.verb {
        // The guest's own command enters nodes, not this one.
        Verb::Run(args) if virtual_time::is_wanted(args) => return virtual_time::run(args),
        Verb::Demo(args) if args.time == Time::Virtual => return virtual_time::demo(args),
        _ => {}
    }
    if enters_nodes(&cli.verb) {
        // Must come before anything is opened or started, because it executes this program again.
        constel_control::seal()?;
    }
    match cli.verb {
        Verb::Completion(args) => completion::run(&args),
        Verb::Names(args) => names::run(&args),
        Verb::Man(args) => completion::man(&args),
        Verb::Demo(args) => demo::run(&args),
        Verb::Init(args) => init::run(&args),
        Verb::Run(args) => run::run(&args),
        Verb::Up(args) => up::run(&args),
        Verb::Restart(args) => up::restart(&args),
        Verb::Apply(args) => apply::run(&args),
        Verb::Logs(args) => logs::run(&args),
        Verb::Sweep(args) => sweep::run(&args),
        Verb::Test(args) => test::run(&args),
        Verb::Check(args) => check::run(&args),
        Verb::Plan(args) => plan::run(&args),
        Verb::Import(args) => import::run(&args),
        Verb::Image(args) => image::run(&args),
        Verb::Box(args) => middlebox::run(args),
        Verb::List(args) => list::run(&args),
        Verb::Show(args) => show::run(&args),
        Verb::Exec(args) => exec::exec(&args),
        Verb::Cp(args) => cp::run(&args),
        Verb::Shell(args) => shell::run(&args),
        Verb::Top(args) => top::run(&args),
        Verb::Metrics(args) => metrics::run(&args),
        Verb::Info(args) => info::run(&args),
        Verb::Link(args) => link::run(&args),
        Verb::Node(args) => node::run(&args),
        Verb::Station(args) => station::run(&args),
        Verb::Network(args) => network::run(&args),
        Verb::Routes(args) => routes::run(&args),
        Verb::Path(args) => path::run(&args),
        Verb::Events(args) => events::run(&args),
        Verb::Capture(args) => capture::run(&args),
        Verb::Down(args) => down::run(&args),
        Verb::Clean(args) => clean::run(&args),
        Verb::Doctor(args) => doctor::run(&args),
        Verb::Probe(args) => probe::run(&args),
        Verb::Results(args) => results::run(&args),
        Verb::Web(args) => web::run(&args),
        Verb::Agent(args) => agent::run(&args),
        Verb::Part(args) => agent::part(&args),
        Verb::Guest => crate::guest::first_process(),
        Verb::Machines(args) => machines::run(&args),
    }
}
