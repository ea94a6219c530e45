//! etcd of Debian's package on the loopback, for as long as a test runs.

#![allow(dead_code, reason = "each test uses its part")]

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use constel_cluster::store::{Address, Error, Etcd, Result, Store};

/// How long a test waits for what must happen: a bound that only recognises what hangs.
pub(crate) const HANGS_AFTER: Duration = Duration::from_secs(240);

/// Polls until `ready` gives something; panics after [`HANGS_AFTER`].
pub(crate) fn until<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + HANGS_AFTER;
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(Instant::now() < end, "not within {HANGS_AFTER:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Asks a store until it is answered: a busy host may take longer than the time that a client gives a member.
pub(crate) fn answered<T>(mut ask: impl FnMut() -> Result<T>) -> T {
    until("an answer of the store", || match ask() {
        Ok(answer) => Some(answer),
        Err(Error::Unreachable(_) | Error::Uncertain(_)) => None,
        Err(error) => panic!("{error}"),
    })
}

/// One to three members.
pub(crate) struct Cluster {
    members: Vec<Member>,
    scheme: &'static str,
    folder: tempfile::TempDir,
}

pub(crate) struct Member {
    pub(crate) client: String,
    peer: String,
    process: Option<Child>,
}

/// Options of servers beside the address.
#[derive(Default)]
pub(crate) struct Options {
    /// PEM files: certificate and key.
    pub(crate) tls: Option<(PathBuf, PathBuf)>,
    /// PEM file of who signed it.
    pub(crate) authorities: Option<PathBuf>,
    /// Bytes that it takes at most; what etcd takes, unless given.
    pub(crate) quota: Option<u64>,
}

/// Whether etcd is here; says loudly if it is not. CI installs it (`tools/setup test`), so there it is an error.
pub(crate) fn is_there() -> bool {
    let there = Command::new("etcd")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    if there.is_ok_and(|status| status.success()) {
        return true;
    }
    assert!(
        std::env::var_os("CI").is_none(),
        "etcd is missing: tools/setup test"
    );
    eprintln!(
        "SKIPPED: etcd is not installed (apt-get install etcd-server); NOTHING of etcd was tested"
    );
    false
}

/// Ports that are free now.
fn free(count: usize) -> Vec<u16> {
    let held: Vec<_> = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    held.iter()
        .map(|held| held.local_addr().unwrap().port())
        .collect()
}

impl Cluster {
    pub(crate) fn start(count: usize, options: &Options) -> Self {
        let ports = free(2 * count);
        let (scheme, web) = match options.tls {
            Some(_) => ("etcds", "https"),
            None => ("etcd", "http"),
        };
        let members = ports.chunks(2).map(|pair| Member {
            client: format!("127.0.0.1:{}", pair[0]),
            peer: format!("127.0.0.1:{}", pair[1]),
            process: None,
        });
        // In memory where there is some: a disk that others keep busy delays every answer.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let folder = folder.unwrap();
        let mut cluster = Self {
            members: members.collect(),
            scheme,
            folder,
        };
        let all: Vec<String> = (0..count)
            .map(|m| format!("m{m}=http://{}", cluster.members[m].peer))
            .collect();
        for member in 0..count {
            cluster.launch(member, web, &all.join(","), options);
        }
        cluster.wait(options);
        cluster
    }

    fn launch(&mut self, number: usize, web: &str, all: &str, options: &Options) {
        let data = self.folder.path().join(format!("m{number}"));
        let member = &mut self.members[number];
        let client = format!("{web}://{}", member.client);
        let peer = format!("http://{}", member.peer);
        let log = std::fs::File::create(self.folder.path().join(format!("m{number}.log"))).unwrap();
        // The server ends with the test's process. It goes before other programs of a busy host, where that is permitted.
        let mut command = Command::new("setpriv");
        command
            .args([
                "--pdeathsig",
                "KILL",
                "nice",
                "-n",
                "-20",
                "etcd",
                "--name",
                &format!("m{number}"),
                "--data-dir",
            ])
            .arg(data)
            .args([
                "--listen-client-urls",
                &client,
                "--advertise-client-urls",
                &client,
                "--listen-peer-urls",
                &peer,
                "--initial-advertise-peer-urls",
                &peer,
                "--initial-cluster",
                all,
                "--initial-cluster-state",
                "new",
            ]);
        if let Some((cert, key)) = &options.tls {
            command
                .arg("--cert-file")
                .arg(cert)
                .arg("--key-file")
                .arg(key);
        }
        if let Some(bytes) = options.quota {
            command.args(["--quota-backend-bytes", &bytes.to_string()]);
        }
        let process = command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        member.process = Some(process.expect("setpriv of util-linux"));
    }

    fn wait(&mut self, options: &Options) {
        let end = Instant::now() + HANGS_AFTER;
        for number in 0..self.members.len() {
            let store = self.store_of(&[number], options.authorities.as_deref());
            // Reading needs a leader.
            while let Err(error) = store.get("ready") {
                let log = || {
                    std::fs::read_to_string(self.folder.path().join(format!("m{number}.log")))
                        .unwrap()
                };
                assert!(
                    Instant::now() < end,
                    "etcd is not ready: {error}\n{}",
                    log()
                );
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }

    /// A client of some members.
    pub(crate) fn store_of(&self, members: &[usize], authorities: Option<&Path>) -> Etcd {
        let hosts: Vec<&str> = members
            .iter()
            .map(|m| self.members[*m].client.as_str())
            .collect();
        let ca = authorities.map_or(String::new(), |path| format!("?ca={}", path.display()));
        Etcd::new(&self.address(&format!("{}{ca}", hosts.join(",")))).unwrap()
    }

    /// `rest` after the scheme.
    pub(crate) fn address(&self, rest: &str) -> Address {
        format!("{}://{rest}", self.scheme).parse().unwrap()
    }

    pub(crate) fn hosts(&self) -> String {
        let hosts: Vec<&str> = self.members.iter().map(|m| m.client.as_str()).collect();
        hosts.join(",")
    }

    pub(crate) fn store(&self) -> Etcd {
        self.store_of(&(0..self.members.len()).collect::<Vec<_>>(), None)
    }

    pub(crate) fn signal(&self, member: usize, signal: &str) {
        let pid = self.members[member].process.as_ref().unwrap().id();
        assert!(
            Command::new("kill")
                .args([signal, &pid.to_string()])
                .status()
                .unwrap()
                .success()
        );
    }

    /// The member that leads.
    pub(crate) fn leader(&self) -> usize {
        let said = |m: usize| -> Option<(String, String)> {
            let url = format!("http://{}/v3/maintenance/status", self.members[m].client);
            let mut answer = ureq::post(url).send("{}").ok()?;
            let answer: serde_json::Value =
                serde_json::from_str(&answer.body_mut().read_to_string().ok()?).ok()?;
            Some((
                answer["leader"].as_str()?.to_owned(),
                answer["header"]["member_id"].as_str()?.to_owned(),
            ))
        };
        let is_leader = |m: &usize| said(*m).is_some_and(|(leader, own)| leader == own);
        until("a leader", || (0..self.members.len()).find(is_leader))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for member in &mut self.members {
            if let Some(process) = &mut member.process {
                let _ = process.kill();
                let _ = process.wait();
            }
        }
    }
}
