//! A real server on the loopback, and clients that behave and that do not.

use crate::served;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use constel_web::CONNECTIONS;
use constel_web::frame::MAGIC;
use constel_web::views::{DraftView, LinkView, Mode, Timeline, World};
use served::served;

fn upgrade(port: u16, fields: &str) -> String {
    format!(
        "GET /api/socket HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{fields}\r\n"
    )
}

#[test]
fn the_page_comes_without_a_session_and_nothing_else_does() {
    let served = served();
    for path in ["/", "/app.js", "/app.css", "/land.json"] {
        let reply = served.get(path, "");
        assert_eq!(reply.status, 200, "{path}");
        assert!(
            reply.head.contains("default-src 'none'; script-src 'self'"),
            "{}",
            reply.head
        );
        assert!(
            reply.head.contains("frame-ancestors 'none'"),
            "{}",
            reply.head
        );
        assert!(
            !reply.head.to_lowercase().contains("access-control"),
            "{}",
            reply.head
        );
        let etag = reply
            .head
            .lines()
            .find_map(|line| line.strip_prefix("ETag: "))
            .unwrap();
        let again = served.get(path, &format!("If-None-Match: {etag}\r\n"));
        assert_eq!((again.status, again.body.len()), (304, 0));
    }
    for path in [
        "/api/world",
        "/api/events",
        "/api/link?a=tokyo&b=london",
        "/api/run",
    ] {
        assert_eq!(served.get(path, "").status, 401, "{path}");
    }
    assert_eq!(served.get("/../etc/passwd", "").status, 404);
    assert_eq!(
        served.raw(&upgrade(served.port(), &served.own())).status,
        401
    );
}

#[test]
fn a_token_is_good_for_one_browser_and_the_next_address_is_told() {
    let served = served();
    let first = served.server.url();
    let wrong = served.post("/api/session", &served.own(), "x".repeat(32).as_str());
    assert_eq!(wrong.status, 401);
    assert_eq!(served.post("/api/session", &served.own(), "").status, 401);
    let cookie = served.cookie();
    assert_eq!(served.get("/api/world", &cookie).status, 200);
    let token = first.split('#').nth(1).unwrap();
    let again = served.post("/api/session", &served.own(), token);
    assert_eq!(again.status, 401);
    assert!(
        again.error().contains("open the address"),
        "{}",
        again.error()
    );
    assert_eq!(*served.next.lock().unwrap(), [served.server.url()]);
    assert_ne!(served.server.url(), first);
    // A client with a session that loads the page again needs no token.
    let reloaded = served.post("/api/session", &format!("{}{cookie}", served.own()), "");
    assert_eq!(reloaded.status, 200);
    let stranger = "Cookie: constel-1=abc\r\n";
    assert_eq!(served.get("/api/world", stranger).status, 401);
}

#[test]
fn other_sites_and_rebound_names_are_refused() {
    let served = served();
    let (port, cookie) = (served.port(), served.cookie());
    let rebound = format!(
        "GET /api/world HTTP/1.1\r\nHost: evil.example:{port}\r\nOrigin: http://evil.example:{port}\r\n{cookie}\r\n"
    );
    let reply = served.raw(&rebound);
    assert_eq!(reply.status, 421);
    assert!(reply.error().contains("ssh -L"), "{}", reply.error());
    assert_eq!(
        served
            .raw(&format!(
                "GET / HTTP/1.1\r\nHost: evil.example:{port}\r\n\r\n"
            ))
            .status,
        421
    );
    let foreign = format!("Origin: http://evil.example\r\n{cookie}");
    assert_eq!(served.get("/api/world", &foreign).status, 403);
    let cross = format!("Sec-Fetch-Site: cross-site\r\n{cookie}");
    assert_eq!(served.get("/api/world", &cross).status, 403);
    for origin in [
        "Origin: http://evil.example\r\n",
        "Origin: null\r\n",
        "Origin: https://127.0.0.1\r\n",
        "",
    ] {
        let reply = served.raw(&upgrade(port, &format!("{origin}{cookie}")));
        assert_eq!(reply.status, 403, "{origin}");
    }
}

