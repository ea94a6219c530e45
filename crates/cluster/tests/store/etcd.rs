//! Properties of clusters only: members that end or freeze, passwords, TLS.

use crate::store::support;

use std::process::Command;
use std::time::{Duration, Instant};

use constel_cluster::store::{Error, Etcd, Outcome, Store, Txn};
use support::{Cluster, Options, is_there};

/// The leader is killed while a client writes: within the client's own time it goes on at another member, a write
/// without an answer is reported as uncertain, and confirmed writes are there.
#[test]
fn a_leader_that_is_killed_costs_seconds_and_nothing_that_was_done() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(3, &Options::default());
    let store = cluster.store();
    let mut watch = store
        .watch("n/", store.list("").unwrap().revision + 1)
        .unwrap();
    let leader = cluster.leader();
    let (mut done, mut longest) = (Vec::new(), Duration::ZERO);
    let began = Instant::now();
    for n in 0..200 {
        if n == 50 {
            cluster.signal(leader, "-KILL");
        }
        let asked = Instant::now();
        let outcome = store.commit(&Txn::new().put(format!("n/{n:03}"), "x"));
        longest = longest.max(asked.elapsed());
        match outcome {
            Ok(Outcome::Committed { .. }) => done.push(n),
            Ok(Outcome::Refused) => panic!("it had no condition"),
            Err(Error::Uncertain(_) | Error::Unreachable(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let lost = 200 - done.len();
    eprintln!(
        "leader killed: {lost} of 200 writes not said to be done, longest {longest:.2?}, all {:.2?}",
        began.elapsed()
    );
    assert!(
        longest < Duration::from_secs(20),
        "{longest:?}: three members, two seconds each, and a guard against hanging"
    );
    assert!(done.contains(&199), "it recovered");
    let there = store.list("n/").unwrap();
    for n in &done {
        assert!(
            there
                .entries
                .iter()
                .any(|(key, _)| *key == format!("n/{n:03}")),
            "{n} was said to be done"
        );
    }
    // The watch has received all of it, once.
    let mut told = Vec::new();
    while told.len() < there.entries.len() {
        match watch.next(Duration::from_secs(20)) {
            Ok(events) if events.is_empty() => {
                panic!("{} of {} told", told.len(), there.entries.len())
            }
            Ok(events) => told.extend(events.into_iter().map(|e| e.key)),
            Err(Error::Unreachable(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let keys: Vec<_> = there.entries.into_iter().map(|(key, _)| key).collect();
    assert_eq!(told, keys);
}

/// A member that is stopped keeps its connections and says nothing.
#[test]
fn a_frozen_member_is_given_up_within_two_seconds() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(3, &Options::default());
    let frozen = (cluster.leader() + 1) % 3;
    let others = [(frozen + 1) % 3, (frozen + 2) % 3];
    let store = cluster.store_of(&[frozen, others[0], others[1]], None);
    let revision = store.put("a", b"1").unwrap();
    let mut watch = store.watch("a", revision + 1).unwrap();
    assert_eq!(watch.next(Duration::from_millis(300)).unwrap(), []);
    cluster.signal(frozen, "-STOP");
    let asked = Instant::now();
    assert!(store.get("a").unwrap().is_some());
    let first = asked.elapsed();
    assert!(
        first >= Duration::from_secs(2),
        "{first:?}: it was asked first"
    );
    let asked = Instant::now();
    let changed = store.put("a", b"2").unwrap();
    assert!(
        asked.elapsed() < first,
        "the next question begins where one was answered"
    );
    assert_eq!(
        watch.next(Duration::from_secs(10)).unwrap()[0].revision,
        changed
    );
    // Without a majority no write is done, and none is confirmed.
    cluster.signal(others[0], "-STOP");
    let asked = Instant::now();
    let put = store.put("a", b"3");
    assert!(
        matches!(put, Err(Error::Uncertain(_) | Error::Unreachable(_))),
        "{put:?}"
    );
    assert!(matches!(store.get("a"), Err(Error::Unreachable(_))));
    assert!(
        asked.elapsed() < Duration::from_secs(15),
        "{:?}",
        asked.elapsed()
    );
    for member in [frozen, others[0]] {
        cluster.signal(member, "-CONT");
    }
    let until = Instant::now() + Duration::from_secs(30);
    while store.put("a", b"4").is_err() {
        assert!(Instant::now() < until, "it came back");
    }
}

#[test]
fn nobody_there_is_said_at_once() {
    let store = Etcd::new(&"etcd://127.0.0.1:1".parse().unwrap()).unwrap();
    let put = || {
        let asked = Instant::now();
        let error = store.put("a", b"").unwrap_err();
        assert!(
            matches!(&error, Error::Unreachable(reason) if reason.contains("127.0.0.1:1")),
            "{error}"
        );
        asked.elapsed()
    };
    // A member that does not answer is given two seconds; one that is not there is refused by the kernel.
    let least = (0..5).map(|_| put()).min();
    assert!(least < Some(Duration::from_secs(2)), "{least:?}");
    let mut watch = store.watch("a", 1).unwrap();
    assert!(matches!(
        watch.next(Duration::from_secs(5)),
        Err(Error::Unreachable(_))
    ));
}

/// Writes fail from now on, but present keys are read, leases are renewed, and excess keys can be deleted.
#[test]
fn a_store_that_is_full_says_so_and_keeps_leases() {
    if !is_there() {
        return;
    }
    let options = Options {
        quota: Some(2 << 20),
        ..Options::default()
    };
    let cluster = Cluster::start(1, &options);
    let store = cluster.store();
    let lease = store.grant(Duration::from_secs(60)).unwrap().id;
    let much = vec![7; 500 << 10];
    let full = (0..20).find_map(|number| store.put(&format!("much/{number}"), &much).err());
    assert!(matches!(full, Some(Error::Full(_))), "{full:?}");
    assert!(matches!(store.put("a", b"1"), Err(Error::Full(_))));
    store.keep_alive(lease).unwrap();
    assert_eq!(store.get("much/0").unwrap().unwrap().value, much);
    assert!(store.delete("much/0").is_ok());
}

/// Without leave: denied. With it, also after the server has forgotten its tokens.
#[test]
fn passwords_are_asked_for() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(1, &Options::default());
    let open = cluster.store();
    let revision = open.put("a", b"1").unwrap();
    let call = |what: &str, body: &str| {
        let answer = ureq::post(format!("http://{}/v3/{what}", cluster.hosts())).send(body);
        assert!(answer.is_ok(), "{what}: {answer:?}");
    };
    call("auth/user/add", r#"{"name": "root", "password": "p:w"}"#);
    call("auth/role/add", r#"{"name": "root"}"#);
    call("auth/user/grant", r#"{"user": "root", "role": "root"}"#);
    call("auth/user/add", r#"{"name": "guest", "password": "g"}"#);
    call("auth/enable", "{}");
    let as_user =
        |who: &str| Etcd::new(&cluster.address(&format!("{who}@{}", cluster.hosts()))).unwrap();
    assert!(
        matches!(open.get("a"), Err(Error::Denied(_))),
        "{:?}",
        open.get("a")
    );
    assert!(matches!(open.put("a", b"2"), Err(Error::Denied(_))));
    let wrong = as_user("root:guess").put("a", b"2");
    assert!(matches!(wrong, Err(Error::Denied(_))), "{wrong:?}");
    assert!(matches!(as_user("guest:g").get("a"), Err(Error::Denied(_))));
    let root = as_user("root:p%3Aw");
    assert_eq!(root.put("a", b"2").unwrap(), revision + 1);
    let mut watch = root.watch("a", revision + 1).unwrap();
    assert_eq!(watch.next(Duration::from_secs(10)).unwrap().len(), 1);
    // A change of users makes all tokens old.
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "p:w\n").unwrap();
    let place = format!(
        "root@{}?password-file={}",
        cluster.hosts(),
        file.path().display()
    );
    let filed = Etcd::new(&cluster.address(&place)).unwrap();
    assert_eq!(filed.put("a", b"3").unwrap(), revision + 2);
    assert_eq!(root.get("a").unwrap().unwrap().value, b"3");
}

#[test]
fn tls_is_checked() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    // An authority, or what another one has signed.
    let made = |name: &str, signer: Option<&str>| {
        let mut command = Command::new("openssl");
        command
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
                "-days",
                "2",
            ])
            .args(["-subj", &format!("/CN={name}"), "-keyout"])
            .arg(place(&format!("{name}.key")))
            .arg("-out")
            .arg(place(&format!("{name}.pem")))
            .stderr(std::process::Stdio::null());
        if let Some(signer) = signer {
            command
                .args([
                    "-addext",
                    "subjectAltName=IP:127.0.0.1",
                    "-addext",
                    "basicConstraints=critical,CA:FALSE",
                    "-CA",
                ])
                .arg(place(&format!("{signer}.pem")))
                .arg("-CAkey")
                .arg(place(&format!("{signer}.key")));
        }
        assert!(command.status().expect("openssl").success());
    };
    made("authority", None);
    made("other", None);
    made("server", Some("authority"));
    let (cert, other) = (place("authority.pem"), place("other.pem"));
    let cluster = Cluster::start(
        1,
        &Options {
            tls: Some((place("server.pem"), place("server.key"))),
            authorities: Some(cert.clone()),
            quota: None,
        },
    );
    let trusting = cluster.store_of(&[0], Some(&cert));
    let revision = trusting.put("a", b"1").unwrap();
    assert_eq!(
        trusting
            .watch("a", revision)
            .unwrap()
            .next(Duration::from_secs(10))
            .unwrap()
            .len(),
        1
    );
    for wary in [cluster.store_of(&[0], Some(&other)), cluster.store()] {
        let put = wary.put("a", b"2");
        assert!(matches!(put, Err(Error::Unreachable(_))), "{put:?}");
    }
    let plain = Etcd::new(&format!("etcd://{}", cluster.hosts()).parse().unwrap()).unwrap();
    assert!(plain.put("a", b"2").is_err());
    assert_eq!(trusting.get("a").unwrap().unwrap().modified, revision);
    let missing = Etcd::new(&cluster.address(&format!("{}?ca=/nowhere", cluster.hosts())));
    assert!(matches!(missing, Err(Error::Invalid(_))));
}
