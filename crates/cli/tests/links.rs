//! Links of a running lab changed by hand, felt by real packets: `link set`, `fail`, `heal`; and what a
//! scenario's `link:` asks for beyond rate and loss.

use crate::support;

use serde_json::Value;
use support::lab::Lab;
use support::{constel, scenario};

/// Runs `constel ...`, which must succeed; what it prints.
fn run(args: &[&str]) -> String {
    let out = constel(args);
    assert!(
        out.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Sends a number of pings; returns how many came back (0 without a route), and the least round trip in ms.
fn ping(lab: &str, from: &str, to: &str, count: u32) -> (u32, f64) {
    let count = count.to_string();
    let out = constel([
        "exec", lab, from, "--", "ping", "-q", "-i", "0.05", "-W", "1", "-c", &count, to,
    ]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let errors = String::from_utf8_lossy(&out.stderr);
    if errors.contains("Network is unreachable") {
        return (0, f64::NAN);
    }
    let received = text
        .split(", ")
        .find_map(|part| part.strip_suffix(" received")?.trim().parse().ok())
        .unwrap_or_else(|| panic!("no count in {text} {errors}"));
    let least = text
        .split("= ")
        .nth(1)
        .and_then(|times| times.split('/').next()?.parse().ok())
        .unwrap_or(f64::NAN);
    (received, least)
}

/// Names of the nodes on the way, both ends included.
fn way(lab: &str, from: &str, to: &str) -> Vec<String> {
    // Fails where the tables do not arrive, as between the steps of a handover; what it prints is the answer all the same.
    let out = constel(["path", lab, from, to, "--json"]);
    let answer: Value = serde_json::from_slice(&out.stdout).unwrap();
    let hops = answer["kernel"][0]["hops"].as_array().unwrap();
    let mut names = vec![from.to_owned()];
    names.extend(
        hops.iter()
            .map(|hop| hop["to"].as_str().unwrap().to_owned()),
    );
    names
}

/// Both directions of a link, as `link show` has them.
fn edges(lab: &str, a: &str, b: &str) -> Vec<Value> {
    let shown: Value = serde_json::from_str(&run(&["link", "show", lab, a, b, "--json"])).unwrap();
    shown["edges"].as_array().unwrap().clone()
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    support::until(what, || done().then_some(()));
}

#[test]
fn a_link_set_failed_and_healed_is_felt_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::sky(dir.path(), 300, "0 s");
    let lab = Lab::up("links", &file, dir.path(), &["--no-traffic"]);
    let name = lab.name.as_str();
    let (from, to) = ("ross", "weddell");
    let first = way(name, from, to);
    assert!(first.len() > 3, "{first:?} has a laser link in it");
    let (near, far) = (first[1].as_str(), first[2].as_str());
    let (received, before_ms) = ping(name, from, to, 10);
    assert!(received >= 9, "{received} of 10");

    // 100 ms instead of the light time, both ways.
    let light_ms: f64 = edges(name, near, far)
        .iter()
        .map(|edge| edge["delay_ns"].as_f64().unwrap() / 1e6)
        .sum();
    assert!(light_ms < 100.0, "{light_ms} ms there and back");
    run(&["link", "set", name, near, far, "--delay", "100 ms"]);
    let (_, after_ms) = ping(name, from, to, 10);
    assert!(
        (after_ms - before_ms - (200.0 - light_ms)).abs() < 10.0,
        "{before_ms} ms, then {after_ms} ms, over {light_ms} ms of light"
    );
    // Merged: the delay stays when the loss comes.
    run(&["link", "set", name, near, far, "--loss", "100 %"]);
    assert_eq!(ping(name, from, to, 5).0, 0);
    let effects = &edges(name, near, far)[0]["effects"];
    assert_eq!(effects["delay_ns"], 100_000_000);
    assert_eq!(effects["loss"]["bernoulli"]["loss_ratio"], 1.0);
    // Laws of every kind are taken, and a reset takes all of them away.
    let laws = [
        "--rate-law",
        "square:20 Mbit/s,5 Mbit/s,1 s,1 s",
        "--aqm",
        "fq-codel",
        "--ecn",
        "--jitter-quantiles",
        "0s,1ms,8ms",
        "--jitter-half-life",
        "100ms",
    ];
    run(&[&["link", "set", name, near, far][..], &laws].concat());
    run(&["link", "set", name, near, far, "--reset"]);
    let (received, reset_ms) = ping(name, from, to, 10);
    assert!(received >= 9, "{received} of 10");
    assert!(
        (reset_ms - before_ms).abs() < 5.0,
        "{before_ms} ms, then {reset_ms} ms"
    );

    // On top of the light time, which goes on gliding.
    run(&["link", "set", name, near, far, "--extra-delay", "40 ms"]);
    let (_, after_ms) = ping(name, from, to, 10);
    assert!(
        (after_ms - before_ms - 80.0).abs() < 5.0,
        "{before_ms} ms, then {after_ms} ms"
    );
    let edge = &edges(name, near, far)[0];
    let shown_ms = edge["delay_ns"].as_f64().unwrap() / 1e6;
    assert!((shown_ms - 40.0 - light_ms / 2.0).abs() < 1.0, "{edge}");
    assert_ne!(edge["slope_ns_per_s"], 0, "{edge}");
    run(&["link", "set", name, near, far, "--reset"]);

    // For a while: what was set before is in force again.
    run(&["link", "set", name, near, far, "--extra-delay", "10 ms"]);
    run(&[
        "link",
        "set",
        name,
        near,
        far,
        "--extra-delay",
        "90 ms",
        "--duplicate",
        "1 %",
        "--for",
        "2s",
    ]);
    let effects = || edges(name, near, far)[0]["effects"].clone();
    assert_eq!(effects()["extra_delay_ns"], 90_000_000);
    until("the change ends", || {
        effects()["extra_delay_ns"] == 10_000_000
    });
    assert_eq!(effects()["duplicate_ratio"], Value::Null);
    run(&["link", "set", name, near, far, "--reset"]);
    run(&["link", "fail", name, near, far, "--for", "2s"]);
    assert_ne!(way(name, from, to), first);
    until("the link heals", || way(name, from, to) == first);

    // Failed: computed routes have gone round it when the command returns, and every view shows that.
    let told = run(&["link", "fail", name, near, far]);
    assert!(told.contains("computed routes converged "), "{told}");
    let uses = |way: &[String]| way.windows(2).any(|w| w[0] == near && w[1] == far);
    let round = way(name, from, to);
    assert!(!uses(&round) && round.last().unwrap() == to, "{round:?}");
    let shown = run(&["link", "show", name, near, far]);
    let headline = shown.lines().next().unwrap();
    assert!(
        headline.contains("down: failed by hand at t = "),
        "{headline}"
    );
    assert!(ping(name, from, to, 10).0 >= 9);
    run(&["link", "heal", name, near, far]);
    assert!(uses(&way(name, from, to)));
    let shown = run(&["link", "show", name, near, far]);
    assert!(shown.lines().next().unwrap().contains("up: "), "{shown}");
    let told = run(&["link", "fail", name, near, far, "--no-wait", "--json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["routes"]["state"], "not-awaited");
    run(&["link", "heal", name, near, far]);

    // With its only antenna's link failed, the station is out of reach; healed, it is back.
    run(&["link", "fail", name, from, near]);
    until("out of reach", || ping(name, from, to, 1).0 == 0);
    run(&["link", "heal", name, from, near]);
    until("back", || ping(name, from, to, 3).0 == 3);
}

/// Effects on a pair of ends stay with the pair; effects on a port go with it to the next satellite.
#[test]
fn settings_of_a_port_follow_a_handover() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::sky(dir.path(), 300, "0 s");
    let lab = Lab::up("links-port", &file, dir.path(), &["--no-traffic"]);
    let name = lab.name.as_str();
    let serving = || way(name, "hobart", "chatham").get(1).cloned();
    let before = serving().expect("a way at the start");
    run(&["link", "set", name, "hobart", &before, "--loss", "1 %"]);
    let told = run(&["link", "set", name, "hobart/gsl0", "--corrupt", "2 %"]);
    assert!(told.contains("hobart/gsl0"), "{told}");
    assert!(told.contains("hobart/gsl0 --reset` removes it"), "{told}");
    // It hands over at 7 s of lab time.
    until("a handover", || serving().is_some_and(|now| now != before));
    let now = serving().expect("a way after the handover");
    let after = edges(name, "hobart", &now);
    let up = &after[0]["effects"];
    assert_eq!(up["corrupt_ratio"], 0.02, "{up}");
    assert_eq!(up["loss"], Value::Null, "{up}");
    // Merged, and taken away.
    run(&["link", "set", name, "hobart/gsl0", "--extra-delay", "5 ms"]);
    let up = &edges(name, "hobart", &now)[0]["effects"];
    assert_eq!(
        (&up["corrupt_ratio"], &up["extra_delay_ns"]),
        (&0.02.into(), &5_000_000.into())
    );
    let told = run(&["link", "set", name, "hobart/gsl0", "--reset"]);
    assert!(!told.contains("removes it"), "{told}");
    let up = &edges(name, "hobart", &now)[0]["effects"];
    assert_eq!(up["corrupt_ratio"], Value::Null);
    for (args, why) in [
        (
            ["link", "set", name, "hobart/eth7", "--loss", "1 %"],
            "it has gsl0",
        ),
        (
            ["link", "set", name, "nowhere/gsl0", "--loss", "1 %"],
            "nowhere",
        ),
    ] {
        let out = constel(args);
        let error = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(!out.status.success() && error.contains(why), "{error}");
    }
    let out = constel(["link", "fail", name, "hobart/gsl0"]);
    let error = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(error.contains("name both ends"), "{error}");
}

#[test]
fn what_a_scenario_asks_of_links_holds_on_every_edge() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::sky(dir.path(), 120, "0 s");
    let text = std::fs::read_to_string(&file).unwrap();
    // Every third frame into the ground link is lost, each way; what passes takes 30 ms more.
    let text = text.replace(
        "policy: nearest, handover: {outage: 0 s}, link: {rate: 10 Gbit/s,",
        "policy: nearest, handover: {outage: 0 s}, link: {loss_law: {periodic: {every: 3}}, \
         jitter: {quantiles: [30 ms, 30 ms]}, aqm: {codel: {}}, rate: 10 Gbit/s,",
    );
    let file = scenario::write(dir.path(), "lossy.yaml", &text);
    let lab = Lab::up("links-asked", &file, dir.path(), &["--no-traffic"]);
    let name = lab.name.as_str();
    let first = way(name, "ross", "weddell");
    for edge in edges(name, "ross", &first[1]) {
        let effects = &edge["effects"];
        assert_eq!(effects["loss"]["periodic"]["every"], 3, "{effects}");
        assert!(effects["discipline"]["codel"].is_object(), "{effects}");
    }
    let light_ms =
        serde_json::from_str::<Value>(&run(&["path", name, "ross", "weddell", "--json"])).unwrap()
            ["kernel"][0]["delay_ns"]
            .as_f64()
            .unwrap()
            / 1e6;
    let (received, least_ms) = ping(name, "ross", "weddell", 60);
    // Four ground links on the way there and back, each letting two of three through.
    assert!((2..40).contains(&received), "{received} of 60");
    // 30 ms on each of the four.
    assert!(
        (least_ms - 2.0 * light_ms - 120.0).abs() < 10.0,
        "{least_ms} ms over {light_ms} ms of light"
    );
}
