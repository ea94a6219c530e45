//! `constel test`: runs scenarios and judges their `expect` statements.

mod captures;

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use constel_control::expect::{
    Case, CaseEnd, Evidence, Judgement, Suite, judge, junit, lost, unstated,
};
use constel_control::results::Run;
use constel_control::{Exit as Ended, Observer, Scenario};

use rustix::process::{Pid, Signal};

use captures::Captures;

use super::scenario::age_warnings;
use crate::args::{Test, Time};
use crate::exit::{Exit, Failure, Outcome};
use crate::{output, signals};

/// A run to start.
struct Planned {
    /// The index of its scenario.
    scenario: usize,
    seed: u64,
    /// The name of its lab and folder.
    name: String,
}

/// A run in progress.
struct Making {
    planned: Planned,
    child: Child,
    since: Instant,
    results: PathBuf,
    /// Indexes of statements that were already reported as false.
    lost: BTreeSet<usize>,
    /// The time of the last poll of events.
    looked: Instant,
    captures: Captures,
}

/// The interval between polls of a run's events.
const LOOK_EVERY: Duration = Duration::from_millis(500);

impl Making {
    /// Reports immediately which statements about events can no longer become true, and ends the run then if requested.
    fn look(&mut self, loaded: &Scenario, args: &Test) -> Result<(), Failure> {
        if self.looked.elapsed() < LOOK_EVERY {
            return Ok(());
        }
        self.looked = Instant::now();
        // The run's files may not exist yet; an incomplete line is read at the next poll.
        let Some(run) = Run::open(&self.results) else {
            return Ok(());
        };
        let Ok(events) = run.events() else {
            return Ok(());
        };
        // Requested before the events are read, so that events until then are included.
        let lab = Observer::attach(&self.planned.name).ok();
        let now_ns = lab.and_then(|lab| lab.state().ok()?.t_ns);
        if now_ns.is_some() && !args.capture.is_empty() {
            self.captures
                .begin(&self.planned.name, &args.capture, &self.results)?;
        }
        let now_ns = now_ns.and_then(|t| i64::try_from(t).ok());
        let events: Vec<_> = events.map_while(Result::ok).collect();
        let own = &loaded.lab.scenario;
        for (place, seen) in lost(own, &events, now_ns) {
            if self.lost.insert(place) {
                let statement = &own.expect[place];
                let (file, line) = (&args.files[self.planned.scenario], statement.line);
                let (name, lab) = (&statement.name, &self.planned.name);
                let head = format!("{lab}: cannot hold any more: {}:{line}", file.display());
                output::tell(&format!("{head} {name}: {seen}\n"));
                if args.fail_fast {
                    interrupt(self);
                }
            }
        }
        Ok(())
    }
}

/// Judges completed runs, from their folders.
fn judge_again(loaded: &[Scenario], args: &Test) -> Outcome {
    let ([scenario], [file]) = (loaded, &args.files[..]) else {
        let text = "--judge goes with one FILE: the scenario of those runs";
        return Err(Failure::Usage(text.into()));
    };
    let (mut suites, mut ends) = (Vec::new(), Vec::new());
    for dir in &args.judge {
        let Some(run) = Run::open(dir) else {
            let text = format!("{}: not the results folder of a run", dir.display());
            return Err(Failure::Usage(text));
        };
        run.summary()?;
        let one = Over {
            seed: run.head()?.seed,
            took_s: 0.0,
            results: dir,
            lost: &BTreeSet::new(),
        };
        let (end, suite) = judged(scenario, file, &one, Some(0));
        if !args.json {
            output::text(&told_of(&suite, end))?;
        }
        ends.push(end);
        suites.push(suite);
    }
    report(args, &suites)?;
    exit(&suites, &ends, false)
}

fn report(args: &Test, suites: &[Suite]) -> Result<(), Failure> {
    if let Some(file) = &args.junit {
        std::fs::write(file, junit(suites))?;
    }
    if args.json {
        output::json(&document(suites))?;
    }
    Ok(())
}

/// A completed run.
struct Over<'a> {
    seed: u64,
    took_s: f64,
    results: &'a Path,
    /// Indexes of statements that became false during the run.
    lost: &'a BTreeSet<usize>,
}

