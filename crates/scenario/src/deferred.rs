//! Node names that only a later stage can know.

use std::collections::BTreeSet;

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::model::{Name, Scenario};
use crate::source::Span;

/// A name in `traffic`, `failures` or `transport` that may be a satellite of an element file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeferredNode {
    /// The name.
    pub name: Name,
    pub(crate) span: Span,
    pub(crate) path: String,
}

impl Scenario {
    /// Settles the names that [`resolve`](crate::resolve) could not: `nodes` are the names of
    /// all nodes of the plan.
    ///
    /// # Errors
    /// Each name that is no node, with the nearest one.
    pub fn check_nodes(&self, nodes: &BTreeSet<String>) -> Result<(), Diagnostics> {
        let mut errors = Diagnostics::new();
        for deferred in self
            .deferred
            .iter()
            .filter(|d| !nodes.contains(d.name.as_str()))
        {
            let error = Diagnostic::new(
                &self.source,
                deferred.span,
                "unknown-node",
                format!("no node is called `{}`", deferred.name),
            )
            .with_path(deferred.path.clone())
            .with_nearest(deferred.name.as_str(), nodes.iter().map(String::as_str))
            .with_next(format!(
                "`constel plan {}` lists all nodes",
                self.source.file()
            ));
            errors.push(error);
        }
        errors.or(())
    }
}
