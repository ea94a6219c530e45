//! A client and a server over a real socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};

use constel_api::{Client, ClientError, LabView, Request, SOCKET_NAME, Server};
use serde_json::{Value, json};

#[derive(Default)]
struct Lab {
    down: AtomicBool,
}

impl LabView for Lab {
    fn state(&self) -> Value {
        json!({"state": "running"})
    }
    fn show(&self) -> Value {
        json!({"nodes": []})
    }
    fn link(&self, a: &str, _: &str) -> Result<Value, String> {
        Err(format!("no node '{a}'"))
    }
    fn set_link(
        &self,
        a: &str,
        b: Option<&str>,
        effects: Value,
        reset: bool,
    ) -> Result<Value, String> {
        Ok(json!([a, b, effects, reset]))
    }
    fn routes(&self, node: &str) -> Result<Value, String> {
        Ok(json!({"node": node}))
    }
    fn path(&self, from: &str, to: &str, at_ns: Option<u64>) -> Result<Value, String> {
        Ok(json!([from, to, at_ns]))
    }
    fn events(&self) -> (Vec<Value>, Receiver<Value>) {
        let (sender, receiver) = channel();
        sender.send(json!(2)).unwrap();
        (vec![json!(1)], receiver)
    }
    fn down(&self) {
        self.down.store(true, Ordering::SeqCst);
    }
}

#[test]
fn questions_get_answers() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(
        Client::connect(dir.path()),
        Err(ClientError::Connect(_))
    ));
    let lab = Arc::new(Lab::default());
    let server = Server::start(&dir.path().join(SOCKET_NAME), lab.clone()).unwrap();
    let mut client = Client::connect(dir.path()).unwrap();
    assert_eq!(
        client.ask(&Request::State).unwrap(),
        json!({"state": "running"})
    );
    assert_eq!(
        client
            .ask(&Request::SetLink {
                a: "x-y".into(),
                b: None,
                effects: json!({"down": true}),
                reset: true,
            })
            .unwrap(),
        json!(["x-y", null, {"down": true}, true])
    );
    let refused = client
        .ask(&Request::Link {
            a: "x".into(),
            b: "y".into(),
        })
        .unwrap_err();
    assert_eq!(refused.to_string(), "no node 'x'");
    let routes = client.ask(&Request::Routes { node: "x".into() }).unwrap();
    assert_eq!(routes, json!({"node": "x"}));
    for at_ns in [None, Some(7)] {
        let (from, to) = ("x".to_owned(), "y".to_owned());
        let path = client.ask(&Request::Path { from, to, at_ns }).unwrap();
        assert_eq!(path, json!(["x", "y", at_ns]));
    }
    assert_eq!(client.ask(&Request::Down).unwrap(), Value::Null);
    assert!(lab.down.load(Ordering::SeqCst));
    let events = client.stream(&Request::Events { follow: true }).unwrap();
    assert_eq!(
        events.map(Result::unwrap).collect::<Vec<_>>(),
        [json!(1), json!(2)]
    );
    drop(server);
    assert!(!dir.path().join(SOCKET_NAME).exists());
}

#[test]
fn nonsense_is_refused_not_fatal() {
    use std::io::{BufRead, BufReader, Write};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(SOCKET_NAME);
    let _server = Server::start(&path, Arc::new(Lab::default())).unwrap();
    let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
    stream
        .write_all(b"{\"verb\": \"fly\"}\n{\"verb\": \"state\"}\n")
        .unwrap();
    let lines: Vec<String> = BufReader::new(&stream)
        .lines()
        .take(2)
        .map(Result::unwrap)
        .collect();
    assert!(lines[0].contains("not a request"));
    assert!(lines[1].contains("running"));
}
