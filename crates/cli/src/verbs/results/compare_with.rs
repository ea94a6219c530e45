//! `constel results compare-with`.

use constel_control::results::compare_with;
use constel_measure::compare::{Distance, Losses, Profile, SlotTimes, Spread};

use crate::args::CompareWith;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Prints the distances. The exit code does not depend on them, because a distance is not a failure.
pub(super) fn run(args: &CompareWith) -> Outcome {
    let (period_s, phase_s) = (args.slot.seconds(), args.phase.seconds());
    if period_s <= 0.0 || !(0.0..period_s).contains(&phase_s) {
        return Err(Failure::Usage(
            "`--slot` is above 0 s, and `--phase` is from 0 s to below `--slot`".to_owned(),
        ));
    }
    let slots = SlotTimes { period_s, phase_s };
    let distance = compare_with(&args.run, args.flow.as_deref(), &args.measured, Some(slots))?;
    if distance.is_empty() {
        return Err(Failure::Usage(
            "the two have no kind of sample in common: round-trip times, one-way delays or throughput".to_owned(),
        ));
    }
    if args.json {
        output::json(&distance)?;
    } else {
        output::text(&text(&distance))?;
    }
    Ok(Exit::Done)
}

fn text(distance: &Distance) -> String {
    let spreads = [
        ("RTT, ms", &distance.rtt_ms),
        ("one way up, ms", &distance.up_ms),
        ("one way down, ms", &distance.down_ms),
        ("down, Mbit/s", &distance.down_mbps),
        ("up, Mbit/s", &distance.up_mbps),
        ("slot medians, ms", &distance.slot_medians_ms),
    ];
    let spreads: Vec<(&str, &Spread)> = spreads
        .into_iter()
        .filter_map(|(name, spread)| Some((name, spread.as_ref()?)))
        .collect();
    let mut rows = Vec::new();
    for (name, spread) in &spreads {
        for pair in &spread.quantiles {
            rows.push(vec![
                (*name).to_owned(),
                format!("P{:.0}", pair.at * 100.0),
                format!("{:.2}", pair.run),
                format!("{:.2}", pair.measured),
                format!("{:+.1} %", 100.0 * pair.share()),
            ]);
        }
    }
    let mut text = output::table(
        &["FIGURE", "QUANTILE", "RUN", "MEASURED", "DIFFERENCE"],
        &rows,
    );
    text.push('\n');
    let rows: Vec<Vec<String>> = spreads
        .iter()
        .map(|(name, spread)| {
            vec![
                (*name).to_owned(),
                spread.run_count.to_string(),
                spread.measured_count.to_string(),
                format!("{:.3}", spread.w1),
                format!("{:.3}", spread.ks),
            ]
        })
        .collect();
    text.push_str(&output::table(
        &["FIGURE", "RUN", "MEASURED", "W1", "KS"],
        &rows,
    ));
    let profiles = [
        ("run", &distance.run_profile),
        ("measured", &distance.measured_profile),
    ];
    let rows: Vec<Vec<String>> = profiles
        .iter()
        .flat_map(|(side, rows)| rows.iter().map(|row| profile(side, row)))
        .collect();
    if !rows.is_empty() {
        text.push('\n');
        text.push_str(&output::table(
            &["RTT IN A SLOT", "FROM", "TO", "P50", "P95"],
            &rows,
        ));
    }
    if !distance.autocorrelation.is_empty() {
        let rows: Vec<Vec<String>> = distance
            .autocorrelation
            .iter()
            .map(|pair| {
                let of = |value: f64| format!("{value:.3}");
                vec![format!("{:.0}", pair.at), of(pair.run), of(pair.measured)]
            })
            .collect();
        text.push('\n');
        text.push_str(&output::table(
            &["RTT AUTOCORRELATION, LAG", "RUN", "MEASURED"],
            &rows,
        ));
    }
    let sides = [
        ("run", distance.run_losses),
        ("measured", distance.measured_losses),
    ];
    let rows: Vec<Vec<String>> = sides
        .into_iter()
        .filter_map(|(side, losses)| Some(loss(side, losses?)))
        .collect();
    if !rows.is_empty() {
        let head = [
            "LOSS",
            "PROBES",
            "LOSS RATIO",
            "BURSTS/1000",
            "MEAN BURST",
            "SINGLE",
            "LONGEST",
        ];
        text.push('\n');
        text.push_str(&output::table(&head, &rows));
    }
    text
}

fn profile(side: &str, row: &Profile) -> Vec<String> {
    vec![
        side.to_owned(),
        format!("{} s", row.from_s),
        format!("{} s", row.to_s),
        format!("{:.2} ms", row.p50_ms),
        format!("{:.2} ms", row.p95_ms),
    ]
}

fn loss(side: &str, losses: Losses) -> Vec<String> {
    vec![
        side.to_owned(),
        losses.probes.to_string(),
        format!("{:.3} %", 100.0 * losses.ratio),
        format!("{:.2}", losses.bursts_per_1000),
        format!("{:.2}", losses.mean_burst),
        format!("{:.0} %", 100.0 * losses.single_ratio),
        losses.longest.to_string(),
    ]
}
