//! Rooms: what programs of an image see and may do. Root, and a static busybox of the host.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use constel_host::NetNs;
use constel_host::enclosure::{Enclosure, Inside, Room, Shown, View};
use constel_host::process::{Capability, CapabilitySet, Child, Confinement, Exit, Spawn, Stdio};

const WITHIN: Duration = Duration::from_secs(240);
const PATH: &str = "/bin";

/// A folder with a busybox and nothing else.
fn image(dir: &Path) -> PathBuf {
    let root = dir.join("image");
    fs::create_dir_all(root.join("bin")).unwrap();
    let busybox = ["/bin/busybox", "/usr/bin/busybox"];
    let busybox = busybox.into_iter().find(|path| Path::new(path).exists());
    let busybox = busybox.expect("this test needs busybox-static");
    fs::copy(busybox, root.join("bin/busybox")).unwrap();
    for name in [
        "sh", "cat", "ls", "id", "mount", "sleep", "ip", "hostname", "mknod", "unshare",
    ] {
        symlink("busybox", root.join("bin").join(name)).unwrap();
    }
    root
}

fn root() -> Confinement {
    Confinement {
        uid: 0,
        gid: 0,
        groups: Vec::new(),
        capabilities: CapabilitySet::default_of_containers(),
        ambient: CapabilitySet::default(),
        filtered: true,
        no_new_privileges: true,
        deaf: false,
    }
}

struct Lab {
    dir: tempfile::TempDir,
    enclosure: Enclosure,
    ns: NetNs,
    image: PathBuf,
}

impl Lab {
    fn new(name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let image = image(dir.path());
        Self {
            enclosure: Enclosure::new(name, Vec::new()).unwrap(),
            ns: NetNs::new().unwrap(),
            image,
            dir,
        }
    }

    fn room(&self, name: &str, shown: &[Shown]) -> View {
        let layers = [self.image.clone()];
        let room = Room {
            files_bytes: None,
            name,
            layers: &layers,
            state: None,
            shown,
            folders: &[],
        };
        self.enclosure.room(&self.ns, &room).unwrap()
    }

    fn first(&self, view: &View, confinement: &Confinement, argv: &[&str]) -> Child {
        Spawn::new("rtest", argv.iter().copied())
            .node("n")
            .first_of(view, "node-n", confinement)
            .env("PATH", PATH)
            .netns(&self.ns)
            .stdout(Stdio::Create(self.dir.path().join("out")))
            .stderr(Stdio::Append(self.dir.path().join("out")))
            .start()
            .unwrap()
    }

    /// The output of a script that runs as a container's first process.
    fn says(&self, view: &View, confinement: &Confinement, script: &str) -> String {
        let script = format!("exec 2>&1; {script}");
        let child = self.first(view, confinement, &["sh", "-c", &script]);
        assert!(child.wait_timeout(WITHIN).unwrap().is_some(), "{script}");
        fs::read_to_string(self.dir.path().join("out")).unwrap()
    }
}

#[test]
fn a_first_process_sees_its_image_and_itself_alone() {
    let lab = Lab::new("rtest");
    let room = lab.room("n", &[]);
    let says = |script: &str| lab.says(&room, &root(), script);
    assert_eq!(
        says("echo $$; hostname; pwd; echo $PATH"),
        "1\nnode-n\n/\n/bin\n"
    );
    assert_eq!(says("cd /proc; echo [0-9]*"), "1\n");
    assert_eq!(says("ls /"), "bin\ndev\nproc\nrun\nsys\ntmp\n");
    assert_eq!(
        says("cd /dev; echo *"),
        "fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero\n"
    );
    assert_eq!(says("echo a > /dev/null; echo x > /a; cat /a"), "x\n");
    assert_eq!(says("cat /a"), "x\n", "what is written stays");
    assert!(!lab.image.join("a").exists(), "and the image is as it was");
    let other = lab.room("m", &[]);
    assert!(lab.says(&other, &root(), "cat /a").contains("No such file"));
    let interfaces = says("ls /sys/class/net");
    assert_eq!(interfaces, "lo\n");
    for file in ["/proc/sys/kernel/hostname", "/sys/kernel/rcu_expedited"] {
        let words = says(&format!(": > {file}"));
        assert!(words.contains("Read-only"), "{file}: {words}");
    }
    assert_eq!(says("cat /proc/timer_list /proc/keys"), "");
}

