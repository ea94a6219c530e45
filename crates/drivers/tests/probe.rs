//! The probe agrees with the other tests: where they run, everything works.

#[test]
fn this_host_can() {
    let report = constel_drivers::probe();
    assert!(report.relay, "{report:#?}");
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
    assert!(
        serde_json::to_string(&report)
            .unwrap()
            .contains("\"relay\":true")
    );
}
