//! Heads of requests, read within bounds, and answers.

use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use percent_encoding::percent_decode_str;

use crate::views::Refused;

/// Longest head of a request, bytes.
pub const HEAD_BYTES: usize = 16 << 10;

/// Longest body of a request, bytes: the rules of a box.
pub const BODY_BYTES: usize = 1 << 20;

/// Most fields of a head.
const FIELDS: usize = 64;

/// How long a request may take to arrive.
pub const REQUEST_WITHIN: Duration = Duration::from_secs(10);

/// The content security policy: pages may use only resources of this server, and no site may frame them. The page's script
/// sets styles.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
    connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The head of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// `GET`, `POST`.
    pub method: String,
    /// Without its query.
    pub path: String,
    /// The text after `?`.
    pub query: String,
    /// Names in lower case, and values.
    pub fields: Vec<(String, String)>,
}

impl Head {
    /// All values of a field.
    #[must_use]
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.fields
            .iter()
            .filter(|(own, _)| own == name)
            .map(|(_, value)| value.as_str())
            .collect()
    }

    /// Returns the value of a field that occurs once.
    #[must_use]
    pub fn only(&self, name: &str) -> Option<&str> {
        match self.all(name).as_slice() {
            [one] => Some(one),
            _ => None,
        }
    }

    /// A value of the query, decoded.
    #[must_use]
    pub fn asked(&self, name: &str) -> Option<String> {
        let pairs = self
            .query
            .split('&')
            .filter_map(|pair| pair.split_once('='));
        let mut own = pairs.filter(|(own, _)| *own == name);
        let (_, value) = own.next()?;
        let spaced = value.replace('+', " ");
        let decoded = percent_decode_str(&spaced).decode_utf8();
        decoded.ok().map(Cow::into_owned)
    }
}

/// Why a request was not read.
#[derive(Debug)]
pub enum BadRequest {
    /// No request arrived, or it ended early, or it was too slow, so no answer is possible.
    Gone,
    /// It is answered with this status and words.
    Answer(u16, &'static str),
}

impl From<io::Error> for BadRequest {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

/// The head of a request, and the part of its body that came with it.
#[derive(Debug)]
pub struct Request {
    /// The head.
    pub head: Head,
    /// Bytes that were read beyond the head.
    rest: Vec<u8>,
}

impl Request {
    /// Reads a head of at most [`HEAD_BYTES`] before `end`.
    ///
    /// # Errors
    /// If it is invalid.
    pub fn read(from: &mut impl Read, end: Instant) -> Result<Self, BadRequest> {
        let mut bytes = Vec::with_capacity(2048);
        loop {
            let mut fields = [httparse::EMPTY_HEADER; FIELDS];
            let mut parsed = httparse::Request::new(&mut fields);
            match parsed.parse(&bytes) {
                Ok(httparse::Status::Complete(length)) => {
                    let head = owned(&parsed)?;
                    let rest = bytes.split_off(length);
                    return Ok(Self { head, rest });
                }
                Ok(httparse::Status::Partial) if bytes.len() >= HEAD_BYTES => {
                    return Err(BadRequest::Answer(
                        431,
                        "the head of the request is too long",
                    ));
                }
                Ok(httparse::Status::Partial) => {}
                Err(httparse::Error::TooManyHeaders) => {
                    return Err(BadRequest::Answer(431, "the request has too many fields"));
                }
                Err(_) => return Err(BadRequest::Answer(400, "this is no request of HTTP/1.1")),
            }
            if Instant::now() > end {
                return Err(BadRequest::Gone);
            }
            let mut piece = [0; 2048];
            let room = (HEAD_BYTES - bytes.len()).min(piece.len());
            let got = from.read(&mut piece[..room])?;
            if got == 0 {
                return Err(BadRequest::Gone);
            }
            bytes.extend_from_slice(&piece[..got]);
        }
    }

