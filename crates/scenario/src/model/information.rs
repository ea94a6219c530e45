//! The information that nodes receive about themselves and their surroundings.

use constel_units::TimeSpan;

use crate::diagnostic::Diagnostic;
use crate::glob::Glob;
use crate::parse::Document;
use crate::raw::{NodeKind, TopologyScope};
use crate::source::{Source, Span};
use crate::walk::{Path, Seg};

/// Most bytes of a file of the user's.
pub const USER_FILE_BYTES: usize = 1 << 20;

/// Nodes that receive information, and the kinds of information.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Information {
    /// Only nodes of these kinds; `None`: of all.
    pub classes: Option<Vec<NodeKind>>,
    /// Only nodes of these names; `None`: of all.
    pub nodes: Option<Vec<NodesNamed>>,
    /// How much of the topology; `None`: this entry does not say.
    pub topology: Option<TopologyScope>,
    /// How far it looks ahead; `None`: this entry does not say.
    pub ahead: Option<TimeSpan>,
    /// Whether in OpenSN's form as well; `None`: this entry does not say.
    pub opensn: Option<bool>,
    /// The user's files.
    pub user: Vec<UserFile>,
}

impl Information {
    /// Whether it is for the node of that kind and name.
    #[must_use]
    pub fn is_for(&self, class: &str, name: &str) -> bool {
        let classes = self.classes.as_ref();
        let of_class = classes.is_none_or(|all| all.iter().any(|one| one.as_str() == class));
        let nodes = self.nodes.as_ref();
        of_class && nodes.is_none_or(|all| all.iter().any(|one| one.glob.matches(name)))
    }
}

/// Nodes by a pattern of their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodesNamed {
    /// The pattern.
    pub glob: Glob,
    pub(crate) at: SourcePosition,
}

/// A place in the user's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcePosition {
    pub(crate) source: Source,
    pub(crate) span: Span,
    pub(crate) path: String,
}

impl SourcePosition {
    /// Returns the place and the value that the file has under `path`.
    pub(crate) fn at(document: &Document, path: &[Seg<'_>]) -> Self {
        Self {
            source: document.source().clone(),
            span: document.place(path, false),
            path: Path(path).to_string(),
        }
    }

    /// An error at this place.
    #[must_use]
    pub fn error(&self, code: &'static str, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(&self.source, self.span, code, message).with_path(self.path.clone())
    }
}

impl NodesNamed {
    /// The pattern written under `path`.
    pub(crate) fn written(document: &Document, path: &[Seg<'_>], text: &str) -> Self {
        Self {
            glob: Glob::new(text),
            at: SourcePosition::at(document, path),
        }
    }

    /// Returns the error that no node of the plan has this name.
    #[must_use]
    pub fn no_node(&self) -> Diagnostic {
        let source = &self.at.source;
        let message = format!("no node is called `{}`", self.glob);
        let error = self.error("unknown-node", message);
        error.with_next(format!(
            "`constel plan --json {}` lists all nodes",
            source.file()
        ))
    }

    /// Returns an error about this name, at its place.
    #[must_use]
    pub fn error(&self, code: &'static str, message: impl Into<String>) -> Diagnostic {
        self.at.error(code, message)
    }
}

/// A file of the user's, to be seen in a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserFile {
    /// The file's name, valid as a file name.
    pub name: String,
    /// The file's content.
    pub text: String,
}

/// Whether a file of the user's may have this name: letters, digits, `.`, `_` and `-`, not beginning with `.`,
/// 64 at most.
#[must_use]
pub fn is_user_file_name(name: &str) -> bool {
    let fit = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    !name.is_empty() && name.len() <= 64 && !name.starts_with('.') && name.chars().all(fit)
}
