//! Images of registries, by the OCI distribution protocol: anonymous pulls over HTTPS; over HTTP from this machine only. Layers
//! are unpacked while they arrive. An interrupted transfer is resumed.

use std::io::{self, Read};
use std::rc::Rc;
use std::time::{Duration, Instant};

use std::cell::RefCell;

use constel_units::files;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body, BodyReader};

use super::challenge::{Challenge, is_this_machine, token};
use super::found::{Blob, Blobs, Context, Found};
use super::layout::blob;
use crate::image::digest::Digest;
use crate::image::documents::{
    INDEXES, Index, MANIFESTS, Manifest, parse, read_whole, verify, verify_digest,
};
use crate::image::error::{At, Fault, Located, shown};
use crate::image::limits::Limits;
use crate::image::reference::Reference;

const CONNECT_WITHIN: Duration = Duration::from_secs(20);
const SILENCE: Duration = Duration::from_secs(60);
/// A body must arrive at this rate on average, bytes a second, from [`PATIENCE`] on: a byte a minute is no silence.
const LEAST_BYTES_PER_S: u64 = 1_000;
const PATIENCE: Duration = Duration::from_secs(120);
/// Maximum number of interruptions of one layer.
const MOST_BREAKS: u32 = 5;
const DEEPEST: usize = 4;
const MOST_ERROR: u64 = 4096;
/// The files where distributions keep the certificates that this machine trusts.
const TRUSTED: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
];

/// Finds an image in a registry.
pub(super) fn find(reference: &Reference, context: &Context<'_>) -> Result<Found, Located> {
    let client = Rc::new(Client::new(reference)?);
    let wanted = match reference.digest() {
        Some(digest) => digest.to_string(),
        None => reference.tag().unwrap_or("latest").to_owned(),
    };
    let mut fetched = client
        .document(&wanted, context.limits)
        .at(|| format!("manifest {wanted}"))?;
    if let Some(digest) = reference.digest() {
        verify_digest("the manifest", fetched.digest, digest)?;
    }
    for depth in 0.. {
        if !INDEXES.contains(&fetched.kind.as_str()) {
            break;
        }
        let place = || format!("index {}", fetched.digest);
        if depth == DEEPEST {
            return Err(Fault::document(
                "an index",
                "indexes lead to indexes to indexes",
            ))
            .at(place);
        }
        let index: Index = parse("an index", &fetched.bytes).at(place)?;
        let next = index.choose(context.platform).at(place)?.clone();
        let place = || format!("manifest {}", next.digest);
        let deeper = client
            .document(&next.digest.to_string(), context.limits)
            .at(place)?;
        verify("the manifest", &deeper.bytes, &next).at(place)?;
        fetched = deeper;
    }
    let place = || format!("manifest {}", fetched.digest);
    if !MANIFESTS.contains(&fetched.kind.as_str()) {
        return Err(Fault::MediaType(shown(fetched.kind.as_bytes()))).at(place);
    }
    let manifest: Manifest = parse("the manifest", &fetched.bytes).at(place)?;
    manifest.check().at(place)?;
    let config = client.blob(manifest.config.digest, 0).and_then(|answer| {
        let content = Paced::new(answer.into_body().into_reader());
        let bytes = read_whole("the configuration", content, context.limits)?;
        verify("the configuration", &bytes, &manifest.config)?;
        Ok(bytes)
    });
    Ok(Found {
        names: vec![reference.to_string()],
        manifest: Some(fetched.digest),
        config: config.at(place)?,
        layers: manifest.layers.iter().map(blob).collect(),
        from: Box::new(RegistryBlobs(client)),
    })
}

struct RegistryBlobs(Rc<Client>);

impl Blobs for RegistryBlobs {
    fn open(&self, blob: &Blob) -> Result<Box<dyn Read>, Fault> {
        let digest = blob
            .digest
            .ok_or_else(|| Fault::Missing(blob.name.clone()))?;
        let answer = self.0.blob(digest, 0)?;
        Ok(Box::new(Paced::new(Resuming {
            client: Rc::clone(&self.0),
            digest,
            size: blob.size,
            at: 0,
            body: answer.into_body().into_reader(),
            breaks: 0,
        })))
    }
}

/// A body that is given up when it arrives too slowly.
struct Paced<R> {
    from: R,
    begun: Instant,
    bytes: u64,
}

