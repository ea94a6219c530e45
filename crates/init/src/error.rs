//! Errors of the program.

use std::io;
use std::path::{Path, PathBuf};

/// Why the program failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The system refused something.
    #[error("{doing}: {source}")]
    Io {
        /// The step that failed.
        doing: String,
        /// The system's error.
        source: io::Error,
    },
    /// A template that cannot be read or filled.
    #[error("{}:{}: {message}", .template.display(), .line.unwrap_or(1))]
    Template {
        /// The template's file.
        template: PathBuf,
        /// Line of the template, if known.
        line: Option<usize>,
        /// Description of the error.
        message: String,
    },
    /// A document that is not valid JSON.
    #[error("{}: {source}", .document.display())]
    Document {
        /// The document's file.
        document: PathBuf,
        /// The parser's error.
        source: serde_json::Error,
    },
}

impl Fault {
    pub(crate) fn io<E: Into<io::Error>>(doing: impl Into<String>) -> impl FnOnce(E) -> Self {
        let doing = doing.into();
        move |error| Self::Io {
            doing,
            source: error.into(),
        }
    }

    pub(crate) fn template(template: &Path, error: &minijinja::Error) -> Self {
        let detail = error.detail().map(|d| format!(": {d}")).unwrap_or_default();
        Self::Template {
            template: template.to_owned(),
            line: error.line(),
            message: format!("{}{detail}", error.kind()),
        }
    }
}
