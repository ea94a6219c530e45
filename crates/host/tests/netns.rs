//! Namespaces: made, entered, left, and gone when no process holds them.

use std::time::Instant;

use constel_host::NetNs;
use constel_host::netlink::Socket;

#[test]
fn run_and_enter_change_only_the_right_thread() {
    let home = NetNs::current().unwrap().inode().unwrap();
    let ns = NetNs::new().unwrap();
    let inside = ns.inode().unwrap();
    assert_ne!(home, inside);
    let here = || NetNs::current().unwrap().inode().unwrap();
    assert_eq!(here(), home, "creation left the caller where it was");
    assert_eq!(ns.run(here).unwrap(), inside);
    assert_eq!(here(), home);
    let other = NetNs::new().unwrap();
    {
        let _outer = ns.enter().unwrap();
        assert_eq!(here(), inside);
        {
            let _inner = other.enter().unwrap();
            assert_eq!(here(), other.inode().unwrap());
        }
        assert_eq!(here(), inside);
    }
    assert_eq!(here(), home);
}

#[test]
fn another_handle_opens_the_same_namespace() {
    let ns = NetNs::new().unwrap();
    let again = NetNs::open(ns.proc_path()).unwrap();
    assert_eq!(again.inode().unwrap(), ns.inode().unwrap());
    assert_eq!(
        ns.try_clone().unwrap().inode().unwrap(),
        ns.inode().unwrap()
    );
    assert!(
        NetNs::open("/proc/self/ns/mnt").is_err(),
        "a mount namespace is refused"
    );
    assert!(NetNs::open("/dev/null").is_err(), "a device is refused");
}

#[test]
fn a_panic_inside_is_passed_on() {
    let ns = NetNs::new().unwrap();
    let r = std::panic::catch_unwind(|| ns.run(|| panic!("inside")));
    assert!(r.is_err());
}

#[test]
fn many_are_distinct_and_empty() {
    const N: usize = 200;
    let t = Instant::now();
    let all = NetNs::create_many(N, None).unwrap();
    println!(
        "{N} namespaces: {:.1?} ({:.2?} each)",
        t.elapsed(),
        t.elapsed() / N as u32
    );
    let mut inodes: Vec<_> = all.iter().map(|n| n.inode().unwrap()).collect();
    inodes.sort_unstable();
    inodes.dedup();
    assert_eq!(inodes.len(), N);
    let links = Socket::open_in(&all[N - 1]).unwrap().links().unwrap();
    assert_eq!(links.len(), 1);
    assert_eq!((&links[0].name[..], links[0].up), ("lo", false));
}
