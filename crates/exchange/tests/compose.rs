//! Docker Compose files become scenarios that are valid, and what is not carried over is said with its reason.

use constel_exchange::compose::{is_one, parse};
use constel_exchange::draft::Draft;
use constel_plan::Lab;
use constel_scenario::{DiskFiles, resolve};

const SHOP: &str = include_str!("data/compose.yaml");

fn beside(path: &str) -> Option<String> {
    match path {
        ".env" => Some("DB_IMAGE=postgres:16\nNONE=here\n".to_owned()),
        "api.env" => Some("A=0\nFROM_FILE=yes\n".to_owned()),
        _ => None,
    }
}

fn lab(draft: &Draft) -> Lab {
    let yaml = draft.yaml();
    let parsed =
        constel_scenario::parse("imported.yaml", &yaml).unwrap_or_else(|e| panic!("{e}\n{yaml}"));
    let scenario = resolve(&parsed, &DiskFiles::beside("imported.yaml"))
        .unwrap_or_else(|e| panic!("{e}\n{yaml}"));
    Lab::new(scenario).unwrap_or_else(|e| panic!("{e}\n{yaml}"))
}

#[test]
fn services_are_hosts_and_networks_are_cables() {
    assert!(is_one(SHOP) && !is_one("constel: 1\nservices: {}\n") && !is_one("a: ["));
    let draft = parse(SHOP, "folder", &beside).unwrap();
    let yaml = draft.yaml();
    let expected = r#"
ground:
  hosts:
    web:
      latitude: 0 deg
      longitude: 0 deg
      node:
        image: "nginx:1.27"
        command: ["nginx", "-g", "daemon off;"]
        env: {"LOG": "info", "TZ": "UTC", "WORKERS": "2"}
        mounts: [{host: "./site", at: "/usr/share/nginx/html"}, {host: "./log", at: "/var/log/nginx", read_only: false}]
        capabilities: {add: [NET_ADMIN], drop: [ALL]}
        limits: {cpu: 0.5, memory: 134217728 B, pids: 50}
        restart: always
    api-server:
      latitude: 0 deg
      longitude: 0 deg
      node:
        image: "web-shop-api-server"
        entrypoint: ["/bin/app", "--listen", "0.0.0.0:8000"]
        command: ["serve"]
        workdir: "/srv"
        user: "1000:1000"
        env: {"A": "1", "B": "x y", "FROM_FILE": "yes", "NONE": "here"}
        seccomp: none
        limits: {memory: 67108864 B}
        restart: on-failure
        health: {command: ["true"], interval: 5000 ms, retries: 2}
    db:
      latitude: 0 deg
      longitude: 0 deg
      node:
        image: "postgres:16"
        limits: {cpu: 1.5}
        stop: {signal: INT, grace: 60000 ms}
"#;
    // A list of variables replaces the mapping that was taken over: merge keys go one mapping deep.
    assert!(yaml.contains(expected), "{yaml}");
    let cables = "
    back: {latitude: 0 deg, longitude: 0 deg}
    default: {latitude: 0 deg, longitude: 0 deg}
  cables:
    - {from: web, to: back, delay: 0 ms, link: {rate: 1 Gbit/s}}
    - {from: api-server, to: back, delay: 0 ms, link: {rate: 1 Gbit/s}}
    - {from: db, to: back, delay: 0 ms, link: {rate: 1 Gbit/s}}
    - {from: worker-1, to: default, delay: 0 ms, link: {rate: 1 Gbit/s}}
    - {from: worker-2, to: default, delay: 0 ms, link: {rate: 1 Gbit/s}}
    - {from: worker-3, to: default, delay: 0 ms, link: {rate: 1 Gbit/s}}
";
    assert!(yaml.ends_with(cables), "{yaml}");
    assert!(yaml.contains("\nname: web-shop\n"), "{yaml}");
    let lab = lab(&draft);
    assert_eq!(lab.layout.nodes().len(), 3 + 3 + 2);
    assert_eq!(lab.containers().count(), 6);
}

