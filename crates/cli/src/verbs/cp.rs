//! `constel cp`: files and folders into nodes and out of them.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use constel_agent::labs::MOST_BYTES;
use constel_control::copy::{Place, pack_here, unpack_here};
use constel_control::{Copied, Lab, require_privilege};
use constel_store::Place as StorePlace;

use super::there::Far;
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
    if let Some(store) = &args.store {
        return elsewhere(args, store);
    }
    require_privilege()?;
    let (copied, to_stdout) = match (side(&args.from), side(&args.to)) {
        (Side::Node(node, from), Side::Other(to)) => {
            let to_stdout = to == Place::Tar;
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

/// The same for a node of a lab on several machines: as a tar archive through their store.
fn elsewhere(args: &Cp, store: &StorePlace) -> Outcome {
    let verb = ["cp".to_owned()];
    let (copied, to_stdout) = match (side(&args.from), side(&args.to)) {
        (Side::Node(node, from), Side::Other(to)) => {
            refuse_both(args, to == Place::Tar)?;
            let far = Far::of(store, &args.lab, &node)?;
            let source = format!("{node}:{}", from.display());
            let said = match far.run(&verb, &[source, "-".to_owned()], &[], true)? {
                Ok(said) => said,
                Err(exit) => return Ok(exit),
            };
            if said.cut {
                return Err(too_large());
            }
            match to {
                Place::Tar => {
                    io::stdout().lock().write_all(&said.stdout)?;
                    (Copied::default(), true)
                }
                Place::Host(to) => (unpack_here(said.stdout.as_slice(), &from, &to)?, false),
            }
        }
        (Side::Other(from), Side::Node(node, to)) => {
            let far = Far::of(store, &args.lab, &node)?;
            let mut archive = Vec::new();
            let (copied, folder) = match from {
                Place::Tar => {
                    let mut some = io::stdin().lock().take(MOST_BYTES + 1);
                    some.read_to_end(&mut archive)?;
                    (Copied::default(), to)
                }
                Place::Host(from) => {
                    let (folder, name) = match far_target(&far, &node, &from, &to)? {
                        Ok(target) => target,
                        Err(exit) => return Ok(exit),
                    };
                    (pack_here(&from, &name, &mut archive)?, folder)
                }
            };
            if archive.len() as u64 > MOST_BYTES {
                return Err(too_large());
            }
            let target = format!("{node}:{}", folder.display());
            match far.run(&verb, &["-".to_owned(), target], &archive, true)? {
                Ok(_) => (copied, false),
                Err(exit) => return Ok(exit),
            }
        }
        (Side::Node(..), Side::Node(..)) => return Err(both()),
        (Side::Other(_), Side::Other(_)) => return Err(neither()),
    };
    tell(args, &copied, to_stdout)
}

/// Into which folder of the node a copy goes, and how it is called there: by the same rules as on this host.
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
    let said = far.run(&["exec".to_owned()], &args.map(str::to_owned), &[], true)?;
    let said = match said {
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

fn too_large() -> Failure {
    Failure::Failed(anyhow::anyhow!(
        "as a tar archive it is larger than the {} MiB that go through the store; nothing was copied",
        MOST_BYTES >> 20
    ))
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
    for path in &copied.left_out {
        let text = format!("constel: left out {path}: a socket, pipe or device\n");
        output::tell(&text);
    }
    match (args.json, to_stdout) {
        (true, _) => output::json(copied)?,
        (false, true) => {}
        (false, false) => output::text(&text(copied))?,
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
