//! Labs whose scenario changes while they run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use constel_api::answers::{Applied, ChangeWord};
use constel_api::{ApplyOrder, Client, ClientError, ErrorCode, NodeChange, StationChange};

use super::{Paper, run_text};
use crate::testing::{Silent, computed_iridium};

/// Much longer than any change takes, on any host.
const SOON: Duration = Duration::from_secs(240);

/// The scenario, without traffic, which has no programs here.
fn text() -> String {
    let text = computed_iridium();
    let traffic = text.find("\ntraffic:").unwrap();
    text[..=traffic].to_owned()
}

fn order(text: &str, dry_run: bool) -> ApplyOrder {
    ApplyOrder {
        text: text.to_owned(),
        file: "changed.yaml".to_owned(),
        // The scenario reads its places beside it.
        folder: PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios")),
        dry_run,
    }
}

/// Repeats a question until its answer is there.
fn until<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + SOON;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < end, "it never was so");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Runs the lab on paper, and asks it from another thread while lab time runs.
fn while_it_runs<T: Send>(ask: impl FnOnce(&mut Client) -> T + Send) -> (T, tempfile::TempDir) {
    while_it_runs_text(&text(), ask)
}

/// Runs another scenario on paper, and asks it as [`while_it_runs`] does.
fn while_it_runs_text<T: Send>(
    text: &str,
    ask: impl FnOnce(&mut Client) -> T + Send,
) -> (T, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let stop = Arc::<AtomicBool>::default();
    let socket = folder.path().join("run/paper");
    let answered = thread::scope(|scope| {
        let asking = scope.spawn(|| {
            // However it ends, the lab goes down.
            let _stops = Stops(&stop);
            let mut client = until(|| Client::connect(&socket).ok());
            until(|| client.state().ok()?.t_ns.filter(|t_ns| *t_ns > 0));
            ask(&mut client)
        });
        let paper = Paper::default();
        let run = run_text(&paper, folder.path(), &stop, &Silent, None, (text, None));
        run.0.unwrap();
        asking.join()
    });
    let answered = answered.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    (answered, folder)
}

struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn is_up(client: &mut Client, a: &str, b: &str) -> bool {
    client.link(a, b).unwrap().up
}

/// The satellite that a station uses.
fn satellite_of(client: &mut Client, station: &str) -> Option<String> {
    let nodes = client.show().unwrap().node_list.unwrap();
    let satellites = nodes.into_iter().filter(|node| node.kind == "satellite");
    let mut names = satellites.map(|node| node.name);
    names.find(|name| is_up(client, station, name))
}

fn keys(answer: &Applied) -> Vec<(&str, ChangeWord)> {
    let changes = answer.changes.iter();
    changes
        .map(|change| (change.key.as_str(), change.change))
        .collect()
}

fn copy_of(folder: &Path, name: &str) -> Option<String> {
    std::fs::read_to_string(folder.join("results").join(name)).ok()
}

#[test]
fn a_changed_scenario_is_taken_over_and_a_refused_one_changes_nothing() {
    let storm = "failures:\n- {name: storm, at: 0 s, for: 70 s, nodes: [tokyo]}\n";
    let stormy = format!("{}{storm}", text());
    let slower = stormy.replace("rate: 50 Mbit/s", "rate: 5 Mbit/s");
    let ((), folder) = while_it_runs(|client| {
        let first = satellite_of(client, "tokyo").unwrap();
        let dry = client.apply(order(&stormy, true)).unwrap();
        assert_eq!(keys(&dry), [("failures.storm", ChangeWord::Added)]);
        assert!(!dry.applied && dry.from_ns.is_none());
        // One value that cannot change, and nothing happens.
        let moved = stormy.replace("altitude: 780 km", "altitude: 790 km");
        let refused = client.apply(order(&moved, false)).unwrap();
        assert!(!refused.applied);
        assert_eq!(refused.refused().count(), 1, "{refused:?}");
        let invalid = client.apply(order("constel: 1\n", false)).unwrap_err();
        let bad = |error: &ClientError| matches!(error, ClientError::Refused(error) if error.code == ErrorCode::BadValue);
        assert!(bad(&invalid), "{invalid}");
        assert!(is_up(client, "tokyo", &first));

        // A node failed by hand stays so, whatever the scenario becomes.
        client
            .set_nodes(vec!["sydney".to_owned()], NodeChange::Fail, false)
            .unwrap();
        let done = client.apply(order(&stormy, false)).unwrap();
        assert!(done.applied, "{done:?}");
        let from_ns = done.from_ns.unwrap();
        until(|| (!is_up(client, "tokyo", &first)).then_some(()));
        let why = client.link("tokyo", &first).unwrap().why;
        assert!(why.contains("`storm`"), "{why}");
        assert_eq!(satellite_of(client, "sydney"), None);
        let t_ns = client.state().unwrap().t_ns.unwrap();
        assert!(t_ns < from_ns + SOON.as_nanos() as u64);

        // The next comparison is with what runs now.
        assert_eq!(keys(&client.apply(order(&stormy, false)).unwrap()), []);
        let london = satellite_of(client, "london").unwrap();
        let rate = |client: &mut Client| {
            let link = client.link("london", &london).unwrap();
            link.edges[0].rate_bps
        };
        assert_eq!(rate(client), Some(50_000_000));
        assert!(client.apply(order(&slower, false)).unwrap().applied);
        until(|| (rate(client) == Some(5_000_000)).then_some(()));
        assert_eq!(client.scenario().unwrap().text, slower);

        // Without the failure the station is back.
        assert!(client.apply(order(&text(), false)).unwrap().applied);
        until(|| satellite_of(client, "tokyo"));
        client
            .set_nodes(vec!["sydney".to_owned()], NodeChange::Heal, false)
            .unwrap();
        until(|| satellite_of(client, "sydney"));
    });
    assert_eq!(copy_of(folder.path(), "scenario-2.yaml"), Some(stormy));
    assert_eq!(copy_of(folder.path(), "scenario-3.yaml"), Some(slower));
    let log = copy_of(folder.path(), "events.ndjson").unwrap();
    let count = |kind: &str| log.lines().filter(|line| line.contains(kind)).count();
    assert_eq!(count("\"scenario-changed\""), 3);
    // The storm began and ended, and Sydney failed and was repaired.
    assert_eq!((count("\"failure\""), count("\"repair\"")), (2, 2), "{log}");
}

