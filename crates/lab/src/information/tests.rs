//! The whole path without root: a folder, a thread, readers.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use constel_plan::LocalNodes;
use constel_plan::information::{
    Contacts, Event, InformationEvent, Links, Orbit, Peers, Topology, names,
};
use serde_json::Value;

use super::*;
use crate::testing::shipped;

/// An Iridium whose information these nodes get.
struct InformedLab {
    informant: Informant,
    blueprint: Arc<Blueprint>,
    folder: tempfile::TempDir,
    clock: Arc<LabClock>,
    failed: Arc<Failed>,
}

fn told(information: &str) -> InformedLab {
    let text = shipped("iridium") + "\n" + information;
    let blueprint = Arc::new(crate::testing::blueprint(&text));
    // In memory, as labs have it, where there is such a place.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let folder = folder.unwrap();
    let ours = LocalNodes::all();
    let telling = NodeInformation::new(&blueprint, &ours).unwrap();
    folder::make_nodes(folder.path(), &telling, &[]).unwrap();
    let (clock, failed) = (Arc::new(LabClock::held()), Arc::default());
    let informant = Informant::start((&blueprint, &ours), "x", folder.path(), &clock, &failed);
    InformedLab {
        informant: informant.unwrap().unwrap(),
        blueprint,
        folder,
        clock,
        failed,
    }
}

impl InformedLab {
    fn place(&self, node: &str, name: &str) -> PathBuf {
        let id = self.blueprint.lab.layout.find(node).unwrap().id;
        node_folder(self.folder.path(), id).join(name)
    }

    fn document<T: serde::de::DeserializeOwned>(&self, node: &str, name: &str) -> T {
        serde_json::from_slice(&fs::read(self.place(node, name)).unwrap()).unwrap()
    }

    fn put(&self, node: &str, name: &str, text: Option<&str>) -> Result<(), String> {
        let (done, put) = channel();
        self.informant.tell(News::User {
            node: self.blueprint.lab.layout.find(node).unwrap().id,
            name: name.to_owned(),
            text: text.map(str::to_owned),
            done,
        });
        put.recv().unwrap()
    }

    fn send(&self, node: &str, data: Value) -> u64 {
        let (done, sent) = channel();
        let node = self.blueprint.lab.layout.find(node).unwrap().id;
        self.informant.tell(News::Command { node, data, done });
        sent.recv().unwrap().unwrap()
    }

    fn connect(&self, node: &str, question: &str) -> BufReader<UnixStream> {
        let mut stream = UnixStream::connect(self.place(node, names::SOCKET)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(240)))
            .unwrap();
        stream.write_all(question.as_bytes()).unwrap();
        BufReader::new(stream)
    }
}

fn next(from: &mut impl BufRead) -> Value {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
}

#[test]
fn files_follow_the_sky_and_only_those_of_whom_it_concerns_change() {
    let told = told(
        "information:\n  - {classes: [ground, satellite]}\n  - {nodes: [tokyo], topology: all}\n",
    );
    let mut stepper = told.blueprint.lab.stepper();
    let first = Arc::new(stepper.advance());
    told.informant.begin(&first);
    let before: Peers = told.document("tokyo", names::PEERS);
    assert_eq!((before.revision, before.t_ns), (1, 0));
    let layout = &told.blueprint.lab.layout;
    let mut last = first;
    let mut changed_at = None;
    for _ in 0..900 {
        let next = Arc::new(stepper.advance());
        let whose = constel_plan::information::changes(layout, &last, &next);
        if let Some(other) = whose.keys().next() {
            let revisions = || -> Vec<u64> {
                let of = |node: &constel_topology::Node| {
                    told.document::<Peers>(&node.name, names::PEERS).revision
                };
                layout.nodes().iter().map(of).collect()
            };
            let old = revisions();
            told.informant.begin(&next);
            let new = revisions();
            for (node, (old, new)) in layout.nodes().iter().zip(old.iter().zip(&new)) {
                let expected = old + u64::from(whose.contains_key(&node.id));
                assert_eq!(*new, expected, "{}", node.name);
            }
            changed_at = Some((next.t_ns, layout.node(*other).name.clone()));
            last = next;
            break;
        }
        told.informant.begin(&next);
        last = next;
    }
    let (t_ns, who) = changed_at.expect("links come and go");
    let peers: Peers = told.document(&who, names::PEERS);
    assert_eq!((peers.revision, peers.t_ns), (2, t_ns));
    let whole: Topology = told.document("tokyo", names::TOPOLOGY);
    assert_eq!(
        (whole.revision, whole.links.len() * 2),
        (2, last.edges.len())
    );
    let near: Topology = told.document(&who, names::TOPOLOGY);
    assert_eq!(near.scope, constel_plan::information::Scope::Neighbourhood);
    assert_eq!(told.informant.problem(), None);
}

