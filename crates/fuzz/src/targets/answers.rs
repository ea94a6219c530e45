//! Data from connections: answers of etcd, requests and messages of web clients.

use std::time::{Duration, Instant};

use constel_cluster::store::Etcd;
use constel_web::guard::Guard;
use constel_web::http::{BODY_BYTES, HEAD_BYTES, Request};

use super::Target;

pub(super) fn targets() -> Vec<Target> {
    vec![
        Target::new("etcd-answer", etcd_answers, Etcd::reads),
        Target::new("web-request", web_requests, requested),
        Target::new("web-socket", web_frames, constel_web::socket::reads),
    ]
}

/// Reads a head and a body within their bounds; a host name that is not this server's must not pass the guard.
fn requested(bytes: &[u8]) -> bool {
    let end = Instant::now() + Duration::from_secs(60);
    let mut from = bytes;
    let Ok(request) = Request::read(&mut from, end) else {
        return false;
    };
    assert!(bytes.len() - from.len() <= HEAD_BYTES);
    let guard = Guard::new(8080);
    if guard.name(&request.head).is_ok() {
        let host = request.head.only("host").map(str::to_ascii_lowercase);
        let own = ["127.0.0.1", "localhost", "[::1]"];
        assert!(host.is_some_and(|host| own.iter().any(|own| host.starts_with(own))));
    }
    let _ = (guard.origin(&request.head), guard.change(&request.head));
    let _ = (guard.session(&request.head), request.head.asked("at"));
    if request.head.method != "POST" {
        return true;
    }
    let body = request.body(&mut from, end);
    body.is_ok_and(|body| {
        assert!(body.len() <= BODY_BYTES);
        true
    })
}

fn etcd_answers() -> Vec<Vec<u8>> {
    [
        r#"{"header": {"revision": "9"}, "kvs": [{"key": "YQ==", "create_revision": "7", "mod_revision": "8", "version": "2", "value": "Yg==", "lease": "5"}], "count": "1"}"#,
        r#"{"header": {"revision": "9"}, "succeeded": true, "responses": [{"response_put": {"header": {"revision": "9"}}}]}"#,
        r#"{"result": {"header": {"revision": "9"}, "events": [{"kv": {"key": "YQ==", "mod_revision": "8", "value": "Yg=="}}, {"type": "DELETE", "kv": {"key": "YQ==", "mod_revision": "9"}}]}}"#,
        r#"{"result": {"canceled": true, "compact_revision": "4"}}"#,
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

fn web_requests() -> Vec<Vec<u8>> {
    [
        "GET /api/lab?at=12.5&x=%20y HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nCookie: constel-8080=abc; other=1\r\n\r\n",
        "POST /api/change HTTP/1.1\r\nHost: localhost:8080\r\nOrigin: http://localhost:8080\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"down\": \"a--b\"}",
        "GET /socket HTTP/1.1\r\nHost: [::1]:8080\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// Frames after a handshake. The mask is of zeros, so that a change of the payload is one of the message.
fn web_frames() -> Vec<Vec<u8>> {
    let frame = |first: u8, payload: &[u8]| {
        let mut bytes = vec![first];
        match u8::try_from(payload.len()) {
            Ok(length @ ..126) => bytes.push(0x80 | length),
            _ => {
                bytes.push(0x80 | 126);
                bytes.extend((payload.len() as u16).to_be_bytes());
            }
        }
        bytes.extend([0; 4]);
        bytes.extend(payload);
        bytes
    };
    let (text, binary, part, last) = (0x81, 0x82, 0x01, 0x80);
    let (ping, pong, close) = (0x89, 0x8a, 0x88);
    let step = br#"{"op": "step", "step": 12, "ahead": 2}"#;
    let long = format!("{{\"op\": \"reset\"{}}}", " ".repeat(300));
    vec![
        frame(text, step),
        [
            frame(text, br#"{"op": "reset"}"#),
            frame(text, br#"{"op": "loads", "wanted": true}"#),
        ]
        .concat(),
        frame(text, long.as_bytes()),
        [
            frame(part, &step[..9]),
            frame(ping, b"there?"),
            frame(last, &step[9..]),
        ]
        .concat(),
        [
            frame(text, br#"{"op": "size", "columns": 80, "rows": 24}"#),
            frame(binary, b"ls\n"),
        ]
        .concat(),
        [
            frame(text, br#"{"op": "shown", "bytes": 4096}"#),
            frame(pong, b""),
            frame(close, b"\x03\xe8bye"),
        ]
        .concat(),
    ]
}