#[test]
fn it_may_do_what_its_confinement_says() {
    let lab = Lab::new("rtest-may");
    let room = lab.room("n", &[]);
    let capabilities = |confinement: &Confinement| {
        let text = lab.says(&room, confinement, "cat /proc/self/status");
        let field = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().to_owned()
        };
        ["CapEff:", "CapBnd:", "NoNewPrivs:", "Seccomp:"].map(field)
    };
    let default = format!("{:016x}", CapabilitySet::default_of_containers().0);
    assert_eq!(capabilities(&root()), [&default, &default, "1", "2"]);
    let words = lab.says(
        &room,
        &root(),
        "mount -t tmpfs x /tmp; unshare -n true; mknod /d c 1 3",
    );
    let refused = words.matches("ermitted").count() + words.matches("ermission denied").count();
    assert_eq!(refused, 3, "{words}");

    let asked = CapabilitySet::of([Capability::NET_RAW]);
    let user = Confinement {
        uid: 1000,
        gid: 1001,
        groups: vec![7, 8],
        ambient: asked,
        ..root()
    };
    let nothing = format!("{:016x}", asked.0);
    assert_eq!(capabilities(&user), [&nothing, &default, "1", "2"]);
    let ids = lab.says(&room, &user, "id");
    assert_eq!(
        ids,
        "uid=1000 gid=1001 groups=7,8,1001\n".replace(",1001", ""),
        "{ids}"
    );
    assert!(
        lab.says(&room, &user, "echo x > /a")
            .contains("ermission denied")
    );

    let open = Confinement {
        filtered: false,
        no_new_privileges: false,
        ..root()
    };
    assert_eq!(capabilities(&open)[2..], ["0", "0"]);
}

#[test]
fn what_is_to_be_deaf_cannot_bind_netlink_sockets() {
    let lab = Lab::new("rtest-deaf");
    let room = lab.room("n", &[]);
    let looks = |deaf, uid| {
        let program = Confinement {
            deaf,
            uid,
            ..root()
        };
        // Busybox binds the socket that it asks by.
        lab.says(&room, &program, "ip link show lo 2>&1; true")
    };
    for uid in [0, 1000] {
        assert!(looks(false, uid).contains("LOOPBACK"));
        let words = looks(true, uid);
        assert!(
            words.contains("bind") && !words.contains("LOOPBACK"),
            "{words}"
        );
    }
}

