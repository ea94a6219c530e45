//! The host's own program, as a container might get hold of it.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{cable, inside, script};
use crate::support;
use support::container::{import_folder, make};
use support::host::Host;
use support::lab::Lab;
use support::{CONSTEL, finish, stderr, until};

/// The path of the loader in programs for this machine.
const LOADERS: [&str; 2] = ["lib64/ld-linux-x86-64.so.2", "lib/ld-linux-aarch64.so.1"];

/// The loader of a hostile image: it is executed in the process whose program is the host's. It tries to write that, leaves a child
/// that tries until the file is written or cannot be, and reports the result.
const LOADER: &str = r#"
typedef unsigned long word;
#if defined(__x86_64__)
enum { WRITE = 1, OPENAT = 257, CLONE = 56, EXIT = 60, EXECVE = 59 };
static long call(long n, long a, long b, long c, long d, long e) {
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e;
    long r;
    __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
    return r;
}
__asm__(".globl _start\n_start: xor %ebp, %ebp\n and $-16, %rsp\n call begin\n");
#elif defined(__aarch64__)
enum { WRITE = 64, OPENAT = 56, CLONE = 220, EXIT = 93, EXECVE = 221 };
static long call(long n, long a, long b, long c, long d, long e) {
    register long x8 __asm__("x8") = n, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c, x3 __asm__("x3") = d,
                  x4 __asm__("x4") = e;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
    return x0;
}
__asm__(".globl _start\n_start: mov x29, #0\n mov x0, sp\n and x1, x0, #-16\n mov sp, x1\n bl begin\n");
#endif
enum { HERE = -100, RDONLY = 0, WRONLY = 1, CREAT = 0100, TRUNC = 01000, APPEND = 02000, SIGCHLD = 17 };
static void say(const char *what, long error) {
    static char text[] = "?: 00\n";
    text[0] = *what; text[3] = '0' + error / 10 % 10; text[4] = '0' + error % 10;
    long file = call(OPENAT, HERE, (long)"/tmp/outcome", WRONLY | CREAT | APPEND, 0666, 0);
    call(WRITE, file, (long)text, 6, 0, 0);
}
void begin(void);
void begin(void) {
    /* The lowest number that is free is 3: standard streams are there. */
    static char again[] = "/proc/self/fd/0";
    long own = call(OPENAT, HERE, (long)"/proc/self/exe", RDONLY, 0, 0);
    say("o", own < 0 ? -own : 0);
    again[14] = '0' + own;
    /* Whether the mount can be written is looked at before whether the file is busy. */
    long tried = call(OPENAT, HERE, (long)"/proc/self/exe", WRONLY | TRUNC, 0, 0);
    say("w", tried < 0 ? -tried : 0);
    if (call(CLONE, SIGCHLD, 0, 0, 0, 0) != 0)
        call(EXIT, 0, 0, 0, 0, 0);
    /* A child executes the same file: it is busy until that one executes another, or ends. Here: a program of the image. */
    static char *argv[] = {"busybox", "sh", "/finish", again, 0}, *env[] = {0};
    call(EXECVE, (long)"/bin/busybox", (long)argv, (long)env, 0, 0);
    say("x", 99);
    call(EXIT, 1, 0, 0, 0, 0);
}
"#;

/// The program of the child: it tries to write until it succeeds, or a hundred times.
const FINISH: &str = "n=0
while [ $n -lt 100 ]; do
  echo '#!/bin/sh' 2>/dev/null >>$1 && { echo written >> /tmp/outcome; exit; }
  n=$((n + 1)); busybox usleep 10000
done
echo kept >> /tmp/outcome
";

fn image(dir: &Path) {
    let root = dir.join("rootfs");
    make(&root);
    let source = dir.join("loader.c");
    fs::write(&source, LOADER).unwrap();
    for loader in LOADERS {
        let place = root.join(loader);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        let mut command = Command::new("clang");
        command.args([
            "-O2",
            "-ffreestanding",
            "-fno-builtin",
            "-fno-stack-protector",
        ]);
        command.args(["-fno-pie", "-nostdlib", "-static", "-o"]);
        command.arg(&place).arg(&source);
        let made = finish(command);
        assert!(made.status.success(), "{}", stderr(&made));
    }
    script(&root.join("script"), "#!/proc/self/exe\n");
    script(&root.join("finish"), FINISH);
    // An interpreter that is itself a script, and a link to the first process, which the parent's child is when it executes the program.
    script(&root.join("chain"), "#!/script\n");
    std::os::unix::fs::symlink("/proc/self/exe", root.join("link")).unwrap();
    std::os::unix::fs::symlink("/proc/1/exe", root.join("first")).unwrap();
    std::os::unix::fs::symlink("/proc/thread-self/exe", root.join("thread")).unwrap();
    import_folder(dir, &root, "box");
}

