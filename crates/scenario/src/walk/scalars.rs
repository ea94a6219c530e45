//! Words, quantities, numbers and names.

use serde_json::{Map, Number, Value as Json, json};

use super::keys::first_sentence;
use super::{Walker, format_words, word_text};
use crate::bounds::check_bounds;
use crate::raw::{Destination, DestinationError, Name, NodeName};
use crate::schema::{Resolved, follow, has_defaults};
use crate::source::Span;
use crate::tree::{Core, Node, Value, core_type};

impl<'a> Walker<'a> {
    pub(super) fn word(
        &mut self,
        schema: Resolved<'a>,
        words: &[&'a Json],
        node: &Node,
    ) -> Option<Json> {
        self.word_or(schema, words, &[], node)
    }

    /// A word; `forms` are other values that are allowed.
    fn word_or(
        &mut self,
        schema: Resolved<'a>,
        words: &[&'a Json],
        forms: &[String],
        node: &Node,
    ) -> Option<Json> {
        if let Value::Scalar { text, plain } = &node.value {
            let found = words.iter().find(|word| match word {
                Json::String(word) => word == text,
                Json::Number(number) => *plain && number.to_string() == *text,
                _ => false,
            });
            if let Some(found) = found {
                return Some((*found).clone());
            }
        }
        let words_and_forms = words.iter().map(|word| word_text(word));
        let allowed: Vec<String> = words_and_forms.chain(forms.iter().cloned()).collect();
        let error = match &node.value {
            Value::Scalar { text, .. } => self
                .error(
                    node.span,
                    "unknown-value",
                    format!("`{text}` is not a value of {}", self.what()),
                )
                .with_nearest(text, allowed.iter().map(String::as_str)),
            _ => self.error(
                node.span,
                "wrong-type",
                format!(
                    "{} is {}, but one word is expected",
                    self.what(),
                    node.kind()
                ),
            ),
        };
        let error = match schema.text("description") {
            // With a single allowed word the list alone does not explain itself.
            Some(meaning) if words.len() == 1 => error.with_reason(meaning),
            _ => error,
        };
        // A word that is no value here may have a meaning under another key.
        let instead = match &node.value {
            Value::Scalar { text, .. } => schema.get("x-instead").and_then(|known| known.get(text)),
            _ => None,
        };
        let error = match instead.and_then(Json::as_str) {
            Some(instead) => error.with_suggestion(instead),
            None => error,
        };
        // A word without a near one may be any, and decides what the keys beside it mean.
        if error.suggestion.is_none()
            && let Some((_, mapping @ [_, ..])) = self.path.split_last()
        {
            self.mends.doubt(mapping);
        }
        self.errors.push(error.with_allowed(allowed));
        None
    }

    /// A word where some words need a value, and are then the key of a mapping with `forms`.
    fn word_with_value(
        &mut self,
        words: Resolved<'a>,
        forms: &'a Map<String, Json>,
        text: &str,
        node: &Node,
    ) -> Option<Json> {
        let form = forms.get(text);
        if form.is_some_and(has_defaults) {
            return Some(json!({text: {}}));
        }
        if let Some(form) = form {
            let meaning = follow(self.root, form).text("description");
            let meaning = first_sentence(meaning.unwrap_or_default());
            let (key, value) = (self.what(), self.example(form));
            let key = key.trim_matches('`');
            let suggestion = format!("write `{key}: {{{text}: {value}}}`");
            let error = self
                .error(node.span, "missing-key", format!("`{text}` needs a value"))
                .with_reason(meaning)
                .with_suggestion(suggestion);
            self.errors.push(error);
            return None;
        }
        let listed = words.words().unwrap_or_default();
        let is_listed = |key: &String| listed.iter().any(|word| *word == key.as_str());
        let forms = forms.iter().filter(|(key, _)| !is_listed(key));
        let forms: Vec<String> = forms
            .map(|(key, form)| match has_defaults(form) {
                true => key.clone(),
                false => format!("{{{key}: ...}}"),
            })
            .collect();
        self.word_or(words, &listed, &forms, node)
    }

    /// Returns a value of a schema as it would be written.
    fn example(&self, schema: &Json) -> String {
        let schema = follow(self.root, schema);
        match (schema.text("type"), schema.text("format")) {
            (Some("object"), _) => {
                let required = schema.get("required").and_then(Json::as_array);
                let required = required.into_iter().flatten().filter_map(Json::as_str);
                let keys: Vec<String> = required
                    .filter_map(|key| {
                        let value = schema.get("properties")?.get(key)?;
                        Some(format!("{key}: {}", self.example(value)))
                    })
                    .collect();
                format!("{{{}}}", keys.join(", "))
            }
            (Some("array"), _) => {
                let item = schema.get("items").map(|item| self.example(item));
                format!("[{}]", item.unwrap_or_default())
            }
            (Some("integer"), _) => schema.get("minimum").map_or("1".into(), Json::to_string),
            (_, Some(format)) if !constel_units::format_example(format).is_empty() => {
                constel_units::format_example(format).to_owned()
            }
            _ => "...".to_owned(),
        }
    }

    /// Either a fixed word or the other alternative, or alternatives of different types.
    pub(super) fn any_of(
        &mut self,
        schema: Resolved<'a>,
        alternatives: &'a [Json],
        node: &'a Node,
    ) -> Option<Json> {
        if let Value::Scalar { text, .. } = &node.value {
            let word = alternatives
                .iter()
                .filter_map(|a| a.get("const"))
                .find(|w| *w == text);
            if let Some(word) = word {
                return Some(word.clone());
            }
        }
        let wanted = match &node.value {
            Value::Mapping(_) => "object",
            Value::Sequence(_) => "array",
            Value::Scalar { .. } => "string",
        };
        let of_type = |wanted: &str| {
            alternatives.iter().find(|a| {
                let found = follow(self.root, a);
                let is_words = wanted == "string" && found.words().is_some();
                is_words || found.text("type") == Some(wanted)
            })
        };
        let forms = of_type("object").and_then(|forms| forms.get("properties")?.as_object());
        if let (Value::Scalar { text, .. }, Some(forms), Some(words)) =
            (&node.value, forms, of_type("string"))
        {
            let words = follow(self.root, words);
            if words.words().is_some() {
                return self.word_with_value(words, forms, text, node);
            }
        }
        let is_number =
            matches!(&node.value, Value::Scalar { text, .. } if text.parse::<i64>().is_ok());
        let fits = of_type(wanted).or_else(|| of_type("integer").filter(|_| is_number));
        let Some(fits) = fits else {
            self.wrong_type(schema, node);
            return None;
        };
        let fixed: Vec<String> = alternatives
            .iter()
            .filter_map(|a| a.get("const"))
            .map(word_text)
            .collect();
        let format = follow(self.root, fits).text("format");
        match (&node.value, format) {
            // Bounds are next to the alternatives, not inside them.
            (Value::Scalar { text, plain }, Some(format)) if !fixed.is_empty() => self
                .quantity(schema, format, text, *plain, node.span, &fixed)
                .then(|| Json::String(text.clone())),
            _ => self.value(fits, node),
        }
    }

    pub(super) fn string(&mut self, schema: Resolved<'a>, node: &Node) -> Option<Json> {
        let Value::Scalar { text, plain } = &node.value else {
            self.wrong_type(schema, node);
            return None;
        };
        match schema.text("format") {
            Some("constel-name") => {
                if let Err(error) = text.parse::<Name>() {
                    self.bad_name(node.span, text, &error.to_string());
                    return None;
                }
            }
            Some("constel-node") => {
                if let Err(error) = NodeName::parse(text) {
                    self.bad_name(node.span, text, &error.to_string());
                    return None;
                }
            }
            Some("constel-destination") => match text.parse::<Destination>() {
                Ok(_) => (),
                Err(DestinationError::Name(error)) => {
                    self.bad_name(node.span, text, &error.to_string());
                    return None;
                }
                Err(error @ DestinationError::Form) => {
                    let message =
                        format!("`{text}` is neither a node nor an end of a disjoint path");
                    let found = self.error(node.span, "bad-name", message);
                    self.errors.push(found.with_reason(error.to_string()));
                    return None;
                }
            },
            Some(format) => {
                let good = self.quantity(schema, format, text, *plain, node.span, &[]);
                return good.then(|| Json::String(text.clone()));
            }
            None => {}
        }
        let length = text.chars().count() as u64;
        let limit = |keyword| schema.get(keyword).and_then(Json::as_u64);
        if limit("minLength").is_some_and(|least| length < least) {
            let message = format!("{} cannot be empty", self.what());
            self.errors
                .push(self.error(node.span, "empty-value", message));
            return None;
        }
        if let Some(most) = limit("maxLength").filter(|&most| length > most) {
            let message = format!("{} has {length} characters; at most {most}", self.what());
            self.errors
                .push(self.error(node.span, "out-of-range", message));
            return None;
        }
        Some(Json::String(text.clone()))
    }

    /// Checks a quantity and its bounds; `also` are words that would do instead of it.
    pub(super) fn quantity(
        &mut self,
        schema: Resolved<'a>,
        format: &str,
        text: &str,
        plain: bool,
        span: Span,
        also: &[String],
    ) -> bool {
        if let Err(why) = constel_units::parse_format(format, text) {
            let number = plain && matches!(core_type(text), Core::Integer | Core::Float);
            let (code, message) = if number {
                ("missing-unit", format!("{} needs a unit", self.what()))
            } else {
                (
                    "bad-quantity",
                    format!("`{text}` is not {}", format_words(format)),
                )
            };
            let mut error = self.error(span, code, message).with_reason(why.to_string());
            if !also.is_empty() {
                let example = constel_units::format_example(format);
                let quantity = format!("{} such as `{example}`", format_words(format));
                error = error
                    .with_nearest(text, also.iter().map(String::as_str))
                    .with_allowed(also.iter().cloned().chain([quantity]));
            }
            self.errors.push(error);
            return false;
        }
        let Some(broken) = check_bounds(schema, format, text) else {
            return true;
        };
        let message = format!("{} is {text}, but must be {broken}", self.what());
        self.errors.push(self.error(span, "out-of-range", message));
        false
    }

    pub(super) fn bad_name(&mut self, span: Span, text: &str, why: &str) {
        let slug = crate::slug::slug(text);
        let message = if text.is_empty() {
            format!("{} is empty", self.what())
        } else {
            format!("`{text}` is not a name")
        };
        let mut error = self.error(span, "bad-name", message).with_reason(format!(
            "{why}; a name is made of a-z, 0-9 and `-`, at most {} characters",
            Name::MAX_LEN
        ));
        if slug.parse::<Name>().is_ok() {
            error = error.with_suggestion(format!("`{slug}` would do"));
        }
        self.errors.push(error);
    }

    pub(super) fn integer(&mut self, schema: Resolved<'a>, node: &Node) -> Option<Json> {
        let number = match &node.value {
            Value::Scalar { text, plain: true } if core_type(text) == Core::Integer => text
                .trim_start_matches('+')
                .parse::<i128>()
                .ok()
                .map(|n| (text, n)),
            _ => {
                self.wrong_type(schema, node);
                return None;
            }
        };
        // Whatever does not fit in 128 bits is out of every range.
        let (text, value) = match (&node.value, number) {
            (_, Some((text, value))) => (text.as_str(), value),
            (Value::Scalar { text, .. }, None) => (text.as_str(), i128::MAX),
            _ => return None,
        };
        let edge = |keyword, default: i128| {
            let edge = schema.get(keyword).and_then(Json::as_i64).map(i128::from);
            edge.unwrap_or(default)
        };
        let least = edge("minimum", 0);
        let most = edge("maximum", i128::from(u64::MAX));
        if value < least || value > most {
            let message = format!(
                "{} is {text}, but must be a whole number from {least} to {most}",
                self.what()
            );
            self.errors
                .push(self.error(node.span, "out-of-range", message));
            return None;
        }
        u64::try_from(value)
            .map(Number::from)
            .or_else(|_| i64::try_from(value).map(Number::from))
            .ok()
            .map(Json::Number)
    }

    /// A number without a unit, whole or not.
    pub(super) fn number(&mut self, schema: Resolved<'a>, node: &Node) -> Option<Json> {
        let written = match &node.value {
            Value::Scalar { text, plain: true }
                if matches!(core_type(text), Core::Integer | Core::Float) =>
            {
                let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
                number.map(|number| (text, number))
            }
            _ => None,
        };
        let Some((text, number)) = written else {
            self.wrong_type(schema, node);
            return None;
        };
        let edge = |keyword| schema.get(keyword).and_then(Json::as_f64);
        let (least, most) = (edge("minimum"), edge("maximum"));
        if least.is_some_and(|least| number < least) || most.is_some_and(|most| number > most) {
            let and = |edge: Option<f64>| edge.map_or("any".to_owned(), |edge| edge.to_string());
            let message = format!(
                "{} is {text}, but must be a number from {} to {}",
                self.what(),
                and(least),
                and(most)
            );
            self.errors
                .push(self.error(node.span, "out-of-range", message));
            return None;
        }
        Number::from_f64(number).map(Json::Number)
    }

    pub(super) fn boolean(&mut self, schema: Resolved<'a>, node: &Node) -> Option<Json> {
        if let Value::Scalar { text, plain: true } = &node.value
            && let Core::Bool(value) = core_type(text)
        {
            return Some(Json::Bool(value));
        }
        self.wrong_type(schema, node);
        None
    }
}
