//! A client and a server over a real socket.

use std::io::{BufRead, BufReader, Read as _, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use constel_api::answers::{
    BriefEffects, Capturing, CommandSent, DelaysSet, EdgeSet, LabRow, LabState, LinkSet, LinkShown,
    MemberSet, NetworkShown, NodeAccess, Paths, Routes, RoutesAfter, Shown, UserFileSet,
};
use constel_api::{
    ApiError, Batch, CaptureItem, CaptureOrder, CaptureSource, Client, ClientError, ErrorCode,
    Event, EventData, EventSource, LabReader, LabWriter, SOCKET_NAME, Server, SetLink,
    Subscription,
};
use constel_link::{Effects, PortId};

#[derive(Default)]
struct Lab {
    down: AtomicBool,
    /// Whether the follower of events still asks for some.
    follower: std::sync::Mutex<Weak<Log>>,
}

fn event(seq: u64) -> Event {
    Event {
        seq,
        t_ns: None,
        wall: "w".to_owned(),
        what: EventData::Stopping,
        catalogued: Vec::new(),
    }
}

/// A log in which there are two events, and a third never comes.
struct Log;

impl EventSource for Log {
    fn after(&self, seq: u64, wait: Option<Duration>) -> Batch {
        if seq == 2 {
            std::thread::sleep(wait.unwrap());
        }
        Batch {
            events: (seq + 1..=2).map(event).collect(),
            ..Batch::default()
        }
    }
}

impl LabReader for Lab {
    fn state(&self) -> LabRow {
        LabRow {
            lab: "x".to_owned(),
            state: LabState::Running,
            scenario: "x.yaml".to_owned(),
            pid: 7,
            nodes: 2,
            edges: 2,
            t_ns: None,
        }
    }
    fn show(&self) -> Shown {
        Shown {
            lab: self.state(),
            node_list: None,
            management: None,
            relay: None,
        }
    }
    fn link(&self, a: &str, _: &str) -> Result<LinkShown, ApiError> {
        Err(ApiError::no_node(a, Some("y")))
    }
    fn routes(&self, node: &str) -> Result<Routes, ApiError> {
        Ok(Routes {
            node: node.to_owned(),
            routes: Vec::new(),
            t_ns: Some(1),
            catalogued: Vec::new(),
        })
    }
    fn networks(&self) -> Result<Vec<NetworkShown>, ApiError> {
        Ok(Vec::new())
    }
    fn path(
        &self,
        from: &str,
        to: &str,
        at_ns: Option<u64>,
        _wanted: &(dyn Fn() -> bool + Sync),
    ) -> Result<Paths, ApiError> {
        Ok(Paths {
            from: from.to_owned(),
            to: to.to_owned(),
            t_ns: at_ns.unwrap_or(5),
            kernel: Vec::new(),
            optimum: None,
            tables_t_ns: 5,
            catalogued: Vec::new(),
        })
    }
    fn follow(&self) -> Subscription {
        let log = Arc::new(Log);
        *self.follower.lock().unwrap() = Arc::downgrade(&log);
        Subscription::new(log)
    }
}

/// Three pieces, then silence, until the command to end.
struct Pieces(Vec<&'static [u8]>);

impl CaptureSource for Pieces {
    fn next(&mut self, within: Duration) -> CaptureItem {
        match self.0.pop() {
            Some(bytes) => CaptureItem::Bytes(bytes.to_vec()),
            None => {
                std::thread::sleep(within);
                CaptureItem::Nothing
            }
        }
    }
    fn end(&mut self) -> Vec<u8> {
        b"the end".to_vec()
    }
}

impl LabWriter for Lab {
    fn capture(
        &self,
        order: &CaptureOrder,
    ) -> Result<(Capturing, Box<dyn CaptureSource>), ApiError> {
        if order.filter.is_some() {
            return Err(ApiError::new(ErrorCode::BadValue, "no filter"));
        }
        let capturing = Capturing {
            of: order.of.clone(),
            interfaces: vec!["one".to_owned()],
        };
        Ok((capturing, Box::new(Pieces(vec![b"c", b"b\n", b"a"]))))
    }
    fn user_file(
        &self,
        node: &str,
        name: &str,
        text: Option<String>,
    ) -> Result<UserFileSet, ApiError> {
        let (node, name) = (node.to_owned(), name.to_owned());
        let bytes = text.map(|text| text.len());
        Ok(UserFileSet { node, name, bytes })
    }
    fn command(&self, node: &str, data: serde_json::Value) -> Result<CommandSent, ApiError> {
        let node = node.to_owned();
        match data.as_u64() {
            Some(seq) => Ok(CommandSent { node, seq }),
            None => Err(ApiError::new(
                ErrorCode::NoInformation,
                "it is told nothing",
            )),
        }
    }
    fn set_member(&self, network: &str, node: &str, joined: bool) -> Result<MemberSet, ApiError> {
        Ok(MemberSet {
            at_mono_ns: 5,
            network: network.to_owned(),
            node: node.to_owned(),
            joined,
            changed: true,
            routes: RoutesAfter::NotOurs,
        })
    }
    fn set_delays(
        &self,
        network: &str,
        delays_ns: Option<&[Vec<Option<u64>>]>,
    ) -> Result<DelaysSet, ApiError> {
        Ok(DelaysSet {
            at_mono_ns: 5,
            network: network.to_owned(),
            edges: delays_ns.map_or(0, |rows| rows.iter().flatten().flatten().count()),
        })
    }
    fn set_link(&self, order: &SetLink) -> Result<LinkSet, ApiError> {
        assert!(order.b.is_none() && order.reset && order.wait);
        let edge = EdgeSet {
            from: PortId(0),
            to: PortId(1),
            effects: BriefEffects::of(&order.effects),
        };
        Ok(LinkSet {
            at_mono_ns: 3,
            edges: vec![edge],
            port: None,
            routes: RoutesAfter::Converged { after_ns: 4 },
        })
    }
    fn enter(&self, node: &str) -> Result<NodeAccess, ApiError> {
        Ok(NodeAccess::Netns {
            node: node.to_owned(),
            netns: "/proc/7/fd/9".into(),
            mounts: "/proc/7/fd/10".into(),
            pids: "/proc/7/fd/11".into(),
            cgroups: vec!["/sys/fs/cgroup/constel-x".into()],
        })
    }
    fn down(&self) {
        self.down.store(true, Ordering::SeqCst);
    }
}

fn serve(dir: &Path) -> (Arc<Lab>, Server) {
    let lab = Arc::new(Lab::default());
    let server = Server::start(&dir.join(SOCKET_NAME), lab.clone()).unwrap();
    (lab, server)
}

#[test]
fn a_capture_streams_until_the_client_has_enough_and_then_ends() {
    let dir = tempfile::tempdir().unwrap();
    let _server = Server::start(&dir.path().join(SOCKET_NAME), Arc::new(Lab::default())).unwrap();
    let order = |filter: Option<&str>| CaptureOrder {
        of: "a/0".to_owned(),
        filter: filter.map(str::to_owned),
    };
    let stop = AtomicBool::new(false);
    let client = Client::connect(dir.path()).unwrap();
    let refused = client.capture(order(Some("x")), &stop).unwrap_err();
    assert!(matches!(refused, ClientError::Refused(error) if error.code == ErrorCode::BadValue));
    let client = Client::connect(dir.path()).unwrap();
    let (capturing, mut stream) = client.capture(order(None), &stop).unwrap();
    assert_eq!(
        (capturing.of.as_str(), capturing.interfaces.len()),
        ("a/0", 1)
    );
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"ab\nc");
    stop.store(true, Ordering::Release);
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "the end");
}

