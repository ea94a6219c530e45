//! `constel path`: hop by hop by the kernels' routes, beside the way of least delay.

use constel_api::Request;
use serde_json::Value;

use super::labs;
use crate::args::Path;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Prints the ways; fails when the kernels' routes do not arrive.
pub(crate) fn run(args: &Path) -> Outcome {
    let at_ns = match args.at {
        None => None,
        Some(at) => Some(
            u64::try_from(at.ns())
                .map_err(|_| Failure::Usage(format!("--at is {at}: lab time begins at 0 s")))?,
        ),
    };
    let request = Request::Path {
        from: args.a.clone(),
        to: args.b.clone(),
        at_ns,
    };
    let answer = labs::ask(&args.lab, &request)?;
    if args.json {
        output::json(&answer)?;
    } else {
        output::text(&text(&answer))?;
    }
    let lost = answer["kernel"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|row| row["arrived"] != true);
    match lost {
        None => Ok(Exit::Done),
        Some(row) => Err(anyhow::anyhow!(
            "{} by {} does not arrive: {}",
            args.b,
            by(row),
            output::cell(&row["end"])
        )
        .into()),
    }
}

/// The family and, of disjoint paths, which.
fn by(row: &Value) -> String {
    let family = output::cell(&row["family"]);
    match row["path"].as_u64() {
        Some(path) => format!("path {path}, {family}"),
        None => family,
    }
}

fn text(answer: &Value) -> String {
    let seconds = |key: &str| answer[key].as_f64().unwrap_or(f64::NAN) / 1e9;
    let mut text = format!(
        "{} to {}, edges at {:.3} s, tables at {:.3} s\n",
        output::cell(&answer["from"]),
        output::cell(&answer["to"]),
        seconds("t_ns"),
        seconds("tables_t_ns"),
    );
    let optimum = &answer["optimum"];
    for row in answer["kernel"].as_array().into_iter().flatten() {
        let sum = match (row["delay_ns"].as_f64(), optimum["delay_ns"].as_f64()) {
            (Some(ns), Some(least)) if least > 0.0 => {
                format!("{}, {:.3} x the optimum", output::ms(ns), ns / least)
            }
            (Some(ns), _) => output::ms(ns),
            (None, _) => output::cell(&row["end"]),
        };
        text.push_str(&format!("\nkernel, {}: {sum}\n", by(row)));
        text.push_str(&hops(row));
    }
    let sum = optimum["delay_ns"]
        .as_f64()
        .map_or_else(|| "no way".to_owned(), output::ms);
    text.push_str(&format!("\noptimum: {sum}\n"));
    text.push_str(&hops(optimum));
    text
}

fn hops(row: &Value) -> String {
    let hops = row["hops"].as_array().map_or(&[][..], Vec::as_slice);
    let ways = |hop: &Value| hop["next_hops"].as_u64().unwrap_or(1);
    // Only where some route has several next hops is there anything to say about it.
    let several = hops.iter().any(|hop| ways(hop) > 1);
    let mut sum_ns = 0.0;
    let rows: Vec<Vec<String>> = hops
        .iter()
        .map(|hop| {
            let ns = hop["delay_ns"].as_f64().unwrap_or(f64::NAN);
            sum_ns += ns;
            let end = |node: &str, port: &str| {
                format!("{}/{}", output::cell(&hop[node]), output::cell(&hop[port]))
            };
            let mut cells = vec![
                end("from", "from_port"),
                end("to", "to_port"),
                output::ms(ns),
                output::ms(sum_ns),
            ];
            cells.extend(several.then(|| format!("one of {}", ways(hop))));
            cells
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut head = vec!["FROM", "TO", "DELAY", "SUM"];
    head.extend(several.then_some("NEXT HOP"));
    output::table(&head, &rows)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn hops_add_up_beside_the_optimum() {
        let hop = |from: &str, to: &str, ns: u64| json!({"from": from, "from_port": "isl0", "to": to, "to_port": "isl1", "delay_ns": ns});
        let answer = json!({
            "from": "a", "to": "c", "t_ns": 1_500_000_000, "tables_t_ns": 1_500_000_000,
            "kernel": [
                {"family": "ipv4", "arrived": true, "end": "arrived", "delay_ns": 3_000_000,
                 "hops": [hop("a", "b", 1_000_000), hop("b", "c", 2_000_000)]},
                {"family": "ipv6", "arrived": false, "end": "a has no route", "delay_ns": null, "hops": []},
            ],
            "optimum": {"delay_ns": 2_000_000, "hops": [hop("a", "c", 2_000_000)]},
        });
        let mut second = answer["kernel"][1].clone();
        second["path"] = json!(2);
        assert_eq!(super::by(&second), "path 2, ipv6");
        let mut shared = answer["kernel"][0].clone();
        shared["hops"][0]["next_hops"] = json!(2);
        assert_eq!(
            super::hops(&shared),
            "FROM    TO      DELAY     SUM       NEXT HOP\n\
             a/isl0  b/isl1  1.000 ms  1.000 ms  one of 2\n\
             b/isl0  c/isl1  2.000 ms  3.000 ms  one of 1\n"
        );
        assert_eq!(
            super::text(&answer),
            "a to c, edges at 1.500 s, tables at 1.500 s\n\
             \nkernel, ipv4: 3.000 ms, 1.500 x the optimum\n\
             FROM    TO      DELAY     SUM\n\
             a/isl0  b/isl1  1.000 ms  1.000 ms\n\
             b/isl0  c/isl1  2.000 ms  3.000 ms\n\
             \nkernel, ipv6: a has no route\n\
             \noptimum: 2.000 ms\n\
             FROM    TO      DELAY     SUM\n\
             a/isl0  c/isl1  2.000 ms  2.000 ms\n"
        );
    }
}
