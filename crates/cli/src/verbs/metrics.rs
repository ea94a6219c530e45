//! `constel metrics`: a running lab's counters as OpenMetrics text.

use std::io::{self, Read as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use constel_control::metrics::{CONTENT_TYPE, Exporter};
use constel_web::http::Answer;

use crate::args::Metrics;
use crate::exit::{Exit, Failure, Outcome};
use crate::{output, signals};

/// Maximum length of a request, bytes.
const LONGEST: usize = 8 * 1024;
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
    output::text(&format!("http://{}/metrics\n", listener.local_addr()?))?;
    while !stop.load(Ordering::Acquire) {
        match listener.accept() {
            // Clients are served one after the other; a slow one is disconnected.
            Ok((client, _)) => {
                let text = exporter.text();
                // A client that disconnects is not an error.
                let _ = answer(client, text.as_deref().ok());
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
fn answer(mut client: TcpStream, text: Option<&str>) -> io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let end = Instant::now() + PATIENCE;
    let mut question = Vec::new();
    let mut piece = [0; 1024];
    while !question.windows(4).any(|end| end == b"\r\n\r\n") && question.len() < LONGEST {
        match client.read(&mut piece)? {
            0 => break,
            _ if Instant::now() > end => return Ok(()),
            n => question.extend_from_slice(&piece[..n]),
        }
    }
    let (status, kind, body) = match (asked(&question), text) {
        (HttpRequest::Metrics, Some(text)) => (200, CONTENT_TYPE, text),
        (HttpRequest::Metrics, None) => (503, "text/plain", "the lab does not answer\n"),
        (HttpRequest::Other, _) => (404, "text/plain", "GET /metrics\n"),
        (HttpRequest::Nonsense, _) => (
            400,
            "text/plain",
            "not an HTTP request for a name of the loopback\n",
        ),
    };
    let answer = Answer {
        status,
        kind,
        body: body.into(),
        ..Answer::default()
    };
    answer.send(&mut client)
}

#[derive(Debug, PartialEq, Eq)]
enum HttpRequest {
    Metrics,
    Other,
    Nonsense,
}

/// Parses a request. A request for a host name other than the loopback's comes from a foreign page whose name resolves to this
/// machine (DNS rebinding).
fn asked(question: &[u8]) -> HttpRequest {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    if !request
        .parse(question)
        .is_ok_and(|parsed| parsed.is_complete())
    {
        return HttpRequest::Nonsense;
    }
    let mut hosts = request
        .headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case("host"));
    let local = hosts.all(|header| {
        let host = String::from_utf8_lossy(header.value);
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => &*host,
        };
        matches!(name, "localhost" | "127.0.0.1" | "[::1]")
    });
    match (local, request.method, request.path) {
        (false, ..) => HttpRequest::Nonsense,
        (true, Some("GET"), Some("/metrics")) => HttpRequest::Metrics,
        _ => HttpRequest::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_metrics_are_served_and_only_to_this_machine() {
        for (question, wants) in [
            (
                "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9100\r\n\r\n",
                HttpRequest::Metrics,
            ),
            (
                "GET /metrics HTTP/1.1\r\nHost: [::1]:9100\r\n\r\n",
                HttpRequest::Metrics,
            ),
            (
                "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
                HttpRequest::Metrics,
            ),
            ("GET /metrics HTTP/1.0\r\n\r\n", HttpRequest::Metrics),
            (
                "GET / HTTP/1.1\r\nHost: localhost:1\r\n\r\n",
                HttpRequest::Other,
            ),
            (
                "POST /metrics HTTP/1.1\r\nHost: localhost:1\r\n\r\n",
                HttpRequest::Other,
            ),
            (
                "GET /metrics HTTP/1.1\r\nHost: evil.example:9100\r\n\r\n",
                HttpRequest::Nonsense,
            ),
            (
                "GET /metrics HTTP/1.1\r\nHost: localhost",
                HttpRequest::Nonsense,
            ),
            ("\u{0}\u{1}", HttpRequest::Nonsense),
        ] {
            assert_eq!(asked(question.as_bytes()), wants, "{question:?}");
        }
    }
}
