//! Docker Compose files become valid scenarios, and parts that are left out are reported with their reason.

use constel_exchange::compose::{is_one, parse};
use constel_exchange::draft::Draft;
use constel_plan::Lab;
use constel_scenario::{DiskFiles, resolve};

const SHOP: &str = include_str!("data/compose.yaml");

fn beside(path: &str) -> Result<Option<String>, String> {
    Ok(match path {
        ".env" => Some("DB_IMAGE=postgres:16\nNONE=here\n".to_owned()),
        "api.env" => Some("A=0\nFROM_FILE=yes\n".to_owned()),
        _ => None,
    })
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
fn services_are_hosts_and_networks_are_switched() {
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
    let networks = "
networks:
  back: {members: [web, api-server, db], medium: switched}
  default: {members: [worker-1, worker-2, worker-3], medium: switched}
";
    assert!(yaml.ends_with(networks), "{yaml}");
    assert!(yaml.contains("\nname: web-shop\n"), "{yaml}");
    let lab = lab(&draft);
    assert_eq!(lab.layout.nodes().len(), 3 + 3);
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
        "is called `api-server`: `_` is not allowed in a name",
        "`api_server.build` was not carried over: `constel image build --file DIR/Dockerfile DIR --name web-shop-api-server`",
        "`api_server.networks.back.aliases` was not carried over",
        "`api_server.restart` was not carried over: at most 3 times",
        "the copies of `worker` are called `worker-1` to `worker-3`",
        "`debug.profiles` was not carried over: it does not run by itself",
        "`networks.back.internal` was not carried over",
        "the network `front` has no member but `web`",
        "`alone.network_mode` was not carried over: a node needs a network",
        "services find each other by the names of their nodes, and no longer by `api_server`, `worker`: change those names",
        "`volumes` was not carried over",
    ] {
        assert!(notes.contains(said), "{said}:\n{notes}");
    }
    for unsaid in ["x-common", "`version`", "LOG_LEVEL", "DB_IMAGE"] {
        assert!(!notes.contains(unsaid), "{unsaid}:\n{notes}");
    }
    let notes = parse(SHOP, "x", &|_| Ok(None)).unwrap_err().to_string();
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
    let wrong = parse(text, "x", &|_| Ok(None)).unwrap_err().to_string();
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
        assert!(parse(text, "x", &|_| Ok(None)).is_err(), "{text}");
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
    let wrong = parse(&bomb, "x", &|_| Ok(None)).unwrap_err().to_string();
    assert!(wrong.contains("counting what aliases stand for"), "{wrong}");
    let many = "services: {a: {image: x, scale: 100000}}";
    assert!(parse(many, "x", &|_| Ok(None)).is_err());
}

/// Any number of nodes, none of which anybody has to route for.
#[test]
fn a_large_network_is_one_network() {
    let text = "services: {a: {image: x, deploy: {replicas: 40}}}";
    let draft = parse(text, "x", &|_| Ok(None)).unwrap();
    assert_eq!(lab(&draft).layout.nodes().len(), 40);
    assert_eq!(draft.networks.len(), 1);
    let notes = draft.notes.join("\n");
    assert!(!notes.contains("router"), "{notes}");
}

/// Names that stay find services, and the note says that of no others.
#[test]
fn services_are_said_to_be_found_by_the_names_that_they_have() {
    let notes = |text: &str| parse(text, "x", &|_| Ok(None)).unwrap().notes.join("\n");
    let same = notes("services:\n  web: {image: x}\n  db: {image: y}\n");
    assert!(
        same.contains("services find each other by their names, as before"),
        "{same}"
    );
    let other = notes("services:\n  web_Front: {image: x}\n  db: {image: y}\n");
    assert!(!other.contains("as before"), "{other}");
    assert!(
        other.contains("and no longer by `web_Front`: change"),
        "{other}"
    );
}

/// A service that is in no network is left out; and where none is left, the error is about the file.
#[test]
fn a_service_without_a_network_is_no_node() {
    let text = "services:\n  a: {image: x}\n  b: {image: x}\n  lonely: {image: y, networks: []}\n";
    let draft = parse(text, "x", &|_| Ok(None)).unwrap();
    assert_eq!(lab(&draft).layout.nodes().len(), 2);
    let notes = draft.notes.join("\n");
    assert!(
        notes.contains("`lonely.networks` was not carried over: a node needs a network"),
        "{notes}"
    );
    let wrong = parse(
        "services:\n  lonely: {image: y, networks: []}\n",
        "x",
        &|_| Ok(None),
    )
    .unwrap_err();
    assert_eq!(wrong.0[0].line, 2, "{wrong:?}");
    assert!(
        wrong.0[0].reason.contains("no service is left"),
        "{wrong:?}"
    );
}

