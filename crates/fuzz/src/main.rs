//! Feeds mutated inputs to every parser of foreign bytes, and reports panics, hangs and excessive memory use.
//!
//! `tools/fuzz [--seconds N] [--seed N] [TARGET...]` runs each target for N seconds. Each target runs in a process of its own
//! with limited memory, which this process watches. An input depends only on the seed, the target and the input's number, so
//! that a finding can be reproduced on any machine. The input is written to a file, and `tools/fuzz TARGET --input FILE` runs
//! it.
//!
//! Mutations start from the seeds in `targets`, which are mostly files of the repository. The mutator does not measure
//! coverage: a parser behind a checksum or a length field gets seeds that pass it, and targets repair values that chance does
//! not find.
#![forbid(unsafe_code)]

mod mutate;
mod targets;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use targets::Target;

/// Run parsers on mutated inputs
#[derive(Debug, Parser)]
struct Args {
    /// Targets to run; default: all
    targets: Vec<String>,
    /// Processor time per target, in seconds
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Seed from which inputs are made
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Targets that run in parallel; default: the number of processors
    #[arg(long)]
    jobs: Option<usize>,
    /// Print the names of all targets
    #[arg(long)]
    list: bool,
    /// Run the one given target on this file only
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Folder for the inputs that failed
    #[arg(long, value_name = "DIR", default_value = "target/fuzz")]
    found: PathBuf,
    /// File for progress reports to the watching process
    #[arg(long, hide = true, value_name = "FILE")]
    progress: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("fuzz: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let all = targets::all();
    if args.list {
        all.iter().for_each(|target| println!("{}", target.name));
        return Ok(ExitCode::SUCCESS);
    }
    let chosen = chosen(&all, &args.targets)?;
    if let Some(file) = &args.input {
        let [target] = chosen[..] else {
            anyhow::bail!("--input needs one target");
        };
        let accepted = (target.run)(&std::fs::read(file)?);
        println!(
            "{}: {}",
            target.name,
            if accepted { "accepted" } else { "refused" }
        );
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(progress) = &args.progress {
        let [target] = chosen[..] else {
            anyhow::bail!("--progress needs one target");
        };
        watch::work(target, args.seed, args.seconds, progress)?;
        return Ok(ExitCode::SUCCESS);
    }
    let found = watch::all(&chosen, args)?;
    Ok(match found {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

fn chosen<'t>(all: &'t [Target], names: &[String]) -> anyhow::Result<Vec<&'t Target>> {
    if names.is_empty() {
        return Ok(all.iter().filter(|target| !target.is_for_tests()).collect());
    }
    let find = |name: &String| {
        let found = all.iter().find(|target| target.name == name);
        found.ok_or_else(|| anyhow::anyhow!("there is no target '{name}'; --list has all"))
    };
    names.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mutate::Mutator;

    #[test]
    fn every_target_accepts_some_of_its_seeds_and_panics_at_none() {
        for target in targets::all() {
            if target.is_for_tests() {
                continue;
            }
            let seeds = (target.seeds)();
            assert!(!seeds.is_empty(), "{}: no seeds", target.name);
            let accepted = seeds.iter().filter(|seed| (target.run)(seed)).count();
            assert!(
                accepted > 0,
                "{}: none of {} seeds is accepted: what lies behind is never reached",
                target.name,
                seeds.len()
            );
        }
    }

    #[test]
    fn the_page_of_readers_has_every_target_and_no_other() {
        let page = include_str!("../../../docs/reference/bounds.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix('|'));
        let cells = rows.filter_map(|row| row.trim_end_matches('|').rsplit('|').next());
        let named: std::collections::BTreeSet<&str> = cells
            .flat_map(|cell| cell.split('`').skip(1).step_by(2))
            .collect();
        let is_called = |pattern: &str, name: &str| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == pattern,
        };
        let all = targets::all();
        let all: Vec<&Target> = all.iter().filter(|target| !target.is_for_tests()).collect();
        for pattern in &named {
            let mut targets = all.iter();
            assert!(
                targets.any(|target| is_called(pattern, target.name)),
                "there is no target {pattern}"
            );
        }
        for target in &all {
            let mut patterns = named.iter();
            assert!(
                patterns.any(|pattern| is_called(pattern, target.name)),
                "docs/reference/bounds.md has no row for {}",
                target.name
            );
        }
    }

    #[test]
    fn an_input_is_made_of_its_number_alone() {
        let seeds = vec![b"one: 1\n".to_vec(), b"two, 2, 3\n".to_vec()];
        let made = |number| Mutator::new("x", 7, &seeds).input(number);
        let all: Vec<_> = (0..200).map(made).collect();
        assert_eq!(all, (0..200).map(made).collect::<Vec<_>>());
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert!(different.len() > 150, "{} of 200", different.len());
    }
}
