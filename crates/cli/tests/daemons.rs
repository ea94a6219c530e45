//! Routing daemons other than BIRD's OSPF in a small constellation, alone and with BGP between systems:
//! routes converge, pings pass, a killed daemon is an event and is started again, and the host is left as it
//! was, FRR's folders included.

use crate::support;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use rustix::process::{Pid, Signal};
use support::container::events;
use support::host::Host;
use support::lab::Lab;
use support::{CONSTEL, constel, judged, scenario, stderr, stdout, until};

/// The folders in which FRR's daemons would write, had their nodes no folders of their own.
const FRR_FOLDERS: [&str; 2] = ["/run/frr", "/var/tmp/frr"];

/// A case: its routing, what it has on the ground besides two cities, and who talks to whom in which families.
struct Case<'a> {
    name: &'static str,
    /// The constellation's name.
    sky: &'static str,
    routing: &'a str,
    ground: &'static str,
    ends: (&'static str, &'static str),
    families: &'static [&'static str],
    /// Whether something in the nodes listens to what their kernels announce.
    listens: bool,
}

/// The scenario of most cases: two cities only, both families, daemons that follow their kernels.
const CITIES: Case<'static> = Case {
    name: "",
    sky: "sat",
    routing: "",
    ground: "",
    ends: ("tokyo", "london"),
    families: &["ipv4", "ipv6"],
    listens: true,
};

/// Eight satellites so high that each sees a quarter of the Earth, and two cities.
fn small(dir: &Path, case: &Case<'_>) -> PathBuf {
    let Case {
        name,
        sky,
        routing,
        ground,
        ..
    } = case;
    let (from, to) = case.ends;
    let flow = |family: &&str| {
        format!(
            "  - {{name: ping-{family}, at: 0 s, for: 3 s, ping: {{from: {from}, to: {to}, interval: 500 ms, family: {family}}}}}\n"
        )
    };
    let traffic: String = case.families.iter().map(flow).collect();
    let text = format!(
        "constel: 1
name: {name}
start: 2026-11-21T00:00:00Z
duration: 60 s
step: 1 s
clock: {{hold: until-routes-converge}}
constellations:
  {sky}:
    walker: {{pattern: delta, inclination: 56 deg, satellites: 8, planes: 2, phasing: 1, altitude: 10000 km}}
    isl: {{pattern: plus-grid, link: {{rate: 100 Mbit/s}}}}
    gsl: {{min_elevation: 5 deg, beams: 1, policy: longest-visible, link: {{rate: 50 Mbit/s}}}}
ground:
  stations:
    tokyo: {{latitude: 35.69 deg, longitude: 139.69 deg}}
    london: {{latitude: 51.51 deg, longitude: -0.13 deg}}
{ground}routing: {{{routing}, restart: {{after: 100 ms, at_most: 1 s}}}}
traffic:
{traffic}"
    );
    scenario::write(dir, &format!("{name}.yaml"), &text)
}

/// The output of a shell in a node for these words.
fn shell(lab: &str, node: &str, words: &str) -> String {
    let mut shell = Command::new(CONSTEL)
        .args(["shell", lab, node])
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = shell.stdin.take().unwrap();
    writeln!(input, "{words}").unwrap();
    drop(input);
    let output = shell.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    stdout(&output)
}

