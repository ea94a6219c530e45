//! Nodes whose containers an engine makes, beside others: what they are, what becomes of them, what is left of them. Needs
//! root, a static busybox and dockerd, which each test starts for itself, or podman; without one they are skipped, with a message.

use crate::support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use constel_containers::engine::{ContainerOptions, Engine, LAB_LABEL, OWNER_LABEL};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::container::{self, COMPUTED, WITHIN, events};
use support::engine::{Daemon, Kind};
use support::host::{Host, LABS};
use support::lab::Lab;
use support::{CONSTEL, constel, finish, json, scenario, stderr, until, wait};

/// A folder with an image, an engine, and a scenario.
struct Bench {
    daemon: Daemon,
    file: PathBuf,
    dir: tempfile::TempDir,
}

impl Bench {
    fn new(nodes: &str) -> Option<Bench> {
        Bench::of(Kind::Docker, nodes)
    }

    fn of(kind: Kind, nodes: &str) -> Option<Bench> {
        let dir = tempfile::tempdir().unwrap();
        let daemon = Daemon::start(kind, dir.path())?;
        container::import(dir.path());
        let file = scenario::small(dir.path(), "engine.yaml", COMPUTED, nodes);
        Some(Bench { daemon, file, dir })
    }

    fn start(&self, name: &str) -> Lab {
        let host = self.daemon.host();
        let env = [("DOCKER_HOST", host.as_str())];
        Lab::start_with(name, &self.file, self.dir.path(), &[], &env)
    }

    fn up(&self, name: &str) -> Lab {
        let mut lab = self.start(name);
        lab.wait_running();
        lab
    }

    fn engine(&self) -> Engine {
        self.daemon.engine()
    }

    /// The engine's containers of a lab.
    fn containers(&self, lab: &Lab) -> usize {
        self.engine().containers(Some(&lab.name)).unwrap().len()
    }
}

fn exec(lab: &Lab, node: &str, script: &str) -> String {
    container::exec(lab, node, &["sh", "-c", script])
}

fn log(lab: &Lab, node: &str) -> String {
    let file = format!("nodes/{node}/program.log");
    fs::read_to_string(lab.results.join(file)).unwrap_or_default()
}

const MIXED: &str = "nodes:
  stations: {image: box, env: {ROLE: station}}
  overrides:
    - nodes: [west]
      set:
        runtime: docker
        command: [sh, -c, 'echo I am $$; ip addr; ip route; id; pwd; hostname; env; cat /etc/hosts; echo x > /mnt/x; exec sleep 1000']
        user: web
        workdir: /srv/site
        mounts: [{host: site, at: /srv/site}, {host: out, at: /mnt, read_only: false}]
        limits: {memory: 64 MiB, pids: 50, cpu: 0.5}
    - {nodes: [east], set: {command: [sleep, '1000']}}
    - nodes: [sat-p00-s00]
      set: {runtime: docker, image: box, command: [sh, -c, 'echo I am $$; sleep 1; exit 3'], restart: on-failure}
traffic:
  - {name: ping, at: 0 s, for: 5 s, ping: {from: west, to: east, interval: 100 ms}}
  - {name: inside, at: 0 s, for: 5 s, run: {node: west, command: [sh, -c, 'id; cat /srv/site/index; cat /proc/1/comm']}}
";

