//! Shells over a socket: a real terminal whose program is a stand-in for `constel shell LAB NODE`, so that no lab is needed.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use constel_control::Scenario;
use constel_web::shell::WINDOW;
use constel_web::{Options, Server, ShellProgram, Source};
use tungstenite::protocol::Role;
use tungstenite::{Message, WebSocket};

struct Shell {
    socket: WebSocket<TcpStream>,
    heard: String,
    bytes: u64,
}

fn request(port: u16, words: &str, more: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let timeout = Some(Duration::from_secs(240));
    stream.set_read_timeout(timeout).unwrap();
    write!(
        stream,
        "{words} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\nX-Constel: 1\r\nContent-Length: {}\r\n{more}\r\n{body}",
        body.len()
    )
    .unwrap();
    stream
}

fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

fn open(server: &Server) -> Shell {
    let port = server.address().port();
    let token = server.url().split('#').nth(1).unwrap().to_owned();
    let session = head(&mut request(port, "POST /api/session", "", &token));
    let cookie = session
        .lines()
        .find_map(|line| line.strip_prefix("Set-Cookie: "))
        .and_then(|line| line.split(';').next())
        .unwrap_or_else(|| panic!("no session: {session}"));
    let more = format!(
        "Cookie: {cookie}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    );
    let mut stream = request(port, "GET /api/shell?node=tokyo", &more, "");
    let answer = head(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
    Shell {
        socket: WebSocket::from_raw_socket(stream, Role::Client, None),
        heard: String::new(),
        bytes: 0,
    }
}

impl Shell {
    fn say(&mut self, text: &str) {
        self.socket.send(Message::text(text)).unwrap();
    }

    fn type_in(&mut self, text: &str) {
        let bytes = text.as_bytes().to_vec();
        self.socket.send(Message::binary(bytes)).unwrap();
    }

    fn shown(&mut self) {
        self.say(&format!(r#"{{"op": "shown", "bytes": {}}}"#, self.bytes));
    }

    /// Hears one message; whether there was one.
    fn hear(&mut self) -> bool {
        match self.socket.read() {
            Ok(Message::Binary(bytes)) => {
                self.bytes += bytes.len() as u64;
                self.heard.push_str(&String::from_utf8_lossy(&bytes));
                let extra = self.heard.len().saturating_sub(1 << 16);
                self.heard.drain(..extra);
                true
            }
            Ok(Message::Text(text)) => {
                self.heard.push_str(&text);
                true
            }
            Ok(_) => true,
            Err(tungstenite::Error::Io(error))
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                ) =>
            {
                false
            }
            Err(error) => panic!("{error}: {}", self.heard),
        }
    }

    fn until(&mut self, wanted: &str) {
        let end = Instant::now() + Duration::from_secs(240);
        while !self.heard.contains(wanted) {
            assert!(Instant::now() < end, "{wanted}: {}", self.heard);
            self.hear();
        }
        self.shown();
    }
}

fn served(folder: &Path) -> Server {
    let program = folder.join("stand-in");
    // The stand-in prints the arguments that `constel` would get. A shell that runs tests in the background makes them ignore Ctrl-C.
    let text = "#!/bin/sh\necho \"called with $*\"\nexec env --default-signal=INT,QUIT sh -i\n";
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/iridium.yaml");
    let shell = Some(ShellProgram {
        program,
        lab: "sky".to_owned(),
    });
    let options = Options {
        shell,
        ..Options::default()
    };
    Server::start(Source::plan(Scenario::load(&file).unwrap()), options).unwrap()
}

#[test]
fn a_shell_types_resizes_and_is_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let server = served(folder.path());
    let mut shell = open(&server);
    shell.until("called with shell sky -- tokyo");
    shell.type_in("echo sum-$((40+2))\n");
    shell.until("sum-42");
    shell.say(r#"{"op": "size", "columns": 91, "rows": 33}"#);
    shell.type_in("echo is-$(stty size)\n");
    shell.until("is-33 91");
    shell.type_in("sleep 600; echo not-$((1+1))\n");
    // Typed ahead of the interrupt, the terminal has it by the time the program runs or before.
    std::thread::sleep(Duration::from_millis(300));
    shell.type_in("\u{3}");
    shell.type_in("echo after-$((1+1))\n");
    shell.until("after-2");
    assert!(!shell.heard.contains("not-2"));
    shell.say(r#"{"op": "rm"}"#);
    shell.until("refused");
    shell.type_in("exit 7\n");
    let end = Instant::now() + Duration::from_secs(240);
    while !shell.heard.contains("ended") {
        assert!(Instant::now() < end, "{}", shell.heard);
        shell.hear();
    }
    assert!(shell.heard.contains(r#""code":7"#), "{}", shell.heard);
}

#[test]
fn who_shows_nothing_is_sent_a_window_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let server = served(folder.path());
    let mut shell = open(&server);
    shell.until("called with");
    let before = shell.bytes;
    shell.type_in("yes\n");
    let pause = Some(Duration::from_millis(700));
    shell.socket.get_ref().set_read_timeout(pause).unwrap();
    while shell.hear() {}
    let sent = shell.bytes - before;
    // The piece that fills the window may go beyond it.
    let most = WINDOW + (16 << 10);
    assert!((WINDOW..=most).contains(&sent), "{sent} bytes");
    // It goes on when it was shown, in pieces of any size.
    let end = Instant::now() + Duration::from_secs(240);
    while shell.bytes <= before + 2 * WINDOW {
        assert!(Instant::now() < end, "{} bytes", shell.bytes - before);
        shell.shown();
        shell.hear();
    }
    shell.type_in("\u{3}");
    shell.type_in("echo over-$((1+1))\n");
    shell.until("over-2");
}
