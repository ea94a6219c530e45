//! `constel network`: shows networks, and lets members join and leave.

use constel_api::answers::{MemberSet, NetworkShown};
use constel_cluster::store::StoreLocation;
use constel_control::{Lab, Observer};
use constel_units::files;

use super::there::{self, All};
use crate::args::{Network, NetworkDelays, NetworkMember, NetworkVerb};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Shows a network or changes its members and delays.
pub(crate) fn run(args: &Network) -> Outcome {
    if let Some(store) = &args.store {
        return far(store, &args.verb, args.json);
    }
    match &args.verb {
        NetworkVerb::Show { lab } => {
            let networks = Observer::attach(lab)?.networks()?;
            match args.json {
                true => output::json(&networks)?,
                false => output::text(&table(&networks))?,
            }
            Ok(Exit::Done)
        }
        NetworkVerb::Join(member) => set(args, member, true),
        NetworkVerb::Leave(member) => set(args, member, false),
        NetworkVerb::Set(delays) => set_delays(args, delays),
    }
}

/// Runs the verb on any machine of the lab: all have the same state, and make the same changes.
fn far(store: &StoreLocation, verb: &NetworkVerb, json: bool) -> Outcome {
    let mut input = Vec::new();
    let (word, lab, rest) = match verb {
        NetworkVerb::Show { lab } => ("show", lab, Vec::new()),
        NetworkVerb::Join(m) => ("join", &m.lab, vec![m.network.clone(), m.node.clone()]),
        NetworkVerb::Leave(m) => ("leave", &m.lab, vec![m.network.clone(), m.node.clone()]),
        NetworkVerb::Set(delays) => {
            let mut rest = vec![delays.network.clone()];
            match &delays.matrix {
                Some(file) => {
                    input = files::read(file, files::MAX_TEXT_BYTES)
                        .map_err(|error| Failure::unread(file, error))?;
                    rest.extend(["--matrix", "/dev/stdin"].map(str::to_owned));
                }
                None => rest.push("--reset".to_owned()),
            }
            ("set", &delays.lab, rest)
        }
    };
    All::of(store, lab)?.first(&there::verb(&["network", word], json), &rest, &input)
}

fn set(args: &Network, member: &NetworkMember, joined: bool) -> Outcome {
    let lab = Lab::attach(&member.lab)?;
    let answer = lab.set_member(&member.network, &member.node, joined)?;
    match args.json {
        true => output::json(&answer)?,
        false => output::text(&told(&answer))?,
    }
    Ok(Exit::Done)
}

fn set_delays(args: &Network, delays: &NetworkDelays) -> Outcome {
    let lab = Lab::attach(&delays.lab)?;
    let answer = match &delays.matrix {
        Some(file) => lab.set_delays(&delays.network, file)?,
        None => lab.reset_delays(&delays.network)?,
    };
    match args.json {
        true => output::json(&answer)?,
        false => {
            let (edges, network) = (answer.edges, &answer.network);
            output::text(&format!("{edges} delays of {network} changed\n"))?;
        }
    }
    Ok(Exit::Done)
}

fn told(answer: &MemberSet) -> String {
    let (node, network) = (&answer.node, &answer.network);
    let text = match (answer.changed, answer.joined) {
        (true, true) => format!("{node} is in {network} now\n"),
        (true, false) => format!("{node} is out of {network} now\n"),
        (false, true) => format!("{node} is in {network} already\n"),
        (false, false) => format!("{node} is out of {network} already\n"),
    };
    text + &output::routes_after(answer.routes)
}

fn table(networks: &[NetworkShown]) -> String {
    let mut rows = Vec::new();
    for network in networks {
        rows.extend(network.members.iter().map(|member| {
            vec![
                network.network.clone(),
                member.node.clone(),
                member.port.clone(),
                if member.joined { "in" } else { "out" }.to_owned(),
                member.edges.to_string(),
            ]
        }));
    }
    match rows.is_empty() {
        true => "this lab has no networks\n".to_owned(),
        false => output::table(&["NETWORK", "NODE", "PORT", "STATE", "REACHES"], &rows),
    }
}
