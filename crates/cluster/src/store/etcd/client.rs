//! One request to the first member that answers.

use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use ureq::tls::{ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body, Timeout};

use crate::store::address::{Address, Credentials, Tls};
use crate::store::error::{Error, Result};
use crate::store::model::LeaseId;

/// A member that sends nothing for this time is abandoned.
pub(super) const SILENCE: Duration = Duration::from_secs(2);

/// A member that does not accept a connection within this time is abandoned.
const CONNECT_WITHIN: Duration = Duration::from_secs(1);

/// Maximum size of an answer. All real answers are smaller.
pub(super) const MOST_ANSWER_BYTES: u64 = 64 << 20;

/// Maximum size of a refusal. All real refusals are smaller.
const MOST_REFUSAL_BYTES: u64 = 64 << 10;

/// Whether a request may be repeated when its outcome is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Twice {
    Harmless,
    Harmful,
}

pub(super) struct Client {
    questions: Agent,
    streams: Agent,
    members: Vec<String>,
    /// The member that answered last.
    preferred: AtomicUsize,
    credentials: Option<(String, String)>,
    token: Mutex<Option<String>>,
}

/// The result of a request to one member.
enum Answered {
    Well(Box<Answer>),
    /// The member did not receive the request.
    NotAsked(String),
    /// The member received the request, and its outcome is unknown.
    Silent(String),
    /// The member requires authentication.
    Stranger(String),
    /// The member refused the request.
    Refused(Error),
}

pub(super) type Answer = ureq::http::Response<Body>;

impl Client {
    pub(super) fn new(address: &Address) -> Result<Self> {
        let tls = address.tls.as_ref().map(tls_config).transpose()?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let config = || {
            let config = Agent::config_builder()
                .http_status_as_error(false)
                .https_only(tls.is_some())
                .proxy(None)
                .max_redirects(0)
                .user_agent(concat!("constel/", env!("CARGO_PKG_VERSION")))
                .timeout_connect(Some(CONNECT_WITHIN));
            match &tls {
                Some(tls) => config.tls_config(tls.clone()),
                None => config,
            }
        };
        let questions = config().timeout_global(Some(SILENCE)).build();
        let streams = config()
            .timeout_recv_response(Some(SILENCE))
            .timeout_per_read(Some(SILENCE))
            .build();
        Ok(Self {
            questions: questions.new_agent(),
            streams: streams.new_agent(),
            members: address
                .members
                .iter()
                .map(|member| format!("{scheme}://{member}/v3"))
                .collect(),
            preferred: AtomicUsize::new(0),
            credentials: address.credentials.as_ref().map(password).transpose()?,
            token: Mutex::new(None),
        })
    }

    pub(super) fn members(&self) -> usize {
        self.members.len()
    }

    /// Sends a request to the member that answered last, then to the others.
    pub(super) fn ask(&self, what: &str, question: &Value, twice: Twice) -> Result<Value> {
        // A member that has just answered most likely answers again; a dead one would cost its timeout each time.
        let first = self.preferred.load(Ordering::Relaxed);
        let mut reasons = Vec::new();
        // A single member gets the request twice: its disk may have been busy, and there is no other.
        for turn in 0..self.members.len().max(2) {
            let member = (first + turn) % self.members.len();
            let read = match self.ask_member(&self.questions, member, what, question)? {
                Answered::Well(answer) => whole(*answer),
                Answered::Refused(error) => return Err(error),
                // The request was not executed here, so the next member may try it even if repetition is harmful.
                Answered::NotAsked(reason) => {
                    reasons.push(format!("{}: {reason}", self.members[member]));
                    continue;
                }
                Answered::Silent(reason) | Answered::Stranger(reason) => Err(reason),
            };
            match read {
                Ok(value) => {
                    self.preferred.store(member, Ordering::Relaxed);
                    return Ok(value);
                }
                Err(reason) => {
                    // The next request starts at another member, whatever the result of this one.
                    self.preferred
                        .store((member + 1) % self.members.len(), Ordering::Relaxed);
                    let reason = format!("{}: {reason}", self.members[member]);
                    // The member may have executed the request before it fell silent, and a second execution has
                    // another result.
                    if twice == Twice::Harmful {
                        return Err(Error::Uncertain(reason));
                    }
                    reasons.push(reason);
                }
            }
        }
        reasons.dedup();
        Err(Error::Unreachable(reasons.join("; ")))
    }

