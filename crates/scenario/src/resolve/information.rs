//! `information`: patterns that can be names, files that can be read.

use super::inputs::Inputs;
use crate::diagnostic::Diagnostics;
use crate::model::{Information, NodesNamed, USER_FILE_BYTES, UserFile, is_user_file_name};
use crate::parse::Parsed;
use crate::raw::{RawInformation, RawUserFile};
use crate::walk::Seg::{Index, Key};

/// Checks the entries; errors go to `errors`. Whether such nodes exist is known when the plan is made.
pub(super) fn resolve(
    parsed: &Parsed,
    inputs: &mut Inputs<'_>,
    errors: &mut Diagnostics,
) -> Vec<Information> {
    let raw = parsed.raw.information.iter().enumerate();
    raw.map(|(index, raw)| entry(parsed, (index, raw), inputs, errors))
        .collect()
}

fn entry(
    parsed: &Parsed,
    (index, raw): (usize, &RawInformation),
    inputs: &mut Inputs<'_>,
    errors: &mut Diagnostics,
) -> Information {
    let named = |(n, text): (usize, &String)| {
        let path = [Key("information"), Index(index), Key("nodes"), Index(n)];
        NodesNamed::written(parsed, &path, text)
    };
    let mut user: Vec<UserFile> = Vec::new();
    for (n, file) in raw.user.iter().enumerate() {
        let name = [
            Key("information"),
            Index(index),
            Key("user"),
            Index(n),
            Key("name"),
        ];
        if !is_user_file_name(&file.name) {
            let message = format!("no file can be called `{}`", file.name.escape_debug());
            let error = parsed.error_at(&name, "bad-name", message);
            errors.push(error.with_reason(
                "it is made of letters, digits, `.`, `_` and `-`, and does not begin with `.`",
            ));
        } else if user.iter().any(|earlier| earlier.name == file.name) {
            let message = format!("two files are called `{}`", file.name);
            errors.push(parsed.error_at(&name, "duplicate-name", message));
        }
        if let Some(text) = text_of(parsed, (index, n), file, inputs, errors) {
            let name = file.name.clone();
            user.push(UserFile { name, text });
        }
    }
    Information {
        classes: raw.classes.clone(),
        nodes: raw
            .nodes
            .as_ref()
            .map(|nodes| nodes.iter().enumerate().map(named).collect()),
        topology: raw.topology,
        ahead: raw.ahead,
        opensn: raw.opensn,
        user,
    }
}

fn text_of(
    parsed: &Parsed,
    (index, n): (usize, usize),
    file: &RawUserFile,
    inputs: &mut Inputs<'_>,
    errors: &mut Diagnostics,
) -> Option<String> {
    let Some(path) = &file.file else {
        return file.text.clone();
    };
    let at = [
        Key("information"),
        Index(index),
        Key("user"),
        Index(n),
        Key("file"),
    ];
    let text = inputs.text(path, &at, errors)?.text.clone();
    if text.len() > USER_FILE_BYTES {
        let message = format!(
            "`{path}` has {} bytes; at most {USER_FILE_BYTES}",
            text.len()
        );
        errors.push(parsed.error_at(&at, "out-of-range", message));
        return None;
    }
    Some(text)
}
