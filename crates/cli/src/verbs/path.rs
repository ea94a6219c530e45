//! `constel path`: the path by the kernels' routes, hop by hop, and the path of least delay.

use constel_api::answers::{Hop, Paths, Walked};
use constel_control::Observer;

use super::there::{Elsewhere, verb};
use crate::args::Path;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Prints the paths; fails if the kernels' routes do not reach the destination.
pub(crate) fn run(args: &Path) -> Outcome {
    if let Some(store) = &args.store {
        let at = args.at.iter().map(|at| format!("--at={at}"));
        let verb = verb(&["path"], args.json).into_iter().chain(at);
        let elsewhere = Elsewhere {
            store,
            lab: &args.lab,
            node: &args.a,
            verb: verb.collect(),
            args: vec![args.a.clone(), args.b.clone()],
            input: Vec::new(),
        };
        return elsewhere.run();
    }
    let at_ns = match args.at {
        None => None,
        Some(at) => Some(
            u64::try_from(at.ns())
                .map_err(|_| Failure::Usage(format!("--at is {at}: lab time begins at 0 s")))?,
        ),
    };
    let answer = Observer::attach(&args.lab)?.path(&args.a, &args.b, at_ns)?;
    if args.json {
        output::json(&answer)?;
    } else {
        output::text(&text(&answer))?;
    }
    match answer.lost() {
        None => Ok(Exit::Done),
        Some(walked) => Err(anyhow::anyhow!(
            "{} by {} does not arrive: {}",
            args.b,
            by(walked),
            walked.end
        )
        .into()),
    }
}

/// Returns the family and, for disjoint paths, the number of the path.
fn by(walked: &Walked) -> String {
    match walked.path {
        Some(path) => format!("path {path}, {}", walked.family),
        None => walked.family.clone(),
    }
}

fn text(answer: &Paths) -> String {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let mut text = format!(
        "{} to {}, edges at {:.3} s, tables at {:.3} s\n",
        answer.from,
        answer.to,
        seconds(answer.t_ns),
        seconds(answer.tables_t_ns),
    );
    let optimum = answer.optimum.as_ref();
    let least_ns = optimum.map(|optimum| optimum.delay_ns as f64);
    for walked in &answer.kernel {
        let sum = match (walked.delay_ns.map(|ns| ns as f64), least_ns) {
            (Some(ns), Some(least)) if least > 0.0 => {
                format!("{}, {:.3} x the optimum", output::ms(ns), ns / least)
            }
            (Some(ns), _) => output::ms(ns),
            (None, _) => walked.end.clone(),
        };
        text.push_str(&format!("\nkernel, {}: {sum}\n", by(walked)));
        text.push_str(&hops(&walked.hops));
    }
    let sum = least_ns.map_or_else(|| "no path".to_owned(), output::ms);
    text.push_str(&format!("\noptimum: {sum}\n"));
    text.push_str(&optimum.map_or_else(String::new, |optimum| hops(&optimum.hops)));
    if !answer.catalogued.is_empty() {
        text.push('\n');
    }
    for satellite in &answer.catalogued {
        text.push_str(&output::catalogued(satellite));
    }
    text
}

fn hops(hops: &[Hop]) -> String {
    // The number of next hops is only shown if some route has several.
    let several = hops.iter().any(|hop| hop.next_hops > 1);
    let mut sum_ns = 0.0;
    let rows: Vec<Vec<String>> = hops
        .iter()
        .map(|hop| {
            let ns = hop.delay_ns as f64;
            sum_ns += ns;
            let mut cells = vec![
                format!("{}/{}", hop.from, hop.from_port),
                format!("{}/{}", hop.to, hop.to_port),
                output::ms(ns),
                output::ms(sum_ns),
            ];
            cells.extend(several.then(|| format!("one of {}", hop.next_hops)));
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
    use super::*;
    use constel_api::answers::Optimum;

    #[test]
    fn hops_add_up_beside_the_optimum() {
        let hop = |from: &str, to: &str, delay_ns| Hop {
            from: from.to_owned(),
            from_port: "isl0".to_owned(),
            to: to.to_owned(),
            to_port: "isl1".to_owned(),
            delay_ns,
            next_hops: 1,
        };
        let walked = |family: &str, end: &str, delay_ns: Option<u64>, hops| Walked {
            family: family.to_owned(),
            address: [10, 0, 0, 2].into(),
            arrived: delay_ns.is_some(),
            end: end.to_owned(),
            delay_ns,
            hops,
            path: None,
        };
        let way = vec![hop("a", "b", 1_000_000), hop("b", "c", 2_000_000)];
        let answer = Paths {
            from: "a".to_owned(),
            to: "c".to_owned(),
            t_ns: 1_500_000_000,
            kernel: vec![
                walked("ipv4", "arrived", Some(3_000_000), way.clone()),
                walked("ipv6", "a has no route", None, Vec::new()),
            ],
            optimum: Some(Optimum {
                delay_ns: 2_000_000,
                hops: vec![hop("a", "c", 2_000_000)],
            }),
            tables_t_ns: 1_500_000_000,
            catalogued: Vec::new(),
        };
        let second = Walked {
            path: Some(2),
            ..answer.kernel[1].clone()
        };
        assert_eq!(by(&second), "path 2, ipv6");
        let mut shared = way;
        shared[0].next_hops = 2;
        assert_eq!(
            hops(&shared),
            "FROM    TO      DELAY     SUM       NEXT HOP\n\
             a/isl0  b/isl1  1.000 ms  1.000 ms  one of 2\n\
             b/isl0  c/isl1  2.000 ms  3.000 ms  one of 1\n"
        );
        assert_eq!(
            text(&answer),
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
