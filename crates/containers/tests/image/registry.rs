//! Pulls from registries on loopback: one of our own that does what registries do, good and bad, and Debian's
//! `docker-registry` where it is installed. Gives files to root: needs root.

use crate::image::support;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use constel_containers::image::{Digest, Error, Fault, ImportOptions, Imported, Platform};
use support::{Bench, Blobs, Tar, config, gzip};

/// How a registry behaves.
#[derive(Debug, Clone, Default)]
struct Manners {
    /// Tokens are wanted.
    guarded: bool,
    /// Layers break off after this number of bytes each time.
    breaks_after: Option<usize>,
    /// On a request for the rest, it sends all.
    ignores_ranges: bool,
    /// Another machine has the blobs; it must not get the token.
    redirects: bool,
    /// Manifests are not the requested ones.
    forges: bool,
}

#[derive(Debug)]
struct Registry {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

struct Request {
    path: String,
    headers: HashMap<String, String>,
}

fn read_request(stream: &TcpStream) -> Option<Request> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    let headers = lines
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty());
    let headers = headers.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_lowercase(), value.trim().to_owned()))
    });
    Some(Request {
        path: first.split(' ').nth(1)?.to_owned(),
        headers: headers.collect(),
    })
}

impl Registry {
    /// Serves `lab/bird:2`, and its blobs by digest.
    fn start(blobs: Blobs, tagged: &str, manners: Manners) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kinds = ["index.v1+json", "manifest.v1+json"];
        let tagged: serde_json::Value = serde_json::from_str(tagged).unwrap();
        let tagged = tagged["digest"].as_str().unwrap().to_owned();
        let log = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some(request) = read_request(&stream) else {
                    continue;
                };
                log.lock().unwrap().push(request.path.clone());
                let answer = |head: &str, body: &[u8]| {
                    let length = body.len();
                    let head = format!(
                        "HTTP/1.1 {head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
                    );
                    [head.as_bytes(), body].concat()
                };
                let allowed = request
                    .headers
                    .get("authorization")
                    .is_some_and(|a| a == "Bearer let-me-in");
                let path = request.path.as_str();
                let whole = if path.starts_with("/token?") {
                    assert!(
                        path.contains("scope=repository") && path.contains("service=ours"),
                        "{path}"
                    );
                    answer("200 OK", br#"{"token": "let-me-in"}"#)
                } else if let Some(digest) = path.strip_prefix("/elsewhere/") {
                    assert!(
                        !request.headers.contains_key("authorization"),
                        "the token was given away"
                    );
                    answer(
                        "200 OK",
                        &blobs
                            .0
                            .iter()
                            .find(|(d, _)| d.to_string() == digest)
                            .unwrap()
                            .1,
                    )
                } else if manners.guarded && !allowed {
                    let challenge = format!(
                        "401 Unauthorized\r\nWWW-Authenticate: Bearer realm=\"http://127.0.0.1:{port}/token\",service=\"ours\",scope=\"repository:lab/bird:pull\""
                    );
                    answer(&challenge, b"")
                } else {
                    let (kind, wanted) = match path
                        .strip_prefix("/v2/lab/bird/")
                        .and_then(|p| p.split_once('/'))
                    {
                        Some((kind, "2")) => (kind, tagged.as_str()),
                        Some((kind, wanted)) => (kind, wanted),
                        None => ("", ""),
                    };
                    match blobs
                        .0
                        .iter()
                        .find(|(digest, _)| digest.to_string() == wanted)
                    {
                        None => answer("404 Not Found", br#"{"errors": [{"message": "unknown"}]}"#),
                        Some((digest, bytes)) if kind == "manifests" => {
                            let index = bytes.windows(11).any(|w| w == b"\"manifests\"");
                            let kind = if index { kinds[0] } else { kinds[1] };
                            let head = format!(
                                "200 OK\r\nContent-Type: application/vnd.oci.image.{kind}\r\nDocker-Content-Digest: {digest}"
                            );
                            let mut bytes = bytes.clone();
                            if manners.forges {
                                bytes.push(b' ');
                            }
                            answer(&head, &bytes)
                        }
                        Some((digest, _)) if manners.redirects => {
                            // `localhost` is another host than 127.0.0.1 is.
                            let head = format!(
                                "307 Temporary Redirect\r\nLocation: http://localhost:{port}/elsewhere/{digest}"
                            );
                            answer(&head, b"")
                        }
                        Some((_, bytes)) => {
                            let from = request
                                .headers
                                .get("range")
                                .filter(|_| !manners.ignores_ranges);
                            let from = from.map(|r| {
                                r.trim_start_matches("bytes=")
                                    .trim_end_matches('-')
                                    .parse()
                                    .unwrap()
                            });
                            let head = if from.is_some() {
                                "206 Partial Content"
                            } else {
                                "200 OK"
                            };
                            let from: usize = from.unwrap_or(0);
                            let mut whole = answer(head, &bytes[from..]);
                            let body = bytes.len() - from;
                            let already = request.headers.get("range").map_or(0, |r| r.len());
                            if let Some(most) = manners
                                .breaks_after
                                .filter(|most| body > most + already && bytes.len() > 5000)
                            {
                                // All but the first connection get further, even if they have to begin again.
                                let most = if manners.ignores_ranges && already > 0 {
                                    body
                                } else {
                                    most
                                };
                                whole.truncate(whole.len() - (body - most));
                            }
                            whole
                        }
                    }
                };
                drop(stream.write_all(&whole));
            }
        });
        Self { port, asked }
    }

    fn import(&self, bench: &Bench, name: &str) -> Result<Imported, Error> {
        let source = format!("docker://127.0.0.1:{}/{name}", self.port)
            .parse()
            .unwrap();
        bench.import_with(&source, None, &ImportOptions::default())
    }
}

