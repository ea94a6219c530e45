//! `constel cp`: copies files and folders into and out of nodes.

use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

use constel_cluster::agent::labs::Written;
use constel_cluster::store::StoreLocation as StorePlace;
use constel_control::copy::{CopySide, only_stopped, pack_here, unpack_here};
use constel_control::{Copied, Lab, require_privilege};

use super::there::{Far, Said};
use crate::args::Cp;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// The source or target of a copy, as the command line names it.
enum Side {
    Node(String, PathBuf),
    Other(CopySide),
}

/// Copies, and prints the skipped files.
pub(crate) fn run(args: &Cp) -> Outcome {
    if let Some(store) = &args.store {
        return elsewhere(args, store);
    }
    require_privilege()?;
    let (copied, to_stdout) = match (side(&args.from), side(&args.to)) {
        (Side::Node(node, from), Side::Other(to)) => {
            let to_stdout = to == CopySide::Tar;
            refuse_both(args, to_stdout)?;
            (
                Lab::attach(&args.lab)?.copy_out(&node, &from, &to)?,
                to_stdout,
            )
        }
        (Side::Other(from), Side::Node(node, to)) => {
            (Lab::attach(&args.lab)?.copy_in(&node, &from, &to)?, false)
        }
        (Side::Node(..), Side::Node(..)) => return Err(both()),
        (Side::Other(_), Side::Other(_)) => return Err(neither()),
    };
    tell(args, &copied, to_stdout)
}

/// Copies from or to a node of a lab on several machines. One end of the connection to the node's machine packs a tar archive
/// while the other unpacks it.
fn elsewhere(args: &Cp, store: &StorePlace) -> Outcome {
    match (side(&args.from), side(&args.to)) {
        (Side::Node(node, from), Side::Other(to)) => {
            refuse_both(args, to == CopySide::Tar)?;
            copy_from(
                args,
                &Far::of(store, &args.lab, &node)?,
                (&node, &from),
                &to,
            )
        }
        (Side::Other(from), Side::Node(node, to)) => {
            copy_to(args, &Far::of(store, &args.lab, &node)?, &from, (&node, to))
        }
        (Side::Node(..), Side::Node(..)) => Err(both()),
        (Side::Other(_), Side::Other(_)) => Err(neither()),
    }
}

/// The verb on the node's machine.
fn far_verb() -> [String; 2] {
    ["cp".to_owned(), "--left-out-is-no-failure".to_owned()]
}

fn copy_from(args: &Cp, far: &Far, (node, from): (&str, &Path), to: &CopySide) -> Outcome {
    let source = format!("{node}:{}", from.display());
    let words = [source, "-".to_owned()];
    let (received, copied) = match to {
        CopySide::Tar => {
            let received = far.receive(&far_verb(), &words, io::stdout())?;
            let copied = received.refused.as_ref().map_or(Ok(()), |error| {
                Err(anyhow::anyhow!(
                    "standard output cannot be written: {error}"
                ))
            });
            (
                received,
                copied.map(|()| Copied::default()).map_err(Failure::from),
            )
        }
        CopySide::Host(to) => {
            let (reader, writer) = io::pipe()?;
            thread::scope(|scope| {
                let unpacking = scope.spawn(|| unpack_here(reader, from, to));
                let received = far.receive(&far_verb(), &words, writer);
                let copied = unpacking
                    .join()
                    .unwrap_or_else(|panic| resume_unwind(panic));
                received.map(|received| (received, copied.map_err(Failure::from)))
            })?
        }
    };
    let said = String::from_utf8_lossy(&received.errors);
    match (received.exit, received.refused.is_some()) {
        // The error of the side that stopped explains the end of the other one.
        (_, true) | (Some(0), _) => {
            let copied = copied?;
            output::tell(&said);
            finished(args, &copied, *to == CopySide::Tar, said.is_empty())
        }
        (Some(exit), false) => {
            output::tell(&said);
            Ok(Exit::of_command(exit))
        }
        (None, false) => Ok(Exit::Interrupted),
    }
}