#[test]
fn setuid_files_give_what_new_privileges_are_allowed() {
    let lab = Lab::new("rtest-setuid");
    // A static program that does not give up what it is given, as busybox does.
    let path = lab.image.join("bin/ldconfig");
    fs::copy("/sbin/ldconfig", &path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
    let room = lab.room("n", &[]);
    let writes = |no_new_privileges| {
        let user = Confinement {
            uid: 1000,
            gid: 1000,
            no_new_privileges,
            ..root()
        };
        lab.says(
            &room,
            &user,
            "ldconfig -X -C /cache; ls /cache && echo written",
        )
    };
    let words = writes(true);
    assert!(words.contains("ermission denied"), "{words}");
    let words = writes(false);
    assert!(words.contains("written"), "{words}");
}

#[test]
fn others_enter_with_all_its_namespaces_until_it_ends() {
    let lab = Lab::new("rtest-enter");
    let room = lab.room("n", &[]);
    let confinement = root();
    let first = lab.first(&room, &confinement, &["sleep", "100"]);
    let inside = Inside::of(&room, &first).unwrap();
    let out = lab.dir.path().join("beside");
    let script = "echo /proc/[0-9]*; hostname; cat /proc/self/status | while read a b; do [ $a = Seccomp: ] && echo $b; done; true";
    let child = Spawn::new("rtest-enter", ["sh", "-c", script])
        .node("n")
        .beside(&inside, &confinement)
        .env("PATH", PATH)
        .netns(&lab.ns)
        .stdout(Stdio::Create(out.clone()))
        .start()
        .unwrap();
    assert_eq!(child.wait_timeout(WITHIN).unwrap(), Some(Exit::Code(0)));
    let words = fs::read_to_string(&out).unwrap();
    let mut lines = words.lines();
    assert!(lines.next().unwrap().starts_with("/proc/1 "), "{words}");
    assert_eq!(lines.collect::<Vec<_>>(), ["node-n", "2"]);

    let (mounts, _) = room.paths();
    let (_, pids) = inside.view().paths();
    assert!(Inside::open(&mounts, &pids, first.pid()).is_ok());
    let another = Inside::open(&mounts, &pids, std::process::id()).unwrap_err();
    assert!(another.to_string().contains("has ended"), "{another}");
    first.signal(rustix::process::Signal::KILL).unwrap();
    assert_eq!(first.wait().unwrap(), Exit::Signal(9));
    let late = Spawn::new("rtest-enter", ["sh"])
        .beside(&inside, &confinement)
        .netns(&lab.ns)
        .start();
    assert!(late.is_err(), "nobody enters what has ended");
    // The room is there for the next.
    assert_eq!(
        lab.says(&room, &confinement, "echo /proc/[0-9]*"),
        "/proc/1\n"
    );
}

#[test]
fn what_it_is_shown_is_there_and_nothing_else_of_the_host() {
    let lab = Lab::new("rtest-shown");
    fs::write(lab.dir.path().join("hosts"), "127.0.0.1 localhost\n").unwrap();
    symlink("/nowhere/to/be/seen", lab.image.join("resolv")).unwrap();
    let shown = |target: &str, read_only| Shown {
        source: lab.dir.path().join("hosts"),
        target: target.into(),
        read_only,
    };
    let all = [
        shown("/etc/hosts", true),
        shown("/resolv", true),
        shown("/srv/a/b", false),
    ];
    let room = lab.room("n", &all);
    let says = |script: &str| lab.says(&room, &root(), script);
    assert_eq!(
        says("cat /etc/hosts /resolv /srv/a/b"),
        "127.0.0.1 localhost\n".repeat(3)
    );
    assert!(says("echo x > /etc/hosts").contains("Read-only"));
    assert_eq!(says("echo x > /srv/a/b; cat /etc/hosts"), "x\n");
    assert!(
        lab.image.join("resolv").is_symlink(),
        "the image is as it was"
    );
}

#[test]
fn the_end_of_the_lab_is_the_end_of_its_containers() {
    let lab = Lab::new("rtest-end");
    let room = lab.room("n", &[]);
    let confinement = root();
    let first = lab.first(&room, &confinement, &["sleep", "100"]);
    let init = rustix::process::Pid::from_raw(lab.enclosure.init_pid() as i32).unwrap();
    rustix::process::kill_process(init, rustix::process::Signal::KILL).unwrap();
    assert_eq!(first.wait_timeout(WITHIN).unwrap(), Some(Exit::Signal(9)));
}

#[test]
fn a_program_that_is_not_there_is_an_error_that_names_it() {
    let lab = Lab::new("rtest-missing");
    let room = lab.room("n", &[]);
    let confinement = root();
    let start = |argv: &[&str]| {
        let spawn = Spawn::new("rtest-missing", argv.iter().copied());
        let spawn = spawn
            .first_of(&room, "n", &confinement)
            .env("PATH", "/sbin:/bin");
        spawn.netns(&lab.ns).start().map(drop)
    };
    let error = start(&["nothing"]).unwrap_err().to_string();
    assert!(
        error.contains("execute nothing (found along /sbin:/bin)"),
        "{error}"
    );
    assert!(
        start(&["/bin"])
            .unwrap_err()
            .to_string()
            .contains("execute /bin")
    );
}
