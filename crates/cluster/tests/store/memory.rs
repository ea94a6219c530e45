//! The embedded store in virtual time, against a model that remembers everything.

use std::collections::BTreeMap;
use std::time::Duration;

use constel_cluster::store::{Condition, Error, LeaseId, Memory, Outcome, Txn};
use proptest::prelude::*;

#[test]
fn leases_end_at_their_instant_and_not_before() {
    let mut store = Memory::new();
    let lease = store.grant(Duration::from_secs(5), 1_000);
    store
        .commit(&Txn::new().put_leased("a", "", lease.id))
        .unwrap();
    let ends = 5_000_001_000;
    assert_eq!(store.next_expiry_ns(), Some(ends));
    store.expire(ends - 1);
    assert!(store.get("a").is_some());
    let mut kept = store.clone();
    kept.keep_alive(lease.id, ends - 1).unwrap();
    store.expire(ends);
    assert!(store.get("a").is_none());
    assert_eq!(
        store.keep_alive(lease.id, ends),
        Err(Error::LeaseLost(lease.id))
    );
    kept.expire(ends);
    assert!(kept.get("a").is_some());
    // A renewal that comes too late has no effect.
    assert_eq!(
        kept.keep_alive(lease.id, 3 * ends),
        Err(Error::LeaseLost(lease.id))
    );
    assert!(kept.get("a").is_none());
}

#[derive(Debug, Clone)]
enum Act {
    Put(u8, u8, bool),
    PutIfAbsent(u8, u8),
    Move(u8, u8),
    Delete(u8),
    Tick(u64),
    KeepAlive,
    Compact,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let key = 0_u8..6;
    let act = prop_oneof![
        (key.clone(), any::<u8>(), any::<bool>()).prop_map(|(k, v, l)| Act::Put(k, v, l)),
        (key.clone(), any::<u8>()).prop_map(|(k, v)| Act::PutIfAbsent(k, v)),
        (key.clone(), key.clone()).prop_map(|(a, b)| Act::Move(a, b)),
        key.prop_map(Act::Delete),
        (0_u64..4).prop_map(Act::Tick),
        Just(Act::KeepAlive),
        Just(Act::Compact),
    ];
    prop::collection::vec(act, 1..80)
}

type Model = BTreeMap<String, (Vec<u8>, bool)>;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// After all operations: the store's contents are those of a plain map, a watch from any revision that is remembered leads
    /// from what was there then to what is there now, and revisions grow by one with each change.
    #[test]
    fn events_lead_from_then_to_now(acts in acts()) {
        let mut store = Memory::new();
        let mut model = Model::new();
        let mut then: BTreeMap<u64, Model> = BTreeMap::from([(1, Model::new())]);
        let (mut now_ns, mut oldest) = (0, 1);
        let mut lease = store.grant(Duration::from_nanos(5), now_ns);
        let mut ends_ns = 5;
        for act in acts {
            let before = (store.revision(), model.clone());
            let name = |k: u8| format!("k{k}");
            match act {
                Act::Put(k, v, leased) => {
                    let lease = leased.then_some(lease.id);
                    store.commit(&Txn::new().put_leased(name(k), [v], lease)).unwrap();
                    model.insert(name(k), (vec![v], leased));
                }
                Act::PutIfAbsent(k, v) => {
                    let done = store.commit(&Txn::new().when(Condition::absent(name(k))).put(name(k), [v])).unwrap();
                    prop_assert_eq!(done == Outcome::Refused, model.contains_key(&name(k)));
                    model.entry(name(k)).or_insert((vec![v], false));
                }
                Act::Move(a, b) => {
                    let held = store.get(&name(a)).map(|e| (e.modified, e.value.clone()));
                    if let Some((modified, value)) = held && a != b {
                        let txn = Txn::new().when(Condition::modified_at(name(a), modified));
                        store.commit(&txn.delete(name(a)).put(name(b), value.clone())).unwrap();
                        model.remove(&name(a));
                        model.insert(name(b), (value, false));
                    }
                }
                Act::Delete(k) => {
                    store.commit(&Txn::new().delete(name(k))).unwrap();
                    model.remove(&name(k));
                }
                Act::Tick(ns) => {
                    now_ns += ns;
                    store.expire(now_ns);
                    if now_ns >= ends_ns {
                        model.retain(|_, (_, leased)| !*leased);
                        prop_assert_eq!(store.keep_alive(lease.id, now_ns), Err(Error::LeaseLost(lease.id)));
                        lease = store.grant(Duration::from_nanos(5), now_ns);
                        ends_ns = now_ns + 5;
                    }
                }
                Act::KeepAlive => {
                    store.keep_alive(lease.id, now_ns).unwrap();
                    ends_ns = now_ns + 5;
                }
                Act::Compact => {
                    oldest = store.revision();
                    store.compact(oldest);
                }
            }
            prop_assert!(store.revision() - before.0 <= 1);
            if model != before.1 {
                prop_assert_eq!(store.revision(), before.0 + 1);
            }
            then.insert(store.revision(), model.clone());
        }
        let held: Vec<_> = store.list("").entries.into_iter().map(|(k, e)| (k, e.value)).collect();
        let expected: Vec<_> = model.iter().map(|(k, (v, _))| (k.clone(), v.clone())).collect();
        prop_assert_eq!(&held, &expected);
        for (revision, past) in &then {
            let Ok(events) = store.since("", revision + 1) else {
                prop_assert!(revision + 1 < oldest);
                continue;
            };
            let mut built: BTreeMap<String, Vec<u8>> = past.iter().map(|(k, (v, _))| (k.clone(), v.clone())).collect();
            for event in events {
                match event.entry {
                    Some(entry) => built.insert(event.key, entry.value),
                    None => built.remove(&event.key),
                };
            }
            prop_assert_eq!(built.into_iter().collect::<Vec<_>>(), expected.clone());
        }
        prop_assert_eq!(store.commit(&Txn::new().put_leased("x", "", LeaseId(9_999))), Err(Error::LeaseLost(LeaseId(9_999))));
    }
}
