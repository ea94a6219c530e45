//! `constel exec` and `constel shell`: commands in nodes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use constel_host::NetNs;
use constel_host::cgroup::LabCgroup;
use constel_host::claim::LabEntry;
use constel_host::process::{Entry, enter_and_exec};
use constel_lab::{namespaces_file, node_mounts, search_path};
use constel_scenario::nearest;

use super::labs;
use crate::args::{Exec, Shell};
use crate::exit::{Failure, Outcome};

/// Runs a command; this process becomes it.
pub(crate) fn exec(args: &Exec) -> Outcome {
    let command: Vec<OsString> = args.command.iter().map(OsString::from).collect();
    enter(&args.lab, &args.node, &command)
}

/// Opens the user's shell.
pub(crate) fn shell(args: &Shell) -> Outcome {
    let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
    enter(&args.lab, &args.node, &[shell])
}

fn enter(lab: &str, node: &str, command: &[OsString]) -> Outcome {
    constel_host::probe::require_privilege().map_err(|error| Failure::Host(error.to_string()))?;
    let entry = labs::find_alive(lab)?;
    let paths: BTreeMap<String, PathBuf> = match std::fs::read(namespaces_file(&entry.dir)) {
        Ok(text) => serde_json::from_slice(&text)?,
        Err(_) => return Err(anyhow::anyhow!("lab '{lab}' is still coming up").into()),
    };
    let Some(path) = paths.get(node) else {
        return Err(Failure::Usage(no_node(&entry, node, &paths)));
    };
    let netns = NetNs::open(path)?;
    let cgroup = LabCgroup::open(&entry.lab)?;
    let mounts = node_mounts(&entry.dir);
    let Some(record) = &entry.record else {
        return Err(anyhow::anyhow!("lab '{lab}' is still coming up").into());
    };
    let env = [(OsString::from("PATH"), search_path())];
    let inside = Entry {
        lab: entry.lab.as_str(),
        node,
        owner: &record.owner,
        netns: &netns,
        cgroup: cgroup.as_ref(),
        mounts: &mounts,
        env: &env,
    };
    let never = enter_and_exec(&inside, command)?;
    match never {}
}

fn no_node(entry: &LabEntry, node: &str, paths: &BTreeMap<String, PathBuf>) -> String {
    let hint = match nearest(node, paths.keys().map(String::as_str)) {
        Some(near) => format!("; did you mean '{near}'?"),
        None => format!("; `constel show {}` names them all", entry.lab),
    };
    format!("lab '{}' has no node '{node}'{hint}", entry.lab)
}
