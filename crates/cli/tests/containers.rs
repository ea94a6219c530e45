//! Nodes that are made of images, beside nodes that are not: what their programs have, what they may take, and what becomes
//! of them. Needs root and a static busybox, of which the images are made: nothing comes from a network.

use crate::support;

use std::fs;
use std::path::Path;

use constel_host::process::marked;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::container::{COMPUTED, events, exec, prepared, processor_share};
use support::host::Host;
use support::lab::Lab;
use support::{constel, netns, scenario, stderr, stdout, until};

#[test]
fn stations_of_an_image_live_beside_satellites_that_are_namespaces() {
    let host = Host::take();
    let nodes = "nodes:
  stations:
    image: box
    command: [sh, -c, 'ip addr; ip route; id; pwd; hostname; env; cat /etc/hosts; echo x > /mnt/x; exec sleep 1000']
    env: {ROLE: station, NUMBER: 7}
    mounts: [{host: site, at: /srv/site}, {host: out, at: /mnt, read_only: false}]
  overrides:
    - {nodes: ['w*t'], set: {user: web, workdir: /srv/site, env: {ROLE: gateway}}}
traffic:
  - {name: ping, at: 0 s, for: 5 s, ping: {from: west, to: east, interval: 100 ms, tool: ping}}
  - {name: probe, at: 0 s, for: 5 s, ping: {from: west, to: east, interval: 100 ms}}
  - {name: probe-back, at: 0 s, for: 5 s, ping: {from: east, to: west, interval: 100 ms, family: ipv6}}
  - {name: inside, at: 0 s, for: 5 s, run: {node: west, command: [sh, -c, 'id; cat /srv/site/index; cat /proc/1/comm']}}
";
    let (dir, file) = prepared("mixed.yaml", nodes);
    fs::create_dir(dir.path().join("site")).unwrap();
    fs::create_dir(dir.path().join("out")).unwrap();
    fs::write(dir.path().join("site/index"), "hello\n").unwrap();
    let mut lab = Lab::up("mixed", &file, dir.path(), &[]);
    let said = until("west's program speaks", || {
        let said = fs::read_to_string(lab.results.join("nodes/west/program.log")).ok()?;
        said.contains("/mnt/x").then_some(said)
    });
    let own = netns::loopback(&lab.node("west"));
    for words in [
        format!("inet {own}/"),
        "uid=33(web) gid=34(web) groups=34(web),44(logs)".to_owned(),
        "/srv/site\nwest\n".to_owned(),
        "ROLE=gateway".to_owned(),
        "NUMBER=7".to_owned(),
        "HOME=/srv".to_owned(),
        "CONSTEL_NODE_DIR=/run/constel-node".to_owned(),
        "can't create /mnt/x: Permission denied".to_owned(),
    ] {
        assert!(said.contains(&words), "{words}: {said}");
    }
    // Routes had converged before the program began.
    assert!(said.contains(&format!("src {own}")), "{said}");
    let out = until("east's program writes", || {
        fs::read(dir.path().join("out/x")).ok()
    });
    assert_eq!(out, b"x\n", "root writes where it may");

    let words = exec(
        &lab,
        "west",
        &[
            "sh",
            "-c",
            "id -un; echo $ROLE; hostname; pwd; touch /x; cat /proc/self/status",
        ],
    );
    assert!(words.contains("web\ngateway\nwest\n/srv/site\n"), "{words}");
    assert!(
        words.contains("Permission denied") && words.contains("Seccomp:\t2"),
        "{words}"
    );
    assert!(
        words.contains("NoNewPrivs:\t1") && words.contains("CapEff:\t0000000000000000"),
        "{words}"
    );
    let words = exec(&lab, "west", &["nothing"]);
    assert!(words.contains("execute nothing (found along"), "{words}");
    let words = exec(&lab, "sat-p00-s00", &["cat", "/proc/self/status"]);
    assert!(
        words.contains("Seccomp:\t0"),
        "a namespace has the host's rights: {words}"
    );
    // The container's files are not the host's, and no other node sees its writes.
    assert!(exec(&lab, "east", &["cat", "/etc/debian_version"]).contains("No such file"));
    exec(&lab, "east", &["touch", "/mine"]);
    assert!(exec(&lab, "west", &["cat", "/mine"]).contains("No such file"));

    let read = |name: &str| fs::read_to_string(lab.results.join(name)).unwrap_or_default();
    until("the flows are over", || {
        (read("flows/inside.out").contains("sh\n") || read("flows/inside.out").contains("sleep\n"))
            .then_some(())
    });
    let inside = read("flows/inside.out");
    assert!(
        inside.starts_with("uid=33(web)") && inside.contains("hello\n"),
        "{inside}"
    );
    let heard = [
        ("ping", "bytes from"),
        ("probe", ",ok\n"),
        ("probe-back", ",ok\n"),
    ];
    for (flow, words) in heard {
        until("the host's program hears the other node", || {
            read(&format!("flows/{flow}.out"))
                .contains(words)
                .then_some(())
        });
    }
    assert_eq!(events(&lab, "containers-started")[0]["count"], 2);
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    let summary = lab.summary();
    assert_eq!(summary["size"]["containers"], 2);
    host.assert_as_before("mixed");
}

