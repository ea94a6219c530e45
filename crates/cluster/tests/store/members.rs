//! Members that answer as none does: without an end, byte by byte, with nonsense. In every case, a request has an end.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use constel_cluster::store::{Error, Etcd, Store, Txn};

use crate::store::support::HANGS_AFTER;

/// A member that answers every question so, until its client has gone.
fn member(answer: fn(&mut TcpStream) -> std::io::Result<()>) -> Etcd {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("etcd://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut line = String::new();
                let mut from = BufReader::new(stream.try_clone()?);
                while from.read_line(&mut line)? > 2 {
                    line.clear();
                }
                answer(&mut { stream })
            });
        }
    });
    Etcd::new(&address.parse().unwrap()).unwrap()
}

/// A byte now and a byte then: no read of it is silent for long.
fn slowly(to: &mut TcpStream) -> std::io::Result<()> {
    loop {
        to.write_all(b" ")?;
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn slow_refusal(to: &mut TcpStream) -> std::io::Result<()> {
    to.write_all(b"HTTP/1.1 503 No\r\nContent-Length: 1000000000\r\n\r\n")?;
    slowly(to)
}

fn slow_answer(to: &mut TcpStream) -> std::io::Result<()> {
    to.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")?;
    slowly(to)
}

fn endless_refusal(to: &mut TcpStream) -> std::io::Result<()> {
    to.write_all(b"HTTP/1.1 500 No\r\nConnection: close\r\n\r\n")?;
    loop {
        to.write_all(&[b'x'; 4096])?;
    }
}

fn endless_answer(to: &mut TcpStream) -> std::io::Result<()> {
    to.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
    loop {
        to.write_all(&[b'x'; 4096])?;
    }
}

#[test]
fn a_question_has_an_end_whatever_a_member_answers() {
    for (name, answer) in [
        ("slow refusal", slow_refusal as fn(&mut TcpStream) -> _),
        ("slow answer", slow_answer),
        ("endless refusal", endless_refusal),
        ("endless answer", endless_answer),
    ] {
        let store = member(answer);
        let got = store.get("key");
        assert!(matches!(got, Err(Error::Unreachable(_))), "{name}: {got:?}");
        // The result is unknown.
        let put = store.commit(&Txn::new().put("key", "x"));
        assert!(matches!(put, Err(Error::Uncertain(_))), "{name}: {put:?}");
    }
}

#[test]
fn a_watch_says_that_nothing_comes_of_it() {
    for (name, answer) in [
        ("slow refusal", slow_refusal as fn(&mut TcpStream) -> _),
        ("slow answer", slow_answer),
        ("endless refusal", endless_refusal),
    ] {
        let store = member(answer);
        let mut watch = store.watch("", 1).unwrap();
        let next = watch.next(HANGS_AFTER);
        assert!(next.is_err(), "{name}: {next:?}");
    }
}
