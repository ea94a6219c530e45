//! Both ends of requests, with a script in place of `constel`.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use super::super::answerer::{Answerer, Answering};
use super::super::serve;
use super::super::shell::Size;
use super::*;
use crate::agent::record::UnderlayAt;
use crate::store::Embedded;
use crate::underlay::Key;

/// Until what must happen counts as hanging.
const HANGS: Duration = Duration::from_secs(60);

/// A machine `a` with a part of lab `l`, which is called `l-a` there.
struct Machine {
    store: Embedded,
    answering: Answering,
    requests: TcpListener,
    key: Key,
    end: AtomicBool,
    place: tempfile::TempDir,
}

impl Machine {
    /// The script answers its requests.
    fn new(script: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("constel");
        let script = script.replace("PLACE", place.path().to_str().unwrap());
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        let requests = TcpListener::bind("127.0.0.1:0").unwrap();
        requests.set_nonblocking(true).unwrap();
        let machine = Self {
            store: Embedded::new(),
            answering: Answering::new(program),
            requests,
            key: Key::new([7; 32]),
            end: AtomicBool::new(false),
            place,
        };
        machine.publish(&machine.key);
        machine.store.put(&keys::part("l", "a"), b"{}").unwrap();
        machine
    }

    /// Writes the machine's record with this key.
    fn publish(&self, key: &Key) {
        let record = Record {
            version: "1.0".to_owned(),
            host: "h".to_owned(),
            pid: 1,
            weight: 1,
            capacity: None,
            workers: 1,
            cores: 1,
            memory_bytes: 1,
            load: 0.0,
            nodes: 0,
            underlay: Some(UnderlayAt {
                interface: "lo".to_owned(),
                address: self.requests.local_addr().unwrap(),
                key: key.clone(),
                mtu_bytes: 1500,
                ethernet: None,
            }),
            clock: None,
        };
        let record = serde_json::to_vec(&record).unwrap();
        let name = crate::agent::keys::record("a");
        self.store.put(&name, &record).unwrap();
    }

