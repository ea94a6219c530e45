//! Clients that send invalid, too long or incomplete requests: they get an error as text, end their own connection, and cost no memory.

use crate::served;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use constel_web::socket::MESSAGE_BYTES;
use constel_web::{CONNECTIONS, Options};
use served::{Served, served, served_with};
use tungstenite::{Message, WebSocket};

const MASK: [u8; 4] = [1, 2, 3, 4];

/// A frame as clients send them, whatever is in its first byte.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match payload.len() {
        length @ ..126 => bytes.push(0x80 | length as u8),
        length @ ..65_536 => {
            bytes.push(0x80 | 126);
            bytes.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            bytes.push(0x80 | 127);
            bytes.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    bytes.extend_from_slice(&MASK);
    bytes.extend(payload.iter().zip(MASK.iter().cycle()).map(|(a, b)| a ^ b));
    bytes
}

/// The server's answer before it closes; it must close.
fn last_words(socket: &mut WebSocket<TcpStream>) -> String {
    let mut words = String::new();
    loop {
        match socket.read() {
            Ok(Message::Text(text)) => words.push_str(&text),
            Ok(_) => {}
            Err(tungstenite::Error::Io(error))
                if error.kind() == std::io::ErrorKind::WouldBlock =>
            {
                panic!("it stays open: {words}");
            }
            Err(_) => return words,
        }
    }
}

/// Whether it still answers as it should.
fn answers(served: &Served, cookie: &str) {
    let mut socket = served.socket(cookie);
    let ask = r#"{"op": "step", "step": 1}"#;
    socket.send(Message::text(ask)).unwrap();
    assert!(matches!(socket.read().unwrap(), Message::Binary(_)));
}

/// Whether the page comes: who is refused a place may find the connection closed before he has read why.
fn comes(served: &Served) -> bool {
    let mut stream = served.connect();
    let port = served.port();
    let asked = write!(stream, "GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    let mut head = [0; 15];
    asked.is_ok() && stream.read_exact(&mut head).is_ok() && head == *b"HTTP/1.1 200 OK"
}

/// Memory of this process, of which the server is part, bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = text.split(' ').nth(1).unwrap().parse().unwrap();
    4096 * pages
}

#[test]
fn frames_that_end_early_end_their_connection_alone() {
    let served = served();
    let cookie = served.cookie();
    let whole = frame(0x81, br#"{"op": "step", "step": 1}"#);
    let mut other = served.socket(&cookie);
    let ask = || Message::text(r#"{"op": "step", "step": 2}"#);
    // More than may be open at a time: none may keep its place.
    let cuts = (0..whole.len()).cycle().take(2 * CONNECTIONS);
    for cut in cuts {
        let mut socket = served.socket(&cookie);
        let stream = socket.get_mut();
        stream.write_all(&whole[..cut]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let words = last_words(&mut socket);
        assert_eq!(words, "", "{cut} bytes of {}", whole.len());
    }
    other.send(ask()).unwrap();
    assert!(matches!(other.read().unwrap(), Message::Binary(_)));
    answers(&served, &cookie);
}

#[test]
fn what_is_no_message_is_answered_in_words() {
    let served = served();
    let cookie = served.cookie();
    let long = vec![b' '; MESSAGE_BYTES + 1];
    let mut bare = frame(0x81, b"{}");
    // Clients must mask what they send.
    bare[1] &= 0x7f;
    let cases: [(&str, Vec<u8>); 7] = [
        ("longer than 64 KiB", frame(0x81, &long)),
        ("not masked", bare),
        ("no UTF-8", frame(0x81, &[b'{', 0xff, 0xfe])),
        ("a kind that there is not", frame(0x83, b"{}")),
        ("bits that nobody asked for", frame(0xf1, b"{}")),
        ("the rest of nothing", frame(0x80, b"{}")),
        (
            "a long question whether one is there",
            frame(0x89, &[0; 126]),
        ),
    ];
    for (what, bytes) in cases {
        let mut socket = served.socket(&cookie);
        // It may close while the rest is still being written.
        let _ = socket.get_mut().write_all(&bytes);
        let words = last_words(&mut socket);
        assert!(
            words.contains("refused") && words.contains("64 KiB"),
            "{what}: {words:?}"
        );
    }
    answers(&served, &cookie);
}

#[test]
fn messages_without_an_end_are_not_kept() {
    let served = served();
    let cookie = served.cookie();
    answers(&served, &cookie);
    let before = resident();
    let piece = frame(0x00, &[b' '; 16 << 10]);
    let (mut sockets, mut taken) = (Vec::new(), 0);
    for _ in 0..32 {
        let mut socket = served.socket(&cookie);
        let stream = socket.get_mut();
        stream
            .set_write_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        stream.write_all(&frame(0x01, b"[")).unwrap();
        // 100 MB, a piece at a time, were it let.
        let mut sent = 0;
        while sent < 100 << 20 && stream.write_all(&piece).is_ok() {
            sent += piece.len();
        }
        assert!(sent < 100 << 20, "it was all taken");
        taken += sent;
        sockets.push(socket);
    }
    let grown = resident().saturating_sub(before);
    assert!(
        grown < 48 << 20,
        "{grown} bytes more in memory after {taken} bytes"
    );
    drop(sockets);
    answers(&served, &cookie);
}

#[test]
fn documents_as_deep_as_they_are_long_are_refused() {
    let options = Options {
        write: true,
        ..Options::default()
    };
    let served = served_with(options);
    let cookie = served.cookie();
    let mut socket = served.socket(&cookie);
    for text in ["[".repeat(60_000), r#"{"op":"#.repeat(10_000)] {
        socket.send(Message::text(text)).unwrap();
        let Message::Text(words) = socket.read().unwrap() else {
            panic!("a refusal is text");
        };
        assert!(words.contains("refused"), "{words}");
    }
    // The connection is as good as before.
    let ask = r#"{"op": "step", "step": 1}"#;
    socket.send(Message::text(ask)).unwrap();
    assert!(matches!(socket.read().unwrap(), Message::Binary(_)));
    let own = format!("{}{cookie}", served.own());
    for (body, status) in [
        ("[".repeat(1 << 20), 400),
        (r#"{"flow":"#.repeat(100_000), 400),
        (" ".repeat((1 << 20) + 1), 413),
        (r#"{"verb": "fly"}"#.to_owned(), 400),
        (r#"{"verb": 7}"#.to_owned(), 400),
        ("7".to_owned(), 400),
        (String::new(), 400),
    ] {
        let reply = served.post("/api/do", &own, &body);
        let start: String = body.chars().take(40).collect();
        assert_eq!(reply.status, status, "{start}");
        assert!(!reply.error().is_empty(), "{start}");
    }
}

#[test]
fn a_body_that_stops_half_way_is_let_go() {
    let served = served();
    let own = format!("{}{}", served.own(), served.cookie());
    let port = served.port();
    let half: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| {
            let mut stream = served.connect();
            let head = format!(
                "POST /api/do HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 1000\r\n{own}\r\n{{"
            );
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    // The server closes these within the time of a request, and no other client has to go for that.
    let end = std::time::Instant::now() + Duration::from_secs(240);
    while !comes(&served) {
        assert!(std::time::Instant::now() < end, "places come free");
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(half);
}