/// `constel exec` from a program of its own, which the test may lose: it is executed inside as a script's interpreter, as the interpreter of
/// an interpreter, by its name in `/proc`, and by links of the image.
#[test]
fn the_callers_program_cannot_be_written_from_inside() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    image(dir.path());
    let node = "image: box, command: [sleep, '1000']";
    let file = cable(dir.path(), node, node, "");
    let mut lab = Lab::up("caller", &file, dir.path(), &[]);
    let programs = ["/script", "/chain", "/proc/self/exe", "/link", "/thread"];
    for (number, program) in programs.into_iter().enumerate() {
        let own = dir.path().join("program");
        fs::copy(CONSTEL, &own).unwrap();
        let mut command = Command::new(&own);
        command.args(["exec", &lab.name, "west", "--", program]);
        finish(command);
        let said = until("the attempt is over", || {
            let said = support::stdout(&inside(&lab, "west", &["cat", "/tmp/outcome"]));
            let over = said.matches("kept").count() + said.matches("written").count();
            (over > number).then_some(said)
        });
        assert!(
            fs::read(&own).unwrap() == fs::read(CONSTEL).unwrap(),
            "{program}: the host's program was written: {said}"
        );
        // EROFS, and not "text file busy", which is over when the process is.
        let mut tried = said.lines().filter(|line| line.starts_with("w: "));
        assert_eq!(tried.next_back(), Some("w: 30"), "{program}: {said}");
        fs::remove_file(&own).unwrap();
    }
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    host.assert_as_before("caller");
}

/// The lab's parent executes programs of images: its own program cannot be written from there either.
#[test]
fn the_parents_program_cannot_be_written_from_inside() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    image(dir.path());
    for (number, programs) in [["/script", "/link"], ["/chain", "/first"]]
        .into_iter()
        .enumerate()
    {
        let out = dir.path().join("out");
        fs::create_dir(&out).unwrap();
        let of = |program: &str| {
            format!(
                "image: box, entrypoint: [{program}], restart: always, mounts: [{{host: out, at: /tmp, read_only: false}}]"
            )
        };
        let [west, east] = programs.map(of);
        let file = cable(dir.path(), &west, &east, "");
        let mut lab = Lab::up(&format!("parent-{number}"), &file, dir.path(), &[]);
        let said = attempts(&out, 2);
        assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
        assert!(said.lines().all(is_refused), "{programs:?}: {said}");
        fs::remove_dir_all(&out).unwrap();
        host.assert_as_before("parent");
    }
}

/// Checks of health and commands of flows are further ways on which the parent executes programs of an image.
#[test]
fn checks_and_flows_do_not_lend_the_parents_program() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    image(dir.path());
    let out = ["checks", "flows"].map(|name| {
        let out = dir.path().join(name);
        fs::create_dir(&out).unwrap();
        out
    });
    let node = |out: &str, more: &str| {
        format!(
            "image: box, command: [sleep, '1000'], mounts: [{{host: {out}, at: /tmp, read_only: false}}]{more}"
        )
    };
    let west = node(
        "checks",
        ", health: {command: [/chain], interval: 200 ms, timeout: 2 s, retries: 100}",
    );
    let flow =
        "traffic:\n- {name: own, at: 0 s, for: 100 s, run: {node: east, command: [/link]}}\n";
    let file = cable(dir.path(), &west, &node("flows", ""), flow);
    let mut lab = Lab::up("checks", &file, dir.path(), &[]);
    for out in &out {
        let said = attempts(out, 1);
        assert!(said.lines().all(is_refused), "{}: {said}", out.display());
    }
    assert_eq!(lab.interrupt().code(), Some(130), "{}", lab.stderr());
    host.assert_as_before("checks");
}

/// Waits for a number of attempts to write the program, and returns the loader's lines about them.
fn attempts(out: &Path, least: usize) -> String {
    until("it was tried to write the program", || {
        let said = fs::read_to_string(out.join("outcome")).ok()?;
        (said.matches("w: ").count() >= least).then_some(said)
    })
}

/// Whether a line of the loader is not about a write, or is about a file system that cannot be written (EROFS).
fn is_refused(line: &str) -> bool {
    line != "written" && (!line.starts_with("w: ") || line == "w: 30")
}
