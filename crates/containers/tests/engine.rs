//! The client against answers of a socket of this test's own: recorded ones, and hostile ones.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use constel_containers::engine::{Engine, Kind, Sent};

/// An engine that gives these answers, one a connection, to every request, and closes.
struct Recorded {
    _dir: tempfile::TempDir,
    socket: PathBuf,
    asked: JoinHandle<Vec<String>>,
}

impl Recorded {
    fn new(answers: Vec<Vec<u8>>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("engine.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let asked = thread::spawn(move || {
            let mut asked = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut question = vec![0; 1 << 16];
                let n = stream.read(&mut question).unwrap();
                asked.push(String::from_utf8_lossy(&question[..n]).into_owned());
                // A client with a complete answer closes.
                drop(stream.write_all(&answer));
            }
            asked
        });
        Self {
            _dir: dir,
            socket,
            asked,
        }
    }

    fn engine(&self) -> Engine {
        Engine::at(&self.socket).patience(Duration::from_secs(5))
    }

    fn asked(self) -> Vec<String> {
        self.asked.join().unwrap()
    }
}

fn counted(status: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nApi-Version: 1.41\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}

fn chunked(status: &str, body: &str) -> Vec<u8> {
    let (one, other) = body.split_at(body.len() / 2);
    let (a, b) = (one.len(), other.len());
    format!("HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n{a:x}\r\n{one}\r\n{b:X}\r\n{other}\r\n0\r\n\r\n")
        .into_bytes()
}

const DOCKER: &str = r#"{"Platform":{"Name":""},"Components":[{"Name":"Engine","Version":"20.10.24+dfsg1","Details":{"ApiVersion":"1.41"}},{"Name":"containerd","Version":"1.6.20~ds1"}],"Version":"20.10.24+dfsg1","ApiVersion":"1.41","MinAPIVersion":"1.12","Os":"linux"}"#;
const PODMAN: &str = r#"{"Platform":{"Name":"linux/amd64/debian-12"},"Components":[{"Name":"Podman Engine","Version":"4.3.1","Details":{"APIVersion":"4.3.1"}},{"Name":"Conmon","Version":"conmon version 2.1.6"}],"Version":"4.3.1","ApiVersion":"1.41","MinAPIVersion":"1.24"}"#;

#[test]
fn engines_say_whose_they_are() {
    let newest = DOCKER.replace(
        "\"ApiVersion\":\"1.41\",\"Min",
        "\"ApiVersion\":\"1.52\",\"Min",
    );
    let old = DOCKER.replace(
        "\"ApiVersion\":\"1.41\",\"Min",
        "\"ApiVersion\":\"1.40\",\"Min",
    );
    let answers = [DOCKER, PODMAN, &newest, &old, "{}"];
    let recorded = Recorded::new(answers.iter().map(|text| counted("200 OK", text)).collect());
    let engine = recorded.engine();
    let docker = engine.version().unwrap();
    assert_eq!((docker.kind, docker.api), (Kind::Docker, (1, 41)));
    assert_eq!(engine.version().unwrap().kind, Kind::Podman);
    assert_eq!(engine.version().unwrap().api, (1, 52));
    let error = engine.version().unwrap_err().to_string();
    assert!(
        error.contains("1.40") && error.contains("1.41 or newer"),
        "{error}"
    );
    assert!(engine.version().is_err());
    let asked = recorded.asked();
    let head = asked[0].to_ascii_lowercase();
    assert!(
        head.starts_with("get /version http/1.1\r\n") && head.contains("\r\nhost: "),
        "{head}"
    );
}

