//! A command in many nodes at a time.

use std::ffi::OsString;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use constel_host::process::run_captured;
use constel_scenario::{Glob, nearest};
use serde::Serialize;

use crate::error::Error;
use crate::labs::Lab;
use crate::node::require_privilege;

/// Maximum number of bytes that are kept of each output stream of a command.
const MOST_BYTES: usize = 8 << 20;

/// The result of a command in one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeResult {
    /// The node.
    pub node: String,
    /// Exit code as a shell reports it: 128 plus the signal for a killed command. `None`: it was not started.
    pub exit: Option<i32>,
    /// Why it was not started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Standard output. Bytes that are not valid UTF-8 are replaced.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Whether it wrote more than 8 MiB to one of them; the rest is not kept.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

impl Lab {
    /// Returns the nodes that a text selects. A pattern (`*` for any characters, `?` for one) selects all nodes whose name,
    /// or whose name in a catalogue, matches. Any other text selects one node, as everywhere. `class` limits the selection
    /// to a kind (`satellite`, `ground`, `host`).
    ///
    /// # Errors
    /// [`Error::NoNode`] if no node matches, [`Error::ComingUp`], [`Error::NoAnswer`].
    pub fn select(&self, text: &str, class: Option<&str>) -> Result<Vec<String>, Error> {
        let glob = Glob::new(text);
        let shown = self.show()?;
        let Some(nodes) = shown.node_list else {
            return Err(Error::ComingUp(self.name().to_owned()));
        };
        if !glob.is_open() && class.is_none() {
            return Ok(vec![text.to_owned()]);
        }
        let of_class = |kind: &str| class.is_none_or(|class| class == kind);
        let called = |name: Option<&String>| name.is_some_and(|name| glob.matches(name));
        let chosen: Vec<String> = nodes
            .iter()
            .filter(|node| of_class(&node.kind))
            .filter(|node| glob.matches(&node.name) || called(node.catalogue_name.as_ref()))
            .map(|node| node.name.clone())
            .collect();
        if chosen.is_empty() {
            let names = nodes.iter().map(|node| node.name.as_str());
            return Err(Error::NoNode {
                lab: self.name().to_owned(),
                node: text.to_owned(),
                nearest: nearest(text, names).map(str::to_owned),
            });
        }
        Ok(chosen)
    }

    /// Runs a command in all these nodes without input, `at_once` of them in parallel. Returns the results in the sequence
    /// of the nodes. A node in which the command cannot be started does not stop the others.
    ///
    /// # Errors
    /// [`Error::Unprivileged`].
    pub fn exec_in_many(
        &self,
        nodes: &[String],
        command: &[OsString],
        at_once: usize,
    ) -> Result<Vec<NodeResult>, Error> {
        require_privilege()?;
        let next = AtomicUsize::new(0);
        let rows: Mutex<Vec<(usize, NodeResult)>> = Mutex::default();
        std::thread::scope(|scope| {
            for _ in 0..at_once.clamp(1, nodes.len().max(1)) {
                scope.spawn(|| {
                    loop {
                        let n = next.fetch_add(1, Ordering::Relaxed);
                        let Some(node) = nodes.get(n) else { return };
                        let row = self.exec_captured(node, command);
                        let mut rows = rows.lock().unwrap_or_else(|e| e.into_inner());
                        rows.push((n, row));
                    }
                });
            }
        });
        let mut rows = rows.into_inner().unwrap_or_else(|e| e.into_inner());
        rows.sort_by_key(|(n, _)| *n);
        Ok(rows.into_iter().map(|(_, row)| row).collect())
    }

    fn exec_captured(&self, node: &str, command: &[OsString]) -> NodeResult {
        let done = self.enter(node).and_then(|door| {
            let ran = run_captured(&door.entry, command, MOST_BYTES)?;
            Ok((door.entry.node, ran))
        });
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match done {
            Ok((node, ran)) => NodeResult {
                node,
                exit: Some(ran.exit.shell_code()),
                error: None,
                stdout: text(&ran.stdout),
                stderr: text(&ran.stderr),
                cut: ran.cut,
            },
            Err(error) => NodeResult {
                node: node.to_owned(),
                exit: None,
                error: Some(error.to_string()),
                stdout: String::new(),
                stderr: String::new(),
                cut: false,
            },
        }
    }
}
