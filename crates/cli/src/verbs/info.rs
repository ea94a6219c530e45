//! `constel info`: changes nodes' information by hand.

use std::path::Path;

use constel_cluster::store::StoreLocation;
use constel_control::Lab;
use constel_units::files;
use serde::Serialize;

use super::there::{self, Elsewhere};
use crate::args::{Info, InfoVerb};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Maximum size of a user's file, plus one byte that reveals a larger one.
const MOST_BYTES: u64 = (1 << 20) + 1;

/// Puts or removes a file, or sends a command.
pub(crate) fn run(args: &Info) -> Outcome {
    if let Some(store) = &args.store {
        return far(store, &args.verb, args.json);
    }
    match &args.verb {
        InfoVerb::Put(put) => {
            let text = read(&put.file)?;
            let lab = Lab::attach(&put.lab)?;
            let set = lab.user_file(&put.node, &put.name, Some(text))?;
            print(args, &set, || {
                format!(
                    "{} has {} ({} bytes)\n",
                    set.node,
                    set.name,
                    set.bytes.unwrap_or(0)
                )
            })
        }
        InfoVerb::Remove(file) => {
            let lab = Lab::attach(&file.lab)?;
            let set = lab.user_file(&file.node, &file.name, None)?;
            print(args, &set, || {
                format!("{} no longer has {}\n", set.node, set.name)
            })
        }
        InfoVerb::Send(send) => {
            let data = serde_json::from_str(&send.data);
            let data = data.unwrap_or_else(|_| serde_json::Value::String(send.data.clone()));
            let sent = Lab::attach(&send.lab)?.command(&send.node, data)?;
            print(args, &sent, || {
                format!("event {} of {}\n", sent.seq, sent.node)
            })
        }
    }
}

/// Runs the verb on the machine that has the node.
fn far(store: &StoreLocation, verb: &InfoVerb, json: bool) -> Outcome {
    let (word, lab, node, rest, input) = match verb {
        InfoVerb::Put(put) => {
            let rest = vec![put.name.clone(), "-".to_owned()];
            let text = read(&put.file)?;
            ("put", &put.lab, &put.node, rest, text.into_bytes())
        }
        InfoVerb::Remove(file) => {
            let rest = vec![file.name.clone()];
            ("remove", &file.lab, &file.node, rest, Vec::new())
        }
        InfoVerb::Send(send) => {
            let rest = vec![send.data.clone()];
            ("send", &send.lab, &send.node, rest, Vec::new())
        }
    };
    let node_and_rest = std::iter::once(node.clone()).chain(rest);
    let elsewhere = Elsewhere {
        store,
        lab,
        node,
        verb: there::verb(&["info", word], json),
        args: node_and_rest.collect(),
        input,
    };
    elsewhere.run()
}

fn print(args: &Info, answer: &impl Serialize, text: impl Fn() -> String) -> Outcome {
    match args.json {
        true => output::json(answer)?,
        false => output::text(&text())?,
    }
    Ok(Exit::Done)
}

fn read(file: &Path) -> Result<String, Failure> {
    let bytes = match file.to_str() {
        Some("-") => files::read_all(std::io::stdin(), MOST_BYTES),
        _ => files::read(file, MOST_BYTES),
    };
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).map_err(std::io::Error::other));
    text.map_err(|error| Failure::unread(file, error))
}