#[test]
fn a_form_of_another_site_changes_nothing() {
    let served = served();
    let (port, cookie) = (served.port(), served.cookie());
    let order = r#"{"verb": "down"}"#;
    let origin = format!("Origin: http://127.0.0.1:{port}\r\n{cookie}");
    assert_eq!(
        served.post("/api/do", &origin, order).status,
        403,
        "without the page's header"
    );
    let header = format!("X-Constel: 1\r\n{cookie}");
    assert_eq!(
        served.post("/api/do", &header, order).status,
        403,
        "without an origin"
    );
    assert_eq!(
        served.post("/api/do", &served.own(), order).status,
        401,
        "without a session"
    );
    let all = format!("{}{cookie}", served.own());
    let reply = served.post("/api/do", &all, order);
    assert_eq!(reply.status, 403);
    assert!(reply.error().contains("--write"), "{}", reply.error());
    assert_eq!(served.get("/api/do", &cookie).status, 405);
    assert_eq!(
        served
            .raw(&format!(
                "DELETE /api/world HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{cookie}\r\n"
            ))
            .status,
        405
    );
    let shell = upgrade(port, &all).replace("/api/socket", "/api/shell?node=tokyo");
    let reply = served.raw(&shell);
    assert_eq!(reply.status, 403);
    assert!(reply.error().contains("--shell"), "{}", reply.error());
}

