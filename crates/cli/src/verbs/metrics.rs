//! `constel metrics`: a running lab's counters as OpenMetrics text.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use constel_control::metrics::{CONTENT_TYPE, Exporter};
use constel_web::guard::Guard;
use constel_web::http::{Answer, BadRequest, Head, Request};

use crate::args::Metrics;
use crate::exit::{Exit, Failure, Outcome};
use crate::{output, signals};

/// Maximum time for a request to arrive, and for its answer to be read.
const PATIENCE: Duration = Duration::from_secs(2);

/// The interval at which the stop flag is checked.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Prints the counters once, or serves them.
pub(crate) fn run(args: &Metrics) -> Outcome {
    let Some(address) = args.listen else {
        output::text(&Exporter::attach(&args.lab)?.text()?)?;
        return Ok(Exit::Done);
    };
    if !address.ip().is_loopback() {
        return Err(Failure::Usage(format!(
            "--listen {address}: counters are served on this machine only; listen at 127.0.0.1, and connect from other machines with `ssh -L {0}:127.0.0.1:{0} HOST`",
            address.port()
        )));
    }
    let exporter = Exporter::attach(&args.lab)?;
    let stop = Arc::new(AtomicBool::new(false));
    signals::set(&[&stop])?;
    let listener = TcpListener::bind(address)
        .map_err(|error| Failure::Usage(format!("--listen {address}: {error}")))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let guard = Guard::new(address.port());
    output::text(&format!("http://{address}/metrics\n"))?;
    while !stop.load(Ordering::Acquire) {
        match listener.accept() {
            // Clients are served one after the other; a slow one is disconnected.
            Ok((client, _)) => {
                let text = exporter.text();
                // A client that disconnects is not an error.
                let _ = answer(client, &guard, text.as_deref().ok());
                match text {
                    Err(_) if exporter.is_over() => return Ok(Exit::Done),
                    _ => {}
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                std::thread::sleep(LOOK_EVERY)
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Exit::Interrupted)
}

/// Answers one request; with `None`, the lab does not answer.
fn answer(mut client: TcpStream, guard: &Guard, text: Option<&str>) -> io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let answer = match Request::read(&mut client, Instant::now() + PATIENCE) {
        Ok(request) => reply(&request.head, guard, text),
        Err(BadRequest::Answer(status, words)) => Answer::refused(status, words),
        Err(BadRequest::Gone) => return Ok(()),
    };
    answer.send(&mut client)
}

fn reply(head: &Head, guard: &Guard, text: Option<&str>) -> Answer {
    if let Err(refusal) = guard.name(head) {
        return Answer::refused(refusal.status(), refusal.words());
    }
    match (head.method.as_str(), head.path.as_str(), text) {
        ("GET", "/metrics", Some(text)) => Answer {
            status: 200,
            kind: CONTENT_TYPE,
            body: text.into(),
            ..Answer::default()
        },
        ("GET", "/metrics", None) => Answer::refused(503, "the lab does not answer"),
        _ => Answer::refused(404, "only GET /metrics is answered"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_metrics_are_served_and_only_to_this_machine() {
        for (line, host, status) in [
            ("GET /metrics", "127.0.0.1:9100", 200),
            ("GET /metrics?x", "[::1]:9100", 200),
            ("GET /", "localhost:9100", 404),
            ("POST /metrics", "localhost:9100", 404),
            ("GET /metrics", "evil.example:9100", 421),
            ("GET /metrics", "localhost", 421),
        ] {
            let text = format!("{line} HTTP/1.1\r\nHost: {host}\r\n\r\n");
            let read = Request::read(&mut text.as_bytes(), Instant::now() + PATIENCE);
            let answer = reply(&read.unwrap().head, &Guard::new(9100), Some("# EOF\n"));
            assert_eq!(answer.status, status, "{text}");
        }
    }
}
