//! `constel init`: writes a first scenario.

use std::io::{self, BufRead, IsTerminal};
use std::path::Path;

use constel_control::{Starter, StarterError};

use super::export;
use crate::args::Init;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Asks for values without a flag if stdin is a terminal, and writes the file.
pub(crate) fn run(args: &Init) -> Outcome {
    let to_file = args.file != Path::new("-");
    if to_file && args.file.exists() {
        let file = args.file.display();
        return Err(Failure::Usage(format!(
            "{file} is there already; `constel init OTHER.yaml` writes another file"
        )));
    }
    let usual = Starter::default();
    let stem = args
        .file
        .file_stem()
        .map(|stem| constel_scenario::slug(&stem.to_string_lossy()));
    let by_file = stem
        .filter(|stem| to_file && !stem.is_empty())
        .unwrap_or(usual.name);
    let silent = args.constellation.is_none()
        && args.cities.is_empty()
        && args.routing.is_none()
        && args.duration.is_none();
    let mut asked = Questions {
        asks: silent && to_file && io::stdin().is_terminal() && output::stderr_is_terminal(),
    };
    let starter = Starter {
        name: args.name.clone().unwrap_or(by_file),
        constellation: asked.or(
            &args.constellation,
            "Which constellation",
            &usual.constellation,
        )?,
        cities: {
            let given = (!args.cities.is_empty()).then(|| args.cities.join(","));
            let cities = asked.or(&given, "Which cities", &usual.cities.join(", "))?;
            cities
                .split(',')
                .map(|city| city.trim().to_owned())
                .collect()
        },
        routing: asked.or(
            &args.routing,
            "Source of the routes (computed, bird, frr)",
            &usual.routing,
        )?,
        duration: asked.or(&args.duration, "How long", &usual.duration)?,
    };
    let yaml = starter.yaml().map_err(|error| match error {
        StarterError::Scenario(error) => error.into(),
        other => Failure::Usage(other.to_string()),
    })?;
    export::put_bytes(to_file.then_some(args.file.as_path()), yaml.as_bytes())?;
    if to_file {
        let file = args.file.display();
        output::tell(&format!(
            "wrote {file}; next:\n  constel check {file} --here\n  constel plan {file} --at 30s\n  constel run {file}\n"
        ));
    }
    Ok(Exit::Done)
}

/// Questions to the user at the terminal.
struct Questions {
    asks: bool,
}

impl Questions {
    /// Returns the flag's value, or the answer, or the usual value.
    fn or(&mut self, given: &Option<String>, question: &str, usual: &str) -> io::Result<String> {
        if let Some(given) = given {
            return Ok(given.clone());
        }
        if !self.asks {
            return Ok(usual.to_owned());
        }
        output::tell(&format!("{question}? [{usual}] "));
        let mut line = String::new();
        // The end of the input is not an answer; no further question follows.
        self.asks = io::stdin().lock().read_line(&mut line)? > 0;
        Ok(match line.trim() {
            "" => usual.to_owned(),
            answer => answer.to_owned(),
        })
    }
}
