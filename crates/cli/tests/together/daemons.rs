//! Routing daemons of two machines make one network.

use serde_json::Value;

use crate::together::local::{flow, ms, ospf};
use crate::together::support::host::Host;

/// Daemons of two machines make one network: lab time waits for it, and paths are found again after a handover and a failure.
#[test]
fn routes_of_daemons_stand_on_two_machines_and_stand_again() {
    let host = Host::take();
    let Some(told) = ospf(&[]) else { return };
    assert_eq!(told["lab_time_s"], 30.0, "{told:#}");
    for part in told["parts"].as_array().unwrap() {
        assert_eq!(part["failure"], Value::Null, "{part:#}");
    }
    // Paths of eight stations to each other, by both machines together.
    assert_eq!(told["convergence"]["pairs"], 8 * 7, "{told:#}");
    assert!(told["convergence"]["first_s"].as_f64().unwrap() > 0.0);
    let daemons = told["daemons"].as_array().unwrap();
    for when in ["routes-converged", "end"] {
        let rows = daemons.iter().filter(|row| row["when"] == when);
        let rows: Vec<&Value> = rows.collect();
        let count = rows.iter().map(|row| row["count"].as_u64().unwrap());
        assert_eq!(count.sum::<u64>(), 74, "{daemons:#?}");
        let machines: Vec<&Value> = rows.iter().map(|row| &row["machine"]).collect();
        assert_eq!(machines, ["m1", "m2"]);
    }
    let stood = &told["stood_ms"]["lagos 9 s"];
    let stood = stood.as_f64().unwrap_or_else(|| panic!("{told:#}"));
    assert!((1.0..60_000.0).contains(&stood), "{stood}");
    let changes = told["changes"].as_array().unwrap();
    let failed = changes.iter().find(|change| change["kind"] == "failure");
    let failed = failed.unwrap_or_else(|| panic!("{told:#}"));
    assert_eq!(
        (&failed["cause"], &failed["t_ns"]),
        (&"dark".into(), &16_000_000_000_u64.into())
    );
    let stood = failed["converged_after_ns"].as_u64();
    // Ways led over the satellite: its neighbours notice when it has been silent for some time.
    let stood_s = stood.unwrap_or_else(|| panic!("{told:#}")) as f64 / 1e9;
    assert!((0.2..60.0).contains(&stood_s), "{stood_s}");
    for name in ["lagos-lima", "sydney-new-york"] {
        let ping = flow(&told, name);
        assert!(ping["loss_ratio"].as_f64().unwrap() < 0.6, "{ping:#}");
        let (bound, rtt) = (ms(ping, "bound_rtt_ms", "min"), ms(ping, "rtt_ms", "min"));
        // Each way is by two clocks, of which what is known changes from question to question.
        assert!(bound > 10.0 && rtt >= bound - 1.0, "{ping:#}");
        // The path that it took was not sampled. A host that was late makes it affected, and no host makes it trustworthy.
        assert_eq!(ping["paths"], 0, "{ping:#}");
        assert_ne!(ping["trustworthy"], true, "{ping:#}");
    }
    host.assert_as_before("after a lab with daemons on two machines");
}
