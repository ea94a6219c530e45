//! `constel plan` over an interval: contact plan, path series, coverage.

use std::io::{self, BufWriter, Write};

use constel_analysis::{ContactPlan, Coverage, Interval, Series, parse_pairs};
use constel_plan::Lab;
use constel_units::TimeSpan;
use serde_json::json;

use crate::args::IntervalArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// The product to compute over the interval.
pub(crate) enum Product<'a> {
    Contacts,
    Pairs(&'a str),
    Coverage,
}

/// Returns the product that the flags select; `None`: the plan of an instant.
pub(crate) fn asked(over: &IntervalArgs) -> Option<Product<'_>> {
    match (&over.pairs, over.contacts, over.coverage) {
        (Some(pairs), ..) => Some(Product::Pairs(pairs)),
        (_, true, _) => Some(Product::Contacts),
        (.., true) => Some(Product::Coverage),
        _ => None,
    }
}

/// Returns the interval that the flags select.
pub(crate) fn interval(lab: &Lab, over: &IntervalArgs) -> Result<Interval, Failure> {
    let from = over.from.unwrap_or(TimeSpan::from_ns(0));
    let to = over.to.unwrap_or(lab.scenario.duration);
    Interval::new(lab, from, to, over.every).map_err(|e| Failure::Usage(e.to_string()))
}

/// Returns the number of threads.
pub(crate) fn threads(over: &IntervalArgs) -> usize {
    match over.threads {
        Some(threads) => usize::from(threads),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// Computes and prints the product.
pub(crate) fn run(lab: &Lab, product: Product<'_>, over: &IntervalArgs, json: bool) -> Outcome {
    let interval = interval(lab, over)?;
    let threads = threads(over);
    match product {
        Product::Contacts => contacts(lab, interval, threads, over.csv, json),
        Product::Pairs(pairs) => pairs_of(lab, interval, threads, pairs, over.csv, json),
        Product::Coverage => {
            let coverage = Coverage::new(lab, interval, true, threads);
            if json {
                output::json(&coverage)?;
            } else if over.csv {
                return Err(Failure::Usage(
                    "coverage is two tables: take --json, or neither".to_owned(),
                ));
            } else {
                output::text(&coverage_text(&coverage))?;
            }
            Ok(Exit::Done)
        }
    }
}

fn contacts(lab: &Lab, interval: Interval, threads: usize, csv: bool, json: bool) -> Outcome {
    let plan = ContactPlan::new(lab, interval, threads);
    let mut out = BufWriter::new(io::stdout().lock());
    if json {
        writeln!(out, "{{\n  \"start\": \"{}\",", lab.scenario.start)?;
        writeln!(out, "  \"from_s\": {},", seconds(interval.from_ns()))?;
        writeln!(out, "  \"to_s\": {},", seconds(interval.to_ns()))?;
        writeln!(out, "  \"every_s\": {},", seconds(interval.every_ns()))?;
        writeln!(out, "  \"contacts\": [")?;
        // One line per contact, because a day of a large shell as one value has hundreds of megabytes.
        for (n, row) in plan.rows(lab).enumerate() {
            write!(out, "{}    ", if n > 0 { ",\n" } else { "" })?;
            serde_json::to_writer(&mut out, &row)?;
        }
        writeln!(out, "\n  ]\n}}")?;
    } else if csv {
        if lab.catalogue.is_empty() {
            writeln!(out, "{}", ContactPlan::CSV_HEADER)?;
            for row in plan.rows(lab) {
                writeln!(out, "{}", row.csv())?;
            }
        } else {
            let (head, more) = (ContactPlan::CSV_HEADER, ContactPlan::CSV_CATALOGUED);
            writeln!(out, "{head}{more}")?;
            for row in plan.rows(lab) {
                writeln!(out, "{}{}", row.csv(), row.csv_catalogued())?;
            }
        }
    } else {
        let rows: Vec<Vec<String>> = plan
            .rows(lab)
            .map(|r| {
                vec![
                    format!("{}", r.from_s),
                    format!("{}", r.to_s),
                    r.kind.to_owned(),
                    format!("{}/{}", r.a_node, r.a_port),
                    format!("{}/{}", r.b_node, r.b_port),
                    format!(
                        "{:.1} .. {:.1} km",
                        r.range_min_m / 1e3,
                        r.range_max_m / 1e3
                    ),
                    format!(
                        "{} .. {}",
                        output::ms(r.delay_min_ns as f64),
                        output::ms(r.delay_max_ns as f64)
                    ),
                ]
            })
            .collect();
        let head = ["FROM s", "TO s", "KIND", "A", "B", "RANGE", "DELAY"];
        out.write_all(output::table(&head, &rows).as_bytes())?;
    }
    out.flush()?;
    Ok(Exit::Done)
}

fn pairs_of(
    lab: &Lab,
    interval: Interval,
    threads: usize,
    pairs: &str,
    csv: bool,
    json: bool,
) -> Outcome {
    let usage = |e: constel_analysis::SeriesError| Failure::Usage(e.to_string());
    let pairs = parse_pairs(lab, pairs).map_err(usage)?;
    let series = Series::new(lab, interval, pairs, csv || json, threads).map_err(usage)?;
    let name = |id| lab.layout.node(id).name.as_str();
    let mut out = BufWriter::new(io::stdout().lock());
    let of_pair = |p: usize| series.points.iter().skip(p).step_by(series.pairs.len());
    if csv {
        writeln!(out, "t_s,a_node,b_node,delay_ns,hops,changed")?;
        for (sample, row) in series.points.chunks(series.pairs.len().max(1)).enumerate() {
            let t_s = seconds(interval.at(sample as u64));
            for (point, &(a, b)) in row.iter().zip(&series.pairs) {
                // Without a path there are no delay and no hops.
                match point.delay_ns {
                    Some(delay_ns) => write!(
                        out,
                        "{t_s},{},{},{delay_ns},{}",
                        name(a),
                        name(b),
                        point.hops
                    )?,
                    None => write!(out, "{t_s},{},{},,", name(a), name(b))?,
                }
                writeln!(out, ",{}", u8::from(point.changed))?;
            }
        }
    } else if json {
        writeln!(out, "{{\n  \"start\": \"{}\",", lab.scenario.start)?;
        writeln!(out, "  \"from_s\": {},", seconds(interval.from_ns()))?;
        writeln!(out, "  \"to_s\": {},", seconds(interval.to_ns()))?;
        writeln!(out, "  \"every_s\": {},", seconds(interval.every_ns()))?;
        writeln!(out, "  \"pairs\": [")?;
        for (p, &(a, b)) in series.pairs.iter().enumerate() {
            write!(out, "{}    ", if p > 0 { ",\n" } else { "" })?;
            let mut pair = json!({
                "a_node": name(a), "b_node": name(b), "summary": series.summaries[p],
                "delay_ns": of_pair(p).map(|x| x.delay_ns).collect::<Vec<_>>(),
                "hops": of_pair(p).map(|x| x.delay_ns.map(|_| x.hops)).collect::<Vec<_>>(),
                "changed": of_pair(p).map(|x| x.changed).collect::<Vec<_>>(),
            });
            for (end, node) in [("a", a), ("b", b)] {
                if let Some(entry) = lab.catalogue.of(node) {
                    pair[format!("{end}_catalogue_name").as_str()] = json!(entry.catalogue_name);
                    pair[format!("{end}_norad_id").as_str()] = json!(entry.norad_id);
                }
            }
            serde_json::to_writer(&mut out, &pair)?;
        }
        writeln!(out, "\n  ]\n}}")?;
    } else {
        let rows: Vec<Vec<String>> = series
            .pairs
            .iter()
            .zip(&series.summaries)
            .map(|(&(a, b), s)| {
                let ms = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), output::ms);
                let some = |v: Option<u16>| v.map_or_else(|| "-".to_owned(), |v| v.to_string());
                vec![
                    name(a).to_owned(),
                    name(b).to_owned(),
                    format!(
                        "{:.2} %",
                        s.with_path as f64 / s.samples.max(1) as f64 * 100.0
                    ),
                    ms(s.delay_min_ns.map(|v| v as f64)),
                    ms(s.delay_mean_ns),
                    ms(s.delay_max_ns.map(|v| v as f64)),
                    format!("{} .. {}", some(s.hops_min), some(s.hops_max)),
                    s.changes.to_string(),
                ]
            })
            .collect();
        let head = [
            "A",
            "B",
            "WITH PATH",
            "MIN",
            "MEAN",
            "MAX",
            "HOPS",
            "CHANGES",
        ];
        out.write_all(output::table(&head, &rows).as_bytes())?;
    }
    out.flush()?;
    Ok(Exit::Done)
}