#[test]
fn programs_that_end_are_started_again_and_greedy_ones_end_alone() {
    let host = Host::take();
    let nodes = "nodes:
  stations: {image: box, restart: always, command: [sleep, '1000']}
  overrides:
    - {nodes: [sat-p00-s00], set: {image: box, command: [dd, if=/dev/zero, of=/tmp/x, bs=1M, count=64], limits: {memory: 16 MiB}}}
    - {nodes: [sat-p00-s01], set: {image: box, command: [sh, -c, 'while true; do sleep 50 & done'], limits: {pids: 10, cpu: 0.2}}}
    - {nodes: [sat-p00-s02], set: {image: box, command: [sh, -c, 'exit 0']}}
";
    let (dir, file) = prepared("ends.yaml", nodes);
    let mut lab = Lab::up("ends", &file, dir.path(), &[]);
    let ended = |node: &str| {
        let all = events(&lab, "container-ended");
        all.into_iter().find(|event| event["node"] == node)
    };
    let greedy = until("the greedy one ends", || ended("sat-p00-s00"));
    assert_eq!(greedy["how"], "signal 9, at its limit of memory");
    assert_eq!(greedy["again_in_s"], Value::Null);
    let good = until("the short one ends", || ended("sat-p00-s02"));
    assert_eq!(good["how"], "exit code 0");
    let words = exec(&lab, "sat-p00-s02", &["id"]);
    assert!(words.contains("has ended"), "{words}");
    let forks = until("the forks are refused", || {
        let said = fs::read_to_string(lab.results.join("nodes/sat-p00-s01/program.log")).ok()?;
        said.contains("can't fork").then_some(said)
    });
    assert!(!forks.is_empty());

    let first = |lab: &Lab, node: &str| {
        let all = marked(Some(&lab.name)).unwrap();
        let mut of_node = all.into_iter().filter(|p| p.node.as_deref() == Some(node));
        of_node.next().map(|p| p.pid)
    };
    let pid = first(&lab, "east").unwrap();
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
    let event = until("its end is told", || ended("east"));
    assert_eq!(
        (&event["how"], &event["again_in_s"]),
        (&"signal 9".into(), &1.0.into())
    );
    until("it runs again", || {
        let again = events(&lab, "container-restarted");
        again
            .iter()
            .any(|event| event["node"] == "east")
            .then_some(())
    });
    assert_ne!(first(&lab, "east"), Some(pid));
    assert!(exec(&lab, "east", &["cat", "/proc/1/comm"]).starts_with("sleep"));
    assert!(
        exec(&lab, "east", &["ip", "addr"]).contains("inet "),
        "its interfaces are as before"
    );
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    let failures = lab.summary()["software"]["failures"].to_string();
    assert!(
        failures.contains("the program of sat-p00-s00 ended: signal 9"),
        "{failures}"
    );
    assert!(!failures.contains("sat-p00-s02"), "{failures}");
    host.assert_as_before("ends");
}