#[test]
fn nodes_look_ahead_and_their_documents_are_renewed() {
    let told = told(
        "information:\n  - {nodes: [tokyo, london], ahead: 60 s}\n  - {nodes: [iridium-p00-s00], topology: all, ahead: 10 s}\n  \
         - {nodes: [lagos]}\n",
    );
    let mut stepper = told.blueprint.lab.stepper();
    told.informant.begin(&Arc::new(stepper.advance()));
    assert!(!told.place("lagos", names::ORBIT).exists());
    let of = |node: &str| -> (Orbit, Contacts) {
        let contacts = told.document(node, names::CONTACTS);
        (told.document(node, names::ORBIT), contacts)
    };
    let (orbit, contacts) = of("tokyo");
    assert_eq!(
        (orbit.revision, contacts.revision, contacts.t_ns),
        (1, 1, 0)
    );
    // The farthest look of the lab, and half of it until the next document.
    assert_eq!(contacts.to_ns, 90_000_000_000);
    assert_eq!(orbit.nodes.len(), 1);
    assert!(
        contacts
            .contacts
            .iter()
            .all(|c| c.a == "tokyo" || c.b == "tokyo")
    );
    let (orbit, contacts) = of("iridium-p00-s00");
    assert_eq!(orbit.nodes.len(), told.blueprint.lab.layout.nodes().len());
    assert!(contacts.contacts.len() > 100);
    let mut follower = told.connect("london", "{\"verb\": \"follow\", \"after\": 0}\n");
    let mut step = || told.informant.begin(&Arc::new(stepper.advance()));
    (1..30).for_each(|_| step());
    assert_eq!(of("tokyo").1.revision, 1);
    step();
    let (orbit, contacts) = of("tokyo");
    assert_eq!((orbit.revision, contacts.revision), (2, 2));
    assert_eq!(
        (contacts.t_ns, contacts.to_ns),
        (30_000_000_000, 120_000_000_000)
    );
    let mut kinds = std::iter::from_fn(|| Some(next(&mut follower)["data"].clone()));
    let ahead = |event: &Value| event["kind"] == "ahead" && event["revision"] == 2;
    assert!(kinds.any(|event| ahead(&event)));
    assert_eq!(told.informant.problem(), None);
}

#[test]
fn links_failed_by_hand_are_told_at_once_and_when_they_heal() {
    let told = told("information: [{nodes: [tokyo]}]\n");
    let first = Arc::new(told.blueprint.lab.stepper().advance());
    told.informant.begin(&first);
    let own = told.blueprint.lab.layout.find("tokyo").unwrap().first_port;
    let edge = first.edges_from(own)[0];
    let (there, back) = ((edge.from, edge.to), (edge.to, edge.from));
    let mut follower = told.connect("tokyo", "{\"verb\": \"follow\", \"after\": 1}\n");
    told.failed.set("a-b", 0, [(there, true), (back, true)]);
    told.informant.tell(News::Failed);
    let event = next(&mut follower);
    assert_eq!(event["data"]["kind"], "peers", "{event}");
    assert_eq!(event["data"]["removed"][0]["port"], "gsl0", "{event}");
    assert_eq!(told.document::<Peers>("tokyo", names::PEERS).peers, []);
    told.failed.set("a-b", 0, [(there, false), (back, false)]);
    told.informant.tell(News::Failed);
    assert_eq!(next(&mut follower)["data"]["added"][0]["port"], "gsl0");
    let healed: Peers = told.document("tokyo", names::PEERS);
    assert_eq!((healed.peers.len(), healed.revision), (1, 3));
}

