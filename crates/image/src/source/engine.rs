//! Images of the Docker or Podman engine of this machine: `GET /images/NAME/get` over its socket, which answers with
//! what `docker save` writes.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use super::files::spool;
use super::found::Context;
use crate::error::{Fault, shown};
use crate::reference::Reference;

/// An engine that says nothing for so long does not work. It collects layers before it answers.
const SILENCE: Duration = Duration::from_secs(120);
const MOST_HEAD: usize = 64 << 10;
const MOST_ERROR: u64 = 4096;

/// Has the engine save an image into a file without a name.
pub(super) fn save(image: &Reference, context: &Context<'_>) -> Result<File, Fault> {
    let socket = socket()?;
    let fault = |reason: String| Fault::Engine {
        socket: socket.display().to_string(),
        reason,
    };
    let stream = UnixStream::connect(&socket);
    let stream = stream.map_err(|e| fault(format!("cannot be reached: {e}")))?;
    let timed = stream.set_read_timeout(Some(SILENCE));
    timed
        .and(stream.set_write_timeout(Some(SILENCE)))
        .map_err(Fault::io("set a time-out"))?;
    let broken = |e: io::Error| fault(format!("does not answer: {e}"));
    // An answer of HTTP/1.0 has no chunks: it ends where the engine closes.
    let request = format!(
        "GET /images/{}/get HTTP/1.0\r\nHost: engine\r\n\r\n",
        quoted(image)
    );
    (&stream).write_all(request.as_bytes()).map_err(broken)?;
    let mut answer = BufReader::new(stream);
    let status = head(&mut answer).map_err(broken)?;
    if status != 200 {
        let mut said = Vec::new();
        answer
            .take(MOST_ERROR)
            .read_to_end(&mut said)
            .map_err(broken)?;
        return Err(fault(format!("refuses ({status}): {}", message(&said))));
    }
    spool(&mut answer, "the engine's answer", context)
}

/// `DOCKER_HOST`, where it names a socket; else the first there is of the usual ones.
fn socket() -> Result<PathBuf, Fault> {
    if let Some(host) = std::env::var_os("DOCKER_HOST").filter(|host| !host.is_empty()) {
        let host = host.to_string_lossy().into_owned();
        return match host.strip_prefix("unix://") {
            Some(path) => Ok(path.into()),
            None => Err(Fault::Engine {
                socket: shown(host.as_bytes()),
                reason: "is none of this machine's: DOCKER_HOST must begin with unix://".to_owned(),
            }),
        };
    }
    let own = std::env::var_os("XDG_RUNTIME_DIR");
    let own = own.map(|dir| PathBuf::from(dir).join("podman/podman.sock"));
    let usual = ["/var/run/docker.sock", "/run/podman/podman.sock"].map(PathBuf::from);
    let mut all = usual.into_iter().chain(own);
    all.find(|path| path.exists()).ok_or_else(|| Fault::Engine {
        socket: "/var/run/docker.sock".to_owned(),
        reason: "is not there, nor is Podman's".to_owned(),
    })
}

/// The name as a part of a path: what has a meaning in one is escaped.
fn quoted(image: &Reference) -> String {
    image.to_string().replace('%', "%25").replace('@', "%40")
}

/// Reads the head of an answer, and gives its status.
fn head(answer: &mut impl BufRead) -> io::Result<u16> {
    let mut bytes = Vec::new();
    loop {
        let n = answer
            .by_ref()
            .take(MOST_HEAD as u64)
            .read_until(b'\n', &mut bytes)?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if bytes.ends_with(b"\r\n\r\n") {
            break;
        }
        if bytes.len() > MOST_HEAD {
            return Err(io::Error::other("its answer's head is too long"));
        }
    }
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Response::new(&mut headers);
    parsed.parse(&bytes).map_err(io::Error::other)?;
    parsed
        .code
        .ok_or_else(|| io::Error::other("its answer has no status"))
}

/// What an error of the engine says: `{"message": "..."}`.
fn message(said: &[u8]) -> String {
    let json: Option<serde_json::Value> = serde_json::from_slice(said).ok();
    let text = json.as_ref().and_then(|json| json["message"].as_str());
    shown(text.map_or(said, str::as_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_and_no_more() {
        let text = b"HTTP/1.0 404 Not Found\r\nContent-Type: application/json\r\n\r\n{\"message\": \"no such image\"}";
        let mut answer = &text[..];
        assert_eq!(head(&mut answer).unwrap(), 404);
        assert_eq!(message(answer), "no such image");
        assert!(head(&mut &b"HTTP/1.0 200 OK\r\n"[..]).is_err());
        assert!(head(&mut &b"x".repeat(1 << 20)[..]).is_err());
    }
}
