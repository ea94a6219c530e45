//! Effects of rules on frames, and their counters.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use constel_link::rules::Head;
use constel_scenario::{DiskFiles, read_rules};
use serde_json::Value;

use crate::middlebox::cables::{Cables, FAR, Raw, Running, address, echo, round_trip};
use crate::middlebox::draws::{draws, frame, rule};
use crate::middlebox::support::host::Host;
use crate::middlebox::support::{CONSTEL, constel, json, stderr, until};

#[test]
fn counters_of_256_rules_are_those_of_a_capture() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let cables = Cables::lay(1500);
    let mut draw = draws(7);
    let rules: String = (0..256).map(|n| rule(n, &mut draw)).collect();
    let rules = format!("rules:\n{rules}");
    let read = read_rules("box", rules.as_bytes(), &DiskFiles::in_folder(".")).unwrap();
    let (near, far) = (Raw::on(&cables.a, FAR), Raw::on(&cables.b, FAR));
    let running = Running::up(&cables, "count", dir.path(), &rules, &[]);
    while far.next().is_some() {}

    let (mut expected, mut passed) = (vec![(0u64, 0u64); 257], Vec::new());
    let mut seen = Vec::new();
    for n in 0..20_000u32 {
        let frame = frame(n, &mut draw);
        let head = Head::read(&frame);
        let place = read
            .rules
            .iter()
            .position(|rule| rule.matching.takes(&head));
        let count = &mut expected[place.unwrap_or(256)];
        *count = (count.0 + 1, count.1 + frame.len() as u64);
        let action = place.and_then(|place| read.rules.get(place)?.forward.clone());
        if action.is_none_or(|action| action == constel_link::rules::Action::Pass) {
            passed.push((place, frame.clone()));
        }
        near.send(&frame);
        // As fast as a machine with other things to do takes it in.
        if n % 64 == 0 {
            std::thread::sleep(Duration::from_millis(2));
            seen.extend(std::iter::from_fn(|| far.next()));
        }
    }
    until("all have come", || {
        seen.extend(std::iter::from_fn(|| far.next()));
        let ours = |frame: &&Vec<u8>| frame.starts_with(&[2, 9, 9, 9, 9, 9]);
        (seen.iter().filter(ours).count() >= passed.len()).then_some(())
    });
    // The machines' own multicast goes over the cables as well.
    seen.retain(|frame| frame.starts_with(&[2, 9, 9, 9, 9, 9]));
    // A capture shows a tag that the interface took out of the frame as no tag.
    let untagged = |frame: &Vec<u8>| match frame[12..14] {
        [0x81, 0] => [&frame[..12], &frame[16..]].concat(),
        _ => frame.clone(),
    };
    let number = |frame: &Vec<u8>| u32::from_be_bytes(*frame.last_chunk().unwrap());
    let rule_of: HashMap<u32, Option<usize>> =
        passed.iter().map(|(rule, f)| (number(f), *rule)).collect();
    let by_rule = |frames: &mut dyn Iterator<Item = Vec<u8>>| {
        let mut rules: BTreeMap<Option<usize>, Vec<Vec<u8>>> = BTreeMap::new();
        for frame in frames {
            let rule = rule_of
                .get(&number(&frame))
                .expect("no frame arrives that was to be dropped");
            rules.entry(*rule).or_default().push(frame);
        }
        rules
    };
    let wanted = by_rule(&mut passed.iter().map(|(_, frame)| untagged(frame)));
    let got = by_rule(&mut seen.iter().map(untagged));
    assert!(
        got == wanted,
        "those of each rule arrive as they were sent, in their order"
    );

    let shown = running.shown();
    let count = |did: &Value| {
        (
            did["frames"].as_u64().unwrap(),
            did["bytes"].as_u64().unwrap(),
        )
    };
    let mut met = 0;
    for (n, rule) in shown["rules"].as_array().unwrap().iter().enumerate() {
        assert_eq!(
            count(&rule["directions"]["forward"]),
            expected[n],
            "rule r{n}"
        );
        met += usize::from(expected[n].0 > 0);
    }
    assert_eq!(
        count(&shown["unmatched"]["forward"]),
        expected[256],
        "no rule"
    );
    assert!(met > 20, "{met} rules met");
    let summary = running.down();
    assert_eq!(summary["relay"]["emulator_drops"]["pool"], 0);
    drop(cables);
    host.assert_as_before("after the box");
}

