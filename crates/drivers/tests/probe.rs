//! The probe agrees with the other tests: where they run, everything works.

use constel_drivers::{DriverKind, choose, probe};

#[test]
fn this_host_can() {
    let report = probe(DriverKind::Relay);
    assert!(report.works, "{report:#?}");
    let failing: Vec<_> = report
        .features
        .iter()
        .filter(|f| !f.works)
        .map(|f| f.name)
        .collect();
    assert!(
        failing.iter().all(|name| name.contains("optional")),
        "{report:#?}"
    );
    assert!(report.features.iter().any(|f| f.name.contains("AF_XDP")));
    let text = serde_json::to_string(&report).unwrap();
    assert!(
        text.contains("\"driver\":\"relay\",\"works\":true"),
        "{text}"
    );
}

#[test]
fn auto_takes_the_reference_where_it_works_and_says_why() {
    let chosen = choose(None).unwrap();
    assert_eq!(chosen.kind, DriverKind::Relay);
    assert!(chosen.why.contains("auto"), "{}", chosen.why);
}

/// On every kernel, a chosen driver is one that moved a frame, and a refused one reports what is missing.
#[test]
fn a_driver_asked_for_by_name_works_or_says_what_is_missing() {
    for kind in DriverKind::ALL {
        let report = probe(kind);
        match choose(Some(kind)) {
            Ok(chosen) => assert!(report.works && chosen.why.contains("asks"), "{report:#?}"),
            Err(error) => {
                assert!(!report.works, "{report:#?}");
                let failing = report.features.iter().find(|f| !f.works).unwrap();
                assert!(error.to_string().contains(failing.name), "{error}");
                assert!(!failing.remedy.is_empty());
            }
        }
    }
}