#[test]
fn what_is_asked_is_answered_by_the_scenario() {
    let served = served();
    let cookie = served.cookie();
    let world: World = served.get("/api/world", &cookie).json();
    assert_eq!((world.mode, world.nodes.len()), (Mode::Plan, 80));
    assert!(!world.may_write && !world.may_shell);
    let link: LinkView = served
        .get("/api/link?a=tokyo&b=london&step=3", &cookie)
        .json();
    assert!(!link.up && link.why.starts_with("down"), "{}", link.why);
    for (path, words) in [
        ("/api/link?a=tokyo&b=lodnon", "nearest is 'london'"),
        ("/api/link?a=tokyo", "which b?"),
        ("/api/node?node=tokyo&step=x", "no whole number"),
        ("/api/node?node=tokyo&step=18446744073709551615", "2262"),
        ("/api/routes?node=tokyo", "no lab"),
        ("/api/columns?of=../manifest", "no results"),
    ] {
        let reply = served.get(path, &cookie);
        assert_eq!(reply.status, 400, "{path}");
        assert!(reply.error().contains(words), "{path}: {}", reply.error());
    }
    assert_eq!(served.get("/api/nothing", &cookie).status, 404);
    let end = Instant::now() + Duration::from_secs(240);
    loop {
        let timeline: Timeline = served.get("/api/events", &cookie).json();
        if timeline.complete {
            assert!(timeline.events.len() >= 7);
            break;
        }
        assert!(Instant::now() < end, "the minute is foretold within one");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_socket_tells_steps_and_refuses_what_is_none() {
    use tungstenite::Message;
    let served = served();
    let cookie = served.cookie();
    let mut socket = served.socket(&cookie);
    let mut ask = |text: &str| {
        socket.send(Message::text(text)).unwrap();
        socket.read().unwrap()
    };
    let Message::Binary(whole) = ask(r#"{"op": "step", "step": 5}"#) else {
        panic!("a step is bytes");
    };
    assert_eq!(whole[..4], MAGIC.to_le_bytes());
    let Message::Binary(next) = ask(r#"{"op": "step", "step": 6}"#) else {
        panic!("a step is bytes");
    };
    assert!(
        2 * next.len() < whole.len(),
        "{} after {}",
        next.len(),
        whole.len()
    );
    for bad in [
        "{",
        r#"{"op": "fly"}"#,
        r#"{"op": "step"}"#,
        r#"{"op": "step", "step": -1}"#,
        r#"{"op": "step", "step": 18446744073709551615}"#,
    ] {
        let Message::Text(refused) = ask(bad) else {
            panic!("a refusal is text");
        };
        assert!(refused.contains("\"refused\""), "{bad}: {refused}");
    }
    let Message::Binary(_) = ask(r#"{"op": "step", "step": 7, "ahead": 18446744073709551615}"#)
    else {
        panic!("bounded, and told");
    };
}

#[test]
fn a_message_of_a_hundred_megabytes_ends_its_connection_unread() {
    let served = served();
    let cookie = served.cookie();
    let socket = served.socket(&cookie);
    let stream = socket.get_ref();
    // A frame's head that promises 100 MB of text, masked; then as much of it as is taken.
    let mut head = vec![0x81, 0xff];
    head.extend_from_slice(&100_000_000_u64.to_be_bytes());
    head.extend_from_slice(&[1, 2, 3, 4]);
    let mut writer = stream;
    writer.write_all(&head).unwrap();
    stream
        .set_write_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let piece = vec![0; 1 << 20];
    let mut taken = 0;
    while taken < 100 && writer.write_all(&piece).is_ok() {
        taken += 1;
    }
    assert!(taken < 100, "the server read it all");
}

#[test]
fn half_open_connections_are_few_and_do_not_stay() {
    let served = served();
    let silent: Vec<TcpStream> = (0..CONNECTIONS).map(|_| served.connect()).collect();
    // Each has its thread before the next is looked at: connections are accepted in their order.
    let mut refused = served.connect();
    let mut text = String::new();
    refused.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 503"), "{text}");
    drop(silent);
    let end = Instant::now() + Duration::from_secs(240);
    let request = served.request("/", "");
    let served_is = |reply: Vec<u8>| reply.starts_with(b"HTTP/1.1 200");
    while !served.exchange(&request).is_ok_and(served_is) {
        assert!(Instant::now() < end, "places come free");
    }
}

#[test]
fn who_does_not_read_is_dropped_and_nobody_waits_for_him() {
    use tungstenite::Message;
    let served = served();
    let cookie = served.cookie();
    let ask = r#"{"op": "step", "step": 1}"#;
    // How long another session's question takes.
    let answered = || {
        let mut other = served.socket(&cookie);
        let began = Instant::now();
        other.send(Message::text(ask)).unwrap();
        assert!(matches!(other.read().unwrap(), Message::Binary(_)));
        began.elapsed()
    };
    let alone = answered();
    let mut stalled = served.socket(&cookie);
    stalled
        .get_ref()
        .set_write_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    // He asks and never reads, until he cannot even ask: the server waits to send.
    let anew = r#"{"op": "reset"}"#;
    let end = Instant::now() + Duration::from_secs(240);
    while Instant::now() < end {
        if stalled.send(Message::text(anew)).is_err() || stalled.send(Message::text(ask)).is_err() {
            break;
        }
    }
    assert!(Instant::now() < end, "he is let wait");
    let beside = answered();
    assert!(
        beside < Duration::from_secs(4) + 100 * alone,
        "{beside:?}, and {alone:?} before him"
    );
}

#[test]
fn a_draft_is_checked_and_planned_for_a_session_and_from_the_page_alone() {
    let served = served();
    let text = "constel: 1\nname: mine\nduration: 60\n";
    assert_eq!(served.post("/api/draft", &served.own(), text).status, 401);
    let cookie = served.cookie();
    assert_eq!(served.post("/api/draft", &cookie, text).status, 403);
    assert_eq!(served.get("/api/draft", &cookie).status, 405);
    let own = format!("{}{cookie}", served.own());
    let view: DraftView = served.post("/api/draft", &own, text).json();
    assert_eq!(view.plan, None);
    let lines: Vec<u32> = view.errors.iter().map(|error| error.line).collect();
    assert!(lines.contains(&3), "{:?}", view.errors);
    // The scenario with which a new one begins is valid.
    let first = include_str!("../src/first.yaml");
    let view: DraftView = served.post("/api/draft", &own, first).json();
    assert_eq!(view.errors, []);
    assert_eq!(view.plan.unwrap().world.name, "new");
}