#[test]
fn a_container_is_made_listed_and_removed() {
    let id = "8dfafdbc3a40c0f1b1e1e4a7cdd3cbd1e2a1b90a8a6f1dd6c1c6a49e0e9d1f2a";
    let made = format!(r#"{{"Id":"{id}","Warnings":["no swap limit support"]}}"#);
    let list = format!(
        r#"[{{"Id":"{id}","Labels":{{"constel.lab":"a","constel.node":"tokyo","constel.owner":"1:2"}},"State":"running"}},
            {{"Id":"other","Labels":{{"constel.lab":"b"}}}},{{"Id":"third"}},{{"Labels":{{"constel.lab":"a"}}}}]"#
    );
    let recorded = Recorded::new(vec![
        counted("201 Created", &made),
        counted("200 OK", r#"{"State":{"Status":"running","Pid":4711}}"#),
        counted("200 OK", r#"{"State":{"Status":"exited","Pid":0}}"#),
        chunked("200 OK", &list),
        counted(
            "409 Conflict",
            r#"{"message":"removal of container x is already in progress"}"#,
        ),
        chunked("200 OK", r#"{"Error":null,"StatusCode":137}"#),
        counted("404 Not Found", r#"{"message":"No such container: x"}"#),
        b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
    ]);
    let engine = recorded.engine();
    assert_eq!(
        engine
            .create(&constel_containers::engine::ContainerOptions::default())
            .unwrap(),
        id
    );
    assert_eq!(engine.first_process(id).unwrap(), Some(4711));
    assert_eq!(engine.first_process(id).unwrap(), None);
    let listed = engine.containers(Some("a")).unwrap();
    assert_eq!(
        listed.len(),
        1,
        "what is not ours is never listed: {listed:?}"
    );
    assert_eq!(listed[0].node.as_deref(), Some("tokyo"));
    let within = Duration::from_secs(5);
    engine.remove(id, within).unwrap();
    engine.remove(id, within).unwrap();
    let asked = recorded.asked();
    assert!(
        asked[3].contains("filters=%7B%22label%22:%5B%22constel.lab%3Da%22%5D%7D"),
        "{}",
        asked[3]
    );
    assert!(asked[5].starts_with(&format!("POST /containers/{id}/wait?condition=removed")));
}

#[test]
fn an_image_that_is_not_there_is_none() {
    let image = r#"{"Id":"sha256:12","Config":{"Entrypoint":["/e"],"Cmd":["a","b"]}}"#;
    let scratch = r#"{"Id":"sha256:13","Config":{"Entrypoint":null,"Cmd":null}}"#;
    let recorded = Recorded::new(vec![
        counted("200 OK", image),
        chunked("200 OK", scratch),
        counted(
            "404 Not Found",
            r#"{"message":"No such image: nope:latest"}"#,
        ),
        counted(
            "500 Internal Server Error",
            "{\"message\":\"broken \\u001b[2J\"}",
        ),
    ]);
    let engine = recorded.engine();
    let found = engine.image("box").unwrap().unwrap();
    assert_eq!(
        (found.entrypoint, found.cmd),
        (vec!["/e".to_owned()], vec!["a".to_owned(), "b".to_owned()])
    );
    assert!(
        engine
            .image("scratch")
            .unwrap()
            .unwrap()
            .entrypoint
            .is_empty()
    );
    assert_eq!(engine.image("nope").unwrap(), None);
    let error = engine.image("x").unwrap_err().to_string();
    assert!(
        error.contains("broken") && !error.contains('\u{1b}'),
        "{error}"
    );
}

#[test]
fn answers_that_lie_are_errors_and_take_no_memory() {
    let answers: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}".to_vec(),
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999\r\n\r\n{".to_vec(),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFF\r\n{".to_vec(),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n".to_vec(),
        b"HTTP/1.1 200 OK\r\n\r\n{\"ApiVersion\": ".to_vec(),
        b"HTTP/1.1 200 OK\r\n\r\n\xff\xfe".to_vec(),
        counted("200 OK", &"[".repeat(100_000)),
        b"220 smtp ready\r\n\r\n".to_vec(),
        [b"HTTP/1.1 200 OK\r\nX: ".to_vec(), vec![b'x'; 1 << 20]].concat(),
    ];
    let count = answers.len();
    let recorded = Recorded::new(answers);
    let engine = recorded.engine();
    for number in 0..count {
        let answer = engine.version();
        assert!(answer.is_err(), "answer {number}: {answer:?}");
    }
    recorded.asked();
}

#[test]
fn an_answer_without_end_is_cut_at_its_bound() {
    let mut body = b"HTTP/1.1 200 OK\r\n\r\n\"".to_vec();
    body.resize(70 << 20, b'x');
    let recorded = Recorded::new(vec![body]);
    let error = recorded.engine().version().unwrap_err().to_string();
    assert!(error.contains("64 MiB"), "{error}");
    recorded.asked();
}

/// The engine closes while most of the archive is still to be sent.
#[test]
fn a_refusal_in_the_middle_of_an_archive_is_one() {
    let refusal = counted("400 Bad Request", r#"{"message":"no archive of an image"}"#);
    let recorded = Recorded::new(vec![refusal, Vec::new()]);
    let archive = tempfile::tempfile().unwrap();
    archive.set_len(32 << 20).unwrap();
    let error = recorded.engine().load(&archive).unwrap_err().to_string();
    assert!(error.contains("no archive of an image"), "{error}");
    // Without an answer, the reason is the broken connection.
    let error = recorded.engine().load(&archive).unwrap_err();
    assert!(error.is_away(), "{error}");
    let asked = recorded.asked();
    let head = asked[0].to_ascii_lowercase();
    assert!(head.contains("\r\ncontent-length: 33554432\r\n"), "{head}");
}

/// Each byte comes before patience ends, and the last one never would.
#[test]
fn an_answer_that_drips_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("engine.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    for head in [
        &b"HTTP/1.1 200 OK\r\n\r\n\""[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFF\r\n\"",
        b"HTTP/1.1 200 OK\r\nX: ",
    ] {
        let listener = listener.try_clone().unwrap();
        let drips = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(head).unwrap();
            // Ten times as long as patience lasts.
            for _ in 0..100 {
                if stream.write_all(b"x").is_err() {
                    break;
                }
                thread::sleep(Duration::from_millis(100));
            }
        });
        let engine = Engine::at(&socket).patience(Duration::from_secs(1));
        let error = engine.version().unwrap_err().to_string();
        assert!(error.contains("too slowly"), "{error}");
        drips.join().unwrap();
    }
}

#[test]
fn one_that_says_nothing_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("engine.sock");
    let _listener = UnixListener::bind(&socket).unwrap();
    let engine = Engine::at(&socket).patience(Duration::from_millis(50));
    assert!(
        engine
            .ask("GET", "/version", Sent::Nothing)
            .map(drop)
            .unwrap_err()
            .is_away()
    );
    let nobody = Engine::at(dir.path().join("nobody.sock"));
    assert!(nobody.version().unwrap_err().is_away());
}
