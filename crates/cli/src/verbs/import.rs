//! `constel import`: converts other tools' scenarios.

use std::io::ErrorKind;
use std::path::Path;

use constel_control::{Error, Scenario};
use constel_exchange::draft::Draft;
use constel_exchange::{ReadErrors, celestial, compose, hypatia, opensn, starperf, starrynet};
use constel_scenario::{Diagnostic, Diagnostics};
use constel_units::files;

use super::export;
use crate::args::Import;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Prints the scenario, and on stderr a note for every property that cannot be converted.
pub(crate) fn run(args: &Import) -> Outcome {
    let file = args.file.as_path();
    let name = file
        .file_stem()
        .map_or("imported".into(), |name| name.to_string_lossy());
    let extension = file
        .extension()
        .map(|e| e.to_string_lossy().to_lowercase())
        .unwrap_or_default();
    if args.stations.is_some() && extension != "xml" {
        return Err(Failure::Usage(
            "--stations goes with a StarPerf constellation (.xml)".to_owned(),
        ));
    }
    let wrong = |at: &Path| {
        let at = at.display().to_string();
        move |errors: ReadErrors| {
            let lines = errors
                .0
                .iter()
                .map(|e| format!("{at}:{}:1: error: {}\n", e.line, e.reason));
            Failure::Scenario(lines.collect())
        }
    };
    let draft = if file.is_dir() {
        hypatia_folder(file, &name, args.out.as_deref()).map_err(|e| e.or_else_read(wrong(file)))?
    } else {
        match extension.as_str() {
            "json" => {
                let text = read(file)?;
                let draft = if opensn::is_one(&text) {
                    opensn::parse(&text, &name)
                } else if starrynet::is_one(&text) {
                    starrynet::parse(&text)
                } else {
                    Err(starrynet::not_recognised(&text))
                };
                draft.map_err(wrong(file))?
            }
            "yaml" | "yml" => compose_file(file, &name)?.map_err(wrong(file))?,
            "toml" => celestial::parse(&read(file)?, &name).map_err(wrong(file))?,
            "xml" => {
                let mut draft =
                    starperf::parse_constellation(&read(file)?, &name).map_err(wrong(file))?;
                if let Some(stations) = &args.stations {
                    draft.stations =
                        starperf::parse_stations(&read(stations)?).map_err(wrong(stations))?;
                }
                draft
            }
            _ => {
                let known = ".json (StarryNet, OpenSN), .yaml (Docker Compose), .toml (Celestial), .xml (StarPerf) or a folder (Hypatia)";
                return Err(Failure::Usage(format!(
                    "{} is not one of {known}",
                    file.display()
                )));
            }
        }
    };
    let yaml = draft.yaml();
    // Print only a scenario that can run.
    let shown = file.display().to_string();
    let folder = match file.is_dir() {
        true => args.out.as_deref().unwrap_or(Path::new("")),
        false => file,
    };
    let folder = folder.parent().unwrap_or(Path::new(""));
    let scenario = Scenario::from_text(&shown, &yaml, folder).map_err(|error| match error {
        Error::Scenario(found) => Failure::Scenario(not_a_scenario(&shown, &found)),
        other => other.into(),
    })?;
    let warnings = scenario.check()?.warnings;
    export::put_bytes(args.out.as_deref(), yaml.as_bytes())?;
    for note in &draft.all_notes() {
        output::tell(&format!("constel: note: {note}\n"));
    }
    for warning in &warnings {
        output::tell(&format!("constel: warning: {warning}\n"));
    }
    Ok(Exit::Done)
}

/// Formats the errors of a converted scenario. The scenario is in no file, so its keys are named and not its lines.
fn not_a_scenario(file: &str, found: &Diagnostics) -> String {
    let one = |error: &Diagnostic| {
        let at = error.path.as_ref();
        let at = at.map_or(String::new(), |path| {
            format!(" (at `{path}` of the scenario)")
        });
        let mut text = format!(
            "{file}: error: the converted scenario cannot run: {}{at}\n",
            error.message
        );
        let more = [("why", &error.reason), ("hint", &error.suggestion)];
        for (head, said) in more {
            text.extend(said.iter().map(|said| format!("  {head}: {said}\n")));
        }
        text
    };
    found.iter().map(one).collect()
}

/// An error of reading a folder: a file cannot be read, or its content is wrong.
enum FolderError {
    Failure(Failure),
    Read(ReadErrors),
}

impl FolderError {
    fn or_else_read(self, of: impl FnOnce(ReadErrors) -> Failure) -> Failure {
        match self {
            Self::Failure(failure) => failure,
            Self::Read(errors) => of(errors),
        }
    }
}

/// Returns the project. Its name is the folder's, as in Compose, unless the file has a name other than the usual ones.
fn compose_file(file: &Path, stem: &str) -> Result<Result<Draft, ReadErrors>, Failure> {
    let text = read(file)?;
    if text.lines().any(|line| line.starts_with("constel:")) {
        let file = file.display();
        return Err(Failure::Usage(format!(
            "{file} is a scenario of Constel already: `constel check {file}`"
        )));
    }
    let folder = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let folder = folder.parent().unwrap_or(Path::new("/")).to_owned();
    let usual = ["compose", "docker-compose"].contains(&stem);
    let own = folder.file_name().map(|name| name.to_string_lossy());
    let name = own.filter(|_| usual).unwrap_or_else(|| stem.into());
    let beside = |path: &str| match files::read_text(&folder.join(path)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(Some).map_err(|error| files::in_words(&error)),
    };
    Ok(compose::parse(&text, &name, &beside))
}

/// Reads Hypatia's folder for a scenario in `out`, or for one that is printed, which stands in the current folder then.
fn hypatia_folder(folder: &Path, name: &str, out: Option<&Path>) -> Result<Draft, FolderError> {
    let there = |file: &str| match folder.join(file).exists() {
        true => read(&folder.join(file))
            .map(Some)
            .map_err(FolderError::Failure),
        false => Ok(None),
    };
    let Some(tles) = there("tles.txt")? else {
        let message = format!(
            "{} has no tles.txt: it is no folder of Hypatia's",
            folder.display()
        );
        return Err(FolderError::Failure(Failure::Usage(message)));
    };
    let stations = match there("ground_stations.basic.txt")? {
        Some(basic) => Some(basic),
        None => there("ground_stations.txt")?,
    };
    let (isls, interfaces) = (there("isls.txt")?, there("gsl_interfaces_info.txt")?);
    let description = there("description.txt")?;
    let mut tles_path = folder.join("tles.txt");
    // A path in a scenario is relative to the scenario's folder.
    if out
        .and_then(Path::parent)
        .is_some_and(|at| at != Path::new(""))
    {
        tles_path = tles_path.canonicalize().unwrap_or(tles_path);
    }
    let found = hypatia::Files {
        tles: &tles,
        tles_path: &tles_path.to_string_lossy(),
        isls: isls.as_deref(),
        stations: stations.as_deref(),
        gsl_interfaces: interfaces.as_deref(),
        description: description.as_deref(),
    };
    hypatia::parse(&found, name).map_err(FolderError::Read)
}

fn read(path: &Path) -> Result<String, Failure> {
    files::read_text(path).map_err(|error| Failure::unread(path, error))
}
