//! Parameters by name, as people and scenario files give them.

use super::{ParamError, Params};

impl Params {
    /// Names of the variants that [`Self::variant`] knows.
    pub const VARIANTS: [&str; 3] = ["faithful", "published", "beyond"];

    /// The parameters of a variant; `None` for a name that is none of [`Self::VARIANTS`].
    pub fn variant(name: &str) -> Option<Self> {
        match name {
            "faithful" => Some(Self::default()),
            "published" => Some(Self::published()),
            "beyond" => Some(Self::beyond()),
            _ => None,
        }
    }

    /// These parameters with some set anew, each as `name=value`; `value` is a
    /// number, `true` or `false`. The result has been validated.
    ///
    /// # Errors
    /// Every setting that is none, and every parameter that cannot work.
    pub fn with_settings(&self, set: &[String]) -> Result<Self, ParamError> {
        let broken = |e: serde_json::Error| ParamError(vec![e.to_string()]);
        let mut all = serde_json::to_value(self).map_err(broken)?;
        let mut wrong = Vec::new();
        for setting in set {
            let Some((name, value)) = setting.split_once('=') else {
                wrong.push(format!("{setting}: not NAME=VALUE"));
                continue;
            };
            let Some(slot) = all.get_mut(name) else {
                wrong.push(format!("{setting}: no such parameter"));
                continue;
            };
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

    /// Every parameter and its value, for people.
    pub fn listed(&self) -> String {
        serde_json::to_value(self).map_or_else(|e| e.to_string(), |v| format!("{v:#}"))
    }
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