/// Bytes that do not get smaller.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1u64;
    let step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(step).take(length).collect()
}

/// An image for this machine beside one for another; gives the index's descriptor, and the manifest's digest.
fn image() -> (Blobs, String, Digest) {
    let layers = [
        Tar::default().file("etc/name", b"lower").end(),
        Tar::default()
            .file("etc/name", b"upper")
            .file("noise", &noise(300_000))
            .end(),
    ];
    let mut blobs = Blobs::default();
    let host = Platform::host().architecture;
    let manifest = blobs.image(
        &config(&layers, r#"{"Cmd": ["/x"]}"#),
        &layers.clone().map(|l| gzip(&l)),
        "+gzip",
    );
    let id = blobs.0.last().unwrap().0;
    let other = blobs.image(
        &config(&layers[..1], "{}").replace(&host, "vax"),
        &[gzip(&layers[0])],
        "+gzip",
    );
    let of = |descriptor: &str, architecture: &str| {
        let platform =
            format!(r#", "platform": {{"os": "linux", "architecture": "{architecture}"}}}}"#);
        descriptor.strip_suffix('}').unwrap().to_owned() + &platform
    };
    let index = format!(
        r#"{{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [{}, {}]}}"#,
        of(&other, "vax"),
        of(&manifest, &host)
    );
    let index = blobs.put("index.v1+json", index.as_bytes());
    (blobs, index, id)
}

fn pull(manners: Manners, name: &str) -> (Bench, Registry, Result<Imported, Error>) {
    let bench = Bench::new();
    let (blobs, index, _) = image();
    let registry = Registry::start(blobs, &index, manners);
    let imported = registry.import(&bench, name);
    (bench, registry, imported)
}

fn assert_is_the_image(bench: &Bench, imported: &Imported) {
    let held = bench.store.hold(&imported.name).unwrap();
    let read = |name: &str| std::fs::read(held.lower_dirs()[0].join(name)).unwrap();
    assert_eq!(read("etc/name"), b"upper");
    assert_eq!(read("noise"), noise(300_000));
    assert_eq!(held.config().args(), ["/x"]);
}

#[test]
fn an_image_is_pulled_for_this_machine_and_not_twice() {
    let (_, _, manifest) = image();
    let (bench, registry, imported) = pull(Manners::default(), "lab/bird:2");
    let imported = imported.unwrap();
    assert_eq!(
        imported.name,
        format!("127.0.0.1:{}/lab/bird:2", registry.port)
    );
    assert_eq!(imported.image.manifest, Some(manifest));
    assert_is_the_image(&bench, &imported);
    let before = registry.asked.lock().unwrap().len();
    let again = registry.import(&bench, "lab/bird:2").unwrap();
    assert_eq!(again.reused_layers, 2);
    // Index, manifest and configuration.
    assert_eq!(registry.asked.lock().unwrap().len() - before, 3);
    let pinned = registry
        .import(&bench, &format!("lab/bird@{manifest}"))
        .unwrap();
    assert_eq!(pinned.image.id, imported.image.id);
}

#[test]
fn tokens_are_fetched_and_told_to_nobody_else() {
    let manners = Manners {
        guarded: true,
        redirects: true,
        ..Manners::default()
    };
    let (bench, registry, imported) = pull(manners, "lab/bird:2");
    assert_is_the_image(&bench, &imported.unwrap());
    let asked = registry.asked.lock().unwrap();
    assert_eq!(
        asked
            .iter()
            .filter(|path| path.starts_with("/token?"))
            .count(),
        1,
        "{asked:?}"
    );
}

#[test]
fn a_layer_that_breaks_off_goes_on_where_it_was() {
    for ignores_ranges in [false, true] {
        let manners = Manners {
            breaks_after: Some(100_000),
            ignores_ranges,
            ..Manners::default()
        };
        let (bench, _, imported) = pull(manners, "lab/bird:2");
        assert_is_the_image(&bench, &imported.unwrap());
    }
    // But not for ever.
    let manners = Manners {
        breaks_after: Some(1000),
        ..Manners::default()
    };
    let (bench, registry, imported) = pull(manners, "lab/bird:2");
    let error = imported.unwrap_err();
    assert!(error.at().starts_with("layer 2"), "{error}");
    assert!(registry.asked.lock().unwrap().len() < 15);
    assert_eq!(bench.store.prune().unwrap().layers, 1);
    bench.assert_empty();
}

#[test]
fn what_a_registry_says_wrongly_is_refused() {
    let manners = Manners {
        forges: true,
        ..Manners::default()
    };
    let (bench, _, imported) = pull(manners, "lab/bird:2");
    let error = imported.unwrap_err();
    assert!(matches!(error.fault(), Fault::Digest { .. }), "{error}");
    bench.assert_empty();
    let (_, _, imported) = pull(Manners::default(), "lab/bird:3");
    let error = imported.unwrap_err().to_string();
    assert!(
        error.contains("manifest 3: the registry 127.0.0.1:")
            && error.ends_with("has no manifests/3"),
        "{error}"
    );
    let nobody = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let nobody = Registry {
        port: nobody,
        asked: Arc::default(),
    };
    let error = nobody.import(&Bench::new(), "lab/bird:2").unwrap_err();
    assert!(error.to_string().contains("cannot be reached"), "{error}");
}

/// Debian's registry, ended with the test.
struct Real(Child, String);

impl Drop for Real {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Real {
    fn start(bench: &Bench) -> Option<Self> {
        let file = bench.path("registry.yml");
        let root = bench.path("registry");
        let text = format!(
            "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: 127.0.0.1:0\n",
            root.display()
        );
        std::fs::write(&file, text).unwrap();
        let started = Command::new("docker-registry")
            .arg("serve")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = started.ok()?;
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = said.by_ref().find_map(|line| {
            let line = line.unwrap();
            let (_, after) = line.split_once("listening on ")?;
            Some(after.split(['"', ',']).next().unwrap().to_owned())
        });
        // The test reads on, because the server would stop without a reader.
        std::thread::spawn(move || said.for_each(drop));
        Some(Self(child, address.expect("it says where it listens")))
    }

    fn push(&self, blobs: &Blobs, tagged: &str) {
        let tagged: serde_json::Value = serde_json::from_str(tagged).unwrap();
        let tagged = tagged["digest"].as_str().unwrap();
        let base = format!("http://{}/v2/lab/bird", self.1);
        for (digest, bytes) in &blobs.0 {
            let begun = ureq::post(format!("{base}/blobs/uploads/"))
                .send_empty()
                .unwrap();
            let place = begun.headers()["location"].to_str().unwrap().to_owned();
            let put = ureq::put(format!("{place}&digest={digest}"));
            assert_eq!(put.send(&bytes[..]).unwrap().status(), 201);
        }
        for (digest, bytes) in &blobs.0 {
            let document: Option<serde_json::Value> = serde_json::from_slice(bytes).ok();
            let kind = document.as_ref().and_then(|d| d["mediaType"].as_str());
            let Some(kind) = kind else { continue };
            for name in [digest.to_string(), "2".to_owned()] {
                if name == "2" && digest.to_string() != tagged {
                    continue;
                }
                let put =
                    ureq::put(format!("{base}/manifests/{name}")).header("Content-Type", kind);
                assert_eq!(put.send(&bytes[..]).unwrap().status(), 201, "{kind}");
            }
        }
    }
}

#[test]
fn debians_registry_is_pulled_from() {
    let bench = Bench::new();
    let Some(real) = Real::start(&bench) else {
        eprintln!("SKIPPED: docker-registry is not installed");
        return;
    };
    let (blobs, index, manifest) = image();
    real.push(&blobs, &index);
    let source = format!("docker://{}/lab/bird:2", real.1).parse().unwrap();
    let imported = bench
        .import_with(&source, Some("pulled"), &ImportOptions::default())
        .unwrap();
    assert_eq!(
        (imported.name.as_str(), imported.image.manifest),
        ("pulled:latest", Some(manifest))
    );
    assert_is_the_image(&bench, &imported);
}
