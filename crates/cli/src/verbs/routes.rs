//! `constel routes`: the main routing table of a node's kernel.

use constel_api::answers::{NextHop, Route};
use constel_control::Observer;

use super::there::{Elsewhere, verb};
use crate::args::Routes;
use crate::exit::{Exit, Outcome};
use crate::output;

/// Prints one row for each next hop.
pub(crate) fn run(args: &Routes) -> Outcome {
    if let Some(store) = &args.store {
        let elsewhere = Elsewhere {
            store,
            lab: &args.lab,
            node: &args.node,
            verb: verb(&["routes"], args.json),
            args: vec![args.node.clone()],
            input: Vec::new(),
        };
        return elsewhere.run();
    }
    let answer = Observer::attach(&args.lab)?.routes(&args.node)?;
    if args.json {
        output::json(&answer)?;
    } else {
        output::text(&table(&answer.routes))?;
    }
    Ok(Exit::Done)
}

fn table(routes: &[Route]) -> String {
    let mut rows = Vec::new();
    for route in routes {
        let row = |hop: Option<&NextHop>| {
            vec![
                route.destination.clone(),
                output::or_dash(route.to.as_ref()),
                route.kind.clone(),
                output::or_dash(hop.and_then(|hop| hop.via.as_ref())),
                output::or_dash(hop.and_then(|hop| hop.gateway)),
                output::or_dash(hop.and_then(|hop| hop.port.as_ref())),
                route.metric.to_string(),
                route.protocol.clone(),
            ]
        };
        // A route without next hops (unreachable, blackhole) is still a route.
        if route.hops.is_empty() {
            rows.push(row(None));
        }
        rows.extend(route.hops.iter().map(|hop| row(Some(hop))));
    }
    let head = [
        "DESTINATION",
        "TO",
        "KIND",
        "VIA",
        "GATEWAY",
        "PORT",
        "METRIC",
        "PROTOCOL",
    ];
    output::table(&head, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_row_a_next_hop() {
        let hop = |via: &str, port: &str| NextHop {
            via: Some(via.to_owned()),
            gateway: Some([10, 128, 0, 1].into()),
            port: Some(port.to_owned()),
        };
        let route = |destination: &str, kind: &str, metric, protocol: &str| Route {
            destination: destination.to_owned(),
            to: None,
            kind: kind.to_owned(),
            hops: Vec::new(),
            source: None,
            metric,
            protocol: protocol.to_owned(),
        };
        let shared = Route {
            to: Some("b".to_owned()),
            hops: vec![hop("b", "isl0"), hop("c", "isl1")],
            ..route("10.0.0.2/32", "unicast", 32, "bird")
        };
        let routes = [shared, route("10.9.0.0/16", "blackhole", 0, "static")];
        assert_eq!(
            table(&routes),
            "DESTINATION  TO  KIND       VIA  GATEWAY     PORT  METRIC  PROTOCOL\n\
             10.0.0.2/32  b   unicast    b    10.128.0.1  isl0  32      bird\n\
             10.0.0.2/32  b   unicast    c    10.128.0.1  isl1  32      bird\n\
             10.9.0.0/16  -   blackhole  -    -           -     0       static\n"
        );
    }
}