/// The result of a run as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Judged,
    NotTrustworthy,
    Interrupted,
    HostNotAble,
    Failed,
}

/// Runs the scenarios, as many in parallel as requested; prints and writes the results.
pub(crate) fn run(args: &Test) -> Outcome {
    let loaded = load(&args.files)?;
    if !args.judge.is_empty() {
        return judge_again(&loaded, args);
    }
    are_there(&loaded, args)?;
    let mut left = planned(&loaded, args);
    std::fs::create_dir_all(&args.results)?;
    let stop = Arc::new(AtomicBool::new(false));
    signals::set(&[&stop])?;
    let (mut making, mut suites, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    let mut told = false;
    while !(making.is_empty() && (left.is_empty() || told)) {
        if stop.load(Ordering::Acquire) && !told {
            told = true;
            left.clear();
            for one in &making {
                interrupt(one);
            }
        }
        while making.len() < usize::from(args.jobs) && !told {
            let Some(planned) = left.pop_front() else {
                break;
            };
            making.push(start(planned, args)?);
        }
        let mut still = Vec::new();
        for mut one in making {
            match one.child.try_wait()? {
                None => {
                    one.look(&loaded[one.planned.scenario], args)?;
                    still.push(one);
                }
                Some(status) => {
                    let file = &args.files[one.planned.scenario];
                    let over = Over {
                        seed: one.planned.seed,
                        took_s: one.since.elapsed().as_secs_f64(),
                        results: &one.results,
                        lost: &one.lost,
                    };
                    let (end, suite) =
                        judged(&loaded[one.planned.scenario], file, &over, status.code());
                    if !args.json {
                        output::text(&told_of(&suite, end))?;
                    }
                    let passed = |case: &Case| matches!(case.end, CaseEnd::Passed(_));
                    one.captures.end(!suite.cases.iter().all(passed))?;
                    ends.push(end);
                    suites.push(suite);
                }
            }
        }
        making = still;
        if !making.is_empty() {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    report(args, &suites)?;
    exit(&suites, &ends, told)
}

/// Loads all files before anything runs; all must be valid and have `expect`.
fn load(files: &[PathBuf]) -> Result<Vec<Scenario>, Failure> {
    let mut loaded = Vec::new();
    let mut bad = String::new();
    for file in files {
        match Scenario::load(file) {
            Ok(scenario) => {
                output::tell(&age_warnings(&scenario));
                if scenario.lab.scenario.expect.is_empty() {
                    let why = "the scenario has no `expect`, which lists the statements to check";
                    return Err(Failure::Usage(format!("{}: {why}", file.display())));
                }
                loaded.push(scenario);
            }
            Err(error) if error.exit() == Ended::Scenario => bad += &error.to_string(),
            Err(error) => return Err(error.into()),
        }
    }
    match bad.is_empty() {
        true => Ok(loaded),
        false => Err(Failure::Scenario(bad)),
    }
}

/// Checks that the captured nodes or ports exist in each scenario.
fn are_there(loaded: &[Scenario], args: &Test) -> Result<(), Failure> {
    for of in &args.capture {
        let node = of.split_once('/').map_or(of.as_str(), |(node, _)| node);
        let lacks = |scenario: &&Scenario| scenario.lab.layout.find(node).is_none();
        if let Some(scenario) = loaded.iter().find(lacks) {
            let name = &scenario.lab.scenario.name;
            let text = format!("--capture {of}: {name} has no node \"{node}\"");
            return Err(Failure::Usage(text));
        }
    }
    Ok(())
}

/// Returns all runs: each scenario as often as requested, with one seed after the other.
fn planned(loaded: &[Scenario], args: &Test) -> VecDeque<Planned> {
    let seeds: Vec<u64> = args.seeds.iter().flat_map(|seeds| seeds.clone()).collect();
    let repeat = args.repeat.map_or(seeds.len().max(1), usize::from);
    let mut all = VecDeque::new();
    for (place, scenario) in loaded.iter().enumerate() {
        let own = &scenario.lab.scenario;
        for n in 0..repeat {
            let seed = match seeds.is_empty() {
                true => own.seed,
                false => seeds[n % seeds.len()],
            };
            // The process number makes labs' names unique on the host, whatever is tested at the same time.
            let name = format!(
                "{}-t{}-{place}-{n}",
                short(own.name.as_str()),
                std::process::id()
            );
            all.push_back(Planned {
                scenario: place,
                seed,
                name,
            });
        }
    }
    all
}

/// Returns the beginning of a name, so that the lab's name is not too long.
fn short(name: &str) -> &str {
    name.get(..16).unwrap_or(name).trim_end_matches('-')
}

fn start(planned: Planned, args: &Test) -> Result<Making, Failure> {
    let (files, folder) = (&args.files, &args.results);
    let results = folder.join(&planned.name);
    let child = Command::new(std::env::current_exe()?)
        .arg("run")
        .arg(&files[planned.scenario])
        .args([
            "--name",
            &planned.name,
            "--json",
            "--seed",
            &planned.seed.to_string(),
        ])
        .args(["--ends-with", &std::process::id().to_string()])
        .args(match args.time {
            None => &[][..],
            Some(Time::Real) => &["--time", "real"],
            Some(Time::Virtual) => &["--time", "virtual"],
        })
        .arg("--results")
        .arg(&results)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(
            folder.join(format!("{}.log", planned.name)),
        )?)
        .spawn()?;
    Ok(Making {
        planned,
        child,
        since: Instant::now(),
        results,
        lost: BTreeSet::new(),
        looked: Instant::now(),
        captures: Captures::default(),
    })
}

/// Requests the end of a run, which cleans up.
fn interrupt(one: &Making) {
    // It is no error if the run has already ended.
    let _ = rustix::process::kill_process(Pid::from_child(&one.child), Signal::TERM);
}

/// Judges a completed run.
fn judged(loaded: &Scenario, file: &Path, one: &Over<'_>, code: Option<i32>) -> (End, Suite) {
    let own = &loaded.lab.scenario;
    let log = one.results.with_extension("log");
    let why = |words: &str| {
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        let own = said.lines().rfind(|line| line.starts_with("constel: "));
        let last = own.or_else(|| said.lines().rfind(|line| !line.trim().is_empty()));
        format!("{words}: {}", last.unwrap_or_default())
    };
    let evidence = || {
        let run = Run::open(one.results).ok_or_else(|| "there are no results".to_owned())?;
        Evidence::read(&run).map_err(|error| error.to_string())
    };
    // Code 1 is also the code of a run whose software failed, which is a result.
    let software_failed = || evidence().is_ok_and(|seen| seen.summary.software.failed);
    let instead: Option<(End, CaseEnd)> = match code {
        Some(0 | 3) => None,
        Some(1) if software_failed() => None,
        // The run was ended because of these statements; its events until then are judged.
        Some(130) if !one.lost.is_empty() => None,
        Some(130) => Some((End::Interrupted, CaseEnd::Unknown("interrupted".to_owned()))),
        Some(5) => Some((
            End::HostNotAble,
            CaseEnd::Error(why("this host is not able")),
        )),
        _ => Some((End::Failed, CaseEnd::Error(why("the run failed")))),
    };
    let judged = match instead {
        Some(instead) => Err(instead),
        None => evidence().map_err(|error| (End::Failed, CaseEnd::Error(error))),
    };
    let (end, cases) = match judged {
        Ok(evidence) => of_evidence(&loaded.lab, &evidence, one, code == Some(130)),
        Err((end, case)) => {
            let cases = own.expect.iter().map(|e| Case {
                name: e.name.to_string(),
                requirement: e.requirement.clone(),
                line: Some(e.line),
                end: case.clone(),
            });
            (end, cases.collect())
        }
    };
    let suite = Suite {
        name: format!("{}-seed-{}", own.name, one.seed),
        file: file.display().to_string(),
        took_s: one.took_s,
        results: one.results.display().to_string(),
        cases,
    };
    (end, suite)
}

/// Judges the files of a run; `cut`: it was ended early because a statement had become false.
fn of_evidence(
    lab: &constel_plan::Lab,
    evidence: &Evidence,
    one: &Over<'_>,
    cut: bool,
) -> (End, Vec<Case>) {
    let judgements = judge(lab, evidence).into_iter().enumerate();
    let mut cases: Vec<Case> = judgements
        .map(|(place, judgement)| {
            let Judgement { holds, seen, .. } = judgement;
            let end = match (judgement.doubt, one.lost.contains(&place)) {
                // Seen during the run: later events cannot make the statement true.
                (_, true) if !holds => CaseEnd::Failed(seen),
                (_, false) if cut => CaseEnd::Unknown(
                    "the run was ended early, since another statement could not hold any more"
                        .to_owned(),
                ),
                (Some(doubt), _) => CaseEnd::Unknown(doubt),
                (None, _) if holds => CaseEnd::Passed(seen),
                (None, _) => CaseEnd::Failed(seen),
            };
            Case {
                name: judgement.name,
                requirement: judgement.requirement,
                line: Some(judgement.line),
                end,
            }
        })
        .collect();
    let unstated = unstated(&lab.scenario, evidence);
    if !unstated.is_empty() {
        let reasons: Vec<&str> = unstated.iter().map(|f| f.reason.as_str()).collect();
        cases.push(Case {
            name: "software".to_owned(),
            requirement: None,
            line: None,
            end: CaseEnd::Failed(reasons.join("; ")),
        });
    }
    let end = match evidence.summary.verdict.trustworthy {
        true => End::Judged,
        false => End::NotTrustworthy,
    };
    (end, cases)
}

/// Formats a run: a line for each statement.
fn told_of(suite: &Suite, end: End) -> String {
    let head = match end {
        End::Judged => String::new(),
        End::NotTrustworthy => " not trustworthy".to_owned(),
        End::Interrupted => " interrupted".to_owned(),
        End::HostNotAble | End::Failed => " did not run".to_owned(),
    };
    let mut text = format!(
        "{} ({:.1} s){head}: {}\n",
        suite.name, suite.took_s, suite.results
    );
    for case in &suite.cases {
        let (word, seen) = match &case.end {
            CaseEnd::Passed(seen) => ("ok", seen),
            CaseEnd::Failed(seen) => ("FAILED", seen),
            CaseEnd::Unknown(why) => ("unknown", why),
            CaseEnd::Error(why) => ("error", why),
        };
        let requirement = case
            .requirement
            .as_ref()
            .map_or(String::new(), |r| format!(" [{r}]"));
        let line = case.line.map_or(String::new(), |line| format!(":{line}"));
        let (file, name) = (&suite.file, &case.name);
        text += &format!("  {word:8} {file}{line} {name}{requirement}: {seen}\n");
    }
    text
}

/// Returns the JSON output.
fn document(suites: &[Suite]) -> serde_json::Value {
    let case = |case: &Case| {
        let (end, seen) = match &case.end {
            CaseEnd::Passed(seen) => ("passed", seen),
            CaseEnd::Failed(seen) => ("failed", seen),
            CaseEnd::Unknown(why) => ("unknown", why),
            CaseEnd::Error(why) => ("error", why),
        };
        serde_json::json!({
            "name": case.name, "requirement": case.requirement, "line": case.line, "end": end, "seen": seen,
        })
    };
    let runs = suites.iter().map(|suite| {
        serde_json::json!({
            "name": suite.name, "file": suite.file, "took_s": suite.took_s, "results": suite.results,
            "expectations": suite.cases.iter().map(case).collect::<Vec<_>>(),
        })
    });
    serde_json::json!({"runs": runs.collect::<Vec<_>>()})
}

/// Returns the exit code: false statements take precedence over unknown ones.
fn exit(suites: &[Suite], ends: &[End], interrupted: bool) -> Outcome {
    let mut cases = suites.iter().flat_map(|suite| &suite.cases);
    if interrupted || ends.contains(&End::Interrupted) {
        return Ok(Exit::Interrupted);
    }
    if ends.contains(&End::HostNotAble) {
        return Err(Failure::Host(
            "this host is not able to run all of it".to_owned(),
        ));
    }
    let failed = cases.any(|case| matches!(case.end, CaseEnd::Failed(_)));
    if failed || ends.contains(&End::Failed) {
        return Ok(Exit::Failed);
    }
    // If all statements of an untrustworthy run could be judged, the exit code does not change.
    let mut cases = suites.iter().flat_map(|suite| &suite.cases);
    Ok(
        match cases.any(|case| matches!(case.end, CaseEnd::Unknown(_))) {
            true => Exit::NotTrustworthy,
            false => Exit::Done,
        },
    )
}
