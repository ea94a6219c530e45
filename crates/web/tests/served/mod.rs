//! A real server on the loopback, and requests as they are.

#![allow(
    dead_code,
    reason = "each test binary uses its own part of what they share"
)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use constel_control::Scenario;
use constel_web::{Options, Server, Source};
use serde_json::Value;

/// The web view of Iridium's scenario.
pub(crate) struct Served {
    pub(crate) server: Server,
    /// Addresses that were printed after one was used.
    pub(crate) next: Arc<Mutex<Vec<String>>>,
}

/// As `constel web --plan` serves it.
pub(crate) fn served() -> Served {
    served_with(Options::default())
}

pub(crate) fn served_with(options: Options) -> Served {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/iridium.yaml");
    let source = Source::plan(Scenario::load(&file).unwrap());
    let next = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&next);
    let on_used = move |url: &str| told.lock().unwrap().push(url.to_owned());
    let options = Options {
        on_used: Some(Box::new(on_used)),
        ..options
    };
    let server = Server::start(source, options).unwrap();
    Served { server, next }
}

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json<T: serde::de::DeserializeOwned>(&self) -> T {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn error(&self) -> String {
        self.json::<Value>()["error"].as_str().unwrap().to_owned()
    }
}

impl Served {
    pub(crate) fn port(&self) -> u16 {
        self.server.address().port()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.server.address()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        stream
    }

    /// Sends a request as it is.
    pub(crate) fn raw(&self, text: &str) -> Reply {
        let mut bytes = self.exchange(text).unwrap();
        let at = bytes
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .unwrap();
        let head = String::from_utf8(bytes[..at].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let body = bytes.split_off(at + 4);
        Reply { status, head, body }
    }

    /// Sends a request, and reads all that is answered. A server without a place for it closes before it has read the request, which may
    /// be a reset here.
    pub(crate) fn exchange(&self, text: &str) -> std::io::Result<Vec<u8>> {
        let mut stream = self.connect();
        stream.write_all(text.as_bytes())?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn get(&self, path: &str, fields: &str) -> Reply {
        self.raw(&self.request(path, fields))
    }

    /// The text of a request without a body.
    pub(crate) fn request(&self, path: &str, fields: &str) -> String {
        let port = self.port();
        format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{fields}\r\n")
    }

    pub(crate) fn post(&self, path: &str, fields: &str, body: &str) -> Reply {
        let port = self.port();
        let length = body.len();
        self.raw(&format!(
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {length}\r\n{fields}\r\n{body}"
        ))
    }

    /// The fields of a request that the page sends.
    pub(crate) fn own(&self) -> String {
        format!(
            "Origin: http://127.0.0.1:{}\r\nX-Constel: 1\r\n",
            self.port()
        )
    }

    /// Exchanges the token for a session's cookie.
    pub(crate) fn cookie(&self) -> String {
        let url = self.server.url();
        let token = url.split('#').nth(1).unwrap().to_owned();
        let reply = self.post("/api/session", &self.own(), &token);
        assert_eq!(reply.status, 200, "{}", reply.head);
        let line = reply
            .head
            .lines()
            .find_map(|line| line.strip_prefix("Set-Cookie: "))
            .unwrap();
        assert!(
            line.contains("HttpOnly") && line.contains("SameSite=Strict"),
            "{line}"
        );
        format!("Cookie: {}\r\n", line.split(';').next().unwrap())
    }

    /// Opens the page's socket.
    pub(crate) fn socket(&self, cookie: &str) -> tungstenite::WebSocket<TcpStream> {
        let port = self.port();
        let request = tungstenite::http::Request::get(format!("ws://127.0.0.1:{port}/api/socket"))
            .header("Host", format!("127.0.0.1:{port}"))
            .header("Origin", format!("http://127.0.0.1:{port}"))
            .header("Cookie", cookie.trim().strip_prefix("Cookie: ").unwrap())
            .header("Connection", "Upgrade")
            .header("Upgrade", "websocket")
            .header("Sec-WebSocket-Version", "13")
            .header(
                "Sec-WebSocket-Key",
                tungstenite::handshake::client::generate_key(),
            )
            .body(())
            .unwrap();
        tungstenite::client(request, self.connect()).unwrap().0
    }
}