/// Runs it; kills `victim`, one of tokyo's daemons, when the pings are over; ends it when all run again.
fn works(case: &Case<'_>, daemons: &[(&str, u64)], victim: &str) {
    let name = case.name;
    let host = Host::take();
    let before = FRR_FOLDERS.map(picture);
    let dir = tempfile::tempdir().unwrap();
    let file = small(dir.path(), case);
    let mut lab = Lab::up(name, &file, dir.path(), &[]);
    // The daemons' own tools find them, and the machine is called as the node.
    let console: &[&str] = match daemons[0].0 {
        "bird" => &["birdc", "show", "status"],
        _ => &["vtysh", "-c", "show version"],
    };
    let exec = |command: &[&str]| {
        let node = ["exec", lab.name.as_str(), "tokyo", "--"];
        let output = constel(node.iter().chain(command));
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let said = exec(console);
    assert!(
        said.contains("Daemon is up and running") || said.contains("FRRouting"),
        "{said}"
    );
    assert_eq!(exec(&["hostname"]), "tokyo\n");
    assert_eq!(
        shell(&lab.name, "tokyo", "echo \"$PS1\"; hostname"),
        "tokyo# \ntokyo\n"
    );
    until("the pings are over", || {
        let ended = events(&lab, "flow-ended");
        (ended.len() == case.families.len()).then_some(())
    });

    let killed = daemon(&lab, victim);
    assert_eq!(listens(killed), case.listens);
    rustix::process::kill_process(Pid::from_raw(killed).unwrap(), Signal::KILL).unwrap();
    let died = until("its death is an event", || {
        event(&lab, "daemon-died", victim)
    });
    assert!(died.contains("tokyo"), "{died}");
    // With zebra the others of its node start again.
    let again = daemons
        .iter()
        .filter(|(program, _)| *program == victim || victim == "zebra");
    for (program, _) in again {
        until("it is started again", || {
            event(&lab, "daemon-restarted", program)
        });
    }
    assert_ne!(daemon(&lab, victim), killed);

    lab.interrupt();
    let summary = lab.summary();
    let convergence = &summary["convergence"];
    // At least both ways between two, in each family.
    let pairs = convergence["pairs"].as_u64().unwrap();
    assert!(pairs >= 2 * case.families.len() as u64, "{convergence:#}");
    assert!(
        convergence["control"]["frames"].as_u64().unwrap() > 0,
        "{convergence:#}"
    );
    let changes = summary["changes"].as_array().unwrap();
    assert!(
        changes.iter().any(|row| row["kind"] == "daemon-died"),
        "{changes:#?}"
    );
    // Neighbours that get no processor time for as long as OSPF waits are given up, and their routes with them.
    let is_judged = judged(&summary);
    let flows = summary["flows"].as_array().unwrap();
    assert_eq!(flows.len(), case.families.len());
    for flow in flows {
        assert_eq!(flow["status"], "ok", "{flow:#}");
        let sent = flow["sent_packets"].as_f64().unwrap();
        let lost = flow["loss_ratio"].as_f64().unwrap() * sent;
        assert!(lost < sent, "{flow:#}");
        // The last may still be on its way when ping ends.
        assert!(!is_judged || sent >= 5.0 && lost < 1.5, "{flow:#}");
    }
    let counted: BTreeMap<&str, u64> = summary["daemons"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["when"] == "end")
        .map(|row| {
            let program = row["program"].as_str().unwrap();
            (program, row["count"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(counted, daemons.iter().copied().collect());
    host.assert_as_before(name);
    assert_eq!(FRR_FOLDERS.map(picture), before);
}

#[test]
fn frr_speaks_ospf() {
    let case = Case {
        name: "frr-ospf",
        routing: "daemon: frr, protocol: ospf",
        ..CITIES
    };
    let daemons = [("zebra", 10), ("ospfd", 10), ("ospf6d", 10)];
    works(&case, &daemons, "zebra");
}

#[test]
fn frr_speaks_isis() {
    let case = Case {
        name: "frr-isis",
        routing: "daemon: frr, protocol: isis",
        ..CITIES
    };
    works(&case, &[("zebra", 10), ("isisd", 10)], "isisd");
}

#[test]
fn bird_speaks_babel() {
    let case = Case {
        name: "babel",
        routing: "daemon: bird, protocol: babel",
        ..CITIES
    };
    works(&case, &[("bird", 10)], "bird");
}

#[test]
fn bird_speaks_ospf_without_hearing_its_kernel() {
    let case = Case {
        name: "deaf",
        routing: "daemon: bird, protocol: ospf, kernel_events: false",
        listens: false,
        ..CITIES
    };
    works(&case, &[("bird", 10)], "bird");
}

/// A lab and a constellation with names as long as may be: sockets lie in folders of nodes, and the kernel refuses
/// those whose paths are longer than 107 bytes.
#[test]
fn daemons_run_in_nodes_of_the_longest_names() {
    let case = Case {
        name: "bird-with-longest-name",
        sky: "a-constellation-whose-name-has-forty-eight-signs",
        routing: "daemon: bird, protocol: ospf",
        ..CITIES
    };
    assert_eq!((9 + case.name.len(), case.sky.len()), (31, 48));
    works(&case, &[("bird", 10)], "bird");
}

/// A user behind one gateway and a server behind the other, in systems of their own.
const BEHIND: &str = "  hosts:
    user: {latitude: 35.7 deg, longitude: 139.7 deg}
    server: {latitude: 51.5 deg, longitude: -0.1 deg}
  cables:
    - {from: user, to: tokyo, delay: 1 ms, link: {rate: 1 Gbit/s}}
    - {from: server, to: london, delay: 1 ms, link: {rate: 1 Gbit/s}}
";

#[test]
fn frr_speaks_bgp_between_systems() {
    let case = Case {
        name: "frr-bgp",
        routing: "daemon: frr, protocol: ospf, systems: {sky: {asn: 65001}, \
            user: {asn: 65002, nodes: [user]}, content: {asn: 65003, nodes: [server]}}",
        ground: BEHIND,
        ends: ("user", "server"),
        ..CITIES
    };
    let daemons = [("zebra", 12), ("ospfd", 12), ("ospf6d", 12), ("bgpd", 4)];
    works(&case, &daemons, "bgpd");
}

#[test]
fn bird_speaks_bgp_between_systems() {
    let case = Case {
        name: "bird-bgp",
        routing: "daemon: bird, protocol: ospf, systems: {sky: {asn: 65001}, \
            user: {asn: 65002, nodes: [user]}, content: {asn: 65003, nodes: [server]}}",
        ground: BEHIND,
        ends: ("user", "server"),
        ..CITIES
    };
    works(&case, &[("bird", 12)], "bird");
}

/// Cities that are each other's customers by satellites which are neither's: no cable, eBGP over ground links.
const SYSTEMS: &str = "systems: {sky: {asn: 65001}, east: {asn: 65002, nodes: [tokyo]}, west: {asn: 65003, nodes: [london]}}";

#[test]
fn bird_speaks_bgp_over_ground_links() {
    let routing = format!("daemon: bird, protocol: ospf, {SYSTEMS}");
    let case = Case {
        name: "bird-uplinks",
        routing: &routing,
        ..CITIES
    };
    works(&case, &[("bird", 10)], "bird");
}

#[test]
fn frr_speaks_bgp_over_ground_links() {
    let routing = format!("daemon: frr, protocol: ospf, {SYSTEMS}");
    let case = Case {
        name: "frr-uplinks",
        routing: &routing,
        ..CITIES
    };
    let daemons = [("zebra", 10), ("ospfd", 10), ("ospf6d", 10), ("bgpd", 4)];
    works(&case, &daemons, "bgpd");
}

/// A user behind a station that is the satellites' own; a server and its station in another system. Both planes are areas.
#[test]
fn areas_stand_beside_cables_and_bgp() {
    let case = Case {
        name: "bird-areas",
        routing: "daemon: bird, protocol: ospf, ospf: {areas: {planes: 1}}, systems: {sky: {asn: 65001}, \
            content: {asn: 65003, nodes: [server, london]}}",
        ground: BEHIND,
        ends: ("user", "server"),
        ..CITIES
    };
    works(&case, &[("bird", 12)], "bird");
}

/// The time until which routes must stand runs while daemons are started, too: ten of them, one each 400 ms.
#[test]
fn slow_starts_end_with_the_time_for_routes() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let case = Case {
        name: "slow-start",
        routing: "daemon: bird, protocol: ospf, start: {pace: 400 ms}, within: 1 s",
        ..CITIES
    };
    let file = small(dir.path(), &case);
    let results = dir.path().join("results");
    let output = constel([
        "run",
        file.to_str().unwrap(),
        "--results",
        results.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    let words = "routes did not converge within 1 s: only ";
    let (_, count) = said.split_once(words).expect(&said);
    assert!(count.contains(" daemons are started"), "{said}");
    host.assert_as_before(case.name);
}

#[test]
fn what_daemons_cannot_join_is_said_before() {
    let dir = tempfile::tempdir().unwrap();
    let says = |routing: &str, words: &str| {
        let case = Case {
            name: "refused",
            routing,
            families: &["ipv4"],
            ..CITIES
        };
        let file = small(dir.path(), &case);
        let output = constel([Path::new("check"), &file]);
        assert_eq!(output.status.code(), Some(4), "{routing}");
        let said = stderr(&output);
        assert!(said.contains(words), "{words}: {said}");
    };
    says(
        "daemon: frr, families: [ipv4], systems: {sky: {asn: 65001}, west: {asn: 65003, nodes: [london]}}",
        "`tokyo` is the satellites' own",
    );
    says(
        "daemon: bird, systems: {sky: {asn: 65001}, west: {asn: 65003, nodes: [sat-p00-s00]}}",
        "satellites belong to the system without `nodes`",
    );
    says(
        "daemon: bird, systems: {sky: {asn: 65001, reflectors: [london]}, west: {asn: 65003, nodes: [london]}}",
        "`london` is no station or host of this system",
    );
}

/// The files of a folder, with their times.
fn picture(folder: &str) -> BTreeMap<PathBuf, SystemTime> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| {
            let changed = entry.metadata().unwrap().modified().unwrap();
            (entry.path(), changed)
        })
        .collect()
}

/// The event of that kind about one of tokyo's programs.
fn event(lab: &Lab, kind: &str, program: &str) -> Option<String> {
    let text = fs::read_to_string(lab.results.join("events.ndjson")).ok()?;
    let quoted = [kind, "tokyo", program].map(|word| format!("\"{word}\""));
    text.lines()
        .find(|line| quoted.iter().all(|word| line.contains(word.as_str())))
        .map(str::to_owned)
}

/// Whether a socket in a process's network namespace has joined a group of rtnetlink's.
fn listens(pid: i32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/net/netlink")).unwrap();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_ascii_whitespace().collect())
        .collect();
    assert_eq!(rows[0][1..4], ["Eth", "Pid", "Groups"], "{text}");
    let routing = rows.iter().filter(|row| row[1] == "0");
    let groups: Vec<&str> = routing.map(|row| row[3]).collect();
    // The kernel's own socket, the engine's, and the daemon's for requests.
    assert!(groups.len() >= 3, "{text}");
    groups
        .iter()
        .any(|groups| u32::from_str_radix(groups, 16).unwrap() != 0)
}

/// The process number of one of tokyo's daemons.
fn daemon(lab: &Lab, program: &str) -> i32 {
    let marks = [
        format!("CONSTEL_LAB={}", lab.name),
        "CONSTEL_NODE=tokyo".to_owned(),
    ];
    until("the daemon is there", || {
        fs::read_dir("/proc").unwrap().find_map(|entry| {
            let pid: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
            let has = |mark: &String| environment.split(|b| *b == 0).any(|v| v == mark.as_bytes());
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
            (marks.iter().all(has) && name.trim() == program).then_some(pid)
        })
    })
}
