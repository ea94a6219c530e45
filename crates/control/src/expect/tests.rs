use std::path::Path;

use constel_api::summary::{ClientEnd, FlowRow, Summary};
use constel_scenario::model::EventKind;
use constel_scenario::{DiskFiles, read_scenario};

use super::*;

fn event(seq: u64, t_ns: i64, what: &str) -> Event {
    let text =
        format!("{{\"seq\":{seq},\"t_ns\":{t_ns},\"wall\":\"2026-11-21T00:00:00Z\",{what}}}");
    serde_json::from_str(&text).unwrap()
}

fn named(kind: &str, about: Option<&str>) -> EventNamed {
    let about = about.map_or(String::new(), |about| format!(", about: {about}"));
    let text = format!(
        "- {{name: a, order: {{first: {{kind: {kind}{about}}}, then: {{kind: finished}}}}}}"
    );
    match scenario(&text).expect.remove(0).what {
        Expected::Order(first, ..) => first,
        other => panic!("{other:?}"),
    }
}

fn events() -> Vec<Event> {
    vec![
        event(1, 0, "\"kind\":\"clock-started\""),
        event(
            2,
            5_000_000_000,
            "\"kind\":\"failure\",\"cause\":\"storm\",\"objects\":[\"a\",\"b - c\"]",
        ),
        event(
            3,
            7_500_000_000,
            "\"kind\":\"daemon-died\",\"node\":\"b\",\"program\":\"babeld\",\"how\":\"exit 1\",\"again_in_s\":null",
        ),
        event(
            4,
            9_000_000_000,
            "\"kind\":\"repair\",\"cause\":\"storm\",\"objects\":[\"a\"]",
        ),
    ]
}

#[test]
fn events_come_in_an_order_and_in_time() {
    let within = |s: i64| Some(TimeSpan::from_ns(s * 1_000_000_000));
    let storm = named("failure", Some("storm"));
    let judged =
        |then: &EventNamed, within| order(&storm, then, within, Window::default(), &events());
    assert!(judged(&named("repair", Some("a")), None).unwrap().0);
    assert!(judged(&named("repair", None), within(4)).unwrap().0);
    assert!(!judged(&named("repair", None), within(3)).unwrap().0);
    let missing = judged(&named("clock-started", None), None).unwrap_err();
    assert_eq!(missing, "there is no event `clock-started` after the first");
    let nobody = named("failure", Some("b"));
    let nobody = order(&nobody, &storm, None, Window::default(), &events()).unwrap_err();
    assert_eq!(nobody, "there is no event `failure` about `b`");
    let window = |from: &str| Window {
        from: Some(from.parse().unwrap()),
        until: None,
    };
    let late = |from| {
        order(
            &named("failure", None),
            &named("repair", None),
            None,
            window(from),
            &events(),
        )
    };
    assert!(late("5 s").unwrap().0);
    assert!(late("6 s").unwrap_err().ends_with("from 6 s"));
}

#[test]
fn junit_says_each_end_and_escapes() {
    let case = |name: &str, end: CaseEnd| Case {
        name: name.to_owned(),
        requirement: (name == "a").then(|| "REQ-\"1\"".to_owned()),
        line: Some(7),
        end,
    };
    let xml = junit(&[Suite {
        name: "x-seed-1".to_owned(),
        file: "x.yaml".to_owned(),
        took_s: 12.5,
        results: "results/x".to_owned(),
        cases: vec![
            case("a", CaseEnd::Passed("1 < 2 & \u{1b}".to_owned())),
            case("b", CaseEnd::Failed("no".to_owned())),
            case("c", CaseEnd::Unknown("late frames".to_owned())),
            case("d", CaseEnd::Error("host".to_owned())),
        ],
    }]);
    for part in [
        "<testsuite name=\"x-seed-1\" tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\" time=\"12.500\">",
        "<property name=\"requirement:a\" value=\"REQ-&quot;1&quot;\"/>",
        "<system-out>1 &lt; 2 &amp; \u{fffd}</system-out>",
        "<failure message=\"no\" type=\"expectation\">x.yaml:7: no\nresults: results/x</failure>",
        "<skipped message=\"late frames\">",
        "<error message=\"host\" type=\"expectation\">",
    ] {
        assert!(xml.contains(part), "{part} is not in\n{xml}");
    }
}