/// A network with one member gets another one, unless its member is in others.
#[test]
fn a_network_has_two_members() {
    let one = parse("services: {a: {image: x}}", "x", &|_| Ok(None)).unwrap();
    assert_eq!(
        lab(&one).layout.nodes().len(),
        2,
        "with what it is linked to"
    );
    let text = "services:\n  a: {image: x, networks: [p, q]}\n  b: {image: x, networks: [q]}\nnetworks: {p: {}, q: {}}\n";
    let two = parse(text, "x", &|_| Ok(None)).unwrap();
    assert_eq!(lab(&two).layout.nodes().len(), 2);
    let apart = "services:\n  a: {image: x, networks: [p, q]}\n  b: {image: x, networks: [r]}\nnetworks: {p: {}, q: {}, r: {}}\n";
    let apart = parse(apart, "x", &|_| Ok(None)).unwrap();
    assert_eq!(lab(&apart).layout.nodes().len(), 2 + 2);
}

/// Valid names stay, in any order of the file; each other name has a note with its line and the reason that is true.
#[test]
fn valid_names_stay_and_others_have_a_true_reason() {
    let read = |text: &str| {
        let draft = parse(text, "x", &|_| Ok(None)).unwrap();
        let mut hosts: Vec<&str> = draft.hosts.iter().map(|host| host.name.as_str()).collect();
        hosts.sort_unstable();
        // Each is a lab.
        assert_eq!(lab(&draft).layout.nodes().len(), hosts.len());
        (hosts.join(" "), draft.notes.join("\n"))
    };
    for text in [
        "services:\n  a_b: {image: x}\n  a-b: {image: x}\n",
        "services:\n  a-b: {image: x}\n  a_b: {image: x}\n",
    ] {
        let (hosts, notes) = read(text);
        assert_eq!(hosts, "a-b a-b-2");
        assert!(
            notes.contains(" is called `a-b-2`: `_` is not allowed in a name"),
            "{notes}"
        );
        assert!(notes.contains("and no longer by `a_b`: change"), "{notes}");
    }
    let (hosts, notes) = read(
        "services:\n  Web: {image: x}\n  web: {image: x}\n  web.1: {image: x, scale: 2}\n  web-1-1: {image: x}\n",
    );
    assert_eq!(hosts, "web web-1-1 web-1-1-2 web-1-2 web-2");
    assert!(
        notes.contains("`Web` (line 2) is called `web-2`: `W` is not allowed"),
        "{notes}"
    );
    // Words of YAML 1.1 and names that begin with a digit are names; numbers and `localhost` mean something else to programs.
    let (hosts, notes) = read(
        "services:\n  n: {image: x}\n  'null': {image: x}\n  4u: {image: x}\n  1: {image: x}\n  0x10: {image: x}\n  localhost: {image: x}\n",
    );
    assert_eq!(hosts, "4u n null service-0x10 service-1 service-localhost");
    for note in [
        "`1` (line 5) is called `service-1`: programs read a number as an IPv4 address",
        "`0x10` (line 6) is called `service-0x10`: programs read a number",
        "`localhost` (line 7) is called `service-localhost`: in each node it means the node itself",
    ] {
        assert!(notes.contains(note), "{note}:\n{notes}");
    }
    // Networks have the same rule, and numbers are names of theirs.
    let text = "services:\n  a: {image: x, networks: [n, b_c, b-c, '1']}\n  b: {image: x, networks: [n, b_c, b-c, '1']}\n\
                networks: {n: , b_c: , b-c: , '1': }\n";
    let draft = parse(text, "x", &|_| Ok(None)).unwrap();
    let mut networks: Vec<&str> = draft.networks.iter().map(|n| n.name.as_str()).collect();
    networks.sort_unstable();
    assert_eq!(networks, ["1", "b-c", "b-c-2", "n"]);
    assert_eq!(lab(&draft).layout.spec().networks.len(), 4);
    let notes = draft.notes.join("\n");
    assert!(
        notes.contains("the network `b_c` is called `b-c-2`: `_` is not allowed"),
        "{notes}"
    );
    assert_eq!(notes.matches("the network `").count(), 1, "{notes}");
}

/// Without it variables would be empty in silence, unless it does not exist.
#[test]
fn variables_that_cannot_be_read_are_an_error() {
    let text = "services: {a: {image: x, env_file: {path: own, required: false}}}";
    for (bad, says) in [
        (".env", "`.env` cannot be read: it is a named pipe"),
        ("own", "`own` cannot be read: it is a named pipe"),
    ] {
        let beside = |path: &str| match path == bad {
            true => Err("it is a named pipe".to_owned()),
            false => Ok(None),
        };
        let error = parse(text, "x", &beside).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    assert!(parse(text, "x", &|_| Ok(None)).is_ok());
}