#[test]
fn users_files_commands_and_the_clock_are_events_and_no_event_is_lost() {
    let told =
        told("information: [{nodes: [tokyo, london], user: [{name: as.conf, text: 'as 1'}]}]\n");
    told.informant
        .begin(&Arc::new(told.blueprint.lab.stepper().advance()));
    let user = |node: &str| fs::read_to_string(told.place(node, "user/as.conf"));
    assert_eq!(user("tokyo").unwrap(), "as 1");
    let mut follower = told.connect("tokyo", "{\"verb\": \"follow\"}\n");
    // A client that has subscribed follows from here on.
    follower
        .get_mut()
        .write_all(b"{\"verb\": \"links\"}\n")
        .unwrap();
    let links: Links = serde_json::from_value(next(&mut follower)["data"].clone()).unwrap();
    assert_eq!(links.links[0].port, "gsl0");
    told.put("tokyo", "as.conf", Some("as 2")).unwrap();
    assert_eq!(
        (
            user("tokyo").unwrap().as_str(),
            user("london").unwrap().as_str()
        ),
        ("as 2", "as 1")
    );
    assert_eq!(next(&mut follower)["data"]["kind"], "user");
    told.put("tokyo", "as.conf", None).unwrap();
    assert!(user("tokyo").is_err());
    assert_eq!(next(&mut follower)["data"]["kind"], "user-gone");
    assert!(
        told.put("tokyo", "as.conf", None)
            .unwrap_err()
            .contains("no file")
    );
    assert_eq!(told.send("tokyo", serde_json::json!({"do": 1})), 4);
    assert_eq!(next(&mut follower)["data"]["data"]["do"], 1);
    told.clock.start(7);
    told.informant.tell(News::Clock);
    let clock = next(&mut follower);
    assert_eq!(
        (&clock["data"]["zero_ns"], &clock["data"]["seq"]),
        (&7.into(), &5.into())
    );
    // No event of it was for the other node.
    let events = fs::read_to_string(told.place("london", names::EVENTS)).unwrap();
    let events: Vec<Event> = events
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert!(events.iter().all(|e| matches!(
        e.what,
        InformationEvent::Peers { .. } | InformationEvent::Clock { .. }
    )));
    let mut late = told.connect("tokyo", "{\"verb\": \"follow\", \"after\": 0}\n");
    let numbers: Vec<_> = (0..5)
        .map(|_| next(&mut late)["data"]["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    let refused = next(&mut told.connect("tokyo", "{\"verb\": \"fly\"}\n"));
    assert!(refused["ok"] == false && refused["error"].as_str().unwrap().contains("fly"));
    drop(told);
    assert_eq!(next(&mut late)["data"]["kind"], "stopping");
    let mut rest = String::new();
    assert_eq!(late.read_line(&mut rest).unwrap(), 0, "{rest}");
}

#[test]
fn who_does_not_read_is_let_go_and_the_events_files_stay_bounded() {
    let told = told("information: [{nodes: [tokyo]}]\n");
    let lazy = told.connect("tokyo", "{\"verb\": \"follow\"}\n{\"verb\": \"links\"}\n");
    let mut busy = told.connect("tokyo", "{\"verb\": \"links\"}\n{\"verb\": \"follow\"}\n");
    assert_eq!(next(&mut busy)["ok"], true);
    // The client has ended its own sending; it still listens.
    busy.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
    let long = "x".repeat(10_000);
    for n in 1..=500 {
        assert_eq!(told.send("tokyo", long.clone().into()), n);
        let event = next(&mut busy);
        assert_eq!(event["data"]["seq"], n, "{}", &event.to_string()[..200]);
    }
    let sizes = [names::EVENTS, names::OLDER_EVENTS].map(|name| {
        let text = fs::read_to_string(told.place("tokyo", name)).unwrap();
        assert!(
            text.lines()
                .all(|line| serde_json::from_str::<Event>(line).is_ok())
        );
        text.len()
    });
    assert!(sizes.iter().all(|size| *size <= 64 << 10), "{sizes:?}");
    let mut late = told.connect("tokyo", "{\"verb\": \"follow\", \"after\": 490}\n");
    let first = next(&mut late)["data"]["seq"].as_u64().unwrap();
    assert!(first > 490 && first <= 495, "{first}");
    drop(lazy);
    assert_eq!(told.informant.problem(), None);
}

/// Asks without end and reads nothing, for as long as the socket takes it at once; gives the bytes that were sent.
fn flood(told: &InformedLab, question: &str) -> (UnixStream, usize) {
    let mut stream = told.connect("tokyo", "").into_inner();
    stream.set_nonblocking(true).unwrap();
    let block = question.repeat((64 << 10) / question.len());
    let (mut sent, mut refusals) = (0, 0);
    // One that is read gets rid of everything; one that is not is stuck after the kernel's buffers.
    while sent < 16 << 20 && refusals < 200 {
        match stream.write(block.as_bytes()) {
            Ok(bytes) => (sent, refusals) = (sent + bytes, 0),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                refusals += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(_) => break,
        }
    }
    (stream, sent)
}

#[test]
fn a_program_that_asks_without_reading_has_its_questions_wait_in_its_own_socket() {
    let told = told("information: [{nodes: [tokyo, lima]}]\n");
    for _ in 0..50 {
        told.send("tokyo", "x".repeat(1_000).into());
    }
    for question in [
        "\n",
        "{\"verb\": \"links\"}\n",
        "{\"verb\": \"follow\", \"after\": 0}\n",
        "{\"verb\": \"nothing\"}\n",
    ] {
        let (stream, sent) = flood(&told, question);
        assert!(sent < 4 << 20, "{question:?}: {sent} bytes were read");
        // All others are answered at the same time, and it is, once it reads.
        let mut other = told.connect("lima", "{\"verb\": \"links\"}\n");
        assert_eq!(next(&mut other)["ok"], true, "{question:?}");
        stream.set_nonblocking(false).unwrap();
        let mut late = BufReader::new(stream);
        for _ in 0..2_000 {
            next(&mut late);
        }
    }
}

#[test]
fn all_questions_sent_at_once_are_answered_though_its_sending_is_over() {
    let told = told("information: [{nodes: [tokyo]}]\n");
    let questions = 2_000;
    let mut asking = told.connect("tokyo", "");
    let mut writer = asking.get_ref().try_clone().unwrap();
    let writes = std::thread::spawn(move || {
        let text = "{\"verb\": \"links\"}\n".repeat(questions);
        writer.write_all(text.as_bytes()).unwrap();
        writer.shutdown(std::net::Shutdown::Write).unwrap();
    });
    for _ in 0..questions {
        assert_eq!(next(&mut asking)["ok"], true);
    }
    writes.join().unwrap();
    assert_eq!(asking.read_line(&mut String::new()).unwrap(), 0);
}

#[test]
fn no_reader_ever_sees_half_of_a_file() {
    let told = told("information: [{nodes: [tokyo]}]\n");
    let updates = 100_000;
    let path = told.place("tokyo", "user/x");
    told.put("tokyo", "x", Some("0 ")).unwrap();
    let over = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut reads, mut last) = (0_u64, 0);
            while !over.load(Ordering::Acquire) {
                let text = fs::read_to_string(&path).unwrap();
                // A number, repeated as often as its own length requires.
                let (number, rest) = text.split_once(' ').unwrap();
                let number: u64 = number.parse().unwrap();
                assert_eq!(rest.len() as u64, number % 5_000, "torn at {number}");
                assert!(number >= last, "{number} after {last}");
                (reads, last) = (reads + 1, number);
            }
            reads
        });
        for n in 1..=updates {
            let text = format!("{n} {}", "y".repeat(n % 5_000));
            let node = told.blueprint.lab.layout.find("tokyo").unwrap().id;
            let (done, _) = channel();
            let name = "x".to_owned();
            let text = Some(text);
            told.informant.tell(News::User {
                node,
                name,
                text,
                done,
            });
        }
        // Those before it are done.
        told.put("tokyo", "last", Some("")).unwrap();
        over.store(true, Ordering::Release);
        reader.join().unwrap()
    });
    assert!(seen > 1000, "{seen}");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with(&format!("{updates} ")));
    assert_eq!(told.informant.problem(), None);
}

