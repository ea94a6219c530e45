//! The journal of host-wide settings, on plain files that stand for sysctls.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use constel_host::Error;
use constel_host::globals::{Globals, Owner, Release, RequiredValue};
use constel_host::ident::ProcessIdent;

struct Host {
    dir: tempfile::TempDir,
    globals: Globals,
    setting: PathBuf,
}

fn host(value: &str) -> Host {
    let dir = tempfile::tempdir().unwrap();
    let setting = dir.path().join("setting");
    fs::write(&setting, value).unwrap();
    Host {
        globals: Globals::at(dir.path().join("host")),
        setting,
        dir,
    }
}

fn value(path: &Path) -> String {
    fs::read_to_string(path).unwrap().trim().to_owned()
}

fn exactly(v: &str) -> RequiredValue {
    RequiredValue::Exactly(v.into())
}

#[test]
fn the_last_of_two_owners_restores() {
    let h = host("128\n");
    let (a, b) = (Owner::current("a").unwrap(), Owner::current("b").unwrap());
    h.globals
        .set(&a, &h.setting, RequiredValue::AtLeast(1000))
        .unwrap();
    h.globals
        .set(&b, &h.setting, RequiredValue::AtLeast(4000))
        .unwrap();
    assert_eq!(value(&h.setting), "4000");
    h.globals
        .set(&a, &h.setting, RequiredValue::AtLeast(2000))
        .unwrap();
    assert_eq!(value(&h.setting), "4000", "the largest wish wins");
    assert_eq!(
        h.globals.release_all("b").unwrap(),
        [Release::StillNeeded {
            path: h.setting.clone(),
            owners: vec!["a".into()]
        }]
    );
    assert_eq!(value(&h.setting), "4000");
    assert!(matches!(
        h.globals.release("a", &h.setting).unwrap(),
        Release::StillNeeded { .. }
    ));
    assert_eq!(
        h.globals.release("a", &h.setting).unwrap(),
        Release::Restored {
            path: h.setting.clone(),
            value: "128".into()
        }
    );
    assert_eq!(value(&h.setting), "128");
    assert!(h.globals.remove_dir_if_empty().unwrap());
    assert!(!h.dir.path().join("host").exists());
}

#[test]
fn a_conflict_changes_nothing() {
    let h = host("0");
    let (a, b) = (Owner::current("a").unwrap(), Owner::current("b").unwrap());
    h.globals.set(&a, &h.setting, exactly("3")).unwrap();
    let e = h.globals.set(&b, &h.setting, exactly("1")).unwrap_err();
    assert!(matches!(e, Error::Conflict(_)), "{e}");
    assert!(e.to_string().contains("lab a needs another value"), "{e}");
    assert_eq!(value(&h.setting), "3");
    h.globals.set(&b, &h.setting, exactly("3")).unwrap();
    h.globals.release_all("a").unwrap();
    assert_eq!(value(&h.setting), "3");
    h.globals.release_all("b").unwrap();
    assert_eq!(value(&h.setting), "0");
}

#[test]
fn what_others_set_meanwhile_is_left_and_reported() {
    let h = host("0");
    let a = Owner::current("a").unwrap();
    h.globals.set(&a, &h.setting, exactly("3")).unwrap();
    fs::write(&h.setting, "2\n").unwrap();
    assert_eq!(
        h.globals.release_all("a").unwrap(),
        [Release::ChangedByOthers {
            path: h.setting.clone(),
            original: "0".into(),
            found: "2".into()
        }]
    );
    assert_eq!(value(&h.setting), "2");
    assert!(h.globals.owners().unwrap().is_empty());
}

#[test]
fn cleaning_up_after_a_dead_lab_leaves_a_new_one_of_its_name_alone() {
    let h = host("0");
    let anew = Owner::current("lab").unwrap();
    h.globals.set(&anew, &h.setting, exactly("3")).unwrap();
    assert_eq!(h.globals.release_all_dead("lab").unwrap(), []);
    assert_eq!(value(&h.setting), "3", "its process lives");
    assert_eq!(h.globals.release_all("lab").unwrap().len(), 1);
    assert_eq!(value(&h.setting), "0");
}