/// A scenario of two nodes, whose programs run from 1 s to 5 s, with these statements.
fn scenario(expect: &str) -> Scenario {
    let text = format!(
        "constel: 1\nname: tiny\nstart: 2026-11-21T00:00:00Z\nduration: 8 s\n\
         ground: {{hosts: {{node: {{count: 2, latitude: 0 deg, longitude: 0 deg}}}}}}\n\
         networks: {{lan: {{members: [node-*], medium: switched}}}}\nrouting: {{mode: computed}}\ntraffic:\n\
         - {{name: echo, at: 0 s, for: 2 s, ping: {{from: node-0, to: node-1, interval: 100 ms}}}}\n\
         - {{name: bulk, at: 0 s, for: 4 s, iperf3: {{from: node-0, to: node-1, protocol: udp, rate: 1 Mbit/s}}}}\n\
         - {{name: fsw-0, at: 1 s, for: 4 s, run: {{node: node-0, command: [x]}}}}\n\
         - {{name: fsw-1, at: 1 s, for: 4 s, run: {{node: node-1, command: [x]}}}}\nexpect:\n{expect}\n"
    );
    let read = read_scenario("tiny.yaml", text.as_bytes(), &DiskFiles::in_folder("."));
    read.unwrap_or_else(|errors| panic!("{errors}"))
}

/// Lays out the scenario with these expectations.
fn lab(expect: &str) -> Lab {
    Lab::new(scenario(expect)).unwrap_or_else(|errors| panic!("{errors}"))
}

/// A run that is to be trusted, with its ping alone.
fn run(dir: &Path) -> Evidence {
    let summary: Summary = serde_json::from_str(include_str!("run.json")).unwrap();
    std::fs::create_dir_all(dir.join("flows")).unwrap();
    let started = |seq: u64, flow: &str| {
        let what = format!("\"kind\":\"flow-started\",\"flow\":\"{flow}\"");
        event(seq, 1_000_000_000, &what)
    };
    let events = vec![
        event(1, 0, "\"kind\":\"clock-started\""),
        started(2, "fsw-0"),
        started(3, "fsw-1"),
    ];
    Evidence {
        summary,
        events,
        dir: dir.to_owned(),
    }
}

/// The run of a program that ended in this way.
fn program(name: &str, node: &str, end: ClientEnd, status: FlowStatus) -> FlowRow {
    let row = serde_json::json!({
        "name": name, "kind": "run", "from": node, "at_ns": 1_000_000_000, "status": status, "handovers": 0, "paths": [],
        "reason": (status == FlowStatus::Failed).then_some("exit code 7: out of memory"), "end": end,
    });
    serde_json::from_value(row).unwrap()
}

fn early(exit: i32) -> ClientEnd {
    ClientEnd::ByItself {
        t_ns: 2_000_000_000,
        exit,
        early: true,
    }
}

/// The results of statements: `true`, `false`, or a doubt.
fn judged(expect: &str, evidence: &Evidence) -> Vec<Result<bool, String>> {
    let judgements = judge(&lab(expect), evidence).into_iter();
    let end = |j: Judgement| j.doubt.map_or(Ok(j.holds), Err);
    judgements.map(end).collect()
}

/// The software of one node ends early: what it does is judged, and so is a ping beside it.
#[test]
fn software_that_fails_is_a_failure_and_nothing_else_is_in_doubt() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = run(dir.path());
    let crashed = program("fsw-0", "node-0", early(7), FlowStatus::Failed);
    run.summary.software.fail(crashed.failure().unwrap());
    run.summary.flows.push(crashed);
    let ended = "\"kind\":\"flow-ended\",\"flow\":\"fsw-0\",\"exit\":7";
    run.events.push(event(4, 2_000_000_000, ended));
    let expect = "- {name: a, succeeds: fsw-0}\n- {name: b, delivery: {flow: echo, at_least: 99 %}}\n\
                  - {name: c, alive: [node-0]}\n- {name: d, alive: [node-1]}\n\
                  - {name: e, alive: {nodes: [node-0], from: 3 s}}\n\
                  - {name: f, ended_early: {flow: fsw-0, code: 7, from: 1 s, until: 3 s}}\n\
                  - {name: g, ended_early: {flow: fsw-0, signal: 11}}\n- {name: h, still_running: [fsw-0]}";
    // Nothing ran in the first node from 3 s on, so that nothing is known of it then.
    let expected = [false, true, false, true, false, true, false, false];
    assert_eq!(judged(expect, &run), expected.map(Ok));
    // A statement about the flow or its node covers it; otherwise it is one failure more.
    assert!(unstated(&scenario(expect), &run).is_empty());
    let others = scenario("- {name: d, alive: [node-1]}");
    let left = unstated(&others, &run);
    assert_eq!(left.len(), 1);
    assert_eq!(
        left[0].reason,
        "flow fsw-0 failed: exit code 7: out of memory"
    );
}