/// Formats coverage, with all stations and flows.
pub(crate) fn coverage_text(coverage: &Coverage) -> String {
    let length = coverage.to_s - coverage.from_s;
    let some = |v: Option<String>| v.unwrap_or_else(|| "-".to_owned());
    let stations: Vec<Vec<String>> = coverage
        .stations
        .iter()
        .map(|s| {
            vec![
                s.station.clone(),
                format!("{:.2} %", s.dark_s / length * 100.0),
                format!("{:.1} s", s.longest_dark_s),
                some(s.first_dark_s.map(|t| format!("{t:.1} s"))),
                s.handovers.to_string(),
                some(s.in_view_mean.map(|mean| {
                    format!(
                        "{} .. {mean:.1} .. {}",
                        s.in_view_min.unwrap_or(0),
                        s.in_view_max.unwrap_or(0)
                    )
                })),
            ]
        })
        .collect();
    let flows: Vec<Vec<String>> = coverage
        .flows
        .iter()
        .map(|f| {
            vec![
                f.flow.clone(),
                f.from.clone(),
                f.to.clone(),
                format!("{:.1} s", f.requested_s),
                some(f.path_ratio.map(|r| format!("{:.2} %", r * 100.0))),
                some(f.first_without_s.map(|t| format!("{t:.1} s"))),
            ]
        })
        .collect();
    format!(
        "{} samples, one every {} s, from {} s to {} s\n{}\n{}",
        coverage.samples,
        coverage.every_s,
        coverage.from_s,
        coverage.to_s,
        output::table(
            &[
                "STATION",
                "DARK",
                "LONGEST",
                "FIRST AT",
                "HANDOVERS",
                "IN VIEW"
            ],
            &stations
        ),
        output::table(
            &["FLOW", "FROM", "TO", "TIME", "WITH PATH", "FIRST OUTAGE"],
            &flows
        ),
    )
}

/// Converts whole nanoseconds to seconds.
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
