//! Prints the schema, or the keys and values of a scenario with their defaults:
//! `cargo run -p constel-scenario --example scenario -- schema|FILE`.

use std::process::ExitCode;

use constel_scenario::{DiskFiles, read_scenario, schema_json};

fn main() -> ExitCode {
    let Some(what) = std::env::args().nth(1) else {
        eprintln!("usage: scenario schema|FILE");
        return ExitCode::from(2);
    };
    match what.as_str() {
        "schema" => print!("{}", schema_json()),
        file => {
            let bytes = match std::fs::read(file) {
                Ok(bytes) => bytes,
                Err(error) => {
                    eprintln!("{file}: {error}");
                    return ExitCode::FAILURE;
                }
            };
            match read_scenario(file, &bytes, &DiskFiles::beside(file)) {
                Ok(scenario) => match serde_json::to_string_pretty(scenario.raw.as_ref()) {
                    Ok(text) => println!("{text}"),
                    Err(error) => eprintln!("{error}"),
                },
                Err(errors) => {
                    eprint!("{errors}");
                    return ExitCode::from(4);
                }
            }
        }
    }
    ExitCode::SUCCESS
}