#[test]
fn links_are_told_as_opensn_tells_them() {
    let told = told("information: [{nodes: [tokyo, iridium-p00-s00], opensn: true}, {}]\n");
    let mut stepper = told.blueprint.lab.stepper();
    let first = Arc::new(stepper.advance());
    told.informant.begin(&first);
    let of = |node: &str, suffix: &str| {
        let name = format!("{}/{node}{suffix}", constel_plan::information::OPENSN);
        told.document::<Value>(node, &name)
    };
    let satellite = of("iridium-p00-s00", ".json");
    assert_eq!(satellite["instance_id"], "iridium-p00-s00");
    assert_eq!(satellite["end_infos"]["isl0"]["type"], "Satellite");
    let own = satellite["link_infos"]["isl0"]["IPV4"].as_str().unwrap();
    assert!(own.contains('/'), "{own}");
    assert!(
        !told
            .place("london", constel_plan::information::OPENSN)
            .exists()
    );

    // It follows the sky, in the file that was there at first.
    let inode = |suffix: &str| {
        let name = format!("{}/tokyo{suffix}", constel_plan::information::OPENSN);
        std::os::unix::fs::MetadataExt::ino(&fs::metadata(told.place("tokyo", &name)).unwrap())
    };
    let (before, file) = (of("tokyo", ""), inode(""));
    assert_eq!(before["end_infos"]["gsl0"]["type"], "Satellite");
    let mut after = before.clone();
    for _ in 0..900 {
        told.informant.begin(&Arc::new(stepper.advance()));
        after = of("tokyo", "");
        if after != before {
            break;
        }
    }
    assert_ne!(after, before);
    assert_eq!((after, inode("")), (of("tokyo", ".json"), file));
}
