//! `constel capture`, of a rule of a box and of a port of a node. The file is read here by the format's own
//! description, and its frames are counted against the link plane's counters.

use crate::support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use support::lab::Lab;
use support::{CONSTEL, constel, json, scenario, stderr, until, wait};

/// A frame of a file.
struct Frame {
    interface: usize,
    /// 0 neither, 1 in, 2 out.
    way: u32,
    comment: String,
    bytes: Vec<u8>,
}

/// A file as pcapng has it, little-endian.
struct Captured {
    interfaces: Vec<String>,
    frames: Vec<Frame>,
}

fn word(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

/// Options from `at` on, by their code.
fn options(body: &[u8], mut at: usize) -> BTreeMap<u16, Vec<u8>> {
    let mut found = BTreeMap::new();
    while at + 4 <= body.len() {
        let half = |at: usize| u16::from_le_bytes(body[at..at + 2].try_into().unwrap());
        let (code, len) = (half(at), usize::from(half(at + 2)));
        found.insert(code, body[at + 4..at + 4 + len].to_vec());
        at += 4 + len.next_multiple_of(4);
    }
    found
}

fn read(file: &Path) -> Captured {
    let bytes = fs::read(file).unwrap();
    let mut captured = Captured {
        interfaces: Vec::new(),
        frames: Vec::new(),
    };
    let mut at = 0;
    while at < bytes.len() {
        let (kind, len) = (word(&bytes, at), word(&bytes, at + 4));
        assert_eq!(word(&bytes, at + len - 4), len, "the same length twice");
        let body = &bytes[at + 8..at + len - 4];
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        match kind {
            1 => captured.interfaces.push(text(&options(body, 8)[&2])),
            6 => {
                let len = word(body, 12);
                let options = options(body, 20 + len.next_multiple_of(4));
                captured.frames.push(Frame {
                    interface: word(body, 0),
                    way: word(&options[&2], 0) as u32,
                    comment: text(&options[&1]),
                    bytes: body[20..20 + len].to_vec(),
                });
            }
            _ => {}
        }
        at += len;
    }
    captured
}

impl Captured {
    fn of(&self, interface: &str) -> Vec<&Frame> {
        let number = self.interfaces.iter().position(|name| name == interface);
        let number = number.unwrap_or_else(|| panic!("{interface}: {:?}", self.interfaces));
        let frames = self.frames.iter();
        frames.filter(|frame| frame.interface == number).collect()
    }
}

/// A capture in progress.
struct Capturing {
    child: Child,
    file: PathBuf,
}

impl Capturing {
    fn start(lab: &str, of: &str, file: &Path, flags: &[&str]) -> Capturing {
        let mut child = Command::new(CONSTEL)
            .args(["capture", lab, of, "--json", "-w"])
            .arg(file)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // The file begins when frames are shown.
        until("the capture begins", || {
            assert_eq!(child.try_wait().unwrap(), None, "it ended");
            (fs::metadata(file).ok()?.len() > 0).then_some(())
        });
        Capturing {
            child,
            file: file.to_owned(),
        }
    }

    /// Ctrl-C.
    fn end(self) -> (Value, Captured) {
        rustix::process::kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        self.ended()
    }

    fn ended(mut self) -> (Value, Captured) {
        let status = wait(&mut self.child).expect("it ends");
        assert_eq!(status.code(), Some(0));
        let said = serde_json::from_reader(self.child.stdout.take().unwrap()).unwrap();
        (said, read(&self.file))
    }
}

const BOX: &str = "constel: 1
name: capture
duration: 60 s
box:
  machines:
  - {name: near, addresses: [10.33.0.1/24]}
  - {name: far, addresses: [10.33.0.2/24]}
  rules:
  - name: lossy
    match: {protocol: icmp}
    forward: {delay: 10 ms, loss_law: {pattern: [{first: 2}, {first: 4, last: 5}]}}
    reverse: {delay: 10 ms}
";

fn ping(lab: &str, from: &str, to: &str, count: &str) {
    let ping = [
        "exec", lab, from, "--", "ping", "-4", "-n", "-q", "-i", "0.05", "-W", "1", "-c", count, to,
    ];
    assert_eq!(stderr(&constel(ping)), "");
}

#[test]
fn a_rule_is_seen_in_out_and_where_it_drops_through_edits_and_counters_agree() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("box.yaml");
    fs::write(&file, BOX).unwrap();
    let mut lab = Lab::start("capture", &file, dir.path(), &[]);
    until("the box is up", || {
        (lab.state()? == constel_host::claim::LabState::Running).then_some(())
    });
    let name = lab.name.clone();
    let wrong = constel(["capture", &name, "lousy", "-w", "/dev/null"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        stderr(&wrong).contains("nearest is 'lossy'"),
        "{}",
        stderr(&wrong)
    );
    let wrong = constel([
        "capture",
        &name,
        "lossy",
        "--filter",
        "protocol: imcp",
        "-w",
        "/dev/null",
    ]);
    assert!(stderr(&wrong).contains("imcp"), "{}", stderr(&wrong));

    let at = |what: &str| dir.path().join(format!("{what}.pcapng"));
    let rule = Capturing::start(&name, "lossy", &at("rule"), &[]);
    let wire = Capturing::start(&name, "near", &at("wire"), &["--filter", "protocol: icmp"]);
    let few = Capturing::start(&name, "lossy", &at("few"), &["--count", "3"]);
    ping(&name, "near", "10.33.0.2", "10");
    let slower = json!({"match": {"protocol": "icmp"}, "both": {"delay": "30 ms"}}).to_string();
    let edited = constel(["box", "edit", &name, "lossy", &slower]);
    assert!(edited.status.success(), "{}", stderr(&edited));
    ping(&name, "near", "10.33.0.2", "5");
    let (said, rule) = rule.end();
    assert_eq!(said["lost"], 0);
    assert_eq!(said["frames"], rule.frames.len());
    let shown = json(&constel(["box", "show", &name, "--json"]));
    let counted = |way: &str, what: &str| {
        let value = &shown["rules"][0]["directions"][way]["counters"][what];
        usize::try_from(value.as_u64().unwrap()).unwrap()
    };
    for way in ["forward", "reverse"] {
        let of = |stage: &str| rule.of(&format!("lossy {way} {stage}")).len();
        assert_eq!(of("in"), counted(way, "offered"), "{way}");
        assert_eq!(of("out"), counted(way, "delivered"), "{way}");
        assert_eq!(of("dropped"), counted(way, "dropped_loss"), "{way}");
    }
    assert_eq!(counted("forward", "offered"), 15);
    assert_eq!(counted("forward", "dropped_loss"), 3);
    for frame in rule.of("lossy forward dropped") {
        assert!(
            frame.comment.starts_with("lossy forward: dropped after"),
            "{}",
            frame.comment
        );
        assert!(
            frame.comment.ends_with("by the loss law"),
            "{}",
            frame.comment
        );
        assert_eq!(frame.way, 0);
    }
    let took_ms = |frame: &&Frame| {
        let rest = frame.comment.strip_prefix("lossy forward after ").unwrap();
        rest.strip_suffix(" ms").unwrap().parse::<f64>().unwrap()
    };
    let out: Vec<f64> = rule.of("lossy forward out").iter().map(took_ms).collect();
    // A busy host makes some of them later, and none earlier.
    let least_ms = out[..7].iter().copied().fold(f64::INFINITY, f64::min);
    assert!((10.0..30.0).contains(&least_ms), "{out:?}");
    assert!(
        out[7..].iter().all(|ms| *ms >= 30.0),
        "the rule was edited: {out:?}"
    );
    for frame in &rule.frames {
        assert_eq!(frame.bytes[12..14], [0x08, 0x00], "IPv4");
        assert_eq!(frame.bytes[23], 1, "ICMP: ARP goes by no rule");
    }

    // The frames that entered and left at the first interface: those of both forms of the rule, and no ARP.
    let (_, wire) = wire.end();
    assert_eq!(wire.interfaces, ["near", "near dropped"]);
    let ways = |way: u32| {
        wire.of("near")
            .iter()
            .filter(|frame| frame.way == way)
            .count()
    };
    assert_eq!((ways(1), ways(2)), (15, counted("reverse", "delivered")));
    assert_eq!(wire.of("near dropped").len(), 3);
    let (said, few) = few.ended();
    assert_eq!((&said["frames"], few.frames.len()), (&Value::from(3), 3));

    // A lab that ends, ends its captures.
    let open = Capturing::start(&name, "far", &at("open"), &[]);
    lab.interrupt();
    let (said, open) = open.ended();
    assert_eq!(said["frames"], open.frames.len());
}

#[test]
fn a_port_is_seen_sending_getting_and_losing() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::sky(dir.path(), 300, "0 s");
    let lab = Lab::up("capture-port", &file, dir.path(), &["--no-traffic"]);
    let name = lab.name.as_str();
    let (from, to) = ("ross", "weddell");
    let way = json(&constel(["path", name, from, to, "--json"]));
    let first = way["kernel"][0]["hops"][0].clone();
    let satellite = first["to"].as_str().unwrap();
    let file = dir.path().join("node.pcapng");
    let capture = Capturing::start(name, from, &file, &["--filter", "protocol: icmp"]);
    ping(name, from, to, "4");
    // No frame reaches the satellite any more, and the port has the reason.
    let set = constel(["link", "set", name, from, satellite, "--loss", "100 %"]);
    assert!(set.status.success(), "{}", stderr(&set));
    constel([
        "exec", name, from, "--", "ping", "-4", "-n", "-c", "2", "-i", "0.2", "-W", "1", to,
    ]);
    let (said, node) = capture.end();
    assert_eq!(said["lost"], 0);
    let port = node.interfaces[0].clone();
    assert!(port.starts_with("ross/"), "{:?}", node.interfaces);
    let frames = node.of(&port);
    let of = |way: u32, kind: u8| {
        let frames = frames.iter().filter(|frame| frame.way == way);
        frames
            .filter(|frame| frame.bytes[34] == kind)
            .collect::<Vec<_>>()
    };
    let (asked, answered) = (of(2, 8), of(1, 0));
    assert_eq!((asked.len(), answered.len()), (6, 4));
    assert!(
        asked
            .iter()
            .all(|frame| frame.comment == format!("sent by {port}"))
    );
    for frame in answered {
        let words = format!("{port} gets it from {satellite}/");
        assert!(frame.comment.starts_with(&words), "{}", frame.comment);
    }
    let dropped = node.of(&format!("{port} dropped"));
    assert_eq!(dropped.len(), 2);
    assert!(
        dropped
            .iter()
            .all(|frame| frame.comment.contains("by the loss law"))
    );

    let wrong = constel(["capture", name, "ross/isl9", "-w", "/dev/null"]);
    assert!(
        stderr(&wrong).contains("ross has no port isl9"),
        "{}",
        stderr(&wrong)
    );
    let wrong = constel(["capture", name, "rosss", "-w", "/dev/null"]);
    assert!(
        stderr(&wrong).contains("nearest is 'ross'"),
        "{}",
        stderr(&wrong)
    );
}