fn copy_to(args: &Cp, far: &Far, from: &CopySide, (node, to): (&str, PathBuf)) -> Outcome {
    let words = |folder: &Path| ["-".to_owned(), format!("{node}:{}", folder.display())];
    let mut said = Said::default();
    let mut hear = |written: Written<'_>| said.hear(written);
    let (exit, packed) = match from {
        CopySide::Tar => {
            let input = Box::new(io::stdin());
            let exit = far.ask(&far_verb(), &words(&to), input, &mut hear)?;
            (exit, Ok(Copied::default()))
        }
        CopySide::Host(from) => {
            let (folder, name) = match far_target(far, node, from, &to)? {
                Ok(target) => target,
                Err(exit) => return Ok(exit),
            };
            let (reader, writer) = io::pipe()?;
            thread::scope(|scope| {
                let packing = scope.spawn(|| pack_here(from, &name, writer));
                let exit = far.ask(&far_verb(), &words(&folder), Box::new(reader), &mut hear);
                let packed = packing.join().unwrap_or_else(|panic| resume_unwind(panic));
                exit.map(|exit| (exit, packed))
            })?
        }
    };
    let said = String::from_utf8_lossy(&said.stderr);
    match (exit, packed) {
        (None, _) => Ok(Exit::Interrupted),
        (Some(_), Err(error)) if !only_stopped(&error) => Err(error.into()),
        (Some(0), packed) => {
            let packed = packed?;
            output::tell(&said);
            finished(args, &packed, false, said.is_empty())
        }
        (Some(exit), _) => {
            output::tell(&said);
            Ok(Exit::of_command(exit))
        }
    }
}

/// Prints the result of a copy that succeeded. Messages of the other machine are skipped files then.
fn finished(args: &Cp, copied: &Copied, to_stdout: bool, is_whole: bool) -> Outcome {
    let exit = tell(args, copied, to_stdout)?;
    Ok(match is_whole {
        true => exit,
        false => Exit::Failed,
    })
}

/// Returns the target folder in the node and the name of the copy there, by the same rules as on this host.
fn far_target(
    far: &Far,
    node: &str,
    from: &Path,
    to: &Path,
) -> Result<Result<(PathBuf, PathBuf), Exit>, Failure> {
    let no_name = |path: &Path| {
        let error = format!("{} names no file or folder: give it a name", path.display());
        Failure::Usage(error)
    };
    let own = from.file_name().ok_or_else(|| no_name(from))?;
    let parent = to.parent().unwrap_or(Path::new("/"));
    let look = r#"if test -d "$1"; then echo into; elif test -d "$2"; then echo as; fi"#;
    let [to_text, parent_text] = [to, parent].map(|path| path.display().to_string());
    let args = [node, "--", "sh", "-c", look, "sh", &to_text, &parent_text];
    let said = match far.run(&["exec".to_owned()], &args.map(str::to_owned))? {
        Ok(said) => said,
        Err(exit) => return Ok(Err(exit)),
    };
    match said.stdout.as_slice() {
        b"into\n" => Ok(Ok((to.to_owned(), PathBuf::from(own)))),
        b"as\n" => {
            let name = to.file_name().ok_or_else(|| no_name(to))?;
            Ok(Ok((parent.to_owned(), PathBuf::from(name))))
        }
        _ => Err(Failure::Failed(anyhow::anyhow!(
            "{node} has no folder {}",
            parent.display()
        ))),
    }
}

fn refuse_both(args: &Cp, to_stdout: bool) -> Result<(), Failure> {
    if to_stdout && args.json {
        let reason = "--json and `-` would both write to standard output";
        return Err(Failure::Usage(reason.to_owned()));
    }
    Ok(())
}

fn both() -> Failure {
    let reason = "one of the two is to be a path of this host; copy to it first";
    Failure::Usage(reason.to_owned())
}

fn neither() -> Failure {
    Failure::Usage("neither of the two is in a node: name one as NODE:PATH".to_owned())
}

fn tell(args: &Cp, copied: &Copied, to_stdout: bool) -> Outcome {
    for left in &copied.left_out {
        output::tell(&format!("constel: left out {}: {}\n", left.path, left.why));
    }
    match (args.json, to_stdout) {
        (true, _) => output::json(copied)?,
        (false, true) => {}
        (false, false) => output::text(&text(copied))?,
    }
    let whole = copied.left_out.is_empty() || args.left_out_is_no_failure;
    Ok(match whole {
        true => Exit::Done,
        false => Exit::Failed,
    })
}

fn text(copied: &Copied) -> String {
    format!(
        "copied {} entries, {} bytes\n",
        copied.entries, copied.bytes
    )
}

/// Parses `NODE:PATH`, or a path of this host if a `/` comes before the first colon. Paths of a node begin at its root.
fn side(text: &str) -> Side {
    if text == "-" {
        return Side::Other(CopySide::Tar);
    }
    match text.split_once(':') {
        Some((node, path)) if !node.contains('/') && !node.is_empty() => {
            Side::Node(node.to_owned(), Path::new("/").join(path))
        }
        _ => Side::Other(CopySide::Host(PathBuf::from(text))),
    }
}
