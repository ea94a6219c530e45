//! `constel cp`: files and folders into nodes and out of them.

use std::path::{Path, PathBuf};

use constel_control::copy::Place;
use constel_control::{Copied, Lab, require_privilege};

use crate::args::Cp;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// One side, as the command line names it.
enum Side {
    Node(String, PathBuf),
    Other(Place),
}

/// Copies, and says what was left out.
pub(crate) fn run(args: &Cp) -> Outcome {
    require_privilege()?;
    let (copied, to_stdout) = match (side(&args.from), side(&args.to)) {
        (Side::Node(node, from), Side::Other(to)) => {
            let to_stdout = to == Place::Tar;
            if to_stdout && args.json {
                let reason = "--json and `-` would both write to standard output";
                return Err(Failure::Usage(reason.to_owned()));
            }
            (
                Lab::attach(&args.lab)?.copy_out(&node, &from, &to)?,
                to_stdout,
            )
        }
        (Side::Other(from), Side::Node(node, to)) => {
            (Lab::attach(&args.lab)?.copy_in(&node, &from, &to)?, false)
        }
        (Side::Node(..), Side::Node(..)) => {
            let reason = "one of the two is to be a path of this host; copy to it first";
            return Err(Failure::Usage(reason.to_owned()));
        }
        (Side::Other(_), Side::Other(_)) => {
            let reason = "neither of the two is in a node: name one as NODE:PATH";
            return Err(Failure::Usage(reason.to_owned()));
        }
    };
    for path in &copied.left_out {
        let text = format!("constel: left out {path}: a socket, pipe or device\n");
        output::tell(&text);
    }
    match (args.json, to_stdout) {
        (true, _) => output::json(&copied)?,
        (false, true) => {}
        (false, false) => output::text(&text(&copied))?,
    }
    Ok(Exit::Done)
}

fn text(copied: &Copied) -> String {
    format!(
        "copied {} entries, {} bytes\n",
        copied.entries, copied.bytes
    )
}

/// `NODE:PATH` unless a `/` comes before the first colon. In a node a path begins at the root.
fn side(text: &str) -> Side {
    if text == "-" {
        return Side::Other(Place::Tar);
    }
    match text.split_once(':') {
        Some((node, path)) if !node.contains('/') && !node.is_empty() => {
            Side::Node(node.to_owned(), Path::new("/").join(path))
        }
        _ => Side::Other(Place::Host(PathBuf::from(text))),
    }
}
