//! `constel cp`: copies files and folders into and out of nodes.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use constel_cluster::agent::labs::MOST_BYTES;
use constel_cluster::store::StoreLocation as StorePlace;
use constel_control::copy::{CopySide, pack_here, unpack_here};
use constel_control::{Copied, Lab, require_privilege};
use constel_units::files;

use super::there::Far;
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

/// Copies from or to a node of a lab on several machines, as a tar archive through their store.
fn elsewhere(args: &Cp, store: &StorePlace) -> Outcome {
    let verb = ["cp".to_owned(), "--left-out-is-no-failure".to_owned()];
    let (copied, to_stdout, far_words) = match (side(&args.from), side(&args.to)) {
        (Side::Node(node, from), Side::Other(to)) => {
            refuse_both(args, to == CopySide::Tar)?;
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
                CopySide::Tar => {
                    io::stdout().lock().write_all(&said.stdout)?;
                    (Copied::default(), true, said.stderr)
                }
                CopySide::Host(to) => {
                    let copied = unpack_here(said.stdout.as_slice(), &from, &to)?;
                    (copied, false, said.stderr)
                }
            }
        }
        (Side::Other(from), Side::Node(node, to)) => {
            let far = Far::of(store, &args.lab, &node)?;
            let mut archive = Vec::new();
            let (copied, folder) = match from {
                CopySide::Tar => {
                    archive = files::read_all(io::stdin().lock(), MOST_BYTES).map_err(large)?;
                    (Copied::default(), to)
                }
                CopySide::Host(from) => {
                    let (folder, name) = match far_target(&far, &node, &from, &to)? {
                        Ok(target) => target,
                        Err(exit) => return Ok(exit),
                    };
                    let mut capped = Capped(&mut archive);
                    let packed = pack_here(&from, &name, &mut capped);
                    if archive.len() as u64 > MOST_BYTES {
                        return Err(too_large());
                    }
                    (packed?, folder)
                }
            };
            let target = format!("{node}:{}", folder.display());
            match far.run(&verb, &["-".to_owned(), target], &archive, true)? {
                Ok(said) => (copied, false, said.stderr),
                Err(exit) => return Ok(exit),
            }
        }
        (Side::Node(..), Side::Node(..)) => return Err(both()),
        (Side::Other(_), Side::Other(_)) => return Err(neither()),
    };
    let copied = tell(args, &copied, to_stdout)?;
    // If the copy succeeded, the other machine's messages are the skipped files.
    Ok(match far_words.is_empty() {
        true => copied,
        false => Exit::Failed,
    })
}

/// An archive in memory that accepts one byte more than the store transfers.
struct Capped<'a>(&'a mut Vec<u8>);

impl Write for Capped<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = (MOST_BYTES + 1).saturating_sub(self.0.len() as u64);
        let taken = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        if taken == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn large(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::FileTooLarge => too_large(),
        _ => error.into(),
    }
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