impl<R: Read> Paced<R> {
    fn new(from: R) -> Self {
        Self {
            from,
            begun: Instant::now(),
            bytes: 0,
        }
    }
}

impl<R: Read> Read for Paced<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into)?;
        self.bytes += read as u64;
        let most = PATIENCE + Duration::from_secs(self.bytes / LEAST_BYTES_PER_S);
        if read > 0 && self.begun.elapsed() > most {
            let why = format!("it arrives at less than {LEAST_BYTES_PER_S} bytes a second");
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        Ok(read)
    }
}

/// A blob whose transfer resumes after an interruption.
struct Resuming {
    client: Rc<Client>,
    digest: Digest,
    size: Option<u64>,
    at: u64,
    body: BodyReader<'static>,
    breaks: u32,
}

impl Resuming {
    fn resume(&mut self) -> io::Result<()> {
        let answer = self
            .client
            .blob(self.digest, self.at)
            .map_err(io::Error::other)?;
        let whole = answer.status() == 200;
        self.body = answer.into_body().into_reader();
        if whole {
            // The registry ignored the range and sends the whole blob: skip the bytes that were read already.
            let passed = io::copy(&mut (&mut self.body).take(self.at), &mut io::sink())?;
            if passed < self.at {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }
}

impl Read for Resuming {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let broken = match self.body.read(into) {
                Ok(0) if !into.is_empty() && self.size.is_some_and(|size| self.at < size) => {
                    io::ErrorKind::UnexpectedEof.into()
                }
                Ok(n) => {
                    self.at += n as u64;
                    return Ok(n);
                }
                Err(error) => error,
            };
            self.breaks += 1;
            if self.breaks > MOST_BREAKS {
                return Err(broken);
            }
            self.resume()?;
        }
    }
}

/// A fetched document, as it came.
struct Fetched {
    kind: String,
    digest: Digest,
    bytes: Vec<u8>,
}

/// A repository of a registry.
struct Client {
    agent: Agent,
    registry: String,
    base: String,
    is_local: bool,
    token: RefCell<Option<String>>,
}

type Answer = ureq::http::Response<Body>;

