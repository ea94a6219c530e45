//! Parameters by name, as people and scenario files give them.

use super::{ParamError, Params};

impl Params {
    /// Names of the variants that [`Self::variant`] accepts.
    pub const VARIANTS: [&str; 3] = ["faithful", "authors-constants", "beyond"];

    /// Returns the parameters of a variant; `None` for a name that is not in [`Self::VARIANTS`].
    pub fn variant(name: &str) -> Option<Self> {
        match name {
            "faithful" => Some(Self::default()),
            "authors-constants" => Some(Self::authors_constants()),
            "beyond" => Some(Self::beyond()),
            _ => None,
        }
    }

    /// Returns these parameters with some replaced, each as `name=value`; `value` is a number,
    /// `true` or `false`. The result has been validated.
    ///
    /// # Errors
    /// Every invalid setting, and every invalid parameter.
    pub fn with_settings(&self, set: &[String]) -> Result<Self, ParamError> {
        let broken = |e: serde_json::Error| ParamError(vec![e.to_string()]);
        // Through JSON, so that every field can be set by its name without a second list of
        // names.
        let mut all = serde_json::to_value(self).map_err(broken)?;
        let mut wrong = Vec::new();
        for setting in set {
            let Some((name, value)) = setting.split_once('=') else {
                wrong.push(format!("{setting}: not NAME=VALUE"));
                continue;
            };
            let Some(slot) = all.get_mut(name) else {
                wrong.push(format!(
                    "{setting}: no such parameter (`leotp mid --set help` lists all)"
                ));
                continue;
            };
            // The value must have the kind of the present one: `1` is not `true`, and 1.5
            // segments do not exist.
            match serde_json::from_str::<serde_json::Value>(value) {
                Ok(value) if same_kind(slot, &value) => *slot = value,
                _ if slot.is_boolean() => wrong.push(format!("{setting}: not true or false")),
                _ if slot.is_u64() => wrong.push(format!("{setting}: not a whole number")),
                _ => wrong.push(format!("{setting}: not a number")),
            }
        }
        if !wrong.is_empty() {
            return Err(ParamError(wrong));
        }
        let params: Self = serde_json::from_value(all).map_err(broken)?;
        params.validate()?;
        Ok(params)
    }

    /// Returns every parameter with its value, and below it its meaning: the comments of
    /// [`Params`] themselves.
    pub fn listed(&self) -> String {
        let all = serde_json::to_value(self).unwrap_or_default();
        let mut text = String::new();
        for (name, meaning) in meanings() {
            text += &format!("{name}={}\n", all[name]);
            for line in meaning {
                text += &format!("    {line}\n");
            }
        }
        text
    }
}

/// Returns the names of all parameters and the lines of their comments in the source.
fn meanings() -> Vec<(&'static str, Vec<&'static str>)> {
    let source = include_str!("params.rs");
    let fields = source.split_once("pub struct Params {").map_or("", |s| s.1);
    let fields = fields.split_once("\n}").map_or(fields, |s| s.0);
    let (mut found, mut comment) = (Vec::new(), Vec::new());
    for line in fields.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            comment.push(text.trim());
        } else if let Some((name, _)) = line
            .strip_prefix("pub ")
            .and_then(|field| field.split_once(':'))
        {
            found.push((name, std::mem::take(&mut comment)));
        }
    }
    found
}

fn same_kind(slot: &serde_json::Value, value: &serde_json::Value) -> bool {
    match slot {
        serde_json::Value::Bool(_) => value.is_boolean(),
        _ if slot.is_u64() => value.is_u64(),
        _ => value.is_number(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_works() {
        for name in Params::VARIANTS {
            Params::variant(name).unwrap().validate().unwrap();
        }
        assert_eq!(Params::variant("nope"), None);
    }

    #[test]
    fn every_parameter_is_listed_with_its_meaning() {
        let all = serde_json::to_value(Params::beyond()).unwrap();
        let found = meanings();
        assert_eq!(found.len(), all.as_object().unwrap().len());
        for (name, meaning) in &found {
            assert!(!all[name].is_null() && !meaning.is_empty(), "{name}");
        }
        let text = Params::beyond().listed();
        assert!(
            text.contains("rto_backoff=1.5\n    Growth of the resending interval per timeout: 1.5"),
            "{text}"
        );
    }

    #[test]
    fn settings_by_name() {
        let set = ["cache_bytes=1048576", "shr=false", "decrease=0.5"].map(String::from);
        let p = Params::default().with_settings(&set).unwrap();
        assert_eq!((p.cache_bytes, p.shr, p.decrease), (1 << 20, false, 0.5));
        assert_eq!(Params::beyond().with_settings(&[]), Ok(Params::beyond()));
    }

    #[test]
    fn every_wrong_setting_is_named() {
        let set = [
            "cache_bytes",
            "nope=1",
            "shr=3",
            "max_retries=1.5",
            "decrease=no",
        ];
        let error = Params::default().with_settings(&set.map(String::from));
        assert_eq!(error.unwrap_err().0.len(), 5);
        assert!(
            Params::default()
                .with_settings(&["decrease=2".into()])
                .is_err()
        );
        assert!(
            Params::default()
                .with_settings(&["max_flows=99999999999".into()])
                .is_err()
        );
    }
}
