//! `constel web`: the web view, until Ctrl-C.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use constel_api::answers::LabState;
use constel_control::Lab;
use constel_control::results::Run;
use constel_web::{Options, Server, ShellProgram, Source};

use super::scenario;
use crate::args::Web;
use crate::exit::{Exit, Failure, Outcome};
use crate::{output, signals};

/// The interval at which signals are checked.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Serves until it is interrupted.
pub(crate) fn run(args: &Web) -> Outcome {
    let (source, lab) = source(args)?;
    if lab.is_none() && (args.write || args.shell) {
        let what = if args.write { "--write" } else { "--shell" };
        return Err(Failure::Usage(format!(
            "{what} is for a running lab: nothing else can be changed or entered"
        )));
    }
    let program = std::env::current_exe()?;
    let shell = lab.filter(|_| args.shell).map(|lab| ShellProgram {
        program: program.clone(),
        lab,
    });
    let server = Server::start(
        source,
        Options {
            port: args.port.unwrap_or(0),
            write: args.write,
            shell,
            program: args.write.then_some(program),
            on_used: Some(Box::new(tell_next)),
        },
    )?;
    let stop = Arc::new(AtomicBool::new(false));
    signals::set(&[&stop])?;
    let url = server.url();
    output::text(&format!("{url}\n"))?;
    if !args.no_open {
        open(&url);
    }
    while !stop.load(Ordering::Acquire) {
        std::thread::sleep(LOOK_EVERY);
    }
    drop(server);
    Ok(Exit::Interrupted)
}

fn tell_next(next: &str) {
    output::tell(&format!(
        "constel: a browser has connected; address for the next one: {next}\n"
    ));
}

/// The web view of a lab of this process, read-only, while the lab runs. Its address is printed on stderr, because stdout has
/// the summary. If it cannot be served, the run continues.
pub(crate) struct WebBesideRun {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl WebBesideRun {
    /// Starts as soon as the lab answers.
    ///
    /// # Errors
    /// If the thread cannot be created.
    pub(crate) fn begin(name: String) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let own = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("web".to_owned())
            .spawn(move || serve_beside(&name, &own))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for WebBesideRun {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn serve_beside(name: &str, stop: &AtomicBool) {
    let source = loop {
        if stop.load(Ordering::Acquire) {
            return;
        }
        // The socket is created early in the start; until then there is no lab, or one that does not answer.
        match Lab::attach(name) {
            Ok(lab) if lab.state().is_ok() => break Source::lab(lab),
            _ => std::thread::sleep(LOOK_EVERY),
        }
    };
    let server = source
        .map_err(|error| error.to_string())
        .and_then(|source| {
            let options = Options {
                on_used: Some(Box::new(tell_next)),
                ..Options::default()
            };
            Server::start(source, options).map_err(|error| error.to_string())
        });
    match server {
        Ok(server) => {
            output::tell(&format!("constel: web view: {}\n", server.url()));
            while !stop.load(Ordering::Acquire) {
                std::thread::sleep(LOOK_EVERY);
            }
        }
        Err(words) => output::tell(&format!("constel: no web view: {words}\n")),
    }
}

/// Returns the content to show, and the lab's name if it is a lab.
fn source(args: &Web) -> Result<(Source, Option<String>), Failure> {
    if let Some(file) = &args.plan {
        return Ok((Source::plan(scenario::load(file, &args.changes)?), None));
    }
    if args.new && args.changes.settings().is_empty() {
        return Ok((Source::draft()?, None));
    }
    if !args.changes.settings().is_empty() {
        return Err(Failure::Usage(
            "--set and --seed go with --plan: a lab, or what one left, is what it is".into(),
        ));
    }
    if let Some(run) = args
        .target
        .as_deref()
        .and_then(|target| Run::open(target.as_ref()))
    {
        return Ok((Source::run(run)?, None));
    }
    let name = match &args.target {
        Some(name) => name.clone(),
        None => only_lab()?,
    };
    Ok((Source::lab(Lab::attach(&name)?)?, Some(name)))
}

/// Returns the only running lab, for a command line without a name.
fn only_lab() -> Result<String, Failure> {
    let labs = constel_control::list()?;
    let mut living = labs.into_iter().filter(|lab| lab.state != LabState::Dead);
    match (living.next(), living.next()) {
        (Some(lab), None) => Ok(lab.lab),
        (None, _) => Err(Failure::Usage(
            "no lab runs; `constel web --plan FILE` shows a scenario, `constel web results/RUN` a run that has ended".into(),
        )),
        _ => Err(Failure::Usage("several labs run: which one? `constel list` has their names".into())),
    }
}

/// Opens a browser if there is a desktop session. Without one, nothing happens.
fn open(url: &str) {
    let desktop = ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some());
    if desktop {
        let mut command = Command::new("xdg-open");
        command
            .arg(url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        drop(command.spawn());
    }
}
