//! `networks`: which keys go with which medium and law.

mod channel;

use super::inputs::Inputs;
use super::link::link_of;
use super::{no_effect, radio};
use crate::diagnostic::Diagnostics;
use crate::model::{Law, Link, Medium, Name, Network, NodesNamed};
use crate::parse::Parsed;
use crate::raw::{NetworkMedium, RawLaw, RawNetwork};
use crate::walk::Seg::{self, Index, Key};
use constel_units::Length;

/// Checks the networks; errors go to `errors`. The members are known when the plan is made.
pub(super) fn resolve(
    parsed: &Parsed,
    inputs: &mut Inputs<'_>,
    errors: &mut Diagnostics,
) -> Vec<Network> {
    let mut networks = Vec::new();
    for (name, raw) in &parsed.raw.networks {
        let medium = match raw.medium {
            NetworkMedium::Links => edges(parsed, name, raw, inputs, errors)
                .map(|(law, link)| Medium::Links { law, link }),
            NetworkMedium::Shared => {
                let edges = edges(parsed, name, raw, inputs, errors);
                let channel = channel::resolve(parsed, name, raw, errors);
                edges
                    .zip(channel)
                    .map(|((law, link), channel)| Medium::Shared { law, link, channel })
            }
            NetworkMedium::Switched => {
                for (key, there) in [("law", raw.law.is_some()), ("link", raw.link.is_some())] {
                    if there {
                        let path = [Key("networks"), Key(name.as_str()), Key(key)];
                        no_effect(parsed, errors, &path, "medium: links");
                    }
                }
                Some(Medium::Switched)
            }
        };
        if raw.channel.is_some() && raw.medium != NetworkMedium::Shared {
            let path = [Key("networks"), Key(name.as_str()), Key("channel")];
            no_effect(parsed, errors, &path, "medium: shared");
        }
        let mut named = |key: &'static str, list: &[String]| -> Vec<NodesNamed> {
            let each = list.iter().enumerate().map(|(n, text)| {
                let path = [Key("networks"), Key(name.as_str()), Key(key), Index(n)];
                if list[..n].contains(text) {
                    let message = format!("`{text}` is listed twice");
                    errors.push(parsed.error_at(&path, "duplicate-name", message));
                }
                NodesNamed::written(parsed, &path, text)
            });
            each.collect()
        };
        let members = named("members", &raw.members);
        let away = named("away", &raw.away);
        networks.extend(medium.map(|medium| Network {
            name: name.clone(),
            members,
            away,
            medium,
            management: raw.management,
        }));
    }
    networks
}

/// Returns the rule and the link of a network's edges: every medium but a bridge needs them.
fn edges(
    parsed: &Parsed,
    name: &Name,
    raw: &RawNetwork,
    inputs: &mut Inputs<'_>,
    errors: &mut Diagnostics,
) -> Option<(Law, Link)> {
    let path = [Key("networks"), Key(name.as_str())];
    for (key, there) in [("law", raw.law.is_some()), ("link", raw.link.is_some())] {
        if !there {
            let message = format!("network `{name}` needs `{key}`");
            let error = parsed.error_at_key(&path, "missing-key", message);
            errors.push(error.with_reason("only a bridge, `medium: switched`, goes without"));
        }
    }
    let law = raw
        .law
        .as_ref()
        .and_then(|law| law_of(parsed, &path, law, inputs, errors));
    let link = raw.link.as_ref().map(|link| {
        let path = [path[0], path[1], Key("link")];
        link_of(parsed, &path, link, inputs, errors)
    });
    law.zip(link)
}

fn law_of(
    parsed: &Parsed,
    network: &[Seg<'_>; 2],
    raw: &RawLaw,
    inputs: &mut Inputs<'_>,
    errors: &mut Diagnostics,
) -> Option<Law> {
    let under = |key| [network[0], network[1], Key("law"), Key(key)];
    if let Some(file) = &raw.matrix {
        for (key, there) in [
            ("atmosphere", raw.atmosphere.is_some()),
            ("by_range", !raw.by_range.is_empty()),
            ("radio", raw.radio.is_some()),
        ] {
            if there {
                no_effect(parsed, errors, &under(key), "range");
            }
        }
        return inputs.file(file, &under("matrix"), errors).map(Law::Matrix);
    }
    let Some(most) = raw.range else {
        for (key, there) in [
            ("atmosphere", raw.atmosphere.is_some()),
            ("by_range", !raw.by_range.is_empty()),
            ("radio", raw.radio.is_some()),
        ] {
            if there {
                no_effect(parsed, errors, &under(key), "range");
            }
        }
        return over(parsed, &under("over"), raw.over.as_ref()?, errors);
    };
    if raw.radio.is_some() && !raw.by_range.is_empty() {
        let message = "`radio` and `by_range` both set the rate".to_owned();
        let error = parsed.error_at(&under("by_range"), "choose-one", message);
        errors.push(error.with_suggestion("leave one of them out"));
    }
    let radio = match &raw.radio {
        None => None,
        Some(own) => Some(radio::crosslink(
            own,
            |key, code, message, why, allowed| {
                let path: Vec<Seg<'_>> = under("radio").into_iter().chain([Key(key)]).collect();
                let mut error = parsed.error_at(&path, code, message);
                if !why.is_empty() {
                    error = error.with_reason(why);
                }
                errors.push(error.with_allowed(allowed.iter().copied()));
            },
        )?),
    };
    let mut before = Length::from_m(0.0);
    for (n, step) in raw.by_range.iter().enumerate() {
        let [a, b, c, d] = under("by_range");
        let path = [a, b, c, d, Index(n), Key("beyond")];
        if step.beyond <= before {
            let message = format!("{} is not farther than {before}", step.beyond);
            let error = parsed.error_at(&path, "order", message);
            errors.push(error.with_reason("steps go from near to far"));
        } else if step.beyond >= most {
            let message = format!("{} is not within the range, {most}", step.beyond);
            errors.push(parsed.error_at(&path, "out-of-range", message));
        }
        before = step.beyond;
    }
    Some(Law::Range {
        most,
        atmosphere: raw.atmosphere.unwrap_or(Length::from_m(0.0)),
        steps: raw.by_range.clone(),
        radio,
    })
}

/// Along paths over a constellation, which must have links to the ground.
fn over(parsed: &Parsed, path: &[Seg<'_>], name: &Name, errors: &mut Diagnostics) -> Option<Law> {
    let all = &parsed.raw.constellations;
    match all.get(name) {
        Some(constellation) if constellation.gsl.is_some() => Some(Law::Over(name.clone())),
        Some(_) => {
            let message = format!("`{name}` has no links to the ground");
            errors.push(parsed.error_at(path, "no-effect", message));
            None
        }
        None => {
            let message = format!("no constellation is called `{name}`");
            let error = parsed.error_at(path, "unknown-constellation", message);
            errors.push(error.with_allowed(all.keys().map(Name::as_str)));
            None
        }
    }
}
