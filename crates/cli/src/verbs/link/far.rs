//! Links of labs on several machines.

use constel_api::SetLink;
use constel_cluster::store::StoreLocation;
use constel_control::machine_of;
use constel_link::Effects;

use crate::args::LinkEnds;
use crate::exit::{Failure, Outcome};
use crate::verbs::there::{Elsewhere, find, verb};

/// Shows a link, from the machine that has the first end.
pub(super) fn show(store: &StoreLocation, lab: &str, (a, b): (&str, &str), json: bool) -> Outcome {
    let elsewhere = Elsewhere {
        store,
        lab,
        node: a,
        verb: verb(&["link"], json),
        args: vec![a.to_owned(), b.to_owned()],
        input: Vec::new(),
    };
    elsewhere.run()
}

/// Changes the link by the machine that has one end; that machine notifies all others.
pub(super) fn change(store: &StoreLocation, ends: &LinkEnds, order: &SetLink) -> Outcome {
    let json = |value| serde_json::to_vec(value).map_err(|e| Failure::Failed(e.into()));
    let mut words = vec!["link"];
    // Recordings are longer than the maximum length of an argument.
    let mut input = Vec::new();
    let failing = |failed| *order.effects == Effects::failed(failed) && !order.reset;
    let waits = match [true, false].into_iter().find(|failed| failing(*failed)) {
        None => {
            words.extend(["set", "--effects", "-"]);
            input = json(&order.effects)?;
            words.extend(order.reset.then_some("--reset"));
            true
        }
        Some(failed) => {
            words.push(if failed { "fail" } else { "heal" });
            order.wait
        }
    };
    words.extend((!waits).then_some("--no-wait"));
    let node = end(store, ends)?;
    let elsewhere = Elsewhere {
        store,
        lab: &ends.lab,
        node: &node,
        verb: verb(&words, ends.json),
        args: std::iter::once(&ends.a).chain(&ends.b).cloned().collect(),
        input,
    };
    elsewhere.run()
}

/// Returns a node that the link or the port belongs to.
fn end(store: &StoreLocation, ends: &LinkEnds) -> Result<String, Failure> {
    if ends.b.is_some() {
        return Ok(ends.a.clone());
    }
    if let Some((node, _)) = ends.a.rsplit_once('/') {
        return Ok(node.to_owned());
    }
    let shared = find(store)?;
    let first = ends.a.match_indices('-').map(|(at, _)| &ends.a[..at]);
    let mut known = first.filter(|name| machine_of(shared.as_ref(), &ends.lab, name).is_ok());
    // An argument without a known node is sent unchanged, and rejected there.
    Ok(known.next().unwrap_or(&ends.a).to_owned())
}
