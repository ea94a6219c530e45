//! Disjoint paths in real kernels: each has addresses of its own, routes along it and nowhere else, and round trips
//! of its own length; what happens to one does not touch the other.

use crate::support;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use constel_host::netlink::{InstalledRoute, ROUTE_PROTOCOL, Socket};
use serde_json::Value;
use support::lab::Lab;
use support::probe::{Pace, Sample, echo};
use support::route::Sky;
use support::{constel, json, scenario, until};

const FROM: &str = "hobart";
const TO: &str = "weddell";

/// The time that a busy machine may add to a round trip; the paths differ by more.
const SLACK_NS: i64 = 2_000_000;

fn made(dir: &Path) -> PathBuf {
    let text = std::fs::read_to_string(scenario::sky(dir, 120, "0 s")).unwrap();
    let mut made = text.replace(
        "routing: {mode: computed}",
        "routing: {mode: computed, drain: 300 ms, disjoint: {hw: {between: [hobart, weddell], paths: 2}}}",
    );
    for station in [FROM, TO] {
        made = made.replace(
            &format!("{station}: {{latitude"),
            &format!("{station}: {{antennas: 2, latitude"),
        );
    }
    scenario::write(dir, "disjoint.yaml", &made)
}

/// By path, the nodes that the kernels' routes of both families lead through; `None` where they do not arrive.
fn ways(lab: &Lab) -> BTreeMap<u64, Option<Vec<String>>> {
    // Fails where some path does not arrive; what it prints is the answer all the same.
    let out = constel(["path", &lab.name, FROM, &format!("{TO}.hw"), "--json"]);
    let answer: Value = serde_json::from_slice(&out.stdout).unwrap();
    let mut ways = BTreeMap::new();
    for row in answer["kernel"].as_array().unwrap() {
        let reached = row["hops"].as_array().unwrap().iter();
        let reached = reached.map(|hop| hop["to"].as_str().unwrap().to_owned());
        let nodes: Vec<String> = std::iter::once(FROM.to_owned()).chain(reached).collect();
        let way = (row["arrived"] == true).then_some(nodes);
        if way.is_none() {
            assert_eq!(row["end"], format!("{FROM} has no route"), "{row:#}");
        }
        let path = row["path"].as_u64().unwrap();
        // Both families lead the same way.
        assert_eq!(ways.entry(path).or_insert_with(|| way.clone()), &way);
    }
    ways
}

fn between(way: &[String]) -> BTreeSet<&String> {
    way[1..way.len() - 1].iter().collect()
}

/// The addresses of one end of a path, as `/etc/hosts` of the nodes has them.
fn addresses(lab: &Lab, name: &str) -> Vec<IpAddr> {
    let hosts = std::fs::read_to_string(lab.dir().join("hosts")).unwrap();
    let row = |line: &str| {
        let (address, known) = line.split_once(' ')?;
        (known == name).then(|| address.parse().unwrap())
    };
    hosts.lines().filter_map(row).collect()
}

fn v4(lab: &Lab, name: &str) -> Ipv4Addr {
    let all = addresses(lab, name);
    assert_eq!(all.len(), 2, "{name}");
    let v4 = all.into_iter().find_map(|a| match a {
        IpAddr::V4(v4) => Some(v4),
        IpAddr::V6(_) => None,
    });
    v4.unwrap()
}

/// Nodes in whose main table is a computed route to the address.
fn holders(lab: &Lab, to: IpAddr) -> BTreeSet<String> {
    let holds = |name: &String| {
        let routes = Socket::open_in(&lab.node(name)).unwrap().routes().unwrap();
        let ours = |r: &InstalledRoute| r.table == 254 && r.protocol == ROUTE_PROTOCOL;
        routes.iter().any(|r| ours(r) && r.dst.addr == to)
    };
    lab.nodes().into_iter().filter(holds).collect()
}

fn pings(lab: &Lab, path: u64, count: usize) -> Vec<Sample> {
    let pace = Pace {
        count,
        every: Duration::from_millis(20),
        patience: Duration::from_secs(1),
    };
    echo(&lab.node(FROM), v4(lab, &format!("{TO}.hw.{path}")), pace)
}

fn lost(samples: &[Sample]) -> usize {
    samples.iter().filter(|s| s.took_ns.is_none()).count()
}

/// Twice the plan's delay of a way at the lab's present moment.
fn round_trip_ns(lab: &Lab, file: &Path, way: &[String]) -> i64 {
    let t_ns = lab.client().t_ns();
    2 * Sky::at(file, t_ns.unwrap()).delay_ns(way).unwrap()
}

