//! What can go wrong.

use std::io;
use std::path::{Path, PathBuf};

/// Why the program could not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The system refused something.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// A template that cannot be read or filled.
    #[error("{}:{}: {message}", .template.display(), .line.unwrap_or(1))]
    Template {
        /// Its file.
        template: PathBuf,
        /// Where in it.
        line: Option<usize>,
        /// What is wrong.
        message: String,
    },
    /// A document that is none.
    #[error("{}: {source}", .document.display())]
    Document {
        /// Its file.
        document: PathBuf,
        /// What is wrong.
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