#[test]
fn questions_get_answers() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(
        Client::connect(dir.path()),
        Err(ClientError::Connect(_))
    ));
    let (lab, server) = serve(dir.path());
    let mut client = Client::connect(dir.path()).unwrap();
    assert_eq!(client.version().unwrap().protocol, constel_api::PROTOCOL);
    assert_eq!(client.state().unwrap(), lab.state());
    assert_eq!(client.show().unwrap(), lab.show());
    let effects = Effects::failed(true);
    let order = SetLink {
        reset: true,
        ..SetLink::new("x-y", None, effects.clone())
    };
    let set = client.set_link(order).unwrap();
    assert_eq!(set.edges[0].effects.effects(), Some(effects));
    assert_eq!(set.routes, RoutesAfter::Converged { after_ns: 4 });
    let ClientError::Refused(refused) = client.link("x", "y").unwrap_err() else {
        panic!("not refused")
    };
    assert_eq!(refused.to_string(), "no node is called 'x'; nearest is 'y'");
    assert_eq!(refused.code, ErrorCode::NodeNotFound);
    assert_eq!(refused.nearest.as_deref(), Some("y"));
    assert_eq!(client.routes("x").unwrap().node, "x");
    for at_ns in [None, Some(7)] {
        let path = client.path("x", "y", at_ns).unwrap();
        assert_eq!(path.t_ns, at_ns.unwrap_or(5));
    }
    assert_eq!(client.enter("x").unwrap(), lab.enter("x").unwrap());
    client.down().unwrap();
    assert!(lab.down.load(Ordering::SeqCst));
    let so_far = client.events(false).unwrap();
    assert_eq!(so_far.map(|e| e.unwrap().seq).collect::<Vec<_>>(), [1, 2]);
    drop(server);
    assert!(!dir.path().join(SOCKET_NAME).exists());
}