#[test]
fn a_program_that_leaves_before_its_time_is_not_alive_whatever_it_ends_with() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = run(dir.path());
    let left = program("fsw-0", "node-0", early(0), FlowStatus::Ok);
    let stayed = program("fsw-1", "node-1", ClientEnd::AtItsTime, FlowStatus::Ok);
    run.summary.flows.extend([left, stayed]);
    let ended = "\"kind\":\"flow-ended\",\"flow\":\"fsw-0\",\"exit\":0";
    run.events.push(event(4, 2_000_000_000, ended));
    let expect = "- {name: a, succeeds: fsw-0}\n- {name: b, alive: [\"*\"]}\n- {name: c, alive: [node-1]}\n\
                  - {name: d, still_running: [fsw-1]}\n- {name: e, still_running: [fsw-*]}\n\
                  - {name: f, ended_early: {flow: fsw-0}}\n- {name: g, ended_early: {flow: fsw-1}}";
    let expected = [true, false, true, true, false, true, false];
    assert_eq!(judged(expect, &run), expected.map(Ok));
    // As soon as it has ended, and not only afterwards.
    let lost = lost(&scenario(expect), &run.events, Some(2_500_000_000));
    assert_eq!(lost.len(), 1);
    assert!(
        lost[0]
            .1
            .starts_with("`fsw-0` ended in `node-0` at 2.000 s"),
        "{lost:?}"
    );
}

/// Late frames concern times alone, and of the flows that met them.
#[test]
fn a_statement_is_judged_by_what_it_needs() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = run(dir.path());
    let rows =
        "seq,sent_s,there_us,back_us,rtt_us,fate\n1,0.500000000,1000.000,1000.000,2000.000,ok\n";
    std::fs::write(dir.path().join("flows/echo.out"), rows).unwrap();
    let expect = "- {name: a, order: {first: {kind: clock-started}, then: {kind: repair}}}\n\
                  - {name: b, delivery: {flow: echo, at_least: 99 %}}\n\
                  - {name: c, round_trip: {flow: echo, quantile: 100 %, at_most: 2 ms, at_least: 2 ms}}\n\
                  - {name: d, round_trip: {flow: echo, quantile: 100 %, at_most: 1999 us, until: 1 s}}";
    assert_eq!(
        judged(expect, &run),
        [Ok(false), Ok(true), Ok(true), Ok(false)]
    );
    // Frames of others were late: this flow's figures stand.
    run.summary.fidelity.lateness_p99_ns = 2_000_000;
    assert_eq!(
        judged(expect, &run),
        [Ok(false), Ok(true), Ok(true), Ok(false)]
    );
    // The flow has losses of its own, but none in the period of the statement.
    let echo = &mut run.summary.flows[0];
    (echo.trustworthy, echo.doubt) = (Some(false), Some("late".to_owned()));
    let samples = "t_s,marked\n0.500000000,0\n1.500000000,1\n";
    std::fs::write(dir.path().join("flows/echo.csv"), samples).unwrap();
    let found = judged(expect, &run);
    assert_eq!(found[..2], [Ok(false), Ok(true)]);
    assert_eq!(found[2], Err("flow echo is affected: late".to_owned()));
    assert_eq!(found[3], Ok(false));
    std::fs::write(dir.path().join("flows/echo.csv"), "t_s,marked\n0.5,1\n").unwrap();
    let words = "1 of 1 samples of flow echo until 1 s met late frames";
    assert_eq!(judged(expect, &run)[3], Err(words.to_owned()));
    // A statement about a time that has all samples agrees with the flow's own verdict.
    let echo = &mut run.summary.flows[0];
    (echo.samples, echo.trustworthy, echo.doubt) = (1, Some(true), None);
    assert_eq!(judged(expect, &run)[3], Ok(false));
    // Without data about the flow, the run's lateness decides.
    run.summary.flows[0].trustworthy = None;
    assert!(
        judged(expect, &run)[2]
            .as_ref()
            .unwrap_err()
            .starts_with("frames left late")
    );
    // Lost frames concern what arrives, and records that are not complete everything.
    run.summary.fidelity.emulator_drops = vec![("ring".to_owned(), 3)];
    assert_eq!(judged(expect, &run)[0], Ok(false));
    assert!(judged(expect, &run)[1].is_err());
    run.summary
        .fidelity
        .failures
        .push("events.ndjson is not complete".to_owned());
    assert!(judged(expect, &run)[0].is_err());
}

