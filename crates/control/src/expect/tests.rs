use super::*;

fn event(seq: u64, t_ns: i64, what: &str) -> Event {
    let text =
        format!("{{\"seq\":{seq},\"t_ns\":{t_ns},\"wall\":\"2026-11-21T00:00:00Z\",{what}}}");
    serde_json::from_str(&text).unwrap()
}

fn named(kind: &str, about: Option<&str>) -> EventNamed {
    EventNamed {
        kind: kind.to_owned(),
        about: about.map(str::to_owned),
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
    let judged = |then: &EventNamed, within| order(&storm, then, within, &events());
    assert!(judged(&named("repair", Some("a")), None).unwrap().0);
    assert!(judged(&named("repair", None), within(4)).unwrap().0);
    assert!(!judged(&named("repair", None), within(3)).unwrap().0);
    let missing = judged(&named("clock-started", None), None).unwrap_err();
    assert_eq!(missing, "there is no event `clock-started` after the first");
    let nobody = order(&named("failure", Some("b")), &storm, None, &events()).unwrap_err();
    assert_eq!(nobody, "there is no event `failure` about `b`");
}

#[test]
fn what_ended_is_found_by_the_node() {
    let judged = |pattern: &str| alive(&[&Glob::new(pattern)], &events());
    assert!(judged("a*").0);
    assert_eq!(
        judged("*"),
        (false, "something ended in `b` at 7500 ms".to_owned())
    );
}

#[test]
fn junit_says_each_end_and_escapes() {
    let case = |name: &str, end: CaseEnd| Case {
        name: name.to_owned(),
        requirement: (name == "a").then(|| "REQ-\"1\"".to_owned()),
        line: 7,
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