impl Client {
    fn new(reference: &Reference) -> Result<Self, Fault> {
        let registry = match reference.registry() {
            "docker.io" => "registry-1.docker.io",
            other => other,
        };
        let is_local = is_this_machine(registry);
        let scheme = if is_local { "http" } else { "https" };
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .https_only(!is_local)
            .user_agent(concat!("constel/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT_WITHIN))
            .timeout_recv_response(Some(SILENCE))
            .timeout_per_read(Some(SILENCE));
        if is_local {
            config = config.proxy(None);
        } else {
            let trusted = trusted()?;
            let tls = TlsConfig::builder().root_certs(trusted).build();
            config = config.tls_config(tls);
        }
        Ok(Self {
            agent: config.build().new_agent(),
            registry: registry.to_owned(),
            base: format!("{scheme}://{registry}/v2/{}", reference.repository()),
            is_local,
            token: RefCell::new(None),
        })
    }

    fn fault(&self, reason: impl Into<String>) -> Fault {
        Fault::Registry {
            registry: self.registry.clone(),
            reason: reason.into(),
        }
    }

    fn document(&self, wanted: &str, limits: &Limits) -> Result<Fetched, Fault> {
        let accept = [MANIFESTS, INDEXES].concat().join(", ");
        let answer = self.get(&format!("manifests/{wanted}"), Some(&accept), 0)?;
        let text = |name: &str| {
            let value = answer.headers().get(name)?.to_str().ok()?;
            Some(value.to_owned())
        };
        let kind = text("content-type").unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_owned();
        let stated = text("docker-content-digest");
        let content = Paced::new(answer.into_body().into_reader());
        let bytes = read_whole("the manifest", content, limits)?;
        let digest = Digest::of(&bytes);
        if let Some(stated) = stated {
            verify_digest("the manifest", digest, stated.parse()?)?;
        }
        Ok(Fetched {
            kind,
            digest,
            bytes,
        })
    }

    fn blob(&self, digest: Digest, from: u64) -> Result<Answer, Fault> {
        self.get(&format!("blobs/{digest}"), None, from)
    }

    fn get(&self, path: &str, accept: Option<&str>, from: u64) -> Result<Answer, Fault> {
        let mut asked_for_token = false;
        loop {
            let mut request = self.agent.get(format!("{}/{path}", self.base));
            if let Some(accept) = accept {
                request = request.header("Accept", accept);
            }
            if from > 0 {
                request = request.header("Range", format!("bytes={from}-"));
            }
            if let Some(token) = &*self.token.borrow() {
                request = request.header("Authorization", format!("Bearer {token}"));
            }
            let answer = request.call();
            let answer = answer.map_err(|e| self.fault(format!("cannot be reached: {e}")))?;
            match answer.status().as_u16() {
                200 | 206 => return Ok(answer),
                401 if !asked_for_token => {
                    asked_for_token = true;
                    let challenge = answer.headers().get("www-authenticate");
                    let challenge = challenge.and_then(|c| c.to_str().ok()).unwrap_or_default();
                    self.ask_for_token(challenge)?;
                }
                401 | 403 => {
                    let advice = "gives no access without credentials, which are not sent; let an engine pull it, \
                                  and import docker-daemon:NAME";
                    return Err(self.fault(advice));
                }
                404 => return Err(self.fault(format!("has no {path}"))),
                status => {
                    let said = refusal(answer);
                    return Err(self.fault(format!("refuses ({status}): {said}")));
                }
            }
        }
    }

    /// Requests a token for reading from the server that the registry names.
    fn ask_for_token(&self, challenge: &str) -> Result<(), Fault> {
        let challenge = Challenge::parse(challenge, self.is_local).map_err(|e| self.fault(e))?;
        let mut request = self.agent.get(&challenge.realm);
        for (key, value) in &challenge.query {
            request = request.query(key, value);
        }
        let answer = request.call();
        let answer = answer.map_err(|e| self.fault(format!("gives no token: {e}")))?;
        if answer.status() != 200 {
            let status = answer.status();
            return Err(self.fault(format!("gives no token ({status}): {}", refusal(answer))));
        }
        let content = Paced::new(answer.into_body().into_reader());
        let bytes = read_whole("the token", content, &Limits::default())?;
        let token = token(&bytes)?.ok_or_else(|| self.fault("gives no valid token"))?;
        *self.token.borrow_mut() = Some(token);
        Ok(())
    }
}

/// Returns the message of a refusal.
fn refusal(answer: Answer) -> String {
    let mut said = Vec::new();
    let read = answer
        .into_body()
        .into_reader()
        .take(MOST_ERROR)
        .read_to_end(&mut said);
    let document: Option<serde_json::Value> = serde_json::from_slice(&said).ok();
    let message = document
        .as_ref()
        .and_then(|d| d["errors"][0]["message"].as_str());
    match (read, message) {
        (_, Some(message)) => shown(message.as_bytes()),
        (Ok(_), None) => shown(&said),
        (Err(error), None) => error.to_string(),
    }
}

/// Maximum bytes of certificates; all those that browsers trust have about 250 KB.
const MOST_PEM_BYTES: u64 = 16 << 20;

/// Returns the certificates that this machine trusts; if it has none, those of browsers.
fn trusted() -> Result<RootCerts, Fault> {
    let named = std::env::var_os("SSL_CERT_FILE").map(std::path::PathBuf::from);
    let mut usual = TRUSTED.iter().map(std::path::PathBuf::from);
    let Some(path) = named.or_else(|| usual.find(|path| path.exists())) else {
        return Ok(RootCerts::WebPki);
    };
    let pem = files::read(&path, MOST_PEM_BYTES)
        .map_err(Fault::io(format!("read {}", path.display())))?;
    let certificates = parse_pem(&pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    Ok(RootCerts::from(certificates))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_drips_is_given_up() {
        let since = |seconds| {
            Instant::now()
                .checked_sub(Duration::from_secs(seconds))
                .unwrap()
        };
        let mut body = Paced::new(io::repeat(7));
        let mut piece = [0; 4_000];
        body.begun = since(119);
        assert_eq!(body.read(&mut piece[..1]).unwrap(), 1);
        body.begun = since(121);
        let error = body.read(&mut piece[..1]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        // One kilobyte a second is enough.
        assert_eq!(body.read(&mut piece).unwrap(), piece.len());
        body.begun = since(125);
        assert!(body.read(&mut piece[..1]).is_err());
        // The end is no byte.
        let mut empty = Paced::new(io::empty());
        empty.begun = since(1_000);
        assert_eq!(empty.read(&mut piece).unwrap(), 0);
    }
}