#[test]
fn stations_are_attached_detached_and_follow_their_policy_again() {
    let point = |satellite: &str| StationChange::Attach {
        satellite: satellite.to_owned(),
        antenna: None,
    };
    let ((), folder) = while_it_runs(|client| {
        let tokyo = || vec!["tokyo".to_owned()];
        let first = satellite_of(client, "tokyo").unwrap();
        client
            .set_station(tokyo(), StationChange::Detach { antenna: None })
            .unwrap();
        until(|| satellite_of(client, "tokyo").is_none().then_some(()));
        client.set_station(tokyo(), point(&first)).unwrap();
        until(|| (satellite_of(client, "tokyo").as_ref() == Some(&first)).then_some(()));
        // A satellite on the other side of the Earth: the antenna waits for it, dark.
        let far = satellite_of(client, "lima").unwrap();
        client.set_station(tokyo(), point(&far)).unwrap();
        until(|| satellite_of(client, "tokyo").is_none().then_some(()));
        let policy = |policy| StationChange::Policy { policy };
        let highest = Some("highest-elevation".into());
        client.set_station(tokyo(), policy(highest)).unwrap();
        until(|| satellite_of(client, "tokyo"));
        client.set_station(tokyo(), policy(None)).unwrap();

        let refusal = |client: &mut Client, station: &str, change| {
            let answer = client.set_station(vec![station.to_owned()], change);
            match answer.unwrap_err() {
                ClientError::Refused(error) => error.error,
                other => panic!("{other}"),
            }
        };
        assert!(refusal(client, "tokyo", point("london")).contains("no satellite"));
        assert!(refusal(client, &first, point(&first)).contains("no station"));
        let second = StationChange::Detach { antenna: Some(1) };
        assert!(refusal(client, "tokyo", second).contains("has 1 antennas"));
        let strange = refusal(client, "tokyo", policy(Some("lowest".into())));
        assert!(
            strange.contains("hysteresis") && strange.contains("nearest"),
            "{strange}"
        );
    });
    let log = copy_of(folder.path(), "events.ndjson").unwrap();
    let set = log.lines().filter(|line| line.contains("\"stations-set\""));
    assert_eq!(set.count(), 5);
}

#[test]
fn a_station_leaves_the_lab_and_returns() {
    let kept = text();
    // A station of its own is an entry that can leave.
    let own = "ground:\n  stations:\n    gone: {latitude: 10 deg, longitude: 20 deg}\n";
    let with = kept.replace("ground:\n", own);
    let ((), folder) = while_it_runs_text(&with, |client| {
        until(|| satellite_of(client, "gone"));
        assert!(client.apply(order(&kept, false)).unwrap().applied);
        until(|| satellite_of(client, "gone").is_none().then_some(()));
        let state = |client: &mut Client| {
            let nodes = client.show().unwrap().node_list.unwrap();
            let node = nodes.into_iter().find(|node| node.name == "gone");
            node.unwrap().state
        };
        assert_eq!(state(client).as_deref(), Some("removed"));
        let names = || vec!["gone".to_owned()];
        let refused = client.set_nodes(names(), NodeChange::Heal, false);
        assert!(refused.unwrap_err().to_string().contains("was removed"));
        // The rest of the scenario still changes, and the lab is the same.
        let slower = kept.replace("rate: 50 Mbit/s", "rate: 5 Mbit/s");
        assert!(client.apply(order(&slower, false)).unwrap().applied);
        assert_eq!(state(client).as_deref(), Some("removed"));
        assert!(client.apply(order(&with, false)).unwrap().applied);
        until(|| satellite_of(client, "gone"));
        assert_eq!(state(client), None);
        // The verbs are the same mechanism.
        client
            .set_nodes(names(), NodeChange::Remove, false)
            .unwrap();
        until(|| satellite_of(client, "gone").is_none().then_some(()));
        client.set_nodes(names(), NodeChange::Add, false).unwrap();
        until(|| satellite_of(client, "gone"));
    });
    let events = copy_of(folder.path(), "events.ndjson").unwrap();
    for change in ["\"remove\"", "\"add\""] {
        assert_eq!(events.matches(change).count(), 2, "{change}: {events}");
    }
}