#[test]
fn statements_about_a_part_of_the_time_take_that_part_and_bounds_need_not_be_whole() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = run(dir.path());
    for name in ["fsw-0", "fsw-1"] {
        let node = name.replace("fsw", "node");
        let row = program(name, &node, ClientEnd::AtItsTime, FlowStatus::Ok);
        run.summary.flows.push(row);
    }
    let mut bulk = program("bulk", "node-0", ClientEnd::AtItsTime, FlowStatus::Ok);
    (bulk.kind, bulk.at_ns) = ("iperf3-udp".to_owned(), 0);
    bulk.outcome.throughput_bps = Some(1e6);
    run.summary.flows.push(bulk);
    let put =
        |name: &str, text: &str| std::fs::write(dir.path().join("flows").join(name), text).unwrap();
    // The clock started at 2026-11-21T00:00:00Z.
    put(
        "fsw-0.out",
        "t_s,unix_s,cycle,plan,lat_ms\n1.5,1795219201.5,1,a,0.25\n3.5,1795219203.5,2,b,0.75\n",
    );
    put("fsw-1.out", "t_s,cycle,plan\n1.5,1,a\n3.5,2,x\n");
    put(
        "bulk.out",
        r#"{"intervals":[{"streams":[{}],"sum":{"start":0,"end":2,"bits_per_second":2e6}},
            {"streams":[{}],"sum":{"start":2,"end":4,"bits_per_second":0}}]}"#,
    );
    let metric =
        |rest: &str| format!("metric: {{flow: fsw-0, column: lat_ms, quantile: 100 %, {rest}}}");
    let agreement =
        |rest: &str| format!("agreement: {{flows: [fsw-*], key: cycle, value: plan, {rest}}}");
    let all = [
        (metric("at_most: 0.75"), true),
        (metric("at_most: 0.5"), false),
        (
            metric("at_most: 0.5, until: 2 s, time: {column: t_s}"),
            true,
        ),
        (
            metric("at_most: 0.5, from: 2 s, time: {column: t_s}"),
            false,
        ),
        (
            metric("at_most: 0.5, until: 2 s, time: {column: unix_s, clock: unix}"),
            true,
        ),
        (metric("at_least: 0, from: 4 s, time: {column: t_s}"), false),
        (agreement("at_least: 100 %"), false),
        (agreement("at_most: 50 %"), true),
        (
            agreement("at_least: 100 %, until: 2 s, time: {column: t_s}"),
            true,
        ),
        (
            "throughput: {flow: bulk, at_least: 1 Mbit/s}".to_owned(),
            true,
        ),
        (
            "throughput: {flow: bulk, at_most: 999 kbit/s}".to_owned(),
            false,
        ),
        (
            "throughput: {flow: bulk, at_least: 2 Mbit/s, until: 2 s}".to_owned(),
            true,
        ),
        (
            "throughput: {flow: bulk, at_most: 1 bit/s, from: 2 s}".to_owned(),
            true,
        ),
        (
            "throughput: {flow: bulk, at_least: 1 Mbit/s, from: 1 s, until: 3 s}".to_owned(),
            true,
        ),
        (
            "throughput: {flow: bulk, at_least: 1 bit/s, from: 3 s}".to_owned(),
            false,
        ),
    ];
    for (statement, holds) in all {
        let found = judge(&lab(&format!("- {{name: a, {statement}}}")), &run);
        assert_eq!(found[0].holds, holds, "{statement}: {found:?}");
    }
}

