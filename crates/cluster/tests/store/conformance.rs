//! Properties of every store. Each case has a prefix of its own, so that one server serves them all.

use crate::store::support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use constel_cluster::store::{
    Condition, Embedded, Error, Event, Folder, Follow, LeaseId, Outcome, Store, Txn, Watch,
};

type Case = (&'static str, fn(&Arc<dyn Store>, &str));

const CASES: &[Case] = &[
    ("keys", keys_are_put_changed_and_deleted),
    ("lists", lists_are_sorted_and_of_their_prefix_alone),
    ("transactions", transactions_are_all_or_nothing),
    ("fencing", who_lost_a_key_cannot_write_with_its_token),
    ("one winner", of_many_who_claim_one_wins),
    ("invalid", what_no_store_takes_changes_nothing),
    ("bytes", values_are_bytes),
    ("watch", a_watch_tells_everything_once_and_in_order),
    ("past", a_watch_may_begin_in_the_past),
    ("compacted", what_is_forgotten_is_said_and_listed_again),
    ("leases", keys_go_with_their_lease),
    ("alive", signs_of_life_keep_a_lease),
    ("rebound", a_key_put_again_leaves_its_lease),
    ("many", a_thousand_keys_and_their_events),
];

fn all_cases(store: &Arc<dyn Store>, kind: &str) {
    let mut failed = Vec::new();
    for (number, (name, case)) in CASES.iter().enumerate() {
        let began = Instant::now();
        let prefix = format!("case-{number:02}/");
        let passed = catch_unwind(AssertUnwindSafe(|| case(store, &prefix))).is_ok();
        eprintln!(
            "{kind}: {name}: {} ({:.2?})",
            if passed { "ok" } else { "FAILED" },
            began.elapsed()
        );
        failed.extend((!passed).then_some(*name));
    }
    assert!(failed.is_empty(), "{kind}: {failed:?}");
}

#[test]
fn embedded() {
    all_cases(&(Arc::new(Embedded::new()) as Arc<dyn Store>), "embedded");
}

#[test]
fn folder() {
    let place = tempfile::tempdir().unwrap();
    let store = Folder::open(&place.path().join("store")).unwrap();
    all_cases(&(Arc::new(store) as Arc<dyn Store>), "folder");
}

#[test]
fn etcd() {
    if !support::is_there() {
        return;
    }
    let cluster = support::Cluster::start(1, &support::Options::default());
    all_cases(&(Arc::new(cluster.store()) as Arc<dyn Store>), "etcd");
}

/// Changes until `count` have come; fewer only when nothing comes for long.
fn take(watch: &mut dyn Watch, count: usize) -> Vec<Event> {
    let mut events = Vec::new();
    while events.len() < count {
        let more = watch.next(support::HANGS_AFTER).unwrap();
        assert!(!more.is_empty(), "{} of {count} events came", events.len());
        events.extend(more);
    }
    events
}

fn keys_are_put_changed_and_deleted(store: &Arc<dyn Store>, p: &str) {
    let key = format!("{p}a");
    assert_eq!(store.get(&key).unwrap(), None);
    let first = store.put(&key, b"1").unwrap();
    let second = store.put(&key, b"2").unwrap();
    assert_eq!(second, first + 1);
    let entry = store.get(&key).unwrap().unwrap();
    assert_eq!((entry.created, entry.modified), (first, second));
    assert_eq!(
        (entry.value.as_slice(), entry.lease),
        (b"2".as_slice(), None)
    );
    let gone = store.delete(&key).unwrap();
    assert_eq!(gone, second + 1);
    assert_eq!(store.get(&key).unwrap(), None);
    assert_eq!(store.delete(&key).unwrap(), gone, "nothing has changed");
    let again = store.put(&key, b"3").unwrap();
    assert_eq!(store.get(&key).unwrap().unwrap().created, again);
}

fn lists_are_sorted_and_of_their_prefix_alone(store: &Arc<dyn Store>, p: &str) {
    for key in ["b/2", "b", "a", "b/10", "b0", "c"] {
        store.put(&format!("{p}{key}"), key.as_bytes()).unwrap();
    }
    let names = |prefix: &str| -> Vec<String> {
        let entries = store.list(&format!("{p}{prefix}")).unwrap().entries;
        entries
            .into_iter()
            .map(|(key, _)| key[p.len()..].to_owned())
            .collect()
    };
    assert_eq!(names("b/"), ["b/10", "b/2"]);
    assert_eq!(names("b"), ["b", "b/10", "b/2", "b0"]);
    assert_eq!(names("nobody"), [""; 0]);
    let all = store.list("").unwrap();
    assert!(all.entries.iter().any(|(key, _)| *key == format!("{p}c")));
    assert!(all.entries.is_sorted_by_key(|(key, _)| key.clone()));
    let last = store.put(&format!("{p}z"), b"").unwrap();
    assert_eq!(store.list(p).unwrap().revision, last);
}

fn transactions_are_all_or_nothing(store: &Arc<dyn Store>, p: &str) {
    let key = |name: &str| format!("{p}{name}");
    let made = store.put(&key("a"), b"1").unwrap();
    let move_it = |condition| {
        let txn = Txn::new().when(condition).when(Condition::absent(key("b")));
        store
            .commit(&txn.delete(key("a")).put(key("b"), "1"))
            .unwrap()
    };
    for wrong in [
        Condition::modified_at(key("a"), made + 1),
        Condition::created_at(key("a"), made + 1),
        Condition::absent(key("a")),
        Condition::modified_at(key("c"), made),
        Condition::created_at(key("c"), made),
    ] {
        assert_eq!(move_it(wrong), Outcome::Refused);
    }
    assert_eq!(store.list(p).unwrap().revision, made);
    let Outcome::Committed { revision } = move_it(Condition::modified_at(key("a"), made)) else {
        panic!("refused");
    };
    assert_eq!(revision, made + 1, "one change");
    assert_eq!(store.get(&key("a")).unwrap(), None);
    assert_eq!(store.get(&key("b")).unwrap().unwrap().modified, revision);
}

fn who_lost_a_key_cannot_write_with_its_token(store: &Arc<dyn Store>, p: &str) {
    let (owner, work) = (format!("{p}owner"), format!("{p}work"));
    let claim = |name: &str| {
        let txn = Txn::new().when(Condition::absent(&owner)).put(&owner, name);
        store.commit(&txn).unwrap()
    };
    let Outcome::Committed { revision: token } = claim("a") else {
        panic!()
    };
    assert_eq!(claim("b"), Outcome::Refused);
    let write = |token, what: &str| {
        let txn = Txn::new()
            .when(Condition::created_at(&owner, token))
            .put(&work, what);
        store.commit(&txn).unwrap()
    };
    assert_ne!(write(token, "of a"), Outcome::Refused);
    store.put(&owner, b"a, still").unwrap();
    assert_ne!(
        write(token, "of a"),
        Outcome::Refused,
        "the key was never gone"
    );
    store.delete(&owner).unwrap();
    assert_eq!(write(token, "of a, late"), Outcome::Refused);
    let Outcome::Committed { revision: later } = claim("b") else {
        panic!()
    };
    assert!(later > token);
    assert_eq!(write(token, "of a, late"), Outcome::Refused);
    assert_ne!(write(later, "of b"), Outcome::Refused);
    assert_eq!(store.get(&work).unwrap().unwrap().value, b"of b");
}

fn of_many_who_claim_one_wins(store: &Arc<dyn Store>, p: &str) {
    for round in 0..10 {
        let key = format!("{p}{round}");
        let claim = |name: usize| {
            let txn = Txn::new()
                .when(Condition::absent(&key))
                .put(&key, name.to_string());
            (name, store.commit(&txn).unwrap())
        };
        let claims: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|name| scope.spawn(move || claim(name)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        let won: Vec<_> = claims
            .iter()
            .filter(|(_, outcome)| *outcome != Outcome::Refused)
            .collect();
        assert_eq!(won.len(), 1, "{claims:?}");
        let entry = store.get(&key).unwrap().unwrap();
        assert_eq!(entry.value, won[0].0.to_string().into_bytes());
    }
}

fn what_no_store_takes_changes_nothing(store: &Arc<dyn Store>, p: &str) {
    let before = store.put(&format!("{p}a"), b"").unwrap();
    let many = (0..129).fold(Txn::new(), |txn, n| txn.put(format!("{p}{n}"), ""));
    for wrong in [
        Txn::new(),
        Txn::new().put("", ""),
        Txn::new()
            .when(Condition::absent(""))
            .put(format!("{p}b"), ""),
        Txn::new().put(format!("{p}b"), "").delete(format!("{p}b")),
        Txn::new().put(format!("{p}b"), vec![0; (1 << 20) + 1]),
        many,
    ] {
        assert!(
            matches!(store.commit(&wrong), Err(Error::Invalid(_))),
            "{wrong:?}"
        );
    }
    assert!(matches!(store.get(""), Err(Error::Invalid(_))));
    let lost = Txn::new()
        .put(format!("{p}b"), "")
        .put_leased(format!("{p}c"), "", LeaseId(4711));
    assert_eq!(store.commit(&lost), Err(Error::LeaseLost(LeaseId(4711))));
    assert_eq!(store.list(p).unwrap().revision, before);
}

fn values_are_bytes(store: &Arc<dyn Store>, p: &str) {
    let all: Vec<u8> = (0..=255).collect();
    let large = vec![0xff; 1_000_000];
    for (name, value) in [
        ("empty", Vec::new()),
        ("all", all),
        ("large", large),
        ("ключ/鍵", b"k".to_vec()),
    ] {
        let key = format!("{p}{name}");
        store.put(&key, &value).unwrap();
        assert_eq!(store.get(&key).unwrap().unwrap().value, value, "{name}");
    }
    assert_eq!(store.list(p).unwrap().entries.len(), 4);
}

fn a_watch_tells_everything_once_and_in_order(store: &Arc<dyn Store>, p: &str) {
    let begun = store.list(p).unwrap().revision;
    let mut watch = store.watch(p, begun + 1).unwrap();
    assert_eq!(watch.next(Duration::from_millis(50)).unwrap(), []);
    let key = |name: &str| format!("{p}{name}");
    store.put("beside/the-prefix", b"").unwrap();
    let one = store.put(&key("a"), b"1").unwrap();
    let both = Txn::new().put(key("a"), "2").put(key("b"), "2");
    let Outcome::Committed { revision: two } = store.commit(&both).unwrap() else {
        panic!()
    };
    let three = store.delete(&key("a")).unwrap();
    let events = take(&mut *watch, 4);
    let seen: Vec<_> = events
        .iter()
        .map(|e| {
            (
                &e.key[p.len()..],
                e.revision,
                e.entry.as_ref().map(|entry| entry.value.as_slice()),
            )
        })
        .collect();
    let expected: [(&str, u64, Option<&[u8]>); 4] = [
        ("a", one, Some(b"1")),
        ("a", two, Some(b"2")),
        ("b", two, Some(b"2")),
        ("a", three, None),
    ];
    assert_eq!(seen, expected);
    assert_eq!(events[1].entry.as_ref().unwrap().created, one);
    // Longer than a stream may be silent: it is opened again, and no change comes twice.
    assert_eq!(watch.next(Duration::from_millis(2_500)).unwrap(), []);
    let four = store.put(&key("c"), b"").unwrap();
    assert_eq!(take(&mut *watch, 1)[0].revision, four);
}

fn a_watch_may_begin_in_the_past(store: &Arc<dyn Store>, p: &str) {
    let key = format!("{p}a");
    let first = store.put(&key, b"1").unwrap();
    store.put(&key, b"2").unwrap();
    store.delete(&key).unwrap();
    let mut watch = store.watch(p, first).unwrap();
    let values: Vec<_> = take(&mut *watch, 3)
        .into_iter()
        .map(|e| e.entry.map(|entry| entry.value))
        .collect();
    assert_eq!(values, [Some(b"1".to_vec()), Some(b"2".to_vec()), None]);
}

fn what_is_forgotten_is_said_and_listed_again(store: &Arc<dyn Store>, p: &str) {
    let key = |name: &str| format!("{p}{name}");
    let first = store.put(&key("goes"), b"1").unwrap();
    store.put(&key("stays"), b"1").unwrap();
    let mut follow = Follow::new(Arc::clone(store), p).unwrap();
    assert_eq!(follow.known().len(), 2);
    for n in 0..5 {
        store.put(&key("changes"), &[n]).unwrap();
    }
    store.delete(&key("goes")).unwrap();
    let last = store.put(&key("last"), b"1").unwrap();
    store.compact(last).unwrap();
    store.compact(first).unwrap();
    let mut late = store.watch(p, first).unwrap();
    let Err(Error::Compacted { oldest }) = late.next(support::HANGS_AFTER) else {
        panic!("it was not said");
    };
    assert!(oldest > first && oldest <= last);
    // Whether it heard all in time or listed again: it knows what is there.
    let until = Instant::now() + support::HANGS_AFTER;
    while follow.revision() < last && Instant::now() < until {
        follow.next(Duration::from_secs(1)).unwrap();
    }
    let known: Vec<_> = follow
        .known()
        .iter()
        .map(|(k, e)| (k[p.len()..].to_owned(), e.value.clone()))
        .collect();
    let expected = [
        ("changes", vec![4]),
        ("last", b"1".to_vec()),
        ("stays", b"1".to_vec()),
    ];
    assert_eq!(known, expected.map(|(k, v)| (k.to_owned(), v)));
    // Present keys have not been forgotten.
    assert_eq!(store.get(&key("stays")).unwrap().unwrap().value, b"1");
}

fn keys_go_with_their_lease(store: &Arc<dyn Store>, p: &str) {
    let lease = store.grant(Duration::from_secs(60)).unwrap();
    assert!(lease.ttl >= Duration::from_secs(60));
    let key = |name: &str| format!("{p}{name}");
    let txn = Txn::new()
        .put_leased(key("a"), "", lease.id)
        .put_leased(key("b"), "", lease.id)
        .put(key("c"), "");
    let Outcome::Committed { revision } = store.commit(&txn).unwrap() else {
        panic!()
    };
    assert_eq!(store.get(&key("a")).unwrap().unwrap().lease, Some(lease.id));
    let mut watch = store.watch(p, revision + 1).unwrap();
    store.revoke(lease.id).unwrap();
    let mut gone: Vec<_> = take(&mut *watch, 2)
        .into_iter()
        .map(|e| (e.key, e.entry))
        .collect();
    gone.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(gone, [(key("a"), None), (key("b"), None)]);
    assert_eq!(store.list(p).unwrap().entries.len(), 1);
    store.revoke(lease.id).unwrap();
    assert_eq!(store.keep_alive(lease.id), Err(Error::LeaseLost(lease.id)));
    let put = Txn::new().put_leased(key("d"), "", lease.id);
    assert_eq!(store.commit(&put), Err(Error::LeaseLost(lease.id)));
}

fn signs_of_life_keep_a_lease(store: &Arc<dyn Store>, p: &str) {
    let (kept, left) = (format!("{p}kept"), format!("{p}left"));
    let asked = Duration::from_secs(2);
    let [of_kept, of_left] = [store.grant(asked).unwrap(), store.grant(asked).unwrap()];
    let txn = Txn::new()
        .put_leased(&kept, "", of_kept.id)
        .put_leased(&left, "", of_left.id);
    let Outcome::Committed { revision } = store.commit(&txn).unwrap() else {
        panic!()
    };
    let began = Instant::now();
    let mut watch = store.watch(p, revision + 1).unwrap();
    let gone = loop {
        store.keep_alive(of_kept.id).unwrap();
        let events = watch.next(Duration::from_millis(200)).unwrap();
        if !events.is_empty() {
            break events;
        }
        assert!(
            began.elapsed() < of_left.ttl + support::HANGS_AFTER,
            "it never ended"
        );
    };
    assert!(
        began.elapsed() >= of_left.ttl - Duration::from_millis(300),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(
        (gone.len(), gone[0].key.as_str(), &gone[0].entry),
        (1, left.as_str(), &None)
    );
    assert!(store.get(&kept).unwrap().is_some());
    store.revoke(of_kept.id).unwrap();
}

fn a_key_put_again_leaves_its_lease(store: &Arc<dyn Store>, p: &str) {
    let lease = store.grant(Duration::from_secs(60)).unwrap();
    let key = format!("{p}a");
    store
        .commit(&Txn::new().put_leased(&key, "1", lease.id))
        .unwrap();
    store.put(&key, b"2").unwrap();
    store.revoke(lease.id).unwrap();
    assert_eq!(store.get(&key).unwrap().unwrap().value, b"2");
}

fn a_thousand_keys_and_their_events(store: &Arc<dyn Store>, p: &str) {
    let begun = store.list(p).unwrap().revision;
    let mut watch = store.watch(p, begun + 1).unwrap();
    for part in 0..10 {
        let txn = (0..100).fold(Txn::new(), |txn, n| {
            txn.put(format!("{p}{part}{n:02}"), vec![7; 400])
        });
        assert_ne!(store.commit(&txn).unwrap(), Outcome::Refused);
    }
    let events = take(&mut *watch, 1_000);
    assert_eq!(events.len(), 1_000);
    assert!(events.is_sorted_by_key(|event| event.revision));
    assert_eq!(store.list(p).unwrap().entries.len(), 1_000);
}