#[test]
fn a_setting_that_is_right_already_is_not_ours() {
    let h = host("9000");
    let a = Owner::current("a").unwrap();
    h.globals
        .set(&a, &h.setting, RequiredValue::AtLeast(10))
        .unwrap();
    fs::write(&h.setting, "9001").unwrap();
    assert_eq!(h.globals.release_all("a").unwrap(), []);
    assert_eq!(value(&h.setting), "9001");
}

#[test]
fn a_refused_change_leaves_no_record() {
    let h = host("0");
    let a = Owner::current("a").unwrap();
    assert!(
        h.globals
            .set(&a, Path::new("/proc/sys/kernel/ostype"), exactly("x"))
            .is_err()
    );
    assert!(
        h.globals
            .set(&a, Path::new("/nowhere"), exactly("x"))
            .is_err()
    );
    assert!(h.globals.owners().unwrap().is_empty());
}

#[test]
fn guards_nest() {
    let h = host("0");
    let a = Owner::current("a").unwrap();
    let one = h.globals.hold(&a, &h.setting, exactly("1")).unwrap();
    let two = h.globals.hold(&a, &h.setting, exactly("1")).unwrap();
    drop(one);
    assert_eq!(value(&h.setting), "1");
    assert!(matches!(two.finish().unwrap(), Release::Restored { .. }));
    assert_eq!(value(&h.setting), "0");
}

fn sleeper() -> Child {
    Command::new("sleep")
        .arg("100")
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_dead_owner_does_not_keep_a_change_alive() {
    let h = host("0");
    let mut child = sleeper();
    let dead = Owner {
        name: "dead".into(),
        process: ProcessIdent::of(child.id()).unwrap().unwrap(),
    };
    h.globals.set(&dead, &h.setting, exactly("3")).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let live = Owner::current("live").unwrap();
    // The ended lab's setting does not bind other labs any more either.
    h.globals.set(&live, &h.setting, exactly("1")).unwrap();
    assert!(matches!(
        h.globals.release_all("live").unwrap()[..],
        [Release::Restored { .. }]
    ));
    assert_eq!(
        value(&h.setting),
        "0",
        "the original, not the dead owner's value"
    );
}

/// Killed with SIGKILL at any moment of setting and restoring, the journal restores.
#[test]
fn the_journal_survives_kill_9() {
    if let Ok(dir) = std::env::var("CONSTEL_TEST_CHURN") {
        let g = Globals::at(Path::new(&dir).join("host"));
        let me = Owner::current("victim").unwrap();
        loop {
            g.set(&me, &Path::new(&dir).join("setting"), exactly("3"))
                .unwrap();
            // Setting syncs a file, releasing does not: without a pause it would nearly always be
            // killed while setting.
            std::thread::sleep(std::time::Duration::from_millis(1));
            g.release("victim", &Path::new(&dir).join("setting"))
                .unwrap();
        }
    }
    let mut changed = 0;
    for round in 0..30u32 {
        let h = host("0");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "globals::the_journal_survives_kill_9",
                "--nocapture",
            ])
            .env("CONSTEL_TEST_CHURN", h.dir.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // Kill at a moment that differs between rounds, once it is at work.
        while !h.dir.path().join("host/lock").exists() {
            std::thread::yield_now();
        }
        std::thread::sleep(std::time::Duration::from_micros(u64::from(round) * 173));
        child.kill().unwrap();
        child.wait().unwrap();
        // A truncated file is this test's stand-in sysctl, not the journal: the kernel's have no
        // such state. It can only happen between truncation and write.
        let seen = value(&h.setting);
        if seen.is_empty() {
            fs::write(&h.setting, "3").unwrap();
        }
        changed += u32::from(seen != "0");
        let released = h.globals.release_all("victim").unwrap();
        assert!(released.len() <= 1);
        assert_eq!(value(&h.setting), "0", "round {round}: {released:?}");
        assert!(h.globals.owners().unwrap().is_empty());
    }
    assert!(
        changed > 0,
        "no kill hit a changed setting: the test proves nothing"
    );
}