    /// Answers requests during `work`.
    fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        thread::scope(|scope| {
            let _ends = Ends(&self.end);
            scope.spawn(|| serve::answer(&self.requests, &self.key, &self.answering, &self.end));
            work()
        })
    }

    /// The part with nodes that exist.
    fn part(&self) -> Answerer<'_> {
        let answerer = Answerer::new(&self.answering, "l", 1);
        answerer.ready("l-a");
        answerer
    }

    fn ask(&self, question: &CommandRequest, input: Vec<u8>) -> Heard {
        let mut heard = Heard::default();
        let input = Box::new(io::Cursor::new(input));
        let never = AtomicBool::new(false);
        let hear = &mut |written: Written<'_>| heard.hear(written);
        let reply = ask(&self.store, "l", question, input, &never, hear).unwrap();
        Heard {
            reply: Some(reply),
            ..heard
        }
    }

    /// The number in a file that the script has written, as soon as there is one.
    fn number(&self, file: &str) -> usize {
        let until = Instant::now() + HANGS;
        loop {
            let text = fs::read_to_string(self.place.path().join(file));
            match text.ok().and_then(|text| text.trim().parse().ok()) {
                Some(number) => return number,
                None => assert!(Instant::now() < until, "no {file}"),
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Ends the thread that answers, also when a test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[derive(Debug, Default)]
struct Heard {
    reply: Option<Reply>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Heard {
    fn hear(&mut self, written: Written<'_>) {
        match written {
            Written::Output(bytes) => self.stdout.extend_from_slice(bytes),
            Written::Errors(bytes) => self.stderr.extend_from_slice(bytes),
        }
    }

    fn silent(&self) -> &str {
        match &self.reply {
            Some(Reply::Silent(why)) => why,
            _ => panic!("{self:?}"),
        }
    }
}

fn question(verb: &str) -> CommandRequest {
    CommandRequest {
        machine: "a".to_owned(),
        verb: verb.split(' ').map(str::to_owned).collect(),
        args: vec!["tokyo".to_owned(), "--".to_owned(), "date".to_owned()],
    }
}

fn is_there(pid: usize) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

fn until(what: &str, found: impl Fn() -> bool) {
    let until = Instant::now() + HANGS;
    while !found() {
        assert!(Instant::now() < until, "never: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_command_answers_and_the_store_does_not_change() {
    let machine = Machine::new("echo \"$@\"; echo oops >&2; exit 7");
    let revision = machine.store.list("").unwrap().revision;
    let (said, refused) = machine.during(|| {
        let _part = machine.part();
        let said = machine.ask(&question("exec"), Vec::new());
        (said, machine.ask(&question("down"), Vec::new()))
    });
    assert_eq!(said.reply, Some(Reply::Exit(7)));
    assert_eq!(said.stdout, b"exec l-a tokyo -- date\n");
    assert_eq!(said.stderr, b"oops\n");
    assert_eq!(refused.reply, Some(Reply::Exit(2)));
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(why.contains("'down' cannot be sent to other machines"));
    assert_eq!(machine.store.list("").unwrap().revision, revision);
}

#[test]
fn a_machine_that_cannot_answer_is_named_with_the_reason() {
    let mut machine = Machine::new("echo never");
    let other = CommandRequest {
        machine: "b".to_owned(),
        ..question("exec")
    };
    machine.during(|| {
        let no_part = machine.ask(&question("exec"), Vec::new());
        assert!(no_part.silent().contains("part of lab l is not up"));
        let no_record = machine.ask(&other, Vec::new());
        assert!(no_record.silent().starts_with("machine b "));
        let _part = machine.part();
        machine.publish(&Key::new([8; 32]));
        let wrong_key = machine.ask(&question("exec"), Vec::new());
        assert!(wrong_key.silent().contains("does not answer at 127.0.0.1"));
        assert_eq!(wrong_key.stdout, b"");
        machine.publish(&machine.key);
        let right_key = machine.ask(&question("exec"), Vec::new());
        assert_eq!(right_key.stdout, b"never\n");
    });
    // The store keeps the address of the first one.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    drop(std::mem::replace(&mut machine.requests, other));
    let refused = machine.ask(&question("exec"), Vec::new());
    assert!(refused.silent().contains("refused"), "{refused:?}");
}

/// An end without the key gets no answer and no more time than a handshake, and others are answered at the same time.
#[test]
fn who_has_no_key_is_closed_and_holds_nobody_up() {
    let machine = Machine::new("echo here");
    machine.during(|| {
        let _part = machine.part();
        let address = machine.requests.local_addr().unwrap();
        let mut silent = std::net::TcpStream::connect(address).unwrap();
        let mut nonsense = std::net::TcpStream::connect(address).unwrap();
        io::Write::write_all(&mut nonsense, b"GET / HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!(machine.ask(&question("exec"), Vec::new()).stdout, b"here\n");
        for end in [&mut silent, &mut nonsense] {
            end.set_read_timeout(Some(HANGS)).unwrap();
            let mut said = Vec::new();
            // Closed with or without bytes of an alert in it; a reset closes it as well.
            match end.read_to_end(&mut said) {
                Ok(_) => assert!(!said.windows(4).any(|part| part == b"here")),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
            }
        }
    });
}

#[test]
fn a_request_waits_for_the_nodes() {
    let machine = Machine::new("echo here");
    machine.during(|| {
        let earlier = Answerer::new(&machine.answering, "l", 1);
        let part = Answerer::new(&machine.answering, "l", 2);
        thread::scope(|scope| {
            let asked = scope.spawn(|| machine.ask(&question("exec"), Vec::new()));
            thread::sleep(Duration::from_millis(300));
            assert!(!asked.is_finished());
            // An earlier lab of the same name has no say about this one.
            earlier.ready("earlier");
            drop(earlier);
            thread::sleep(Duration::from_millis(300));
            assert!(!asked.is_finished());
            part.ready("l-a");
            assert_eq!(asked.join().unwrap().stdout, b"here\n");
        });
        // A lab that ends before its nodes exist answers none.
        let later = Answerer::new(&machine.answering, "l", 3);
        thread::scope(|scope| {
            let asked = scope.spawn(|| machine.ask(&question("exec"), Vec::new()));
            thread::sleep(Duration::from_millis(300));
            drop(later);
            assert!(asked.join().unwrap().silent().contains("is not up"));
        });
    });
}

/// A command that follows the lab reads its last event after the lab has ended; others end with it.
#[test]
fn who_follows_the_lab_hears_its_end() {
    let machine = Machine::new(
        "echo $$ > PLACE/$2$3; case \"$*\" in *--follow*) while [ ! -e PLACE/ended ]; do sleep 0.01; done; sleep 0.5; \
         echo last;; *) exec sleep 999;; esac",
    );
    machine.during(|| {
        let part = machine.part();
        thread::scope(|scope| {
            let followed = scope.spawn(|| machine.ask(&question("events --follow"), Vec::new()));
            let cut_off = scope.spawn(|| machine.ask(&question("exec"), Vec::new()));
            machine.number("--followl-a");
            machine.number("l-atokyo");
            fs::write(machine.place.path().join("ended"), "").unwrap();
            part.end();
            let followed = followed.join().unwrap();
            assert_eq!(followed.reply, Some(Reply::Exit(0)));
            assert_eq!(followed.stdout, b"last\n");
            assert_eq!(cut_off.join().unwrap().reply, Some(Reply::Exit(130)));
        });
    });
}

#[test]
fn a_command_reads_its_input_and_writes_all_of_its_output() {
    let machine = Machine::new("cat");
    let input: Vec<u8> = (0..30_000_000_u32).map(|n| (n / 7) as u8).collect();
    let said = machine.during(|| {
        let _part = machine.part();
        machine.ask(&question("cp"), input.clone())
    });
    assert_eq!(said.reply, Some(Reply::Exit(0)));
    assert!(said.stdout == input, "{} bytes", said.stdout.len());
}

/// A command waits for a requester that does not read, and ends when that goes away.
#[test]
fn output_that_nobody_reads_is_bounded() {
    let script = "echo $$ > PLACE/pid; i=0; while :; do head -c 1048576 /dev/zero; i=$((i + 1)); echo $i > PLACE/sent; done";
    let machine = Machine::new(script);
    let stop = AtomicBool::new(false);
    machine.during(|| {
        let _part = machine.part();
        let hear = &mut |_: Written<'_>| {
            if !stop.load(Ordering::Acquire) {
                let mut sent = machine.number("sent");
                // Until no more was written for half a second.
                loop {
                    thread::sleep(Duration::from_millis(500));
                    let now = machine.number("sent");
                    if now == sent {
                        break;
                    }
                    sent = now;
                    assert!(sent < 64, "{sent} MiB in the buffers of TCP");
                }
                stop.store(true, Ordering::Release);
            }
        };
        let nothing = Box::new(io::empty());
        let reply = ask(&machine.store, "l", &question("exec"), nothing, &stop, hear);
        assert_eq!(reply.unwrap(), Reply::Stopped);
        let pid = machine.number("pid");
        until("the command ends", || !is_there(pid));
    });
}

/// A command that does not read its input ends with its requester, although the input still arrives.
#[test]
fn input_that_nobody_reads_ends_with_the_requester() {
    let machine = Machine::new("echo $$ > PLACE/pid; exec sleep 999");
    let stop = AtomicBool::new(false);
    let given = Arc::new(AtomicUsize::new(0));
    struct Endless(Arc<AtomicUsize>);
    impl Read for Endless {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            self.0.fetch_add(bytes.len(), Ordering::AcqRel);
            Ok(bytes.len())
        }
    }
    machine.during(|| {
        let _part = machine.part();
        thread::scope(|scope| {
            let input = Box::new(Endless(Arc::clone(&given)));
            let (store, stop) = (&machine.store, &stop);
            let asked = scope
                .spawn(move || ask(store, "l", &question("cp"), input, stop, &mut |_| {}).unwrap());
            let pid = machine.number("pid");
            until("the input waits", || {
                let before = given.load(Ordering::Acquire);
                thread::sleep(Duration::from_millis(500));
                assert!(before < 64 << 20, "{before} bytes in the buffers of TCP");
                before > 0 && given.load(Ordering::Acquire) == before
            });
            stop.store(true, Ordering::Release);
            assert_eq!(asked.join().unwrap(), Reply::Stopped);
            until("the command ends", || !is_there(pid));
        });
    });
}

#[test]
fn commands_of_a_part_are_limited_in_number() {
    let machine = Machine::new("exec sleep 999");
    let stop = AtomicBool::new(false);
    machine.during(|| {
        let _part = machine.part();
        thread::scope(|scope| {
            let one = || {
                let nothing = Box::new(io::empty());
                let mut heard = Heard::default();
                let hear = &mut |written: Written<'_>| heard.hear(written);
                let asked = ask(&machine.store, "l", &question("exec"), nothing, &stop, hear);
                heard.reply = Some(asked.unwrap());
                heard
            };
            let asked: Vec<_> = (0..33).map(|_| scope.spawn(one)).collect();
            until("one is refused", || {
                asked.iter().any(thread::ScopedJoinHandle::is_finished)
            });
            stop.store(true, Ordering::Release);
            let heard: Vec<Heard> = asked.into_iter().map(|one| one.join().unwrap()).collect();
            let refused = heard
                .iter()
                .filter(|heard| heard.reply == Some(Reply::Exit(2)));
            let refused: Vec<&Heard> = refused.collect();
            assert_eq!(refused.len(), 1, "{heard:?}");
            let why = String::from_utf8_lossy(&refused[0].stderr);
            assert!(why.contains("32 commands run there at a time"), "{why}");
        });
    });
}

/// Types each line when the shown text ends with the text it waits for.
struct Script<'a> {
    lines: Vec<(&'static str, &'static [u8])>,
    shown: &'a Mutex<Vec<u8>>,
}

impl Keyboard for Script<'_> {
    fn typed(&mut self, bytes: &mut [u8], patience: Duration) -> io::Result<Option<usize>> {
        let shown = String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned();
        let due = self
            .lines
            .first()
            .filter(|(after, _)| shown.contains(after));
        let Some((_, line)) = due.copied() else {
            thread::sleep(patience);
            return Ok(Some(0));
        };
        self.lines.remove(0);
        bytes[..line.len()].copy_from_slice(line);
        Ok(Some(line.len()))
    }

    fn size(&self) -> Option<Size> {
        Some(Size {
            columns: 97,
            rows: 31,
        })
    }
}

/// Runs a shell of this host in place of one in a node.
fn told(lines: Vec<(&'static str, &'static [u8])>) -> (Reply, String) {
    let machine = Machine::new("echo \"$@\"\nexec /bin/sh");
    let shown = Mutex::new(Vec::new());
    let reply = machine.during(|| {
        let _part = machine.part();
        let mut script = Script {
            lines,
            shown: &shown,
        };
        let never = AtomicBool::new(false);
        let hear = &mut |written: Written<'_>| {
            if let Written::Output(bytes) = written {
                shown.lock().unwrap().extend_from_slice(bytes);
            }
        };
        let question = question("shell");
        shell(&machine.store, "l", &question, &never, &mut script, hear).unwrap()
    });
    let shown = String::from_utf8_lossy(&shown.into_inner().unwrap()).into_owned();
    (reply, shown)
}

#[test]
fn what_is_typed_is_answered_and_it_ends_as_the_shell_does() {
    let (reply, shown) = told(vec![
        ("tokyo", b"stty size; echo $((6 * 7)).\n"),
        ("42.", b"exit 9\n"),
    ]);
    assert_eq!(reply, Reply::Exit(9), "{shown}");
    assert!(shown.contains("shell l-a tokyo"), "{shown}");
    assert!(shown.contains("31 97"), "{shown}");
}

#[test]
fn ctrl_c_reaches_who_writes_without_end() {
    let (reply, shown) = told(vec![
        ("tokyo", b"yes\n"),
        ("y\r\ny\r\ny", b"\x03"),
        ("y\r\ny\r\ny", b"exit 0\n"),
    ]);
    assert_eq!(reply, Reply::Exit(0));
    assert!(shown.contains("y\r\n"));
}
