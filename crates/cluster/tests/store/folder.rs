//! Properties of folders only: files that others see, a machine that starts again, a process that stops with the lock.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use constel_cluster::store::{Error, Folder, Outcome, Store, Txn};

use crate::store::support::HANGS_AFTER;

#[test]
fn what_one_puts_another_finds() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a/b");
    let one = Folder::open(&path).unwrap();
    let lease = one.grant(Duration::from_secs(60)).unwrap();
    let txn = Txn::new()
        .put("stays", vec![0, 255, 10])
        .put_leased("goes", "1", lease.id);
    let Outcome::Committed { revision } = one.commit(&txn).unwrap() else {
        panic!("it had no condition");
    };
    drop(one);
    let other = Folder::open(&path).unwrap();
    let entry = other.get("stays").unwrap().unwrap();
    assert_eq!((entry.value, entry.created), (vec![0, 255, 10], revision));
    other.keep_alive(lease.id).unwrap();
    let told = other
        .watch("", revision)
        .unwrap()
        .next(Duration::ZERO)
        .unwrap();
    assert_eq!(told.len(), 2, "also of what was before");
    for file in ["store.json", "lock"] {
        let mode = fs::metadata(path.join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn leases_are_over_when_the_machine_has_started_anew() {
    let place = tempfile::tempdir().unwrap();
    let store = Folder::open(place.path()).unwrap();
    let lease = store.grant(Duration::from_secs(3_600)).unwrap();
    let txn = Txn::new()
        .put_leased("goes", "", lease.id)
        .put("stays", "1");
    store.commit(&txn).unwrap();
    let file = place.path().join("store.json");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(boot.trim()));
    fs::write(&file, text.replace(boot.trim(), "another")).unwrap();
    let store = Folder::open(place.path()).unwrap();
    assert_eq!(store.get("goes").unwrap(), None);
    assert!(store.get("stays").unwrap().is_some());
    assert_eq!(store.keep_alive(lease.id), Err(Error::LeaseLost(lease.id)));
}

/// A lease with more keys than changes are remembered: its end is one change.
#[test]
fn a_lease_with_many_keys_ends() {
    let place = tempfile::tempdir().unwrap();
    let store = Folder::open(place.path()).unwrap();
    let lease = store.grant(Duration::from_secs(3_600)).unwrap();
    for first in (0..2_560).step_by(128) {
        let keys = (first..first + 128).map(|number| format!("k/{number}"));
        let txn = keys.fold(Txn::new(), |txn, key| txn.put_leased(key, "1", lease.id));
        store.commit(&txn).unwrap();
    }
    let last = store.put("stays", b"1").unwrap();
    let mut watch = store.watch("", last + 1).unwrap();
    store.revoke(lease.id).unwrap();
    assert_eq!(store.list("").unwrap().entries.len(), 1);
    assert_eq!(watch.next(Duration::ZERO).unwrap().len(), 2_560);
    store.put("stays", b"2").unwrap();
    assert_eq!(watch.next(Duration::ZERO).unwrap().len(), 1);
}

/// Each of them would end a process or keep it for ever.
#[test]
fn a_file_with_impossible_revisions_is_no_store() {
    let place = tempfile::tempdir().unwrap();
    let store = Folder::open(place.path()).unwrap();
    let revision = store.put("key", b"1").unwrap();
    let file = place.path().join("store.json");
    let text = fs::read_to_string(&file).unwrap();
    let most = u64::MAX.to_string();
    for (old, new) in [
        (
            format!("\"revision\":{revision},\"entries\""),
            format!("\"revision\":{most},\"entries\""),
        ),
        (
            "\"last_lease\":0".to_owned(),
            format!("\"last_lease\":{most}"),
        ),
        ("\"oldest\":1".to_owned(), format!("\"oldest\":{most}")),
        (
            format!("\"revision\":{revision},\"entry\""),
            format!("\"revision\":{most},\"entry\""),
        ),
    ] {
        assert!(text.contains(&old), "{old}: {text}");
        fs::write(&file, text.replace(&old, &new)).unwrap();
        let error = Folder::find(place.path()).unwrap_err().to_string();
        assert!(error.contains("contradict"), "{new}: {error}");
    }
}

#[test]
fn no_pipe_is_waited_for() {
    for name in ["store.json", "lock"] {
        let place = tempfile::tempdir().unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, place.path().join(name), kind, mode, 0).unwrap();
        assert!(Folder::open(place.path()).is_err(), "{name}");
    }
}

#[test]
fn what_is_no_store_is_left_alone() {
    for text in [
        "",
        "hello\n",
        "constel-store 1 1 1\n{}",
        "constel-store 2 1 1\n",
    ] {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("store.json");
        fs::write(&file, text).unwrap();
        let error = Folder::open(place.path()).unwrap_err();
        assert!(
            matches!(&error, Error::Invalid(reason) if reason.contains("store.json")),
            "{text:?}: {error}"
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
    let error = Folder::open("/proc/nowhere/store".as_ref()).unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error}");
}

/// A reader makes no files.
#[test]
fn what_is_not_there_is_not_found() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a");
    for is_there in [false, true] {
        let error = Folder::find(&path).unwrap_err();
        assert!(
            matches!(&error, Error::Invalid(reason) if reason.contains("no store in")),
            "{error}"
        );
        assert_eq!(path.exists(), is_there);
        assert!(!path.join("lock").exists());
        fs::create_dir_all(&path).unwrap();
    }
    let made = Folder::open(&path).unwrap();
    made.put("a", b"1").unwrap();
    let found = Folder::find(&path).unwrap();
    assert!(found.get("a").unwrap().is_some());
}

/// A process that was stopped in the middle: no write is done, and the error comes within seconds.
#[test]
fn a_lock_that_is_held_is_given_up() {
    let place = tempfile::tempdir().unwrap();
    let store = Folder::open(place.path()).unwrap();
    let revision = store.put("a", b"1").unwrap();
    let held = fs::File::open(place.path().join("lock")).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let asked = Instant::now();
    let error = store.put("a", b"2").unwrap_err();
    assert!(matches!(error, Error::Unreachable(_)), "{error}");
    let took = asked.elapsed();
    assert!(took >= Duration::from_secs(2), "{took:?}");
    drop(held);
    assert_eq!(store.get("a").unwrap().unwrap().modified, revision);
    assert_eq!(store.put("a", b"2").unwrap(), revision + 1);
}

/// Changes of many threads: none is lost, and a watch receives all of them once.
#[test]
fn changes_of_many_are_told_once() {
    let place = tempfile::tempdir().unwrap();
    let store = Folder::open(place.path()).unwrap();
    let begun = store.list("").unwrap().revision;
    let mut watch = store.watch("n/", begun + 1).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = Folder::open(place.path()).unwrap();
            scope.spawn(move || {
                for n in 0..25 {
                    store.put(&format!("n/{thread}-{n}"), b"").unwrap();
                }
            });
        }
    });
    let mut told = Vec::new();
    while told.len() < 100 {
        let more = watch.next(HANGS_AFTER).unwrap();
        assert!(!more.is_empty(), "{} of 100", told.len());
        told.extend(more.into_iter().map(|event| event.revision));
    }
    assert_eq!(told, (begun + 1..=begun + 100).collect::<Vec<_>>());
}