#[test]
fn what_is_left_out_is_said_with_its_reason() {
    let notes = parse(SHOP, "x", &beside).unwrap().notes.join("\n");
    for said in [
        "`web.ports` was not carried over: the host does not reach into nodes",
        "`web.hostname` was not carried over: the machine is called as the node",
        "`web.depends_on` was not carried over: all programs begin when the network stands",
        "`web.volumes.data` was not carried over: nothing is kept",
        "`web.volumes./var/run/docker.sock:/var/run/docker.sock` was not carried over: a socket",
        "`web.environment.MISSING` was not carried over",
        "`api_server` is called `api-server`",
        "`api_server.build` was not carried over: `constel image build --file DIR/Dockerfile DIR --name web-shop-api-server`",
        "`api_server.networks.back.aliases` was not carried over",
        "`api_server.restart` was not carried over: at most 3 times",
        "the copies of `worker` are called `worker-1` to `worker-3`",
        "`debug.profiles` was not carried over: it does not run by itself",
        "`networks.back.internal` was not carried over",
        "the network `front` has no member but `web`",
        "the network `back` (nodes: 3) is the router back",
        "`alone.network_mode` was not carried over: a node without cables",
        "`volumes` was not carried over",
    ] {
        assert!(notes.contains(said), "{said}:\n{notes}");
    }
    for unsaid in ["x-common", "`version`", "LOG_LEVEL", "DB_IMAGE"] {
        assert!(!notes.contains(unsaid), "{unsaid}:\n{notes}");
    }
    let notes = parse(SHOP, "x", &|_| None).unwrap_err().to_string();
    assert!(notes.contains("`api.env` cannot be read"), "{notes}");
}

#[test]
fn everything_wrong_is_said_at_once_with_its_line() {
    let text = "services:
  a: {image: x, cpus: 0.001, mem_limit: lots, cap_add: [FLY], restart: sometimes}
  b: {command: 'sh -c \"x'}
  c: [image]
  d: {image: '${X:?give it}', networks: [nowhere], volumes: ['a:b:c:d'], privileged: true}
  e: {image: x, image: y}
";
    let wrong = parse(text, "x", &|_| None).unwrap_err().to_string();
    for said in [
        "line 2: `a.cpus` is `0.001`, which is not a number of processors from 0.01 to 4096",
        "line 2: `a.mem_limit` is `lots`",
        "line 2: `a.cap_add`: `FLY` is no capability",
        "line 2: `a.restart` is `sometimes`",
        "line 3: `b.command` has a quote that is not closed",
        "line 3: `b` has neither `image` nor `build`",
        "line 4: `c` is a list, and should be a mapping",
        "line 5: `d.image`: the variable `X` has no value: give it",
        "line 5: `d.volumes`: `a:b:c:d` is no SOURCE:TARGET[:MODE]",
        "line 6: `e` has `image` twice",
    ] {
        assert!(wrong.contains(said), "{said}:\n{wrong}");
    }
    for text in [
        "",
        "services:",
        "services: {}",
        "services: 7",
        "version: 3",
        "a: *b",
        "services: {a: !x {}}",
    ] {
        assert!(parse(text, "x", &|_| None).is_err(), "{text}");
    }
}

/// Each line takes over the one before it, twice.
#[test]
fn anchors_do_not_fill_the_memory() {
    let mut bomb = String::from("x0: &a0 {k0: v}\n");
    for n in 1..40 {
        let before = n - 1;
        bomb += &format!("x{n}: &a{n} {{k{n}: [*a{before}, *a{before}]}}\n");
    }
    bomb += "services: {a: {image: x, <<: *a39}}\n";
    let wrong = parse(&bomb, "x", &|_| None).unwrap_err().to_string();
    assert!(wrong.contains("counting what aliases stand for"), "{wrong}");
    let many = "services: {a: {image: x, scale: 100000}}";
    assert!(parse(many, "x", &|_| None).is_err());
}

/// More nodes than one router has room for.
#[test]
fn a_large_network_has_several_routers() {
    let draft = parse(
        "services: {a: {image: x, deploy: {replicas: 40}}}",
        "x",
        &|_| None,
    )
    .unwrap();
    let lab = lab(&draft);
    assert_eq!(lab.layout.nodes().len(), 40 + 3);
    assert_eq!(draft.cables.len(), 40 + 2);
    assert!(
        draft
            .notes
            .join("\n")
            .contains("the router default, default-2, default-3"),
        "{:?}",
        draft.notes
    );
}

/// Two services without networks have one cable between them.
#[test]
fn the_smallest_file_is_two_nodes_and_a_cable() {
    let text = "services:\n  a: {image: x}\n  b: {image: y, entrypoint: []}\n";
    let draft = parse(text, "x", &|_| None).unwrap();
    let one = parse("services: {a: {image: x}}", "x", &|_| None).unwrap();
    assert_eq!(
        lab(&one).layout.nodes().len(),
        2,
        "with what it is linked to"
    );
    assert_eq!(lab(&draft).layout.nodes().len(), 2);
    assert!(
        draft.yaml().contains("- {from: a, to: b, "),
        "{}",
        draft.yaml()
    );
}