#[test]
fn each_path_has_its_own_addresses_routes_and_round_trips() {
    let dir = tempfile::tempdir().unwrap();
    let file = made(dir.path());
    let mut lab = Lab::up("disjoint", &file, dir.path(), &["--no-traffic"]);
    let name = lab.name.clone();
    lab.client().clock().unwrap().sleep_until(1.5);

    // The kernels' ways are those of the plan, and share no node but their ends.
    let plan = json(&constel([
        "plan".as_ref(),
        file.as_os_str(),
        "--at=1500ms".as_ref(),
        "--json".as_ref(),
    ]));
    let pair = &plan["disjoint"][0];
    assert_eq!(
        (&pair["name"], &pair["between"]),
        (&"hw".into(), &serde_json::json!([FROM, TO]))
    );
    let first = ways(&lab);
    let way = |path: u64| first[&path].clone().unwrap();
    assert_eq!(first.len(), 2);
    assert!(between(&way(1)).is_disjoint(&between(&way(2))), "{first:?}");
    for path in [1, 2] {
        let row = &pair["paths"][path as usize - 1];
        assert_eq!(row["nodes"], serde_json::json!(way(path)));
        for (at, end) in [FROM, TO].into_iter().enumerate() {
            let called = format!("{end}.hw.{path}");
            assert_eq!(row["names"][at], called.as_str());
            let own = addresses(&lab, &called);
            let planned: [IpAddr; 2] =
                ["ipv4", "ipv6"].map(|family| row[family][at].as_str().unwrap().parse().unwrap());
            assert_eq!(own, planned);
            // Routes to each end stand at the path's other nodes and nowhere else, in both families.
            for address in own {
                let expected: BTreeSet<String> =
                    way(path).into_iter().filter(|n| n != end).collect();
                assert_eq!(holders(&lab, address), expected, "{called}");
            }
        }
    }

    // By name, and as long as the path of that name is.
    let expected: BTreeMap<u64, i64> = [1, 2]
        .map(|path| (path, round_trip_ns(&lab, &file, &way(path))))
        .into();
    assert!(
        expected[&2] - expected[&1] > 2 * SLACK_NS,
        "made for paths that differ: {expected:?}"
    );
    for path in [1, 2] {
        for family in ["-4", "-6"] {
            let goal = format!("{TO}.hw.{path}");
            let out = constel([
                "exec", &name, FROM, "--", "ping", family, "-c", "1", "-W", "2", &goal,
            ]);
            assert!(
                out.status.success(),
                "{}",
                String::from_utf8_lossy(&out.stdout)
            );
        }
        let mut took: Vec<i64> = pings(&lab, path, 25)
            .iter()
            .filter_map(|s| s.took_ns)
            .collect();
        assert_eq!(took.len(), 25);
        took.sort_unstable();
        // The quickest: what else this machine does makes the others late.
        let off = took[0] - expected[&path];
        assert!(
            (-100_000..SLACK_NS).contains(&off),
            "path {path} is off by {off} ns"
        );
    }

    // A laser of path 2 fails: path 1 stays as it is and loses nothing, path 2 leads round it.
    let old = way(2);
    let (near, far) = (&old[2], &old[3]);
    let on_first = std::thread::scope(|scope| {
        let probing = scope.spawn(|| pings(&lab, 1, 100));
        std::thread::sleep(Duration::from_millis(500));
        json(&constel(["link", "fail", &name, near, far, "--json"]));
        probing.join().unwrap()
    });
    assert_eq!(lost(&on_first), 0, "path 1 lost probes");
    let second = until("path 2 leads round the laser", || {
        let ways = ways(&lab);
        assert_eq!(ways[&1].as_ref(), Some(&way(1)));
        let round = ways[&2].clone().filter(|way| *way != old)?;
        Some(round)
    });
    assert!(
        !second
            .windows(2)
            .any(|hop| hop == [near.clone(), far.clone()])
    );
    assert!(between(&way(1)).is_disjoint(&between(&second)));
    assert_eq!(lost(&pings(&lab, 2, 10)), 0);
    json(&constel(["link", "heal", &name, near, far, "--json"]));
    until("path 2 is the old one again", || {
        (ways(&lab) == first).then_some(())
    });

    // One antenna's link fails: there is one path, and the second leads nowhere rather than the first's way.
    json(&constel([
        "link",
        "fail",
        &name,
        FROM,
        &way(2)[1],
        "--json",
    ]));
    until("one path is left", || {
        ways(&lab)[&2].is_none().then_some(())
    });
    assert!(ways(&lab)[&1].is_some());
    let goal = format!("{TO}.hw.2");
    let out = constel([
        "exec", &name, FROM, "--", "ping", "-4", "-c", "1", "-W", "1", &goal,
    ]);
    assert!(
        !out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stdout)
    );
    json(&constel([
        "link",
        "heal",
        &name,
        FROM,
        &way(2)[1],
        "--json",
    ]));
    until("both paths are back", || {
        (ways(&lab) == first).then_some(())
    });
    // Remains of a step are swept by the next but one.
    let now_s = lab.client().t_ns().unwrap() as f64 / 1e9;
    lab.client()
        .clock()
        .unwrap()
        .sleep_until(now_s.ceil() + 2.5);
    let now = ways(&lab)[&2].clone().unwrap();
    let expected: BTreeSet<String> = now.into_iter().filter(|n| n != TO).collect();
    assert_eq!(holders(&lab, v4(&lab, &goal).into()), expected);

    lab.interrupt();
    let summary = lab.summary();
    let row = &summary["disjoint"][0];
    assert_eq!(row["name"], "hw");
    assert_eq!(
        (
            &row["steps_by_paths"][0],
            row["paths"].as_array().unwrap().len()
        ),
        (&0.into(), 2)
    );
    let steps = row["steps_by_paths"].as_array().unwrap().iter();
    let steps: u64 = steps.map(|n| n.as_u64().unwrap()).sum();
    // Lab time zero is one more; the step that was ready when the lab was taken down did not come.
    let prepared = summary["steps"]["count"].as_u64().unwrap();
    assert!((prepared..=prepared + 1).contains(&steps), "{row:#}");
    let events = std::fs::read_to_string(lab.results.join("events.ndjson")).unwrap();
    let told: Vec<u64> = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|event| event["kind"] == "disjoint-paths")
        .map(|event| event["found"].as_u64().unwrap())
        .collect();
    assert_eq!(told, [1, 2], "fewer, and all again");
}