/// A fifth of a processor is a fifth, for the image's program and for who comes in, together; others are not held back.
#[test]
fn who_has_a_share_of_a_processor_gets_no_more() {
    let host = Host::take();
    let nodes = "nodes:
  stations: {image: box, command: [sleep, '1000']}
  overrides:
    - {nodes: [west], set: {limits: {cpu: 0.2}}}
    - {nodes: [sat-p00-s00], set: {image: box, command: [sh, -c, 'while :; do :; done'], limits: {cpu: 0.2}}}
";
    let (dir, file) = prepared("cpu.yaml", nodes);
    let mut lab = Lab::up("cpu", &file, dir.path(), &[]);
    let limited = processor_share(&lab, "west");
    assert!(limited < 0.3, "{limited}");
    let free = processor_share(&lab, "east");
    assert!(free > limited, "{free} {limited}");
    let beside = processor_share(&lab, "sat-p00-s00");
    assert!(beside < 0.2, "with its program it has its share: {beside}");
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    host.assert_as_before("cpu");
}

#[test]
fn after_kill_9_no_container_is_left() {
    let host = Host::take();
    let nodes = "nodes: {stations: {image: box, command: [sh, -c, 'sleep 1000 & exec sleep 1000']}, satellites: {image: box, command: [sleep, '1000']}}\n";
    let (dir, file) = prepared("dies.yaml", nodes);
    let mut lab = Lab::up("dies", &file, dir.path(), &[]);
    let living = |lab: &Lab| marked(Some(&lab.name)).unwrap().len();
    // 14 containers, of which two have a second process, beside the lab's init.
    until("all run", || (living(&lab) == 17).then_some(()));
    lab.signal(Signal::KILL);
    lab.ended();
    until("all have ended", || (living(&lab) == 0).then_some(()));
    let output = constel(["clean", &lab.name]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    host.assert_as_before("dies");
}

#[test]
fn what_cannot_be_is_said_before_anything_is_made() {
    let host = Host::take();
    let nodes = "nodes:
  stations: {image: box}
  overrides:
    - {nodes: [west], set: {user: nobody, command: [sh], mounts: [{host: nowhere, at: /mnt}]}}
    - {nodes: [sat-p00-s00], set: {image: none}}
";
    let (dir, file) = prepared("missing.yaml", nodes);
    let mut lab = Lab::start("missing", &file, dir.path(), &[]);
    assert_eq!(lab.ended().code(), Some(5), "{}", lab.stderr());
    for words in [
        "the image box names no program: give `command`",
        "its user 'nobody' is not in its /etc/passwd",
        "nowhere does not exist and cannot be mounted",
        "there is no such image",
        "constel image list",
    ] {
        assert!(lab.stderr().contains(words), "{words}: {}", lab.stderr());
    }
    let nodes = "nodes:
  stations: {command: [sh]}
  satellites: {runtime: oci}
  hosts: {image: box}
  overrides:
    - {nodes: ['sat-p09-*'], set: {image: box}}
    - {nodes: ['sat-p01-*'], set: {runtime: docker, image: box, state: disk}}
    - {nodes: [sat-p01-s01], set: {kernel_events: false}}
    - {nodes: [sat-p00-s01], set: {runtime: docker}}
";
    let file = scenario::small(dir.path(), "wrong.yaml", COMPUTED, nodes);
    let output = constel([Path::new("check"), file.as_path()]);
    assert_eq!(output.status.code(), Some(4));
    for words in [
        "these keys have an effect only on nodes with an image",
        "`runtime: oci` needs an image, and nothing gives `sat-p00-s00` one",
        "`runtime: docker` needs an image, and nothing gives `sat-p00-s01` one",
        "`state: disk` is not for `sat-p01-s00`, whose `runtime` is `docker`",
        "`kernel_events: false` is not for `sat-p01-s01`, whose `runtime` is `docker`",
        "no node of the lab matches this",
        "no node is called `sat-p09-*`",
    ] {
        assert!(
            stderr(&output).contains(words),
            "{words}: {}",
            stderr(&output)
        );
    }
    let good = "nodes: {stations: {image: box, command: [sh], capabilities: {add: [NET_ADMIN]}}}\n";
    let file = scenario::small(dir.path(), "good.yaml", COMPUTED, good);
    let output = constel([Path::new("plan"), file.as_path(), Path::new("--json")]);
    let plan: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let nodes = plan["nodes"].as_array().unwrap();
    let west = nodes.iter().find(|node| node["name"] == "west").unwrap();
    assert_eq!(west["container"]["image"], "box");
    assert_eq!(
        west["container"]["capabilities_added"],
        serde_json::json!(["NET_ADMIN"])
    );
    assert!(nodes[0].get("container").is_none());
    host.assert_as_before("missing");
}
