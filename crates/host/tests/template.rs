//! Nodes born with the template's settings, and the same result where they cannot be.

use crate::small_disk;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use constel_host::NetNs;
use constel_host::globals::{Globals, Owner};
use constel_host::template::{NodeTemplate, ROUTER, SWITCH, Setting};
use constel_host::{rcu, sysctl};
use small_disk::SmallDisk;

/// The tests keep separate journals, so they must not use the host's one switch at once.
static SWITCH_USE: Mutex<()> = Mutex::new(());

const INHERIT: &str = "net.core.devconf_inherit_init_net";

fn lacking(ns: &NetNs, settings: &[Setting]) -> Vec<String> {
    ns.run(|| {
        settings
            .iter()
            .map(|(k, want)| (k, want, sysctl::read(k).unwrap()))
            .filter(|(_, want, got)| got != *want)
            .map(|(k, want, got)| format!("{k}: {got}, not {want}"))
            .collect()
    })
    .unwrap()
}

#[test]
fn every_node_has_every_setting_and_the_host_its_own() {
    let _alone = SWITCH_USE.lock().unwrap_or_else(|e| e.into_inner());
    let dir = tempfile::tempdir().unwrap();
    let globals = Globals::at(dir.path());
    let owner = Owner::current("template-test").unwrap();
    let before = sysctl::read(INHERIT).unwrap();
    assert!(
        !lacking(&NetNs::new().unwrap(), ROUTER).is_empty(),
        "or this test proves nothing"
    );

    const N: usize = 200;
    let t = Instant::now();
    let template = NodeTemplate::prepare(ROUTER).unwrap();
    let prepared = t.elapsed();
    let created = template.create(N, &globals, &owner).unwrap();
    let all = t.elapsed() - prepared;
    println!(
        "template {prepared:.1?}; {N} nodes with {} settings: {all:.1?} ({:.2?} each), {} inherited",
        ROUTER.len(),
        all / N as u32,
        created.inherited
    );
    assert_eq!(created.nodes.len(), N);
    for ns in &created.nodes {
        assert_eq!(lacking(ns, ROUTER), [""; 0]);
    }
    // Another lab on this machine may be using the switch at this very moment.
    let end = Instant::now() + Duration::from_secs(240);
    while sysctl::read(INHERIT).unwrap() != "0" && sysctl::read(INHERIT).unwrap() != before {
        assert!(Instant::now() < end, "the switch stays on");
        std::thread::yield_now();
    }
    assert!(globals.owners().unwrap().is_empty());
    // A namespace made afterwards is an ordinary one.
    assert!(!lacking(&NetNs::new().unwrap(), ROUTER).is_empty());
}

#[test]
fn a_switch_namespace_has_no_ipv6() {
    let _alone = SWITCH_USE.lock().unwrap_or_else(|e| e.into_inner());
    let dir = tempfile::tempdir().unwrap();
    let owner = Owner::current("switch-test").unwrap();
    let template = NodeTemplate::prepare(SWITCH).unwrap();
    let created = template
        .create(3, &Globals::at(dir.path()), &owner)
        .unwrap();
    for ns in &created.nodes {
        assert_eq!(lacking(ns, SWITCH), [""; 0]);
    }
}

#[test]
fn without_the_global_switch_settings_are_written() {
    // Inside another namespace the switch is not there: the slow way must give the same.
    let outer = NetNs::new().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let created = outer
        .run(|| {
            assert!(!sysctl::exists(INHERIT));
            let owner = Owner::current("slow-test").unwrap();
            let template = NodeTemplate::prepare(ROUTER).unwrap();
            let t = Instant::now();
            let created = template
                .create(50, &Globals::at(dir.path()), &owner)
                .unwrap();
            println!("50 nodes, settings written: {:.1?}", t.elapsed());
            created
        })
        .unwrap();
    assert_eq!(created.inherited, 0);
    for ns in &created.nodes {
        assert_eq!(lacking(ns, ROUTER), [""; 0]);
    }
}

#[test]
fn what_is_not_copied_is_written_in_every_node() {
    let _alone = SWITCH_USE.lock().unwrap_or_else(|e| e.into_inner());
    // The kernel copies all of `conf/` but the last two.
    let settings: &[Setting] = &[
        ("net/ipv4/conf/all/forwarding", "1"),
        ("net/ipv4/ip_default_ttl", "77"),
        ("net/ipv6/conf/all/disable_ipv6", "1"),
        ("net/ipv6/conf/default/autoconf", "0"),
        ("net/ipv6/conf/default/disable_ipv6", "1"),
    ];
    let dir = tempfile::tempdir().unwrap();
    let owner = Owner::current("ttl-test").unwrap();
    let template = NodeTemplate::prepare(settings).unwrap();
    let created = template
        .create(9, &Globals::at(dir.path()), &owner)
        .unwrap();
    for ns in &created.nodes {
        assert_eq!(lacking(ns, settings), [""; 0]);
    }
}

#[test]
fn an_impossible_setting_is_an_error() {
    assert!(NodeTemplate::prepare(&[("net/ipv4/no_such_thing", "1")]).is_err());
    assert!(NodeTemplate::prepare(&[("net/ipv4/ip_default_ttl", "9999")]).is_err());
}

#[test]
fn expedited_grace_periods_end() {
    let _alone = SWITCH_USE.lock().unwrap_or_else(|e| e.into_inner());
    let dir = tempfile::tempdir().unwrap();
    let globals = Globals::at(dir.path());
    let owner = Owner::current("rcu-test").unwrap();
    let held = rcu::Expedited::hold(&globals, &owner).unwrap();
    if held.is_effective() {
        assert_eq!(
            std::fs::read_to_string("/sys/kernel/rcu_expedited")
                .unwrap()
                .trim(),
            "1"
        );
    }
    held.finish().unwrap();
    assert!(globals.owners().unwrap().is_empty());
}

/// If the previous value of the switch cannot be recorded, it stays as it is and work goes on.
#[test]
fn without_room_for_the_journal_nothing_is_expedited() {
    let _alone = SWITCH_USE.lock().unwrap_or_else(|e| e.into_inner());
    let disk = SmallDisk::mount();
    let globals = Globals::at(disk.path().join("host"));
    let owner = Owner::current("rcu-full").unwrap();
    disk.fill();
    let held = rcu::Expedited::hold(&globals, &owner).unwrap();
    assert!(!held.is_effective());
    held.finish().unwrap();
    assert!(globals.owners().unwrap().is_empty());
    disk.drain();
    let held = rcu::Expedited::hold(&globals, &owner).unwrap();
    assert!(!held.lacks_room());
    held.finish().unwrap();
}
