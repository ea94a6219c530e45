//! Rules of a box: what is wrong with a file, all at once (`tests/rules/X.yaml` gives `X.stderr`, written again
//! with `CONSTEL_BLESS=1`), and what a good one means.

use constel_link::rules::{Action, Direction, Vlan};
use constel_link::{Discipline, Loss};
use constel_scenario::model::RuleFile;
use constel_scenario::{Diagnostics, DiskFiles, read_rules, rules_schema_json};
use serde_json::json;

fn read(name: &str, text: &str) -> Result<RuleFile, Diagnostics> {
    read_rules(name, text.as_bytes(), &DiskFiles::in_folder("tests/rules"))
}

fn good(text: &str) -> RuleFile {
    read("box.yaml", text).unwrap_or_else(|errors| panic!("{errors}"))
}

fn compare(file: &str, seen: &str) {
    if std::env::var_os("CONSTEL_BLESS").is_some() {
        std::fs::write(file, seen).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(file).unwrap_or_default(),
        seen,
        "{file}"
    );
}

#[test]
fn every_error_reads_as_agreed() {
    for case in [
        "values", "form", "narrowed", "together", "family", "empty", "via", "weather",
    ] {
        let text = std::fs::read_to_string(format!("tests/rules/{case}.yaml")).unwrap();
        let errors = read(&format!("{case}.yaml"), &text).unwrap_err();
        compare(&format!("tests/rules/{case}.stderr"), &errors.to_string());
    }
}

#[test]
fn the_shipped_schema_is_that_of_the_code() {
    compare("../../docs/reference/box.schema.json", &rules_schema_json());
}

#[test]
fn a_rule_means_what_it_says() {
    let file = good(
        "rules:\n\
         - match: {src: 10.0.0.0/8, dport: [443, 8000-8010], vlan: [untagged, 7]}\n  \
           forward: {preset: geo, rate: 10 Mbit/s, queue: 100 kB, loss: 1 %, aqm: {drd: {min_frames: 5, max_frames: 50}}}\n  \
           reverse: drop\n\
         - {name: rest, both: pass}\n",
    );
    let rule = file.rules.get(0).unwrap();
    assert_eq!(rule.name, "rule-1");
    assert_eq!(rule.matching.dport, [443..=443, 8000..=8010]);
    assert_eq!(rule.matching.vlan, [Vlan::Untagged, Vlan::Id(7)]);
    let Some(Action::Path(path)) = &rule.forward else {
        panic!("a path: {rule:?}")
    };
    let impairment = path.impairment;
    assert_eq!(impairment.delay.delay_ns, 250_000_000);
    assert_eq!(
        impairment.rate_bps.map(std::num::NonZero::get),
        Some(10_000_000)
    );
    assert_eq!(impairment.queue.bytes, 100_000);
    assert_eq!(impairment.loss, Loss::Bernoulli { loss_ratio: 0.01 });
    let drd = Discipline::Drd {
        min_frames: 5,
        max_frames: 50,
        ecn: false,
    };
    assert_eq!(path.effects.discipline, Some(drd));
    assert_eq!(rule.reverse, Some(Action::Drop));
    assert_eq!(
        file.rules.get(1).unwrap().action(Direction::Reverse),
        Some(&Action::Pass)
    );
    assert!(file.warnings.is_empty());
    assert!(good("rules: []\n").rules.is_empty());
}

#[test]
fn what_is_written_back_is_read_as_the_same() {
    let file = good(
        "seed: 7\n\
         rules:\n\
         - {match: {dst: [10.0.0.1, \"::1\"], dscp: ef}, both: {delay: 5 ms, jitter: {normal: 1 ms, half_life: 10 ms}}}\n\
         - {forward: drop, reverse: {duplicate: 2 %}}\n",
    );
    let again = good(&json!({"seed": 7, "rules": file.written}).to_string());
    assert_eq!(
        (again.seed, &again.rules, &again.written),
        (file.seed, &file.rules, &file.written)
    );
}

#[test]
fn rules_never_reached_are_warned_of_by_name() {
    let file = good(
        "rules:\n\
         - {name: wide, match: {src: 10.0.0.0/8}, forward: pass}\n\
         - {name: narrow, match: {src: 10.1.0.0/16, dport: 80}, both: drop}\n\
         - {name: all, both: pass}\n\
         - {name: last, match: {vlan: 3}, both: drop}\n",
    );
    let warnings: Vec<String> = file.warnings.iter().map(|w| w.as_warning()).collect();
    assert_eq!(warnings.len(), 2);
    assert!(
        warnings[0].starts_with("box.yaml:3:3: warning: rule `narrow` is never reached forward\n"),
        "{}",
        warnings[0]
    );
    assert!(
        warnings[0].contains("rule `wide`, at line 2, takes all frames"),
        "{}",
        warnings[0]
    );
    assert!(
        warnings[1].contains("rule `last` is never reached\n")
            && warnings[1].contains("`all`, at line 4"),
        "{}",
        warnings[1]
    );
}

#[test]
fn as_many_rules_as_a_box_has_are_read_and_no_more() {
    let rules = |count: usize| {
        let rule = |n: usize| {
            format!(
                "- {{match: {{src: 10.{}.{}.1}}, both: pass}}\n",
                n / 256,
                n % 256
            )
        };
        "rules:\n".to_owned() + &(0..count).map(rule).collect::<String>()
    };
    let begin_s = crate::processor_s();
    assert_eq!(good(&rules(4096)).rules.len(), 4096);
    let took_s = crate::processor_s() - begin_s;
    assert!(took_s < 20.0, "{took_s} s");
    let errors = read("box.yaml", &rules(4097)).unwrap_err().to_string();
    assert!(
        errors.contains("has 4097 entries; at most 4096 are allowed"),
        "{errors}"
    );
}

#[test]
fn a_path_through_the_sky_is_the_same_for_both_ways() {
    let file = good(
        "rules:\n\
         - both:\n    \
             via:\n      \
               constellation: geo\n      \
               orbital_slot: -27.5 deg\n      \
               from: {latitude: 51.5 deg, longitude: -0.1 deg}\n      \
               to: {latitude: 40.7 deg, longitude: -74 deg}\n      \
               at: 2026-11-21T00:00:00Z\n    \
             loss: 1 %\n",
    );
    let rule = file.rules.get(0).unwrap();
    let via = Direction::BOTH.map(|way| rule.action(way).unwrap().via().unwrap().clone());
    assert_eq!(via[0], via[1]);
    assert_eq!(
        (via[0].sky.as_str(), via[0].orbital_slot_deg),
        ("geo", Some(-27.5))
    );
    assert_eq!(via[0].at_unix_ns, Some(1_795_219_200_000_000_000));
    assert_eq!(via[0].min_elevation_deg, 5.0, "as geo has it");
    let again = good(&json!({ "rules": file.written }).to_string());
    assert_eq!((&again.rules, &again.written), (&file.rules, &file.written));
}
