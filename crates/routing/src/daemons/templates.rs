//! Templates: those shipped, and the user's in their place.

use super::Context;
use minijinja::{Environment, UndefinedBehavior};

/// Shipped templates, by the name under which others can `include` them.
const SHIPPED: &[(&str, &str)] = &[
    ("bird.conf.j2", include_str!("templates/bird.conf.j2")),
    ("zebra.conf.j2", include_str!("templates/zebra.conf.j2")),
    ("ospfd.conf.j2", include_str!("templates/ospfd.conf.j2")),
    ("ospf6d.conf.j2", include_str!("templates/ospf6d.conf.j2")),
    ("isisd.conf.j2", include_str!("templates/isisd.conf.j2")),
    ("bgpd.conf.j2", include_str!("templates/bgpd.conf.j2")),
    ("bfdd.conf.j2", include_str!("templates/bfdd.conf.j2")),
];

/// A template that cannot be read or filled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{template}:{}: {message}", .line.unwrap_or(1))]
pub struct TemplateError {
    /// Name of the template: the user's by the name it was given, or a shipped one.
    pub template: String,
    /// Line in the template, from 1, if known.
    pub line: Option<u32>,
    /// The error message.
    pub message: String,
}

/// All templates of a lab.
#[derive(Debug)]
pub struct Templates {
    environment: Environment<'static>,
    /// Name of the user's template, which makes every file.
    user: Option<String>,
}

impl Templates {
    /// The shipped templates and, in front of them, the user's as (name, text). It makes the files of all
    /// programs (it finds out which by `program`) and can `include` shipped ones by their names.
    ///
    /// # Errors
    /// When the user's template cannot be understood.
    pub fn new(user: Option<(&str, &str)>) -> Result<Templates, TemplateError> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_keep_trailing_newline(true);
        for (name, text) in SHIPPED {
            environment.add_template(name, text).map_err(error)?;
        }
        if let Some((name, text)) = user {
            let (name, text) = (name.to_owned(), text.to_owned());
            environment.add_template_owned(name, text).map_err(error)?;
        }
        Ok(Templates {
            environment,
            user: user.map(|(name, _)| name.to_owned()),
        })
    }

    /// Returns the file for the program that the context names.
    ///
    /// # Errors
    /// If a template uses an undefined name.
    pub fn render(&self, context: &Context) -> Result<String, TemplateError> {
        let shipped = format!("{}.conf.j2", context.program);
        let name = self.user.as_deref().unwrap_or(&shipped);
        let template = self.environment.get_template(name).map_err(error)?;
        template.render(context).map_err(error)
    }
}

/// The innermost place: where something is wrong, not where that was included.
fn error(error: minijinja::Error) -> TemplateError {
    let mut inner: &minijinja::Error = &error;
    let mut source = std::error::Error::source(&error);
    while let Some(next) = source {
        if let Some(deeper) = next.downcast_ref::<minijinja::Error>() {
            inner = deeper;
        }
        source = next.source();
    }
    let detail = inner.detail().map(|d| format!(": {d}")).unwrap_or_default();
    TemplateError {
        template: inner.name().unwrap_or_default().to_owned(),
        line: inner.line().and_then(|line| u32::try_from(line).ok()),
        message: format!("{}{detail}", inner.kind()),
    }
}