/// Flows of a scenario choose a path as commands do: by the name of its end.
#[test]
fn flows_of_the_scenario_take_the_path_they_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = made(dir.path());
    let text = std::fs::read_to_string(&file).unwrap();
    let traffic = "traffic:
  - {name: one, at: 1 s, for: 2 s, ping: {from: hobart, to: weddell.hw.1, interval: 50 ms}}
  - {name: two, at: 1 s, for: 2 s, ping: {from: hobart, to: weddell.hw.2, interval: 50 ms, family: ipv6}}
  - {name: bulk, at: 1 s, for: 2 s, tcp: {from: hobart, to: weddell.hw.2, size: 100 kB}}
";
    let file = scenario::write(dir.path(), "flows.yaml", &format!("{text}{traffic}"));
    let check = json(&constel([
        "check".as_ref(),
        file.as_os_str(),
        "--json".as_ref(),
    ]));
    let covered: Vec<_> = check["sky"]["flows"].as_array().unwrap().iter().collect();
    assert_eq!(covered[1]["to"], "weddell.hw.2");
    assert!(
        covered.iter().all(|flow| flow["path_ratio"] == 1.0),
        "{covered:?}"
    );

    let mut lab = Lab::up("disjoint-flows", &file, dir.path(), &["--for", "4s"]);
    lab.client().clock().unwrap().sleep_until(1.5);
    let ways = ways(&lab);
    lab.ended();
    let summary = lab.summary();
    for (row, path) in summary["flows"].as_array().unwrap().iter().zip([1, 2, 2]) {
        assert_eq!(row["status"], "ok", "{row:#}");
        let way = ways[&path].clone().unwrap();
        assert_eq!(row["to"], format!("{TO}.hw.{path}").as_str());
        // No step before the flow's end changes these paths (see `scenario::sky`).
        assert_eq!(row["paths"], serde_json::json!([way]), "{row:#}");
        if row["kind"] == "ping" {
            // A probe has nanoseconds; a path's delay is that at the beginning of a step.
            let least = |key: &str| row[key]["min_ns"].as_f64().unwrap();
            let off = least("rtt") - least("path_rtt");
            assert!(
                (-1e5..SLACK_NS as f64).contains(&off),
                "off by {off} ns: {row:#}"
            );
        }
    }
}