    /// Whether more was sent than the head: a socket's client must wait for its answer.
    #[must_use]
    pub fn is_followed(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Reads the body of at most [`BODY_BYTES`] before `end`.
    ///
    /// # Errors
    /// If it is too long, or the request does not state its length.
    pub fn body(self, from: &mut impl Read, end: Instant) -> Result<Vec<u8>, BadRequest> {
        if !self.head.all("transfer-encoding").is_empty() {
            return Err(BadRequest::Answer(411, "the body needs a length"));
        }
        let said = self.head.only("content-length").map(str::parse::<usize>);
        let length = match said {
            Some(Ok(length)) => length,
            _ => {
                return Err(BadRequest::Answer(411, "the body needs a length"));
            }
        };
        if length > BODY_BYTES {
            return Err(BadRequest::Answer(
                413,
                "the body of the request is too long",
            ));
        }
        let mut bytes = self.rest;
        while bytes.len() < length {
            if Instant::now() > end {
                return Err(BadRequest::Gone);
            }
            let mut piece = [0; 8192];
            let room = (length - bytes.len()).min(piece.len());
            let got = from.read(&mut piece[..room])?;
            if got == 0 {
                return Err(BadRequest::Gone);
            }
            bytes.extend_from_slice(&piece[..got]);
        }
        bytes.truncate(length);
        Ok(bytes)
    }
}

fn owned(parsed: &httparse::Request<'_, '_>) -> Result<Head, BadRequest> {
    let bad = BadRequest::Answer(400, "this is no request of HTTP/1.1");
    let (Some(method), Some(target), Some(1)) = (parsed.method, parsed.path, parsed.version) else {
        return Err(bad);
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut fields = Vec::with_capacity(parsed.headers.len());
    for field in parsed.headers.iter() {
        let Ok(value) = std::str::from_utf8(field.value) else {
            return Err(bad);
        };
        fields.push((field.name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    Ok(Head {
        method: method.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        fields,
    })
}

/// A response.
#[derive(Debug, Default)]
pub struct Answer {
    /// 200 and the like.
    pub status: u16,
    /// Media type of `body`.
    pub kind: &'static str,
    /// The text, file or document.
    pub body: Vec<u8>,
    /// Whether `body` is compressed by gzip.
    pub gzip: bool,
    /// Digest by which browsers cache the response. Without one they do not.
    pub etag: Option<String>,
    /// A cookie to set.
    pub cookie: Option<String>,
}

impl Answer {
    /// A JSON document.
    #[must_use]
    pub fn json(document: &impl serde::Serialize) -> Self {
        match serde_json::to_vec(document) {
            Ok(body) => Self {
                status: 200,
                kind: "application/json",
                body,
                ..Self::default()
            },
            Err(error) => Self::refused(500, &error.to_string()),
        }
    }

    /// Returns a refusal as text: `{"error": "..."}`.
    #[must_use]
    pub fn refused(status: u16, words: &str) -> Self {
        let error = Refused {
            error: words.to_owned(),
        };
        Self {
            status,
            kind: "application/json",
            body: serde_json::to_vec(&error).unwrap_or_default(),
            ..Self::default()
        }
    }

    /// Sends it; the connection ends with it.
    ///
    /// # Errors
    /// When the client has left, or does not read.
    pub fn send(&self, to: &mut impl Write) -> io::Result<()> {
        let reason = match self.status {
            200 => "OK",
            304 => "Not Modified",
            400 => "Bad Request",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            421 => "Misdirected Request",
            503 => "Service Unavailable",
            _ => "Refused",
        };
        let mut head = format!("HTTP/1.1 {} {reason}\r\n", self.status);
        let mut field = |name: &str, value: &str| {
            head.push_str(&format!("{name}: {value}\r\n"));
        };
        field("Content-Length", &self.body.len().to_string());
        field("Connection", "close");
        field("Content-Security-Policy", POLICY);
        field("X-Content-Type-Options", "nosniff");
        field("Referrer-Policy", "no-referrer");
        field("Cross-Origin-Opener-Policy", "same-origin");
        field("Cross-Origin-Resource-Policy", "same-origin");
        if !self.kind.is_empty() {
            field("Content-Type", self.kind);
        }
        if self.gzip {
            field("Content-Encoding", "gzip");
        }
        if let Some(cookie) = &self.cookie {
            field("Set-Cookie", cookie);
        }
        match &self.etag {
            Some(etag) => {
                field("ETag", etag);
                field("Cache-Control", "no-cache");
            }
            None => field("Cache-Control", "no-store"),
        }
        head.push_str("\r\n");
        to.write_all(head.as_bytes())?;
        to.write_all(&self.body)?;
        to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    /// A client that sends this many bytes at a time.
    struct Slowly<'a>(&'a [u8], usize);

    impl Read for Slowly<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(to.len()).min(self.0.len());
            to[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    #[test]
    fn a_request_is_read_whatever_its_pieces() {
        let text = b"POST /api/do?a=S%C3%A3o+Paulo&b=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcdef";
        for piece in [1, 7, 4096] {
            let mut from = Slowly(text, piece);
            let request = Request::read(&mut from, soon()).unwrap();
            assert_eq!(request.head.path, "/api/do");
            assert_eq!(request.head.asked("a").as_deref(), Some("São Paulo"));
            assert_eq!(request.head.asked("c"), None);
            assert_eq!(request.body(&mut from, soon()).unwrap(), b"abc");
        }
    }

    #[test]
    fn who_sends_a_byte_at_a_time_has_no_more_time_for_it() {
        let text = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
        let past = Instant::now() - Duration::from_millis(1);
        let late = Request::read(&mut Slowly(text, 1), past);
        assert!(matches!(late, Err(BadRequest::Gone)), "{late:?}");
    }

    #[test]
    fn what_is_no_request_is_refused_within_bounds() {
        let status = |text: &[u8]| match Request::read(&mut Slowly(text, 4096), soon()) {
            Err(BadRequest::Answer(status, _)) => status,
            Err(BadRequest::Gone) => 0,
            Ok(_) => 200,
        };
        assert_eq!(status(b""), 0);
        assert_eq!(status(b"GET / HTTP/1.1\r\nHost"), 0, "it ends early");
        assert_eq!(status(b"\x16\x03\x01\x02\x00\x01"), 400, "TLS");
        assert_eq!(status(b"GET / HTTP/1.0\r\n\r\n"), 400);
        let endless = [
            b"GET / HTTP/1.1\r\nX: ".to_vec(),
            vec![b'a'; 2 * HEAD_BYTES],
        ]
        .concat();
        assert_eq!(status(&endless), 431);
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(FIELDS + 1));
        assert_eq!(status(many.as_bytes()), 431);
    }

    #[test]
    fn a_body_without_a_length_or_beyond_the_bound_is_not_read() {
        let status = |fields: &str| {
            let text = format!("POST / HTTP/1.1\r\n{fields}\r\n");
            let mut from = Slowly(text.as_bytes(), 4096);
            match Request::read(&mut from, soon())
                .unwrap()
                .body(&mut from, soon())
            {
                Err(BadRequest::Answer(status, _)) => status,
                Err(BadRequest::Gone) => 0,
                Ok(_) => 200,
            }
        };
        assert_eq!(status(""), 411);
        assert_eq!(status("Content-Length: -1\r\n"), 411);
        assert_eq!(status("Transfer-Encoding: chunked\r\n"), 411);
        assert_eq!(status("Content-Length: 99999999999\r\n"), 413);
        assert_eq!(status("Content-Length: 5\r\n"), 0, "the client left");
        assert_eq!(status("Content-Length: 0\r\n"), 200);
    }

    #[test]
    fn an_answer_forbids_everything_foreign() {
        let mut sent = Vec::new();
        Answer::refused(403, "no").send(&mut sent).unwrap();
        let text = String::from_utf8(sent).unwrap();
        assert!(text.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{text}");
        assert!(
            text.contains("default-src 'none'; script-src 'self';"),
            "{text}"
        );
        assert!(!text.to_lowercase().contains("access-control"), "{text}");
    }
}