    /// Opens a stream of one member.
    pub(super) fn stream(&self, member: usize, what: &str, question: &Value) -> Result<Answer> {
        match self.ask_member(&self.streams, member, what, question)? {
            Answered::Well(answer) => Ok(*answer),
            Answered::Refused(error) => Err(error),
            Answered::NotAsked(reason) | Answered::Silent(reason) | Answered::Stranger(reason) => {
                Err(Error::Unreachable(format!(
                    "{}: {reason}",
                    self.members[member]
                )))
            }
        }
    }

    /// Sends a request to one member. Authenticates if the member requires it.
    fn ask_member(
        &self,
        agent: &Agent,
        member: usize,
        what: &str,
        question: &Value,
    ) -> Result<Answered> {
        let known = self
            .token
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        // The first request has no token, and tokens expire. In both cases the member requires authentication.
        let answered = self.once(agent, member, what, question, known.as_deref());
        let (Answered::Stranger(said), Some((user, password))) = (&answered, &self.credentials)
        else {
            return match answered {
                Answered::Stranger(said) => Err(Error::Denied(said)),
                other => Ok(other),
            };
        };
        let who = json!({"name": user, "password": password});
        let token = match self.once(&self.questions, member, "auth/authenticate", &who, None) {
            Answered::Well(answer) => match whole(*answer) {
                Ok(answer) => answer["token"].as_str().map(str::to_owned),
                Err(reason) => return Ok(Answered::NotAsked(reason)),
            },
            Answered::Stranger(said) => return Err(Error::Denied(said)),
            Answered::Refused(error) => return Err(error),
            // The member did not receive the request itself, only the authentication.
            Answered::Silent(reason) | Answered::NotAsked(reason) => {
                return Ok(Answered::NotAsked(reason));
            }
        };
        let token = token.ok_or_else(|| Error::Answer("no token for our password".to_owned()))?;
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
        match self.once(agent, member, what, question, Some(&token)) {
            Answered::Stranger(_) => Err(Error::Denied(said.clone())),
            other => Ok(other),
        }
    }

    fn once(
        &self,
        agent: &Agent,
        member: usize,
        what: &str,
        question: &Value,
        token: Option<&str>,
    ) -> Answered {
        let mut request = agent
            .post(format!("{}/{what}", self.members[member]))
            .header("Content-Type", "application/json");
        // etcd expects the token alone, without a scheme such as `Bearer`.
        if let Some(token) = token {
            request = request.header("Authorization", token);
        }
        let answer = match request.send(question.to_string()) {
            Ok(answer) => answer,
            Err(error) if never_sent(&error) => return Answered::NotAsked(error.to_string()),
            Err(error) => return Answered::Silent(error.to_string()),
        };
        if answer.status() == 200 {
            return Answered::Well(Box::new(answer));
        }
        let status = answer.status();
        match refusal_of(answer) {
            Ok(said) => refusal(&said),
            Err(reason) => Answered::Silent(format!("{status}: {reason}")),
        }
    }
}

/// Returns whether the member cannot have received the request.
fn never_sent(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect)
        | ureq::Error::Rustls(_)
        | ureq::Error::Tls(_) => true,
        // The TLS handshake precedes the request.
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
            error.to_string().starts_with("invalid peer certificate")
        }
        // After any other error of the connection the request may have arrived.
        ureq::Error::Io(error) => matches!(
            error.kind(),
            io::ErrorKind::ConnectionRefused
                | io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkUnreachable
                | io::ErrorKind::AddrNotAvailable
        ),
        _ => false,
    }
}