/// Software of every kind: what did not run, or had ended for good before the window, leaves `alive` without a measurement.
#[test]
fn alive_needs_a_program_that_ran() {
    let dir = tempfile::tempdir().unwrap();
    let judged = |lab: &Lab, events: Vec<Event>| {
        let mut run = run(dir.path());
        run.events = events;
        let found = judge(lab, &run).remove(0);
        (found.holds, found.seen)
    };
    let clock = event(1, 0, "\"kind\":\"clock-started\"");
    let began = |flow: &str| {
        let what = format!("\"kind\":\"flow-started\",\"flow\":\"{flow}\"");
        event(2, 1_000_000_000, &what)
    };
    // A run that ended before its programs began, and one in which only the other node's did.
    let one = lab("- {name: a, alive: [node-0]}");
    let (holds, seen) = judged(&one, vec![clock.clone()]);
    assert!(!holds && seen == "no program ran in `node-0`", "{seen}");
    assert!(!judged(&one, vec![clock.clone(), began("fsw-1")]).0);
    assert!(judged(&one, vec![clock.clone(), began("fsw-0")]).0);
    // Each name needs one of its own; a pattern needs one in any of its nodes.
    let both = lab("- {name: a, alive: [node-0, node-1]}");
    assert!(!judged(&both, vec![clock.clone(), began("fsw-1")]).0);
    let any = lab("- {name: a, alive: ['*']}");
    let (holds, seen) = judged(&any, vec![clock.clone(), began("fsw-1")]);
    assert!(holds, "{seen}");
    assert_eq!(seen, "the program that ran did not end before its time");

    // Daemons: planned in every node, and known by the event that they were started.
    let text = "constel: 1\nname: d\nstart: 2026-11-21T00:00:00Z\nduration: 8 s\n\
        ground: {hosts: {a: {latitude: 0 deg, longitude: 0 deg}, b: {latitude: 0 deg, longitude: 0 deg}}, \
        cables: [{from: a, to: b, delay: 1 ms, link: {rate: 1 Mbit/s}}]}\n\
        routing: {daemon: bird}\nexpect: [{name: a, alive: {nodes: [a], from: 3 s}}]\n";
    let read = read_scenario("d.yaml", text.as_bytes(), &DiskFiles::in_folder("."));
    let daemons = Lab::new(read.unwrap_or_else(|errors| panic!("{errors}"))).unwrap();
    let up = event(1, 0, "\"kind\":\"daemons-started\",\"count\":2");
    assert!(!judged(&daemons, vec![clock.clone()]).0);
    assert!(judged(&daemons, vec![clock.clone(), up.clone()]).0);
    let died = |t_ns, again: &str| {
        let what = format!(
            "\"kind\":\"daemon-died\",\"node\":\"a\",\"program\":\"bird\",\"how\":\"exit 1\",\"again_in_s\":{again}"
        );
        event(3, t_ns, &what)
    };
    let with = |event: Event| vec![clock.clone(), up.clone(), event];
    // Dead for good before the window, started again before it, and dead within it.
    assert!(!judged(&daemons, with(died(1_000_000_000, "null"))).0);
    assert!(judged(&daemons, with(died(1_000_000_000, "1.0"))).0);
    let (holds, seen) = judged(&daemons, with(died(4_000_000_000, "1.0")));
    assert!(!holds && seen.starts_with("`bird` ended in `a`"), "{seen}");
    // Nothing can be lost of what has not run yet.
    assert!(lost(&one.scenario, std::slice::from_ref(&clock), Some(0)).is_empty());
}

/// The words of `order` are the kinds of events that runs of labs write.
#[test]
fn order_knows_every_kind_of_event() {
    // Of boxes, which have no expectations, and for followers alone.
    const OTHERS: [&str; 4] = ["rules-changed", "confirmed", "unconfirmed", "older"];
    let schema: Value = serde_json::from_str(&constel_api::schema_json()).unwrap();
    let kinds = schema["$defs"]["Event"]["oneOf"].as_array().unwrap().iter();
    let kind = |one: &Value| {
        one["properties"]["kind"]["const"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let mut kinds: Vec<String> = kinds.map(kind).collect();
    kinds.retain(|kind| !OTHERS.contains(&kind.as_str()));
    kinds.sort();
    let mut known: Vec<&str> = EventKind::ALL.iter().map(|kind| kind.as_str()).collect();
    known.sort_unstable();
    assert_eq!(known, kinds);
}