#[test]
fn nodes_of_an_engine_are_as_those_that_we_make() {
    let host = Host::take();
    let Some(bench) = Bench::new(MIXED) else {
        return;
    };
    let dir = bench.dir.path();
    fs::create_dir(dir.join("site")).unwrap();
    fs::create_dir(dir.join("out")).unwrap();
    fs::write(dir.join("site/index"), "hello\n").unwrap();
    let mut lab = bench.up("engine");
    assert_eq!(
        bench.containers(&lab),
        2,
        "east and the other satellites are not the engine's"
    );

    let said = until("west's program speaks", || {
        Some(log(&lab, "west")).filter(|said| said.contains("/mnt/x"))
    });
    let own = support::netns::loopback(&lab.node("west"));
    for words in [
        "I am 1\n".to_owned(),
        format!("inet {own}/"),
        // Routes had converged before the program began.
        format!("src {own}"),
        "uid=33(web) gid=34(web) groups=34(web),44(logs)".to_owned(),
        "/srv/site\nwest\n".to_owned(),
        "ROLE=station".to_owned(),
        "HOME=/srv".to_owned(),
        "CONSTEL_NODE_DIR=/run/constel-node".to_owned(),
        "inet6 ".to_owned(),
        "east".to_owned(),
        "can't create /mnt/x: Permission denied".to_owned(),
    ] {
        assert!(said.contains(&words), "{words}: {said}");
    }

    let words = exec(
        &lab,
        "west",
        "id -un; echo $ROLE; hostname; pwd; touch /x; cat /proc/self/status",
    );
    assert!(words.contains("web\nstation\nwest\n/srv/site\n"), "{words}");
    for word in [
        "Permission denied",
        "Seccomp:\t2",
        "NoNewPrivs:\t1",
        "CapEff:\t0000000000000000",
    ] {
        assert!(words.contains(word), "{word}: {words}");
    }
    let groups = exec(&lab, "west", "cat /proc/self/cgroup");
    let first = exec(&lab, "west", "cat /proc/1/cgroup");
    let memory = |text: &str| {
        text.lines()
            .find(|line| line.contains("memory"))
            .map(str::to_owned)
    };
    assert_eq!(
        memory(&groups),
        memory(&first),
        "who comes in has the container's limits"
    );

    // Files, in and out.
    let from = dir.join("site/index");
    let place = |name: &str| format!("sat-p00-s00:/{name}");
    let copied = constel(["cp", &lab.name, from.to_str().unwrap(), &place("copied")]);
    assert_eq!(copied.status.code(), Some(0), "{}", stderr(&copied));
    let out = dir.join("back");
    let copied = constel(["cp", &lab.name, &place("copied"), out.to_str().unwrap()]);
    assert_eq!(copied.status.code(), Some(0), "{}", stderr(&copied));
    assert_eq!(fs::read_to_string(out).unwrap(), "hello\n");

    // One program is started again, with its files as they were; its container's first process stays.
    let again = until("the satellite's program was started again", || {
        events(&lab, "container-restarted").pop()
    });
    assert_eq!(again["node"], "sat-p00-s00");
    let ended = &events(&lab, "container-ended")[0];
    assert!(ended.to_string().contains("exit code 3"), "{ended}");
    assert_eq!(exec(&lab, "sat-p00-s00", "cat /copied"), "hello\n");
    until("it speaks again", || {
        (log(&lab, "sat-p00-s00").matches("I am").count() > 1).then_some(())
    });

    let read = |name: &str| fs::read_to_string(lab.results.join(name)).unwrap_or_default();
    until("the flows are over", || {
        (events(&lab, "flow-ended").len() == 2).then_some(())
    });
    let inside = read("flows/inside.out") + &read("flows/inside/stdout");
    drop(inside);

    // The end of a container by another program is reported.
    let listed = bench.engine().containers(Some(&lab.name)).unwrap();
    let west = listed
        .iter()
        .find(|one| one.node.as_deref() == Some("west"))
        .unwrap();
    let first = bench.engine().first_process(&west.id).unwrap().unwrap();
    let first = Pid::from_raw(i32::try_from(first).unwrap()).unwrap();
    kill_process(first, Signal::KILL).unwrap();
    let ended = until("the lab hears of the end", || {
        let ended = events(&lab, "container-ended");
        ended.into_iter().find(|event| event["node"] == "west")
    });
    assert!(ended.to_string().contains("signal 9"), "{ended}");
    let refused = constel(["exec", &lab.name, "west", "--", "sh"]);
    assert!(
        stderr(&refused).contains("has ended"),
        "{}",
        stderr(&refused)
    );

    lab.interrupt();
    assert_eq!(bench.containers(&lab), 0, "{}", lab.stderr());
    let summary = lab.summary();
    let flows = summary["flows"].to_string();
    assert!(flows.contains("ping"), "{flows}");
    let manifest: Value =
        serde_json::from_slice(&fs::read(lab.results.join("manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["runtime"], "netns, oci, docker");
    drop((lab, bench));
    host.assert_as_before("after a lab with an engine");
}

#[test]
fn without_engine_or_image_nothing_begins() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let nodes = "nodes: {stations: {image: box, runtime: docker, command: [sleep, '9']}}\n";
    let file = scenario::small(dir.path(), "none.yaml", COMPUTED, nodes);
    let run = |socket: &str| {
        let mut command = Command::new(CONSTEL);
        command
            .arg("run")
            .arg(&file)
            .args(["--name", &format!("{LABS}none")]);
        command
            .env("XDG_CACHE_HOME", dir.path())
            .env("DOCKER_HOST", socket);
        command.current_dir(dir.path());
        let output = finish(command);
        assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
        stderr(&output)
    };
    let nobody = format!("unix://{}/nobody.sock", dir.path().display());
    let said = run(&nobody);
    assert!(
        said.contains("box") && said.contains("constel image"),
        "{said}"
    );
    container::import(dir.path());
    let said = run(&nobody);
    for words in [
        "nobody.sock",
        "cannot be reached",
        "runtime: docker",
        "DOCKER_HOST",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    host.assert_as_before("after labs that could not be");
}

const TWO: &str = "nodes: {stations: {image: box, runtime: docker, command: [sleep, '1000']}}\n";

/// A container of another program, with a label like ours.
fn others(engine: &Engine, label: (&str, &str)) -> String {
    let images = engine.ask(
        "GET",
        "/images/json",
        constel_containers::engine::Sent::Nothing,
    );
    let images = images.unwrap().json().unwrap();
    let order = ContainerOptions {
        name: format!("others{}", label.0.len()),
        image: images[0]["Id"].as_str().unwrap().to_owned(),
        argv: vec!["/bin/sleep".into(), "1000".into()],
        labels: vec![(label.0.to_owned(), label.1.to_owned())],
        ..ContainerOptions::default()
    };
    let id = engine.create(&order).unwrap();
    engine.start(&id).unwrap();
    id
}

#[test]
fn after_kill_9_clean_removes_our_containers_and_no_others() {
    let host = Host::take();
    let Some(bench) = Bench::new(TWO) else { return };
    let engine = bench.engine();
    let mut lab = bench.up("engine-kill");
    // Without a mark of ours, and with that of a process that lives.
    let unmarked = others(&engine, (LAB_LABEL, &lab.name));
    let mark = constel_host::ident::ProcessIdent::current().unwrap().mark();
    let living = others(&engine, (OWNER_LABEL, &mark));
    lab.kill9();
    assert_eq!(bench.containers(&lab), 3, "they live on");
    // The socket is remembered: no option names it here.
    let report = json(&constel(["clean", &lab.name, "--json"]));
    let removed = report["labs"][0]["removed"].as_array().unwrap();
    let containers = removed.iter().filter(|one| one["removed"] == "container");
    let nodes: Vec<_> = containers
        .map(|one| one["node"].as_str().unwrap())
        .collect();
    assert_eq!(nodes.len(), 2, "{report}");
    assert!(
        nodes.contains(&"west") && nodes.contains(&"east"),
        "{report}"
    );
    assert_eq!(report["labs"][0]["problems"], serde_json::json!([]));
    for id in [unmarked, living] {
        assert!(engine.first_process(&id).unwrap().is_some(), "others' live");
        engine.remove(&id, WITHIN).unwrap();
    }
    drop((lab, bench));
    host.assert_as_before("after kill -9 and clean");
}

#[test]
fn a_lab_outlives_its_engine_and_ends_clearly() {
    let host = Host::take();
    let Some(mut bench) = Bench::new(TWO) else {
        return;
    };
    let mut lab = bench.up("engine-dead");
    let listed = bench.engine().containers(Some(&lab.name)).unwrap();
    let east = listed
        .iter()
        .find(|one| one.node.as_deref() == Some("east"));
    let east = bench.engine().first_process(&east.unwrap().id).unwrap();
    bench.daemon.kill9();
    // The containers are the kernel's: what runs goes on.
    assert!(exec(&lab, "west", "hostname").contains("west"));
    let east = Pid::from_raw(i32::try_from(east.unwrap()).unwrap()).unwrap();
    kill_process(east, Signal::KILL).unwrap();
    let ended = until("the lab hears of an end", || {
        events(&lab, "container-ended").pop()
    });
    assert!(ended.to_string().contains("nobody says how"), "{ended}");
    lab.signal(Signal::INT);
    let status = wait(&mut lab.child);
    let status = status.unwrap_or_else(|| panic!("it does not end: {}", lab.stderr()));
    assert!(!status.success(), "something of it is left");
    let said = lab.stderr();
    assert!(
        said.contains("the engine at") && said.contains("cannot be reached"),
        "{said}"
    );
    bench.daemon.start_again();
    let mut command = Command::new(CONSTEL);
    command.args(["clean", &lab.name]);
    command.env("DOCKER_HOST", bench.daemon.host());
    let output = finish(command);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let left = bench.engine().containers(Some(&lab.name)).unwrap();
    for one in &left {
        bench.engine().remove(&one.id, WITHIN).unwrap();
    }
    assert!(left.is_empty(), "clean removes them: {left:?}");
    drop((lab, bench));
    host.assert_as_before("after an engine that died");
}

const KILLED: &str = "nodes:
  stations: {image: box, runtime: docker, restart: on-failure, command: [sh, -c, 'echo I am $$; exec sleep 1000']}
  overrides:
    - {nodes: [west], set: {user: web, limits: {memory: 64 MiB, pids: 10, cpu: 0.5}}}
";

/// The first process of a node's container, by the engine.
fn first_of(engine: &Engine, lab: &Lab, node: &str) -> Option<u32> {
    let listed = engine.containers(Some(&lab.name)).unwrap();
    let mut listed = listed
        .iter()
        .filter(|one| one.node.as_deref() == Some(node));
    engine.first_process(&listed.next()?.id).unwrap()
}

/// The engine's parts go, and come again; the node's parts stay: its network, with everything in it.
fn containers_that_are_killed_are_made_anew(kind: Kind) {
    let host = Host::take();
    let Some(bench) = Bench::of(kind, KILLED) else {
        return;
    };
    let mut lab = bench.up(&format!("anew-{kind:?}").to_lowercase());
    let engine = bench.engine();
    let network = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/net")).unwrap();
    let network_now = || exec(&lab, "west", "ip -o addr; ip route; ip -6 route");
    let before = first_of(&engine, &lab, "west").unwrap();
    let (space, had) = (network(before), network_now());
    assert!(had.contains("inet ") && had.contains("src "), "{had}");
    // One that began before and goes on: it is the node's, not the container's.
    let east = support::netns::loopback(&lab.node("east"));
    let heard = |node: &str| {
        let said = exec(&lab, node, &format!("ping -c 1 -W 1 {east} || true"));
        said.contains("1 packets received")
    };

    let pid = Pid::from_raw(i32::try_from(before).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    let of = |kind: &str| {
        let all = events(&lab, kind).into_iter();
        all.filter(|event| event["node"] == "west")
            .collect::<Vec<_>>()
    };
    until("it is made anew", || of("container-restarted").pop());
    let ended = &of("container-ended")[0];
    assert_eq!(
        (&ended["how"], &ended["again_in_s"]),
        (&"signal 9".into(), &1.0.into())
    );
    let after = first_of(&engine, &lab, "west").unwrap();
    assert_ne!(after, before);
    assert_eq!(network(after), space, "the node's network is the same one");
    assert_eq!(network_now(), had, "with what was in it");
    assert_eq!(bench.containers(&lab), 2, "who lent the network has gone");
    let words = exec(
        &lab,
        "west",
        "id -un; hostname; cat /proc/self/status; cat /etc/hosts",
    );
    for word in [
        "web\nwest\n",
        "CapEff:\t0000000000000000",
        "Seccomp:\t2",
        "NoNewPrivs:\t1",
        "east",
    ] {
        assert!(words.contains(word), "{word}: {words}");
    }
    until("its program speaks again", || {
        (log(&lab, "west").matches("I am").count() == 2).then_some(())
    });
    until("it hears the other station", || heard("east").then_some(()));

    lab.interrupt();
    assert_eq!(bench.containers(&lab), 0, "{}", lab.stderr());
    drop((lab, bench));
    host.assert_as_before("after a container was made anew");
}

#[test]
fn a_container_of_docker_that_is_killed_is_made_anew() {
    containers_that_are_killed_are_made_anew(Kind::Docker);
}

#[test]
fn a_container_of_podman_that_is_killed_is_made_anew() {
    containers_that_are_killed_are_made_anew(Kind::Podman);
}

const GREEDY: &str = "nodes:
  stations: {image: box, runtime: docker, command: [sleep, '1000'], limits: {memory: 16 MiB, pids: 12, cpu: 0.2}}
  overrides:
    - {nodes: [west], set: {command: [dd, if=/dev/zero, of=/tmp/x, bs=1M, count=64]}}
    - {nodes: [sat-p00-s00], set: {image: box, runtime: docker, restart: on-failure, command: [dd, if=/dev/zero, of=/tmp/x, bs=1M, count=64], limits: {memory: 16 MiB}}}
    - {nodes: [sat-p00-s01], set: {image: box, runtime: docker, command: [sh, -c, 'while true; do sleep 50 & done'], limits: {pids: 12}}}
";

/// As in containers that we make ourselves.
#[test]
fn limits_hold_in_containers_of_an_engine() {
    let host = Host::take();
    let Some(bench) = Bench::new(GREEDY) else {
        return;
    };
    let mut lab = bench.up("engine-limits");
    for (node, again) in [("west", Value::Null), ("sat-p00-s00", 1.0.into())] {
        let ended = until("the greedy one ends", || {
            let mut all = events(&lab, "container-ended").into_iter();
            all.find(|event| event["node"] == node)
        });
        assert_eq!(ended["how"], "signal 9, at its limit of memory", "{node}");
        assert_eq!(ended["again_in_s"], again, "{node}");
    }
    until("the forks are refused", || {
        log(&lab, "sat-p00-s01")
            .contains("can't fork")
            .then_some(())
    });
    // A process that enters has its share of a processor too.
    let share = container::processor_share(&lab, "east");
    assert!(share < 0.3, "{share}");
    lab.interrupt();
    let failures = lab.summary()["software"]["failures"].to_string();
    assert!(
        failures.contains("the program of west ended: signal 9"),
        "{failures}"
    );
    drop((lab, bench));
    host.assert_as_before("after greedy containers");
}

const SMALL: &str = "nodes:
  stations: {image: box, runtime: docker, command: [sh, -c, 'echo I am $$; ip route; exec sleep 1000'], user: web}
traffic:
  - {name: ping, at: 0 s, for: 5 s, ping: {from: west, to: east, interval: 100 ms}}
";

/// A small lab as above, on Podman's service.
#[test]
fn podman_is_an_engine_too() {
    let host = Host::take();
    let Some(bench) = Bench::of(Kind::Podman, SMALL) else {
        return;
    };
    let mut lab = bench.up("podman");
    assert_eq!(bench.containers(&lab), 2);
    let said = until("west's program speaks", || {
        Some(log(&lab, "west")).filter(|said| said.contains("src "))
    });
    assert!(said.contains("I am 1\n"), "{said}");
    let words = exec(
        &lab,
        "west",
        "id -un; hostname; cat /etc/hosts; cat /proc/self/status",
    );
    for word in [
        "web\nwest\n",
        "east",
        "NoNewPrivs:\t1",
        "CapEff:\t0000000000000000",
    ] {
        assert!(words.contains(word), "{word}: {words}");
    }
    until("the flow is over", || {
        (!events(&lab, "flow-ended").is_empty()).then_some(())
    });
    lab.interrupt();
    assert_eq!(bench.containers(&lab), 0, "{}", lab.stderr());
    let flow = &lab.summary()["flows"][0];
    assert_eq!(flow["name"], "ping", "{flow}");
    drop((lab, bench));
    host.assert_as_before("after a lab with Podman");
}

#[test]
fn doctor_knows_the_engine() {
    let dir = tempfile::tempdir().unwrap();
    let Some(daemon) = Daemon::start(Kind::Docker, dir.path()) else {
        return;
    };
    let doctor = |host: &str| {
        let mut command = Command::new(CONSTEL);
        command.args(["doctor", "--json"]).env("DOCKER_HOST", host);
        let output = finish(command);
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let items = found["items"].as_array().unwrap().clone();
        let item = items
            .into_iter()
            .find(|item| item["name"] == "container engine");
        (found["runtimes"]["docker"].clone(), item.unwrap())
    };
    let (works, item) = doctor(&daemon.host());
    assert_eq!(works, item["ok"]);
    let said = item["detail"].as_str().unwrap();
    assert!(
        said.starts_with("Docker ") && said.contains("(API 1."),
        "{said}"
    );
    let nobody = Path::new("/nobody.sock");
    let (works, item) = doctor(&format!("unix://{}", nobody.display()));
    assert_eq!(
        (works, &item["required"]),
        (Value::Bool(false), &Value::Bool(false))
    );
}