#[test]
fn delays_are_those_of_the_rules_and_changes_touch_no_other() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let cables = Cables::lay(1500);
    let rules = "rules:\n- {name: slow, match: {protocol: udp, dport: 7000}, both: {delay: 30 ms}}\n\
                 - {name: other, match: {protocol: udp, dport: 7001}, both: {delay: 1 ms}}\n";
    let running = Running::up(&cables, "live", dir.path(), rules, &[]);
    for port in [7000, 7001] {
        echo(&cables.b, SocketAddr::from((address(2), port)));
    }
    let to = |port| SocketAddr::from((address(2), port));
    let mut slow = round_trip(&cables.a, to(7000), 20);
    slow.sort();
    // No frame is early. A busy machine adds to all but the quickest, by as much as it adds to the rule beside it.
    assert!(slow[0] >= Duration::from_millis(60), "{slow:?}");
    let beside = round_trip(&cables.a, to(7001), 20)
        .into_iter()
        .min()
        .unwrap();
    assert!(beside >= Duration::from_millis(2), "{beside:?}");
    assert!(
        slow[0] < Duration::from_millis(60) + beside,
        "{slow:?} {beside:?}"
    );
    // The answers come by the same rule in the other direction.
    assert_eq!(running.did("slow", "forward")["frames"], 20);
    assert_eq!(running.did("slow", "reverse")["frames"], 20);

    // One rule is changed over and over; none of the other's frames is lost or late.
    let socket = cables
        .a
        .run(|| UdpSocket::bind("0.0.0.0:0").unwrap())
        .unwrap();
    socket.set_nonblocking(true).unwrap();
    let (mut sent, mut came) = (0u32, 0u32);
    let take = |came: &mut u32| {
        while socket.recv(&mut [0; 9]).is_ok() {
            *came += 1
        }
    };
    for n in 0..40 {
        let rule = format!(
            "{{match: {{protocol: udp, dport: 7000}}, both: {{delay: {} ms}}}}",
            5 + n % 7
        );
        let mut change = Command::new(CONSTEL);
        change.args(["box", "edit", &running.name, "slow", &rule]);
        let mut change = change.stdout(Stdio::null()).spawn().unwrap();
        while change.try_wait().unwrap().is_none() {
            // Not more than the sockets hold, should the one that answers not run for a while.
            if sent - came < 100 {
                socket.send_to(b"x", to(7001)).unwrap();
                sent += 1;
            }
            take(&mut came);
            std::thread::sleep(Duration::from_micros(300));
        }
        assert!(change.wait().unwrap().success());
    }
    until("every frame of the other rule came back", || {
        take(&mut came);
        (came == sent).then_some(())
    });
    let other = running.did("other", "forward");
    assert_eq!(
        (&other["frames"], &other["drops"]),
        (&(sent + 20).into(), &0.into())
    );
    // The counters of the rule are those of all its forms.
    assert_eq!(running.did("slow", "forward")["frames"], 20);
    let fast = round_trip(&cables.a, to(7000), 3);
    // The last form: 9 ms each way.
    let quickest = fast.into_iter().min().unwrap();
    assert!(
        quickest >= Duration::from_millis(18) && quickest < slow[0],
        "{quickest:?}"
    );

    let names = |output| json(&output)["rules"].clone();
    let add = constel([
        "box",
        "add",
        &running.name,
        "{name: new, both: drop}",
        "--at",
        "1",
        "--json",
    ]);
    assert_eq!(names(add), serde_json::json!(["new", "slow", "other"]));
    let moved = constel(["box", "move", &running.name, "new", "--at", "3", "--json"]);
    assert_eq!(names(moved), serde_json::json!(["slow", "other", "new"]));
    let gone = constel(["box", "remove", &running.name, "new", "--json"]);
    assert_eq!(names(gone), serde_json::json!(["slow", "other"]));
    let wrong = constel(["box", "remove", &running.name, "slwo"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        stderr(&wrong).contains("nearest is 'slow'"),
        "{}",
        stderr(&wrong)
    );
    // An export is read as the same rules.
    let exported = constel(["box", "export", &running.name]);
    let again = read_rules("exported", &exported.stdout, &DiskFiles::in_folder(".")).unwrap();
    assert_eq!(again.rules.len(), 2);
    let replaced = dir.path().join("exported.yaml");
    fs::write(&replaced, &exported.stdout).unwrap();
    let replaced = constel([
        "box",
        "replace",
        &running.name,
        "--rules",
        replaced.to_str().unwrap(),
        "--json",
    ]);
    assert_eq!(names(replaced), serde_json::json!(["slow", "other"]));
    assert_eq!(
        running.did("other", "forward")["frames"],
        sent + 20,
        "the same rule keeps its counters"
    );
    running.down();
    drop(cables);
    host.assert_as_before("after the box");
}