/// Converts a refusal. The codes are gRPC's. Texts are compared where etcd has one code for several errors.
fn refusal(said: &Value) -> Answered {
    let text = ["error", "message"]
        .iter()
        .find_map(|field| said[*field].as_str());
    let text = text.unwrap_or("an error without words").to_owned();
    let code = said["code"].as_u64().unwrap_or(2);
    let is = |words: &str| text.contains(words);
    match code {
        16 => Answered::Stranger(text),
        _ if is("invalid auth token") || is("user name is empty") || is("auth store is old") => {
            Answered::Stranger(text)
        }
        _ if is("lease not found") => Answered::Refused(Error::LeaseLost(LeaseId(0))),
        _ if is("has been compacted") => Answered::Refused(Error::Compacted { oldest: 0 }),
        7 => Answered::Refused(Error::Denied(text)),
        _ if is("authentication failed") => Answered::Refused(Error::Denied(text)),
        8 if is("space exceeded") => Answered::Refused(Error::Full(text)),
        8 => Answered::Refused(Error::Denied(text)),
        3 | 5 | 11 => Answered::Refused(Error::Invalid(text)),
        // Deadline, unavailable, and all errors of a member that has no leader.
        _ => Answered::Silent(text),
    }
}

fn whole(answer: Answer) -> std::result::Result<Value, String> {
    read(answer, MOST_ANSWER_BYTES)
}

/// Reads the reason of a refusal. A stream has no total time limit, but this answer is not a stream.
fn refusal_of(answer: Answer) -> std::result::Result<Value, String> {
    read(answer, MOST_REFUSAL_BYTES)
}

fn read(answer: Answer, most_bytes: u64) -> std::result::Result<Value, String> {
    let until = Instant::now() + SILENCE;
    let mut bytes = Vec::new();
    let mut reader = answer.into_body().into_reader().take(most_bytes + 1);
    let mut piece = vec![0; 64 << 10];
    loop {
        match reader.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => bytes.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.to_string()),
        }
        // A limit for each read is not enough: a member that sends one byte at a time would hold the caller for ever.
        if Instant::now() > until {
            return Err(format!("its answer did not come within {SILENCE:?}"));
        }
    }
    if bytes.len() as u64 > most_bytes {
        return Err(format!("an answer beyond {most_bytes} bytes"));
    }
    serde_json::from_slice(&bytes).map_err(|_| "an answer that is no JSON".to_owned())
}

fn read_file(path: &Path) -> Result<Vec<u8>> {
    // The limit fits certificates, keys and passwords.
    constel_units::files::read(path, 1 << 20)
        .map_err(|e| Error::Invalid(format!("{}: {e}", path.display())))
}

fn password(credentials: &Credentials) -> Result<(String, String)> {
    let password = match (&credentials.password, &credentials.password_file) {
        (Some(password), _) => password.clone(),
        (None, Some(path)) => {
            let text = String::from_utf8(read_file(path)?)
                .map_err(|_| Error::Invalid(format!("{}: no text", path.display())))?;
            text.trim_end_matches(['\r', '\n']).to_owned()
        }
        (None, None) => return Err(Error::Invalid("a user without a password".to_owned())),
    };
    Ok((credentials.user.clone(), password))
}

fn tls_config(tls: &Tls) -> Result<TlsConfig> {
    let mut config = TlsConfig::builder();
    if let Some(path) = &tls.authorities {
        let found: Vec<_> = certificates(path)?;
        config = config.root_certs(RootCerts::from(found));
    }
    if let Some((cert, key)) = &tls.identity {
        let chain = certificates(cert)?;
        let key = PrivateKey::from_pem(&read_file(key)?)
            .map_err(|e| Error::Invalid(format!("{}: {e}", key.display())))?;
        config = config.client_cert(Some(ClientCert::new_with_certs(&chain, key)));
    }
    Ok(config.build())
}

fn certificates(path: &Path) -> Result<Vec<ureq::tls::Certificate<'static>>> {
    let bytes = read_file(path)?;
    let found: Vec<_> = parse_pem(&bytes)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if found.is_empty() {
        return Err(Error::Invalid(format!(
            "{}: has no certificate",
            path.display()
        )));
    }
    Ok(found)
}
