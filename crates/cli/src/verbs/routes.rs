//! `constel routes`: what one node's kernel has in its main table.

use constel_api::Request;
use serde_json::Value;

use super::labs;
use crate::args::Routes;
use crate::exit::{Exit, Outcome};
use crate::output;

/// One row a next hop.
pub(crate) fn run(args: &Routes) -> Outcome {
    let request = Request::Routes {
        node: args.node.clone(),
    };
    let answer = labs::ask(&args.lab, &request)?;
    if args.json {
        output::json(&answer)?;
    } else {
        output::text(&table(&answer))?;
    }
    Ok(Exit::Done)
}

fn table(answer: &Value) -> String {
    let mut rows = Vec::new();
    for route in answer["routes"].as_array().into_iter().flatten() {
        let hops = route["hops"].as_array().map_or(&[][..], Vec::as_slice);
        // A route without next hops (unreachable, blackhole) still is a route.
        let hops = if hops.is_empty() {
            &[Value::Null][..]
        } else {
            hops
        };
        for hop in hops {
            rows.push(vec![
                output::cell(&route["destination"]),
                output::cell(&route["to"]),
                output::cell(&route["kind"]),
                output::cell(&hop["via"]),
                output::cell(&hop["gateway"]),
                output::cell(&hop["port"]),
                output::cell(&route["metric"]),
                output::cell(&route["protocol"]),
            ]);
        }
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
    use serde_json::json;

    #[test]
    fn one_row_a_next_hop() {
        let hop =
            |via: &str, port: &str| json!({"via": via, "gateway": "10.128.0.1", "port": port});
        let answer = json!({"node": "a", "routes": [
            {"destination": "10.0.0.2/32", "to": "b", "kind": "unicast", "metric": 32, "protocol": "bird",
             "hops": [hop("b", "isl0"), hop("c", "isl1")]},
            {"destination": "10.9.0.0/16", "to": null, "kind": "blackhole", "metric": 0, "protocol": "static",
             "hops": []},
        ]});
        assert_eq!(
            super::table(&answer),
            "DESTINATION  TO  KIND       VIA  GATEWAY     PORT  METRIC  PROTOCOL\n\
             10.0.0.2/32  b   unicast    b    10.128.0.1  isl0  32      bird\n\
             10.0.0.2/32  b   unicast    c    10.128.0.1  isl1  32      bird\n\
             10.9.0.0/16  -   blackhole  -    -           -     0       static\n"
        );
    }
}