#[test]
fn a_follower_that_leaves_is_let_go_before_the_next_event() {
    let dir = tempfile::tempdir().unwrap();
    let (lab, _server) = serve(dir.path());
    let client = Client::connect(dir.path()).unwrap();
    let mut events = client.events(true).unwrap();
    let seen: Vec<u64> = (&mut events).take(2).map(|e| e.unwrap().seq).collect();
    assert_eq!(seen, [1, 2]);
    let listens = || lab.follower.lock().unwrap().upgrade().is_some();
    // The client has ended its own sending and still listens, for longer than the server's polling interval.
    std::thread::sleep(Duration::from_millis(600));
    assert!(listens());
    drop(events);
    let begun = Instant::now();
    while listens() {
        assert!(begun.elapsed() < Duration::from_secs(150), "it is held");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_lab_waits_until_its_followers_have_heard_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let (lab, server) = serve(dir.path());
    let client = Client::connect(dir.path()).unwrap();
    let mut events = client.events(true).unwrap();
    assert_eq!((&mut events).take(2).count(), 2);
    let followers = server.stop();
    drop(events);
    // Each time for two seconds at most: a busy host may need more than one.
    let is_heard = || {
        followers.hear_the_end();
        lab.follower.lock().unwrap().upgrade().is_none()
    };
    assert!((0..75).any(|_| is_heard()), "it did not wait");
}

/// The lab's answers to these lines.
fn lines(dir: &Path, requests: &str) -> Vec<String> {
    let mut stream = UnixStream::connect(dir.join(SOCKET_NAME)).unwrap();
    stream.write_all(requests.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let lines = BufReader::new(&stream).lines();
    lines.map(Result::unwrap).collect()
}

#[test]
fn nonsense_is_refused_not_fatal() {
    let dir = tempfile::tempdir().unwrap();
    let (_lab, _server) = serve(dir.path());
    let answers = lines(
        dir.path(),
        "{\"verb\": \"fly\"}\nx\n{\"verb\": \"state\"}\n",
    );
    for refused in &answers[..2] {
        assert!(refused.starts_with(r#"{"ok":false,"error":"not a request: "#));
        assert!(refused.ends_with(r#""code":"bad-request"}"#), "{refused}");
    }
    assert_eq!(
        answers[2],
        r#"{"ok":true,"data":{"lab":"x","state":"running","scenario":"x.yaml","pid":7,"nodes":2,"edges":2,"t_ns":null}}"#
    );
}

#[test]
fn a_request_may_name_its_version_and_a_later_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (_lab, _server) = serve(dir.path());
    let answers = lines(
        dir.path(),
        "{\"version\": 1, \"verb\": \"down\"}\n{\"version\": 2, \"verb\": \"down\"}\n",
    );
    assert_eq!(answers[0], r#"{"ok":true,"data":null}"#);
    assert!(answers[1].contains("unsupported-version"), "{answers:?}");
}
