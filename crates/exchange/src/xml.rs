//! As much XML as StarPerf's files use: elements without attributes, holding either text or elements.

use crate::text::{Findings, ReadErrors, shown};

/// An element.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) text: String,
    pub(crate) children: Vec<Element>,
}

impl Element {
    pub(crate) fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|c| c.name == name)
    }
}

/// Deepest nesting.
const DEEPEST: usize = 16;

/// Reads a document's root element.
pub(crate) fn parse(text: &str) -> Result<Element, ReadErrors> {
    let mut findings = Findings::default();
    let result = root(text);
    match result {
        Ok(root) => return Ok(root),
        Err((line, reason)) => findings.push(line, reason),
    }
    findings.or(Element::default())
}

fn root(text: &str) -> Result<Element, (usize, String)> {
    let mut open: Vec<Element> = Vec::new();
    let mut done: Option<Element> = None;
    let mut rest = text;
    let mut line = 1;
    loop {
        let at = rest.find('<').unwrap_or(rest.len());
        let words = &rest[..at];
        match open.last_mut() {
            Some(element) => element.text.push_str(words),
            None if words.trim_start_matches('\u{feff}').trim().is_empty() => {}
            None => {
                return Err((
                    line,
                    format!("`{}` is outside of any element", shown(words)),
                ));
            }
        }
        line += words.matches('\n').count();
        rest = &rest[at..];
        if rest.is_empty() {
            break;
        }
        let (end, skip) = match () {
            () if rest.starts_with("<!--") => (rest.find("-->").map(|e| e + 3), true),
            () if rest.starts_with("<?") => (rest.find("?>").map(|e| e + 2), true),
            () => (rest.find('>').map(|e| e + 1), false),
        };
        let Some(end) = end else {
            return Err((line, "a tag without its end".to_owned()));
        };
        let tag = &rest[..end];
        rest = &rest[end..];
        if !skip {
            let inner = tag[1..tag.len() - 1].trim();
            step(inner, line, &mut open, &mut done).map_err(|reason| (line, reason))?;
        }
        line += tag.matches('\n').count();
    }
    match (open.pop(), done) {
        (Some(left), _) => Err((
            line,
            format!("<{}> of line {} has no end", shown(&left.name), left.line),
        )),
        (None, Some(root)) => Ok(root),
        (None, None) => Err((line, "no element".to_owned())),
    }
}

fn step(
    inner: &str,
    line: usize,
    open: &mut Vec<Element>,
    done: &mut Option<Element>,
) -> Result<(), String> {
    if let Some(name) = inner.strip_prefix('/') {
        let Some(mut element) = open.pop() else {
            return Err(format!("</{}> ends nothing", shown(name)));
        };
        if element.name != name.trim() {
            return Err(format!(
                "</{}> where </{}> was expected",
                shown(name),
                shown(&element.name)
            ));
        }
        element.text = unescaped(element.text.trim());
        match open.last_mut() {
            Some(above) => above.children.push(element),
            None => *done = Some(element),
        }
        return Ok(());
    }
    let plain = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    if inner.is_empty() || !inner.chars().all(plain) {
        return Err(format!(
            "<{}> is no element this reader knows",
            shown(inner)
        ));
    }
    if open.len() >= DEEPEST {
        return Err("elements are nested too deep".to_owned());
    }
    if done.is_some() {
        return Err("more than one root element".to_owned());
    }
    open.push(Element {
        name: inner.to_owned(),
        line,
        ..Element::default()
    });
    Ok(())
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&amp;", "&")
}

/// Text made safe for an element.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
